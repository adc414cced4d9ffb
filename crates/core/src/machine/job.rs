//! The lifecycle of a job of the fleet, an element of an array or a gang (members that start together). Owns its states, the table
//! between them and the derived state of an array; never judges tokens, which is done before an event gets here.

use super::Machine;
use super::transition::rows;
use crate::named::named_enum;

named_enum! {
    /// The state of a job, an element or a gang.
    #[derive(Default)]
    pub enum JobState("job state") {
        /// Stored, not yet allowed to start.
        #[default]
        Pending,
        /// Waits in its class queue for a place.
        Queued,
        /// A worker was chosen and its capacity charged.
        Assigned,
        /// Its attempt has started.
        Running,
        /// Its attempt failed, the next one waits for its delay.
        Backoff,
        /// It was told to end while an attempt was out.
        Cancelling,
        /// Final: its attempt succeeded.
        Completed,
        /// Final: its attempt failed, it expired, or no attempt could run.
        Failed,
        /// Final: its attempt ran out of time.
        TimedOut,
        /// Final: somebody cancelled it.
        Cancelled,
    }
}

impl JobState {
    /// Whether it is final and can no longer change.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        MACHINE.is_terminal(self)
    }

    /// Whether it holds capacity of a worker.
    #[must_use]
    pub fn holds_capacity(self) -> bool {
        matches!(self, Self::Assigned | Self::Running | Self::Cancelling)
    }

    /// The state of an array, from those of its elements: Running while one is not final, else Failed, TimedOut or
    /// Cancelled if any element is, in this order, else Completed.
    #[must_use]
    pub fn of_array(elements: impl IntoIterator<Item = Self>) -> Self {
        let weight = |state: Self| match state {
            Self::Completed => 0,
            Self::Cancelled => 1,
            Self::TimedOut => 2,
            Self::Failed => 3,
            _ => 4,
        };
        match elements.into_iter().map(weight).max() {
            None | Some(0) => Self::Completed,
            Some(1) => Self::Cancelled,
            Some(2) => Self::TimedOut,
            Some(3) => Self::Failed,
            Some(_) => Self::Running,
        }
    }
}

named_enum! {
    /// What happens to a job. Events about attempts are those whose [verdict](super::verdict) counts.
    pub enum Event("job event") {
        Submitted = "submit",
        StartAfterPassed = "start time reached",
        Expired = "expire",
        CancelRequested = "cancel",
        Placed = "place",
        Prefilled = "prefill",
        Accepted = "accepted",
        AcceptTimeout = "no acceptance in time",
        Started = "started",
        Revoked = "revoked",
        WorkerLost = "worker lost",
        Rejected = "rejected",
        StartFailed = "start failed",
        CannotStart = "command cannot start",
        ResultSucceeded = "result succeeded",
        ResultFailed = "result failed",
        ResultTimedOut = "result timed out",
        ResultCancelled = "result cancelled",
        Preempted = "preempted",
        Drained = "drained",
        RetryDue = "retry due",
    }
}

named_enum! {
    /// What decides between transitions of a job.
    pub enum Guard("job guard") {
        Admitted = "it is valid and admitted",
        NotBeforePassed = "not_before has passed",
        NeverStarted = "it never started",
        InfraLeft = "infrastructure losses are below max_infra and the cause is not permanent",
        FirstLoss = "it is the first infrastructure loss",
        SecondTry = "it is the first time and another schedulable worker could hold it",
        MayRetry = "retry.on matches and retries are left",
        Newest = "the token is the newest ever issued",
        NewestMayRun = "the token is the newest ever issued and the quota allows it",
        NewestMayRetry = "the token is the newest ever issued, retry.on matches and retries are left",
        NewestInfraLeft = "the token is the newest ever issued and infrastructure losses are left",
        NewestSecondTry = "the token is the newest ever issued, it is the first time and another schedulable worker could hold it",
    }
}

