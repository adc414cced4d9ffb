//! Ports: what the hosts need of the world, one trait a file. Adapters implement them; the in-memory doubles and the
//! conformance suites live in `testing`.

pub mod advisor;
pub mod artifact;
pub mod bus;
pub mod clock;
pub mod fleet_store;
pub mod journal;
pub mod secret;
pub mod substrate;
