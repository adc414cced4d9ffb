//! Why a call on the file failed, and what that is to the caller of the port. Owns that translation.

use std::path::Path;

use orlop_core::error::Problem;
use rusqlite::ErrorCode;

use crate::store::sqlite::error::classify_of;

/// Why a call was not carried out.
#[derive(Debug)]
pub(super) enum FleetStoreError {
    /// The port's own answer.
    Port(Problem),
    /// The file's.
    Sqlite(rusqlite::Error),
}

impl From<Problem> for FleetStoreError {
    fn from(error: Problem) -> Self {
        Self::Port(error)
    }
}

impl From<rusqlite::Error> for FleetStoreError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl FleetStoreError {
    /// The port's error, met while `doing` something with the file at `path`.
    pub(super) fn told(self, path: &Path, doing: &str) -> Problem {
        match self {
            Self::Port(error) => error,
            Self::Sqlite(error) => classify_of("fleet store", path, doing, &error),
        }
    }
}

/// Whether a row could not be written because an equal key is there.
pub(super) fn is_double(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation)
}

/// Whether it was the key of the index of final results.
pub(super) fn is_second_final(error: &rusqlite::Error) -> bool {
    // The key of the table names more columns than these two.
    let text = match error {
        rusqlite::Error::SqliteFailure(_, Some(text)) => text.as_str(),
        _ => "",
    };
    is_double(error) && text.ends_with("attempts.job_id, attempts.idx")
}
