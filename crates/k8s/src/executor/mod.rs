//! The controller of executors: each is a Deployment with its configuration, its keys and a Service. Owns what these contain and when they
//! change; [`hourglass`](crate::hourglass) carries plans out.

mod address;
mod delete;
mod file;
mod observe;
mod plan;
mod render;
mod state;
mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use async_trait::async_trait;
use orlop_core::machine::Named as _;
use orlop_core::machine::executor::{ExecutorPhase, ExecutorState, MACHINE};
use orlop_core::time::Time;
use serde_json::Value;

pub use address::is_plain;
pub use file::{File, REDACTED};
pub use observe::Observation;
pub use plan::plan;
pub use render::Rendered;

use crate::api::{Api, ApiError, Kind};
use crate::hourglass::children::{Meta, is_terminating};
use crate::hourglass::cluster::Cluster;
use crate::hourglass::condition::NewCondition;
use crate::hourglass::controller::{Context, Reconciler};
use crate::hourglass::plan::{Failure, Plan};
use crate::hourglass::report::Report;
use crate::hourglass::{Config, controller};
use crate::value::word;

/// What holds an executor until its children are gone.
pub(crate) const FINALIZER: &str = "hourglass.eigenlayer.io/finalizer";
/// Label of children: the executor.
pub const NAME: &str = "hourglass.eigenlayer.io/name";
/// The container that executes.
pub const CONTAINER: &str = "executor";

/// The controller of executors.
pub type Controller<A> = controller::Controller<A, Executors>;

/// The rules of executors.
pub struct Executors;

#[async_trait]
impl Reconciler for Executors {
    const KIND: Kind = Kind::Executor;
    const NAME: &'static str = "executor";
    const FINALIZER: &'static str = FINALIZER;
    const OWNER_LABEL: &'static str = NAME;
    const CHILD_SELECTOR: &'static str = "app=hourglass-executor";
    // ConfigMaps and Secrets are read by their names: nothing of others is listed or watched.
    const CHILD_KINDS: &'static [Kind] = &[Kind::Pod, Kind::Service, Kind::Deployment, Kind::DisruptionBudget];
    const WATCHED_KINDS: &'static [Kind] = &[];
    type Observation = Observation;

    async fn observe<A: Api>(context: Context<'_, A>) -> Result<Option<Observation>, ApiError> {
        observe::observe(context).await
    }

    fn meta(observation: &Observation) -> &Meta {
        &observation.meta
    }

    fn stored_status(observation: &Observation) -> &Value {
        &observation.stored
    }

    fn secrets(observation: &Observation) -> Vec<String> {
        observation.spec.as_ref().map(address::hidden).unwrap_or_default()
    }

    fn with_cluster(observation: &Observation, _world: Arc<Cluster>) -> Observation {
        observation.clone()
    }

    fn plan(observation: &Observation, config: &Config, now: Time) -> Plan {
        plan(observation, config, now)
    }

    fn failure_plan(object: &Value, failure: &Failure, now: Time) -> Plan {
        let missing = vec![
            NewCondition::no("Available", "ReplicasUnavailable", "no pod is ready"),
            NewCondition::no("Progressing", "BackOff", "retrying"),
            NewCondition::no("Contended", "AsExpected", "no other client changes the applied objects"),
        ];
        // Pods that serve go on serving, and what ends goes on ending.
        let ends = is_terminating(object) && word(object, "/status/phase") == ExecutorPhase::Terminating.as_str();
        let serve = object.pointer("/status/readyReplicas").and_then(Value::as_i64).is_some_and(|ready| ready > 0);
        let failed = (ExecutorState::Failed, ExecutorPhase::Failed.as_str());
        Report { machine: &MACHINE, failed, goes_on: ends || serve, missing }.plan(object, failure, now)
    }
}
