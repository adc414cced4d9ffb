//! Tests of the interface as its clients see it: requests in, answers out, over a real server on a store in memory.

mod access;
mod document;
mod fixture;
mod flows;
mod fuzz;
mod jobs;
mod limits;
mod live;
mod scope;
mod session;
mod tenants;
mod torture;
