//! Everything a plan for an executor is made of, as it is known or read. Owns which objects those are.

use std::fmt;
use std::sync::Arc;

use orlop_core::machine::executor::ExecutorState;
use serde_json::Value;

use super::NAME;
use crate::api::{Api, ApiError, Kind};
use crate::hourglass::children::Meta;
use crate::hourglass::controller::Context;
use crate::hourglass::last_applied::LastApplied;
use crate::hourglass::names;
use crate::hourglass::plan::Failure;
use crate::hourglass::reference::ObservedReference;
use crate::hourglass::spec::{ExecutorSpec, ExecutorStatus};
use crate::value::{item, word};

/// Names of the children of an executor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Names {
    /// Of Deployment and PodDisruptionBudget.
    pub(super) deployment: String,
    /// Of the ConfigMap.
    pub(super) config: String,
    /// Of the Secret.
    pub(super) secrets: String,
    /// Of the Service.
    pub(super) service: String,
}

impl Names {
    /// The names for an executor.
    #[must_use]
    pub(super) fn of(name: &str) -> Self {
        let base = names::base(name);
        Self {
            config: format!("{base}-config"),
            secrets: format!("{base}-secrets"),
            service: names::service(super::CONTAINER, name),
            deployment: base,
        }
    }
}

/// What is known of an executor.
#[derive(Clone)]
pub struct Observation {
    /// Its metadata.
    pub meta: Meta,
    /// Its spec, or why it cannot be read.
    pub spec: Result<ExecutorSpec, String>,
    /// Its status; nothing of it where it cannot be read.
    pub status: ExecutorStatus,
    /// The same as it is stored.
    pub stored: Value,
    /// The object under the name of its ConfigMap.
    pub config: Option<Value>,
    /// Of its Secret.
    pub secret: Option<Value>,
    /// Of its service account.
    pub account: Option<Value>,
    /// Of its Deployment.
    pub deployment: Option<Value>,
    /// Of its PodDisruptionBudget.
    pub budget: Option<Value>,
    /// Of its Service.
    pub service: Option<Value>,
    /// Pods with its labels.
    pub pods: Vec<Value>,
    /// The Secret with its keys, where it is one that exists; none where a change of it starts no new pods.
    pub references: Vec<ObservedReference>,
    /// What went wrong last.
    pub last_failure: Option<Failure>,
    /// What the server made of its children.
    pub last_applied: Arc<LastApplied>,
}

impl fmt::Debug for Observation {
    /// Without the contents of Secrets and of the spec, which holds keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observation")
            .field("meta", &self.meta)
            .field("status", &self.status)
            .field("deployment", &self.deployment)
            .field("service", &self.service)
            .field("last_failure", &self.last_failure)
            .finish_non_exhaustive()
    }
}

/// Reads all of it; none where the executor is gone.
pub(super) async fn observe<A: Api>(context: Context<'_, A>) -> Result<Option<Observation>, ApiError> {
    let Context { reader, last_failure, last_applied, .. } = context;
    let Some(object) = reader.own().await? else { return Ok(None) };
    let meta = Meta::of(&object);
    let spec = serde_json::from_value::<ExecutorSpec>(object.get("spec").cloned().unwrap_or_default());
    let stored = object.get("status").cloned().unwrap_or_default();
    let names = Names::of(&meta.name);
    let deployment = reader.child(&meta, Kind::Deployment, &names.deployment).await?;
    let account = match &spec {
        // No watch reports that it goes: its Deployment does, once it needs it.
        Ok(spec)
            if deployment.as_ref().and_then(refusal).is_some_and(|why| why.contains(&spec.service_account_name)) =>
        {
            reader.ask(Kind::ServiceAccount, &spec.service_account_name).await?
        }
        Ok(spec) => reader.get(Kind::ServiceAccount, &spec.service_account_name).await?,
        Err(_) => None,
    };
    let labels = format!("app=hourglass-executor,{NAME}={}", names::label_value(&meta.name));
    let status: ExecutorStatus = serde_json::from_value(stored.clone()).unwrap_or_default();
    let rolls = spec.as_ref().ok().filter(|spec| spec.roll_on_reference_change);
    let references = match rolls.and_then(|spec| spec.config.operator_keys_secret_ref.as_ref()) {
        Some(keys) => vec![reader.reference(Kind::Secret, &keys.name, None, &status.references).await?],
        None => Vec::new(),
    };
    Ok(Some(Observation {
        spec: spec.map_err(|error| error.to_string()),
        status,
        stored,
        config: reader.child(&meta, Kind::ConfigMap, &names.config).await?,
        secret: reader.child(&meta, Kind::Secret, &names.secrets).await?,
        account,
        deployment,
        budget: reader.child(&meta, Kind::DisruptionBudget, &names.deployment).await?,
        service: reader.child(&meta, Kind::Service, &names.service).await?,
        pods: reader.list(Kind::Pod, &labels).await?,
        references,
        last_failure,
        last_applied,
        meta,
    }))
}

/// Why a Deployment cannot make its pods, in the words of the server; none where it can.
pub(super) fn refusal(deployment: &Value) -> Option<&str> {
    let condition = item(deployment, "/status/conditions", "type", "ReplicaFailure")?;
    (word(condition, "/status") == "True").then(|| word(condition, "/message"))
}

impl Observation {
    /// The state that is stored.
    #[must_use]
    pub fn state(&self) -> Option<ExecutorState> {
        self.status.state
    }
}
