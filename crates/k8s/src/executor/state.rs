//! Where an executor is in its lifecycle, and what is wrong with it. Owns that reading of what is observed; the
//! table of steps is in `orlop_core::machine::executor`.

use std::time::Duration;

use orlop_core::machine::executor::{ExecutorPhase as Phase, ExecutorState as State};
use orlop_core::time::Time;
use serde_json::Value;

use super::observe::refusal;
use super::plan::Facts;
use super::render::TEMPLATE_HASH;
use super::status::REASONS;
use crate::api::Kind;
use crate::hourglass::children::is_terminating;
use crate::hourglass::condition::{of, since};
use crate::hourglass::drift::covers;
use crate::hourglass::plan::CONFLICT;
use crate::value::{item, texts, word};

/// How long no pod may be ready before that is a failure.
const NONE_READY: Duration = Duration::from_secs(60);

/// The lifecycle state of an executor as it follows from the observation, its problem, and when it changes by itself.
pub(super) struct Observed {
    pub(super) state: State,
    pub(super) problem: Option<(&'static str, String)>,
    pub(super) due: Option<Time>,
}

/// How the Deployment stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) wanted: i64,
    pub(super) all: i64,
    pub(super) ready: i64,
    pub(super) updated: i64,
    /// Whether they are of the spec as it is.
    observed: bool,
}

/// How the Deployment stands.
pub(super) fn counts(facts: &Facts<'_>) -> Counts {
    let wanted = facts.obs.spec.as_ref().map_or(0, |spec| i64::from(spec.replicas));
    let Some(live) = facts.deployment() else { return Counts { wanted, ..Counts::default() } };
    let number = |path: &str| live.pointer(path).and_then(Value::as_i64).unwrap_or_default();
    Counts {
        wanted,
        all: number("/status/replicas"),
        ready: number("/status/readyReplicas"),
        updated: number("/status/updatedReplicas"),
        observed: number("/status/observedGeneration") >= number("/metadata/generation").max(1),
    }
}

/// How the Deployment differs from what it is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DeploymentDiff {
    No,
    /// In the number of pods alone.
    Replicas,
    /// In what pods are.
    Template,
}

fn deployment_differs(facts: &Facts<'_>) -> DeploymentDiff {
    let (Some(live), Ok(wanted)) = (facts.deployment(), &facts.wanted) else { return DeploymentDiff::Template };
    if !facts.obs.last_applied.is_changed(live, &wanted.deployment) {
        return DeploymentDiff::No;
    }
    let hash = |object: &Value| texts(object, "/metadata/annotations").remove(TEMPLATE_HASH);
    let pods = |object: &Value| object.pointer("/spec/template").cloned().unwrap_or_default();
    let same = hash(live) == hash(&wanted.deployment) && covers(&pods(live), &pods(&wanted.deployment));
    if same { DeploymentDiff::Replicas } else { DeploymentDiff::Template }
}

/// Whether every pod is of the newest template and ready, and there is no other.
pub(super) fn is_complete(facts: &Facts<'_>) -> bool {
    let counts = counts(facts);
    counts.observed
        && deployment_differs(facts) == DeploymentDiff::No
        && facts.left_changed().is_none()
        && [counts.all, counts.ready, counts.updated] == [counts.wanted; 3]
}

/// Whether nothing has been said of it yet and nothing is made: that it begins is written down first.
pub(super) fn is_new(facts: &Facts<'_>) -> bool {
    let phase = facts.obs.state().and_then(State::phase);
    // Nobody deletes it, whatever is said.
    !facts.configured && matches!(phase, None | Some(Phase::Pending | Phase::Terminating))
}

/// The state of an executor.
pub(super) fn observed_state(facts: &Facts<'_>) -> Observed {
    if let Err((reason, message)) = &facts.wanted {
        // No watch reports when the object of another owner goes.
        let due = (*reason == "Conflict").then(|| facts.now.plus(CONFLICT));
        return Observed { state: State::Failed, problem: Some((reason, message.clone())), due };
    }
    let before = facts.obs.state().and_then(State::phase);
    let state = match before {
        Some(Phase::Running | Phase::Updating | Phase::Scaling) => running_state(facts),
        _ => creating_state(facts),
    };
    let (problem, due) = problem(facts, state);
    let serious = problem.as_ref().is_some_and(|(reason, _)| is_failure(facts, state, reason));
    Observed { state: if serious { State::Failed } else { state }, problem, due }
}

