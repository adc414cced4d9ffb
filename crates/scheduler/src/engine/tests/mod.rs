//! Tests of the engine by rule of the contract.

mod attempts;
mod avoiding;
mod balancing;
mod counters;
mod crowding;
mod devices;
mod directing;
mod division;
mod explaining;
mod extremes;
mod fixture;
mod gangs;
mod laws;
mod members;
mod passing;
mod preempting;
mod prefilling;
mod rebuilding;
mod reserving;
mod snapshots;
mod starvation;
mod turns;
mod workers;
