//! How a verb of the fleet ends: exit codes of chapter 10, and errors for people. Owns the mapping from codes of problems.

use super::super::failure;
use crate::wire::problem::{Code, Problem};

/// How a verb ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    /// Done.
    Done,
    /// A job failed.
    Failed,
    /// Usage.
    Usage,
    /// The server refused it.
    Refused,
    /// No server can be reached.
    Unreachable,
    /// A quota or a rate is used up.
    Quota,
    /// `--timeout` is over.
    TimedOut,
    /// Interrupted.
    Interrupted,
    /// The job's own exit code.
    Job(u8),
}

impl Exit {
    /// The code of the process.
    pub(super) const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Refused => 3,
            Self::Unreachable => 4,
            Self::Quota => 5,
            Self::TimedOut => 124,
            Self::Interrupted => 130,
            Self::Job(code) => code,
        }
    }
}

/// A verb that could not do what was asked.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(super) struct Trouble {
    pub(super) exit: Exit,
    pub(super) message: String,
    /// What the server said, if it said it.
    pub(super) code: Option<Code>,
}

impl Trouble {
    pub(super) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), code: None }
    }

    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    pub(super) fn unreachable(message: impl Into<String>) -> Self {
        Self::new(Exit::Unreachable, message)
    }

    /// What the server answered in place of what was asked.
    pub(super) fn of(problem: &Problem) -> Self {
        let exit = match problem.code {
            Code::QuotaExceeded | Code::RateLimited => Exit::Quota,
            Code::NotLeader | Code::StoreUnavailable | Code::Deadline => Exit::Unreachable,
            _ => Exit::Refused,
        };
        let mut message = problem.detail.clone();
        if problem.errors.len() > 1 {
            for error in &problem.errors {
                message.push_str(&format!("\n  {}: {}", error.path, error.message));
            }
        }
        if let Some(hint) = super::hint::of_problem(problem.code) {
            message.push_str(&format!("; {hint}"));
        }
        Self { exit, message, code: Some(problem.code) }
    }

    /// Whether another try may help.
    pub(super) fn is_passing(&self) -> bool {
        self.exit == Exit::Unreachable
    }
}

impl From<failure::Failure> for Trouble {
    fn from(failure: failure::Failure) -> Self {
        let exit = match failure.exit {
            failure::Exit::Usage | failure::Exit::NotFound => Exit::Usage,
            failure::Exit::Refused | failure::Exit::Conflict | failure::Exit::Denied => Exit::Refused,
            failure::Exit::Interrupted => Exit::Interrupted,
            _ => Exit::Unreachable,
        };
        Self::new(exit, failure.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s10_exit_codes_of_problems() {
        let row = |code: &Code| format!("{code} {}", Trouble::of(&Problem::new(*code, "x")).exit.code());
        let table: Vec<String> = Code::ALL.iter().map(row).collect();
        insta::assert_snapshot!(table.join("\n"), @r"
        invalid-spec 3
        unauthenticated 3
        forbidden 3
        not-found 3
        conflict 3
        precondition 3
        too-large 3
        media-type 3
        never-fits 3
        idempotency-mismatch 3
        checksum 3
        quota-exceeded 5
        rate-limited 5
        internal 3
        not-leader 4
        store-unavailable 4
        deadline 4
        ");
    }
}
