//! The naive model: what jobs, attempts and workers are, by events and effects alone, in plain maps. Owns what effects do to
//! it and the laws about single effects; knows nothing of the scheduler's inside.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use orlop_core::id::{JobId, WorkerId};
use orlop_core::machine::job::{self, JobState};
use orlop_core::machine::verdict::ReportVerdict;
use orlop_core::machine::worker::{self, WorkerState};
use orlop_core::task::TaskRef;

use super::amounts::{Amounts, NOTHING, alternatives, needs, plus, totals, within};
use super::law::{Broken, Law};
use crate::effect::{Effect, JobPart, StartMode};
use crate::event::{Capabilities, Quota};
use crate::job::{Demand, Overlap, Runtime};
use crate::stored::GpuShape;
use crate::token::WorkerKey;

/// A unit: job and element.
pub(super) type UnitId = (JobId, u32);

/// A job, element or gang as the effects tell it.
#[derive(Clone, Debug)]
pub(super) struct ModelTask {
    pub(super) state: JobState,
    pub(super) issued: u32,
    pub(super) finished: bool,
}

/// A job.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) spec: Arc<Demand>,
    pub(super) array: bool,
    pub(super) parallel: u32,
    /// Number of its shape: jobs of one tenant with one shape wait in one line.
    pub(super) class: usize,
    /// How many of its elements may fail, when it may start, and until when it has to.
    pub(super) max_failures: u64,
    pub(super) not_before: u64,
    pub(super) expires: u64,
}

/// An attempt that was sent and is not known to have ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Live {
    pub(super) worker: WorkerKey,
    /// What it holds of its worker.
    pub(super) holds: Amounts,
    /// Its tenant is charged for it: it was not given up.
    pub(super) charged: bool,
    /// It was sent ahead and has no slot yet: nothing is held or charged.
    pub(super) waiting: bool,
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
    /// When it was last heard.
    pub(super) heard: u64,
    /// Its id, which its incarnations share.
    pub(super) id: Option<WorkerId>,
}

/// Everything that effects said.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub(super) jobs: BTreeMap<JobId, Job>,
    pub(super) units: BTreeMap<UnitId, ModelTask>,
    /// Units in Queued.
    pub(super) waiting: BTreeSet<UnitId>,
    pub(super) live: BTreeMap<TaskRef, Live>,
    /// Every token that was ever sent, and where.
    pub(super) sent: Vec<(TaskRef, WorkerKey)>,
    pub(super) answered: BTreeSet<TaskRef>,
    /// Those of them that did well.
    pub(super) succeeded: BTreeSet<TaskRef>,
    /// Whose attempts these are.
    pub(super) owners: BTreeMap<TaskRef, WorkerId>,
    pub(super) machines: BTreeMap<WorkerKey, Machine>,
    pub(super) quotas: BTreeMap<String, Quota>,
    pub(super) paused: BTreeSet<String>,
    pub(super) weights: BTreeMap<String, u32>,
    /// Who keeps which workers.
    pub(super) reserved: BTreeMap<JobId, Vec<WorkerKey>>,
    /// For whom tenants reserve their limits.
    pub(super) reservations: super::starvation::Reservations,
    /// Where tasks failed.
    pub(super) avoids: super::avoiding::Avoids,
    /// Shapes that at some time since the last round no worker that was there could have held.
    pub(super) hopeless: BTreeSet<usize>,
    /// Shapes of jobs by number.
    pub(super) classes: Vec<Arc<Demand>>,
    revision: u64,
}

impl Model {
    pub(super) fn spec(&self, job: JobId) -> Option<&Demand> {
        self.jobs.get(&job).map(|job| &*job.spec)
    }

