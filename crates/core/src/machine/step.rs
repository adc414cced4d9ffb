//! The lifecycle of a step. Owns its internal states, the API phases they
//! show as and the table of transitions; never counts retries or dependencies.

use super::Machine;
use super::transition::rows;
use crate::named::{Named, named_enum, named_impls};

named_enum! {
    /// The phase of a step as the API shows it (`status.steps[].phase`).
    #[derive(Default)]
    pub enum StepPhase("step phase") {
        /// Waits for dependencies, a slot or the substrate's acceptance.
        #[default]
        Pending,
        /// The current attempt lives.
        Running,
        /// Settled well.
        Succeeded,
        /// Settled badly, or a retry is scheduled (reason `RetryScheduled`).
        Failed,
        /// Settled without an attempt that counts.
        Skipped,
        /// A manual step waits for its decision.
        PendingApproval,
    }
}

named_enum! {
    /// How a settled step ended.
    pub enum StepOutcome("step outcome") {
        /// The work was done, or its failure was declared harmless.
        Succeeded,
        /// The work failed, was refused or was cut off.
        Failed,
        /// The step never had to run.
        Skipped,
    }
}

impl StepOutcome {
    /// The API phase of a step that ended so.
    #[must_use]
    pub fn phase(self) -> StepPhase {
        match self {
            Self::Succeeded => StepPhase::Succeeded,
            Self::Failed => StepPhase::Failed,
            Self::Skipped => StepPhase::Skipped,
        }
    }
}

/// The internal state of a step, finer than its API phase. Its text is the variant's name, for `Done` the outcome's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum StepState {
    /// Waits for dependencies and references to settle.
    #[default]
    Waiting,
    /// Ready, waits for a slot.
    Queued,
    /// The substrate was asked to start the attempt and has not yet answered.
    Starting,
    /// The attempt was accepted and is not known to have ended.
    Active,
    /// The attempt was told to end and has not yet confirmed.
    Cancelling,
    /// The attempt failed, the next one waits for its delay.
    Backoff,
    /// A manual step waits for its decision.
    Awaiting,
    /// Settled: it can no longer change.
    Done(StepOutcome),
}

impl StepState {
    /// Settled well.
    pub const SUCCEEDED: Self = Self::Done(StepOutcome::Succeeded);
    /// Settled badly.
    pub const FAILED: Self = Self::Done(StepOutcome::Failed);
    /// Settled without having to run.
    pub const SKIPPED: Self = Self::Done(StepOutcome::Skipped);

    /// The API phase this state shows as.
    #[must_use]
    pub fn phase(self) -> StepPhase {
        match self {
            Self::Waiting | Self::Queued | Self::Starting => StepPhase::Pending,
            Self::Active | Self::Cancelling => StepPhase::Running,
            Self::Backoff => StepPhase::Failed,
            Self::Awaiting => StepPhase::PendingApproval,
            Self::Done(outcome) => outcome.phase(),
        }
    }

    /// The outcome, once settled.
    #[must_use]
    pub fn outcome(self) -> Option<StepOutcome> {
        match self {
            Self::Done(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// Whether the step can no longer change.
    #[must_use]
    pub fn is_settled(self) -> bool {
        matches!(self, Self::Done(_))
    }

    /// Whether an attempt is started and not known to have ended. `Starting` counts: its request may have arrived.
    #[must_use]
    pub fn is_live(self) -> bool {
        matches!(self, Self::Starting | Self::Active | Self::Cancelling)
    }
}

impl Named for StepState {
    const KIND: &'static str = "step state";
    const ALL: &'static [Self] = &[
        Self::Waiting,
        Self::Queued,
        Self::Starting,
        Self::Active,
        Self::Cancelling,
        Self::Backoff,
        Self::Awaiting,
        Self::SUCCEEDED,
        Self::FAILED,
        Self::SKIPPED,
    ];

    fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "Waiting",
            Self::Queued => "Queued",
            Self::Starting => "Starting",
            Self::Active => "Active",
            Self::Cancelling => "Cancelling",
            Self::Backoff => "Backoff",
            Self::Awaiting => "Awaiting",
            Self::Done(outcome) => outcome.as_str(),
        }
    }
}

named_impls!(StepState);

named_enum! {
    /// What happens to a step or to one instance of a fan-out.
    pub enum Event("step event") {
        Planned = "planned",
        Imported = "imported from a retried flow",
        DependencyUnsatisfied = "dependency settled unsatisfied",
        Ready = "last dependency and reference settled",
        ItemsResolved = "fan-out items resolved",
        Resumed = "flow resumed",
        Approved = "approved",
        Disapproved = "rejected",
        ApprovalDue = "approval limit due",
        SlotFree = "slot free",
        Accepted = "attempt accepted",
        Delayed = "attempt delayed",
        DelayDue = "delay of the start due",
        Refused = "attempt refused",
        AttemptSucceeded = "attempt succeeded",
        AttemptFailed = "attempt failed",
        AttemptGone = "attempt gone",
        AttemptLost = "attempt lost",
        TimeoutDue = "timeout due",
        CancelConfirmed = "cancel confirmed",
        RetryDue = "retry due",
        Halted = "flow halted",
    }
}

