//! Flows and pipelines as they are shown.

use std::collections::BTreeMap;

use orlop_core::machine::flow::FlowPhase;
use orlop_core::machine::step::StepPhase;
use orlop_core::ports::fleet_store::Pipeline;
use orlop_core::spec::flow::KIND;
use orlop_core::spec::status::{FlowStatus, StepStatus};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa::openapi::{Ref, RefOr, Schema};

use super::flow_state::{step_reason, waiting};
use super::list::Listed;
use super::{time, times};
use crate::host::scheduler::flows::{FlowRead, FlowSummary};

/// Causes for which a step counts as cancelled.
const CANCELLED: [&str; 3] = ["Stopped", "Terminated", "Replaced"];

/// A flow that was taken.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FlowAccepted)]
pub(crate) struct FlowAccepted {
    pub(crate) id: String,
    pub(crate) name: String,
}

/// What became of an order.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FlowOrdered)]
pub(crate) struct FlowOrdered {
    pub(crate) id: String,
    /// Whether there was anything to do
    pub(crate) taken: bool,
}

/// A flow.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Flow)]
pub(crate) struct FlowView {
    pub(crate) id: String,
    pub(crate) tenant: String,
    pub(crate) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pipeline: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<u32>,
    /// Pending, Running, Completed, Failed or Cancelled
    pub(crate) state: String,
    /// Pending, Running, Paused, Suspended, Succeeded or Failed
    pub(crate) phase: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) message: String,
    /// Such as `3/10`
    pub(crate) progress: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) started_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ended_at: Option<String>,
    /// Who submitted it; only where one flow is shown
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) by: String,
    /// Why it failed, one word; only where one flow is shown
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) cause: String,
    /// Only where one flow is shown
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) steps: Vec<StepView>,
    /// The object with its status; only where it is asked for
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = job_flow, required = false)]
    pub(crate) object: Option<Value>,
}

fn job_flow() -> RefOr<Schema> {
    RefOr::Ref(Ref::from_schema_name(KIND))
}

/// A step, or an instance of one.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FlowStep)]
pub(crate) struct StepView {
    pub(crate) name: String,
    /// Pending, Running, Completed, Skipped, Failed or Cancelled
    pub(crate) state: String,
    /// Pending, Waiting, Running, Succeeded, Failed, Skipped or PendingApproval
    pub(crate) phase: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) message: String,
    /// Number of its newest attempt; 0 = none yet
    pub(crate) attempt: u32,
    pub(crate) retries: u32,
    /// Attempts lost with their workers
    pub(crate) lost: u32,
    /// The job of its newest attempt
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) job: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) started_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ended_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next_retry_at: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) outputs: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) approval: Option<ApprovalView>,
}

/// A decision about a step.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Approval)]
pub(crate) struct ApprovalView {
    /// Approved, Rejected or TimedOut
    pub(crate) decision: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) by: Option<String>,
    /// Whether who decided was authenticated
    pub(crate) verified: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
}

/// Flows.
pub(crate) type FlowList = Listed<FlowView>;

/// A pipeline.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Pipeline)]
pub(crate) struct PipelineView {
    pub(crate) id: String,
    pub(crate) tenant: String,
    pub(crate) name: String,
    /// Grows with every change
    pub(crate) version: u32,
    /// When this version was stored
    pub(crate) created_at: String,
    /// Only where one pipeline is shown
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub(crate) definition: Option<Value>,
}

/// Pipelines.
pub(crate) type PipelineList = Listed<PipelineView>;

/// The graph of a pipeline.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Dag)]
pub(crate) struct DagView {
    pub(crate) nodes: Vec<NodeView>,
    pub(crate) edges: Vec<EdgeView>,
}

/// A step in a graph.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DagNode)]
pub(crate) struct NodeView {
    pub(crate) name: String,
    /// `Job` or `Manual`
    pub(crate) kind: String,
    /// Steps of one wave wait for none of each other; from 0
    pub(crate) wave: u32,
    /// Runs after all others
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) finally: bool,
}

/// An order between steps.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DagEdge)]
pub(crate) struct EdgeView {
    pub(crate) from: String,
    pub(crate) to: String,
}

impl PipelineView {
    /// A pipeline without its definition.
    pub(crate) fn short(pipeline: &Pipeline) -> Self {
        Self {
            id: pipeline.id.clone(),
            tenant: pipeline.tenant.to_string(),
            name: pipeline.name.clone(),
            version: pipeline.version,
            created_at: time(pipeline.created_at),
            definition: None,
        }
    }
}

impl From<Pipeline> for PipelineView {
    fn from(pipeline: Pipeline) -> Self {
        Self { definition: Some(pipeline.definition.clone()), ..Self::short(&pipeline) }
    }
}

