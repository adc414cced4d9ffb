//! Status of a flow as the API shows it. Owns the fields; `orlop_dag::engine::view` fills them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::meta::ObjectReference;
use crate::machine::flow::FlowPhase;
use crate::machine::step::StepPhase;
use crate::time::{Rfc3339, Time};

/// The longest message of a status, in characters.
pub const MESSAGE_MAX: usize = 1024;

/// What has happened to a flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FlowStatus {
    /// Where the flow stands.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["Pending", "Running", "Paused", "Suspended", "Succeeded", "Failed"])))]
    pub phase: FlowPhase,
    /// First failure, or what the flow waits for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// One entry per type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])))]
    pub conditions: Vec<Condition>,
    /// When the flow was admitted.
    #[serde(default, with = "Rfc3339", skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When the flow ended.
    #[serde(default, with = "Rfc3339", skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// When the flow is expected to end.
    #[serde(default, with = "Rfc3339", skip_serializing_if = "Option::is_none")]
    pub estimated_completion_time: Option<Time>,
    /// Records of steps and fan-out instances in spec order, those of finally last; of a large flow those that need
    /// attention.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])))]
    pub steps: Vec<StepStatus>,
    /// All records of a large flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps_packed: Option<StepsPacked>,
    /// Counts of settled steps.
    #[serde(default)]
    pub progress: Progress,
    /// PersistentVolumeClaims and ConfigMaps the flow has created.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_refs: Vec<ObjectReference>,
    /// Who started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<Audit>,
    /// Generation of the spec this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// SHA-256 of the canonical spec at admission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec_hash: Option<String>,
    /// Retries and counted failures summed over the flow.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retries: u32,
    /// Seconds the deadline was paused.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub suspended_seconds: u64,
}

fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// One condition of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Ready, Completed, Failed, FailuresTolerated, Blocked, CancelBlocked, SpecChanged or NotUnderstood.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// When status last flipped.
    #[serde(default, with = "Rfc3339", skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// One word for programs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// A sentence for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum ConditionStatus {
    /// It does.
    True,
    /// It does not.
    False,
    /// Unknown.
    Unknown,
}

/// Status of one step or fan-out instance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct StepStatus {
    /// Name of the step, or `<step>-i<k>` of an instance.
    pub name: String,
    /// Where it stands.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["Pending", "Running", "Succeeded", "Failed", "Skipped", "PendingApproval"])))]
    pub phase: StepPhase,
    /// Why, one word.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why, a sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When the current attempt was accepted.
    #[serde(default, with = "Rfc3339", skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When it ended.
    #[serde(default, with = "Rfc3339", skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// Present exactly while a retry is scheduled.
    #[serde(default, with = "Rfc3339", skip_serializing_if = "Option::is_none")]
    pub next_retry_time: Option<Time>,
    /// What runs or ran the current attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_ref: Option<ObjectReference>,
    /// Retries made.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retry_count: u32,
    /// 1 + retries + losses once an attempt was asked for, else 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempt: u32,
    /// Attempts lost with their host.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost_count: u32,
    /// Failures counted by the pod failure policy.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub counted_failures: u32,
    /// Recorded outputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<StepOutputs>,
    /// Decision of a Manual step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalRecord>,
    /// Summary of a fan-out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instances: Option<InstanceCounts>,
    /// What keeps the accepted attempt from running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    /// Seconds of the current attempt that its timeout does not count.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waited_seconds: u64,
}

/// What an accepted attempt waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum WaitsOn {
    /// Somebody else, such as a queue, has suspended it.
    Suspended,
    /// No pod of it runs yet.
    FirstPod,
    /// It has begun, and what runs it cannot be reached now.
    Runtime,
    /// A pod of it failed, and another is to do it.
    NextPod,
}

/// What keeps an accepted attempt from running.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// What it waits for.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["Suspended", "FirstPod", "Runtime", "NextPod"])))]
    pub on: WaitsOn,
    /// Why, one word of the cluster.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why, a sentence of the cluster.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Since when.
    #[serde(default, with = "Rfc3339", skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
}

/// Recorded outputs of a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct StepOutputs {
    /// Values by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<OutputValue>,
    /// Artifacts by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<ArtifactRecord>,
    /// Values that other steps read from this step's document, by path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub projections: BTreeMap<String, String>,
}

impl StepOutputs {
    /// Whether nothing is recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parameters.is_empty() && self.artifacts.is_empty() && self.projections.is_empty()
    }

    /// Value of a parameter.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|output| output.name == name).map(|output| output.value.as_str())
    }

    /// Record of an artifact.
    #[must_use]
    pub fn artifact(&self, name: &str) -> Option<&ArtifactRecord> {
        self.artifacts.iter().find(|artifact| artifact.name == name)
    }
}

/// A recorded output value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct OutputValue {
    /// Name of the output.
    pub name: String,
    /// Its value.
    #[serde(default)]
    pub value: String,
}

/// A recorded artifact.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ArtifactRecord {
    /// Name of the artifact.
    pub name: String,
    /// Where the step wrote it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Where it is stored; absent when it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<ArtifactLocation>,
}