    /// The number of a job's shape.
    pub(super) fn class_of(&mut self, spec: &Arc<Demand>) -> usize {
        let shape = |spec: &Demand| {
            (spec.resources.clone(), spec.requires.clone(), spec.runtime, spec.gang.clone(), spec.tenant.clone())
        };
        let wanted = shape(spec);
        let known = self.classes.iter().position(|known| shape(known) == wanted);
        known.unwrap_or_else(|| {
            self.classes.push(Arc::clone(spec));
            self.classes.len() - 1
        })
    }

    /// Takes one effect in and holds it against what was known. `devices` are those that an attempt got.
    ///
    /// # Errors
    /// The law that it breaks.
    pub(super) fn take(
        &mut self,
        effect: &Effect,
        devices: impl Fn(TaskRef, WorkerKey) -> Option<GpuShape>,
    ) -> Result<(), Broken> {
        match effect {
            Effect::JobChanged { job, part, from, to, revision, .. } => {
                self.number(*revision)?;
                self.each(*job, *part, |unit, id| change(unit, id, *from, *to))?;
                self.wait(*job, *part, *to);
                Ok(())
            }
            Effect::Finished { job, part: JobPart::Whole, outcome, .. }
                if self.jobs.get(job).is_some_and(|job| job.array) =>
            {
                let states = self.units.range((*job, 0)..=(*job, u32::MAX)).map(|(_, unit)| unit.state);
                let derived = JobState::of_array(states);
                let right = derived == *outcome;
                Law::Conservation.demand(right, || format!("{job} ends {outcome}, its elements say {derived}"))
            }
            Effect::Finished { job, part, outcome, .. } => self.each(*job, *part, |unit, id| {
                let right = unit.state == *outcome && !std::mem::replace(&mut unit.finished, true);
                Law::Conservation.demand(right, || format!("{id:?} finishes twice, or as {outcome} in {}", unit.state))
            }),
            Effect::Assign { attempt, worker, start, .. } => {
                self.assign(*attempt, *worker, *start == StartMode::Inherit, devices(*attempt, *worker))
            }
            Effect::Inherited { attempt, worker, from } => {
                let gpu = devices(*attempt, *worker).as_ref().and_then(super::amounts::dim_of);
                let holds = self.spec(attempt.job).map(|spec| needs(spec, gpu));
                // What its worker has lost with it is not there any more.
                let Some(live) = self.live.get_mut(attempt) else { return Ok(()) };
                Law::Prefill.demand(live.waiting, || format!("{attempt} inherits a slot, but waits for none"))?;
                (live.waiting, live.charged, live.holds) = (false, true, holds.unwrap_or(live.holds));
                if from.is_some() { Ok(()) } else { self.capacity(*worker) }
            }
            Effect::WorkerChanged { worker, from, to, revision, .. } => {
                self.number(*revision)?;
                self.move_machine(*worker, *from, *to)
            }
            Effect::ReservationChanged { job, workers, revision, .. } => {
                if workers.is_empty() {
                    self.reserved.remove(job);
                } else {
                    self.reserved.insert(*job, workers.clone());
                }
                self.number(*revision)
            }
            Effect::Quota { revision, .. } => self.number(*revision),
            // Who was given up is charged no more, but holds its worker's capacity.
            Effect::Lost { attempt, held, .. } => {
                self.live.entry(*attempt).and_modify(|live| live.charged = false);
                if !held {
                    self.live.remove(attempt);
                }
                Ok(())
            }
            Effect::Verdict { attempt, verdict } => self.verdict(*attempt, *verdict),
            _ => Ok(()),
        }
    }

    fn number(&mut self, revision: u64) -> Result<(), Broken> {
        let last = std::mem::replace(&mut self.revision, revision);
        Law::Bookkeeping.demand(revision > last, || format!("revision {revision} after {last}"))
    }

    fn each(
        &mut self,
        job: JobId,
        part: JobPart,
        mut act: impl FnMut(&mut ModelTask, UnitId) -> Result<(), Broken>,
    ) -> Result<(), Broken> {
        let (first, last) = span(part);
        let mut any = false;
        for (id, unit) in self.units.range_mut((job, first)..=(job, last)) {
            any = true;
            act(unit, *id)?;
        }
        Law::Conservation.demand(any, || format!("an effect about {job}, which was never admitted"))
    }

