//! One planned step: what the engine looks at while it runs. Rarely used fields stay in the spec.

use std::sync::Arc;
use std::time::Duration;

use orlop_core::backoff::Backoff;

use crate::depends::Depends;
use crate::when::Condition;

/// A planned step.
#[derive(Debug)]
pub(crate) struct StepPlan {
    /// Name.
    pub(crate) name: Arc<str>,
    /// Whether a person decides it.
    pub(crate) manual: bool,
    /// Whether it belongs to `finally`.
    pub(crate) finally: bool,
    /// What its failure means to others.
    pub(crate) failure: FailureMeaning,
    /// Retries allowed and the delay formula.
    pub(crate) retry: Option<Box<(u32, Backoff)>>,
    /// Limit of one attempt or approval.
    pub(crate) timeout: Option<Duration>,
    /// Limit until a first pod of an attempt runs.
    pub(crate) pending: Option<Duration>,
    /// Boolean join; absent: all dependencies must be satisfied.
    pub(crate) join: Option<Box<Depends>>,
    /// Condition; absent: true.
    pub(crate) condition: Option<Box<Condition>>,
    /// Fan-out.
    pub(crate) fan_out: Option<Box<FanOut>>,
    /// Paths others read from its document.
    pub(crate) projections: Vec<String>,
    /// Time its settled Job is kept, where the template says.
    pub(crate) forget_after: Option<Duration>,
}

/// What the failure of a step means to its dependents and to the flow.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FailureMeaning {
    /// It satisfies dependents: the step has `continueOnFailure`.
    pub(crate) satisfies: bool,
    /// The `depends` of a step names it, so that it halts nothing.
    pub(crate) named: bool,
    /// It leaves the flow's outcome alone: it satisfies, or the `depends` of every dependent names it.
    pub(crate) tolerated: bool,
}

/// How a step fans out.
#[derive(Debug)]
pub(crate) struct FanOut {
    /// Number of items where the spec lists them.
    pub(crate) listed: Option<u32>,
    /// Live instances allowed.
    pub(crate) parallelism: Option<u32>,
}
