//! `Performer`.

use std::collections::BTreeMap;

use orlop_core::hardware::HardwareInput;
use orlop_core::machine::performer::{PerformerPhase, PerformerState};
use orlop_core::time::{Rfc3339, Time};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::member::{Condition, LocalName, PullPolicy, Reference, Retry, SecurityProfile};
#[cfg(feature = "client")]
use crate::crd::hourglass as schema;

/// A gRPC server that executes tasks for a service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "client", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PerformerSpec {
    /// Ethereum address of the service whose tasks are executed.
    #[cfg_attr(feature = "client", schemars(length(max = 42), extend("pattern" = "^0x[0-9a-fA-F]{40}$")))]
    pub avs_address: String,
    /// Container image of the performer.
    #[cfg_attr(feature = "client", schemars(length(min = 1, max = 1024), extend("pattern" = "^[^\\s]+$")))]
    pub image: String,
    /// When the image is pulled.
    #[serde(default)]
    pub image_pull_policy: PullPolicy,
    /// Secrets with credentials of registries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "client", schemars(length(max = 16)))]
    pub image_pull_secrets: Vec<LocalName>,
    /// A version for people; a change of it never restarts the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "client", schemars(length(max = 128)))]
    pub version: Option<String>,
    /// HourglassExecutor in the same namespace whose defaultScheduling fills unset scheduling fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "client", schemars(length(max = 253)))]
    pub executor_ref: Option<String>,
    /// How the container runs.
    #[serde(default)]
    pub config: PerformerConfig,
    /// Resources of the container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "client", schemars(with = "Option<k8s_openapi::api::core::v1::ResourceRequirements>"))]
    pub resources: Option<Value>,
    /// Where the pod may run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "client", schemars(extend("x-kubernetes-validations" = schema::one_node_affinity())))]
    pub scheduling: Option<Scheduling>,
    /// Hardware the machine must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "client", schemars(schema_with = "schema::hardware"))]
    pub hardware_requirements: Option<HardwareInput>,
    /// How a new spec takes the place of the old one.
    #[serde(default)]
    pub upgrade: Upgrade,
    /// Security profile of the pod; default: that of the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_profile: Option<SecurityProfile>,
    /// Whether a new pod takes the place of the old one when a key of a ConfigMap or Secret changes that `environmentFrom` names.
    #[serde(default = "super::yes")]
    pub roll_on_reference_change: bool,
}

impl PerformerSpec {
    /// Names of all its fields, as manifests write them.
    pub const FIELDS: [&str; 13] = [
        "avsAddress",
        "config",
        "executorRef",
        "hardwareRequirements",
        "image",
        "imagePullPolicy",
        "imagePullSecrets",
        "resources",
        "rollOnReferenceChange",
        "scheduling",
        "securityProfile",
        "upgrade",
        "version",
    ];
}

/// How the container of a performer runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "client", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct PerformerConfig {
    /// Port of the gRPC server.
    #[cfg_attr(feature = "client", schemars(range(min = 1, max = 65535)))]
    pub grpc_port: i32,
    /// Environment variables by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "client", schemars(schema_with = "schema::environment"))]
    pub environment: BTreeMap<String, String>,
    /// Environment variables from Secrets and ConfigMaps; they win over those of the same name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(
        feature = "client",
        schemars(length(max = 256), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))
    )]
    pub environment_from: Vec<EnvironmentVariable>,
    /// Entry point in place of the image's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "client", schemars(length(max = 256)))]
    pub command: Vec<String>,
    /// Arguments in place of the image's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "client", schemars(length(max = 256)))]
    pub args: Vec<String>,
    /// Service account, whose token is mounted; without one the default account, without its token.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "client", schemars(length(max = 253)))]
    pub service_account_name: Option<String>,
    /// How the container is probed.
    pub probe: Probe,
    /// Times of the probes, where they differ from the defaults.
    #[serde(skip_serializing_if = "Probes::is_default")]
    pub probes: Probes,
}

impl Default for PerformerConfig {
    fn default() -> Self {
        Self {
            grpc_port: 9090,
            environment: BTreeMap::new(),
            environment_from: Vec::new(),
            command: Vec::new(),
            args: Vec::new(),
            service_account_name: None,
            probe: Probe::default(),
            probes: Probes::default(),
        }
    }
}

