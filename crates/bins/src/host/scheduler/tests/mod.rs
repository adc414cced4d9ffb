//! The server in this process: on a store in memory, under a clock that tests drive, with agents that do what tests say.

mod access;
mod agent;
mod audit;
mod crash;
mod events;
pub(super) mod fixture;
mod grpc;
mod life;
mod logs;
mod place;
mod reports;
mod throughput;
mod trouble;
