//! The end of a performer: the Service first, then the pods, then the finalizer. Owns that order; it goes on
//! wherever it was left.

use std::time::Duration;

use orlop_core::machine::performer::{MACHINE, PerformerState as State};
use orlop_core::time::Time;

use super::FINALIZER;
use super::observe::{Observation, number};
use crate::api::Kind;
use crate::hourglass::children::{delete, is_terminating, lifecycle_path};
use crate::hourglass::condition::{NewCondition, conditions, of};
use crate::hourglass::later;
use crate::hourglass::plan::{Effect, Notice, Plan, Requeue};
use crate::hourglass::pod::{Pod, PodState};
use crate::hourglass::spec::PerformerStatus;

/// How far the end has come.
struct Teardown<'a> {
    state: State,
    actions: Vec<Effect>,
    until: Option<Time>,
    /// Until when pods are kept for their connections.
    drained: Option<Time>,
    lost: Vec<&'a Pod<'a>>,
}

/// What is to be done about a performer that goes.
pub(super) fn plan(obs: &Observation, now: Time) -> Plan {
    if !obs.meta.finalizers.iter().any(|name| name == FINALIZER) {
        return Plan { requeue: Requeue::Never, ..Plan::default() };
    }
    let pods: Vec<Pod<'_>> =
        obs.pods.iter().filter(|pod| obs.meta.owns(pod)).map(|pod| Pod::of(pod, &obs.cluster, now)).collect();
    let teardown = teardown(obs, &pods, now);
    let status = status(obs, &teardown, now);
    let done = teardown.state == State::Gone;
    let mut effects = Vec::new();
    if obs.status.phase != status.phase {
        effects.push(Effect::RecordEvent(Notice::normal(
            "Deleting",
            "its Service is deleted first, then its pods",
            "end",
        )));
    }
    for pod in &teardown.lost {
        let message = format!("pod {} is not waited for: its node is lost", number(pod.object).unwrap_or_default());
        effects.push(Effect::RecordEvent(Notice::warning("PodLost", message, &pod.uid)));
    }
    // The last status is not worth a write: the object goes with it.
    effects.extend(Effect::write_status(&obs.stored, &status).filter(|_| !done));
    let path = lifecycle_path(&MACHINE, obs.status.state, Some(teardown.state));
    if effects.is_empty() && teardown.actions.is_empty() {
        // Events of lost pods come with the end, once.
        return Plan { effects, requeue: Requeue::Resync.or_at(teardown.until), ..Plan::default() };
    }
    effects.extend(teardown.actions);
    let requeue = if done { Requeue::Never } else { Requeue::Resync.or_at(teardown.until) };
    Plan { effects, requeue, ..Plan::default() }.with_path(path)
}

fn teardown<'a>(obs: &Observation, pods: &'a [Pod<'a>], now: Time) -> Teardown<'a> {
    let ours = obs.service.as_ref().filter(|service| obs.meta.owns(service));
    let mut teardown =
        Teardown { state: State::ServiceCleanup, actions: Vec::new(), until: None, drained: None, lost: Vec::new() };
    if let Some(service) = ours {
        // The first status says that nothing is ready any more, before the Service goes.
        let previous = obs.status.state.filter(|state| state.phase() == State::Terminating.phase());
        teardown.state = match previous {
            // It has come back, for example by a request that took its time: it goes, and nothing else begins anew.
            Some(State::PodCleanup) => State::PodCleanup,
            Some(_) => State::ServiceCleanup,
            None => State::Terminating,
        };
        if !is_terminating(service) {
            teardown.actions.push(delete(Kind::Service, service));
        }
        return teardown;
    }
    let left: Vec<&Pod<'_>> = pods.iter().filter(|pod| pod.state != PodState::Lost).collect();
    if left.is_empty() {
        teardown.state = State::Gone;
        teardown.lost = pods.iter().collect();
        teardown.actions.push(Effect::RemoveFinalizer);
        return teardown;
    }
    teardown.state = State::PodCleanup;
    teardown.until = pods.iter().filter_map(|pod| pod.next_check(&obs.cluster, now)).min();
    let seconds = obs.spec.as_ref().map_or(0, |spec| u64::try_from(spec.upgrade.drain_seconds).unwrap_or_default());
    let served = obs.status.active.is_some() && left.iter().any(|pod| pod.ready);
    let wait = Duration::from_secs(if served { seconds } else { 0 });
    let drained = obs.status.drain_until.unwrap_or_else(|| later(now, wait));
    teardown.drained = Some(drained);
    if drained > now {
        teardown.until = teardown.until.into_iter().chain(Some(drained)).min();
        return teardown;
    }
    let there = left.iter().filter(|pod| !is_terminating(pod.object));
    teardown.actions.extend(there.map(|pod| delete(Kind::Pod, pod.object)));
    teardown
}

fn status(obs: &Observation, teardown: &Teardown<'_>, now: Time) -> PerformerStatus {
    let mut status = obs.status.clone();
    status.state = Some(if teardown.state == State::Gone { State::PodCleanup } else { teardown.state });
    status.phase = State::Terminating.phase();
    status.observed_generation = Some(obs.meta.generation);
    (status.ready, status.ready_time, status.retry) = (Some(false), None, None);
    if !obs.service.as_ref().is_some_and(|service| obs.meta.owns(service)) {
        (status.service_name, status.grpc_endpoint, status.host) = (None, None, None);
        status.drain_until = teardown.drained.or(status.drain_until);
    }
    let hardware = of(&status.conditions, "HardwareAvailable");
    let hardware = match hardware.map(|known| (known.status.as_str(), known.reason.clone(), known.message.clone())) {
        Some(("True", reason, message)) => NewCondition::yes("HardwareAvailable", reason, message),
        Some(("False", reason, message)) => NewCondition::no("HardwareAvailable", reason, message),
        _ => NewCondition::unknown("HardwareAvailable", "NodesNotReadable", "the performer is being deleted"),
    };
    let state = status.state.unwrap_or(State::Terminating);
    let said = vec![
        NewCondition::no("Ready", "Terminating", "the performer is being deleted"),
        NewCondition::no("Available", "Terminating", "the performer is being deleted"),
        NewCondition::yes("Progressing", orlop_core::machine::Named::as_str(state), "the performer is being deleted"),
        NewCondition::no("Degraded", "AsExpected", "no problem found"),
        NewCondition::no("Contended", "AsExpected", "no other client changes the applied objects"),
        hardware,
    ];
    status.conditions = conditions(&obs.status.conditions, said, obs.meta.generation, now);
    status
}
