//! Deliberate faults, one at a time, by which the tests prove that they would notice. Without the feature `faults` there
//! are none and asking costs nothing.

/// A deliberate fault in the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Fault {
    /// Results of old attempts are accepted.
    NoFence = 1,
    /// A worker may speak of attempts that others had.
    AnybodysAttempt,
    /// A repeated result is not known as one.
    ForgetAnswers,
    /// The next attempt keeps the number of the one before.
    SameToken,
    /// A worker takes more than it has.
    NoCapacity,
    /// An ended attempt gives no capacity back.
    KeepCapacity,
    /// A lost attempt gives its worker's capacity back at once.
    HastyRelease,
    /// Cordoned workers get work.
    NoCordon,
    /// Draining workers get work.
    NoDrain,
    /// Limits of placements are not looked at.
    NoQuota,
    /// Attempts are not charged to their tenant.
    NoCharge,
    /// Blocked classes never wake.
    NoWake,
    /// A block whose best worker just fits is skipped.
    HastySkip,
    /// Jobs that come back stand last.
    ForgetSequence,
    /// Bands owe nothing for what they place.
    NoCredit,
    /// Tenants take turns by name.
    NoFairness,
    /// A retry starts at once.
    NoBackoff,
    /// Infrastructure losses are not counted.
    NoInfraLimit,
    /// Work that was given up is never adopted.
    NoAdoption,
    /// A gang starts with the members that fit.
    PartialGang,
    /// A gang is adopted with the members that come back.
    PartialAdoption,
    /// Arrays run without a window.
    NoWindow,
    /// Failures of elements are not counted.
    NoMaxFailures,
    /// What never started waits for ever.
    NoExpiry,
    /// A snapshot forgets when timers fire.
    ForgetTimers,
    /// Heartbeats are not noted.
    DeafToHeartbeats,
    /// Urgent jobs end attempts that are not less urgent enough.
    AnyVictim,
    /// Attempts are ended as fast as they are in the way.
    HastyPreemption,
    /// What attempts were ended for is given to others.
    NoHold,
    /// A restart forgets which tokens were issued.
    RebuiltTokens,
    /// A restart forgets what attempts hold.
    RebuiltCapacity,
    /// A slot is given back although somebody waits for it.
    KeepSlot,
    /// Nobody is charged for a start that inherits.
    FreeInheritance,
    /// Jobs are sent ahead however long these run.
    NoHorizon,
    /// Jobs are sent ahead although better claims wait.
    JumpQueue,
    /// What was sent ahead is never taken back.
    KeepPrefilled,
    /// Operators place jobs where these do not fit.
    AssignAnywhere,
    /// Every job enters workers that drain.
    EverybodyIsUrgent,
    /// What must never overlap is given up as soon as its worker leaves.
    HastyOverlap,
    /// Who waits longest has no turn of its own at reservations.
    ForgetEldest,
    /// What a tenant reserves for one job is spent on others.
    SpendQuotaReservation,
    /// A worker that failed a task gets it again while others are busy.
    NoAvoidance,
    /// A command that cannot start is never tried on another worker.
    NoSecondTry,
    /// Elements of one array count as one task when starts fail.
    CountByJob,
}

impl Fault {
    /// All faults.
    pub const ALL: [Self; 44] = [
        Self::NoFence,
        Self::AnybodysAttempt,
        Self::ForgetAnswers,
        Self::SameToken,
        Self::NoCapacity,
        Self::KeepCapacity,
        Self::HastyRelease,
        Self::NoCordon,
        Self::NoDrain,
        Self::NoQuota,
        Self::NoCharge,
        Self::NoWake,
        Self::HastySkip,
        Self::ForgetSequence,
        Self::NoCredit,
        Self::NoFairness,
        Self::NoBackoff,
        Self::NoInfraLimit,
        Self::NoAdoption,
        Self::PartialGang,
        Self::PartialAdoption,
        Self::NoWindow,
        Self::NoMaxFailures,
        Self::NoExpiry,
        Self::ForgetTimers,
        Self::DeafToHeartbeats,
        Self::AnyVictim,
        Self::HastyPreemption,
        Self::NoHold,
        Self::RebuiltTokens,
        Self::RebuiltCapacity,
        Self::KeepSlot,
        Self::FreeInheritance,
        Self::NoHorizon,
        Self::JumpQueue,
        Self::KeepPrefilled,
        Self::AssignAnywhere,
        Self::EverybodyIsUrgent,
        Self::HastyOverlap,
        Self::ForgetEldest,
        Self::SpendQuotaReservation,
        Self::NoAvoidance,
        Self::NoSecondTry,
        Self::CountByJob,
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
pub(crate) fn fault(fault: Fault) -> bool {
    ACTIVE.with(|active| active.get() == fault as u8)
}

/// Whether a fault is switched on: never.
#[cfg(not(feature = "faults"))]
#[inline(always)]
pub(crate) const fn fault(_: Fault) -> bool {
    false
}
