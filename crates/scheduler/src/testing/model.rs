//! The naive model: what jobs, attempts and workers are, by events and effects alone, in plain maps. Owns the laws; knows
//! nothing of the scheduler's inside.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use orlop_core::id::JobId;
use orlop_core::machine::job::{self, JobState};
use orlop_core::machine::verdict::Verdict;
use orlop_core::machine::worker::{self, WorkerState};

use crate::effect::{Effect, Part};
use crate::event::{Capabilities, Quota};
use crate::job::JobSpec;
use crate::token::{AttemptRef, WorkerKey};

/// A law that does not hold, and where.
pub type Broken = String;

/// A unit: job and element.
pub(super) type UnitId = (JobId, u32);

/// A job, element or gang as the effects tell it.
#[derive(Clone, Debug)]
pub(super) struct Unit {
    pub(super) state: JobState,
    pub(super) issued: u32,
    pub(super) finished: bool,
}

/// A job.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) spec: Arc<JobSpec>,
    pub(super) array: bool,
    pub(super) parallel: u32,
}

/// An attempt that was sent and is not known to have ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Live {
    pub(super) worker: WorkerKey,
    /// Its tenant is charged for it: it was not given up.
    pub(super) charged: bool,
}

/// A worker.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    pub(super) state: WorkerState,
    pub(super) offer: Arc<Capabilities>,
    /// Its capacity counts.
    pub(super) counted: bool,
    pub(super) cordoned: bool,
    pub(super) draining: bool,
}

/// Everything that effects said.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub(super) jobs: BTreeMap<JobId, Job>,
    pub(super) units: BTreeMap<UnitId, Unit>,
    pub(super) live: BTreeMap<AttemptRef, Live>,
    /// Every token that was ever sent, and where.
    pub(super) sent: Vec<(AttemptRef, WorkerKey)>,
    pub(super) answered: BTreeSet<AttemptRef>,
    pub(super) machines: BTreeMap<WorkerKey, Machine>,
    pub(super) quotas: BTreeMap<String, Quota>,
    pub(super) paused: BTreeSet<String>,
    revision: u64,
}

fn broken<T>(what: impl Into<String>) -> Result<T, Broken> {
    Err(what.into())
}

impl Model {
    pub(super) fn spec(&self, job: JobId) -> Option<&JobSpec> {
        self.jobs.get(&job).map(|job| &*job.spec)
    }

    /// Takes one effect in and holds it against what was known.
    ///
    /// # Errors
    /// The law that it breaks.
    pub(super) fn take(&mut self, effect: &Effect) -> Result<(), Broken> {
        match effect {
            Effect::JobChanged { job, part, from, to, revision, .. } => {
                self.number(*revision)?;
                self.each(*job, *part, |unit, id| change(unit, id, *from, *to))
            }
            Effect::Finished { job, part: Part::Whole, outcome, .. }
                if self.jobs.get(job).is_some_and(|job| job.array) =>
            {
                let states = self.units.range((*job, 0)..=(*job, u32::MAX)).map(|(_, unit)| unit.state);
                let derived = JobState::of_array(states);
                if derived == *outcome {
                    Ok(())
                } else {
                    broken(format!("{job} ends {outcome}, its elements say {derived}"))
                }
            }
            Effect::Finished { job, part, outcome, .. } => self.each(*job, *part, |unit, id| {
                if unit.state != *outcome || unit.finished {
                    return broken(format!("{id:?} finishes twice, or as {outcome} in {}", unit.state));
                }
                unit.finished = true;
                Ok(())
            }),
            Effect::Assign { attempt, worker, .. } => self.assign(*attempt, *worker),
            Effect::WorkerChanged { worker, from, to, revision, .. } => {
                self.number(*revision)?;
                self.move_machine(*worker, *from, *to)
            }
            Effect::Quota { revision, .. } | Effect::ReservationChanged { revision, .. } => self.number(*revision),
            Effect::Verdict { attempt, verdict } => self.verdict(*attempt, *verdict),
            _ => Ok(()),
        }
    }

    fn number(&mut self, revision: u64) -> Result<(), Broken> {
        if revision <= self.revision {
            return broken(format!("revision {revision} after {}", self.revision));
        }
        self.revision = revision;
        Ok(())
    }

