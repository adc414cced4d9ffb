//! A placement: which attempt goes to which worker. Owns the value, and the events that tell what became of it; decides
//! nothing.

use orlop_core::task::{StartMode, TaskRef};
use serde::{Deserialize, Serialize};

use crate::effect::Effect;
use crate::event::{Event, Outcome};
use crate::token::WorkerKey;

/// An attempt that was given to a worker: what [`Effect::Assign`] says.
///
/// ```
/// use orlop_scheduler::prelude::*;
///
/// let mut scheduler = Scheduler::new(Config::without_timeouts(), 7)?;
/// let mut effects = Vec::new();
/// let worker = scheduler.join(0, "w1".parse()?, Capabilities::new(1000, 1 << 30), &mut effects)?;
/// for number in 1..=2 {
///     let job = Submission::new(JobId::from_u64(number), Demand::new("physics".parse()?));
///     scheduler.submit(0, job, &mut effects)?;
/// }
/// // There is room for one of them at a time.
/// let mut started = Vec::new();
/// for now in [10, 20] {
///     effects.clear();
///     let _ = scheduler.round(now, u32::MAX, &mut effects);
///     let placed: Vec<Placement> = effects.iter().filter_map(Effect::placement).collect();
///     for placement in placed {
///         started.push((placement.attempt.job.as_u64(), placement.worker == worker));
///         scheduler.finish(now + 5, placement, Outcome::Succeeded, &mut effects)?;
///     }
/// }
/// assert_eq!(started, [(1, true), (2, true)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Placement {
    /// The attempt with its token: which job, which element of an array, which member of a gang.
    pub attempt: TaskRef,
    /// Where it goes.
    pub worker: WorkerKey,
    /// When it may start. At once, unless jobs are sent ahead: that happens only to workers of which
    /// [`Event::RoundTrip`] told how far they are.
    pub start: StartMode,
}

impl Placement {
    /// The event that it has started. It is optional: only estimates of when workers become free, and `queue_timeout`, need it.
    #[must_use]
    pub fn started(self) -> Event {
        Event::Started { attempt: self.attempt, worker: self.worker }
    }

    /// The event that it has ended.
    #[must_use]
    pub fn ended(self, outcome: Outcome) -> Event {
        Event::Result { attempt: self.attempt, worker: self.worker, outcome, ran_ms: None }
    }
}

impl Effect {
    /// The placement, where this effect is [`Effect::Assign`]. Where jobs are cancelled, preempted or moved, look at [`Effect::Cancel`] and
    /// [`Effect::Revoke`] too, which say what to end.
    #[must_use]
    pub fn placement(&self) -> Option<Placement> {
        match self {
            Self::Assign { attempt, worker, start } => {
                Some(Placement { attempt: *attempt, worker: *worker, start: *start })
            }
            _ => None,
        }
    }
}
