//! The law of saving in a random world: while a tenant reserves its limits for a job, its other
//! jobs start only if they leave room for all that this one needs. Owns for whom the scheduler said that it reserves, and when
//! that has to end; how much is left beside it is worked out in `room`.

use std::collections::BTreeMap;

use orlop_core::id::JobId;
use orlop_core::machine::job::JobState;

use super::amounts::{Amounts, alternatives, needs, times, totals};
use super::law::{Broken, Law};
use super::model::{Model, UnitId};
use super::room::{Line, admits};
use crate::effect::Effect;
use crate::engine::Scheduler;
use crate::event::Quota;
use crate::job::Demand;

/// Whom a tenant reserves for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reserved {
    job: JobId,
    /// It is known that it reserves for it all through the call, unless an effect ends that.
    sure: bool,
}

/// By tenant.
pub(super) type Reservations = BTreeMap<String, Reserved>;

fn saved_jobs(scheduler: &Scheduler) -> BTreeMap<String, JobId> {
    scheduler.quota_reservations().map(|(tenant, job)| (tenant.to_string(), job)).collect()
}

impl Model {
    /// Before the effects of a call: what was reserved for before and after it was so meanwhile, unless workers have come since
    /// the last round that could hold a job before it. That one is the first until it starts, which may be in this call.
    pub(super) fn begin_quota_reservations(&mut self, scheduler: &Scheduler) {
        if self.reservations.is_empty() {
            return;
        }
        let after = saved_jobs(scheduler);
        self.note_hopeless();
        let mut reservations = std::mem::take(&mut self.reservations);
        for (tenant, reserved) in &mut reservations {
            reserved.sure = after.get(tenant) == Some(&reserved.job) && self.is_first(reserved.job);
        }
        self.reservations = reservations;
    }

    /// Notes which shapes no worker that is there could hold, if any tenant reserves for anything.
    fn note_hopeless(&mut self) {
        let mut empty = self.open_or_kept();
        empty.iter_mut().for_each(|(_, machine, left)| *left = totals(&machine.offer));
        let could = |spec: &Demand| self.place_for(spec, &self.ever(spec), &empty).is_some();
        let hopeless: Vec<usize> =
            (0..).zip(&self.classes).filter(|(_, spec)| !could(spec)).map(|(number, _)| number).collect();
        self.hopeless.extend(hopeless);
    }

    /// What a job needs, of a gang one member, by each of its alternatives that the limits of its tenant could ever allow.
    fn ever(&self, spec: &Demand) -> Vec<Amounts> {
        let quota = self.quotas.get(spec.tenant.as_str());
        let ever = |need: &Amounts| {
            let all = times(need, u64::from(spec.members()));
            quota.is_none_or(|quota| admits(quota, &all, &all))
        };
        alternatives(spec).into_iter().map(|gpu| needs(spec, gpu)).filter(ever).collect()
    }

    /// What limits have to leave for the job that the tenant of another one reserves for, by each of its alternatives that they
    /// could ever allow; nothing if it reserves for none or for this one.
    pub(super) fn reserved(&self, job: JobId, quota: &Quota) -> Vec<Amounts> {
        let reserved = self.spec(job).and_then(|spec| self.reservations.get(spec.tenant.as_str()));
        let Some(goal) = reserved.filter(|reserved| reserved.job != job).and_then(|reserved| self.spec(reserved.job))
        else {
            return Vec::new();
        };
        let all = alternatives(goal).into_iter().map(|gpu| times(&needs(goal, gpu), u64::from(goal.members())));
        all.filter(|need| admits(quota, need, need)).collect()
    }

    /// A job is about to start: it leaves what its tenant reserves for another. Who reserved workers before may start.
    pub(super) fn spends(&self, (job, index): UnitId, held: &Amounts) -> Result<(), Broken> {
        let Some(spec) = self.spec(job).filter(|_| !self.reserved.contains_key(&job)) else { return Ok(()) };
        let Some(reserved) = self.reservations.get(spec.tenant.as_str()).filter(|reserved| reserved.sure) else {
            return Ok(());
        };
        let leaves = !self.allowed(job, held).is_empty();
        Law::NoStarvation
            .demand(leaves, || format!("{job}.{index} takes what {} reserves for {}", spec.tenant, reserved.job))
    }