named_enum! {
    /// What decides between transitions of a step.
    pub enum Guard("step guard") {
        WasSkipped = "it was skipped in the retried flow",
        WhenFalse = "when is false",
        WhenError = "when cannot be evaluated",
        ManualApproved = "a manual step was approved before",
        ManualRejected = "a manual step was rejected before",
        ManualOpen = "a manual step is undecided and the flow neither suspended nor held",
        ManualHeld = "a manual step is undecided and the flow suspended or held",
        ItemsUnknown = "a withParam source must be read first",
        ItemsEmpty = "the fan-out is empty",
        ItemsError = "the fan-out source cannot be read",
        MayStart = "the flow is not suspended, held or halted",
        Halted = "the flow is halted",
        HaltCancels = "the flow is halted and live attempts are cancelled",
        NothingInFlight = "the start was delayed and is not in flight",
        OutputsComplete = "its outputs are complete",
        Ignored = "an Ignore rule matches",
        Counted = "a Count rule matches",
        MayRetry = "retries and the flow's budget are left and the flow is not halted",
        MayRunAgain = "lostCount is below lostLimit and the flow is not halted",
        SuccessStands = "the cancel was not for a timeout",
        TimeoutMayRetry = "the cancel was for a timeout, retries are left and the flow is not halted",
        NotHeld = "the flow is neither suspended nor held",
        DelayOver = "the retry delay is over",
    }
}

const DONE: &[StepState] = &[StepState::SUCCEEDED, StepState::FAILED, StepState::SKIPPED];

/// The life of a step by its internal state.
///
/// It also has the rules of fan-outs and of results imported from an earlier flow, of approvals that come before a step can take
/// them, of the timer of a delayed start, and of attempts that finish after the flow was halted.
pub static MACHINE: Machine<StepState, Event, Guard> = Machine {
    name: "step",
    terminal: DONE,
    rows: rows! { StepState, Event, Guard;
        "T2": [] on [Planned] => Waiting;
        "imported": [Waiting] on [Imported] if WasSkipped => SKIPPED, "Reused";
        "imported": [Waiting] on [Imported] => SUCCEEDED, "Reused";
        "S1": [Waiting] on [DependencyUnsatisfied] => SKIPPED, "same for dependents";
        "S2": [Waiting] on [Ready] if WhenError => FAILED, "ConditionError", "failure rules";
        "S2": [Waiting] on [Ready] if WhenFalse => SKIPPED, "ConditionFalse", "StepSkipped";
        "S4": [Waiting] on [Ready, Resumed] if ManualApproved => SUCCEEDED, "StepApproved";
        "S4": [Waiting] on [Ready, Resumed] if ManualRejected => FAILED, "StepRejected";
        "S5": [Waiting] on [Ready, Resumed] if ManualOpen => Awaiting, "startTime", "approval timer", "StepPendingApproval";
        "held": [Waiting] on [Ready] if ManualHeld => same;
        "decided": [Waiting] on [Approved, Disapproved] => same, "decision recorded";
        "items": [Waiting] on [Ready] if ItemsUnknown => same, "ResolveItems";
        "items": [Waiting] on [Ready, ItemsResolved] if ItemsEmpty => SUCCEEDED, "EmptyFanOut";
        "items": [Waiting] on [ItemsResolved] if ItemsError => FAILED, "ParameterUnresolved";
        "S3": [Waiting] on [Ready, ItemsResolved] => Queued, "ready heap";
        "S6": [Awaiting] on [Approved] => SUCCEEDED, "StepApproved";
        "S6": [Awaiting] on [Disapproved] => FAILED, "StepRejected";
        "S6": [Awaiting] on [ApprovalDue] => FAILED, "ApprovalTimedOut", "StepTimeout";
        "S7": [Queued] on [SlotFree] if MayStart => Starting, "StartAttempt";
        "S8": [Starting] on [Accepted] if HaltCancels => Cancelling, "CancelAttempt";
        "S8": [Starting] on [Accepted] => Active, "startTime", "jobRef", "timeout timer", "StepCreated";
        "S9": [Starting] on [Delayed, DelayDue] if Halted => SKIPPED, "cause";
        "S9": [Starting] on [Delayed] => same, "reason shown", "timer retry_at";
        "S9": [Starting] on [DelayDue] if MayStart => same, "StartAttempt with the same attempt";
        "S9": [Starting] on [Halted] if NothingInFlight => SKIPPED, "cause";
        "S10": [Starting] on [Refused] if Halted => SKIPPED, "cause";
        "S10": [Starting] on [Refused] if MayRetry => Backoff, "completionTime", "StepFailed", "retry timer";
        "S10": [Starting] on [Refused] => FAILED, "completionTime", "StepFailed";
        "S11": [Active] on [AttemptSucceeded] if OutputsComplete => SUCCEEDED, "outputs stored", "dependents counted down", "StepSucceeded";
        "S12": [Active] on [AttemptFailed] if Ignored => SUCCEEDED, "FailureIgnored";
        "S12": [Active] on [AttemptFailed] if Counted => SUCCEEDED, "FailureCounted", "retry budget checked";
        "S17": [Active] on [AttemptLost] if MayRunAgain => Queued, "lostCount + 1", "attempt + 1";
        "S13": [Active] on [AttemptSucceeded, AttemptFailed, AttemptGone, AttemptLost] if MayRetry => Backoff, "completionTime", "nextRetryTime", "retry timer";
        "S14": [Active] on [AttemptSucceeded, AttemptFailed, AttemptGone, AttemptLost] => FAILED, "StepFailed", "failure policy, unless tolerated";
        "S15": [Active] on [TimeoutDue] => Cancelling, "CancelAttempt", "StepTimeout";
        "S15": [Active] on [Halted] if HaltCancels => Cancelling, "CancelAttempt";
        "halted": [Starting, Active, Cancelling] on [Halted] => same, "live attempts finish";
        "S16": [Cancelling] on [AttemptSucceeded] if SuccessStands => SUCCEEDED, "outputs stored", "StepSucceeded";
        "S16": [Cancelling] on [CancelConfirmed, AttemptSucceeded, AttemptFailed, AttemptGone, AttemptLost] if TimeoutMayRetry => Backoff, "completionTime", "nextRetryTime", "retry timer";
        "S16": [Cancelling] on [CancelConfirmed, AttemptSucceeded, AttemptFailed, AttemptGone, AttemptLost] => FAILED, "cause", "StepFailed";
        "S18": [Backoff] on [RetryDue] if NotHeld => Queued, "retryCount + 1", "fields cleared", "StepRetry";
        "S18": [Backoff] on [Resumed] if DelayOver => Queued, "retryCount + 1", "fields cleared", "StepRetry";
        "S18": [Backoff] on [Halted] => FAILED, "its last reason";
        "S19": [Waiting, Queued, Awaiting] on [Halted] => SKIPPED, "cause";
        "S20": [in DONE] on [any] => same;
    },
};

