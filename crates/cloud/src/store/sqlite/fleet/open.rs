//! Opening the file: the lock that keeps a second server out, the settings of the connections. Owns everything that happens
//! before the first request.

use std::path::{Path, PathBuf};
use std::time::Duration;

use orlop_core::error::{Class, Problem};
use rusqlite::{Connection, OpenFlags};

use super::schema::FLEET;
use super::stamp::Stamp;
use crate::store::sqlite::error::classify_of;
use crate::store::sqlite::open::{Lock, lock, sync_folder};

/// How long a statement waits for a lock that another process holds for a moment.
const PATIENCE: Duration = Duration::from_secs(5);
/// Statements kept prepared by each connection.
const STATEMENTS: usize = 128;

/// When a commit counts as written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When it is on disk: it survives a loss of power. The default.
    #[default]
    Full,
    /// When the system has it: it survives the end of the process; a loss of power can take the last commits back, whole.
    Normal,
}

/// Settings of a writing connection beside `synchronous`.
const SETTINGS: &str = "
    PRAGMA fullfsync = ON;
    PRAGMA checkpoint_fullfsync = ON;
    PRAGMA journal_size_limit = 67108864;
    PRAGMA wal_autocheckpoint = 4000;
    PRAGMA cache_size = -65536;
    PRAGMA temp_store = MEMORY;
    PRAGMA trusted_schema = OFF;
    PRAGMA cell_size_check = ON;
";

/// The writing side of an open file.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) path: PathBuf,
    pub(super) connection: Connection,
    pub(super) stamp: Stamp,
    /// Let go of after the connection is closed.
    _lock: Lock,
}

/// Opens the file for its server. `accept`: also one that is not the one that was here.
pub(super) fn writer(path: &Path, durability: Durability, accept: bool) -> Result<Writer, Problem> {
    let lock = lock(FLEET.noun, path)?;
    let sqlite = |error: rusqlite::Error| classify_of(FLEET.noun, path, "opening", &error);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(sqlite)?;
    connection.busy_timeout(PATIENCE).map_err(sqlite)?;
    let mode: String =
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0)).map_err(sqlite)?;
    if mode != "wal" {
        let message = format!(
            "the file system of fleet store {} cannot share memory between processes; put it on a local disk",
            path.display()
        );
        return Err(Problem::new(Class::Invalid, message));
    }
    connection.execute_batch(SETTINGS).map_err(sqlite)?;
    let synchronous = if durability == Durability::Full { "FULL" } else { "NORMAL" };
    connection.pragma_update(None, "synchronous", synchronous).map_err(sqlite)?;
    FLEET.migrate(path, &mut connection)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    sync_folder(FLEET.noun, path)?;
    let stamp = Stamp::open(path, &mut connection, accept)?;
    Ok(Writer { path: path.to_owned(), connection, stamp, _lock: lock })
}

/// A connection that only reads, beside the writer.
pub(super) fn reader(path: &Path) -> Result<Connection, Problem> {
    let sqlite = |error: rusqlite::Error| classify_of(FLEET.noun, path, "opening", &error);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(sqlite)?;
    connection.busy_timeout(PATIENCE).map_err(sqlite)?;
    let settings = "PRAGMA query_only = ON; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;";
    connection.execute_batch(settings).map_err(sqlite)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(connection)
}
