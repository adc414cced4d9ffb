//! Stores behind the journal port, one folder a database.

#[cfg(feature = "sqlite")]
pub mod sqlite;
