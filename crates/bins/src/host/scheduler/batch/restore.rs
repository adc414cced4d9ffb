//! A term begins: everything that lives is read from the store and the core is rebuilt from it.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use orlop_core::error::{Code, Problem};
use orlop_core::id::{Epoch, JobId, WorkerId};
use orlop_core::machine::attempt::AttemptState;
use orlop_core::machine::job::JobState;
use orlop_core::machine::tenant::TenantState;
use orlop_core::ports::fleet_store::{
    AttemptFilter, AttemptRow as StoredAttempt, Documents as _, ElementRow, EntryFilter, FleetReads, JobKind, MAX_PAGE,
    Page, RestoredJob, SpecHash, TaskStatus, Tenant, Worker,
};
use orlop_core::task::{CancelReason, StartMode};
use orlop_scheduler::engine::Scheduler;
use orlop_scheduler::event::{Capabilities, DrainOrder, TenantSettings, TenantStatus};
use orlop_scheduler::stored::{
    ArrayRow, AttemptRow, Body, Incarnation, JobRow, RangeRow, Stored, TenantRow, UnitRow, WorkerRow,
};

use super::super::live::{ClientFields, LiveJob, LiveWorker};
use super::super::shared::Shared;
use super::super::spec::Prepared;
use super::effects::{ReportFields, WriteSet};
use super::metrics::BatchMetrics;
use super::place::Placing;
use super::submit::FeasibilityCache;
use super::trace::Traces;
use super::{Core, Registry, past};

/// What is read on the way to a core.
struct RestoreState<'a> {
    shared: &'a Shared,
    now: u64,
    wall: orlop_core::time::Time,
    stored: Stored,
    registry: Registry,
    workers: Vec<Worker>,
    /// The newest incarnation of each worker id.
    newest: BTreeMap<WorkerId, u32>,
    specs: HashMap<SpecHash, Arc<Prepared>>,
    /// Tasks whose earlier attempts were read one by one.
    looked: usize,
}

/// The most of them. Late messages of the others' earlier attempts are unknown instead of stale: discarded all the same.
const LOOKS: usize = 10_000;

fn damaged(what: impl std::fmt::Display, problem: impl std::fmt::Display) -> Problem {
    Problem::coded(
        Code::Internal,
        format!("{what} in the store cannot be read: {problem}; restore a backup of the store"),
    )
}

impl Core {
    /// Reads everything that lives and rebuilds the core from it.
    ///
    /// # Errors
    /// The store cannot be read now, or what it holds contradicts itself.
    pub(in super::super) async fn restore(shared: &Arc<Shared>, epoch: Epoch) -> Result<Self, Problem> {
        let (now, wall) = (shared.clock.monotonic(), shared.clock.wall());
        let mut reading = RestoreState {
            shared,
            now,
            wall,
            stored: Stored::default(),
            registry: Registry::default(),
            workers: Vec::new(),
            newest: BTreeMap::new(),
            specs: HashMap::new(),
            looked: 0,
        };
        reading.tenants().await?;
        reading.read_workers().await?;
        reading.jobs().await?;
        let RestoreState { stored, registry, workers, .. } = reading;
        let options = &shared.options;
        let mut effects = Vec::new();
        let scheduler = Scheduler::rebuild(options.core.clone(), options.seed, (epoch, now), stored, &mut effects)
            .map_err(|problem| Problem::coded(Code::Internal, problem.to_string()))?;
        let mut core = Self {
            scheduler,
            registry,
            epoch,
            next_job: 1,
            clock: Arc::clone(&shared.clock),
            shared: Arc::clone(shared),
            lease_ms: options.lease_ms(),
            now,
            wall,
            effects,
            writes: WriteSet::default(),
            departed: Vec::new(),
            verdicts: [0; 5],
            counts: BatchMetrics::default(),
            gated: [0; 3],
            totals: super::super::snapshot::Totals::default(),
            metrics: Arc::clone(&options.metrics),
            losses: Arc::clone(&shared.losses),
            traces: Traces::new(options.tracer.clone()),
            bus: Arc::clone(&shared.bus),
            outbox: options.outbox,
            heartbeats: options.frequent.heartbeats,
            events: 0,
            staged: 0,
            placing: Placing::new(),
            feasibility: FeasibilityCache::default(),
            openings: Vec::new(),
            revision: 0,
            more: true,
            snapshot_at: 0,
            changed: Vec::new(),
            outdated: true,
            heard: false,
        };
        core.know_workers(workers);
        core.count_gated();
        core.absorb(&ReportFields::default());
        core.publish_plain("leader.elected");
        Ok(core)
    }

