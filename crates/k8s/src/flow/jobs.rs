//! From Jobs that have changed to what the engine is told. Owns which Jobs are asked about: one that is missing here is gone
//! only when the server says so too.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use orlop_core::attempt::{Address, AttemptEnd, EndResult};
use orlop_core::effect::{FlowEffect, FlowNotice};
use orlop_core::event::FlowEvent;
use orlop_core::helper::{Content, REPORT, SMALL_MAX};
use orlop_core::machine::step::{StepPhase, StepState};
use orlop_core::name::sha256_hex;
use orlop_core::time::Time;
use orlop_dag::attempt;
use orlop_dag::engine::step_status;
use serde_json::Value;

use super::memory::{AttemptKey, Memory};
use super::monitor::ControllerEvent;
use super::{Controller, removal, text};
use crate::api::{self, Api, ApiError, Kind, Request};
use crate::observe::{self, AttemptPods, Conclusion};

impl<A: Api> Controller<A> {
    /// Tells the engine of all Jobs of a flow that have changed. Gives a time to ask again where the server did not answer.
    pub(super) async fn observe_jobs(&self, memory: &mut Memory) -> Option<Time> {
        let names = self.known().cache.take_changed(&memory.owner.uid);
        let mut again = None;
        for name in names {
            if let Err(error) = self.feed_one(memory, &name).await {
                tracing::warn!(flow = %memory.key(), job = name, %error, "a Job cannot be looked at now");
                self.failed(error.class());
                let key = format!("look/{name}");
                let wait = attempt::patience(&error.port_error("looking at a Job"), memory.put_off(&key));
                let at = self.now().plus(wait);
                again = Some(again.map_or(at, |known: Time| known.min(at)));
                self.known().cache.mark(&memory.owner.uid, name);
            }
        }
        again
    }

    async fn feed_one(&self, memory: &mut Memory, name: &str) -> Result<(), ApiError> {
        let seen = self.known().cache.job(&memory.owner.uid, name);
        let job = match seen {
            Some(job) => job,
            None => {
                let Some(unit) = memory.live_unit(name) else { return Ok(()) };
                match self.live_job(memory, name).await? {
                    Some(job) => job,
                    None => {
                        memory.remove(unit, self.now());
                        return Ok(());
                    }
                }
            }
        };
        memory.done(&format!("look/{name}"));
        let Some(observed) = observe::attempt(&memory.plan, memory.state.meta(), &job) else { return Ok(()) };
        let unit = (observed.at, observed.attempt);
        let current = memory.state.attempt(observed.at);
        let live = matches!(current, Some((StepState::Active | StepState::Cancelling, n)) if n == observed.attempt);
        let removed = memory.is_cancelling(unit.0, unit.1)
            || memory.removals.contains_key(&unit)
            || memory.given_up(unit, self.now()).is_some();
        match observe::conclusion(&job) {
            // It ends because it is deleted: what counts is that it is gone.
            Some(_) if removed && removal::earlier_end(&job).is_none() => {}
            Some(conclusion) if live => {
                let end = self.end(memory, unit, &job, conclusion).await?;
                memory.tell_unstored(unit, &end, self.now());
                for location in end.artifacts.iter().filter_map(|artifact| artifact.location.as_ref()) {
                    let (store, bytes) = (location.kind.as_str(), location.size_bytes);
                    self.monitor.record(ControllerEvent::Artifact { stored: true, store, bytes });
                }
                memory.apply_end(unit, end, self.now());
            }
            None if !live => self.end_stray(memory, unit, &job).await?,
            _ => {}
        }
        memory.record_waiting(unit, &job, self.now());
        Ok(())
    }

