//! Effects: what a scheduler asks its host to do, in this order. Owns the values and their idempotency keys; does nothing itself.

use std::fmt;

use orlop_core::id::{JobId, TenantName};
use orlop_core::machine::job::JobState;
use orlop_core::machine::verdict::ReportVerdict;
use orlop_core::machine::worker::WorkerState;
use orlop_core::task::TaskRef;
pub use orlop_core::task::{CancelReason, StartMode};
use serde::{Deserialize, Serialize};

use crate::token::WorkerKey;

/// Which part of a job something is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum JobPart {
    /// The whole job; of an array its state as a whole.
    Whole,
    /// An inclusive range of elements.
    Elements(u32, u32),
}

/// Why a job changed its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Reason {
    /// No other reason than the event.
    Plain,
    /// It did not start in time.
    Expired,
    /// It was cancelled.
    Cancelled,
    /// Too many elements of its array were unsuccessful.
    MaxFailures,
    /// Too many infrastructure losses.
    InfraLimit,
    /// Its secret, artifact or image is missing.
    Permanent,
    /// It exited with this code; absent when a signal ended it.
    Exit(Option<i32>),
    /// It ran into its wall limit.
    TimedOut,
    /// Its worker could not start it.
    StartFailed,
    /// Its command cannot be started, with the exit code that a shell would give.
    Command(i32),
    /// Its worker refused it.
    Rejected,
    /// Its worker was lost.
    WorkerLost,
    /// It was taken back before it started.
    Revoked,
    /// It made room for other work.
    Preempted,
    /// Its worker was drained.
    Drained,
    /// A message of an attempt that was given up came late.
    Adopted,
}

impl Reason {
    /// The word under which it is stored and shown; none where the state says it all.
    #[must_use]
    pub const fn word(self) -> Option<&'static str> {
        Some(match self {
            Self::Plain => return None,
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
            Self::MaxFailures => "max_failures",
            Self::InfraLimit => "infra_limit",
            Self::Permanent => "permanent",
            Self::Exit(Some(_)) => "exit",
            Self::Exit(None) => "signal",
            Self::TimedOut => "timed_out",
            Self::StartFailed => "start_failed",
            Self::Command(_) => "command",
            Self::Rejected => "rejected",
            Self::WorkerLost => "worker_lost",
            Self::Revoked => "revoked",
            Self::Preempted => "preempted",
            Self::Drained => "drained",
            Self::Adopted => "adopted",
        })
    }
}

/// Why a worker changed its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum WorkerReason {
    /// No other reason than the event.
    Plain,
    /// It did not register or open its stream in time.
    Timeout,
    /// It was refused, or its provisioner failed.
    Refused,
    /// Its connection broke.
    ConnectionLost,
    /// It was silent for too long.
    Silent,
    /// Its own report was bad.
    ReportBad,
    /// Too many starts failed.
    StartFailures,
    /// It was lost too often.
    Losses,
    /// It drained.
    Drained,
    /// It left or was removed.
    Gone,
    /// Its id registered from elsewhere.
    Superseded,
    /// The server started anew and has not heard of it yet.
    ServerRestarted,
}

impl WorkerReason {
    /// The word under which it is stored and shown; empty where the state says it all.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Timeout => "timeout",
            Self::Refused => "refused",
            Self::ConnectionLost => "connection_lost",
            Self::Silent => "silent",
            Self::ReportBad => "report_bad",
            Self::StartFailures => "start_failures",
            Self::Losses => "losses",
            Self::Drained => "drained",
            Self::Gone => "gone",
            Self::Superseded => "superseded",
            Self::ServerRestarted => "server_restarted",
        }
    }
}

/// A limit of a tenant that one request or all active jobs can pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Limit {
    /// `max_running_jobs`.
    RunningJobs,
    /// `max_cpu_m`.
    Cpu,
    /// `max_memory_bytes`.
    Memory,
    /// `max_gpus`.
    Gpus,
    /// `max_gpus_by_kind`.
    GpusByKind,
    /// `max_timeout_ms`.
    Timeout,
    /// `max_array`.
    Array,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RunningJobs => "max_running_jobs",
            Self::Cpu => "max_cpu_m",
            Self::Memory => "max_memory_bytes",
            Self::Gpus => "max_gpus",
            Self::GpusByKind => "max_gpus_by_kind",
            Self::Timeout => "max_timeout_ms",
            Self::Array => "max_array",
        })
    }
}

