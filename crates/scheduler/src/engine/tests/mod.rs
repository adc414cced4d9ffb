//! Tests of the engine by rule of the contract.

mod attempts;
mod bed;
mod division;
mod laws;
mod workers;
