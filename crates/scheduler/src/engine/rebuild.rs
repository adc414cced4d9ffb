//! A scheduler out of a store's rows after a restart. Owns what a restart does to what was stored: workers
//! are silent from now on, their attempts suspect, and a new epoch begins.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use orlop_core::id::{Epoch, JobId};
use orlop_core::machine::attempt::AttemptState;
use orlop_core::machine::job::JobState;
use orlop_core::machine::worker::WorkerState;

use super::Scheduler;
use super::assign::{Target, Token};
use super::gang::Members;
use super::record::{Array, Attempt, Done, Job, Life, Past, Task, Worker};
use super::timer::Timer;
use crate::config::Config;
use crate::effect::{CancelReason, Effect, StartMode, WorkerReason};
use crate::error::EventError;
use crate::event::{Capabilities, DrainOrder, GpuDevices};
use crate::fleet::dims::Dim;
use crate::job::{Demand, Overlap};
use crate::stored::{ArrayRow, AttemptRow, Body, GangEnd, GpuShape, Incarnation, JobRow, Stored, UnitRow, WorkerRow};
use crate::table::NONE;
use crate::token::WorkerKey;

/// Stored rows that contradict each other.
fn wrong<T>(what: impl ToString, problem: &'static str) -> Result<T, EventError> {
    Err(EventError::Stored { what: what.to_string(), problem })
}

impl Scheduler {
    /// A scheduler from the rows of a store, after a restart: see [`crate::stored`] for the rows.
    ///
    /// Workers that had connected are Unhealthy and their attempts Suspect. They count as silent since `now`, so that what
    /// does not return within `reassign_after` is lost; who returns is told by `Connected`. Workers that had left are only
    /// remembered, for their incarnations. Jobs that wait do so by their original sequence. Tokens are issued under
    /// `epoch`, which must be above every epoch that anything was issued under; it also makes revisions grow. Keys of
    /// workers from before mean nothing any more.
    ///
    /// Cost: O((jobs + attempts + workers) · log), elements of arrays by ranges where they were never assigned.
    ///
    /// # Errors
    /// A value of the configuration is out of its bounds, or the rows contradict each other.
    pub fn rebuild(
        config: Config,
        seed: u64,
        (epoch, now): (Epoch, u64),
        stored: Stored,
        effects: &mut Vec<Effect>,
    ) -> Result<Self, EventError> {
        let mut scheduler = Self::new(config, seed)?;
        scheduler.now = now;
        scheduler.epochs = epochs(&stored, epoch)?;
        scheduler.raise_revision(epoch);
        for row in stored.tenants {
            scheduler.tenant_changed(row.name.clone(), row.settings)?;
            scheduler.quota_changed(row.name, row.quota)?;
        }
        let workers = scheduler.bring_workers(stored.workers, effects)?;
        scheduler.know_devices(&stored.attempts, &stored.jobs)?;
        let mut jobs = stored.jobs;
        jobs.sort_by_key(|row| row.job);
        for row in jobs {
            scheduler.bring_job(row, &workers)?;
        }
        let mut attempts = stored.attempts;
        attempts.sort_by_key(|row| (row.assigned_at, row.attempt));
        scheduler.feeds.on = attempts.iter().any(|row| row.waiting);
        let mut known = BTreeSet::new();
        for row in attempts {
            if !known.insert(row.attempt) {
                return wrong(format!("attempt {}", row.attempt), "is stored twice");
            }
            scheduler.bring_attempt(&row, &workers)?;
        }
        scheduler.count_given_up();
        scheduler.give_slots(effects);
        scheduler.fleet_changed = true;
        (0..scheduler.tenants.len()).for_each(|number| scheduler.weigh_tenant(u32::try_from(number).unwrap_or(NONE)));
        scheduler.sanity_check().or_else(|problem| wrong("as a whole,", problem))?;
        Ok(scheduler)
    }

    /// Makes the workers known, silent since now. Returns their numbers.
    fn bring_workers(
        &mut self,
        mut rows: Vec<WorkerRow>,
        effects: &mut Vec<Effect>,
    ) -> Result<BTreeMap<Incarnation, u32>, EventError> {
        rows.sort_by(|a, b| a.worker.cmp(&b.worker));
        let mut numbers = BTreeMap::new();
        for row in rows {
            let name = format!("worker `{}` {}", row.worker.id, row.worker.number);
            let before = self.worker_ids.get(&row.worker.id).and_then(|number| self.workers.get(*number));
            if before.is_some_and(|worker| !worker.state.is_terminal()) {
                return wrong(name, "comes after an incarnation that has not left");
            }
            if numbers.contains_key(&row.worker) {
                return wrong(name, "is stored twice");
            }
            let worker = row.worker.clone();
            numbers.insert(worker, self.bring_worker(row, effects)?);
        }
        Ok(numbers)
    }