/// Why a submit was refused. Nothing of it was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The tenant's waiting jobs would pass their limit.
    #[error("the limit of waiting jobs is reached: {used} of {limit}; wait for some to start")]
    PendingJobs {
        /// What there would be.
        used: u64,
        /// The limit.
        limit: u64,
    },
    /// The tenant's active jobs would pass their limit.
    #[error("the limit of active jobs is reached: {used} of {limit}; wait for some to end")]
    ActiveJobs {
        /// What there would be.
        used: u64,
        /// The limit.
        limit: u64,
    },
    /// Too many submits in a short time.
    #[error("too many submits; try again in {retry_after_ms} ms")]
    RateLimited {
        /// When it is worth another try, in milliseconds.
        retry_after_ms: u64,
    },
    /// The demand of active jobs would pass a placement limit, and the quota says to refuse then.
    #[error("active jobs would demand {used} of `{what}`, the quota is {limit}; wait for some to end")]
    Demand {
        /// Which limit.
        what: Limit,
        /// What there would be.
        used: u64,
        /// The limit.
        limit: u64,
    },
    /// One request passes the tenant's own limit: it can never be placed.
    #[error("it asks {asked} of `{what}`, the tenant may have {limit} at all; ask less or raise the quota")]
    NeverFits {
        /// Which limit.
        what: Limit,
        /// What it asks.
        asked: u64,
        /// The limit.
        limit: u64,
    },
    /// Its priority is better than the tenant may use.
    #[error("priority {given} is better than the tenant may use; use {best} or more")]
    Priority {
        /// What was asked.
        given: u8,
        /// The best it may use.
        best: u8,
    },
    /// The tenant is being closed.
    #[error("the tenant is being closed and takes no jobs")]
    Closing,
}

/// Something the scheduler asks its host to do. A host with a store writes all effects of one call in one transaction, then carries
/// them out; a program that keeps nothing only needs [`Effect::placement`], and [`Effect::Cancel`] and [`Effect::Revoke`] where jobs
/// are cancelled, preempted or moved.
///
/// ```
/// use orlop_scheduler::prelude::*;
///
/// let mut scheduler = Scheduler::new(Config::without_timeouts(), 7)?;
/// let mut effects = Vec::new();
/// scheduler.join(0, "w1".parse()?, Capabilities::new(4000, 8 << 30), &mut effects)?;
/// let job = JobId::from_u64(1);
/// scheduler.submit(0, Submission::new(job, Demand::new("physics".parse()?)), &mut effects)?;
/// let _ = scheduler.round(0, u32::MAX, &mut effects);
/// let placement = effects.iter().find_map(Effect::placement).ok_or("there is room")?;
/// scheduler.apply(1, placement.started(), &mut effects)?;
/// effects.clear();
/// scheduler.apply(5, Event::Cancel { job, elements: None }, &mut effects)?;
/// let ending = effects.iter().any(|effect| match effect {
///     Effect::Cancel { attempt, grace_ms, .. } => attempt.job == job && *grace_ms == 10_000,
///     _ => false,
/// });
/// assert!(ending, "the worker is asked to end it, and to kill it ten seconds later");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Effect {
    /// Store a new job and acknowledge it after the commit.
    Admitted {
        /// The job.
        job: JobId,
        /// How many elements it has; 1 if it is no array.
        elements: u32,
    },
    /// Tell the client that nothing was stored.
    Refused {
        /// The job that was refused.
        job: JobId,
        /// Why.
        reason: Refusal,
    },
    /// Store a new state.
    JobChanged {
        /// The job.
        job: JobId,
        /// What of it.
        part: JobPart,
        /// The state before.
        from: JobState,
        /// The state now.
        to: JobState,
        /// Why.
        reason: Reason,
        /// Number of this change, never repeated.
        revision: u64,
    },
    /// Store and publish a final outcome.
    Finished {
        /// The job.
        job: JobId,
        /// What of it.
        part: JobPart,
        /// The final state.
        outcome: JobState,
        /// Why.
        reason: Reason,
    },
    /// Send an attempt to a worker.
    Assign {
        /// The attempt with its token.
        attempt: TaskRef,
        /// The worker.
        worker: WorkerKey,
        /// When it may start.
        start: StartMode,
    },
    /// Store that an attempt which was sent to its worker ahead now holds capacity there. The worker knows already.
    Inherited {
        /// The attempt.
        attempt: TaskRef,
        /// The worker.
        worker: WorkerKey,
        /// The attempt that ended; absent if it started before any such end was heard of.
        from: Option<TaskRef>,
    },
    /// Tell a worker to end an attempt.
    Cancel {
        /// The attempt.
        attempt: TaskRef,
        /// The worker.
        worker: WorkerKey,
        /// Why.
        why: CancelReason,
        /// From the request to the kill, in milliseconds.
        grace_ms: u64,
    },
    /// Tell a worker not to start an attempt.
    Revoke {
        /// The attempt.
        attempt: TaskRef,
        /// The worker.
        worker: WorkerKey,
    },
    /// Store that an attempt was given up because nothing is heard of its worker.
    Lost {
        /// The attempt.
        attempt: TaskRef,
        /// The worker.
        worker: WorkerKey,
        /// It may still run, so its capacity stays held and it may be adopted; else nothing is left of it.
        held: bool,
    },
    /// Answer a message about an attempt.
    Verdict {
        /// The attempt.
        attempt: TaskRef,
        /// Whether the message counts, and what its worker is to do.
        verdict: ReportVerdict,
    },
    /// Store a worker's new state.
    WorkerChanged {
        /// The worker.
        worker: WorkerKey,
        /// The state before; absent for a new worker.
        from: Option<WorkerState>,
        /// The state now.
        to: WorkerState,
        /// Why.
        reason: WorkerReason,
        /// Number of this change, never repeated.
        revision: u64,
    },
    /// Tell a worker to shut down and close its session.
    Shutdown {
        /// The worker.
        worker: WorkerKey,
    },
    /// Publish that a tenant's limit stops a class of its jobs, or no longer does.
    Quota {
        /// The tenant.
        tenant: TenantName,
        /// Whether it stops them.
        stopped: bool,
        /// Number of this change, never repeated.
        revision: u64,
    },
    /// Store that a job reserves workers, or no longer does.
    ReservationChanged {
        /// The job.
        job: JobId,
        /// The workers now; none = no reservation.
        workers: Vec<WorkerKey>,
        /// When they are free at the latest, in monotonic milliseconds; absent: unknown.
        shadow: Option<u64>,
        /// Number of this change, never repeated.
        revision: u64,
    },
}

