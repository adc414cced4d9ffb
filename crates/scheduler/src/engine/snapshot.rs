//! Snapshots: the whole state as a value that can be written down and read back. Owns its version and the checks of what
//! is read; a restored scheduler goes on as the original would.

use serde::{Deserialize, Serialize};

use super::Scheduler;
use super::preemptible::Preemptibles;
use crate::class::OpenClasses;
use crate::config::Config;
use crate::error::EventError;
use crate::queue::Lane;

/// The form of what is written.
const VERSION: u32 = 3;

/// The state of a scheduler, for any format of serde. See [`Scheduler::snapshot`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Snapshot {
    version: u32,
    state: Scheduler,
}

impl Scheduler {
    /// The whole state, to be stored with serde and given to [`Scheduler::restore`]. A
    /// [placement policy of the user's own](Scheduler::set_placement_policy) is left out. Cost: linear in jobs, attempts, workers and
    /// classes; elements of arrays count by ranges.
    ///
    /// ```
    /// use orlop_scheduler::prelude::*;
    ///
    /// let mut scheduler = Scheduler::new(Config::without_timeouts(), 7)?;
    /// let mut effects = Vec::new();
    /// let job = Submission::new(JobId::from_u64(1), Demand::new("physics".parse()?));
    /// scheduler.submit(0, job, &mut effects)?;
    /// let text = serde_json::to_string(&scheduler.snapshot())?;
    ///
    /// let restored = Scheduler::restore(serde_json::from_str(&text)?, Config::without_timeouts())?;
    /// assert_eq!(restored.job(JobId::from_u64(1), None).map(|job| job.state), Some(JobState::Queued));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let mut state = self.clone();
        state.set_placement_policy(None);
        Snapshot { version: VERSION, state }
    }

    /// The scheduler of a snapshot, with a configuration that may differ from that at the time of the snapshot. Nothing of the snapshot is
    /// trusted: [`Scheduler::sanity_check`] runs over all of it. Cost: that of the check, linear in everything.
    ///
    /// # Errors
    /// A value of the configuration is out of its bounds, the snapshot was written by another version, or it contradicts itself.
    pub fn restore(snapshot: Snapshot, config: Config) -> Result<Self, EventError> {
        config.check()?;
        if snapshot.version != VERSION {
            return Err(EventError::Fatal("the snapshot was written by another version"));
        }
        let mut scheduler = snapshot.state;
        scheduler.derive();
        scheduler.sanity_check().map_err(EventError::Fatal)?;
        scheduler.config = config;
        Ok(scheduler)
    }

    /// Works out again what follows from the rest and is not written down.
    fn derive(&mut self) {
        self.classes.rebuild(&self.requests);
        self.tenants.iter_mut().flat_map(|tenant| &mut tenant.lanes).for_each(Lane::refresh);
        self.preemptibles = Preemptibles::default();
        for (slot, attempt) in self.attempts.iter() {
            self.preemptibles.insert(slot, attempt);
        }
        self.forget_seen();
        self.count_given_up();
        self.open_classes = OpenClasses::default();
        for (number, class) in self.classes.iter() {
            self.open_classes.set(number, class.queues > 0 && !class.is_blocked());
        }
    }
}
