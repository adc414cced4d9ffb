//! What is written about an executor, and the plan as a whole. Owns the fields that follow from what is
//! observed, and the conditions.

use orlop_core::machine::Named;
use orlop_core::machine::executor::{ExecutorPhase as Phase, ExecutorState as State, MACHINE};
use orlop_core::time::Time;
use serde_json::Value;

use super::observe::Names;
use super::plan::Facts;
use super::render::selector;
use super::state::{Counts, Standing, counts};
use crate::hourglass::children::way;
use crate::hourglass::condition::{Said, conditions, contended, of, ready};
use crate::hourglass::plan::{Effect, Notice, ObjectKey, Plan, Requeue, Step};
use crate::hourglass::reference::forbidden;
use crate::hourglass::spec::ExecutorStatus;
use crate::value::text;

/// The plan: children first, then what people are told, then what has happened.
pub(super) fn finish(facts: &Facts<'_>, standing: &Standing, actions: Vec<Effect>) -> Plan {
    let status = complete(facts, standing);
    // Which version the pods are for is written down before they are rolled.
    let follows = status.reference_generation != facts.obs.status.reference_generation;
    let mut effects = if follows { Vec::new() } else { allowed(facts, actions) };
    let write = changed(&facts.obs.stored, &status);
    let mut path = Some(Vec::new());
    if let Some(write) = write {
        effects.extend(notices(facts, &status).into_iter().map(Effect::RecordEvent));
        effects.push(write);
        path = if is_renewed(facts, &status) {
            Some(vec![Step { from: Some(State::Updating.as_str()), to: State::Updating.as_str() }])
        } else {
            way(&MACHINE, facts.obs.state(), status.state)
        };
    }
    let repairs = facts.children().into_iter().filter_map(|child| facts.obs.admitted.due(child.live, child.wanted));
    let due = standing.due.into_iter().chain(repairs).filter(|at| *at > facts.now).min();
    Plan { effects, requeue: Requeue::Resync.or_at(due), ..Plan::default() }.along(path)
}

/// Whether it updates to something newer while it has just begun to update.
fn is_renewed(facts: &Facts<'_>, status: &ExecutorStatus) -> bool {
    let before = &facts.obs.status;
    [before.state, status.state] == [Some(State::Updating); 2]
        && before.observed_generation != status.observed_generation
}

/// The status to be written over a stored one; none where it is the same.
pub(super) fn changed(stored: &Value, status: &ExecutorStatus) -> Option<Effect> {
    let value = serde_json::to_value(status).unwrap_or_default();
    (value != *stored).then_some(Effect::WriteStatus(value))
}

/// What may be done while something is wrong: up to what could not be done, which is tried again in its time.
fn allowed(facts: &Facts<'_>, actions: Vec<Effect>) -> Vec<Effect> {
    let Some(at) = facts.obs.trouble.as_ref().and_then(|trouble| trouble.at.as_ref()) else { return actions };
    let same = |effect: &Effect| match effect {
        Effect::Create(kind, object) | Effect::Apply(kind, object) => {
            *at == ObjectKey { kind: *kind, name: text(object, "/metadata/name") }
        }
        Effect::Delete { key, .. } => key == at,
        _ => false,
    };
    actions.into_iter().take_while(|effect| !same(effect)).collect()
}

fn complete(facts: &Facts<'_>, standing: &Standing) -> ExecutorStatus {
    let mut status = facts.obs.status.clone();
    let meta = &facts.obs.meta;
    let counts = counts(facts);
    let number = |count: i64| i32::try_from(count).unwrap_or(i32::MAX);
    status.state = Some(standing.state);
    status.phase = standing.state.phase();
    status.observed_generation = Some(meta.generation);
    (status.replicas, status.ready_replicas) = (number(counts.all), number(counts.ready));
    status.updated_replicas = number(counts.updated);
    let labels: Vec<String> = selector(meta).into_iter().map(|(key, value)| format!("{key}={value}")).collect();
    status.selector = Some(labels.join(","));
    status.references.clone_from(&facts.references);
    status.reference_generation = facts.generation;
    let ours = facts.obs.service.as_ref().filter(|service| meta.owns(service));
    status.service_name = ours.map(|_| Names::of(&meta.name).service);
    if let Some(wanted) = facts.wanted.as_ref().ok().filter(|_| facts.configured)
        && status.config_hash.as_ref() != Some(&wanted.hash)
    {
        status.config_hash = Some(wanted.hash.clone());
        status.last_config_update = Some(facts.now.whole_seconds());
    }
    if facts.held.is_none() {
        let before = facts.obs.status.retry.as_ref();
        status.retry = facts.obs.trouble.as_ref().and_then(|trouble| trouble.retry(before));
    }
    let (available, progressing, degraded) = (available(counts), progressing(standing), degraded(standing));
    let children = facts.children();
    let contended = facts.obs.admitted.contended(&children, &facts.obs.status.conditions, facts.now);
    let said = vec![ready(&available, &progressing, &degraded), available, progressing, degraded, contended];
    status.conditions = conditions(&facts.obs.status.conditions, said, meta.generation, facts.now);
    status
}