/// Where an artifact is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ArtifactLocation {
    /// Kind of store: cas, configmap, pvc, s3, volume.
    pub kind: String,
    /// Key in the store.
    #[serde(rename = "ref")]
    pub reference: String,
    /// Size in bytes as stored.
    #[serde(default)]
    pub size_bytes: u64,
    /// SHA-256 of the stored bytes, in hexadecimal.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sha256: String,
}

/// Decision of a Manual step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRecord {
    /// What was decided.
    pub decision: Decision,
    /// Who decided, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Whether the identity was authenticated.
    #[serde(default)]
    pub verified: bool,
    /// When it was decided.
    #[serde(default, with = "Rfc3339", skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
    /// Why, in the words of who decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A decision about a Manual step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "ApprovalDecision"))]
pub enum Decision {
    /// Go on.
    Approved,
    /// Do not.
    Rejected,
    /// No decision in time.
    TimedOut,
}

/// Counts of fan-out instances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct InstanceCounts {
    /// All instances.
    pub total: u32,
    /// Live ones.
    pub running: u32,
    /// Succeeded ones.
    pub succeeded: u32,
    /// Failed ones.
    pub failed: u32,
    /// Skipped ones.
    pub skipped: u32,
}

/// Packed step records of a large flow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct StepsPacked {
    /// How the records are packed.
    pub encoding: String,
    /// Number of records.
    pub count: u32,
    /// Revision of the state they show.
    pub revision: u64,
    /// The data, where it is inline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// ConfigMaps that hold the data, where it is not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refs: Vec<String>,
}

/// Counts of settled steps; a fan-out counts as its instances, as one until they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// Successful, failed and skipped.
    pub completed_steps: u32,
    /// All.
    pub total_steps: u32,
    /// Succeeded.
    pub successful_steps: u32,
    /// Failed, tolerated or not.
    pub failed_steps: u32,
    /// Skipped.
    #[serde(default)]
    pub skipped_steps: u32,
    /// Live.
    #[serde(default)]
    pub running_steps: u32,
    /// `<completed>/<total>`.
    pub summary: String,
}

/// Who started a flow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Audit {
    /// Who.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initiated_by: Option<Initiator>,
    /// Id that ties the flow to what caused it.
    #[serde(default, rename = "correlationID", skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
}

/// Who started a flow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Initiator {
    /// Name of the user, service account or schedule.
    pub user: String,
    /// User, ServiceAccount or Schedule.
    #[serde(default, rename = "type", skip_serializing_if = "String::is_empty")]
    pub kind: String,
}

/// A message cut to [`MESSAGE_MAX`] characters.
#[must_use]
pub fn cut_message(text: &str) -> String {
    match text.char_indices().nth(MESSAGE_MAX) {
        None => text.to_owned(),
        Some(_) => text.chars().take(MESSAGE_MAX - 1).chain(['\u{2026}']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Every field of the tables under its name, and nothing where it is absent.
    #[test]
    fn the_status_has_the_fields_of_the_tables() {
        let at = "2026-01-01T00:00:01Z";
        let reference = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "j", "namespace": "n", "uid": "u"});
        let location = json!({"kind": "cas", "ref": "r", "sizeBytes": 5, "sha256": "ab"});
        let step = json!({
            "name": "a", "phase": "Failed", "reason": "RetryScheduled", "message": "m", "startTime": at,
            "completionTime": at, "nextRetryTime": at, "jobRef": reference, "retryCount": 1, "attempt": 3, "lostCount": 1,
            "countedFailures": 1,
            "outputs": {"parameters": [{"name": "p", "value": "v"}], "projections": {"$.x": "1"},
                        "artifacts": [{"name": "o", "path": "/o", "location": location}]},
            "approval": {"decision": "TimedOut", "by": "ann", "verified": true, "at": at, "reason": "late"},
            "instances": {"total": 5, "running": 1, "succeeded": 1, "failed": 1, "skipped": 1},
        });
        let status = json!({
            "phase": "Paused", "message": "m", "startTime": at, "completionTime": at, "estimatedCompletionTime": at,
            "conditions": [{"type": "Ready", "status": "Unknown", "lastTransitionTime": at, "reason": "r", "message": "m"}],
            "steps": [step, {"name": "b", "phase": "PendingApproval"}],
            "stepsPacked": {"encoding": "zstd", "count": 2, "revision": 9, "data": "x", "refs": ["s"]},
            "progress": {"completedSteps": 3, "totalSteps": 10, "successfulSteps": 1, "failedSteps": 1, "skippedSteps": 1,
                         "runningSteps": 2, "summary": "3/10"},
            "resourceRefs": [reference],
            "audit": {"initiatedBy": {"user": "ann", "type": "User"}, "correlationID": "c"},
            "observedGeneration": 2, "specHash": "h", "retries": 2, "suspendedSeconds": 4,
        });
        let read: FlowStatus = serde_json::from_value(status.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), status);
        let fresh = serde_json::to_value(FlowStatus::default()).unwrap();
        assert_eq!(fresh.as_object().unwrap().keys().collect::<Vec<_>>(), ["phase", "progress"]);
    }

    #[test]
    fn times_show_whole_seconds() {
        let status = FlowStatus { start_time: Some(Time::from_millis(1_999)), ..FlowStatus::default() };
        assert_eq!(serde_json::to_value(&status).unwrap()["startTime"], "1970-01-01T00:00:01Z");
    }
}
