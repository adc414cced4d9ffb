//! What the core's effects lead to: records for the store, entries for workers, somebody who waits. What one batch wrote is collected
//! until it is committed.

use std::sync::Arc;

use orlop_core::hardware::gpu::GpuShape;
use orlop_core::id::JobId;
use orlop_core::machine::attempt::AttemptState;
use orlop_core::machine::job::JobState;
use orlop_core::machine::verdict::ReportVerdict;
use orlop_core::ports::fleet_store::{
    AttemptChange, AttemptEnd, ElementChange, JobChange, NewAttempt, RangeChange, Record, TaskStatus, Text,
};
use orlop_core::task::{StartMode, TaskRef};
use orlop_core::time::Time;
use orlop_scheduler::effect::{Effect, JobPart, Reason};
use orlop_scheduler::stored::UnitRow;
use orlop_scheduler::token::WorkerKey;

use super::super::commit::Release;
use super::super::session::{Assignment, Batch, Session};
use super::Core;
use crate::wire::attempt::CancelJob;
use crate::wire::frame::{Directive, DirectiveKind};

impl Core {
    /// Takes the effects of the last call in. `fields` is what the message that caused them said.
    pub(super) fn absorb(&mut self, fields: &ReportFields) {
        let mut effects = std::mem::take(&mut self.effects);
        let heard = self.shared.changes.is_heard();
        for effect in effects.drain(..) {
            if heard
                && let Effect::Admitted { job, .. } | Effect::JobChanged { job, .. } | Effect::Finished { job, .. } =
                    &effect
            {
                self.changed.push(*job);
            }
            self.publish(&effect);
            self.count(&effect);
            self.take_in(effect, fields);
        }
        self.effects = effects;
    }

    fn take_in(&mut self, effect: Effect, fields: &ReportFields) {
        match effect {
            Effect::JobChanged { job, part, to, reason, revision, .. } => {
                self.revision = revision;
                let watchers = self.registry.watchers.changed(job, part);
                if !watchers.is_empty() {
                    self.writes.release(Release::Waiters(watchers));
                }
                let element = match part {
                    JobPart::Whole => None,
                    JobPart::Elements(first, last) if first == last && self.was_assigned(job, first) => Some(first),
                    JobPart::Elements(first, last) => {
                        // Elements that wait count as Queued in the store, whatever the gate.
                        if to.is_terminal() {
                            let reason = text(reason);
                            let change = RangeChange { job, first, last, state: to, reason, at: self.wall };
                            self.writes.records.push(Record::Ranges(change));
                        }
                        return;
                    }
                };
                self.writes.tasks.push(TaskMark { job, element, to, reason, revision, fields: fields.clone() });
            }
            Effect::Finished { job, part: JobPart::Whole, outcome, reason } => {
                if self.registry.jobs.get(job).is_some_and(|live| live.array) {
                    let (revision, fields) = (self.revision, ReportFields::default());
                    self.writes.tasks.push(TaskMark { job, element: None, to: outcome, reason, revision, fields });
                }
                let mut waiters = self.registry.jobs.finish(job);
                waiters.extend(self.registry.watchers.changed(job, JobPart::Whole));
                if !waiters.is_empty() {
                    self.writes.release(Release::Waiters(waiters));
                }
            }
            Effect::Assign { attempt, worker, start } => self.assign(attempt, worker, start),
            Effect::Cancel { attempt, worker, why, grace_ms } => {
                if let Some(out) = self.out(worker) {
                    out.cancel.push(CancelJob::new(attempt, why, grace_ms));
                }
            }
            Effect::Revoke { attempt, worker } => {
                if let Some(out) = self.out(worker) {
                    out.revoke.push(attempt);
                }
            }
            Effect::Lost { attempt, held, .. } => {
                self.not_accepted(attempt, "the worker was lost");
                self.trace_started(attempt);
                let finished_at = (!held).then_some(self.wall);
                let end = AttemptEnd { reason: text(Reason::WorkerLost), ..AttemptEnd::default() };
                self.writes.records.push(Record::Attempt(Box::new(AttemptChange {
                    finished_at,
                    end: Some(end),
                    ..AttemptChange::new(attempt, AttemptState::Lost)
                })));
            }
            Effect::WorkerChanged { worker, to, reason, .. } => self.worker_changed(worker, to, reason),
            Effect::Shutdown { worker } => {
                if let Some(out) = self.out(worker) {
                    let reason = "nothing is left on this worker".to_owned();
                    out.directive = Some(Directive { kind: DirectiveKind::Shutdown.into(), reason, deadline_ms: 0 });
                }
            }
            // What a submit got is reported by who applied it; a verdict by who applied the message.
            _ => {}
        }
    }