    fn each(
        &mut self,
        job: JobId,
        part: Part,
        mut act: impl FnMut(&mut Unit, UnitId) -> Result<(), Broken>,
    ) -> Result<(), Broken> {
        let (first, last) = match part {
            Part::Whole => (0, 0),
            Part::Elements(first, last) => (first, last),
        };
        let mut any = false;
        for (id, unit) in self.units.range_mut((job, first)..=(job, last)) {
            any = true;
            act(unit, *id)?;
        }
        if any { Ok(()) } else { broken(format!("an effect about {job}, which was never admitted")) }
    }

    /// Workers have other keys after a restart; those that were forgotten have none.
    pub(super) fn rename(&mut self, keys: &BTreeMap<WorkerKey, WorkerKey>) {
        let machines = std::mem::take(&mut self.machines);
        self.machines = machines.into_iter().filter_map(|(old, known)| Some((*keys.get(&old)?, known))).collect();
        self.sent.retain_mut(|(_, worker)| {
            keys.get(worker).is_some_and(|new| {
                *worker = *new;
                true
            })
        });
        self.live.retain(|_, live| {
            keys.get(&live.worker).is_some_and(|new| {
                live.worker = *new;
                true
            })
        });
    }

    /// Tokens grow by one; only workers that may be placed on get work; capacity and quota hold.
    fn assign(&mut self, attempt: AttemptRef, worker: WorkerKey) -> Result<(), Broken> {
        let id = (attempt.job, attempt.index);
        let Some(unit) = self.units.get_mut(&id) else { return broken(format!("{attempt} of an unknown job")) };
        let expected = if attempt.member == 0 { unit.issued + 1 } else { unit.issued };
        if unit.state != JobState::Assigned || attempt.attempt != expected {
            return broken(format!("{attempt} is sent in {} after attempt {}", unit.state, unit.issued));
        }
        unit.issued = attempt.attempt;
        let Some(machine) = self.machines.get(&worker) else { return broken("an assignment to an unknown worker") };
        let urgent = self.spec(attempt.job).is_some_and(|spec| spec.urgent);
        let open = machine.state == WorkerState::Running && !machine.cordoned && (!machine.draining || urgent);
        if !open || !self.eligible(attempt.job, machine) {
            return broken(format!("{attempt} is sent to {worker}, which is {machine:?}"));
        }
        self.live.insert(attempt, Live { worker, charged: true });
        self.sent.push((attempt, worker));
        self.capacity(worker)?;
        self.quota(attempt.job)
    }

    /// Whether a worker may be seen by a job at all, beside amounts.
    pub(super) fn eligible(&self, job: JobId, machine: &Machine) -> bool {
        let (Some(spec), offer) = (self.spec(job), &machine.offer) else { return false };
        (offer.tenants.is_empty() || offer.tenants.contains(&spec.tenant))
            && spec.requires.labels.iter().all(|expression| expression.matches(&offer.labels))
            && spec.requires.features.is_subset(&offer.features)
            && offer.runtimes.contains(&spec.runtime)
    }

    /// What attempts on a worker take: millicores, mebibytes, slots.
    pub(super) fn taken(&self, worker: WorkerKey) -> [u64; 3] {
        let here = self.live.iter().filter(|(_, live)| live.worker == worker);
        here.filter_map(|(attempt, _)| self.spec(attempt.job)).fold([0; 3], |sum, spec| plus(sum, needs(spec)))
    }

    pub(super) fn capacity(&self, worker: WorkerKey) -> Result<(), Broken> {
        let Some(machine) = self.machines.get(&worker) else { return Ok(()) };
        let (taken, total) = (self.taken(worker), totals(&machine.offer));
        if taken.iter().zip(&total).all(|(taken, total)| taken <= total) {
            return Ok(());
        }
        broken(format!("{worker} holds {taken:?} of {total:?}"))
    }

    /// What the charged attempts of a tenant take.
    pub(super) fn charged(&self, tenant: &str) -> [u64; 3] {
        let charged = self.live.iter().filter(|(_, live)| live.charged);
        let specs = charged.filter_map(|(attempt, _)| self.spec(attempt.job)).filter(|spec| spec.tenant == *tenant);
        specs.fold([0; 3], |sum, spec| plus(sum, needs(spec)))
    }

