//! Placements that an operator orders: of a queued job on a named worker, past policy and order.

use std::collections::BTreeMap;

use orlop_core::error::{Code, Problem};
use orlop_core::id::{JobId, WorkerId};
use orlop_core::task::TaskRef;
use orlop_scheduler::effect::Effect;
use orlop_scheduler::error::EventError;
use orlop_scheduler::event::Event;

use super::super::command::Reply;
use super::super::commit::Release;
use super::super::error;
use super::Core;
use super::effects::ReportFields;

/// Who waits for workers to accept what was placed on them.
pub(in super::super) type Placing = BTreeMap<TaskRef, Reply<TaskRef>>;

impl Core {
    /// Places a job on a worker. The answer comes once the worker has accepted it, or will not.
    pub(super) fn place(&mut self, worker: &WorkerId, job: JobId, reply: Reply<TaskRef>) {
        match self.placed(worker, job) {
            Ok(attempt) => {
                self.placing.retain(|_, waiting| !waiting.is_closed());
                self.placing.insert(attempt, reply);
            }
            Err(refused) => self.writes.release(Release::reply(reply, Err(refused))),
        }
    }

    fn placed(&mut self, worker: &WorkerId, job: JobId) -> Result<TaskRef, Problem> {
        let key = self.scheduler.worker_key(worker);
        let key = key.ok_or_else(|| error::not_found(format_args!("worker `{worker}`")))?;
        if let Err(refused) = self.try_call(Event::AssignJob { job, worker: key }) {
            let EventError::NotAssigned { why, .. } = &refused else { return Err(error::event(&refused)) };
            let reported = self.explained(job).map(|reported| format!("; {}", reported.summary())).unwrap_or_default();
            let text = format!("job {job} cannot be placed on worker `{worker}` now: {why}{reported}");
            return Err(Problem::coded(Code::Precondition, text));
        }
        let attempt = self.effects.iter().find_map(|effect| match effect {
            Effect::Assign { attempt, .. } if attempt.job == job => Some(*attempt),
            _ => None,
        });
        self.absorb(&ReportFields::default());
        attempt.ok_or_else(|| Problem::coded(Code::Internal, "the job was placed, but its attempt is unknown"))
    }

    /// A worker has accepted an attempt, or more.
    pub(super) fn accepted(&mut self, attempt: TaskRef) {
        if let Some(reply) = self.placing.remove(&attempt) {
            self.writes.release(Release::reply(reply, Ok(attempt)));
        }
    }

    /// An attempt ended before its worker accepted it.
    pub(super) fn not_accepted(&mut self, attempt: TaskRef, why: &str) {
        if let Some(reply) = self.placing.remove(&attempt) {
            let text = format!("the worker did not accept job {}: {why}; it waits again", attempt.job);
            self.writes.release(Release::reply(reply, Err(Problem::coded(Code::Precondition, text))));
        }
    }
}