    /// A Job as it is on the server; none when there is none, or another than ours.
    pub(super) async fn live_job(&self, memory: &Memory, name: &str) -> Result<Option<Arc<Value>>, ApiError> {
        match self.api.send(&Request::get(Kind::Job, &memory.owner.namespace, name)).await {
            Ok(job) if observe::owner(&job, &memory.owner.uid) == observe::Ownership::Ours => {
                self.job_applied(&job);
                Ok(Some(Arc::new(job)))
            }
            Ok(_) => Ok(None),
            Err(error) if error.code == Some(404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The end of an attempt, with what its pods left where that is needed.
    pub(super) async fn end(
        &self,
        memory: &Memory,
        (at, _): AttemptKey,
        job: &Value,
        conclusion: Conclusion,
    ) -> Result<AttemptEnd, ApiError> {
        let name = text(job, "/metadata/name");
        let pods = if observe::needs_pods(&memory.plan, at, &conclusion) {
            let labels = format!("batch.kubernetes.io/job-name={name}");
            api::list(&self.api, Kind::Pod, &memory.owner.namespace, &labels).await?
        } else {
            Vec::new()
        };
        let step = memory.plan.step(at.step);
        let report = match observe::handed_in(job, &pods) {
            Some((map, content)) => self.report(&memory.owner.namespace, &map, &content).await?,
            None => None,
        };
        Ok(observe::end(step, job, &AttemptPods { pods, report }, conclusion, self.now()))
    }

    /// A report that did not fit into a termination message; none when it is not there, or another one.
    async fn report(&self, namespace: &str, map: &str, content: &Content) -> Result<Option<String>, ApiError> {
        let found = match self.api.send(&Request::get(Kind::ConfigMap, namespace, map)).await {
            Err(error) if error.code == Some(404) => return Ok(None),
            found => found?,
        };
        let encoded = found.get("binaryData").and_then(|data| data.get(REPORT)).and_then(Value::as_str);
        let bytes = encoded.and_then(|encoded| STANDARD.decode(encoded).ok());
        let bytes = bytes.filter(|bytes| sha256_hex(bytes, 64) == content.sha256);
        Ok(bytes.and_then(|bytes| String::from_utf8(bytes).ok()))
    }

    /// A Job that runs for a step which is skipped: its creation was taken for failed when the flow was halted.
    async fn end_stray(&self, memory: &Memory, (at, number): AttemptKey, job: &Value) -> Result<(), ApiError> {
        let status = step_status(&memory.plan, &memory.state, at);
        if status.phase != StepPhase::Skipped || status.attempt != number {
            return Ok(());
        }
        let (name, uid) = (text(job, "/metadata/name"), text(job, "/metadata/uid"));
        tracing::warn!(flow = %memory.owner.name, job = name, "a Job of a skipped step is ended");
        let request = Request::delete(Kind::Job, &memory.owner.namespace, &name, Some(uid)).after_its_children();
        match self.api.send(&request).await {
            Err(error) if error.code != Some(404) && error.code != Some(409) => Err(error),
            _ => Ok(()),
        }
    }
}

/// The end of an attempt of which nothing is left.
pub(super) fn gone(now: Time) -> AttemptEnd {
    AttemptEnd {
        result: EndResult::Gone,
        document: Value::Null,
        failed_pods: Vec::new(),
        files: Vec::new(),
        artifacts: Vec::new(),
        ended_at: now,
    }
}

impl Memory {
    /// The accepted attempt that a Job of this name runs.
    fn live_unit(&self, job: &str) -> Option<AttemptKey> {
        self.state.live().find(|(at, _)| {
            step_status(&self.plan, &self.state, *at).job_ref.is_some_and(|reference| reference.name == job)
        })
    }

    /// Tells the engine how an attempt ended.
    pub(super) fn apply_end(&mut self, (at, number): AttemptKey, end: AttemptEnd, now: Time) {
        let cancelling = self.is_cancelling(at, number);
        let event: FlowEvent = attempt::event(&self.plan, at, number, end, cancelling);
        self.apply_event(&event, now);
    }

    /// Tells people of artifacts that are too large for their store.
    fn tell_unstored(&mut self, (at, attempt): AttemptKey, end: &AttemptEnd, now: Time) {
        for artifact in end.artifacts.iter().filter(|artifact| artifact.location.is_none()) {
            let message = format!(
                "artifact `{}` is larger than the {SMALL_MAX} bytes that a ConfigMap keeps and is not stored; use an \
                 artifactStore",
                artifact.name
            );
            let reason = "ArtifactTooLarge".to_owned();
            let notice = FlowNotice { warning: true, reason, message, at: Some(at), attempt };
            let key = format!("{}/{}", FlowEffect::RecordEvent(notice.clone()).key(), artifact.name);
            self.notices.add(notice, key, now);
        }
    }

    pub(super) fn is_cancelling(&self, at: Address, number: u32) -> bool {
        self.state.attempt(at) == Some((StepState::Cancelling, number))
    }
}