    /// An effect was taken in: what starts, leaves or is not the first of its band any more is not reserved for.
    pub(super) fn end_reservations(&mut self, effect: &Effect) {
        let Effect::JobChanged { job, to, .. } = effect else { return };
        if self.reservations.is_empty() {
            return;
        }
        let mut reservations = std::mem::take(&mut self.reservations);
        reservations
            .retain(|_, reserved| (reserved.job != *job || *to != JobState::Assigned) && self.is_first(reserved.job));
        self.reservations = reservations;
    }

    /// Whether a job is the first of its tenant and band but for those that the limits could never allow, by what somebody
    /// has, or no worker could hold.
    fn is_first(&self, job: JobId) -> bool {
        let Some(spec) = self.spec(job) else { return false };
        let (tenant, band) = (spec.tenant.as_str(), spec.priority.band().index());
        let quota = self.quotas.get(tenant);
        // What only workers had that are gone is not known to a scheduler that began anew meanwhile.
        let there = || self.machines.values().filter(|machine| machine.counted);
        let has = |dim: usize| there().any(|machine| totals(&machine.offer)[dim] > 0);
        let could = |first: JobId| {
            let (Some(spec), Some(quota)) = (self.spec(first), quota) else { return true };
            let offered = |name: &str| there().any(|machine| machine.offer.extras.contains_key(name));
            let mut extras = spec.resources.extras.iter().filter(|(_, amount)| **amount > 0);
            if !extras.all(|(name, _)| offered(name)) {
                return false;
            }
            let mut devices = alternatives(spec).into_iter().filter(|gpu| gpu.is_none_or(has));
            devices.any(|gpu| {
                let need = times(&needs(spec, gpu), u64::from(spec.members()));
                admits(quota, &need, &need)
            })
        };
        // A job that lets others pass is still the first.
        let own = self.whole_lines().into_iter().filter(|line| line.tenant == tenant && line.band == band);
        let own: Vec<Line> = own.collect();
        let key = own.iter().map(|line| line.first).find(|(_, (first, _))| *first == job);
        let stands = |line: &&Line| !self.hopeless.contains(&line.class) && could(line.first.1.0);
        key.is_some_and(|key| own.iter().filter(stands).all(|line| line.first >= key))
    }

    /// After a call: what the scheduler reserves for now. Nothing that an effect put an end to is among it, and what is new has
    /// waited.
    pub(super) fn sync_reservations(
        &mut self,
        effects: &[Effect],
        before: &Reservations,
        scheduler: &Scheduler,
    ) -> Result<(), Broken> {
        let law = Law::NoStarvation;
        let after = saved_jobs(scheduler);
        if !after.is_empty() {
            self.note_hopeless();
        }
        for (tenant, job) in &after {
            law.demand(self.is_first(*job), || {
                format!("{tenant} reserves for {job}, which is not the first of its band")
            })?;
            let started = |effect: &Effect| matches!(effect, Effect::JobChanged { job: of, to: JobState::Assigned, .. } if of == job);
            let ended = effects.iter().any(started);
            law.demand(!ended, || format!("{tenant} still reserves for {job}, which has started"))?;
            let waited = scheduler.job(*job, None).map_or(0, |view| scheduler.now().saturating_sub(view.submitted));
            let known = before.get(tenant).is_some_and(|reserved| reserved.job == *job);
            law.demand(known || waited >= scheduler.config().reserve_after, || {
                format!("{tenant} reserves for {job}, which has waited for {waited} ms only")
            })?;
        }
        self.reservations = after.into_iter().map(|(tenant, job)| (tenant, Reserved { job, sure: true })).collect();
        Ok(())
    }
}
