//! The verdict on a message of a worker that an attempt has started or ended: whether it counts. Owns the order of the
//! conditions; never looks a token up and never sends an answer.
//!
//! ```
//! use orlop_core::machine::job::JobState;
//! use orlop_core::machine::verdict::{ReportVerdict, TokenFacts};
//! let current = TokenFacts {
//!     job: Some(JobState::Running), issued: true, answered: false, current: true, lost_newest: false, admissible: true,
//! };
//! assert_eq!(current.judge(), ReportVerdict::Accepted);
//! let overtaken = TokenFacts { current: false, ..current };
//! assert!(overtaken.judge() == ReportVerdict::Stale && overtaken.judge().kills());
//! ```

use super::job::JobState;
use crate::named::named_enum;

named_enum! {
    /// What to do with a message about an attempt; every message gets one verdict.
    pub enum ReportVerdict("verdict") {
        /// Job or token never existed: acknowledge and discard the message, count it, and kill the attempt.
        Unknown = "unknown",
        /// Its result was accepted before: acknowledge again.
        Duplicate = "duplicate",
        /// It counts: store the change, then acknowledge.
        Accepted = "accepted",
        /// It counts although its attempt was given up: as accepted.
        Adopted = "adopted",
        /// A newer attempt has taken its place: acknowledge and discard the message, count it, and kill the attempt.
        Stale = "stale",
    }
}

impl ReportVerdict {
    /// Whether the message changes the job.
    #[must_use]
    pub fn counts(self) -> bool {
        matches!(self, Self::Accepted | Self::Adopted)
    }

    /// Whether the attempt is to be killed if it still runs.
    #[must_use]
    pub fn kills(self) -> bool {
        matches!(self, Self::Unknown | Self::Stale)
    }
}

/// What the server knows about the token of a message and about its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenFacts {
    /// The job's state; none if the job is unknown.
    pub job: Option<JobState>,
    /// The token was issued for this job.
    pub issued: bool,
    /// The token already has an accepted result.
    pub answered: bool,
    /// The token is the job's current one.
    pub current: bool,
    /// The token's attempt is Lost, and no newer token was ever issued.
    pub lost_newest: bool,
    /// The message is a result, or the tenant's quota lets the attempt run on.
    pub admissible: bool,
}

impl TokenFacts {
    /// The verdict: the first condition that holds.
    #[must_use]
    pub fn judge(&self) -> ReportVerdict {
        let Some(job) = self.job.filter(|_| self.issued) else {
            return ReportVerdict::Unknown;
        };
        let waits = matches!(job, JobState::Queued | JobState::Backoff);
        if self.answered {
            ReportVerdict::Duplicate
        } else if self.current && !job.is_terminal() {
            ReportVerdict::Accepted
        } else if self.lost_newest && waits && self.admissible {
            ReportVerdict::Adopted
        } else {
            ReportVerdict::Stale
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Named;
    use super::*;

    const PLAIN: TokenFacts = TokenFacts {
        job: Some(JobState::Running),
        issued: true,
        answered: false,
        current: true,
        lost_newest: false,
        admissible: true,
    };

    #[test]
    fn the_first_condition_that_holds_decides() {
        let lost = TokenFacts { job: Some(JobState::Queued), current: false, lost_newest: true, ..PLAIN };
        let cases = [
            (TokenFacts { job: None, ..PLAIN }, "unknown"),
            (TokenFacts { issued: false, ..PLAIN }, "unknown"),
            (TokenFacts { answered: true, ..PLAIN }, "duplicate"),
            (TokenFacts { answered: true, job: Some(JobState::Completed), ..PLAIN }, "duplicate"),
            (PLAIN, "accepted"),
            (TokenFacts { job: Some(JobState::Cancelling), ..PLAIN }, "accepted"),
            (lost, "adopted"),
            (TokenFacts { job: Some(JobState::Backoff), ..lost }, "adopted"),
            (TokenFacts { admissible: false, ..lost }, "stale"),
            (TokenFacts { job: Some(JobState::Running), ..lost }, "stale"),
            (TokenFacts { lost_newest: false, ..lost }, "stale"),
            (TokenFacts { job: Some(JobState::Cancelled), ..PLAIN }, "stale"),
        ];
        for (facts, verdict) in cases {
            assert_eq!(facts.judge().to_string(), verdict, "{facts:?}");
        }
    }

    proptest! {
        #[test]
        fn nothing_counts_for_a_terminal_job_and_nothing_is_both_counted_and_killed(
            job in proptest::sample::select(JobState::ALL), flags: [bool; 5],
        ) {
            let [issued, answered, current, lost_newest, admissible] = flags;
            let facts = TokenFacts { job: Some(job), issued, answered, current, lost_newest, admissible };
            let verdict = facts.judge();
            prop_assert!(!(verdict.counts() && job.is_terminal()));
            prop_assert!(!(verdict.counts() && verdict.kills()));
            prop_assert!(!verdict.counts() || (issued && !answered));
        }
    }
}
