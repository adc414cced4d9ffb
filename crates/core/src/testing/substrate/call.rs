//! The calls a scripted substrate has received. Owns their record and one-line form; never answers one.

use std::fmt;
use std::time::Duration;

use crate::attempt::AttemptKey;

/// A call of the substrate port, [`crate::ports::substrate::Substrate::next`] excepted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Call {
    /// `ensure_resources` for a flow uid.
    EnsureResources(String),
    /// `start`.
    Start(AttemptKey),
    /// `adopt`.
    Adopt(AttemptKey),
    /// `cancel`, and its grace.
    Cancel(AttemptKey, Option<Duration>),
    /// `suspend`.
    Suspend(AttemptKey),
    /// `resume`.
    Resume(AttemptKey),
    /// `forget`.
    Forget(AttemptKey),
    /// `list` of a flow uid.
    List(String),
}

/// Which method was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Operation {
    /// `ensure_resources`.
    EnsureResources,
    /// `start`.
    Start,
    /// `adopt`.
    Adopt,
    /// `cancel`.
    Cancel,
    /// `suspend`.
    Suspend,
    /// `resume`.
    Resume,
    /// `forget`.
    Forget,
    /// `list`.
    List,
}

impl Call {
    /// Which method was called.
    #[must_use]
    pub const fn operation(&self) -> Operation {
        match self {
            Self::EnsureResources(_) => Operation::EnsureResources,
            Self::Start(_) => Operation::Start,
            Self::Adopt(_) => Operation::Adopt,
            Self::Cancel(..) => Operation::Cancel,
            Self::Suspend(_) => Operation::Suspend,
            Self::Resume(_) => Operation::Resume,
            Self::Forget(_) => Operation::Forget,
            Self::List(_) => Operation::List,
        }
    }

    /// The attempt it was about.
    #[must_use]
    pub const fn key(&self) -> Option<&AttemptKey> {
        match self {
            Self::Start(key)
            | Self::Adopt(key)
            | Self::Cancel(key, _)
            | Self::Suspend(key)
            | Self::Resume(key)
            | Self::Forget(key) => Some(key),
            Self::EnsureResources(_) | Self::List(_) => None,
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EnsureResources => "ensure resources",
            Self::Start => "start",
            Self::Adopt => "adopt",
            Self::Cancel => "cancel",
            Self::Suspend => "suspend",
            Self::Resume => "resume",
            Self::Forget => "forget",
            Self::List => "list",
        })
    }
}

impl fmt::Display for Call {
    /// Such as `start <uid>/build/1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EnsureResources(flow) | Self::List(flow) => write!(f, "{} {flow}", self.operation()),
            Self::Cancel(key, Some(grace)) => write!(f, "cancel {key} within {grace:?}"),
            Self::Start(key)
            | Self::Adopt(key)
            | Self::Cancel(key, None)
            | Self::Suspend(key)
            | Self::Resume(key)
            | Self::Forget(key) => write!(f, "{} {key}", self.operation()),
        }
    }
}