#[cfg(test)]
mod tests {
    use super::super::laws;
    use super::*;

    #[test]
    fn phases_have_the_exact_api_texts() {
        let json = serde_json::to_string(StepPhase::ALL).unwrap();
        assert_eq!(json, r#"["Pending","Running","Succeeded","Failed","Skipped","PendingApproval"]"#);
    }

    #[test]
    fn every_internal_state_shows_as_the_phase_of_the_specification() {
        let shown: Vec<String> = StepState::ALL.iter().map(|s| format!("{s}={}", s.phase())).collect();
        insta::assert_snapshot!(shown.join(" "), @"Waiting=Pending Queued=Pending Starting=Pending Active=Running Cancelling=Running Backoff=Failed Awaiting=PendingApproval Succeeded=Succeeded Failed=Failed Skipped=Skipped");
        for state in StepState::ALL.iter().copied() {
            assert_eq!(state.to_string().parse(), Ok(state));
            assert_eq!(state.is_settled(), state.outcome().is_some());
        }
    }

    #[test]
    fn every_state_and_event() {
        laws::hold(&MACHINE, &[]);
        insta::assert_snapshot!(MACHINE.listing());
    }

    #[test]
    fn a_halt_is_stronger_than_a_retry() {
        let halted = |state, event| MACHINE.step(state, event, |guard| guard == Guard::Halted);
        assert_eq!(halted(StepState::Starting, Event::Refused), Ok(StepState::SKIPPED));
        assert_eq!(halted(StepState::Active, Event::AttemptFailed), Ok(StepState::FAILED));
        assert_eq!(halted(StepState::Cancelling, Event::CancelConfirmed), Ok(StepState::FAILED));
        assert_eq!(halted(StepState::Backoff, Event::Halted), Ok(StepState::FAILED));
    }

    #[test]
    fn a_success_seen_first_stands_unless_the_cause_is_a_timeout() {
        let seen = |holds: &[Guard]| {
            MACHINE.step(StepState::Cancelling, Event::AttemptSucceeded, |guard| holds.contains(&guard))
        };
        assert_eq!(seen(&[Guard::SuccessStands]), Ok(StepState::SUCCEEDED));
        assert_eq!(seen(&[Guard::TimeoutMayRetry]), Ok(StepState::Backoff));
        assert_eq!(seen(&[]), Ok(StepState::FAILED));
    }

    #[test]
    fn a_lost_attempt_runs_again_without_counting_as_a_retry() {
        let lost = MACHINE.choose(StepState::Active, Event::AttemptLost, |guard| guard == Guard::MayRunAgain).unwrap();
        assert_eq!(
            (lost.rule, lost.to, lost.effects),
            ("S17", StepState::Queued, &["lostCount + 1", "attempt + 1"][..])
        );
    }

    #[test]
    fn a_settled_step_never_changes() {
        for state in DONE.iter().copied() {
            for event in Event::ALL.iter().copied() {
                assert_eq!(MACHINE.step(state, event, |_| true), Ok(state));
            }
        }
    }
}
