//! The world around a scheduler: users, operators and workers that do whatever the choices say, often the wrong thing.
//! Owns which event comes next and checks everything after each one.

use std::collections::BTreeMap;

use orlop_core::id::{JobId, TenantName};
use orlop_core::machine::job::JobState;
use orlop_core::machine::worker::WorkerState;
use orlop_core::task::TaskRef;

use super::amounts::{CPU, MEMORY, NOTHING, SLOTS, plus};
use super::choices::Choices;
use super::claims::said;
use super::credit::Credits;
use super::deadlines::Deadlines;
use super::law::{Broken, Law};
use super::model::{Model, UnitId};
use super::preempting::Preemptions;
use super::prefilling::{Prefills, ahead};
use super::store::Store;
use super::turns::{LawCounts, Placing, Turns};
use crate::config::{Config, Policy};
use crate::effect::Effect;
use crate::engine::Scheduler;
use crate::error::EventError;
use crate::event::Event;
use crate::job::Demand;
use crate::token::WorkerKey;

/// How a world is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// How workers are chosen.
    pub policy: Policy,
    /// Whether urgent jobs may end others, and some jobs may be ended.
    pub preemption: bool,
    /// Whether there is always more to do than workers that stay can do, in small rounds: order and shares are at stake.
    pub backlog: bool,
    /// Whether the server dies now and then and starts again from the rows of its store.
    pub restarts: bool,
    /// Whether the scheduler is written down and read back now and then.
    pub snapshots: bool,
    /// Whether many jobs are short and alike, and sent ahead to workers that are known to be near.
    pub prefill: bool,
    /// Whether operators place jobs themselves and drain workers, which urgent jobs enter all the same.
    pub operators: bool,
    /// Whether gangs go out of sight with their workers and come back.
    pub gangs: bool,
}

/// How many attempts may be preempted in a minute.
const PREEMPT_PER_MINUTE: u32 = 3;

/// A scheduler, the model of it, and what the world knows.
#[derive(Clone, Debug)]
pub struct World<'a> {
    /// The scheduler.
    pub scheduler: Scheduler,
    pub(super) shape: Shape,
    pub(super) model: Model,
    pub(super) preemptions: Preemptions,
    pub(super) turns: Turns,
    pub(super) prefills: Prefills,
    pub(super) credits: Credits,
    /// An operator's placement is being taken in.
    directed: bool,
    /// The worker whose message is being taken in, and the attempts that this is about.
    pub(super) said: Option<(WorkerKey, Vec<TaskRef>)>,
    pub(super) store: Store,
    pub(super) deadlines: Deadlines,
    pub(super) gangs_adopted: usize,
    pub(super) choices: Choices<'a>,
    pub(super) now: u64,
    pub(super) next_job: u64,
    pub(super) tenants: Vec<TenantName>,
    /// A number that depends on every effect so far.
    pub hash: u64,
    pub(super) effects: Vec<Effect>,
    steps: u64,
}

impl<'a> World<'a> {
    /// A world without workers and jobs.
    ///
    /// # Errors
    /// The configuration of `shape` is refused.
    pub fn new(shape: Shape, choices: Choices<'a>) -> Result<Self, Broken> {
        let config = Config {
            policy: shape.policy,
            preemption: shape.preemption,
            preempt_per_minute: PREEMPT_PER_MINUTE,
            max_infra: 2,
            max_reservations: if shape.backlog { 0 } else { 16 },
            // What a restart reads back must not have been forgotten.
            finished_kept: if shape.restarts { 65_536 } else { 64 },
            workers_kept: 8,
            ..Config::default()
        };
        let scheduler = Scheduler::new(config, 11).map_err(|error| Law::Bookkeeping.broken(error.to_string()))?;
        Ok(Self {
            scheduler,
            shape,
            model: Model::default(),
            preemptions: Preemptions::default(),
            turns: Turns::default(),
            prefills: Prefills::default(),
            credits: Credits::default(),
            directed: false,
            said: None,
            store: Store::default(),
            deadlines: Deadlines::default(),
            gangs_adopted: 0,
            choices,
            now: 0,
            next_job: 1,
            tenants: ["a", "b", "c"].iter().filter_map(|name| name.parse().ok()).collect(),
            hash: 0,
            effects: Vec::new(),
            steps: 0,
        })
    }

