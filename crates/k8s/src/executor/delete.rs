//! The end of an executor: Service, PodDisruptionBudget, Deployment with its pods, ConfigMap, Secret, finalizer.
//! Owns that order; it goes on wherever it was left.

use orlop_core::machine::executor::{ExecutorPhase, ExecutorState as State, MACHINE};
use orlop_core::time::Time;

use super::FINALIZER;
use super::observe::Observation;
use super::status::terminating_status;
use crate::api::{Kind, Propagation};
use crate::hourglass::children::{delete, is_terminating, lifecycle_path};
use crate::hourglass::plan::{Effect, Notice, Plan, Requeue};

/// What is to be done about an executor that goes.
pub(super) fn plan(obs: &Observation, now: Time) -> Plan {
    if !obs.meta.finalizers.iter().any(|name| name == FINALIZER) {
        return Plan { requeue: Requeue::Never, ..Plan::default() };
    }
    let children = [
        (Kind::Service, &obs.service),
        (Kind::DisruptionBudget, &obs.budget),
        (Kind::Deployment, &obs.deployment),
        (Kind::ConfigMap, &obs.config),
        (Kind::Secret, &obs.secret),
    ];
    let mut left = children.into_iter().filter_map(|(kind, live)| Some((kind, live.as_ref()?)));
    let first = left.find(|(_, live)| obs.meta.owns(live));
    let Some((kind, live)) = first else {
        let path = lifecycle_path(&MACHINE, obs.state(), Some(State::Gone));
        let effects = vec![Effect::RemoveFinalizer];
        return Plan { effects, requeue: Requeue::Never, ..Plan::default() }.with_path(path);
    };
    let announced = obs.status.phase == Some(ExecutorPhase::Terminating);
    let state = if announced { State::Cleanup } else { State::Terminating };
    let mut effects = Vec::new();
    if !announced {
        effects.push(Effect::RecordEvent(Notice::normal("Deleting", "its children are being deleted in order", "end")));
    }
    let write = Effect::write_status(&obs.stored, &terminating_status(obs, state, now));
    let path = write.as_ref().map_or(Some(Vec::new()), |_| lifecycle_path(&MACHINE, obs.state(), Some(state)));
    effects.extend(write);
    if !is_terminating(live) {
        effects.push(match delete(kind, live) {
            Effect::Delete { key, uid, .. } if kind == Kind::Deployment => {
                Effect::Delete { key, uid, propagation: Propagation::Foreground }
            }
            other => other,
        });
    }
    Plan { effects, requeue: Requeue::Resync, ..Plan::default() }.with_path(path)
}
