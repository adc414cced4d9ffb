//! Errors: one type, [`Problem`], from engines and adapters to the command line, REST and gRPC. Its [`Class`] says what a caller
//! should do next, its [`Code`] is what programs read, with the statuses of HTTP and gRPC.

mod code;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use code::Code;
use serde::{Deserialize, Serialize};

/// The kind of an error, and with it what a caller should do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Time-out, overload, lost connection: try again after an exponential delay with jitter, a bounded number of times.
    Transient,
    /// The object was changed meanwhile: read it again and retry at once, a bounded number of times.
    Conflict,
    /// The request can never succeed as written: report it, and try again only when it was changed.
    Invalid,
    /// No room or no quota: wait, show the reason, and try again when something becomes free.
    Capacity,
    /// The object does not exist: take that as the answer, or create it.
    NotFound,
    /// An object of that name already exists: use it if it is yours, else report whose it is.
    Exists,
    /// Not allowed: report it, and do not retry by yourself.
    Denied,
    /// A broken invariant: stop working on this object, keep all others running, and report it.
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

/// The message of an error and those of all its causes, joined by `: `. A cause whose message the error above it already contains is left out.
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

/// The innermost cause of an error, which is what people can act on; the error itself where it has none.
///
/// ```
/// use orlop_core::error::innermost;
/// let error = std::io::Error::other("no room");
/// assert_eq!(innermost(&error).to_string(), "no room");
/// ```
#[must_use]
pub fn innermost<'a>(mut error: &'a (dyn std::error::Error + 'static)) -> &'a (dyn std::error::Error + 'static) {
    while let Some(cause) = error.source() {
        error = cause;
    }
    error
}

/// The path of an error that says that there is no such flow.
pub const FLOW: &str = "flow";
/// The path of errors about values that are given for the parameters of a flow.
pub const PARAMETERS: &str = "parameters";

/// One field that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FieldError {
    /// Where, such as `jobs[3].resources.cpu_m`.
    pub path: String,
    /// What is wrong and what to do.
    pub message: String,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.message),
            path => write!(f, "{path}: {}", self.message),
        }
    }
}

/// A limit that stopped a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaUse {
    /// Its name, such as `max_pending_jobs`.
    pub name: String,
    /// The limit.
    pub limit: u64,
    /// What there would be.
    pub used: u64,
}

/// Details that few errors have, all about a call to a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallDetails {
    /// The limit that refused it.
    pub quota: Option<QuotaUse>,
    /// Id of the request.
    pub instance: Option<String>,
    /// Where the leader is, beside [`Code::NotLeader`]: the address of its REST interface and, after a blank, that of its
    /// gRPC services, where they differ.
    pub leader: Option<String>,
}

/// An error of Orlop, from engines and adapters to the command line, REST and gRPC.
///
/// ```
/// use orlop_core::error::{Class, Code, Problem};
/// let problem = Problem::coded(Code::NotFound, "there is no job j0000000000001");
/// assert_eq!((problem.class, problem.code.http()), (Class::NotFound, 404));
/// assert_eq!(Problem::new(Class::Denied, "the file cannot be read").code, Code::Forbidden);
/// ```
#[derive(Clone, Debug)]
pub struct Problem {
    /// The code for programs, with the statuses of HTTP and gRPC.
    pub code: Code,
    /// What a caller should do next.
    pub class: Class,
    /// What is wrong, where, and what to do; never holds a secret.
    pub message: String,
    /// The wrong fields, where the error is about a request or a document.
    pub fields: Vec<FieldError>,
    /// A reason where the code says too little: a step reason such as `Unschedulable`.
    pub reason: Option<&'static str>,
    /// How long to wait before another try, if the other side said so.
    pub retry_after: Option<Duration>,
    /// What caused it.
    pub source: Option<Arc<dyn std::error::Error + Send + Sync>>,
    /// Details of the call that failed.
    pub details: Option<Box<CallDetails>>,
}

impl Problem {
    /// An error of a class with a message.
    #[must_use]
    pub fn new(class: Class, message: impl Into<String>) -> Self {
        Self { class, ..Self::coded(class.into(), message) }
    }

    /// An error of a code with a message.
    #[must_use]
    pub fn coded(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            class: code.class(),
            message: message.into(),
            fields: Vec::new(),
            reason: None,
            retry_after: None,
            source: None,
            details: None,
        }
    }

    /// A request or document with one wrong field.
    #[must_use]
    pub fn field(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self::invalid(vec![FieldError { path: path.into(), message: message.into() }])
    }

    /// A request or document with wrong fields.
    #[must_use]
    pub fn invalid(fields: Vec<FieldError>) -> Self {
        let message = match fields.as_slice() {
            [only] => only.to_string(),
            several => format!("{} fields are not valid", several.len()),
        };
        Self { fields, ..Self::coded(Code::InvalidSpec, message) }
    }

    /// The same error with what caused it.
    #[must_use]
    pub fn because(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(Arc::from(source.into()));
        self
    }

    /// The same error with a reason for programs.
    #[must_use]
    pub fn with_reason(mut self, reason: &'static str) -> Self {
        self.reason = Some(reason);
        self
    }

    /// The same error, with how long to wait before another try.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// The same error with one more wrong field.
    #[must_use]
    pub fn at_field(mut self, path: impl Into<String>, message: impl Into<String>) -> Self {
        self.fields.push(FieldError { path: path.into(), message: message.into() });
        self
    }

    /// The same error with the limit that refused the request.
    #[must_use]
    pub fn with_quota(mut self, quota: QuotaUse) -> Self {
        self.details_mut().quota = Some(quota);
        self
    }

    /// Details of the call that failed; all absent where there are none.
    #[must_use]
    pub fn details(&self) -> &CallDetails {
        static NONE: CallDetails = CallDetails { quota: None, instance: None, leader: None };
        self.details.as_deref().unwrap_or(&NONE)
    }

    /// Details of the call that failed, to be changed.
    pub fn details_mut(&mut self) -> &mut CallDetails {
        self.details.get_or_insert_default()
    }

    /// The message and those of all causes, joined by `: `.
    #[must_use]
    pub fn chain(&self) -> String {
        chain(self)
    }
}

impl PartialEq for Problem {
    /// By what is said: its cause, of which only the text is known, counts as part of it.
    fn eq(&self, other: &Self) -> bool {
        (self.code, self.class, &self.fields, self.reason, self.retry_after)
            == (other.code, other.class, &other.fields, other.reason, other.retry_after)
            && self.details() == other.details()
            && self.chain() == other.chain()
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Problem {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

impl From<std::io::Error> for Problem {
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
        let class = |kind| Problem::from(std::io::Error::from(kind)).class;
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
        let error =
            Problem::new(Class::Transient, "writing the journal failed").because(std::io::Error::other("disk on fire"));
        assert_eq!(error.chain(), "writing the journal failed: disk on fire");
    }
}
