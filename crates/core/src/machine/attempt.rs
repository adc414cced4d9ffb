//! The lifecycle of one attempt of a job of the fleet. Owns its states and the table of transitions;
//! whether a message counts at all is judged by the verdict first.

use super::Machine;
use super::transition::rows;
use crate::named::named_enum;
use crate::task::TaskEnd;

named_enum! {
    /// The state of an attempt.
    pub enum AttemptState("attempt state") {
        /// Sent to a worker, or about to be.
        Assigned,
        /// The worker took it.
        Accepted,
        /// Its process has started.
        Running,
        /// Its worker is out of reach; it may still run.
        Suspect,
        /// End: exit code of success.
        Succeeded,
        /// End: any other exit.
        Failed,
        /// End: over its wall limit.
        TimedOut,
        /// End: told to end.
        Cancelled,
        /// End: made room for another job.
        Preempted,
        /// End: its process or container could not be started.
        StartFailed,
        /// End: the worker refused it.
        Rejected,
        /// End: taken back before it started.
        Revoked,
        /// End as far as anybody knows: its worker did not come back. It may yet be adopted.
        Lost,
    }
}

impl AttemptState {
    /// Whether it is over; `Lost` counts, although it may yet be adopted.
    #[must_use]
    pub fn is_end(self) -> bool {
        MACHINE.is_terminal(self)
    }
}

impl From<TaskEnd> for AttemptState {
    fn from(end: TaskEnd) -> Self {
        match end {
            TaskEnd::Succeeded => Self::Succeeded,
            TaskEnd::Failed => Self::Failed,
            TaskEnd::TimedOut => Self::TimedOut,
            TaskEnd::Cancelled => Self::Cancelled,
            TaskEnd::Preempted => Self::Preempted,
            TaskEnd::StartFailed => Self::StartFailed,
            TaskEnd::Lost => Self::Lost,
        }
    }
}

named_enum! {
    /// What happens to an attempt.
    pub enum Event("attempt event") {
        Assigned = "assign",
        Accepted = "accepted",
        Started = "started",
        Succeeded = "succeeded",
        Failed = "failed",
        TimedOut = "timed out",
        Cancelled = "cancelled",
        Preempted = "preempted",
        StartFailed = "start failed",
        Rejected = "rejected",
        Revoked = "revoked",
        ConnectionLost = "connection to the worker lost",
        Kept = "worker back, attempt kept",
        DeclaredLost = "declared lost",
    }
}

named_enum! {
    /// What decides between transitions of an attempt.
    pub enum Guard("attempt guard") {
        WasStarted = "it had started",
        WasAccepted = "it had been accepted",
        Adopted = "the verdict is adopted",
    }
}

const LIVE: &[AttemptState] =
    &[AttemptState::Assigned, AttemptState::Accepted, AttemptState::Running, AttemptState::Suspect];

/// The life of an attempt. A result implies that it was accepted and started; `Lost` is left only by adoption.
pub static MACHINE: Machine<AttemptState, Event, Guard> = Machine {
    name: "attempt",
    terminal: &[
        AttemptState::Succeeded,
        AttemptState::Failed,
        AttemptState::TimedOut,
        AttemptState::Cancelled,
        AttemptState::Preempted,
        AttemptState::StartFailed,
        AttemptState::Rejected,
        AttemptState::Revoked,
        AttemptState::Lost,
    ],
    rows: rows! { AttemptState, Event, Guard;
        "place": [] on [Assigned] => Assigned, "store", "Assign";
        "accept": [Assigned] on [Accepted] => Accepted, "clear accept timer";
        "accept": [Suspect] on [Accepted] => same;
        "start": [Assigned, Accepted, Suspect] on [Started] => Running, "start time";
        "result": [in LIVE] on [Succeeded] => Succeeded, "Verdict";
        "result": [in LIVE] on [Failed] => Failed, "Verdict";
        "result": [in LIVE] on [TimedOut] => TimedOut, "Verdict";
        "result": [in LIVE] on [Cancelled] => Cancelled, "Verdict";
        "result": [in LIVE] on [Preempted] => Preempted, "Verdict";
        "result": [in LIVE] on [StartFailed] => StartFailed, "Verdict";
        "unstarted": [Assigned, Accepted, Suspect] on [Rejected] => Rejected;
        "unstarted": [Assigned, Accepted, Suspect] on [Revoked] => Revoked;
        "unhealthy": [Assigned, Accepted, Running] on [ConnectionLost] => Suspect;
        "back": [Suspect] on [Kept] if WasStarted => Running;
        "back": [Suspect] on [Kept] if WasAccepted => Accepted;
        "back": [Suspect] on [Kept] => Assigned;
        "lost": [in LIVE] on [DeclaredLost] => Lost, "state of the job";
        "adopted": [Lost] on [Started] if Adopted => Running;
        "adopted": [Lost] on [Succeeded] if Adopted => Succeeded, "Verdict";
        "adopted": [Lost] on [Failed] if Adopted => Failed, "Verdict";
        "adopted": [Lost] on [TimedOut] if Adopted => TimedOut, "Verdict";
        "adopted": [Lost] on [Cancelled] if Adopted => Cancelled, "Verdict";
        "adopted": [Lost] on [Preempted] if Adopted => Preempted, "Verdict";
        "adopted": [Lost] on [StartFailed] if Adopted => StartFailed, "Verdict";
    },
};

#[cfg(test)]
mod tests {
    use super::super::{Named, laws};
    use super::*;

    #[test]
    fn every_state_and_event() {
        laws::hold(&MACHINE, &["adopted"]);
        insta::assert_snapshot!(MACHINE.listing());
    }

    #[test]
    fn only_lost_is_left_and_only_by_adoption() {
        for state in AttemptState::ALL.iter().copied().filter(|state| state.is_end()) {
            let ways = MACHINE.successors(state);
            assert_eq!(ways.is_empty(), state != AttemptState::Lost, "{state}");
            assert!(Event::ALL.iter().all(|event| MACHINE.step(state, *event, |_| false).is_err()));
        }
    }

    #[test]
    fn a_kept_attempt_is_again_what_it_was() {
        let kept = |holds: &[Guard]| MACHINE.step(AttemptState::Suspect, Event::Kept, |guard| holds.contains(&guard));
        assert_eq!(kept(&[Guard::WasAccepted, Guard::WasStarted]), Ok(AttemptState::Running));
        assert_eq!(kept(&[Guard::WasAccepted]), Ok(AttemptState::Accepted));
        assert_eq!(kept(&[]), Ok(AttemptState::Assigned));
    }
}
