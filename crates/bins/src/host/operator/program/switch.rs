//! Flags whose values are few: which controllers, whether leases are held, the form of the log.

use clap::ValueEnum;
use serde::Serialize;

use super::super::Which;

/// A controller, as the flag names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(super) enum Switch {
    /// Flows: objects of the kind JobFlow
    Jobflow,
    /// Performers: objects of the kind Performer
    Performer,
    /// Executors: objects of the kind HourglassExecutor
    Executor,
}

impl Switch {
    /// The controller.
    pub(super) const fn which(self) -> Which {
        match self {
            Self::Jobflow => Which::JobFlow,
            Self::Performer => Which::Performer,
            Self::Executor => Which::Executor,
        }
    }
}

/// Whether leases are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Mode {
    /// They are
    Builtin,
    /// They are not
    Disabled,
}

/// Form of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(super) enum LogFormat {
    /// JSON, an object a line
    Json,
    /// Text
    Text,
}
