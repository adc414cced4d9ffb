//! What users of a random world do: specifications and submits, some of them twice, some of them nonsense. Owns how they look.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use orlop_core::hardware::placement::{LabelExpr, Operator};
use orlop_core::id::{Epoch, JobId};
use orlop_core::machine::job::JobState;

use super::amounts::{COUNTERS, EXTRAS, GPUS, LARGE_COUNTER};
use super::law::{Broken, Law};
use super::model::{Job, ModelTask, UnitId};
use super::world::World;
use crate::event::{ArraySpec, Capabilities, Event, GpuDevices, StartWindow};
use crate::job::{Demand, Gang, GpuKind, Overlap, Prefer, Priority, Runtime};
use crate::token::WorkerKey;

/// Conditions on labels of workers, some of which never hold.
const CONDITIONS: [(&str, Operator, &[&str]); 8] = [
    ("zone", Operator::In, &["0"]),
    ("zone", Operator::NotIn, &["1"]),
    ("zone", Operator::Exists, &[]),
    ("zone", Operator::DoesNotExist, &[]),
    ("cores", Operator::Gt, &["3"]),
    ("cores", Operator::Lt, &["6"]),
    ("zone", Operator::In, &["0", "1"]),
    ("rack", Operator::In, &["9"]),
];

/// The most of a counter that is counted one by one.
const MOST: u64 = i32::MAX as u64 - 1;

/// What is asked of large counters comes in pieces of this size, which no unit rounds: the model counts exactly.
const PIECE: u64 = 1 << 33;

/// What workers have of large counters, by their magnitude: a worker that changes keeps its own, since what runs there is
/// counted in the unit that goes with it.
const LARGE: [[u64; 4]; 3] =
    [[1, 3, 100, MOST], [PIECE, 3 * PIECE, 5 * PIECE, 1000 * PIECE], [1 << 49, 1 << 50, 3 << 50, 1 << 63]];