    fn bring_worker(&mut self, row: WorkerRow, effects: &mut Vec<Effect>) -> Result<u32, EventError> {
        let WorkerRow { worker: Incarnation { id, number: incarnation }, state: from, capabilities, .. } = row;
        let knew = matches!(from, WorkerState::Creating | WorkerState::Registering) || from.is_terminal();
        let state = if knew { from } else { WorkerState::Unhealthy };
        let drain = row.drain.or((from == WorkerState::Draining).then(DrainOrder::default));
        let record = Worker {
            cordoned: row.cordoned,
            drain,
            state,
            ..Worker::new(id.clone(), incarnation, Arc::clone(&capabilities), self.now)
        };
        let number = self.workers.insert(record).ok_or(EventError::Fatal("too many workers"))?;
        self.worker_ids.insert(id, number);
        if drain.is_some() && !state.is_terminal() {
            self.leaving.insert(number);
        }
        if state.is_terminal() {
            self.gone.push_back(number);
            return Ok(number);
        }
        if state == WorkerState::Unhealthy {
            self.enter(number, &capabilities)?;
        }
        if state != from {
            let (worker, revision) = (self.key_of(number), self.next_revision());
            let (from, reason) = (Some(from), WorkerReason::ServerRestarted);
            effects.push(Effect::WorkerChanged { worker, from, to: state, reason, revision });
        }
        self.arm(number);
        Ok(number)
    }

    /// Makes the dimensions known that attempts hold, even if no worker offers them any more.
    fn know_devices(&mut self, attempts: &[AttemptRow], jobs: &[JobRow]) -> Result<(), EventError> {
        let mut held = Capabilities::default();
        for GpuShape { vendor, model, memory_bytes } in attempts.iter().filter_map(|row| row.gpu.clone()) {
            held.gpus.push(GpuDevices { vendor, model, memory_bytes, count: 1 });
        }
        let extras: BTreeMap<JobId, _> = jobs.iter().map(|row| (row.job, &row.spec.resources.extras)).collect();
        for row in attempts {
            let counters = extras.get(&row.attempt.job).into_iter().flat_map(|extras| extras.iter());
            held.extras.extend(counters.map(|(name, amount)| (name.clone(), *amount)));
        }
        if let Err(name) = self.dims.capacity(&held, &[]) {
            return wrong(format!("an attempt that holds `{name}`"), "needs more dimensions than there are");
        }
        self.table.widen(self.dims.len());
        self.table.set_units(self.dims.units());
        self.table_dims = self.dims.len();
        Ok(())
    }

    /// Stores a job as it stands; attempts follow.
    fn bring_job(&mut self, row: JobRow, workers: &BTreeMap<Incarnation, u32>) -> Result<(), EventError> {
        if self.ids.get(row.job.as_u64()).is_some() {
            return wrong(format!("job {}", row.job), "is stored twice");
        }
        row.spec.check().map_err(|source| EventError::Spec { job: row.job, source })?;
        let tenant = self.tenant_number(&row.spec.tenant);
        let spec = self.intern(&row.spec, tenant);
        let (array, life, elements) = match row.body {
            Body::One(task) => {
                let life = self.life_of(&task, workers);
                (NONE, life, BTreeMap::from([(0, task)]))
            }
            Body::Array(array) if row.spec.gang.is_none() => {
                let (array, state, elements) = self.array(row.job, array, workers)?;
                let number = self.arrays.insert(array).ok_or(EventError::Fatal("too many arrays"))?;
                (number, Life::new(state), elements)
            }
            Body::Array(_) => return wrong(format!("job {}", row.job), "is a gang and an array"),
        };
        let opens = (life.state == JobState::Pending).then(|| row.not_before.unwrap_or(self.now));
        let life = Life { due: opens.unwrap_or(life.due), ..life };
        let record = Job { id: row.job, spec, array, stamp: 0, queued: false, life, submitted: row.submitted };
        let slot = self.jobs.insert(record).ok_or(EventError::Fatal("too many jobs"))?;
        self.ids.insert(row.job.as_u64(), slot);
        self.count_in(slot, tenant, &row.spec);
        let generation = self.jobs.generation(slot);
        if let Some(at) = opens {
            self.timers.set(at, Timer::StartWindow(slot, generation));
        }
        if let Some(at) = row.expires.filter(|_| !life.state.is_terminal()) {
            self.timers.set(at, Timer::Expire(slot, generation));
        }
        for (index, task) in elements {
            self.bring_task(Task { job: slot, index }, &task, workers);
        }
        if life.state.is_terminal() {
            self.finished.push_back((slot, row.job));
        }
        self.line_up(slot);
        Ok(())
    }

