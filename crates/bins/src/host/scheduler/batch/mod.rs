//! One term of leadership: the core with what the loop knows beside it, and the batch that both go through.

mod effects;
pub(super) mod metrics;
mod order;
mod past;
mod phases;
mod place;
mod publish;
mod recall;
mod register;
mod report;
mod restore;
mod snapshot;
mod submit;
mod trace;

use std::sync::Arc;
use std::time::{Duration, Instant};

use orlop_cloud::bus::local::LocalBus;
use orlop_core::error::Problem;
use orlop_core::id::{Epoch, JobId};
use orlop_core::ports::fleet_store::WriteBatch;
use orlop_core::time::Time;
use orlop_scheduler::effect::Effect;
use orlop_scheduler::engine::Scheduler;
use orlop_scheduler::error::EventError;
use orlop_scheduler::event::Event;
use orlop_scheduler::token::WorkerKey;

use self::effects::{ReportFields, WriteSet};
use self::metrics::BatchMetrics;
use self::phases::Phases;
use self::place::Placing;
use self::submit::FeasibilityCache;
use self::trace::Traces;
use super::clock::Clock;
use super::command::{Command, Reply};
use super::commit::{Progress, Release, Staged};
use super::error;
use super::ingress::LockFreePriorityQueue;
use super::live::{Jobs, Keys, Watchers, Workers};
use super::logs::Losses;
use super::session::{Opened, Opening};
use super::shared::Shared;
use super::snapshot::Totals;
use super::spec::Specs;
use crate::telemetry::metrics::Metrics;

/// The most inputs of one batch.
const INPUTS: usize = 4096;
/// How long a batch takes inputs after the first.
const DRAIN: Duration = Duration::from_millis(1);
/// The most placements of one batch.
const PLACEMENTS: u32 = 8192;

/// What the loop knows beside the core.
#[derive(Debug, Default)]
pub(super) struct Registry {
    pub(super) jobs: Jobs,
    pub(super) specs: Specs,
    pub(super) keys: Keys,
    pub(super) workers: Workers,
    pub(super) watchers: Watchers,
}

/// The state of a term of leadership. It is dropped whole when a commit fails.
#[derive(Debug)]
pub(super) struct Core {
    scheduler: Scheduler,
    registry: Registry,
    epoch: Epoch,
    next_job: u64,
    clock: Arc<dyn Clock>,
    /// Where the store is asked for what the loop does not hold.
    shared: Arc<Shared>,
    lease_ms: u32,
    /// Time of the batch.
    now: u64,
    wall: Time,
    effects: Vec<Effect>,
    writes: WriteSet,
    /// Workers that left in this batch.
    departed: Vec<WorkerKey>,
    /// Messages by their verdict, in their fixed order.
    verdicts: [u64; 5],
    /// What is counted of this batch.
    counts: BatchMetrics,
    /// What has happened to jobs in this term.
    totals: Totals,
    /// Tasks whose gate is closed or whose next attempt is not due, by band; arrays that were restored count from then on.
    gated: [u64; 3],
    metrics: Arc<Metrics>,
    /// What workers dropped of logs.
    losses: Arc<Losses>,
    traces: Traces,
    bus: Arc<LocalBus>,
    /// Events go to the store's outbox too.
    outbox: bool,
    /// Events of heartbeats are reported.
    heartbeats: bool,
    /// Events of this term.
    events: u64,
    /// Batches that were staged in this term.
    staged: u64,
    /// Who waits for the word of workers on what an operator placed.
    placing: Placing,
    /// Jobs that no worker could run, as found lately.
    feasibility: FeasibilityCache,
    /// Streams that wait for batches to be released.
    openings: Vec<(u64, Opening, Reply<Opened>)>,
    /// Number of the last change of a job.
    revision: u64,
    /// When the last snapshot was made.
    snapshot_at: u64,
    /// Jobs of this batch that have changed, while somebody listens.
    changed: Vec<JobId>,
    /// Something has happened since.
    outdated: bool,
    /// A worker has said how it is since.
    heard: bool,
    /// The last round ended at its limit.
    more: bool,
}

impl Core {
    /// One batch: inputs, round, rows. None if nothing came of it.
    pub(super) fn run_batch(
        &mut self,
        ingress: &LockFreePriorityQueue<Command>,
        progress: &Progress,
    ) -> Option<Staged> {
        self.read_clock();
        let begun = Instant::now();
        let mut phases = Phases::begin(begun);
        ingress.drain(INPUTS, |command| {
            self.command(command);
            begun.elapsed() < DRAIN
        });
        self.open_streams(progress.released());
        if let Some(micros) = progress.take_batch_time() {
            self.apply(Event::TurnTime { micros }, &ReportFields::default());
        }
        phases.end("apply");
        let due = self.scheduler.next_deadline().is_some_and(|at| at <= self.now);
        if self.writes.applied || self.more || due {
            self.effects.clear();
            let round = self.scheduler.round(self.now, PLACEMENTS, &mut self.effects);
            self.more = round.limited;
            self.count_blocked(round.blocked);
            self.absorb(&ReportFields::default());
            phases.end("round");
        }
        self.take_audit_entries();
        if self.writes.is_empty() {
            self.writes.applied = false;
            return None;
        }
        self.flush();
        self.ask_recalls();
        self.end_departed();
        self.report_counts();
        phases.end("records");
        phases.report(&self.metrics);
        self.outdated = true;
        self.staged += 1;
        self.release_changes();
        let writes = std::mem::take(&mut self.writes);
        Some(Staged { turn: WriteBatch::new(writes.records), releases: writes.releases, begun })
    }