/// How a container is probed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "client", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Probe {
    /// By the health service of gRPC.
    #[default]
    Grpc,
    /// By a connection.
    Tcp,
    /// Neither at its start nor for its life; for readiness by a connection.
    None,
}

/// Times of the probes of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "client", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Probes {
    /// Until the container listens; the other probes wait for it. By default every 2 s for 10 minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub startup: Option<ProbeTimes>,
    /// Whether the container is to be restarted. By default every 10 s, three failures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub liveness: Option<ProbeTimes>,
    /// Whether calls are sent to the container. By default every 5 s, three failures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub readiness: Option<ProbeTimes>,
}

impl Probes {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Times of a probe; those that are not set are the defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "client", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct ProbeTimes {
    /// Seconds from the start of the container to the first probe.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "client", schemars(range(min = 0)))]
    pub initial_delay_seconds: Option<i32>,
    /// Seconds from one probe to the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "client", schemars(range(min = 1)))]
    pub period_seconds: Option<i32>,
    /// Seconds a probe may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "client", schemars(range(min = 1)))]
    pub timeout_seconds: Option<i32>,
    /// Failures one after another until the probe has failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "client", schemars(range(min = 1)))]
    pub failure_threshold: Option<i32>,
    /// Successes one after another until the probe has succeeded; 1 for startup and liveness.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "client", schemars(range(min = 1)))]
    pub success_threshold: Option<i32>,
}

/// An environment variable whose value is elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "client", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentVariable {
    /// Its name.
    #[cfg_attr(feature = "client", schemars(length(max = 256), extend("pattern" = "^[A-Za-z_.-][A-Za-z0-9_.-]*$")))]
    pub name: String,
    /// Where its value is: exactly one member.
    #[cfg_attr(feature = "client", schemars(extend("x-kubernetes-validations" = schema::one_source())))]
    pub value_from: EnvironmentSource,
}

/// Where a value is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "client", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentSource {
    /// In a Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_key_ref: Option<KeySelector>,
    /// In a ConfigMap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_key_ref: Option<KeySelector>,
}

/// A key of a Secret or ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "client", derive(schemars::JsonSchema))]
pub struct KeySelector {
    /// Name of the object.
    #[cfg_attr(feature = "client", schemars(length(min = 1, max = 253)))]
    pub name: String,
    /// The key in it.
    #[cfg_attr(feature = "client", schemars(length(min = 1, max = 253)))]
    pub key: String,
    /// Whether object and key may be absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
}

/// Where a pod may run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "client", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Scheduling {
    /// Labels the node must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "client", schemars(extend("maxProperties" = 64)))]
    pub node_selector: BTreeMap<String, String>,
    /// Taints that are tolerated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "client", schemars(with = "Vec<k8s_openapi::api::core::v1::Toleration>", length(max = 64)))]
    pub tolerations: Vec<Value>,
    /// Affinity to nodes and pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "client", schemars(with = "Option<k8s_openapi::api::core::v1::Affinity>"))]
    pub affinity: Option<Value>,
    /// Short form of affinity.nodeAffinity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "client", schemars(with = "Option<k8s_openapi::api::core::v1::NodeAffinity>"))]
    pub node_affinity: Option<Value>,
    /// Runtime class of the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "client", schemars(length(max = 253)))]
    pub runtime_class: Option<String>,
    /// Priority class of the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "client", schemars(length(max = 253)))]
    pub priority_class_name: Option<String>,
}

/// How a new spec takes the place of the old one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "client", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Upgrade {
    /// Whether the new pod starts beside the old one.
    pub strategy: Strategy,
    /// Seconds without a forward step after which an upgrade has failed.
    #[cfg_attr(feature = "client", schemars(range(min = 30)))]
    pub progress_deadline_seconds: i32,
    /// Seconds for which the new pod may find no node before the old one gives way.
    #[cfg_attr(feature = "client", schemars(range(min = 0)))]
    pub surge_wait_seconds: i32,
    /// Seconds the new pod must be ready before it serves.
    #[cfg_attr(feature = "client", schemars(range(min = 0)))]
    pub min_ready_seconds: i32,
    /// Seconds the old pod is kept for its connections.
    #[cfg_attr(feature = "client", schemars(range(min = 0, max = 3600)))]
    pub drain_seconds: i32,
    /// Whether a failed upgrade is taken back.
    #[serde(default = "super::yes")]
    pub auto_rollback: bool,
}