/// The state of a flow in the words of pipelines.
pub(crate) fn flow_state(phase: &str, cancelled: bool) -> &'static str {
    match phase.parse() {
        Ok(FlowPhase::Succeeded) => "Completed",
        Ok(FlowPhase::Failed) if cancelled => "Cancelled",
        Ok(FlowPhase::Failed) => "Failed",
        Ok(FlowPhase::Running | FlowPhase::Paused | FlowPhase::Suspended) => "Running",
        Ok(FlowPhase::Pending) | Err(_) => "Pending",
    }
}

fn step_state(step: &StepStatus) -> &'static str {
    let cancelled = CANCELLED.contains(&step.reason.as_str());
    match step.phase {
        StepPhase::Pending => "Pending",
        StepPhase::Running | StepPhase::PendingApproval => "Running",
        StepPhase::Failed if step.next_retry_time.is_some() => "Running",
        StepPhase::Failed if cancelled => "Cancelled",
        StepPhase::Failed => "Failed",
        StepPhase::Succeeded => "Completed",
        StepPhase::Skipped => "Skipped",
    }
}

impl From<FlowSummary> for FlowView {
    fn from(known: FlowSummary) -> Self {
        let FlowSummary { document, progress, message, started_at, cancelled, labels } = known;
        let (pipeline, version) = document.pipeline.unzip();
        Self {
            id: document.id,
            tenant: document.tenant.to_string(),
            name: document.name,
            pipeline,
            version,
            state: flow_state(&document.phase, cancelled).to_owned(),
            phase: document.phase,
            message,
            progress,
            labels,
            created_at: time(document.created_at),
            started_at: times(started_at),
            ended_at: times(document.ended_at),
            by: String::new(),
            cause: String::new(),
            steps: Vec::new(),
            object: None,
        }
    }
}

impl FlowView {
    /// A flow in a list, as it stands now: what is listed may be behind.
    pub(crate) fn row(known: FlowSummary, status: &FlowStatus) -> Self {
        let cancelled = CANCELLED.contains(&cause(status).as_str());
        let phase = status.phase.to_string();
        Self {
            state: flow_state(&phase, cancelled).to_owned(),
            phase,
            message: status.message.clone(),
            progress: status.progress.summary.clone(),
            started_at: times(status.start_time),
            ended_at: times(status.completion_time),
            ..Self::from(known)
        }
    }
}

/// Why a flow failed, one word.
fn cause(status: &FlowStatus) -> String {
    let failed = status.conditions.iter().find(|condition| condition.kind == "Failed");
    failed.map(|condition| condition.reason.clone()).unwrap_or_default()
}

impl FlowView {
    /// A flow with its steps; with `object` also as the object it was submitted as.
    pub(crate) fn of(read: &FlowRead, object: bool) -> Self {
        let status = read.status();
        let cause = cause(&status);
        let cancelled = CANCELLED.contains(&cause.as_str());
        let document = read.document.clone();
        let (pipeline, version) = document.pipeline.unzip();
        let phase = status.phase.to_string();
        Self {
            id: document.id,
            tenant: document.tenant.to_string(),
            name: document.name,
            pipeline,
            version,
            state: flow_state(&phase, cancelled).to_owned(),
            phase,
            message: status.message.clone(),
            progress: status.progress.summary.clone(),
            labels: read.object.metadata.labels.clone(),
            created_at: time(document.created_at),
            started_at: times(status.start_time),
            ended_at: times(status.completion_time),
            by: read.driver.by.clone(),
            cause,
            steps: status.steps.iter().map(|step| StepView::of(read, step)).collect(),
            object: object.then(|| serde_json::to_value(&read.object).unwrap_or_default()),
        }
    }
}

impl StepView {
    /// A step under the name its pipeline gave it.
    pub(crate) fn of(read: &FlowRead, step: &StepStatus) -> Self {
        let waits = waiting(step);
        let outputs = step.outputs.iter().flat_map(|outputs| &outputs.parameters);
        let outputs = outputs.map(|output| (output.name.clone(), output.value.clone()));
        let approval = step.approval.as_ref().map(|approval| ApprovalView {
            decision: format!("{:?}", approval.decision),
            by: approval.by.clone(),
            verified: approval.verified,
            reason: approval.reason.clone(),
        });
        Self {
            name: read.shown(&step.name).to_owned(),
            state: step_state(step).to_owned(),
            phase: if waits.is_some() { "Waiting".to_owned() } else { step.phase.to_string() },
            reason: step_reason(step).to_owned(),
            message: waits.map_or(&step.message, |waiting| &waiting.message).clone(),
            attempt: step.attempt,
            retries: step.retry_count,
            lost: step.lost_count,
            job: step.job_ref.as_ref().map(|job| job.uid.clone()),
            started_at: times(step.start_time.filter(|_| waits.is_none())),
            ended_at: times(step.completion_time),
            next_retry_at: times(step.next_retry_time),
            outputs: outputs.collect(),
            approval,
        }
    }
}
