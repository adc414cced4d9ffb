//! Stores in PostgreSQL, one folder a port.

pub mod fleet;
