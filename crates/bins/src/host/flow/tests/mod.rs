//! Tests of the host against in-memory doubles.

mod bench;
mod crash;
mod inputs;
mod life;
mod rules;
mod trouble;
