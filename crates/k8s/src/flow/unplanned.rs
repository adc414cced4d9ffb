//! Flows that have no plan: those that were refused, and those whose spec was changed or is not understood. Writes their status,
//! records events about them, and ends them where they are stopped or replaced.

use std::collections::BTreeSet;
use std::time::Duration;

use orlop_core::effect::{FlowEffect, FlowNotice};
use orlop_core::error::Class;
use orlop_core::machine::step::StepPhase;
use orlop_core::ports::substrate::FlowOwner;
use orlop_core::spec::status::{ConditionStatus, FlowStatus, StepStatus, cut_message};
use orlop_dag::engine::terminated;
use serde_json::Value;

use super::memory::same;
use super::store::{WriteOutcome, status_request};
use super::{Controller, ControllerEvent, Key, Next, concurrency, text};
use crate::api::{Api, ApiError, Kind, Request};
use crate::{convert, observe, render};

/// Between two looks at what is left of a flow that is to end.
const STILL_LIVE: Duration = Duration::from_secs(5);

impl<A: Api> Controller<A> {
    /// Writes what a flow without a plan has come to.
    pub(super) async fn without_plan(&self, key: &Key, object: &Value, status: &FlowStatus) -> Next {
        let mut next = Next::default();
        let (mut ended, uid) = (None, concurrency::uid(object));
        if let Some(replaced) = self.is_to_end(object, status) {
            match self.end_jobs(key, object, status).await {
                Ok(false) => ended = Some(terminated(status.clone(), replaced, self.now())),
                Ok(true) => next.again_at = Some(self.now().plus(STILL_LIVE)),
                Err(error) => {
                    let again_at = Some(self.record_failure(key, "ending what is left of the flow", &error));
                    return Next { again_at, failed: true, ..Next::default() };
                }
            }
        }
        let mut status = ended.unwrap_or_else(|| status.clone());
        self.name_ended_jobs(&uid, &mut status);
        match self.write_unplanned(key, object, &status).await {
            // A held flow waits for its spec to be restored, one that is over for its time to live.
            Ok(WriteOutcome::Stored) if status.phase.is_terminal() => next.again_at = Some(self.now()),
            Ok(WriteOutcome::Outdated) => next.again_at = Some(self.now()),
            Ok(_) => {}
            Err(error) => {
                next.again_at = Some(self.record_failure(key, "writing the status", &error));
                next.failed = true;
            }
        }
        next
    }

    /// Whether a flow that goes on without a plan is to end, and whether for another that takes its place. One that is to end
    /// as soon as what runs has ended starts nothing more by itself.
    fn is_to_end(&self, object: &Value, status: &FlowStatus) -> Option<bool> {
        if status.phase.is_terminal() {
            return None;
        }
        let (uid, known) = (concurrency::uid(object), self.known());
        let replaced = known.orders.get(&uid).is_some_and(|orders| !orders.is_empty());
        let stop = text(object, "/spec/stop");
        let idle = known.cache.jobs(&uid).iter().all(|job| observe::conclusion(job).is_some());
        (replaced || stop == "Terminate" || !stop.is_empty() && idle).then_some(replaced)
    }

    /// Names the steps whose Jobs have ended since: nobody but a plan says what follows from that.
    fn name_ended_jobs(&self, uid: &str, status: &mut FlowStatus) {
        if status.phase.is_terminal() {
            return;
        }
        let known = self.known();
        let ended = |step: &&StepStatus| {
            let job = step.job_ref.as_ref().and_then(|job| known.cache.job(uid, &job.name));
            step.phase == StepPhase::Running && job.is_some_and(|job| observe::conclusion(&job).is_some())
        };
        let names: Vec<&str> = status.steps.iter().filter(ended).map(|step| step.name.as_str()).collect();
        if !names.is_empty() {
            let message = format!("{}; Jobs of these steps have ended meanwhile: {}", status.message, names.join(", "));
            status.message = cut_message(&message);
        }
    }

