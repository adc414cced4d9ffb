//! The core's effects become records, frames and events of the batch.

use orlop_core::hardware::gpu::GpuShape;
use orlop_core::machine::attempt::AttemptState;
use orlop_core::machine::verdict::ReportVerdict;
use orlop_core::ports::fleet_store::{AttemptChange, AttemptEnd, NewAttempt, RangeChange, Record};
use orlop_core::task::{StartMode, TaskRef};
use orlop_scheduler::effect::{Effect, JobPart, Reason};
use orlop_scheduler::token::WorkerKey;

use super::super::commit::Release;
use super::super::session::{Assignment, Batch};
use super::super::words;
use super::Core;
use super::write_set::{ReportFields, TaskMark};
use crate::wire::attempt::CancelJob;
use crate::wire::frame::{Directive, DirectiveKind};

impl Core {
    /// Takes the effects of the last call in. `fields` is what the message that caused them said.
    pub(super) fn absorb(&mut self, fields: &ReportFields) {
        let mut effects = std::mem::take(&mut self.effects);
        for effect in effects.drain(..) {
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
                            let reason = words::reason(reason);
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
                    out.cancel.push(CancelJob { attempt, reason: why, grace_ms });
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
                let end = AttemptEnd { reason: words::reason(Reason::WorkerLost), ..AttemptEnd::default() };
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