    /// Counts what waits outside the queues.
    fn count_gated(&mut self) {
        for (id, live) in self.registry.jobs.iter().filter(|(_, live)| !live.array) {
            let state = self.scheduler.job(id, None).map(|view| view.state);
            let band = live.spec.demand().priority.band().index();
            if matches!(state, Some(JobState::Pending | JobState::Backoff))
                && let Some(sum) = self.gated.get_mut(band)
            {
                *sum += 1;
            }
        }
    }

    fn know_workers(&mut self, workers: Vec<Worker>) {
        for worker in workers {
            let Some(key) = self.scheduler.worker_key(&worker.id) else { continue };
            let incarnation = worker.incarnation.get();
            if self.scheduler.worker_view(key).is_none_or(|view| view.incarnation != incarnation) {
                continue;
            }
            let live = LiveWorker {
                state_id: worker.state_id,
                place: String::new(),
                agent_version: worker.agent_version,
                registered_at: worker.registered_at,
                reason: worker.reason,
                drain_reason: worker
                    .drain
                    .as_ref()
                    .and_then(|order| order["reason"].as_str())
                    .unwrap_or_default()
                    .to_owned(),
                labels: worker.labels,
                barred: worker.barred || worker.cordoned,
                ..LiveWorker::declared(worker.id, incarnation, worker.since)
            };
            self.registry.workers.insert(key, live);
        }
    }
}