/// The idempotency key of an effect: what it is about, and the attempt or revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EffectKey {
    /// A submit.
    Job(JobId),
    /// The final outcome of a job or of elements.
    End(JobId, JobPart),
    /// A numbered change.
    Revision(u64),
    /// An attempt, and which of assign, cancel, revoke, verdict, loss and inheritance it is.
    Attempt(TaskRef, u8),
    /// The shutdown of a worker.
    Worker(WorkerKey),
}

impl fmt::Display for EffectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Job(job) => write!(f, "submit/{job}"),
            Self::End(job, JobPart::Whole) => write!(f, "end/{job}"),
            Self::End(job, JobPart::Elements(first, last)) => write!(f, "end/{job}.{first}-{last}"),
            Self::Revision(number) => write!(f, "revision/{number}"),
            Self::Attempt(attempt, what) => write!(f, "attempt/{attempt}/{what}"),
            Self::Worker(worker) => write!(f, "shutdown/{worker}"),
        }
    }
}

impl Effect {
    /// The key under which carrying it out twice equals once.
    #[must_use]
    pub fn key(&self) -> EffectKey {
        match self {
            Self::Admitted { job, .. } | Self::Refused { job, .. } => EffectKey::Job(*job),
            Self::Finished { job, part, .. } => EffectKey::End(*job, *part),
            Self::JobChanged { revision, .. }
            | Self::WorkerChanged { revision, .. }
            | Self::Quota { revision, .. }
            | Self::ReservationChanged { revision, .. } => EffectKey::Revision(*revision),
            Self::Assign { attempt, .. } => EffectKey::Attempt(*attempt, 0),
            Self::Cancel { attempt, .. } => EffectKey::Attempt(*attempt, 1),
            Self::Revoke { attempt, .. } => EffectKey::Attempt(*attempt, 2),
            Self::Verdict { attempt, .. } => EffectKey::Attempt(*attempt, 3),
            Self::Inherited { attempt, .. } => EffectKey::Attempt(*attempt, 6),
            Self::Lost { attempt, held, .. } => EffectKey::Attempt(*attempt, if *held { 4 } else { 5 }),
            Self::Shutdown { worker } => EffectKey::Worker(*worker),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words are stored and sent: what reads them knows these.
    #[test]
    fn reasons_have_the_words_under_which_they_are_stored() {
        let jobs = [
            (Reason::Expired, "expired"),
            (Reason::Cancelled, "cancelled"),
            (Reason::MaxFailures, "max_failures"),
            (Reason::InfraLimit, "infra_limit"),
            (Reason::Permanent, "permanent"),
            (Reason::Exit(Some(1)), "exit"),
            (Reason::Exit(None), "signal"),
            (Reason::TimedOut, "timed_out"),
            (Reason::StartFailed, "start_failed"),
            (Reason::Command(127), "command"),
            (Reason::Rejected, "rejected"),
            (Reason::WorkerLost, "worker_lost"),
            (Reason::Revoked, "revoked"),
            (Reason::Preempted, "preempted"),
            (Reason::Drained, "drained"),
            (Reason::Adopted, "adopted"),
        ];
        for (reason, word) in jobs {
            assert_eq!(reason.word(), Some(word), "{reason:?}");
        }
        let workers = [
            (WorkerReason::Timeout, "timeout"),
            (WorkerReason::Refused, "refused"),
            (WorkerReason::ConnectionLost, "connection_lost"),
            (WorkerReason::Silent, "silent"),
            (WorkerReason::ReportBad, "report_bad"),
            (WorkerReason::StartFailures, "start_failures"),
            (WorkerReason::Losses, "losses"),
            (WorkerReason::Drained, "drained"),
            (WorkerReason::Gone, "gone"),
            (WorkerReason::Superseded, "superseded"),
            (WorkerReason::ServerRestarted, "server_restarted"),
        ];
        for (reason, word) in workers {
            assert_eq!(reason.word(), word, "{reason:?}");
        }
        assert_eq!((Reason::Plain.word(), WorkerReason::Plain.word()), (None, ""), "the state says it all");
    }
}
