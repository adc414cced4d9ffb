//! What is written about an executor, and the plan as a whole. Owns the fields that follow from what is
//! observed, and the conditions.

use orlop_core::machine::Named;
use orlop_core::machine::executor::{ExecutorPhase as Phase, ExecutorState as State, MACHINE};
use orlop_core::time::Time;

use super::observe::Names;
use super::plan::Facts;
use super::render::selector;
use super::state::{Counts, Observed, counts};
use crate::hourglass::children::lifecycle_path;
use crate::hourglass::condition::{NewCondition, conditions, contended, degraded, new_problem, ready};
use crate::hourglass::drift::difference;
use crate::hourglass::last_applied::Child;
use crate::hourglass::plan::{Effect, Notice, Plan, Requeue, Step};
use crate::hourglass::reference::forbidden;
use crate::hourglass::spec::ExecutorStatus;
use crate::value::word;

/// The plan: children first, then events, then the status.
pub(super) fn finish(facts: &Facts<'_>, observed: &Observed, actions: Vec<Effect>) -> Plan {
    let status = complete(facts, observed);
    // Which version the pods are for is written down before they are rolled.
    let follows = status.reference_generation != facts.obs.status.reference_generation;
    let mut effects = if follows { Vec::new() } else { unblocked_effects(facts, actions) };
    let write = Effect::write_status(&facts.obs.stored, &status);
    let mut path = Some(Vec::new());
    if let Some(write) = write {
        effects.extend(notices(facts, &status).into_iter().map(Effect::RecordEvent));
        effects.push(write);
        path = if is_renewed(facts, &status) {
            Some(vec![Step { from: Some(State::Updating.as_str()), to: State::Updating.as_str() }])
        } else {
            lifecycle_path(&MACHINE, facts.obs.state(), status.state)
        };
    }
    let repairs = facts.children().into_iter().filter_map(|child| facts.obs.last_applied.due(child.live, child.wanted));
    let due = observed.due.into_iter().chain(repairs).filter(|at| *at > facts.now).min();
    Plan { effects, requeue: Requeue::Resync.or_at(due), ..Plan::default() }.with_path(path)
}

/// Whether it updates to something newer while it has just begun to update.
fn is_renewed(facts: &Facts<'_>, status: &ExecutorStatus) -> bool {
    let before = &facts.obs.status;
    [before.state, status.state] == [Some(State::Updating); 2]
        && before.observed_generation != status.observed_generation
}

/// What may be done while something is wrong: up to what could not be done, which is tried again in its time.
fn unblocked_effects(facts: &Facts<'_>, actions: Vec<Effect>) -> Vec<Effect> {
    let Some(at) = facts.obs.last_failure.as_ref().and_then(|failure| failure.at.as_ref()) else { return actions };
    actions.into_iter().take_while(|effect| effect.child().as_ref() != Some(at)).collect()
}

fn complete(facts: &Facts<'_>, observed: &Observed) -> ExecutorStatus {
    let mut status = facts.obs.status.clone();
    let meta = &facts.obs.meta;
    let counts = counts(facts);
    let number = |count: i64| i32::try_from(count).unwrap_or(i32::MAX);
    status.state = Some(observed.state);
    status.phase = observed.state.phase();
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
    if facts.pending_retry.is_none() {
        let before = facts.obs.status.retry.as_ref();
        status.retry = facts.obs.last_failure.as_ref().and_then(|failure| failure.retry(before));
    }
    let (available, progressing, degraded) =
        (available(counts), progressing(facts, observed), degraded(observed.problem.as_ref()));
    let children = facts.children();
    let contended = facts.obs.last_applied.contended(&children, &facts.obs.status.conditions, facts.now);
    let said = vec![ready(&available, &progressing, &degraded), available, progressing, degraded, contended];
    status.conditions = conditions(&facts.obs.status.conditions, said, meta.generation, facts.now);
    status
}

fn available(counts: Counts) -> NewCondition {
    if counts.ready > 0 {
        NewCondition::yes("Available", "DeploymentAvailable", "pods are ready")
    } else {
        NewCondition::no("Available", "ReplicasUnavailable", "no pod is ready")
    }
}

fn progressing(facts: &Facts<'_>, observed: &Observed) -> NewCondition {
    const KIND: &str = "Progressing";
    let waits = observed.problem.as_ref().is_some_and(|(reason, _)| matches!(*reason, "InvalidSpec" | "Conflict"));
    match observed.state.phase() {
        Some(Phase::Running) => NewCondition::no(KIND, "UpToDate", "the current spec is running"),
        Some(Phase::Failed) if waits => NewCondition::no(KIND, "WaitingForChange", "waiting for a change of the spec"),
        Some(Phase::Failed) => NewCondition::no(KIND, "BackOff", "retrying"),
        _ => NewCondition::yes(KIND, observed.state.as_str(), under_way(facts)),
    }
}

/// What is going on.
fn under_way(facts: &Facts<'_>) -> String {
    let paused = facts.deployment().filter(|live| live.pointer("/spec/paused").is_some_and(|paused| paused == true));
    if let Some(name) = paused.map(|live| word(live, "/metadata/name")) {
        return format!("Deployment `{name}` is paused; resume it: kubectl rollout resume deployment {name}");
    }
    let Some(Child { kind, live, wanted }) = facts.left_changed() else {
        return "the objects are being created".to_owned();
    };
    let field = difference(live, wanted).map(|field| format!(" ({field})")).unwrap_or_default();
    let name = word(live, "/metadata/name");
    format!("{} `{name}` differs from the desired state{field}; it is restored at most once a minute", kind.name())
}

fn notices(facts: &Facts<'_>, status: &ExecutorStatus) -> Vec<Notice> {
    let before = &facts.obs.status;
    let generation = facts.obs.meta.generation;
    let mut notices = Vec::new();
    if before.config_hash != status.config_hash {
        let hash = status.config_hash.clone().unwrap_or_default();
        let reason = if before.config_hash.is_some() { "ConfigUpdated" } else { "Created" };
        notices.push(Notice::normal(reason, "the configuration is in place", hash));
    }
    if before.phase != status.phase {
        match status.phase {
            Some(Phase::Running) if before.phase == Some(Phase::Scaling) => {
                notices.push(Notice::normal("Scaled", format!("{} pods are ready", status.ready_replicas), generation));
            }
            Some(Phase::Running) => notices.push(Notice::normal("Ready", "all pods are ready", generation)),
            _ => {}
        }
    }
    notices.extend(contended(&before.conditions, &status.conditions, generation));
    notices.extend(new_problem(&before.conditions, &status.conditions, &REASONS, generation.to_string()));
    notices.extend(forbidden(&before.references, &status.references, generation));
    notices
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
pub(super) fn terminating_status(facts: &super::observe::Observation, state: State, now: Time) -> ExecutorStatus {
    let mut status = facts.status.clone();
    status.state = Some(state);
    status.phase = state.phase();
    status.observed_generation = Some(facts.meta.generation);
    status.service_name = status.service_name.filter(|_| facts.service.is_some());
    let said = vec![
        NewCondition::no("Ready", "Terminating", "the executor is being deleted"),
        NewCondition::no("Available", "ReplicasUnavailable", "the executor is being deleted"),
        NewCondition::yes("Progressing", state.as_str(), "the executor is being deleted"),
        NewCondition::no("Degraded", "AsExpected", "no problem found"),
        NewCondition::no("Contended", "AsExpected", "no other client changes the applied objects"),
    ];
    status.conditions = conditions(&facts.status.conditions, said, facts.meta.generation, now);
    status
}
