//! Flows that have no plan: those that were refused, and those whose spec is another than that they began with or is not
//! understood. Owns what is
//! written of them, what people and metrics hear of it, and that such a flow ends where people tell it to.

use std::collections::BTreeSet;

use orlop_core::effect::{FlowEffect, FlowNotice};
use orlop_core::error::Class;
use orlop_core::machine::step::StepPhase;
use orlop_core::ports::substrate::FlowOwner;
use orlop_core::spec::status::{ConditionStatus, FlowStatus};
use orlop_core::time::Time;
use orlop_dag::attempt::patience;
use orlop_dag::engine::terminated;
use serde_json::Value;

use super::memory::same;
use super::store::{Wrote, status_request};
use super::{Controller, Key, Next, Note, gate, text};
use crate::api::{Api, ApiError, Kind, Request};
use crate::{convert, observe, render};

impl<A: Api> Controller<A> {
    /// Writes what a flow without a plan has come to.
    pub(super) async fn without_plan(&self, key: &Key, object: &Value, status: &FlowStatus) -> Next {
        let told_to_end = text(object, "/spec/stop") == "Terminate" && !status.phase.is_terminal();
        let ended = told_to_end.then(|| terminated(status.clone(), self.now()));
        if ended.is_some()
            && let Err(error) = self.end_jobs(key, object, status).await
        {
            tracing::warn!(flow = %key, %error, "Jobs of a flow that is to end cannot be deleted now");
            self.failed(error.class());
            let wait = patience(&error.port_error("deleting Jobs"), 1);
            return Next { again_at: Some(self.now().plus(wait)), failed: true, ..Next::default() };
        }
        let status = ended.as_ref().unwrap_or(status);
        let again_at = match self.write_bare(key, object, status).await {
            // A held flow waits for its spec to be restored, one that is over for its time to live.
            Wrote::Stored => status.phase.is_terminal().then(|| self.now()),
            Wrote::Later(at) => Some(at),
            Wrote::Outdated => Some(self.now()),
            Wrote::Gone => None,
        };
        Next { again_at, ..Next::default() }
    }

    /// Deletes the Jobs that run: those the status names, and those that were seen.
    async fn end_jobs(&self, key: &Key, object: &Value, status: &FlowStatus) -> Result<(), ApiError> {
        let running = status.steps.iter().filter(|step| step.phase == StepPhase::Running);
        let named = running.filter_map(|step| step.job_ref.as_ref()).map(|job| (job.name.clone(), job.uid.clone()));
        let seen = self.known().cache.jobs(&gate::uid(object));
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
        Ok(())
    }

    async fn write_bare(&self, key: &Key, object: &Value, status: &FlowStatus) -> Wrote {
        let value = serde_json::to_value(status).unwrap_or_default();
        let stored = object.get("status").cloned().unwrap_or(Value::Null);
        if same(&value, &stored) {
            return Wrote::Stored;
        }
        let request = status_request(key, &text(object, "/metadata/resourceVersion"), &stored, &value);
        match self.api.send(&request).await {
            Ok(written) => {
                self.flow_seen(&written);
                self.tell_bare(key, object, status);
                Wrote::Stored
            }
            Err(error) if error.code == Some(404) => Wrote::Gone,
            Err(error) if error.class() == Class::Conflict => Wrote::Outdated,
            Err(error) => Wrote::Later(self.now().plus(patience(&error.port_error("writing the status"), 2))),
        }
    }

    /// Tells people and metrics of a status that was stored in the place of that of an object.
    fn tell_bare(&self, key: &Key, object: &Value, status: &FlowStatus) {
        let before = convert::status(object).ok().flatten().unwrap_or_default();
        self.monitor.note(Note::Opened { flow: key, status: &before });
        self.monitor.note(Note::Shown { flow: key, status });
        let owner = FlowOwner { uid: gate::uid(object), name: key.name.clone(), namespace: key.namespace.clone() };
        let now: Time = self.now();
        for notice in notices(&before, status) {
            let key = FlowEffect::RecordEvent(notice.clone()).key();
            let event = render::event(&owner, (&notice, &key, 1), None, (now, &self.options.instance));
            self.post(event);
        }
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
            notice(false, "FlowStopped", format!("the flow was told to end: {cause}")),
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
