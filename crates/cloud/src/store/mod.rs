//! Stores behind the ports of the flow journal and of the fleet, one folder a database.

#[cfg(all(feature = "fleet", any(feature = "sqlite", feature = "postgres")))]
mod fleet;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "sqlite")]
pub mod sqlite;
