//! Opening the file: the lock that keeps a second host out, the connection's settings, viewing beside a host. Owns
//! everything that happens before the first request.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use orlop_core::error::{Class, Problem};
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::Access;
use super::error::classify;
use super::schema;

/// How long a statement waits for a lock another process holds for a moment.
const PATIENCE: Duration = Duration::from_secs(5);

/// Settings of a writing connection. Every commit is on disk before it is acknowledged.
const SETTINGS: &str = "
    PRAGMA synchronous = FULL;
    PRAGMA fullfsync = ON;
    PRAGMA checkpoint_fullfsync = ON;
    PRAGMA journal_size_limit = 67108864;
    PRAGMA foreign_keys = ON;
    PRAGMA trusted_schema = OFF;
    PRAGMA cell_size_check = ON;
";

/// An open file.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) path: PathBuf,
    pub(super) connection: Connection,
    /// A host's, let go of after the connection is closed.
    _lock: Option<Lock>,
}

/// The lock of a host. The system lets go of it when the process ends in any way.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    place: PathBuf,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing is not enough: a child process that is just being started has a copy of the file for a moment.
        if let Err(error) = self.file.unlock() {
            tracing::warn!(path = %self.place.display(), %error, "the lock of the file was not released");
        }
    }
}

/// Opens the file.
pub(super) fn open(path: &Path, access: Access) -> Result<Store, Problem> {
    match access {
        Access::Host => host(path),
        Access::Viewer => viewer(path),
    }
}

fn host(path: &Path) -> Result<Store, Problem> {
    let lock = lock("journal", path)?;
    let sqlite = |error: rusqlite::Error| classify(path, "opening", &error);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(sqlite)?;
    connection.busy_timeout(PATIENCE).map_err(sqlite)?;
    let mode: String =
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0)).map_err(sqlite)?;
    if mode != "wal" {
        let message = format!(
            "the file system of journal {} cannot share memory between processes; put the journal on a local disk",
            path.display()
        );
        return Err(Problem::new(Class::Invalid, message));
    }
    connection.execute_batch(SETTINGS).map_err(sqlite)?;
    schema::migrate(path, &mut connection)?;
    // The name of a new file is on disk only once its folder is.
    sync_folder("journal", path)?;
    Ok(Store { path: path.to_owned(), connection, _lock: Some(lock) })
}

fn viewer(path: &Path) -> Result<Store, Problem> {
    if let Err(error) = std::fs::metadata(path) {
        let message = format!("journal {} cannot be viewed", path.display());
        return Err(Problem::new(Problem::from(error).class, message));
    }
    let connection = match view(path, false) {
        // Viewing needs a small file beside the journal. Where that cannot be made, a journal that nobody writes and
        // that was closed in order can be read as it stands.
        Err(error) if needs_companions(&error) && !has_unread_log(path) => view(path, true),
        other => other,
    }
    .map_err(|error| classify(path, "opening", &error))?;
    schema::check(path, &connection)?;
    Ok(Store { path: path.to_owned(), connection, _lock: None })
}

fn view(path: &Path, immutable: bool) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = if immutable {
        Connection::open_with_flags(immutable_uri(path), flags | OpenFlags::SQLITE_OPEN_URI)?
    } else {
        Connection::open_with_flags(path, flags)?
    };
    connection.busy_timeout(PATIENCE)?;
    connection.execute_batch("PRAGMA query_only = ON; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;")?;
    // Nothing is opened before the first read.
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    Ok(connection)
}

fn needs_companions(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly))
}

/// Whether there are commits that are not in the file itself yet.
fn has_unread_log(path: &Path) -> bool {
    std::fs::metadata(beside(path, "-wal")).is_ok_and(|log| log.len() > 0)
}

/// A `file:` URI of any path.
fn immutable_uri(path: &Path) -> String {
    let mut uri = String::from("file:");
    for &byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' => uri.push(char::from(byte)),
            // Writing to a String cannot fail.
            _ => drop(write!(uri, "%{byte:02x}")),
        }
    }
    uri.push_str("?immutable=1");
    uri
}

/// The path with something appended to its last name.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// The file that a path leads to, whether or not it exists: links to one file have one lock.
fn followed(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    // As many links as the kernel follows.
    for _ in 0..40 {
        let Ok(target) = std::fs::read_link(&path) else { break };
        path = path.parent().map_or_else(|| target.clone(), |folder| folder.join(&target));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (std::fs::canonicalize(folder), path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path,
    }
}

/// Takes the lock of a host, or says who has it.
pub(super) fn lock(noun: &str, path: &Path) -> Result<Lock, Problem> {
    let place = beside(&followed(path), ".lock");
    let trouble = |error: std::io::Error| {
        let full = matches!(error.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded);
        let hint = if full { ": the disk is full; free some space" } else { "" };
        let message = format!("the lock {} of the {noun} cannot be taken{hint}", place.display());
        Problem::new(Problem::from(std::io::Error::from(error.kind())).class, message).because(error)
    };
    let mut file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&place).map_err(trouble)?;
    match file.try_lock() {
        Ok(()) => {
            file.set_len(0).map_err(trouble)?;
            write!(file, "{}", std::process::id()).map_err(trouble)?;
            Ok(Lock { file, place })
        }
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            // Who holds it is only said where it can be read.
            let who = match file.read_to_string(&mut holder) {
                Ok(_) if !holder.is_empty() => format!("process {}", holder.trim()),
                _ => "another process".to_owned(),
            };
            let message =
                format!("{noun} {} is hosted by {who}; end it first, or open the {noun} for viewing", path.display());
            Err(Problem::new(Class::Conflict, message).with_reason("Locked"))
        }
        Err(TryLockError::Error(error)) => Err(trouble(error)),
    }
}

pub(super) fn sync_folder(noun: &str, path: &Path) -> Result<(), Problem> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| {
        let class = Problem::from(std::io::Error::from(error.kind())).class;
        Problem::new(class, format!("folder {} of the {noun} cannot be synced", folder.display())).because(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_path_makes_a_uri() {
        let uri = immutable_uri(Path::new("/run/a b?c#%\u{e9}.db"));
        assert_eq!(uri, "file:/run/a%20b%3fc%23%25%c3%a9.db?immutable=1");
    }
}
