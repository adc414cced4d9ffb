//! What is ordered about a flow: decisions, suspension, its end, its deletion. Owns the patches; what they
//! do is the controller's.

use orlop_core::error::{Class, Problem};
use orlop_core::machine::step::StepPhase;
use orlop_core::name::short63;
use orlop_core::spec::flow::{GROUP, JobFlow, StopMode, SuspendMode};
use orlop_core::spec::status::Decision;
use orlop_dag::approval::manual_step;
use orlop_dag::engine::left_of;
use serde_json::{Map, Value, json};

use super::{FlowClient, TRIES, ended, is_missing, is_moving, text};
use crate::api::{Api, Kind, Request};

/// A decision about a Manual step.
#[derive(Clone, Debug)]
pub struct ApprovalDecision<'a> {
    /// Name of the step.
    pub step: &'a str,
    /// What was decided.
    pub decision: Decision,
    /// Who decided. With the admission webhook, the authenticated user of the request takes its place.
    pub by: Option<&'a str>,
    /// Why.
    pub reason: Option<&'a str>,
}

impl<A: Api> FlowClient<A> {
    /// Decides about a Manual step, also before it is reached. The first decision is final: the same one again does nothing.
    ///
    /// # Errors
    /// When there is no such flow or Manual step, the flow or the step has ended, another decision was taken, or the server
    /// refuses.
    pub async fn decide(&self, name: &str, decided: &ApprovalDecision<'_>) -> Result<(), Problem> {
        let mut last = None;
        for _ in 0..TRIES {
            let object = self.object(name).await?;
            let flow = match self.read(&object).await {
                Err(error) if is_moving(&error) => {
                    last = Some(error);
                    continue;
                }
                flow => flow?,
            };
            let Some(annotations) = decision(&flow, decided)? else { return Ok(()) };
            let version = text(&object, "/metadata/resourceVersion");
            let patch = json!({"metadata": {"resourceVersion": version, "annotations": annotations}});
            let request = Request::patch(Kind::JobFlow, &self.namespace, name, patch);
            match self.send(&request, || format!("deciding about step `{}` of flow `{name}`", decided.step)).await {
                Ok(_) => return Ok(()),
                Err(error) if error.class == Class::Conflict => last = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(last.unwrap_or_else(|| self.missing(name)))
    }

    /// Confirms that nothing of a cancelled attempt runs any more whose cancellation is blocked.
    ///
    /// # Errors
    /// When there is no such flow or step, its cancellation is not blocked, or the server refuses.
    pub async fn confirm_gone(&self, name: &str, step: &str, by: &str, reason: Option<&str>) -> Result<(), Problem> {
        let object = self.object(name).await?;
        let flow = self.read(&object).await?;
        let steps = flow.status.as_ref().map(|status| status.steps.as_slice()).unwrap_or_default();
        let Some(record) = steps.iter().find(|known| known.name == step) else {
            let message = format!("flow `{name}` has no step or instance `{step}`");
            return Err(Problem::new(Class::NotFound, message));
        };
        if left_of(record).is_none() {
            return Err(Problem::new(
                Class::Conflict,
                format!(
                    "the cancellation of step `{step}` of flow `{name}` is not blocked: it is {}, and the cluster reports when its \
                 attempt is gone",
                    record.phase
                ),
            ));
        }
        let short = short63(step);
        let mut note = Map::from_iter([("by".to_owned(), json!(by))]);
        note.extend(reason.map(|reason| ("reason".to_owned(), json!(reason))));
        let annotations = Map::from_iter([
            (format!("gone.{GROUP}/{short}"), json!(record.attempt.to_string())),
            (format!("gone-by.{GROUP}/{short}"), json!(Value::from(note).to_string())),
        ]);
        let version = text(&object, "/metadata/resourceVersion");
        let patch = json!({"metadata": {"resourceVersion": version, "annotations": annotations}});
        let request = Request::patch(Kind::JobFlow, &self.namespace, name, patch);
        self.send(&request, || format!("confirming that step `{step}` of flow `{name}` is gone")).await.map(drop)
    }

    /// Suspends a flow; without a mode live attempts do what the flow itself says.
    ///
    /// # Errors
    /// When there is no such flow, it has ended, or the server refuses.
    pub async fn suspend(&self, name: &str, mode: Option<SuspendMode>) -> Result<(), Problem> {
        let mut spec = json!({"suspend": true});
        if let Some(mode) = mode {
            spec["suspendMode"] = json!(mode);
        }
        self.order(name, spec, "suspending").await
    }

    /// Resumes a suspended flow.
    ///
    /// # Errors
    /// As of [`FlowClient::suspend`].
    pub async fn resume(&self, name: &str) -> Result<(), Problem> {
        self.order(name, json!({"suspend": false}), "resuming").await
    }

    /// Ends a flow. One that is being terminated is not asked to end gracefully any more.
    ///
    /// # Errors
    /// As of [`FlowClient::suspend`].
    pub async fn stop(&self, name: &str, mode: StopMode) -> Result<(), Problem> {
        let object = self.changeable(name).await?;
        if mode == StopMode::Graceful && text(&object, "/spec/stop") == "Terminate" {
            return Ok(());
        }
        self.patch_spec(name, json!({"stop": mode}), "stopping").await
    }

    /// Deletes a flow, and no other that may have its name by now.
    ///
    /// # Errors
    /// When there is no such flow, or the server refuses.
    pub async fn delete(&self, flow: &JobFlow) -> Result<(), Problem> {
        let name = &flow.metadata.name;
        let namespace = flow.metadata.namespace.as_deref().unwrap_or(&self.namespace);
        let request = Request::delete(Kind::JobFlow, namespace, name, flow.metadata.uid.clone());
        match self.send(&request, || format!("deleting flow `{name}`")).await {
            Err(error) if is_missing(&error) => Err(self.missing(name)),
            answer => answer.map(drop),
        }
    }

    async fn order(&self, name: &str, spec: Value, doing: &str) -> Result<(), Problem> {
        self.changeable(name).await?;
        self.patch_spec(name, spec, doing).await
    }

    /// A flow that has not ended. It may end before the patch arrives: then this changes nothing, as it should.
    async fn changeable(&self, name: &str) -> Result<Value, Problem> {
        let object = self.object(name).await?;
        match text(&object, "/status/phase") {
            phase @ ("Succeeded" | "Failed") => Err(ended(name, phase)),
            _ => Ok(object),
        }
    }

    async fn patch_spec(&self, name: &str, spec: Value, doing: &str) -> Result<(), Problem> {
        let request = Request::patch(Kind::JobFlow, &self.namespace, name, json!({ "spec": spec }));
        self.send(&request, || format!("{doing} flow `{name}`")).await.map(drop)
    }
}

/// The annotations of a decision; none where the same one was taken already.
fn decision(flow: &JobFlow, decided: &ApprovalDecision<'_>) -> Result<Option<Map<String, Value>>, Problem> {
    let (name, step) = (&flow.metadata.name, decided.step);
    manual_step(&flow.spec, name, step)?;
    let (short, word) = (short63(step), if decided.decision == Decision::Approved { "true" } else { "rejected" });
    let key = format!("approved.{GROUP}/{short}");
    match flow.metadata.annotations.get(&key).map(String::as_str) {
        Some(known) if known == word => return Ok(None),
        Some("true" | "rejected") => {
            return Err(Problem::new(
                Class::Conflict,
                format!("there is already a decision about step `{step}` of flow `{name}`"),
            ));
        }
        _ => {}
    }
    let status = flow.status.as_ref();
    if let Some(status) = status.filter(|status| status.phase.is_terminal()) {
        return Err(ended(name, &status.phase.to_string()));
    }
    let phase = status.and_then(|status| status.steps.iter().find(|known| known.name == step)).map(|step| step.phase);
    if let Some(phase @ (StepPhase::Succeeded | StepPhase::Failed | StepPhase::Skipped)) = phase {
        return Err(Problem::new(Class::Conflict, format!("step `{step}` of flow `{name}` has ended: it is {phase}")));
    }
    let mut annotations = Map::new();
    annotations.insert(key, json!(word));
    let members = [("by", decided.by), ("reason", decided.reason)];
    let note: Map<String, Value> =
        members.into_iter().filter_map(|(member, text)| Some((member.to_owned(), json!(text?)))).collect();
    if !note.is_empty() {
        annotations.insert(format!("approval.{GROUP}/{short}"), json!(Value::from(note).to_string()));
    }
    Ok(Some(annotations))
}