    /// Whether a tenant's limits hold, with one more attempt of `more`.
    pub(super) fn within_quota(&self, tenant: &str, more: [u64; 3]) -> bool {
        let held = plus(self.charged(tenant), more);
        let Some(quota) = self.quotas.get(tenant) else { return true };
        quota.max_cpu_m.is_none_or(|limit| held[0] <= limit || more[0] == 0)
            && quota.max_memory_bytes.is_none_or(|limit| held[1] <= limit >> 20 || more[1] == 0)
            && quota.max_running_jobs.is_none_or(|limit| held[2] <= limit || more[2] == 0)
    }

    fn quota(&self, job: JobId) -> Result<(), Broken> {
        let Some(spec) = self.spec(job) else { return Ok(()) };
        // The attempt is charged already: one like it more than nothing.
        let without = [0; 3];
        let held = self.charged(spec.tenant.as_str());
        let Some(quota) = self.quotas.get(spec.tenant.as_str()) else { return Ok(()) };
        let need = plus(needs(spec), without);
        let over = |limit: Option<u64>, held: u64, need: u64| limit.is_some_and(|limit| need > 0 && held > limit);
        if over(quota.max_cpu_m, held[0], need[0])
            || over(quota.max_memory_bytes.map(|limit| limit >> 20), held[1], need[1])
            || over(quota.max_running_jobs, held[2], need[2])
        {
            return broken(format!("tenant {} holds {held:?} of {quota:?}", spec.tenant));
        }
        Ok(())
    }

    fn move_machine(&mut self, key: WorkerKey, from: Option<WorkerState>, to: WorkerState) -> Result<(), Broken> {
        let known = self.machines.get(&key).map(|machine| machine.state);
        if known != from {
            return broken(format!("{key} leaves {from:?} but is {known:?}"));
        }
        if !worker::MACHINE.successors(from).contains(&to) {
            return broken(format!("{key} goes from {from:?} to {to}"));
        }
        let machine = self.machines.entry(key).or_insert_with(|| Machine {
            state: to,
            offer: Arc::default(),
            counted: false,
            cordoned: false,
            draining: false,
        });
        machine.state = to;
        machine.counted |= matches!(to, WorkerState::Available | WorkerState::Running);
        if to.is_terminal() {
            machine.counted = false;
            self.live.retain(|_, live| live.worker != key);
        }
        Ok(())
    }

    /// A result counts at most once, and never for an old token.
    fn verdict(&mut self, attempt: AttemptRef, verdict: Verdict) -> Result<(), Broken> {
        let known = self.units.get(&(attempt.job, attempt.index)).is_some_and(|unit| attempt.attempt <= unit.issued);
        match verdict {
            Verdict::Duplicate if !self.answered.contains(&attempt) => broken(format!("{attempt} is no duplicate")),
            Verdict::Accepted | Verdict::Adopted if self.answered.contains(&attempt) => {
                broken(format!("{attempt} is accepted twice"))
            }
            Verdict::Accepted | Verdict::Adopted if !known => broken(format!("{attempt} was never sent")),
            _ => Ok(()),
        }
    }
}

fn change(unit: &mut Unit, id: UnitId, from: JobState, to: JobState) -> Result<(), Broken> {
    if unit.state != from {
        return broken(format!("{id:?} leaves {from} but is {}", unit.state));
    }
    if !job::MACHINE.successors(from).contains(&to) {
        return broken(format!("{id:?} goes from {from} to {to}"));
    }
    unit.state = to;
    Ok(())
}

pub(super) fn plus(a: [u64; 3], b: [u64; 3]) -> [u64; 3] {
    [a[0].saturating_add(b[0]), a[1].saturating_add(b[1]), a[2].saturating_add(b[2])]
}

/// What nobody has: amounts are counted up to here.
const NOBODY: u64 = i32::MAX as u64;

/// Millicores, mebibytes rounded up, one slot.
pub(super) fn needs(spec: &JobSpec) -> [u64; 3] {
    [spec.resources.cpu_m, spec.resources.memory_bytes.div_ceil(1 << 20), 1].map(|need| need.min(NOBODY))
}

/// Millicores, mebibytes rounded down, slots.
pub(super) fn totals(offer: &Capabilities) -> [u64; 3] {
    [offer.cpu_m, offer.memory_bytes >> 20, u64::from(offer.max_jobs)].map(|total| total.min(NOBODY - 1))
}
