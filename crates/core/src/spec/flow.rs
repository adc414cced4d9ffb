//! The JobFlow object and its spec. Absent extension fields stay absent: a default is
//! never written into an object.

#[cfg(feature = "schema")]
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::artifact::ArtifactStore;
use super::meta::{KeyRef, ObjectMeta};
use super::policy::ExecutionPolicy;
use super::status::FlowStatus;
use super::step::Step;

/// API group of flows.
pub const GROUP: &str = "workflow.kube-zen.io";
/// API version of flows.
pub const API_VERSION: &str = "workflow.kube-zen.io/v1alpha1";
/// Kind of flows.
pub const KIND: &str = "JobFlow";

/// A flow: one object and its single run.
///
/// ```
/// use orlop_core::spec::flow::JobFlow;
/// let flow: JobFlow = serde_json::from_value(serde_json::json!({
///     "apiVersion": "workflow.kube-zen.io/v1alpha1", "kind": "JobFlow", "metadata": {"name": "release"},
///     "spec": {"steps": [
///         {"name": "approve", "type": "Manual", "message": "Release it?"},
///         {"name": "publish", "type": "Manual", "dependencies": ["approve"], "timeoutSeconds": 3600},
///     ]},
/// }))?;
/// assert_eq!((flow.metadata.name.as_str(), flow.spec.steps.len()), ("release", 2));
/// assert_eq!(flow.spec.steps[1].dependencies, ["approve"]);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JobFlow {
    /// Always `workflow.kube-zen.io/v1alpha1`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = [API_VERSION])))]
    pub api_version: String,
    /// Always `JobFlow`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = [KIND])))]
    pub kind: String,
    /// Name, namespace, labels, annotations.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What to run, and how.
    pub spec: FlowSpec,
    /// What has happened; written by the controller only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("readOnly" = true)))]
    pub status: Option<FlowStatus>,
}

impl JobFlow {
    /// A flow with a name and a spec.
    #[must_use]
    pub fn new(name: impl Into<String>, spec: FlowSpec) -> Self {
        Self {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            metadata: ObjectMeta { name: name.into(), ..ObjectMeta::default() },
            spec,
            status: None,
        }
    }
}

/// What a flow runs and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FlowSpec {
    /// The steps of the flow: a directed acyclic graph.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 10000), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])))]
    pub steps: Vec<Step>,
    /// How the flow as a whole behaves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_policy: Option<ExecutionPolicy>,
    /// PersistentVolumeClaims and ConfigMaps that are created before the first step and owned by the flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_templates: Option<ResourceTemplates>,
    /// Parameters that every step can read; fixed when the flow is submitted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<FlowParameter>,
    /// Steps that run once after all others, also after a failure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = 10000), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])))]
    pub finally: Vec<Step>,
    /// Nothing new starts while this is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
    /// What a suspension does to live attempts: Drain lets them finish (the default), Suspend suspends them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend_mode: Option<SuspendMode>,
    /// An order to end the flow: Graceful lets live attempts finish, Terminate cancels them. It may rise from Graceful
    /// to Terminate and is never taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<StopMode>,
    /// Where artifacts are stored: exactly one member; absent means the store of the controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_store: Option<ArtifactStore>,
    /// The flow this one repeats from its failures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<RetryOf>,
}

impl FlowSpec {
    /// A spec with these steps and defaults otherwise.
    #[must_use]
    pub fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        Self { steps: steps.into_iter().collect(), ..Self::default() }
    }
}

/// Objects a flow creates before its first step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourceTemplates {
    /// PersistentVolumeClaims; each is created as `<flow>-<name>`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<BTreeMap<String, Value>>"))]
    pub volume_claim_templates: Vec<Value>,
    /// ConfigMaps; each is created as `<flow>-<name>`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<BTreeMap<String, Value>>"))]
    pub config_map_templates: Vec<Value>,
}

impl ResourceTemplates {
    /// Names of all claims and ConfigMaps, in this order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.volume_claim_templates.iter().chain(&self.config_map_templates).filter_map(template_name)
    }
}

/// `metadata.name` of a resource template.
#[must_use]
pub fn template_name(template: &Value) -> Option<&str> {
    template.get("metadata")?.get("name")?.as_str()
}

/// A parameter of the flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FlowParameter {
    /// Name: letters, digits, `-` and `.`, alphanumeric at both ends.
    pub name: String,
    /// Its value; with neither this nor valueFrom it is supplied at submission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Where its value comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_from: Option<FlowValueFrom>,
    /// The values it may have.
    #[serde(default, rename = "enum", skip_serializing_if = "Option::is_none")]
    pub choices: Option<Vec<String>>,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// Source of a flow parameter: exactly one member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FlowValueFrom {
    /// A key of a ConfigMap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_key_ref: Option<KeyRef>,
    /// A key of a Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_key_ref: Option<KeyRef>,
}

/// The flow this one repeats from its failures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RetryOf {
    /// Name of the parent, in the same namespace.
    pub name: String,
    /// Unique id of the parent.
    pub uid: String,
    /// Steps to run again besides those that failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
    /// Whether a parent that Succeeded is repeated though no step is named; default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
}

/// What suspension does to live attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum SuspendMode {
    /// They finish.
    #[default]
    Drain,
    /// They are suspended.
    Suspend,
}

/// An order to end a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum StopMode {
    /// Nothing new starts, live attempts finish, `finally` runs.
    Graceful,
    /// Live attempts are cancelled, `finally` does not run.
    Terminate,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Every extension field is absent here, and no default is written.
    #[test]
    fn absent_fields_stay_absent() {
        let flow = json!({
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": "f"},
            "spec": {
                "executionPolicy": {},
                "steps": [
                    {"name": "a", "template": {"kind": "Job"}, "retryPolicy": {"backoff": {}},
                     "inputs": {"artifacts": [{"name": "i", "from": "b/o"}]},
                     "outputs": {"parameters": [{"name": "p", "valueFrom": {"jsonPath": "$.x"}}],
                                 "artifacts": [{"name": "o", "path": "/o", "archive": {}}]}},
                    {"name": "gate", "type": "Manual"},
                ],
            },
        });
        let read: JobFlow = serde_json::from_value(flow.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), flow);
    }
}