/// Its children are made for the first time, or again after a failure.
fn creating_state(facts: &Facts<'_>) -> State {
    let counts = counts(facts);
    if !facts.configured {
        // Before the first write to a child it is known that it begins; once they are written they are to be seen.
        let begun = matches!(facts.obs.state(), Some(State::Creating | State::ConfigMapCreation));
        return if begun { State::ConfigMapCreation } else { State::Creating };
    }
    if facts.deployment().is_none() || deployment_differs(facts) != DeploymentDiff::No || !counts.observed {
        return State::DeploymentCreation;
    }
    if is_complete(facts) {
        return State::Running;
    }
    let live = facts.obs.pods.iter().filter(|pod| !is_terminating(pod));
    let bound = live.filter(|pod| !word(pod, "/spec/nodeName").is_empty()).count();
    let all = usize::try_from(counts.wanted).unwrap_or_default();
    if bound < all { State::PodScheduling } else { State::PodCreation }
}

/// It has served before.
fn running_state(facts: &Facts<'_>) -> State {
    let before = facts.obs.state().unwrap_or_default();
    let phase = before.phase();
    if facts.deployment().is_none() {
        // It is lost: the way back leads through a failure.
        return if facts.configured { State::DeploymentCreation } else { State::Creating };
    }
    let template = deployment_differs(facts);
    let left = facts.left_changed().is_some_and(|child| child.kind != Kind::Deployment);
    if !facts.configured || left || template == DeploymentDiff::Template {
        let applied = facts.configured && phase == Some(Phase::Updating);
        return if applied { State::ConfigMapUpdate } else { State::Updating };
    }
    match phase {
        _ if is_complete(facts) => State::Running,
        Some(Phase::Updating) => State::RollingUpdate,
        Some(Phase::Scaling) => State::Scaling,
        _ if template == DeploymentDiff::Replicas => State::Scaling,
        _ => State::Running,
    }
}

/// What is wrong, and when more will be.
fn problem(facts: &Facts<'_>, state: State) -> (Option<(&'static str, String)>, Option<Time>) {
    let counts = counts(facts);
    if let Some(failure) = &facts.obs.last_failure {
        return (Some((failure.reason, failure.message.clone())), None);
    }
    if let Some(pending_retry) = facts.pending_retry
        && let Some(reason) = REASONS.iter().find(|known| **known == pending_retry.reason)
    {
        let stored = of(&facts.obs.status.conditions, "Degraded").filter(|known| known.reason == pending_retry.reason);
        let message = stored.map_or_else(|| "retrying".to_owned(), |known| known.message.clone());
        return (Some((reason, message)), pending_retry.next_retry_time);
    }
    let condition = |kind: &str| facts.deployment().and_then(|live| item(live, "/status/conditions", "type", kind));
    if let Some(why) = facts.deployment().and_then(refusal) {
        let why = if why.is_empty() { "; see its conditions".to_owned() } else { format!(": {why}") };
        let message = format!("the Deployment cannot make its pods{why}");
        return (Some(("ReplicaFailure", message)), None);
    }
    if state != State::Running
        && counts.observed
        && condition("Progressing").is_some_and(|known| word(known, "/reason") == "ProgressDeadlineExceeded")
    {
        let message = "the new pods have made no progress for too long; the old ones are serving".to_owned();
        return (Some(("ProgressDeadlineExceeded", message)), None);
    }
    let was_failed = facts.obs.state() == Some(State::Failed)
        && of(&facts.obs.status.conditions, "Degraded").is_some_and(|known| known.reason == "ReplicasUnavailable");
    if (state == State::Running || was_failed) && counts.ready < counts.wanted {
        let due = since(&facts.obs.status.conditions, "Available", "False", facts.now).plus(NONE_READY);
        let due = Some(due).filter(|at| counts.ready == 0 && *at > facts.now);
        let message = format!("{} of {} pods are ready", counts.ready, counts.wanted);
        return (Some(("ReplicasUnavailable", message)), due);
    }
    (None, None)
}

/// Whether what is wrong is a failure, or something a running executor lives with.
fn is_failure(facts: &Facts<'_>, state: State, reason: &str) -> bool {
    let counts = counts(facts);
    match reason {
        "ReplicasUnavailable" => {
            let long =
                since(&facts.obs.status.conditions, "Available", "False", facts.now).plus(NONE_READY) <= facts.now;
            counts.ready == 0 && long
        }
        "ReplicaFailure" | "Forbidden" | "QuotaExceeded" | "AdmissionRefused" | "RetriesExhausted" => {
            state != State::Running || counts.ready == 0
        }
        _ => true,
    }
}