    /// Workers have other keys after a restart; those that were forgotten have none. All are silent from now on, and nobody
    /// keeps any.
    pub(super) fn rename(&mut self, keys: &BTreeMap<WorkerKey, WorkerKey>, now: u64) {
        let machines = std::mem::take(&mut self.machines);
        let kept = machines.into_iter().filter_map(|(old, known)| Some((*keys.get(&old)?, known)));
        self.machines = kept.map(|(key, machine)| (key, Machine { heard: now, ..machine })).collect();
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
        self.avoids.rename(keys);
        self.reserved.clear();
        self.reservations.clear();
    }

    /// Keeps who waits.
    fn wait(&mut self, job: JobId, part: JobPart, to: JobState) {
        let (first, last) = span(part);
        let units: Vec<UnitId> = self.units.range((job, first)..=(job, last)).map(|(id, _)| *id).collect();
        for id in units {
            if to == JobState::Queued {
                self.waiting.insert(id)
            } else {
                self.waiting.remove(&id)
            };
        }
    }

    /// Tokens grow by one; only workers that may be placed on get work; capacity and quota hold.
    fn assign(
        &mut self,
        attempt: TaskRef,
        worker: WorkerKey,
        waiting: bool,
        devices: Option<GpuShape>,
    ) -> Result<(), Broken> {
        let id = (attempt.job, attempt.index);
        let Some(unit) = self.units.get_mut(&id) else {
            return Err(Law::Conservation.broken(format!("{attempt} of an unknown job")));
        };
        let expected = if attempt.member == 0 { unit.issued + 1 } else { unit.issued };
        let right = unit.state == JobState::Assigned && attempt.attempt == expected;
        let (state, issued) = (unit.state, unit.issued);
        unit.issued = attempt.attempt;
        Law::Token.demand(right, || format!("{attempt} is sent in {state} after attempt {issued}"))?;
        let (Some(machine), Some(spec)) = (self.machines.get(&worker), self.spec(attempt.job)) else {
            return Err(Law::Token.broken("an assignment to an unknown worker"));
        };
        let open = machine.state == WorkerState::Running && !machine.cordoned && (!machine.draining || spec.urgent);
        Law::Token.demand(open && self.eligible(spec, machine), || {
            format!("{attempt} is sent to {worker}, which is {machine:?}")
        })?;
        let gpu = devices.as_ref().and_then(super::amounts::dim_of);
        Law::Capacity.demand(alternatives(spec).contains(&gpu), || {
            format!("{attempt} got {devices:?}, which would not do for {:?}", spec.resources.gpus)
        })?;
        let holds = needs(spec, gpu);
        let owner = machine.id.clone();
        owner.and_then(|owner| self.owners.insert(attempt, owner));
        self.live.insert(attempt, Live { worker, holds, charged: true, waiting });
        self.sent.push((attempt, worker));
        self.capacity(worker)?;
        if waiting { Ok(()) } else { self.quota(attempt.job, &holds) }
    }

    /// Whether a worker may be seen by a job at all, beside amounts.
    pub(super) fn eligible(&self, spec: &Demand, machine: &Machine) -> bool {
        let offer = &machine.offer;
        (offer.tenants.is_empty() || offer.tenants.contains(&spec.tenant))
            && spec.requires.labels.iter().all(|expression| expression.matches(&offer.labels))
            && spec.requires.features.is_subset(&offer.features)
            && (offer.runtimes.contains(&spec.runtime) || spec.runtime == Runtime::Noop)
    }

    /// What attempts on a worker take.
    pub(super) fn taken(&self, worker: WorkerKey) -> Amounts {
        let here = self.live.values().filter(|live| live.worker == worker && !live.waiting);
        here.fold(NOTHING, |sum, live| plus(sum, &live.holds))
    }