    /// Deletes the Jobs that run: those the status names, and those that were seen. Gives whether something still runs.
    async fn end_jobs(&self, key: &Key, object: &Value, status: &FlowStatus) -> Result<bool, ApiError> {
        let running = status.steps.iter().filter(|step| step.phase == StepPhase::Running);
        let named = running.filter_map(|step| step.job_ref.as_ref()).map(|job| (job.name.clone(), job.uid.clone()));
        let seen = self.known().cache.jobs(&concurrency::uid(object));
        let live = seen.iter().filter(|job| observe::conclusion(job).is_none());
        let live = live.map(|job| (text(job, "/metadata/name"), text(job, "/metadata/uid")));
        let jobs: BTreeSet<(String, String)> = named.chain(live).filter(|(_, uid)| !uid.is_empty()).collect();
        for (name, uid) in jobs {
            let request = Request::delete(Kind::Job, &key.namespace, &name, Some(uid)).after_its_children();
            match self.api.send(&request).await {
                Err(error) if !matches!(error.code, Some(404 | 409)) => return Err(error),
                _ => {}
            }
        }
        self.is_live(key, &concurrency::uid(object)).await
    }

    async fn write_unplanned(&self, key: &Key, object: &Value, status: &FlowStatus) -> Result<WriteOutcome, ApiError> {
        let value = serde_json::to_value(status).unwrap_or_default();
        let stored = object.get("status").cloned().unwrap_or(Value::Null);
        if same(&value, &stored) {
            return Ok(WriteOutcome::Stored);
        }
        let request = status_request(key, &text(object, "/metadata/resourceVersion"), &stored, &value);
        match self.api.send(&request).await {
            Ok(written) => {
                self.flow_applied(&written);
                self.publish_unplanned(key, object, status);
                Ok(WriteOutcome::Stored)
            }
            Err(error) if error.code == Some(404) => Ok(WriteOutcome::Gone),
            Err(error) if error.class() == Class::Conflict => Ok(WriteOutcome::Outdated),
            Err(error) => Err(error),
        }
    }

    /// Reports a status that was stored in the place of that of an object.
    fn publish_unplanned(&self, key: &Key, object: &Value, status: &FlowStatus) {
        let before = convert::status(object).ok().flatten().unwrap_or_default();
        self.monitor.record(ControllerEvent::Opened { flow: key, status: &before });
        self.monitor.record(ControllerEvent::StatusChanged { flow: key, status });
        let owner =
            FlowOwner { uid: concurrency::uid(object), name: key.name.clone(), namespace: key.namespace.clone() };
        notices(&before, status).iter().for_each(|notice| self.emit_event(&owner, notice));
    }

    /// Records an event about a flow that its engine does not record.
    pub(super) fn emit_event(&self, owner: &FlowOwner, notice: &FlowNotice) {
        let key = FlowEffect::RecordEvent(notice.clone()).key();
        let event = render::PendingEvent { notice: notice.clone(), key, count: 1 };
        self.post(render::event(owner, &event, None, self.now(), &self.options.instance));
    }
}

/// What is new in a status that nobody else tells.
fn notices(before: &FlowStatus, status: &FlowStatus) -> Vec<FlowNotice> {
    let of = |status: &FlowStatus, kind: &str| {
        let mut all = status.conditions.iter();
        let held = all.find(|known| known.kind == kind && known.status == ConditionStatus::True);
        held.map(|known| (known.reason.clone(), known.message.clone()))
    };
    let notice = |warning, reason: &str, message: String| FlowNotice {
        warning,
        reason: reason.to_owned(),
        message,
        at: None,
        attempt: 0,
    };
    match of(status, "Failed") {
        Some((cause, message)) if matches!(cause.as_str(), "ValidationFailed" | "DAGCycle") => vec![
            notice(true, "ValidationFailed", message.clone()),
            notice(true, "JobFlowFailed", format!("{cause}: {message}")),
        ],
        Some((cause, message)) => vec![
            notice(false, "FlowStopped", format!("the flow was asked to stop: {cause}")),
            notice(true, "JobFlowFailed", message),
        ],
        None => {
            let changed = "the spec was changed after the start; restore it to go on".to_owned();
            let new = |kind: &str| of(status, kind).filter(|_| of(before, kind).is_none());
            let changed = new("SpecChanged").map(|_| notice(true, "SpecChanged", changed));
            let unknown = new("NotUnderstood").map(|(_, message)| notice(true, "NotUnderstood", message));
            changed.into_iter().chain(unknown).collect()
        }
    }
}