    /// Does one thing and checks every law after it.
    ///
    /// # Errors
    /// The law that broke.
    pub fn step(&mut self) -> Result<(), Broken> {
        self.steps += 1;
        // Told by the count alone, so that a world with snapshots makes the same choices as one without.
        if self.shape.snapshots && crate::table::mix(self.steps).is_multiple_of(40) {
            self.restart()?;
        }
        if self.shape.restarts && self.choices.once_in(30) {
            self.rebuild()?;
        }
        let draw = self.choices.below(16);
        match draw {
            _ if self.shape.prefill && self.choices.once_in(2) => self.tend()?,
            _ if self.shape.operators && self.choices.once_in(3) => self.direct()?,
            _ if self.shape.gangs && self.choices.once_in(2) => self.part()?,
            _ if self.shape.backlog => self.busy(draw)?,
            0..=3 => {
                self.round()?;
                if self.shape.preemption {
                    self.start_some()?;
                }
            }
            4 | 5 => self.submit()?,
            6 => self.worker_event()?,
            7 => self.operator_event()?,
            8 => self.pass_time()?,
            _ if self.shape.preemption && self.choices.once_in(2) => self.crowd()?,
            _ => self.attempt_event()?,
        }
        self.compare()
    }

    /// Where jobs are to be preempted there are always workers, and more jobs than these can run.
    fn crowd(&mut self) -> Result<(), Broken> {
        if self.running_machines() < 2 && self.choices.once_in(2) { self.join() } else { self.submit() }
    }

    /// Much to do, workers that stay, rounds of a few placements.
    fn busy(&mut self, draw: u64) -> Result<(), Broken> {
        match draw {
            _ if self.running_machines() < 2 => self.join(),
            0..=6 => (0..3).try_for_each(|_| self.submit()),
            7..=12 => self.round(),
            13 if self.choices.once_in(3) => self.operator_event(),
            13 => self.pass_time(),
            _ => {
                let live = self.model.live.len();
                self.end_some(live.div_ceil(2)).map(drop)
            }
        }
    }

    pub(super) fn running_machines(&self) -> usize {
        let on = |state| matches!(state, WorkerState::Available | WorkerState::Running);
        self.model.machines.values().filter(|machine| on(machine.state)).count()
    }

    /// Writes the scheduler down and goes on with what is read back.
    ///
    /// # Errors
    /// It cannot be written or read.
    fn restart(&mut self) -> Result<(), Broken> {
        let wrong = |error: String| Law::Equivalence.broken(error);
        let snapshot = self.scheduler.snapshot();
        // Through text it costs a hundred times as much.
        #[cfg(test)]
        let snapshot = if crate::table::mix(self.steps).is_multiple_of(160) {
            let text = serde_json::to_string(&snapshot).map_err(|error| wrong(error.to_string()))?;
            serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?
        } else {
            snapshot
        };
        self.credits.forget();
        let config = self.scheduler.config().clone();
        self.scheduler = Scheduler::restore(snapshot, config).map_err(|error| wrong(error.to_string()))?;
        Ok(())
    }

