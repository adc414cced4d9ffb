//! Leader election over `coordination.k8s.io/v1` Leases: of several processes one works. Owns when a process may lead; never
//! stops the work itself.
//!
//! A holder renews its leases and leads for [`Timing::deadline`] after it *sent* the last renewal that was answered; others
//! take a lease when it has not changed for [`Timing::term`] since they *saw* it change. Both measure with their own steady
//! clock and never read the other's timestamps, so clocks need not agree: the difference of the two durations is what they
//! may drift, and what requests under way have left to arrive.
//!
//! Several leases are held together or not at all. A candidate first looks at all of them and takes them, in their order,
//! only when none belongs to somebody else; one that cannot get a later one gives the earlier ones back. Two operators
//! therefore cannot wait for each other, and one that another program keeps from a lease holds none that others could use.
//!
//! Known limit, as in other implementations: a lease that somebody deletes while it is held is free for a candidate that has
//! not seen it before.

mod election;
mod record;
#[cfg(feature = "client")]
mod run;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use election::{Action, Election, End};
#[cfg(feature = "client")]
pub use run::{Ended, Fenced, Term, lead};

/// The lease of every operator.
pub const OPERATOR: &str = "orlop-operator";
/// The lease that the controller of flows shares with zen-flow, so that the two never act together.
pub const FLOWS: &str = "zen-flow-controller-leader-election";

/// Durations of an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long a lease stays with a holder that does not renew it.
    pub term: Duration,
    /// How long a holder leads after a renewal; shorter than `term`.
    pub deadline: Duration,
    /// How often a holder renews and a candidate looks.
    pub retry: Duration,
}

impl Default for Timing {
    /// 15 s, 10 s, 2 s.
    fn default() -> Self {
        let [term, deadline, retry] = [15, 10, 2].map(Duration::from_secs);
        Self { term, deadline, retry }
    }
}

/// Who stands for what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Name of this process, which no other process has, not even the one it replaces.
    pub identity: String,
    /// Where the leases are.
    pub namespace: String,
    /// Their names, in the order in which every candidate takes them.
    pub leases: Vec<String>,
    /// Durations.
    pub timing: Timing,
}

impl Options {
    /// The leases of an operator; `flows` where it runs the controller of flows.
    #[must_use]
    pub fn operator(identity: impl Into<String>, namespace: impl Into<String>, flows: bool) -> Self {
        let mut leases = vec![OPERATOR.to_owned()];
        if flows {
            leases.push(FLOWS.to_owned());
        }
        Self { identity: identity.into(), namespace: namespace.into(), leases, timing: Timing::default() }
    }
}