/// The life of a job.
///
/// A result implies that its attempt was accepted and started, so results in Assigned count as in Running, those of
/// preempted and drained attempts included.
pub static MACHINE: Machine<JobState, Event, Guard> = Machine {
    name: "job",
    terminal: &[JobState::Completed, JobState::Failed, JobState::TimedOut, JobState::Cancelled],
    rows: rows! { JobState, Event, Guard;
        "submit": [] on [Submitted] if Admitted => Pending, "store", "acknowledge after commit";
        "gate": [Pending] on [StartAfterPassed] if NotBeforePassed => Queued, "class queue by original sequence";
        "expire": [Pending, Queued, Backoff] on [Expired] if NeverStarted => Failed, "reason expired";
        "cancel": [Pending, Queued, Backoff] on [CancelRequested] => Cancelled;
        "place": [Queued] on [Placed] => Assigned, "attempt + 1", "token", "charge capacity and quota", "store", "Assign";
        "prefill": [Queued] on [Prefilled] => Assigned, "attempt + 1", "token", "store", "Assign to inherit";
        "accept": [Assigned] on [Accepted] => same, "clear accept timer";
        "accept": [Assigned] on [AcceptTimeout] => same, "Revoke";
        "start": [Assigned] on [Started] => Running, "start time";
        "unstarted": [Assigned] on [Revoked, WorkerLost] => Queued, "release capacity";
        "infra": [Assigned, Running] on [Rejected, StartFailed] if InfraLeft => Backoff, "infra + 1", "avoid that worker";
        "infra": [Running] on [WorkerLost] if FirstLoss => Queued, "infra + 1", "avoid that worker";
        "infra": [Running] on [WorkerLost] if InfraLeft => Backoff, "infra + 1", "avoid that worker";
        "infra": [Assigned, Running] on [Rejected, StartFailed] => Failed, "reason infra_limit or the cause";
        "infra": [Running] on [WorkerLost] => Failed, "reason infra_limit or the cause";
        "command": [Assigned, Running] on [CannotStart] if SecondTry => Queued, "avoid that worker";
        "command": [Assigned, Running] on [CannotStart] if MayRetry => Backoff, "retries + 1", "prefer another worker";
        "command": [Assigned, Running] on [CannotStart] => Failed, "exit code, reason command", "Finished";
        "success": [Assigned, Running] on [ResultSucceeded] => Completed, "Finished";
        "retry": [Assigned, Running] on [ResultFailed, ResultTimedOut] if MayRetry => Backoff, "retries + 1", "prefer another worker";
        "failure": [Assigned, Running] on [ResultFailed] => Failed, "exit code, signal, reason", "Finished";
        "failure": [Assigned, Running] on [ResultTimedOut] => TimedOut, "exit code, signal, reason", "Finished";
        "preempt": [Assigned, Running] on [Preempted, Drained] => Queued, "original sequence";
        "due": [Backoff] on [RetryDue] => Queued, "original sequence";
        "adopt": [Queued, Backoff] on [Started] if NewestMayRun => Running, "late adoption";
        "adopt": [Queued, Backoff] on [ResultSucceeded] if Newest => Completed, "late adoption", "Finished";
        "adopt": [Queued, Backoff] on [ResultFailed, ResultTimedOut] if NewestMayRetry => Backoff, "late adoption", "retries + 1";
        "adopt": [Queued, Backoff] on [ResultFailed] if Newest => Failed, "late adoption", "Finished";
        "adopt": [Queued, Backoff] on [ResultTimedOut] if Newest => TimedOut, "late adoption", "Finished";
        "adopt": [Queued, Backoff] on [StartFailed] if NewestInfraLeft => Backoff, "late adoption", "infra + 1";
        "adopt": [Queued, Backoff] on [StartFailed] if Newest => Failed, "late adoption", "reason infra_limit or the cause";
        "adopt": [Queued, Backoff] on [CannotStart] if NewestSecondTry => Queued, "late adoption", "avoid that worker";
        "adopt": [Queued, Backoff] on [CannotStart] if NewestMayRetry => Backoff, "late adoption", "retries + 1";
        "adopt": [Queued, Backoff] on [CannotStart] if Newest => Failed, "late adoption", "Finished";
        "adopt": [Queued, Backoff] on [Preempted, Drained] if Newest => Queued, "late adoption";
        "cancel": [Assigned, Running] on [CancelRequested] => Cancelling, "CancelJob, or Revoke if not started";
        "cancelled": [Cancelling] on [ResultSucceeded] => Completed, "Finished";
        "cancelled": [Cancelling] on [
            ResultFailed, ResultTimedOut, ResultCancelled, StartFailed, CannotStart, Rejected, Revoked, WorkerLost, Preempted, Drained,
        ] => Cancelled, "Finished";
    },
};

