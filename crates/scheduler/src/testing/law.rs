//! The laws of a random world by name, and how a broken one is told. Owns the names; the model and the world check them.

use std::fmt;

/// A law that random worlds hold the scheduler to: the invariants, and the rules that they rest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Law {
    /// No worker holds more than it has of any dimension.
    Capacity,
    /// No job is lost, none appears twice, and states change only as the tables of states say.
    Conservation,
    /// Attempts are numbered without gaps, and only workers that take placements get them.
    Token,
    /// Jobs start in the order of priority and submission.
    Order,
    /// A ready band gets its share.
    Bands,
    /// The tenant with the smaller share is next.
    Fairness,
    /// No tenant passes a limit, and each is charged for exactly what it holds.
    Quota,
    /// Nothing waits that could be placed.
    WorkConservation,
    /// What could ever run does run some time.
    NoStarvation,
    /// A restored scheduler goes on as the original.
    Equivalence,
    /// Messages are answered by what their attempt is worth.
    Answers,
    /// Gates, expiry, delays, silence and their counts.
    Deadlines,
    /// Who failed on a worker waits for another one that could hold it, and workers are blamed for what is their fault.
    Avoidance,
    /// Who may be ended for others, how often, and what is kept for these (2.7).
    Preemption,
    /// Who is sent ahead to inherit which slot (2.8).
    Prefill,
    /// The scheduler's own bookkeeping: refused events change nothing, effects are numbered, nothing is fatal.
    Bookkeeping,
}

/// A law that does not hold, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The law.
    pub law: Law,
    /// What was seen.
    pub what: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.law, self.what)
    }
}

impl std::error::Error for Broken {}

impl Law {
    /// Says that it is broken.
    pub(super) fn broken(self, what: impl Into<String>) -> Broken {
        Broken { law: self, what: what.into() }
    }

    /// Demands something in its name.
    pub(super) fn demand(self, holds: bool, what: impl FnOnce() -> String) -> Result<(), Broken> {
        if holds { Ok(()) } else { Err(self.broken(what())) }
    }
}
