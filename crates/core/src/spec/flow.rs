//! The JobFlow object and its spec. Absent extension fields stay absent: a default is
//! never written into an object.

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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JobFlow {
    /// Always [`API_VERSION`].
    pub api_version: String,
    /// Always [`KIND`].
    pub kind: String,
    /// Name, namespace, labels, annotations.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What to run.
    pub spec: FlowSpec,
    /// What has happened; written by the engine's host only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<FlowStatus>,
}

impl JobFlow {
    /// A flow of a name and a spec.
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
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FlowSpec {
    /// The DAG.
    pub steps: Vec<Step>,
    /// Flow-wide behaviour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_policy: Option<ExecutionPolicy>,
    /// Objects created before the first step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_templates: Option<ResourceTemplates>,
    /// Parameters visible in every step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<FlowParameter>,
    /// Steps that run once after all others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub finally: Vec<Step>,
    /// Whether nothing new may start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
    /// What suspension does to live attempts; default Drain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend_mode: Option<SuspendMode>,
    /// An order to end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<StopMode>,
    /// Where artifacts are stored; default the driver's store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_store: Option<ArtifactStore>,
    /// The flow this one repeats from its failures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<RetryOf>,
}

/// Objects a flow creates before its first step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourceTemplates {
    /// PersistentVolumeClaims.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volume_claim_templates: Vec<Value>,
    /// ConfigMaps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
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
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FlowParameter {
    /// Name.
    pub name: String,
    /// Its value; neither this nor `value_from` means that it is supplied at submission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Where its value comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_from: Option<FlowValueFrom>,
    /// Values it may have.
    #[serde(default, rename = "enum", skip_serializing_if = "Option::is_none")]
    pub choices: Option<Vec<String>>,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// Source of a flow parameter: exactly one member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
pub enum SuspendMode {
    /// They finish.
    #[default]
    Drain,
    /// They are suspended.
    Suspend,
}

/// An order to end a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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
