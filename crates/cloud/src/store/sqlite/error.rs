//! What trouble with the file means to a host: class, and what to do. Owns the classification only.

use std::path::Path;

use orlop_core::error::{Class, Problem};
use rusqlite::ErrorCode;

/// Why a call on a file was not carried out.
#[derive(Debug)]
pub(super) enum CallError {
    /// The port's error.
    Port(Problem),
    /// That of SQLite.
    Sqlite(rusqlite::Error),
}

impl From<Problem> for CallError {
    fn from(error: Problem) -> Self {
        Self::Port(error)
    }
}

impl From<rusqlite::Error> for CallError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl CallError {
    /// The port's error, met while `doing` something with the `noun` in the file at `path`.
    pub(super) fn into_problem(self, noun: &str, path: &Path, doing: &str) -> Problem {
        match self {
            Self::Port(error) => error,
            Self::Sqlite(error) => classify_of(noun, path, doing, &error),
        }
    }
}

/// The port's error for an error of SQLite, met while `doing` something with the journal at `path`.
pub(super) fn classify(path: &Path, doing: &str, error: &rusqlite::Error) -> Problem {
    classify_of("journal", path, doing, error)
}

/// The same for what a file holds by its `noun`.
pub(super) fn classify_of(noun: &str, path: &Path, doing: &str, error: &rusqlite::Error) -> Problem {
    let foreign = format!("the file is not a {noun}; name another file, or move it away to start anew");
    let (class, advice) = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => (Class::Capacity, "the disk is full; free some space"),
        Some(ErrorCode::ReadOnly) => {
            (Class::Denied, "the file is read-only; make it and its folder writable, or open it for viewing")
        }
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::AuthorizationForStatementDenied) => (
            Class::Denied,
            "the file cannot be opened; check that its folder exists and that both may be read and written",
        ),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            (Class::Conflict, "another process has locked the file; end that process or wait for it")
        }
        Some(ErrorCode::DatabaseCorrupt) => (
            Class::Fatal,
            "the file is damaged; keep a copy, then restore a backup, rescue it with `sqlite3 FILE .recover`, or move \
             it away to start anew",
        ),
        Some(ErrorCode::NotADatabase) => (Class::Fatal, foreign.as_str()),
        Some(ErrorCode::TooBig) => (Class::Invalid, "a value is larger than the file can hold; split the flow"),
        Some(ErrorCode::OutOfMemory) => (Class::Capacity, "there is not enough memory; free some"),
        Some(ErrorCode::SystemIoFailure) => {
            (Class::Transient, "reading or writing the file failed; check the disk and the system's log")
        }
        Some(ErrorCode::OperationInterrupted | ErrorCode::FileLockingProtocolFailed) => {
            (Class::Transient, "the file was busy; try again")
        }
        _ => (Class::Fatal, "this is a fault of Orlop; report it with this message"),
    };
    Problem::new(class, format!("{doing} {noun} {} failed: {advice} ({})", path.display(), detail(error)))
}

/// SQLite's own words, said once.
fn detail(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqliteFailure(code, Some(text)) => format!("SQLite error {}: {text}", code.extended_code),
        rusqlite::Error::SqliteFailure(code, None) => format!("SQLite error {}", code.extended_code),
        other => other.to_string(),
    }
}

/// Whether an error concerns one statement only, so that others of its transaction can stand.
pub(super) fn is_of_one_statement(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::TooBig | ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch)
    )
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    fn error(code: i32) -> Problem {
        let error = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
        classify(Path::new("flows.db"), "writing", &error)
    }

    #[test]
    fn every_trouble_has_its_class() {
        let classes = [
            (ffi::SQLITE_FULL, Class::Capacity),
            (ffi::SQLITE_NOMEM, Class::Capacity),
            (ffi::SQLITE_READONLY, Class::Denied),
            (ffi::SQLITE_READONLY_DIRECTORY, Class::Denied),
            (ffi::SQLITE_CANTOPEN, Class::Denied),
            (ffi::SQLITE_PERM, Class::Denied),
            (ffi::SQLITE_BUSY, Class::Conflict),
            (ffi::SQLITE_LOCKED, Class::Conflict),
            (ffi::SQLITE_CORRUPT, Class::Fatal),
            (ffi::SQLITE_NOTADB, Class::Fatal),
            (ffi::SQLITE_TOOBIG, Class::Invalid),
            (ffi::SQLITE_IOERR_FSYNC, Class::Transient),
            (ffi::SQLITE_ERROR, Class::Fatal),
        ];
        for (code, class) in classes {
            assert_eq!(error(code).class, class, "{code}");
        }
    }

    #[test]
    fn messages_say_what_to_do() {
        insta::assert_snapshot!(error(ffi::SQLITE_FULL), @"writing journal flows.db failed: the disk is full; free some space (SQLite error 13)");
        insta::assert_snapshot!(error(ffi::SQLITE_CORRUPT), @"writing journal flows.db failed: the file is damaged; keep a copy, then restore a backup, rescue it with `sqlite3 FILE .recover`, or move it away to start anew (SQLite error 11)");
    }
}