    /// Whether an element has left its range: it was assigned at least once.
    fn was_assigned(&self, job: orlop_core::id::JobId, index: u32) -> bool {
        self.scheduler.job(job, Some(index)).is_some_and(|view| view.attempt > 0)
    }

    /// The kind of GPU that an attempt holds, if its job asks for any.
    pub(super) fn gpu_of(&self, attempt: TaskRef, worker: WorkerKey) -> Option<Box<GpuShape>> {
        // Nearly no job asks: the way of all the others stays short.
        let asks = self.registry.jobs.get(attempt.job)?.spec.demand().resources.gpus.count > 0;
        if !asks {
            return None;
        }
        self.scheduler.attempt_row(attempt, worker)?.gpu.map(Box::new)
    }

    fn assign(&mut self, attempt: TaskRef, worker: WorkerKey, mode: StartMode) {
        let gpu = self.gpu_of(attempt, worker);
        let Some(job) = self.registry.jobs.get_mut(attempt.job) else { return };
        let (spec, client) = (std::sync::Arc::clone(&job.spec), job.client.clone());
        let first = job.array && !std::mem::replace(&mut job.shown_running, true);
        if first {
            let revision = self.revision;
            let to = orlop_core::machine::job::JobState::Running;
            let (fields, reason) =
                (ReportFields { started_at: Some(self.wall), ..ReportFields::default() }, Reason::Plain);
            self.writes.tasks.push(TaskMark { job: attempt.job, element: None, to, reason, revision, fields });
        }
        let Some(live) = self.registry.workers.get(worker) else { return };
        self.writes.records.push(Record::AttemptNew(Box::new(NewAttempt {
            id: attempt,
            worker: live.id.clone(),
            incarnation: live.incarnation,
            mode,
            assigned_at: self.wall,
            gpu: gpu.clone(),
        })));
        let traceparent = self.trace_assigned(attempt);
        if let Some(out) = self.out(worker) {
            out.assign.push(Assignment { attempt, spec, client, traceparent, mode, gpu });
        }
    }

    /// What goes out to a worker after this batch; none if it has no session.
    pub(super) fn out(&mut self, worker: WorkerKey) -> Option<&mut Batch> {
        let live = self.registry.workers.get_mut(worker)?;
        live.session.as_ref()?;
        if !live.out.touched {
            live.out.touched = true;
            self.writes.touched.push(worker);
        }
        Some(&mut live.out)
    }

    /// The verdict among the effects of a message about an attempt.
    pub(super) fn verdict_of(&self, attempt: TaskRef) -> Option<ReportVerdict> {
        self.effects.iter().find_map(|effect| match effect {
            Effect::Verdict { attempt: of, verdict } if *of == attempt => Some(*verdict),
            _ => None,
        })
    }

    /// Whether the effects of a message make its task final: its result is the one that counts.
    pub(super) fn is_final(&self, attempt: TaskRef) -> bool {
        self.effects.iter().any(|effect| match effect {
            Effect::Finished { job, part: JobPart::Whole, .. } => {
                *job == attempt.job && !self.registry.jobs.get(*job).is_some_and(|live| live.array)
            }
            Effect::Finished { job, part: JobPart::Elements(first, last), .. } => {
                *job == attempt.job && (*first..=*last).contains(&attempt.index)
            }
            _ => false,
        })
    }
}

/// A job, element or gang that changed.
#[derive(Clone, Debug)]
pub(super) struct TaskMark {
    pub(super) job: JobId,
    /// The element; none = the job itself.
    pub(super) element: Option<u32>,
    pub(super) to: JobState,
    pub(super) reason: Reason,
    /// Number of the change.
    pub(super) revision: u64,
    /// What a result said.
    pub(super) fields: ReportFields,
}

/// What a worker's message says of a task, as far as its row keeps it.
#[derive(Clone, Debug, Default)]
pub(super) struct ReportFields {
    pub(super) reason: Option<Text>,
    pub(super) exit_code: Option<i32>,
    pub(super) started_at: Option<Time>,
    pub(super) finished_at: Option<Time>,
}

/// A batch in the making.
#[derive(Debug, Default)]
pub(super) struct WriteSet {
    /// Records that are complete.
    pub(super) records: Vec<Record>,
    /// Tasks whose rows are written at the end of the batch.
    pub(super) tasks: Vec<TaskMark>,
    /// Workers whose documents are written then.
    pub(super) workers: Vec<WorkerKey>,
    /// Workers that something goes out to.
    pub(super) touched: Vec<WorkerKey>,
    /// What is done after the commit, in order; frames come before.
    pub(super) releases: Vec<Release>,
    /// Messages whose worth the store is asked for after the commit, and who sent them.
    pub(super) recalls: Vec<(Arc<Session>, TaskRef)>,
    /// Something was applied: the core is worth a round.
    pub(super) applied: bool,
}

