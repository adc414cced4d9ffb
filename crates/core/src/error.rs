//! Error classes: what a host does next, the same in every adapter. Owns the classification and the error of ports;
//! never retries anything.

use std::fmt;
use std::time::Duration;

/// What kind of trouble an error is, and so what happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Time-out, overload, lost connection: back off exponentially with jitter, bounded.
    Transient,
    /// Somebody else changed it: read again and retry at once, bounded.
    Conflict,
    /// The request can never work as written: report it and wait for a change.
    Invalid,
    /// No room or quota: stay pending with the reason, wake on capacity.
    Capacity,
    /// It is not there: adopt that, or create it.
    NotFound,
    /// It is there already: adopt it, or say whose it is.
    Exists,
    /// Not allowed: report, no retry storm.
    Denied,
    /// A broken invariant: stop this object, keep the rest running, say so loudly.
    Fatal,
}

impl Class {
    /// Whether trying the same request again can help without anybody changing anything.
    #[must_use]
    pub const fn is_retryable(self) -> bool {
        matches!(self, Self::Transient | Self::Conflict | Self::Capacity)
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Transient => "transient",
            Self::Conflict => "conflict",
            Self::Invalid => "invalid",
            Self::Capacity => "capacity",
            Self::NotFound => "not found",
            Self::Exists => "exists",
            Self::Denied => "denied",
            Self::Fatal => "fatal",
        })
    }
}

/// The message of an error and those of all its causes, joined by `: `. One that its effect repeats is told once.
///
/// ```
/// use orlop_core::error::chain;
/// let error = std::io::Error::other("no room");
/// assert_eq!(chain(&error), "no room");
/// ```
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let words = cause.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        source = cause.source();
    }
    text
}

/// The error of every port: a class that decides what happens next, and a message for people.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct PortError {
    /// What happens next.
    pub class: Class,
    /// What is wrong, where, and what to do; never holds a secret.
    pub message: String,
    /// One word for programs where the class alone says too little: a step reason such as `Unschedulable`.
    pub reason: Option<&'static str>,
    /// How long the other side asked to wait, if it did.
    pub retry_after: Option<Duration>,
    /// What caused it.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl PortError {
    /// An error of a class with a message.
    #[must_use]
    pub fn new(class: Class, message: impl Into<String>) -> Self {
        Self { class, message: message.into(), reason: None, retry_after: None, source: None }
    }

    /// The same error with what caused it.
    #[must_use]
    pub fn because(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The same error with one word for programs.
    #[must_use]
    pub fn with_reason(mut self, reason: &'static str) -> Self {
        self.reason = Some(reason);
        self
    }

    /// The same error with the time the other side asked to wait.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// The message and those of all causes, joined by `: `.
    #[must_use]
    pub fn chain(&self) -> String {
        chain(self)
    }
}

impl From<std::io::Error> for PortError {
    fn from(error: std::io::Error) -> Self {
        use std::io::ErrorKind;
        let class = match error.kind() {
            ErrorKind::NotFound => Class::NotFound,
            ErrorKind::AlreadyExists => Class::Exists,
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Class::Denied,
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::OutOfMemory => Class::Capacity,
            ErrorKind::InvalidInput
            | ErrorKind::InvalidData
            | ErrorKind::InvalidFilename
            | ErrorKind::ArgumentListTooLong
            | ErrorKind::Unsupported => Class::Invalid,
            _ => Class::Transient,
        };
        Self::new(class, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn io_errors_keep_their_meaning() {
        let class = |kind| PortError::from(std::io::Error::from(kind)).class;
        assert_eq!(class(std::io::ErrorKind::StorageFull), Class::Capacity);
        assert_eq!(class(std::io::ErrorKind::ReadOnlyFilesystem), Class::Denied);
        assert_eq!(class(std::io::ErrorKind::ConnectionReset), Class::Transient);
        // A name that is too long stays so.
        assert_eq!(class(std::io::ErrorKind::InvalidFilename), Class::Invalid);
    }

    #[test]
    fn only_three_classes_help_by_waiting() {
        let retryable: Vec<String> = [
            Class::Transient,
            Class::Conflict,
            Class::Invalid,
            Class::Capacity,
            Class::NotFound,
            Class::Exists,
            Class::Denied,
            Class::Fatal,
        ]
        .into_iter()
        .filter(|class| class.is_retryable())
        .map(|class| class.to_string())
        .collect();
        assert_eq!(retryable, ["transient", "conflict", "capacity"]);
    }

    #[test]
    fn the_chain_names_every_cause() {
        let error = PortError::new(Class::Transient, "writing the journal failed")
            .because(std::io::Error::other("disk on fire"));
        assert_eq!(error.chain(), "writing the journal failed: disk on fire");
    }
}
