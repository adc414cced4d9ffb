//! Databases for the journal of flows (port `orlop_core::ports::journal`) and the fleet's store (port `orlop_core::ports::fleet_store`).

#[cfg(all(feature = "fleet", any(feature = "sqlite", feature = "postgres")))]
mod fleet;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "sqlite")]
pub mod sqlite;