    /// Whether nothing is left to choose by.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.choices.is_over()
    }

    /// How many attempts were preempted so far.
    #[must_use]
    pub fn preempted(&self) -> usize {
        self.preemptions.count()
    }

    /// How many gangs were adopted late.
    #[must_use]
    pub const fn gangs_adopted(&self) -> usize {
        self.gangs_adopted
    }

    /// How often laws about order and shares were asked where they could have been broken.
    #[must_use]
    pub const fn law_counts(&self) -> LawCounts {
        self.turns.law_counts
    }

    pub(super) fn apply(&mut self, event: Event) -> Result<bool, Broken> {
        let before = self.effects.len();
        let taken = match self.scheduler.apply(self.now, event.clone(), &mut self.effects) {
            Ok(()) => true,
            Err(EventError::Fatal(what)) => {
                return Err(Law::Bookkeeping.broken(format!("fatal after {event:?}: {what}")));
            }
            Err(_) if self.effects.len() > before => {
                return Err(Law::Bookkeeping.broken(format!("effects of a refused {event:?}")));
            }
            Err(_) => false,
        };
        if taken {
            self.store.event(self.now, &event);
        }
        self.directed = matches!(event, Event::AssignJob { .. });
        self.said = said(&event);
        self.absorb(false)?;
        Ok(taken)
    }

    /// Takes the effects of a call in, one by one; before each placement the laws about turns are asked.
    pub(super) fn absorb(&mut self, whole_round: bool) -> Result<(), Broken> {
        self.turns.begin();
        let reservations = self.model.reservations.clone();
        self.model.begin_quota_reservations(&self.scheduler);
        let effects = std::mem::take(&mut self.effects);
        let held = self.preemptions.steady(&self.scheduler);
        for (at, effect) in effects.iter().enumerate() {
            self.hash = fold(self.hash, effect);
            self.store.effect(effect);
            if let Effect::JobChanged { job, part, to: JobState::Assigned, .. } = effect {
                let rest = effects.get(at..).unwrap_or_default();
                let unit = (*job, super::model::span(*part).0);
                let workers = rest.iter().filter_map(|effect| match effect {
                    Effect::Assign { attempt, worker, .. } if (attempt.job, attempt.index) == unit => Some(*worker),
                    _ => None,
                });
                let members = self.model.spec(*job).map_or(1, Demand::members);
                let workers: Vec<WorkerKey> = workers.take(members as usize).collect();
                self.judge_avoidance(unit, &workers)?;
                match rest.iter().filter_map(ahead).find(|(attempt, _)| (attempt.job, attempt.index) == unit) {
                    Some(sent) => self.judge_ahead(sent, held)?,
                    // Operators may pass policy and order.
                    None if self.directed => {}
                    None => self.judge(unit, workers, held)?,
                }
                self.turns.leave(unit);
            }
            let (now, config) = (self.scheduler.now(), self.scheduler.config());
            self.deadlines.take(&self.model, effect, now, config)?;
            self.preemptions.take(&self.model, effect, self.scheduler.now(), PREEMPT_PER_MINUTE)?;
            self.follow_failures(effect)?;
            self.model.take(effect, |attempt, worker| self.scheduler.attempt_row(attempt, worker)?.gpu)?;
            self.follow_prefill(effect)?;
            self.name(effect);
            self.follow_claim(effect)?;
            self.model.end_reservations(effect);
            // Attempts that were given up are charged no more.
            if let Effect::JobChanged { job, part, to, .. } = effect {
                let (first, last) = super::model::span(*part);
                (first..=last).for_each(|index| self.settle(*job, index, *to));
            }
        }
        self.model.sync_reservations(&effects, &reservations, &self.scheduler)?;
        (self.directed, self.said) = (false, None);
        self.credits.check(&self.scheduler)?;
        self.preemptions.note_held(&self.scheduler);
        self.store.write(&self.scheduler);
        if !self.turns.watches() {
            return Ok(());
        }
        let open = self.model.open();
        let mut ready = [false; 3];
        for line in self.model.lines() {
            let held = Preemptions::held(&self.scheduler, &self.model, &line.tenant);
            let first = line.first.1;
            ready[line.band] = ready[line.band] || self.model.could_start(first, &open, &held).is_some();
        }
        self.turns.end(ready, whole_round);
        Ok(())
    }

    fn judge_ahead(&self, sent: (TaskRef, WorkerKey), held: bool) -> Result<(), Broken> {
        let of = |tenant: &str| Preemptions::held(&self.scheduler, &self.model, tenant);
        self.prefills.judge(&self.model, sent, held.then_some(&of))
    }

    /// What was sent ahead, and starts that inherit.
    fn follow_prefill(&mut self, effect: &Effect) -> Result<(), Broken> {
        self.prefills.take(effect);
        let beside = match effect {
            Effect::Inherited { attempt, .. } => Some(*attempt),
            Effect::Assign { attempt, .. } if self.directed => Some(*attempt),
            _ => None,
        };
        if let Some(attempt) = beside {
            self.turns.inherit(&self.model, attempt, self.scheduler.config());
            self.credits.start(&self.model, attempt);
        }
        ahead(effect).map_or(Ok(()), |sent| Prefills::judge_window(&self.model, sent.0, sent.1))
    }

    fn judge(&mut self, unit: UnitId, workers: Vec<WorkerKey>, held: bool) -> Result<(), Broken> {
        Law::Token.demand(!workers.is_empty(), || format!("{unit:?} is assigned and nothing is sent"))?;
        let (scheduler, model) = (&self.scheduler, &self.model);
        let of = |tenant: &str| Preemptions::held(scheduler, model, tenant);
        if held {
            let tenant = model.spec(unit.0).map_or("", |spec| spec.tenant.as_str());
            model.spends(unit, &of(tenant))?;
        }
        let placing = Placing { model, config: scheduler.config(), unit, workers, held: held.then_some(&of) };
        self.turns.judge(&placing)
    }

    /// A unit that holds no capacity any more charges nobody; one that runs again does.
    fn settle(&mut self, job: JobId, index: u32, to: JobState) {
        let gang = self.model.spec(job).is_some_and(|spec| spec.gang.is_some());
        let own = self.model.live.iter_mut().filter(|(attempt, _)| (attempt.job, attempt.index) == (job, index));
        if !to.holds_capacity() {
            own.for_each(|(_, live)| live.charged = false);
        } else if to == JobState::Running && !gang {
            own.last().into_iter().for_each(|(_, live)| live.charged = true);
        }
    }

    pub(super) fn pass_time(&mut self) -> Result<(), Broken> {
        let step = [1, 100, 2_000, 16_000, 40_000, 400_000][self.choices.below(6) as usize];
        // Workers that are lost all the time have nothing to preempt, and hold up nobody.
        let steady = self.shape.preemption || self.shape.backlog;
        self.now += if steady { step.min(14_000) } else { step };
        if self.choices.once_in(10) {
            // Time that runs backwards counts as no time.
            let now = self.now;
            self.now = now.saturating_sub(5000);
            let ticked = self.apply(Event::Tick);
            self.now = now;
            ticked?;
        }
        if self.shape.backlog || !self.choices.once_in(3) {
            for worker in self.model.machines.keys().copied().collect::<Vec<_>>() {
                self.hear(Event::Heartbeat { worker }, worker)?;
            }
        }
        self.apply(Event::Tick)?;
        self.deadlines.fired(&self.model, self.scheduler.now(), self.scheduler.config())
    }

    /// The scheduler's own picture against the model's.
    pub(super) fn compare(&self) -> Result<(), Broken> {
        self.scheduler.sanity_check().map_err(|what| Law::Bookkeeping.broken(what))?;
        Deadlines::failures(&self.model)?;
        Prefills::check(&self.model)?;
        for ((job, index), unit) in &self.model.units {
            let array = self.model.jobs.get(job).is_some_and(|job| job.array);
            let Some(view) = self.scheduler.job(*job, array.then_some(*index)) else {
                Law::Conservation.demand(unit.finished, || format!("{job}.{index} is lost"))?;
                continue;
            };
            Law::Conservation.demand(view.state == unit.state && view.attempt == unit.issued, || {
                format!("{job}.{index} is {view:?}, effects say {unit:?}")
            })?;
        }
        for (key, machine) in &self.model.machines {
            let view = self.scheduler.worker_view(*key);
            let right = view.as_ref().map_or(machine.state.is_terminal(), |view| view.state == machine.state);
            Law::Conservation.demand(right, || format!("{key} is {view:?}, effects say {machine:?}"))?;
            let there = |waiting| {
                let there = self.model.live.values().filter(|live| live.worker == *key && live.waiting == waiting);
                there.count() as u32
            };
            let (here, ahead) = (there(false), there(true));
            Law::Capacity
                .demand(view.as_ref().is_none_or(|view| (view.attempts, view.waiting) == (here, ahead)), || {
                    format!("{key} has {view:?}, the model {here} attempts and {ahead} that wait")
                })?;
        }
        let mut reserved: BTreeMap<JobId, Vec<WorkerKey>> = BTreeMap::new();
        for (job, worker, _) in self.scheduler.reservations() {
            reserved.entry(job).or_default().push(worker);
        }
        Law::Bookkeeping.demand(reserved == self.model.reserved, || {
            format!("{reserved:?} are kept, effects say {:?}", self.model.reserved)
        })?;
        for tenant in &self.tenants {
            let held = Preemptions::held(&self.scheduler, &self.model, tenant.as_str());
            let charged = plus(self.model.charged(tenant.as_str()), &held);
            let view = self.scheduler.tenant(tenant);
            let seen = view.as_ref().map_or([0; 3], |view| [view.cpu_m, view.memory_mib, view.running]);
            Law::Quota.demand(seen == [charged[CPU], charged[MEMORY], charged[SLOTS]], || {
                format!("tenant {tenant} is charged {charged:?}: {view:?}")
            })?;
            Law::Fairness.demand(self.share_agrees(tenant), || {
                format!("the share of {tenant} is {:?}", view.map(|view| view.weighted_share))
            })?;
        }
        Ok(())
    }

    /// Whether a tenant's share is what its attempts make it, unless something is held for it besides.
    fn share_agrees(&self, tenant: &TenantName) -> bool {
        let held = Preemptions::held(&self.scheduler, &self.model, tenant.as_str());
        let share = self.model.share(tenant.as_str(), &self.model.fleet());
        let view = self.scheduler.tenant(tenant).map_or(share, |view| view.weighted_share);
        held != NOTHING || (share - view).abs() <= share * 1e-12
    }
}

/// Folds an effect into a number that tells different histories apart.
fn fold(hash: u64, effect: &Effect) -> u64 {
    let text = format!("{effect:?}");
    text.bytes()
        .fold(hash ^ 0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