    /// What is kept of a task beside its life: old tokens, members, the end of its delay.
    fn bring_task(&mut self, task: Task, row: &UnitRow, workers: &BTreeMap<Incarnation, u32>) {
        if row.state == JobState::Backoff {
            self.timers.set(row.due.unwrap_or(self.now), Timer::Backoff(task, self.jobs.generation(task.job)));
        }
        if let Some(id) = row.lost_by.as_ref().filter(|_| row.lost && !row.state.is_terminal()) {
            self.parted.insert(task, id.clone());
        }
        let number = |epoch: Epoch| self.number_of(epoch);
        let past: Vec<Past> = row
            .earlier
            .iter()
            .map(|token| Past { attempt: token.attempt, epoch: number(token.epoch), answered: token.answered })
            .collect();
        if !past.is_empty() {
            self.past.insert(task, past);
        }
        for token in row.earlier.iter().filter(|token| !token.members.is_empty()) {
            self.past_members.insert((task.job, token.attempt), token.members.clone());
        }
        let size = self.spec_of(task.job).map_or(1, Demand::members);
        if size > 1 && row.attempt > 0 {
            let mut members = Members::new(vec![NONE; size as usize]);
            if let Some(gang) = &row.gang {
                members.answered.iter_mut().zip(&gang.answered).for_each(|(known, stored)| *known = *stored);
                let named = |end: &GangEnd| self.named(end.worker.as_ref(), workers);
                members.ending = gang.ending.as_ref().map(|end| (end.end.0, named(end)));
                members.broken = gang.broken;
            }
            self.gangs.insert(task.job, members);
        }
    }

    fn life_of(&self, row: &UnitRow, workers: &BTreeMap<Incarnation, u32>) -> Life {
        let due = if row.state == JobState::Backoff { row.due.unwrap_or(self.now) } else { 0 };
        Life {
            answered: row.answered,
            started: row.started,
            lost: row.lost,
            second_try: row.second_try,
            retries: u8::try_from(row.retries).unwrap_or(u8::MAX),
            infra: row.infra,
            attempt: row.attempt,
            epoch: self.number_of(row.epoch),
            avoid: self.named(row.avoid.as_ref(), workers),
            due,
            ..Life::new(row.state)
        }
    }

