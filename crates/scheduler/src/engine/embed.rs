//! The calls of a program that holds the scheduler itself: a job is submitted, a worker joins, an attempt ends, each in one
//! call that answers. Owns the answers; what happens is what the events do, by the same code.

use std::sync::Arc;

use orlop_core::id::{JobId, WorkerId};
use orlop_core::machine::verdict::ReportVerdict;

use super::Scheduler;
use crate::effect::Effect;
use crate::error::{EventError, SubmitError};
use crate::event::{ArraySpec, Capabilities, Outcome, StartWindow, Submission};
use crate::job::Demand;
use crate::placement::Placement;
use crate::table::NONE;
use crate::token::WorkerKey;

/// A job that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// How many elements it has; 1 if it is no array.
    pub elements: u32,
}

impl Scheduler {
    /// Submits a job, or says why it is refused. The events [`Submit`](crate::event::Event::Submit) and
    /// [`SubmitArray`](crate::event::Event::SubmitArray) do the same, except that [`Scheduler::apply`] gives `Ok` where a limit of the
    /// tenant refuses the job, and [`Effect::Refused`] among the effects; this call gives an error and no such effect.
    /// Cost: that of the event.
    ///
    /// ```
    /// use orlop_scheduler::prelude::*;
    ///
    /// let mut scheduler = Scheduler::new(Config::default(), 7)?;
    /// let mut effects = Vec::new();
    /// let tenant: TenantName = "physics".parse()?;
    /// let quota = Quota::default().max_active_jobs(1);
    /// scheduler.apply(0, Event::QuotaChanged { tenant: tenant.clone(), quota }, &mut effects)?;
    ///
    /// let job = |number| Submission::new(JobId::from_u64(number), Demand::new(tenant.clone()));
    /// assert_eq!(scheduler.submit(0, job(1), &mut effects)?, Admitted { elements: 1 });
    /// let refused = scheduler.submit(0, job(2), &mut effects).unwrap_err();
    /// assert!(matches!(refused, SubmitError::Refused(Refusal::ActiveJobs { used: 2, limit: 1 })));
    /// assert_eq!(refused.to_string(), "the limit of active jobs is reached: 2 of 1; wait for some to end");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The job is refused or breaks a bound, or its id is taken. Nothing of it was kept then, unless the class of the error
    /// is Fatal.
    pub fn submit(
        &mut self,
        now: u64,
        submission: Submission,
        effects: &mut Vec<Effect>,
    ) -> Result<Admitted, SubmitError> {
        self.now = self.now.max(now);
        let Submission { job, demand, window, array } = submission;
        self.admit(job, &demand, window, array, effects)
    }

    /// A job was submitted by an event: where a limit refuses it, that is something to be told.
    pub(super) fn submitted(
        &mut self,
        job: JobId,
        demand: &Arc<Demand>,
        window: StartWindow,
        array: Option<ArraySpec>,
        effects: &mut Vec<Effect>,
    ) -> Result<(), EventError> {
        match self.admit(job, demand, window, array, effects) {
            Ok(_) => Ok(()),
            Err(SubmitError::Refused(reason)) => {
                effects.push(Effect::Refused { job, reason });
                Ok(())
            }
            Err(SubmitError::NotTaken(error)) => Err(error),
        }
    }

    /// Adds a worker that is ready at once and runs nothing yet. The same happens by
    /// [`WorkerDeclared`](crate::event::Event::WorkerDeclared), [`Registered`](crate::event::Event::Registered) and
    /// [`Connected`](crate::event::Event::Connected) one after the other, which is for workers that come over a network.
    /// [`Remove`](crate::event::Event::Remove) removes it.
    ///
    /// Unless time limits are [off](crate::config::Config::without_timeouts), the scheduler needs a
    /// [`Heartbeat`](crate::event::Event::Heartbeat) of it, or another event, from time to time.
    ///
    /// ```
    /// use orlop_scheduler::prelude::*;
    ///
    /// let mut scheduler = Scheduler::new(Config::without_timeouts(), 7)?;
    /// let mut effects = Vec::new();
    /// let worker = scheduler.join(0, "w1".parse()?, Capabilities::new(4000, 8 << 30), &mut effects)?;
    /// assert_eq!(scheduler.worker_key(&"w1".parse()?), Some(worker));
    /// // What could run no job is told at once, and leaves nothing behind.
    /// let useless = Capabilities::new(4000, 8 << 30).max_jobs(0);
    /// assert_eq!(
    ///     scheduler.join(0, "w2".parse()?, useless, &mut effects).unwrap_err().to_string(),
    ///     "worker `w2`: `max_jobs` is 0, so that no job fits; offer 1 or more"
    /// );
    /// assert_eq!(scheduler.worker_key(&"w2".parse()?), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// No job [fits the offer](Capabilities::check), the id has a live incarnation, or the fleet has too many kinds of GPUs
    /// and counters. Nothing has changed then, unless the class of the error is Fatal.
    pub fn join(
        &mut self,
        now: u64,
        id: WorkerId,
        offer: impl Into<Arc<Capabilities>>,
        effects: &mut Vec<Effect>,
    ) -> Result<WorkerKey, EventError> {
        self.now = self.now.max(now);
        let offer = offer.into();
        offer.check().map_err(|source| EventError::Offer { worker: id.clone(), source })?;
        // Whether there are columns for it is known before anybody hears of it: a refused worker leaves nothing behind.
        let spare = if self.dims.is_short(&offer) { self.spare_dims(NONE) } else { Vec::new() };
        let widened = self.dims.clone().capacity(&offer, &spare);
        widened.map_err(|name| EventError::Dimensions { worker: id.clone(), name })?;
        let worker = self.declare(id, effects)?;
        self.registered(worker, offer, effects)?;
        self.connected(worker, &[], effects)?;
        Ok(worker)
    }

    /// An attempt that was placed has ended. Its capacity is free for the next round; what becomes of the job, which may be
    /// tried again, is among the effects. The same as [`Placement::ended`] as an event, with its verdict as the answer.
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
    /// assert!(scheduler.finish(9, placement, Outcome::Succeeded, &mut effects)?.counts());
    /// assert_eq!(scheduler.job(job, None).map(|job| job.state), Some(JobState::Completed));
    /// // Said twice, it counts once.
    /// assert_eq!(scheduler.finish(9, placement, Outcome::Lost, &mut effects)?, ReportVerdict::Duplicate);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The worker is not known. Nothing has changed then.
    pub fn finish(
        &mut self,
        now: u64,
        placement: Placement,
        outcome: Outcome,
        effects: &mut Vec<Effect>,
    ) -> Result<ReportVerdict, EventError> {
        self.now = self.now.max(now);
        self.result(placement.attempt, placement.worker, (outcome, None), effects)
    }
}