impl World<'_> {
    fn condition(&mut self) -> LabelExpr {
        let (key, op, values) = CONDITIONS[self.choices.below(8) as usize];
        LabelExpr { key: key.to_owned(), op, values: values.iter().map(|value| (*value).to_owned()).collect() }
    }

    pub(super) fn spec(&mut self) -> Result<Arc<Demand>, Broken> {
        let Some(tenant) = self.choices.pick(&self.tenants) else { return Err(Law::Bookkeeping.broken("no tenants")) };
        let mut spec = Demand::new(tenant);
        spec.priority = Priority(self.choices.below(10) as u8);
        spec.resources.cpu_m = [500, 1000, 1500, 3000, 1, u64::MAX][self.choices.below(6) as usize];
        spec.resources.memory_bytes =
            [0, 1 << 20, 512 << 20, 1 << 30, 3 << 30, u64::MAX][self.choices.below(6) as usize];
        spec.retries = self.choices.below(3) as u32;
        spec.timeout_ms = [0, 1000, 60_000, u64::MAX][self.choices.below(4) as usize];
        if self.choices.once_in(6) {
            let max_per_worker = self.choices.once_in(2).then(|| 1 + self.choices.below(2) as u32);
            let same_label = self.choices.once_in(3).then(|| "zone".to_owned());
            spec.gang = Some(Gang { size: 2 + self.choices.below(3) as u32, max_per_worker, same_label });
        }
        if self.choices.once_in(4) {
            let condition = self.condition();
            spec.requires.labels.push(condition);
        }
        if self.choices.once_in(5) {
            self.equip(&mut spec);
        }
        if self.choices.once_in(4) {
            let (label, weight) = (self.condition(), 1 + self.choices.below(100) as u8);
            spec.prefers.push(Prefer { label, weight });
        }
        if self.choices.once_in(4) {
            spec.overlap = Overlap::Forbid;
        }
        if self.shape.preemption {
            self.press(&mut spec);
        }
        if self.shape.backlog {
            spec.resources.cpu_m = [5, 20, 500, 995][self.choices.below(4) as usize];
            spec.resources.memory_bytes = [0, 8 << 20, 512 << 20][self.choices.below(3) as usize];
        }
        if self.shape.prefill {
            self.shorten(&mut spec);
        }
        if self.shape.operators {
            self.hurry(&mut spec);
        }
        if self.shape.gangs {
            self.band_together(&mut spec);
        }
        Ok(Arc::new(spec))
    }

    /// Devices, counters, features and runtimes.
    fn equip(&mut self, spec: &mut Demand) {
        if self.choices.once_in(2) {
            spec.resources.gpus.count = [1, 1, 2, 3, 0, u32::MAX][self.choices.below(6) as usize];
            let kinds = if self.shape.preemption { 1 } else { self.choices.below(4) };
            for _ in 0..kinds {
                let (vendor, model, gibi) = GPUS[self.choices.below(4) as usize];
                let exact = self.shape.preemption || self.choices.once_in(2);
                let model = if exact { model.parse().ok() } else { None };
                // The larger of two of one model only, or all of a vendor.
                let memory_min = (exact || self.choices.once_in(2)).then_some(gibi << 30);
                spec.resources.gpus.any_of.push(GpuKind { vendor, model, memory_min });
            }
            if self.shape.preemption
                && let Some(kind) = spec.resources.gpus.any_of.first_mut()
            {
                kind.memory_min = kind.memory_min.map(|least| least.max(80 << 30));
            }
        }
        if self.choices.once_in(2) {
            let name = EXTRAS[self.choices.below(EXTRAS.len() as u64) as usize];
            let amounts =
                if name == LARGE_COUNTER { [PIECE, 3 * PIECE, 1 << 49, u64::MAX] } else { [1, 2, 0, u64::MAX] };
            spec.resources.extras.insert(name.to_owned(), amounts[self.choices.below(4) as usize]);
        }
        if self.choices.once_in(4) {
            spec.requires.features.insert("cgroup2".to_owned());
        }
        spec.runtime = [Runtime::Process, Runtime::Noop, Runtime::Docker][self.choices.below(3) as usize];
    }

    /// Makes a job one that presses others or may be pressed.
    fn press(&mut self, spec: &mut Demand) {
        spec.preemptible = self.choices.once_in(2);
        if self.choices.once_in(2) {
            spec.priority = Priority([0, 2, 5, 9][self.choices.below(4) as usize]);
            spec.resources.cpu_m = spec.resources.cpu_m.min(3000);
            spec.resources.memory_bytes = spec.resources.memory_bytes.min(3 << 30);
        }
    }

    pub(super) fn submit(&mut self) -> Result<(), Broken> {
        if self.choices.once_in(40) {
            return self.submit_nonsense();
        }
        let spec = self.spec()?;
        let again = self.choices.once_in(20);
        let number = if again { self.choices.below(self.next_job) } else { self.next_job };
        let Some(job) = JobId::new(Epoch(1), number) else { return Ok(()) };
        let mut gate = StartWindow::default();
        if self.choices.once_in(5) {
            gate.not_before = Some(self.now + self.choices.below(20_000));
        }
        if self.choices.once_in(5) {
            gate.queue_timeout = Some(self.choices.below(60_000));
        }
        let mut indices = vec![0];
        let mut array = None;
        if spec.gang.is_none() && self.choices.once_in(4) {
            let (first, size) = (self.choices.below(5) as u32, self.choices.below(9) as u32);
            indices = (first..=first + size).chain([40]).collect();
            let mut spec = ArraySpec { indices: vec![(first, first + size), (40, 40)], ..ArraySpec::default() };
            spec.max_parallel = self.choices.once_in(2).then(|| self.choices.below(4).max(1) as u32);
            spec.max_failures = self.choices.once_in(2).then(|| self.choices.below(3) as u32);
            array = Some(spec);
        }
        let class = self.model.class_of(&spec);
        let record = Job {
            spec: Arc::clone(&spec),
            array: array.is_some(),
            parallel: array.as_ref().and_then(|array| array.max_parallel).unwrap_or(u32::MAX),
            class,
            max_failures: array.as_ref().and_then(|array| array.max_failures).map_or(u64::MAX, u64::from),
            not_before: gate.not_before.unwrap_or(0),
            expires: gate
                .queue_timeout
                .map_or(u64::MAX, |wait| self.scheduler.now().max(self.now).saturating_add(wait)),
        };
        let event = match array {
            Some(array) => Event::SubmitArray { job, spec, gate, array },
            None => Event::Submit { job, spec, gate },
        };
        self.enter(job, number, record, &indices, event)
    }

    /// A plain single job.
    pub(super) fn submit_plain(&mut self, job: JobId, spec: Arc<Demand>) -> Result<(), Broken> {
        let class = self.model.class_of(&spec);
        let (parallel, max_failures, expires) = (u32::MAX, u64::MAX, u64::MAX);
        let record =
            Job { spec: Arc::clone(&spec), array: false, parallel, class, max_failures, not_before: 0, expires };
        self.enter(job, job.counter(), record, &[0], Event::Submit { job, spec, gate: StartWindow::default() })
    }

    /// A submit of a job that the model has to know before the effects that follow its admission.
    fn enter(&mut self, job: JobId, number: u64, record: Job, indices: &[u32], event: Event) -> Result<(), Broken> {
        let known = self.scheduler.job(job, None).is_some();
        if !known && !self.model.jobs.contains_key(&job) {
            self.model.jobs.insert(job, record);
            for index in indices {
                self.model
                    .units
                    .insert((job, *index), ModelTask { state: JobState::Pending, issued: 0, finished: false });
            }
            self.next_job = self.next_job.max(number + 1);
        } else if !known {
            // It was forgotten: its id may be used again, which the model has no room for.
            return Ok(());
        }
        let taken = self.apply(event)?;
        Law::Conservation.demand(taken != known, || format!("{job} is taken twice, or not at all"))?;
        if !known && self.scheduler.job(job, None).is_none() {
            self.model.jobs.remove(&job);
            self.model.units.retain(|(id, _): &UnitId, _| *id != job);
        }
        Ok(())
    }

    /// A submit that breaks a bound: it is refused and nothing of it is kept.
    fn submit_nonsense(&mut self) -> Result<(), Broken> {
        let Some(tenant) = self.choices.pick(&self.tenants) else { return Ok(()) };
        let Some(job) = JobId::new(Epoch(1), self.next_job) else { return Ok(()) };
        let mut spec = Demand::new(tenant);
        let mut array = ArraySpec { indices: vec![(0, 3)], ..ArraySpec::default() };
        match self.choices.below(10) {
            0 => spec.resources.cpu_m = 0,
            1 => spec.priority = Priority(10 + self.choices.below(246) as u8),
            2 => spec.gang = Some(Gang { size: 1, max_per_worker: None, same_label: None }),
            3 => spec.gang = Some(Gang { size: u32::MAX, max_per_worker: Some(1), same_label: None }),
            4 => spec.retries = u32::MAX,
            5 => array.indices = vec![(0, u32::MAX), (7, 7)],
            6 => array.indices = vec![(3, 2)],
            7 => array.indices = vec![(0, 5), (5, 9)],
            8 if self.next_job.is_multiple_of(2) => array.max_parallel = Some(0),
            8 => array.indices = vec![(0, 10_000_000)],
            _ => array.indices = Vec::new(),
        }
        let (spec, gate) = (Arc::new(spec), StartWindow { not_before: Some(u64::MAX), queue_timeout: Some(u64::MAX) });
        let taken = self.apply(Event::SubmitArray { job, spec, gate, array })?;
        Law::Conservation.demand(!taken && self.scheduler.job(job, None).is_none(), || format!("{job} is nonsense"))
    }

    /// What a worker may have.
    pub(super) fn offer(&mut self, worker: WorkerKey) -> Arc<Capabilities> {
        let cpu_m = [1000, 2000, 4000, 8000, 0, u64::MAX][self.choices.below(6) as usize];
        let memory_bytes = [1 << 30, 4 << 30, 8 << 30, 0, u64::MAX][self.choices.below(5) as usize];
        let zone = ("zone".to_owned(), self.choices.below(2).to_string());
        let mut offer = Capabilities {
            cpu_m,
            memory_bytes,
            max_jobs: [4, 16, 0][self.choices.below(3) as usize],
            runtimes: [Runtime::Process].into(),
            labels: BTreeMap::from([zone, ("cores".to_owned(), (cpu_m / 1000).to_string())]),
            ..Capabilities::default()
        };
        if self.shape.preemption || self.shape.backlog || self.shape.prefill {
            // Workers that are full at times.
            offer.cpu_m = offer.cpu_m.clamp(1000, if self.shape.backlog { 8000 } else { 4000 });
            offer.memory_bytes = offer.memory_bytes.max(4 << 30);
            offer.max_jobs = if self.shape.backlog { 4096 } else { offer.max_jobs.max(4) };
        }
        if self.choices.once_in(2) {
            self.furnish(&mut offer, worker);
        }
        if self.choices.once_in(6) {
            offer.tenants.extend(self.choices.pick(&self.tenants));
        }
        Arc::new(offer)
    }

    /// Devices of some kinds, the same kind twice at times, counters, features and runtimes.
    fn furnish(&mut self, offer: &mut Capabilities, worker: WorkerKey) {
        for _ in 0..self.choices.below(4) {
            let (vendor, model, gibi) = GPUS[self.choices.below(4) as usize];
            let count = [1, 2, 4, 0, u32::MAX][self.choices.below(5) as usize];
            if let Ok(model) = model.parse() {
                offer.gpus.push(GpuDevices { vendor, model, memory_bytes: gibi << 30, count });
            }
        }
        // Where worlds are compared by their ends, whoever comes last has to find columns left.
        let many = !self.shape.restarts && self.choices.once_in(4);
        let most = if many { EXTRAS.len() - 1 } else { COUNTERS } as u64;
        for _ in 0..self.choices.below(4) {
            let name = EXTRAS[self.choices.below(most) as usize];
            let id = self.model.machines.get(&worker).and_then(|machine| machine.id.as_ref());
            let sum: usize = id.map_or(0, |id| id.as_str().bytes().map(usize::from).sum());
            let amounts = LARGE[if name == LARGE_COUNTER { sum % LARGE.len() } else { 0 }];
            offer.extras.insert(name.to_owned(), amounts[self.choices.below(4) as usize]);
        }
        if self.choices.once_in(2) {
            offer.features.insert("cgroup2".to_owned());
        }
        let runtimes: BTreeSet<Runtime> = [Runtime::Process, Runtime::Docker].into();
        offer.runtimes = if self.choices.once_in(2) { runtimes } else { [Runtime::Process].into() };
    }
}
