//! How a command ends: exit codes (chapter 7 of the flow contract) and errors for people. Owns the mapping; prints nothing.

use orlop_core::error::{Class, PortError};

use crate::host::flow::{HostError, OrderError};

/// How a command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done; the flow Succeeded.
    Done = 0,
    /// The flow Failed.
    Failed = 1,
    /// Usage or configuration error.
    Usage = 2,
    /// The manifest was refused.
    Refused = 3,
    /// There is no such thing.
    NotFound = 4,
    /// Wrong state, immutable field, name taken.
    Conflict = 5,
    /// Not permitted.
    Denied = 6,
    /// The target cannot be reached.
    Unreachable = 7,
    /// Waiting timed out; the flow goes on.
    TimedOut = 8,
    /// The flow was ended by stop, terminate or Replace.
    Stopped = 9,
    /// The flow was left Paused.
    Paused = 10,
    /// Interrupted.
    Interrupted = 130,
}

/// A command that could not do what was asked.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// How the command ends.
    pub exit: Exit,
    /// What is wrong, where, and what to do.
    pub message: String,
}

impl Failure {
    /// A failure with a message.
    #[must_use]
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into() }
    }

    /// A failure of usage.
    #[must_use]
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// What could not be done, and the error of the file system.
    #[must_use]
    pub fn io(what: &str, error: &std::io::Error) -> Self {
        let class = PortError::from(std::io::Error::from(error.kind())).class;
        Self::new(exit_of(class), format!("{what}: {error}"))
    }
}

fn exit_of(class: Class) -> Exit {
    match class {
        Class::NotFound => Exit::NotFound,
        Class::Conflict | Class::Exists => Exit::Conflict,
        Class::Denied => Exit::Denied,
        Class::Invalid => Exit::Usage,
        Class::Transient | Class::Capacity | Class::Fatal => Exit::Unreachable,
    }
}

impl From<PortError> for Failure {
    fn from(error: PortError) -> Self {
        Self::new(exit_of(error.class), error.chain())
    }
}

impl From<HostError> for Failure {
    fn from(error: HostError) -> Self {
        let exit = match &error {
            HostError::Plan(_) => Exit::Refused,
            HostError::Parameter(_) => Exit::Usage,
            HostError::Journal(inner) | HostError::Admission(inner) => exit_of(inner.class),
            HostError::Unreadable(_) => Exit::Unreachable,
        };
        Self::new(exit, error.to_string())
    }
}

impl From<OrderError> for Failure {
    fn from(error: OrderError) -> Self {
        let exit = match &error {
            OrderError::NotFound(_) => Exit::NotFound,
            OrderError::Conflict(_) => Exit::Conflict,
            OrderError::Failed(_) | OrderError::Gone => Exit::Unreachable,
        };
        Self::new(exit, error.to_string())
    }
}