fn available(counts: Counts) -> Said {
    if counts.ready > 0 {
        Said::yes("Available", "DeploymentAvailable", "pods are ready")
    } else {
        Said::no("Available", "ReplicasUnavailable", "no pod is ready")
    }
}

fn progressing(standing: &Standing) -> Said {
    const KIND: &str = "Progressing";
    let waits = standing.wrong.as_ref().is_some_and(|(reason, _)| matches!(*reason, "InvalidSpec" | "Conflict"));
    match standing.state.phase() {
        Some(Phase::Running) => Said::no(KIND, "UpToDate", "what is wanted runs"),
        Some(Phase::Failed) if waits => Said::no(KIND, "WaitingForChange", "nothing is done until the spec is another"),
        Some(Phase::Failed) => Said::no(KIND, "BackOff", "it is tried again"),
        _ => Said::yes(KIND, standing.state.as_str(), "what is wanted is being made"),
    }
}

fn degraded(standing: &Standing) -> Said {
    match &standing.wrong {
        Some((reason, message)) => Said::yes("Degraded", *reason, message),
        None => Said::no("Degraded", "AsExpected", "nothing is wrong"),
    }
}

fn notices(facts: &Facts<'_>, status: &ExecutorStatus) -> Vec<Notice> {
    let before = &facts.obs.status;
    let generation = facts.obs.meta.generation;
    let mut told = Vec::new();
    if before.config_hash != status.config_hash {
        let hash = status.config_hash.clone().unwrap_or_default();
        let reason = if before.config_hash.is_some() { "ConfigUpdated" } else { "Created" };
        told.push(Notice::normal(reason, "the configuration is in place", hash));
    }
    if before.phase != status.phase {
        match status.phase {
            Some(Phase::Running) if before.phase == Some(Phase::Scaling) => {
                told.push(Notice::normal("Scaled", format!("{} pods are ready", status.ready_replicas), generation));
            }
            Some(Phase::Running) => told.push(Notice::normal("Ready", "all pods are ready", generation)),
            _ => {}
        }
    }
    told.extend(contended(&before.conditions, &status.conditions, generation));
    let reason = |status: &ExecutorStatus| of(&status.conditions, "Degraded").map(|known| known.reason.clone());
    if let Some(degraded) = of(&status.conditions, "Degraded").filter(|known| known.status == "True")
        && reason(before) != reason(status)
        && let Some(known) = REASONS.iter().find(|known| **known == degraded.reason)
    {
        told.push(Notice::warning(known, degraded.message.clone(), generation));
    }
    told.extend(forbidden(&before.references, &status.references, generation));
    told
}

/// Reasons of `Degraded`, which are reasons of events too.
pub(super) const REASONS: [&str; 9] = [
    "InvalidSpec",
    "Conflict",
    "QuotaExceeded",
    "AdmissionRefused",
    "Forbidden",
    "RetriesExhausted",
    "ReplicaFailure",
    "ProgressDeadlineExceeded",
    "ReplicasUnavailable",
];

/// The status of an executor that goes.
pub(super) fn ending(facts: &super::observe::Observation, state: State, now: Time) -> ExecutorStatus {
    let mut status = facts.status.clone();
    status.state = Some(state);
    status.phase = state.phase();
    status.observed_generation = Some(facts.meta.generation);
    status.service_name = status.service_name.filter(|_| facts.service.is_some());
    let said = vec![
        Said::no("Ready", "Terminating", "the executor goes"),
        Said::no("Available", "ReplicasUnavailable", "the executor goes"),
        Said::yes("Progressing", state.as_str(), "the executor goes"),
        Said::no("Degraded", "AsExpected", "nothing is wrong"),
        Said::no("Contended", "AsExpected", "nobody else changes what is applied"),
    ];
    status.conditions = conditions(&facts.status.conditions, said, facts.meta.generation, now);
    status
}
