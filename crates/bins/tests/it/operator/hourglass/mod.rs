//! Performers and executors under the real program, with the rights that ship, over HTTP to the API server double.

mod endpoints;
mod explain;
mod fixture;
mod life;
mod machines;
mod real;
mod release;
mod secrets;
mod start;