    /// The record of an array, its state, and its elements that have rows of their own.
    fn array(
        &self,
        job: JobId,
        row: ArrayRow,
        workers: &BTreeMap<Incarnation, u32>,
    ) -> Result<(Array, JobState, BTreeMap<u32, UnitRow>), EventError> {
        let name = format!("job {job}");
        let mut array = Array {
            // A store may say 0, which no submit may: it means 1.
            max_parallel: row.max_parallel.unwrap_or(u32::MAX).max(1),
            max_failures: row.max_failures.map_or(u64::MAX, u64::from),
            ..Array::default()
        };
        let (mut sum, mut states) = (0_u64, Vec::new());
        for range in &row.ranges {
            let (first, last) = (range.first, range.last);
            if first > last || !(range.state.is_terminal() || super::record::waits(range.state)) {
                return wrong(name, "has a range that ends before it begins, or that holds capacity");
            }
            sum += u64::from(last - first) + 1;
            if range.state.is_terminal() {
                array.done.insert(first, last, Done { state: range.state, attempt: 0, epoch: 0, answered: false });
            } else {
                states.push(range.state);
                array.ready.insert(first, last, ());
            }
        }
        for (index, task) in &row.elements {
            let life = self.life_of(task, workers);
            sum += 1;
            if task.state == JobState::Pending {
                return wrong(name, "has an element by itself that is still behind the gate");
            }
            if task.state.is_terminal() {
                let Life { state, attempt, epoch, answered, .. } = life;
                array.done.insert(*index, *index, Done { state, attempt, epoch, answered });
                continue;
            }
            if array.ready.get(*index).is_some() {
                return wrong(name, "has an element in a range and by itself");
            }
            array.active.insert(*index, life);
            array.running += u32::from(task.state.holds_capacity());
        }
        let queued = array.active.iter().filter(|(_, life)| life.state == JobState::Queued);
        queued.for_each(|(index, _)| array.ready.insert(*index, *index, ()));
        array.elements = u32::try_from(sum).unwrap_or(u32::MAX);
        let bad = |state: JobState| matches!(state, JobState::Failed | JobState::TimedOut);
        let failed = array.done.iter().filter(|(.., done)| bad(done.state));
        array.failures = failed.map(|(first, last, _)| u64::from(last - first) + 1).sum();
        if states.windows(2).any(|pair| pair.first() != pair.last()) || states.contains(&JobState::Backoff) {
            return wrong(name, "has elements before and behind its gate");
        }
        let outcome = JobState::of_array(array.done.iter().map(|(.., done)| done.state));
        let over = array.done.len() == sum;
        let state = if over { outcome } else { states.first().copied().unwrap_or(JobState::Queued) };
        Ok((array, state, row.elements))
    }

    /// Adds what a job counts to its tenant's numbers.
    fn count_in(&mut self, slot: u32, tenant: u32, spec: &Demand) {
        let Some(job) = self.jobs.get(slot) else { return };
        let (mut waiting, mut active) = (0, 0);
        let mut add = |state: JobState, units: u64| {
            waiting += if super::record::waits(state) { units } else { 0 };
            active += if state.is_terminal() { 0 } else { units };
        };
        match self.array_of(job) {
            None => add(job.life.state, 1),
            Some(array) => {
                let queued = array.active.values().filter(|life| life.state == JobState::Queued).count() as u64;
                if !job.life.state.is_terminal() {
                    add(job.life.state, array.ready.len() - queued);
                }
                array.active.values().for_each(|life| add(life.state, 1));
            }
        }
        if let Some(tenant) = self.tenant_mut(tenant) {
            tenant.pending += waiting;
            tenant.active += active;
            tenant.demand_more(spec, active);
        }
    }

    /// An attempt that is not known to have ended holds its worker's capacity.
    fn bring_attempt(&mut self, row: &AttemptRow, workers: &BTreeMap<Incarnation, u32>) -> Result<(), EventError> {
        let name = format!("attempt {}", row.attempt);
        let worker = workers.get(&row.worker).copied().unwrap_or(NONE);
        let place = self.workers.get(worker).map_or(NONE, |worker| worker.place);
        let Some(slot) = self.ids.get(row.attempt.job.as_u64()) else { return wrong(name, "belongs to no job") };
        let left = self.workers.get(worker).is_some_and(|worker| worker.state.is_terminal());
        let waits = left && self.spec_of(slot).is_some_and(|spec| spec.overlap == Overlap::Forbid);
        if place == NONE && !waits {
            return wrong(name, "is on a worker that is not there");
        }
        let task = Task { job: slot, index: row.attempt.index };
        let (Some(mut life), Some(request)) = (self.life(task), self.request_of(slot, row.gpu.as_ref(), place)) else {
            return wrong(name, "belongs to no element, or holds what its job does not ask for");
        };
        if row.attempt.member >= self.spec_of(slot).map_or(1, Demand::members) {
            return wrong(name, "belongs to no member of its gang");
        }
        let newest = row.attempt.attempt == life.attempt && self.epoch_at(life.epoch) == row.attempt.epoch;
        if row.attempt.attempt > life.attempt || (row.attempt.attempt == life.attempt) != newest {
            return wrong(name, "is newer than its job knows");
        }
        let lost = row.lost || !newest || !life.state.holds_capacity();
        let tenant = self.tenant_of(slot);
        let (member, number) = (row.attempt.member, row.attempt.attempt);
        let token = Token { member, number, epoch: self.number_of(row.attempt.epoch) };
        let attempt = Attempt {
            state: if lost { AttemptState::Lost } else { AttemptState::Suspect },
            accepted: row.accepted,
            started: row.started_at.is_some(),
            charged: !lost && !row.waiting,
            ahead: row.start == StartMode::Inherit,
            waiting: row.waiting,
            ending: row.ending,
            started_at: row.started_at.unwrap_or(0),
            ..Attempt::new(task, token, Target { worker, request, tenant }, row.assigned_at)
        };
        let number = self.list_attempt(attempt);
        if waits {
            self.arm(worker);
        }
        if let Some(vector) = self.requests.get(request) {
            if !row.waiting {
                self.table.charge(place, &vector.need, 1);
            }
            if let Some(tenant) = self.tenants.get_mut(tenant as usize).filter(|_| !lost && !row.waiting) {
                tenant.charge(vector, 1);
            }
        }
        if newest && (life.lost || !lost) && life.live == NONE {
            life.live = number;
            self.set_life(task, life);
        }
        if newest && !lost {
            self.bring_member(slot, row.attempt.member, number);
        }
        Ok(())
    }

