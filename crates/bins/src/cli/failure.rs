//! A command that could not do what was asked: its exit code and a message for people.

use std::time::Duration;

pub use orlop_cloud::exit::Exit;
use orlop_core::error::{PARAMETERS, Problem};

/// A command that could not do what was asked.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// How the command ends.
    pub exit: Exit,
    /// What is wrong, where, and what to do.
    pub message: String,
    /// The same may be asked again after this time: requests came too fast.
    pub retry_after: Option<Duration>,
}

impl Failure {
    /// A failure with a message.
    #[must_use]
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), retry_after: None }
    }

    /// A failure of usage.
    #[must_use]
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// A parameter of a flow that has no value, or one that it cannot have.
    pub(super) fn parameter(problem: &Problem) -> Self {
        Self::usage(with_option(&problem.to_string()))
    }

    /// A server that does not answer, or not as one.
    #[must_use]
    pub fn unreachable(message: impl Into<String>) -> Self {
        Self::new(Exit::Unreachable, message)
    }

    /// Whether asking again may help.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        self.exit == Exit::Unreachable
    }

    /// What could not be done, and the error of the file system.
    #[must_use]
    pub fn io(what: &str, error: &std::io::Error) -> Self {
        let class = Problem::from(std::io::Error::from(error.kind())).class;
        Self::new(class.into(), format!("{what}: {error}"))
    }
}

/// A message about a parameter, with the option that gives it a value where it needs one.
fn with_option(message: &str) -> String {
    match message.strip_prefix("parameter `").and_then(|rest| rest.split_once("` needs a value")) {
        Some((name, _)) => format!("{message}; give it with -p {name}=VALUE"),
        None => message.to_owned(),
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        match problem.fields.as_slice() {
            // The values of a flow's parameters are options of a verb.
            [wrong] if wrong.path == PARAMETERS => Self::usage(with_option(&wrong.message)),
            _ => Self::new(problem.class.into(), problem.chain()),
        }
    }
}
