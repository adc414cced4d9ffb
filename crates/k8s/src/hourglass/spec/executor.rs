//! `HourglassExecutor`.

use std::collections::BTreeMap;
use std::fmt;

use orlop_core::machine::executor::{ExecutorPhase, ExecutorState};
use orlop_core::time::{Rfc3339, Time};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::member::{Condition, LocalName, PullPolicy, Reference, Retry, SecurityProfile};
use super::performer::is_zero;
#[cfg(feature = "client")]
use crate::crd::hourglass as schema;

/// Takes tasks from an aggregator, watches chains and calls performers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "client", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ExecutorSpec {
    /// Container image of the executor.
    #[cfg_attr(feature = "client", schemars(length(min = 1, max = 1024), extend("pattern" = "^[^\\s]+$")))]
    pub image: String,
    /// When the image is pulled.
    #[serde(default)]
    pub image_pull_policy: PullPolicy,
    /// Secrets with credentials of registries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "client", schemars(length(max = 16)))]
    pub image_pull_secrets: Vec<LocalName>,
    /// How many pods.
    #[serde(default = "one")]
    #[cfg_attr(feature = "client", schemars(range(min = 1)))]
    pub replicas: i32,
    /// Configuration of the executor.
    #[cfg_attr(feature = "client", schemars(extend("x-kubernetes-validations" = schema::one_key_source())))]
    pub config: ExecutorConfig,
    /// Resources of the container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "client", schemars(with = "Option<k8s_openapi::api::core::v1::ResourceRequirements>"))]
    pub resources: Option<Value>,
    /// Labels the nodes must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "client", schemars(extend("maxProperties" = 64)))]
    pub node_selector: BTreeMap<String, String>,
    /// Taints that are tolerated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "client", schemars(with = "Vec<k8s_openapi::api::core::v1::Toleration>", length(max = 64)))]
    pub tolerations: Vec<Value>,
    /// Service account of the pods; made without rights where it is missing.
    #[serde(default = "account")]
    #[cfg_attr(feature = "client", schemars(length(min = 1, max = 253)))]
    pub service_account_name: String,
    /// Security profile of the pods; default: that of the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_profile: Option<SecurityProfile>,
    /// Whether the pods are replaced when the Secret of `operatorKeysSecretRef` changes.
    #[serde(default = "super::yes")]
    pub roll_on_reference_change: bool,
}

const fn one() -> i32 {
    1
}

fn account() -> String {
    "hourglass-executor".to_owned()
}

/// Configuration of an executor.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "client", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ExecutorConfig {
    /// Where tasks come from: `[scheme://]host[:port][/path]`.
    #[cfg_attr(feature = "client", schemars(length(min = 1, max = 2048), extend("pattern" = schema::ENDPOINT)))]
    pub aggregator_endpoint: String,
    /// Keys of the operator by name; they are stored in a Secret and nowhere else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "client", schemars(schema_with = "schema::operator_keys"))]
    pub operator_keys: Option<BTreeMap<String, String>>,
    /// An existing Secret with the keys; it is mounted, and only its metadata is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator_keys_secret_ref: Option<LocalName>,
    /// The chains that are watched, in this order.
    #[cfg_attr(
        feature = "client",
        schemars(
            length(min = 1, max = 64),
            extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
        )
    )]
    pub chains: Vec<Chain>,
    /// Where performers run.
    #[serde(default)]
    pub performer_mode: PerformerMode,
    /// How much is logged.
    #[serde(default = "info")]
    #[cfg_attr(feature = "client", schemars(length(max = 16), extend("pattern" = "^[a-z]{1,16}$")))]
    pub log_level: String,
    /// Where performers are placed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<KubernetesMode>,
}

impl fmt::Debug for ExecutorConfig {
    /// Without keys and addresses, which may hold credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.chains.iter().map(|chain| chain.name.as_str()).collect();
        f.debug_struct("ExecutorConfig").field("chains", &names).finish_non_exhaustive()
    }
}

fn info() -> String {
    "info".to_owned()
}

/// A chain.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "client", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Chain {
    /// Its name, unique in the list.
    #[cfg_attr(feature = "client", schemars(length(min = 1, max = 63), extend("pattern" = "^[\\x20-\\x7e]{1,63}$")))]
    pub name: String,
    /// Address of its RPC endpoint; one that carries credentials is stored in the Secret only.
    #[cfg_attr(feature = "client", schemars(length(min = 1, max = 2048)))]
    pub rpc: String,
    /// Its number.
    #[cfg_attr(feature = "client", schemars(range(min = 1)))]
    pub chain_id: i64,
    /// Address of the task mailbox on it.
    #[cfg_attr(feature = "client", schemars(length(max = 42), extend("pattern" = "^0x[0-9a-fA-F]{40}$")))]
    pub task_mailbox_address: String,
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chain").field("name", &self.name).field("chain_id", &self.chain_id).finish_non_exhaustive()
    }
}

/// Where performers run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "client", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum PerformerMode {
    /// In containers of a Docker daemon.
    Docker,
    /// In pods.
    #[default]
    Kubernetes,
}

impl PerformerMode {
    /// Its text in the executor's file.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Kubernetes => "kubernetes",
        }
    }
}

/// Where performers are placed in Kubernetes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "client", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct KubernetesMode {
    /// Their namespace.
    #[serde(default = "default_namespace")]
    #[cfg_attr(feature = "client", schemars(length(min = 1, max = 63)))]
    pub namespace: String,
    /// Scheduling of performers that name this executor and do not say their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_scheduling: Option<DefaultScheduling>,
}

fn default_namespace() -> String {
    "default".to_owned()
}

/// Scheduling of performers that do not say their own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "client", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DefaultScheduling {
    /// Labels the node must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "client", schemars(extend("maxProperties" = 64)))]
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Affinity to nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "client", schemars(with = "Option<k8s_openapi::api::core::v1::NodeAffinity>"))]
    pub node_affinity: Option<Value>,
    /// Taints that are tolerated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "client",
        schemars(with = "Option<Vec<k8s_openapi::api::core::v1::Toleration>>", length(max = 64))
    )]
    pub tolerations: Option<Vec<Value>>,
    /// Runtime class of the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "client", schemars(length(max = 253)))]
    pub runtime_class: Option<String>,
}

/// What has happened to an executor; written by the controller only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "client", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct ExecutorStatus {
    /// Its phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<ExecutorPhase>,
    /// Its detailed state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<ExecutorState>,
    /// The generation this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Its conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(
        feature = "client",
        schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))
    )]
    pub conditions: Vec<Condition>,
    /// Pods there are.
    pub replicas: i32,
    /// Pods that are ready.
    pub ready_replicas: i32,
    /// Pods of the newest template.
    pub updated_replicas: i32,
    /// Label selector of the pods, as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// The Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_name: Option<String>,
    /// Hash of ConfigMap and Secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_hash: Option<String>,
    /// When that hash changed.
    #[serde(with = "Rfc3339", skip_serializing_if = "Option::is_none")]
    pub last_config_update: Option<Time>,
    /// The Secret with its keys, in the version its pods are for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "client", schemars(length(max = 512)))]
    pub references: Vec<Reference>,
    /// How often it has changed.
    #[serde(skip_serializing_if = "is_zero")]
    pub reference_generation: u32,
    /// When it is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
}
