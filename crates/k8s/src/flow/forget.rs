//! What is left of attempts (`jobRetention`, the template's own time to live): Jobs are let go once a stored status names their
//! end. Owns what is tried again, and that a controller which takes over lets go what an earlier one has not.

use std::collections::BTreeMap;
use std::time::Duration;

use orlop_core::spec::status::FlowStatus;
use orlop_core::time::Time;
use orlop_dag::attempt::{self, patience};
use serde_json::{Value, json};

use super::memory::{Memory, Stored};
use super::{Controller, Key, concurrency, text};
use crate::api::{Api, ApiError, Kind, Request};
use crate::convert;
use crate::records::{self, FetchError};

impl<A: Api> Controller<A> {
    /// Lets go of Jobs whose end the status names: deletes them, or has the server do it when their time has come.
    pub(super) async fn forget(&self, memory: &mut Memory) {
        if memory.forget_at.is_some_and(|at| at > self.now()) {
            return;
        }
        memory.forget_at = None;
        let mut failed: Option<ApiError> = None;
        for (unit, after) in std::mem::take(&mut memory.forget) {
            let subject =
                attempt::Subject { plan: &memory.plan, meta: memory.state.meta(), at: unit.0, attempt: unit.1 };
            let Some(name) = subject.unfilled_job().ok().map(|(name, _)| name) else { continue };
            let job = self.known().cache.job(&memory.owner.uid, &name);
            let Some(request) = job.and_then(|job| let_go(&job, &memory.owner.namespace, &name, after)) else {
                continue;
            };
            let answer = self.api.send(&request).await;
            if after == Duration::ZERO && answer.as_ref().err().is_none_or(|error| error.code == Some(404)) {
                self.known().cache.forget_job(&memory.owner.uid, &name, "");
            }
            match answer {
                Err(error) if error.class().is_retryable() || error.outcome_is_unknown() => {
                    memory.forget.push((unit, after));
                    failed = Some(error);
                }
                Err(error) if !matches!(error.code, Some(404 | 409)) => {
                    tracing::warn!(flow = %memory.key(), job = name, %error, "the finished Job cannot be deleted; it stays until its flow is deleted");
                }
                _ => {}
            }
        }
        let Some(error) = failed else {
            memory.forget_failures = 0;
            return;
        };
        tracing::warn!(flow = %memory.key(), %error, "Jobs that have ended cannot be deleted now");
        self.failed(error.class());
        let wait = patience(&error.port_error("deleting Jobs that have ended"), memory.forget_failures);
        memory.forget_failures = memory.forget_failures.saturating_add(1);
        memory.forget_at = Some(self.now().plus(wait));
    }

    /// Lets go of what is left of a flow that is over, where a controller ended between its last status and that. Gives when
    /// it is to be tried again.
    pub(super) async fn clean_up_finished(&self, object: &Value, status: &FlowStatus) -> Option<Time> {
        if !lets_go(object) || self.known().cache.jobs(&concurrency::uid(object)).is_empty() {
            return None;
        }
        match self.over(object, status).await {
            Ok(None) => None,
            Ok(Some(mut memory)) => {
                self.forget(&mut memory).await;
                memory.forget_at
            }
            Err(error) => {
                Some(self.record_failure(&Key::of(object), "reading the records of a flow that is over", &error))
            }
        }
    }

    /// A flow that is over, with what is to be let go. None where it cannot be read: its Jobs go with it.
    async fn over(&self, object: &Value, status: &FlowStatus) -> Result<Option<Memory>, ApiError> {
        let Ok((flow, plan)) = self.planned(object, true) else { return Ok(None) };
        let whole = match records::whole(&self.api, &flow, status).await {
            Ok(whole) => whole,
            Err(FetchError::Api(error)) => return Err(error),
            Err(FetchError::Read(_)) => return Ok(None),
        };
        let meta = self.meta(&flow, BTreeMap::new(), convert::spec_hash(object));
        let (state, effects) = self.rebuild(&plan, &meta, &whole, self.now());
        let stored = Stored::of(object, Some(status));
        let mut memory = self.track(plan, meta, state, stored);
        memory.take(effects, self.now());
        Ok(Some(memory).filter(|memory| !memory.forget.is_empty()))
    }
}

/// Whether Jobs of a flow are let go before it goes itself.
fn lets_go(object: &Value) -> bool {
    let retention = text(object, "/spec/executionPolicy/jobRetention");
    let steps = ["/spec/steps", "/spec/finally"].into_iter().filter_map(|list| object.pointer(list)?.as_array());
    matches!(retention.as_str(), "Failed" | "None")
        || steps.flatten().any(|step| step.pointer("/template/spec/ttlSecondsAfterFinished").is_some())
}

/// The request that lets a Job go; none where it was made before.
fn let_go(job: &Value, namespace: &str, name: &str, after: Duration) -> Option<Request> {
    if after == Duration::ZERO {
        return Some(Request::delete(Kind::Job, namespace, name, Some(text(job, "/metadata/uid"))));
    }
    let seconds = json!(after.as_secs());
    let known = job.pointer("/spec/ttlSecondsAfterFinished") == Some(&seconds);
    (!known).then(|| Request::patch(Kind::Job, namespace, name, json!({"spec": {"ttlSecondsAfterFinished": seconds}})))
}