#[cfg(test)]
mod tests {
    use super::super::{Named, laws};
    use super::*;

    #[test]
    fn every_state_and_event() {
        laws::hold(&MACHINE, &[]);
        insta::assert_snapshot!(MACHINE.listing());
    }

    #[test]
    fn terminal_states_take_nothing() {
        for state in JobState::ALL.iter().copied().filter(|state| state.is_terminal()) {
            for event in Event::ALL.iter().copied() {
                let rejected = MACHINE.step(state, event, |_| true).unwrap_err();
                assert_eq!((rejected.from, rejected.event, rejected.allowed), (Some(state), event, vec![]));
            }
        }
    }

    #[test]
    fn success_that_came_first_stands_after_a_cancel() {
        let end = |event| MACHINE.step(JobState::Cancelling, event, |_| false);
        assert_eq!(end(Event::ResultSucceeded), Ok(JobState::Completed));
        assert_eq!(end(Event::ResultFailed), Ok(JobState::Cancelled));
        assert_eq!(end(Event::WorkerLost), Ok(JobState::Cancelled));
    }

    #[test]
    fn a_late_result_is_adopted_only_for_the_newest_token() {
        let late =
            |holds: &[Guard]| MACHINE.step(JobState::Queued, Event::ResultFailed, |guard| holds.contains(&guard));
        assert_eq!(late(&[Guard::Newest, Guard::NewestMayRetry]), Ok(JobState::Backoff));
        assert_eq!(late(&[Guard::Newest]), Ok(JobState::Failed));
        insta::assert_snapshot!(late(&[]).unwrap_err(), @"job: Queued takes `result failed` only if the token is the newest ever issued, retry.on matches and retries are left, or if the token is the newest ever issued");
    }

    #[test]
    fn a_worker_lost_before_the_start_counts_nothing() {
        let lost = |state| MACHINE.choose(state, Event::WorkerLost, |_| true).unwrap();
        assert_eq!(lost(JobState::Assigned).effects, ["release capacity"]);
        assert_eq!(lost(JobState::Running).effects, ["infra + 1", "avoid that worker"]);
        assert_eq!(MACHINE.step(JobState::Running, Event::WorkerLost, |_| false), Ok(JobState::Failed));
    }

    #[test]
    fn infrastructure_losses_back_off_but_for_the_first_loss_of_a_worker() {
        let end = |event, holds: &[Guard]| MACHINE.step(JobState::Running, event, |guard| holds.contains(&guard));
        assert_eq!(end(Event::WorkerLost, &[Guard::FirstLoss, Guard::InfraLeft]), Ok(JobState::Queued));
        assert_eq!(end(Event::WorkerLost, &[Guard::InfraLeft]), Ok(JobState::Backoff));
        assert_eq!(end(Event::StartFailed, &[Guard::FirstLoss, Guard::InfraLeft]), Ok(JobState::Backoff));
        assert_eq!(end(Event::Rejected, &[]), Ok(JobState::Failed));
    }

    #[test]
    fn a_command_that_cannot_start_is_tried_once_more_elsewhere_and_then_fails() {
        let end =
            |holds: &[Guard]| MACHINE.step(JobState::Assigned, Event::CannotStart, |guard| holds.contains(&guard));
        assert_eq!(end(&[Guard::SecondTry, Guard::MayRetry]), Ok(JobState::Queued));
        assert_eq!(end(&[Guard::MayRetry, Guard::InfraLeft]), Ok(JobState::Backoff));
        assert_eq!(end(&[Guard::InfraLeft]), Ok(JobState::Failed));
    }

    #[test]
    fn the_state_of_an_array_is_derived() {
        use JobState::{Backoff, Cancelled, Completed, Failed, Pending, Running, TimedOut};
        assert_eq!(JobState::of_array([Completed, Failed, Pending]), Running);
        assert_eq!(JobState::of_array([Backoff]), Running);
        assert_eq!(JobState::of_array([Completed, TimedOut, Failed, Cancelled]), Failed);
        assert_eq!(JobState::of_array([Completed, TimedOut, Cancelled]), TimedOut);
        assert_eq!(JobState::of_array([Completed, Cancelled]), Cancelled);
        assert_eq!(JobState::of_array([Completed, Completed]), Completed);
        assert_eq!(JobState::of_array([]), Completed);
    }
}
