//! Tests of the agent against a server that does what each test says.

mod bed;
mod life;
mod trouble;
