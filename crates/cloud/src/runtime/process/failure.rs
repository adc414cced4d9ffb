//! What went wrong inside the runtime: what the system said, and what it was doing.

use std::io;

use orlop_core::error::Problem;

/// An operation of the system that failed.
#[derive(Debug, thiserror::Error)]
#[error("{source}, while {doing}")]
pub(crate) struct Failure {
    /// What was tried, on what.
    pub(crate) doing: String,
    /// What the system said.
    #[source]
    pub(crate) source: io::Error,
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        let mut error = Self::from(failure.source);
        error.message = format!("{}, while {}", error.message, failure.doing);
        error
    }
}

/// Says what was tried.
pub(crate) trait During<T> {
    /// The same result, the error with what was tried.
    fn during(self, doing: impl FnOnce() -> String) -> Result<T, Failure>;
}

impl<T, E: Into<io::Error>> During<T> for Result<T, E> {
    fn during(self, doing: impl FnOnce() -> String) -> Result<T, Failure> {
        self.map_err(|error| Failure { doing: doing(), source: error.into() })
    }
}