impl RestoreState<'_> {
    fn reads(&self) -> &dyn FleetReads {
        &*self.shared.store
    }

    fn monotonic(&self, wall: orlop_core::time::Time) -> u64 {
        let ahead = wall.millis().saturating_sub(self.wall.millis());
        u64::try_from(i64::try_from(self.now).unwrap_or(i64::MAX).saturating_add(ahead)).unwrap_or(0)
    }

    async fn tenants(&mut self) -> Result<(), Problem> {
        let mut page = Page::first(MAX_PAGE);
        loop {
            let filter = EntryFilter::default();
            let found = self.reads().list::<Tenant>(&filter, &page).await?;
            for tenant in found.items {
                let quota = match tenant.quota {
                    serde_json::Value::Null => orlop_scheduler::event::Quota::default(),
                    written => serde_json::from_value(written)
                        .map_err(|problem| damaged(format_args!("the quota of tenant `{}`", tenant.name), problem))?,
                };
                let status = match tenant.state {
                    TenantState::Active => TenantStatus::Active,
                    TenantState::Paused => TenantStatus::Paused,
                    TenantState::Closing => TenantStatus::Closing,
                };
                let settings = TenantSettings { weight: tenant.weight, status, priority_best: tenant.priority_best };
                self.stored.tenants.push(TenantRow { name: tenant.name, settings, quota });
            }
            let Some(next) = found.next else { return Ok(()) };
            page = Page::after(next, MAX_PAGE);
        }
    }

    async fn read_workers(&mut self) -> Result<(), Problem> {
        let mut page = Page::first(MAX_PAGE);
        loop {
            let filter = EntryFilter::default();
            let found = self.reads().list::<Worker>(&filter, &page).await?;
            // In order of id and incarnation: later ones are newer.
            found.items.into_iter().try_for_each(|worker| self.worker(worker))?;
            let Some(next) = found.next else { break };
            page = Page::after(next, MAX_PAGE);
        }
        // Of those that left, the newest of each id tells the next incarnation.
        let newest = &self.newest;
        let is_newest = |id: &WorkerId, number: u32| newest.get(id) == Some(&number);
        self.stored.workers.retain(|row| !row.state.is_terminal() || is_newest(&row.worker.id, row.worker.number));
        Ok(())
    }

    fn worker(&mut self, worker: Worker) -> Result<(), Problem> {
        let number = worker.incarnation.get();
        let offer: Capabilities = match &worker.capabilities {
            serde_json::Value::Null => Capabilities::default(),
            written => serde_json::from_value(written.clone())
                .map_err(|problem| damaged(format_args!("what worker `{}` offers", worker.id), problem))?,
        };
        let drain = worker.drain.as_ref().map(|order| DrainOrder {
            deadline: order
                .get("deadline")
                .and_then(serde_json::Value::as_i64)
                .map(|at| self.monotonic(orlop_core::time::Time::from_millis(at))),
            host_shutdown: order.get("host_shutdown").and_then(serde_json::Value::as_bool).unwrap_or(false),
        });
        self.stored.workers.push(WorkerRow {
            worker: Incarnation { id: worker.id.clone(), number },
            state: worker.state,
            capabilities: Arc::new(offer),
            cordoned: worker.cordoned,
            drain,
        });
        self.newest.insert(worker.id.clone(), number);
        self.workers.push(worker);
        Ok(())
    }

    async fn jobs(&mut self) -> Result<(), Problem> {
        let mut page = Page::first(MAX_PAGE);
        loop {
            let found = self.shared.store.restore(&page).await?;
            for spec in &found.specs {
                let Entry::Vacant(place) = self.specs.entry(spec.hash) else { continue };
                let prepared = Prepared::stored(spec);
                let prepared = prepared.map_err(|problem| damaged(format_args!("spec {}", spec.hash), problem))?;
                place.insert(Arc::new(prepared));
            }
            for job in found.jobs {
                self.job(job).await?;
            }
            let Some(next) = found.next else { return Ok(()) };
            page = Page::after(next, MAX_PAGE);
        }
    }

    async fn job(&mut self, restored: RestoredJob) -> Result<(), Problem> {
        let RestoredJob { row, elements, attempts } = restored;
        let id = row.job.id;
        let Some(spec) = self.specs.get(&row.job.spec).map(Arc::clone) else {
            return Err(damaged(format_args!("job {id}"), "its spec is not there"));
        };
        for attempt in attempts {
            // Lost, and known to have ended: its worker said so or has left.
            if !(attempt.state == AttemptState::Lost && attempt.finished_at.is_some()) {
                let cancelling = row.unit.state == JobState::Cancelling;
                let attempt = self.attempt(attempt, cancelling);
                self.stored.attempts.push(attempt);
            }
        }
        let waits = row.job.not_before.is_some_and(|at| at > self.wall);
        let body = if row.job.kind == JobKind::Array {
            let waiting = if waits { JobState::Pending } else { JobState::Queued };
            let never = elements.waiting.iter().map(|&(first, last)| RangeRow { first, last, state: waiting });
            let done = elements.done.iter().filter(|span| span.attempt == 0);
            let done = done.map(|span| RangeRow { first: span.first, last: span.last, state: span.state });
            let ranges = never.chain(done).collect();
            let mut known: BTreeMap<u32, UnitRow> = BTreeMap::new();
            for row in elements.live {
                known.insert(row.index, self.element(id, row).await?);
            }
            for span in elements.done.iter().filter(|span| span.attempt > 0) {
                let unit = TaskStatus {
                    attempt: span.attempt,
                    epoch: span.epoch,
                    answered: span.answered,
                    ..TaskStatus::new(span.state)
                };
                known.extend((span.first..=span.last).map(|index| (index, self.unit(unit.clone()))));
            }
            let (max_parallel, max_failures) = spec.array_limits();
            Body::Array(ArrayRow { max_parallel, max_failures, ranges, elements: known })
        } else {
            Body::One(self.one(&spec, id, row.unit.clone()).await?)
        };
        self.stored.jobs.push(JobRow {
            job: id,
            spec: Arc::clone(&spec.demand),
            submitted: self.monotonic(row.job.submitted_at),
            not_before: row.job.not_before.map(|at| self.monotonic(at)),
            expires: row.job.expires_at.map(|at| self.monotonic(at)),
            body,
        });
        let client = ClientFields { correlation_id: row.job.correlation_id, traceparent: row.job.traceparent };
        let client = (client != ClientFields::default()).then(|| Arc::new(client));
        // Its spec is stored: the record that interning would write is not needed.
        let (spec, _) = self.registry.specs.intern(&spec);
        let (array, shown_running) = (row.job.kind == JobKind::Array, row.unit.state == JobState::Running);
        self.registry.jobs.insert(id, LiveJob { spec, client, array, shown_running });
        Ok(())
    }

    fn unit(&self, unit: TaskStatus) -> UnitRow {
        let avoid = unit.avoid.and_then(|id| {
            let number = *self.newest.get(&id)?;
            Some(Incarnation { id, number })
        });
        UnitRow {
            state: unit.state,
            attempt: unit.attempt,
            epoch: unit.epoch,
            answered: unit.answered,
            lost: unit.lost,
            second_try: unit.second_try,
            lost_by: unit.worker.filter(|_| unit.lost),
            started: unit.started_at.is_some(),
            retries: unit.retries,
            infra: unit.infra,
            avoid,
            due: unit.due_at.map(|at| self.monotonic(at)),
            earlier: Vec::new(),
            gang: None,
        }
    }

    /// All attempts of a job, or of an element of it.
    async fn attempts(&self, job: JobId, index: Option<u32>) -> Result<Vec<StoredAttempt>, Problem> {
        let (mut all, mut page) = (Vec::new(), Page::first(MAX_PAGE));
        loop {
            let found = self.reads().attempts(job, &AttemptFilter { index }, &page).await;
            let found = found?;
            all.extend(found.items);
            let Some(next) = found.next else { return Ok(all) };
            page = Page::after(next, MAX_PAGE);
        }
    }

    /// A single job or gang, with what its attempts say that have ended.
    async fn one(&mut self, spec: &Prepared, job: JobId, stored: TaskStatus) -> Result<UnitRow, Problem> {
        let gang = spec.demand.gang.as_ref().filter(|_| stored.attempt > 0);
        if gang.is_none() && (stored.attempt < 2 || self.looked >= LOOKS) {
            return Ok(self.unit(stored));
        }
        self.looked += usize::from(gang.is_none());
        let attempts = self.attempts(job, None).await?;
        let earlier = past::earlier(&stored, &attempts, gang.is_some());
        let gang = gang.map(|gang| past::gang(gang.size, &stored, &attempts));
        Ok(UnitRow { gang, earlier, ..self.unit(stored) })
    }

    /// An element that is not final, with its earlier tokens where they are few enough to be read one by one.
    async fn element(&mut self, job: JobId, row: ElementRow) -> Result<UnitRow, Problem> {
        let looks = row.unit.attempt > 1 && self.looked < LOOKS;
        if !looks {
            return Ok(self.unit(row.unit));
        }
        self.looked += 1;
        let attempts = self.attempts(job, Some(row.index)).await?;
        Ok(UnitRow { earlier: past::earlier(&row.unit, &attempts, false), ..self.unit(row.unit) })
    }

    fn attempt(&self, row: StoredAttempt, cancelling: bool) -> AttemptRow {
        let ahead = row.attempt.mode == StartMode::Inherit;
        let worker = Incarnation { id: row.attempt.worker, number: row.attempt.incarnation };
        let gpu = row.attempt.gpu.map(|gpu| *gpu);
        AttemptRow {
            attempt: row.attempt.id,
            worker,
            gpu,
            assigned_at: self.monotonic(row.attempt.assigned_at),
            accepted: row.accepted_at.is_some() || row.started_at.is_some(),
            started_at: row.started_at.map(|at| self.monotonic(at)),
            ending: cancelling.then_some(CancelReason::User),
            lost: row.state == AttemptState::Lost,
            start: if ahead { StartMode::Inherit } else { StartMode::Now },
            waiting: ahead && row.started_at.is_none(),
        }
    }
}
