//! The controller of performers: each is one pod behind a Service; when its spec changes, a new pod takes the place of the old one once it
//! is ready. Owns these rules; [`hourglass`](crate::hourglass) carries plans out.

mod clean_up;
mod decide;
mod delete;
mod facts;
mod normal;
mod observe;
mod render;
mod review;
mod state;
mod status;
#[cfg(test)]
mod tests;
mod upgrade;

use std::sync::Arc;

use async_trait::async_trait;
use orlop_core::machine::Named as _;
use orlop_core::machine::performer::{MACHINE, PerformerPhase, PerformerState};
use orlop_core::time::Time;
use serde_json::Value;

pub use normal::NormalSpec;
pub use observe::Observation;
pub use render::{Invalid, Rendered};
pub(crate) use review::review;

use crate::api::{Api, ApiError, Kind};
use crate::hourglass::children::{Meta, is_terminating};
use crate::hourglass::cluster::Cluster;
use crate::hourglass::condition::NewCondition;
use crate::hourglass::controller::{Context, Reconciler};
use crate::hourglass::plan::{Failure, Plan};
use crate::hourglass::report::Report;
use crate::hourglass::{Config, cluster, controller};
use crate::value::word;

/// What holds a performer until its pods are gone.
pub(crate) const FINALIZER: &str = "hourglass.eigenlayer.io/performer-finalizer";
/// Label of children: the performer.
pub const PERFORMER: &str = "hourglass.eigenlayer.io/performer";
/// Label of pods: their number.
pub const INCARNATION: &str = "hourglass.eigenlayer.io/incarnation";
/// Annotation of pods and revisions: the hash of their spec.
pub(crate) const SPEC_HASH: &str = "hourglass.eigenlayer.io/spec-hash";
/// Annotation of revisions: how their pods ask for devices.
pub(crate) const ALLOCATION: &str = "hourglass.eigenlayer.io/allocation";
/// Annotation of the Service: when it was last switched to another pod.
pub(crate) const SWITCHED_AT: &str = "hourglass.eigenlayer.io/switched-at";
/// Annotation of the Service: from which number.
pub(crate) const SWITCHED_FROM: &str = "hourglass.eigenlayer.io/switched-from";
/// Annotation of performers: another value tries a failed upgrade again.
pub const RETRY: &str = "hourglass.eigenlayer.io/retry";
/// The container that performs.
pub const CONTAINER: &str = "performer";

/// The controller of performers.
pub type Controller<A> = controller::Controller<A, Performers>;

/// The rules of performers.
pub struct Performers;

#[async_trait]
impl Reconciler for Performers {
    const KIND: Kind = Kind::Performer;
    const NAME: &'static str = "performer";
    const FINALIZER: &'static str = FINALIZER;
    const OWNER_LABEL: &'static str = PERFORMER;
    const CHILD_SELECTOR: &'static str = "app=hourglass-performer";
    const CHILD_KINDS: &'static [Kind] = &[Kind::Pod, Kind::Service];
    const WATCHED_KINDS: &'static [Kind] = &{
        let [node, class, device, beta_device, slice, beta_slice] = cluster::KINDS;
        [Kind::Executor, node, class, device, beta_device, slice, beta_slice]
    };
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

    fn with_cluster(observation: &Observation, cluster: Arc<Cluster>) -> Observation {
        Observation { cluster, ..observation.clone() }
    }

    fn plan(observation: &Observation, config: &Config, now: Time) -> Plan {
        plan(observation, config, now)
    }

    fn failure_plan(object: &Value, failure: &Failure, now: Time) -> Plan {
        let missing = vec![
            NewCondition::no("Available", "NoReadyPod", "no pod is serving"),
            NewCondition::no("Progressing", "BackOff", "retrying"),
            NewCondition::no("Contended", "AsExpected", "no other client changes the applied objects"),
            NewCondition::unknown("HardwareAvailable", "NodesNotReadable", "not checked yet"),
        ];
        // A pod that serves goes on serving, one that takes the place of another goes on coming, and what ends goes on ending.
        let is = |phase: PerformerPhase| word(object, "/status/phase") == phase.as_str();
        let ends = is_terminating(object) && is(PerformerPhase::Terminating);
        let goes_on =
            ends || is(PerformerPhase::Upgrading) || object.pointer("/status/active").is_some_and(Value::is_object);
        let failed = (PerformerState::Failed, PerformerPhase::Failed.as_str());
        Report { machine: &MACHINE, failed, goes_on, missing }.plan(object, failure, now)
    }
}

/// What is to be done about a performer.
pub fn plan(observation: &Observation, config: &Config, now: Time) -> Plan {
    if observation.meta.deleted_at.is_some() {
        return delete::plan(observation, now);
    }
    if !observation.meta.finalizers.iter().any(|name| name == FINALIZER) {
        let effects = vec![crate::hourglass::plan::Effect::AddFinalizer];
        return Plan { effects, ..Plan::default() };
    }
    let facts = facts::Facts::of(observation, config, now);
    let decision = decide::decide(&facts);
    status::finish(&facts, decision)
}