    pub(super) fn capacity(&self, worker: WorkerKey) -> Result<(), Broken> {
        let Some(machine) = self.machines.get(&worker) else { return Ok(()) };
        let (taken, total) = (self.taken(worker), totals(&machine.offer));
        Law::Capacity.demand(within(&taken, &total), || format!("{worker} holds {taken:?} of {total:?}"))
    }

    /// What the charged attempts of a tenant take.
    pub(super) fn charged(&self, tenant: &str) -> Amounts {
        let charged = self.live.iter().filter(|(_, live)| live.charged && !live.waiting);
        let own = charged.filter(|(attempt, _)| self.spec(attempt.job).is_some_and(|spec| spec.tenant == *tenant));
        own.fold(NOTHING, |sum, (_, live)| plus(sum, &live.holds))
    }

    /// What was just charged has passed no limit of its tenant.
    pub(super) fn quota(&self, job: JobId, new: &Amounts) -> Result<(), Broken> {
        let Some(spec) = self.spec(job) else { return Ok(()) };
        let held = self.charged(spec.tenant.as_str());
        let Some(quota) = self.quotas.get(spec.tenant.as_str()) else { return Ok(()) };
        Law::Quota.demand(super::room::admits(quota, &held, new), || {
            format!("tenant {} holds {held:?} of {quota:?}", spec.tenant)
        })
    }

    fn move_machine(&mut self, key: WorkerKey, from: Option<WorkerState>, to: WorkerState) -> Result<(), Broken> {
        let known = self.machines.get(&key).map(|machine| machine.state);
        Law::Conservation.demand(known == from, || format!("{key} leaves {from:?} but is {known:?}"))?;
        Law::Conservation
            .demand(worker::MACHINE.successors(from).contains(&to), || format!("{key} goes from {from:?} to {to}"))?;
        let machine = self.machines.entry(key).or_insert_with(|| Machine {
            state: to,
            offer: Arc::default(),
            counted: false,
            cordoned: false,
            draining: false,
            heard: 0,
            id: None,
        });
        machine.state = to;
        machine.counted |= !matches!(to, WorkerState::Creating | WorkerState::Registering);
        if to.is_terminal() {
            machine.counted = false;
            // What must never overlap is given up only when its worker has been silent for long.
            let forbids = |job: JobId| self.jobs.get(&job).is_some_and(|job| job.spec.overlap == Overlap::Forbid);
            self.live.retain(|attempt, live| live.worker != key || forbids(attempt.job));
        }
        Ok(())
    }

    /// A result counts at most once, and never for an old token.
    fn verdict(&mut self, attempt: TaskRef, verdict: ReportVerdict) -> Result<(), Broken> {
        let known = self.units.get(&(attempt.job, attempt.index)).is_some_and(|unit| attempt.attempt <= unit.issued);
        let answered = self.answered.contains(&attempt);
        let taken = matches!(verdict, ReportVerdict::Accepted | ReportVerdict::Adopted);
        Law::Answers
            .demand(verdict != ReportVerdict::Duplicate || answered, || format!("{attempt} is no duplicate"))?;
        Law::Answers.demand(!taken || !answered, || format!("{attempt} is accepted twice"))?;
        Law::Answers.demand(!taken || known, || format!("{attempt} was never sent"))
    }
}

/// The elements that a part means.
pub(super) const fn span(part: JobPart) -> (u32, u32) {
    match part {
        JobPart::Whole => (0, 0),
        JobPart::Elements(first, last) => (first, last),
    }
}

fn change(unit: &mut ModelTask, id: UnitId, from: JobState, to: JobState) -> Result<(), Broken> {
    Law::Conservation.demand(unit.state == from, || format!("{id:?} leaves {from} but is {}", unit.state))?;
    Law::Conservation
        .demand(job::MACHINE.successors(from).contains(&to), || format!("{id:?} goes from {from} to {to}"))?;
    unit.state = to;
    Ok(())
}