impl WriteSet {
    pub(super) fn release(&mut self, release: Release) {
        self.releases.push(release);
    }

    /// Whether something of it is written.
    pub(super) fn is_written(&self) -> bool {
        !(self.records.is_empty() && self.tasks.is_empty() && self.workers.is_empty())
    }

    /// Whether nothing came of the batch.
    pub(super) fn is_empty(&self) -> bool {
        !self.is_written() && self.touched.is_empty() && self.recalls.is_empty() && self.releases.is_empty()
    }
}

impl Core {
    /// Completes the draft: rows of what changed, frames of who is touched.
    pub(super) fn flush(&mut self) {
        let mut marks = std::mem::take(&mut self.writes.tasks);
        marks.sort_by_key(|mark| (mark.job, mark.element, mark.revision));
        for group in marks.chunk_by(|one, two| (one.job, one.element) == (two.job, two.element)) {
            if let Some(record) = self.unit_record(group) {
                self.writes.records.push(record);
            }
        }
        marks.clear();
        self.writes.tasks = marks;
        self.flush_workers();
        for key in std::mem::take(&mut self.writes.touched) {
            let Some(live) = self.registry.workers.get_mut(key) else { continue };
            let out = Batch { ack: live.applied, ..std::mem::take(&mut live.out) };
            if let Some(session) = &live.session {
                let release = Release::Frame(std::sync::Arc::clone(session), Box::new(out));
                self.writes.releases.push(release);
            }
        }
    }

    /// The record of a task after the changes of this batch, in order.
    fn unit_record(&self, marks: &[TaskMark]) -> Option<Record> {
        let last = marks.last()?;
        let (job, element) = (last.job, last.element);
        let whole_array = element.is_none() && self.scheduler.task_row(job, None).is_none();
        let row = if whole_array { None } else { self.scheduler.task_row(job, element) };
        let mut unit = match row {
            Some(row) => self.unit_of(job, element, row),
            None => TaskStatus::new(last.to),
        };
        // That nothing more is tried is the reason then, whatever the last try said of itself.
        let fields = last.fields.reason.clone().filter(|_| last.reason != Reason::InfraLimit);
        unit.reason = fields.or_else(|| text(last.reason));
        for mark in marks {
            self.note_times(&mut unit, mark);
        }
        Some(match element {
            Some(index) => Record::Element(Box::new(ElementChange { job, index, unit })),
            None => Record::Job(Box::new(JobChange { id: job, revision: last.revision, unit })),
        })
    }

    fn note_times(&self, unit: &mut TaskStatus, mark: &TaskMark) {
        let fields = &mark.fields;
        match mark.to {
            JobState::Queued => unit.queued_at = Some(self.wall),
            JobState::Running => unit.started_at = fields.started_at.or(Some(self.wall)),
            to if to.is_terminal() => {
                unit.started_at = fields.started_at.or(unit.started_at);
                unit.finished_at = fields.finished_at.or(Some(self.wall));
                unit.exit_code = fields.exit_code.or(match mark.reason {
                    Reason::Exit(code) => code,
                    Reason::Command(code) => Some(code),
                    _ => None,
                });
            }
            _ => {}
        }
    }

    /// A task as the store keeps it.
    fn unit_of(&self, job: JobId, element: Option<u32>, row: UnitRow) -> TaskStatus {
        let worker = self.scheduler.job(job, element).and_then(|view| view.worker);
        let worker = worker.and_then(|key| self.registry.workers.get(key)).map(|live| live.id.clone());
        TaskStatus {
            attempt: row.attempt,
            epoch: row.epoch,
            answered: row.answered,
            lost: row.lost,
            second_try: row.second_try,
            retries: row.retries,
            infra: row.infra,
            worker: worker.or(row.lost_by),
            avoid: row.avoid.map(|incarnation| incarnation.id),
            due_at: row.due.map(|due| self.wall_of(due)),
            ..TaskStatus::new(row.state)
        }
    }

    /// The wall time of a monotonic one.
    pub(super) fn wall_of(&self, monotonic: u64) -> Time {
        let ahead =
            i64::try_from(monotonic).unwrap_or(i64::MAX).saturating_sub(i64::try_from(self.now).unwrap_or(i64::MAX));
        Time::from_millis(self.wall.millis().saturating_add(ahead))
    }

    /// The monotonic time of a wall time; times before the clock ran are 0.
    pub(super) fn monotonic_of(&self, wall: Time) -> u64 {
        let ahead = wall.millis().saturating_sub(self.wall.millis());
        u64::try_from(i64::try_from(self.now).unwrap_or(i64::MAX).saturating_add(ahead)).unwrap_or(0)
    }
}

/// A reason as it is stored; none where the state says it all.
fn text(reason: Reason) -> Option<Text> {
    reason.word().map(Text::Borrowed)
}
