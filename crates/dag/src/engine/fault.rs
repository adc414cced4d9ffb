//! Deliberate faults, one at a time, by which the tests prove that they would notice. Without the feature `faults` there
//! are none and asking costs nothing.

/// A deliberate fault in the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Fault {
    /// A settled step can be settled again.
    SettleTwice = 1,
    /// Steps still start after a halt.
    StartAfterHalt,
    /// An untolerated failure satisfies dependents.
    FailureSatisfies,
    /// A dependent of an unsatisfied step is not skipped.
    NoCascade,
    /// A false condition does not skip.
    IgnoreCondition,
    /// Results of old attempts are accepted.
    NoFence,
    /// A retry starts at once.
    NoBackoff,
    /// The flow's backoff limit is not looked at.
    NoBudget,
    /// A timeout is forgotten.
    NoTimeout,
    /// A cancelled attempt counts as gone before that is confirmed.
    HastyCancel,
    /// The flow's parallelism is not looked at.
    NoParallelism,
    /// Suspension does not hold starts back.
    IgnoreSuspend,
    /// The deadline runs on while the flow is suspended.
    DeadlineRuns,
    /// `finally` does not wait for live attempts.
    HastyFinally,
    /// A lost attempt keeps its number.
    SameAttemptAfterLoss,
    /// A snapshot forgets when timers fire.
    ForgetTimers,
    /// An event after the end is taken.
    ReopenTerminal,
    /// Retries are made after a halt.
    RetryAfterHalt,
    /// A retry keeps the number of the failed attempt.
    SameAttemptAfterRetry,
    /// A lost attempt counts against the flow's backoff limit.
    LossCountsAsRetry,
    /// No failure is tolerated.
    TolerateNothing,
    /// An order to end fails the flow also where it cut nothing off.
    OrderAlwaysCounts,
    /// A failure after an order to end is not remembered.
    ForgetLateFailure,
    /// A later halt renames what the first one skipped.
    LastHaltNames,
    /// A delayed start is waited for after a halt.
    WaitAfterHalt,
    /// An attempt that a queue holds back is waited for after a halt.
    QueuedAfterHalt,
    /// A decision can be changed.
    DecideTwice,
    /// A reference skips like a dependency.
    ReferenceSkips,
    /// A retry delay counts from when the failure is heard of.
    DelayFromNow,
    /// A retry that is due does not look at the flow's budget again.
    RetryOverBudget,
    /// A failure in `finally` halts it.
    HaltFinally,
    /// The timer of a resumed attempt is not moved.
    ThawKeepsTimer,
    /// A time to live of zero does not wait for the final status.
    HastyDeletion,
    /// A fan-out with a skipped instance satisfies under the policy Strict.
    LenientGroups,
    /// A failure that a join names halts the flow.
    NamedHalts,
    /// A failure that a join names satisfies every dependent.
    NamedSatisfies,
}

impl Fault {
    /// All faults.
    pub const ALL: [Self; 36] = [
        Self::SettleTwice,
        Self::StartAfterHalt,
        Self::FailureSatisfies,
        Self::NoCascade,
        Self::IgnoreCondition,
        Self::NoFence,
        Self::NoBackoff,
        Self::NoBudget,
        Self::NoTimeout,
        Self::HastyCancel,
        Self::NoParallelism,
        Self::IgnoreSuspend,
        Self::DeadlineRuns,
        Self::HastyFinally,
        Self::SameAttemptAfterLoss,
        Self::ForgetTimers,
        Self::ReopenTerminal,
        Self::RetryAfterHalt,
        Self::SameAttemptAfterRetry,
        Self::LossCountsAsRetry,
        Self::TolerateNothing,
        Self::OrderAlwaysCounts,
        Self::ForgetLateFailure,
        Self::LastHaltNames,
        Self::WaitAfterHalt,
        Self::QueuedAfterHalt,
        Self::DecideTwice,
        Self::ReferenceSkips,
        Self::DelayFromNow,
        Self::RetryOverBudget,
        Self::HaltFinally,
        Self::ThawKeepsTimer,
        Self::HastyDeletion,
        Self::LenientGroups,
        Self::NamedHalts,
        Self::NamedSatisfies,
    ];

    /// Switches this fault on for the calling thread, and every other off; none switches all off.
    #[cfg(feature = "faults")]
    pub fn inject(fault: Option<Self>) {
        ACTIVE.with(|active| active.set(fault.map_or(0, |fault| fault as u8)));
    }
}

#[cfg(feature = "faults")]
std::thread_local! {
    static ACTIVE: std::cell::Cell<u8> = const { std::cell::Cell::new(0) };
}

/// Whether a fault is switched on.
#[cfg(feature = "faults")]
pub(super) fn fault(fault: Fault) -> bool {
    ACTIVE.with(|active| active.get() == fault as u8)
}

/// Whether a fault is switched on: never.
#[cfg(not(feature = "faults"))]
#[inline(always)]
pub(super) const fn fault(_: Fault) -> bool {
    false
}