    /// Reports what is committed to live views.
    fn release_changes(&mut self) {
        if !self.changed.is_empty() {
            let jobs = std::mem::take(&mut self.changed);
            self.writes.release(Release::Changed(Arc::clone(&self.shared), jobs));
        }
        if let Some(snapshot) = self.due_snapshot() {
            self.writes.release(Release::Snapshot(Arc::clone(&self.shared), snapshot));
        }
    }

    /// Lines of the audit trail go along with what is written anyway, or when they have waited for long.
    fn take_audit_entries(&mut self) {
        if !self.writes.is_written() && !self.shared.audit_buffer.are_due() {
            return;
        }
        let (records, entries) = self.shared.audit_buffer.take();
        if !entries.is_empty() {
            self.writes.records.extend(records);
            self.writes.release(Release::Audited(entries));
        }
    }

    /// When the next batch is due if nothing comes in, in monotonic milliseconds; 0 = at once. A snapshot is made only while
    /// everything is committed; the writer says when.
    pub(super) fn next_deadline(&self, progress: &Progress) -> Option<u64> {
        if self.more {
            return Some(0);
        }
        let snapshot = self.next_snapshot().filter(|_| progress.is_idle());
        self.scheduler.next_deadline().into_iter().chain(snapshot).min()
    }

    fn read_clock(&mut self) {
        self.now = self.clock.monotonic();
        self.wall = self.clock.wall();
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Submit(batch, reply) => self.submit(*batch, reply),
            Command::Cancel { job, elements, reply } => self.cancel(job, &elements, reply),
            // Who has gone away meanwhile needs no answer.
            Command::Explain(job, reply) => drop(reply.send(self.explained(job))),
            Command::Wait(job, waiter) => {
                // Its end may be in a batch that is not committed yet.
                if let Some(waiter) = self.registry.jobs.wait(job, waiter) {
                    self.writes.release(Release::Waiters(vec![waiter]));
                }
            }
            Command::Watch(job, index, watch) => {
                self.registry.watchers.add(job, index, watch.changed);
                self.writes.release(Release::reply(watch.ready, ()));
            }
            Command::Place { worker, job, reply } => self.place(&worker, job, reply),
            Command::Config(config, reply) => {
                let answer = self.call_or(Event::ConfigChanged { config });
                self.writes.release(Release::reply(reply, answer));
            }
            Command::Worker(worker, order, reply) => self.worker_order(&worker, order, reply),
            Command::Tenant(change, reply) => {
                let (name, settings, quota) = *change;
                self.tenant(name, settings, quota, reply);
            }
            Command::Register(registration, reply) => self.register(*registration, reply),
            Command::Open(opening, reply) => self.open(*opening, reply),
            Command::Frame(session, frame) => self.frame(&session, *frame),
            Command::Closed { session, stream } => self.closed(session.id(), stream),
            Command::Recalled(found) => self.recalled(found),
            Command::Publish(body) => self.publish_requested(*body),
            Command::Alive { session, healthy, certificate, reply } => {
                self.alive(session, healthy, certificate.as_ref(), reply);
            }
        }
    }

    /// Gives the core an event, and leaves its effects to be looked at.
    fn try_call(&mut self, event: Event) -> Result<(), EventError> {
        self.effects.clear();
        self.writes.applied = true;
        let result = self.scheduler.apply(self.now, event, &mut self.effects);
        if let Err(EventError::Fatal(problem)) = &result {
            tracing::error!(target: "orlop::scheduler", problem, "the core rejected part of an input");
        }
        result
    }

    /// As [`Core::try_call`], for messages: what is not taken changes nothing, and is logged.
    fn call(&mut self, event: Event) -> bool {
        match self.try_call(event) {
            Ok(()) => true,
            Err(error) => {
                tracing::debug!(target: "orlop::scheduler", %error, "a message was not taken");
                false
            }
        }
    }

    /// Gives the core an event and takes its effects in.
    fn apply(&mut self, event: Event, fields: &ReportFields) {
        if self.call(event) {
            self.absorb(fields);
        }
    }

    /// As [`Core::apply`], for requests: what is not taken is their answer.
    fn call_or(&mut self, event: Event) -> Result<(), Problem> {
        self.call_or_keep(event)?;
        self.absorb(&ReportFields::default());
        Ok(())
    }

    /// As [`Core::call_or`], but leaves the effects to be looked at.
    fn call_or_keep(&mut self, event: Event) -> Result<(), Problem> {
        self.try_call(event).map_err(|problem| error::event(&problem))
    }
}