impl Default for Upgrade {
    fn default() -> Self {
        Self {
            strategy: Strategy::default(),
            progress_deadline_seconds: 600,
            surge_wait_seconds: 60,
            min_ready_seconds: 5,
            drain_seconds: 30,
            auto_rollback: true,
        }
    }
}

/// Whether the new pod starts beside the old one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "client", derive(schemars::JsonSchema))]
pub enum Strategy {
    /// Beside it where there is room, in its place otherwise.
    #[default]
    Auto,
    /// Beside it.
    Surge,
    /// In its place.
    Recreate,
}

/// What has happened to a performer; written by the controller only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "client", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct PerformerStatus {
    /// Its phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<PerformerPhase>,
    /// Its detailed state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<PerformerState>,
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
    /// Whether a pod serves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// Since when.
    #[serde(with = "Rfc3339", skip_serializing_if = "Option::is_none")]
    pub ready_time: Option<Time>,
    /// The pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_name: Option<String>,
    /// Its node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// The Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_name: Option<String>,
    /// Where it is reached: host and port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc_endpoint: Option<String>,
    /// The same without the port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The image that serves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The version that serves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// When the last switch was completed.
    #[serde(with = "Rfc3339", skip_serializing_if = "Option::is_none")]
    pub last_upgrade: Option<Time>,
    /// Hash of the spec that serves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec_hash: Option<String>,
    /// Hash of the spec whose upgrade failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_spec_hash: Option<String>,
    /// Value that the annotation for trying again had when it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_retry: Option<String>,
    /// How devices are asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "client", schemars(with = "Option<String>"))]
    pub allocation: Option<String>,
    /// Whether the executor it names is missing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub executor_missing: bool,
    /// ConfigMaps and Secrets that its variables are from, in the versions its pods are for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "client", schemars(length(max = 512)))]
    pub references: Vec<Reference>,
    /// How often they have changed.
    #[serde(skip_serializing_if = "is_zero")]
    pub reference_generation: u32,
    /// Highest number of a pod that was reserved.
    #[serde(skip_serializing_if = "is_zero")]
    pub incarnation: u32,
    /// The pod that serves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<Incarnation>,
    /// The pod that is brought up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidate: Option<Candidate>,
    /// When it is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// Until when pods are kept for their connections while the performer is deleted.
    #[serde(with = "Rfc3339", skip_serializing_if = "Option::is_none")]
    pub drain_until: Option<Time>,
}

pub(super) const fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A pod by its number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "client", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Incarnation {
    /// Its number.
    pub incarnation: u32,
    /// Hash of its spec.
    pub spec_hash: String,
    /// Its name.
    pub pod_name: String,
    /// Its uid, once it was seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_uid: Option<String>,
}

/// A pod that is brought up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "client", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Candidate {
    /// Its number.
    pub incarnation: u32,
    /// Hash of its spec.
    pub spec_hash: String,
    /// Its name.
    pub pod_name: String,
    /// Its uid, once it was seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_uid: Option<String>,
    /// When the first pod of this spec was reserved.
    #[serde(with = "Rfc3339", skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When a step was first reached.
    #[serde(with = "Rfc3339", skip_serializing_if = "Option::is_none")]
    pub progressed_at: Option<Time>,
    /// The furthest step that any pod of this spec has reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reached: Option<PerformerState>,
    /// Whether it takes the place of the pods before it: it is made once they are gone.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub in_place: bool,
}

impl Candidate {
    /// As a pod that serves.
    #[must_use]
    pub fn settled(&self) -> Incarnation {
        Incarnation {
            incarnation: self.incarnation,
            spec_hash: self.spec_hash.clone(),
            pod_name: self.pod_name.clone(),
            pod_uid: self.pod_uid.clone(),
        }
    }
}
