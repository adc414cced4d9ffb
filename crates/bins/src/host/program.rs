//! Why a program that works on and on does not, and how it ends then.

use orlop_cloud::exit::Exit;
use orlop_core::error::{Class, Problem};

/// Why a program does no work.
#[derive(Debug, thiserror::Error)]
pub(in crate::host) enum ProgramError {
    /// The command line, or a question that it asks.
    #[error(transparent)]
    Usage(#[from] clap::Error),
    /// A setting, or what the program needs to work.
    #[error("{}", .0.chain())]
    Problem(#[from] Problem),
}

impl From<std::io::Error> for ProgramError {
    fn from(error: std::io::Error) -> Self {
        Self::Problem(Problem::new(Class::Fatal, error.to_string()))
    }
}

impl ProgramError {
    /// How the program ends.
    pub(in crate::host) fn exit(&self) -> Exit {
        match self {
            Self::Usage(_) => Exit::Usage,
            Self::Problem(problem) if problem.class == Class::Invalid => Exit::Usage,
            Self::Problem(_) => Exit::Failed,
        }
    }
}

/// A setting that cannot be used: its name as people give it, and why.
pub(in crate::host) fn wrong_setting(name: &str, why: impl std::fmt::Display) -> Problem {
    let why = why.to_string();
    Problem::new(Class::Invalid, format!("{name}: {why}")).at_field(name, why)
}
