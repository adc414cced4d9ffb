//! Tests of the agent against a server that does what each test says.

mod fixture;
mod life;
mod trouble;