    /// An attempt that runs on is one of its gang's members.
    fn bring_member(&mut self, job: u32, member: u32, number: u32) {
        let Some(members) = self.gangs.get_mut(&job) else { return };
        if let Some(place) = members.slots.get_mut(member as usize) {
            *place = number;
        }
        let ends = members.ending.is_some();
        if let Some(attempt) = self.attempts.get_mut(number).filter(|_| ends) {
            attempt.ending = attempt.ending.or(Some(CancelReason::Gang));
        }
    }

    /// The request vector of a job that holds this kind of GPU, if it asks for any; of several the one whose counters a place has.
    fn request_of(&self, job: u32, gpu: Option<&GpuShape>, place: u32) -> Option<u32> {
        let spec = self.specs.get(self.jobs.get(job)?.spec as usize)?;
        let holds = |number: &u32| {
            self.requests.get(*number).is_some_and(|request| {
                let of_kind = |(dim, _): &(u8, i32)| match (self.dims.get(usize::from(*dim)), gpu) {
                    (Some(Dim::Gpu { vendor, model, memory_bytes }), Some(gpu)) => {
                        (vendor, model, memory_bytes) == (&gpu.vendor, &gpu.model, &gpu.memory_bytes)
                    }
                    (Some(Dim::Gpu { .. }), None) => false,
                    _ => true,
                };
                request.need.iter().all(of_kind)
            })
        };
        let there = |number: &u32| {
            let request = self.requests.get(*number);
            request.is_some_and(|request| {
                request.need.iter().all(|(dim, _)| self.table.total(usize::from(*dim), place) > 0)
            })
        };
        let vectors = || self.classes.get(spec.class).into_iter().flat_map(|class| class.requests.iter().copied());
        vectors().filter(holds).find(there).or_else(|| vectors().find(holds))
    }

    /// The key of a worker by its name.
    fn named(&self, worker: Option<&Incarnation>, workers: &BTreeMap<Incarnation, u32>) -> WorkerKey {
        worker.and_then(|worker| workers.get(worker)).map_or(WorkerKey::NOBODY, |number| self.key_of(*number))
    }

    fn number_of(&self, epoch: Epoch) -> u32 {
        self.epochs.binary_search(&epoch).ok().and_then(|at| u32::try_from(at).ok()).unwrap_or(0)
    }
}

/// All epochs that tokens were issued under, ascending, and the new one.
fn epochs(stored: &Stored, epoch: Epoch) -> Result<Vec<Epoch>, EventError> {
    let of_task = |task: &UnitRow, epochs: &mut Vec<Epoch>| {
        epochs.extend((task.attempt > 0).then_some(task.epoch));
        epochs.extend(task.earlier.iter().map(|token| token.epoch));
    };
    let mut epochs: Vec<Epoch> = stored.attempts.iter().map(|row| row.attempt.epoch).collect();
    for row in &stored.jobs {
        match &row.body {
            Body::One(task) => of_task(task, &mut epochs),
            Body::Array(array) => array.elements.values().for_each(|task| of_task(task, &mut epochs)),
        }
        if epochs.len() > 4096 {
            epochs.sort_unstable();
            epochs.dedup();
        }
    }
    epochs.sort_unstable();
    epochs.dedup();
    if epochs.last().is_some_and(|last| *last >= epoch) {
        return wrong(format!("epoch {epoch}"), "is not above those that attempts were issued under");
    }
    epochs.push(epoch);
    Ok(epochs)
}
