//! Performers and executors under the real program, with the rights that ship, over HTTP to the API server double.

mod bed;
mod explain;
mod life;
mod release;
mod secrets;
