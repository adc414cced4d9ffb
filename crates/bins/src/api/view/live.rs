//! What the first view of the page shows, and steps that wait for a decision.

use orlop_core::machine::step::StepPhase;
use orlop_core::spec::status::FlowStatus;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::list::Listed;
use super::times;

/// What a stream shows from now on.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Topics {
    /// overview, flows, jobs, workers, approvals, `flow:ID` or `job:ID`, at most 64
    pub(crate) topics: Vec<String>,
}

/// What waits, and why.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = OverviewWaiting)]
pub(crate) struct WaitingView {
    pub(crate) total: u64,
    pub(crate) why: Vec<WhyView>,
}

/// How many wait for one reason.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = OverviewWhy)]
pub(crate) struct WhyView {
    /// capacity, quota, not-before or turn
    pub(crate) reason: &'static str,
    pub(crate) count: u64,
    /// The reason in words
    pub(crate) text: &'static str,
}

/// Allocated shares of the fleet, 0 to 1.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = OverviewAllocation)]
pub(crate) struct AllocatedView {
    pub(crate) cpu: f64,
    pub(crate) memory: f64,
}

/// What failed in the last hour.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(as = OverviewFailed)]
pub(crate) struct FailedView {
    pub(crate) count: u64,
    /// There may be more
    pub(crate) at_least: bool,
    pub(crate) reasons: Vec<ReasonView>,
    pub(crate) newest: Option<FailedJob>,
}

/// How many failed for one reason.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = OverviewReason)]
pub(crate) struct ReasonView {
    pub(crate) reason: String,
    pub(crate) count: u64,
}

/// A job that failed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = OverviewJob)]
pub(crate) struct FailedJob {
    pub(crate) id: String,
    pub(crate) name: Option<String>,
    pub(crate) flow: Option<String>,
    pub(crate) reason: String,
    pub(crate) exit_code: Option<i32>,
    pub(crate) ended_at: Option<String>,
}

/// A step that waits for a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = PendingApproval)]
pub(crate) struct PendingApproval {
    /// The flow and the step, as one word
    pub(crate) id: String,
    pub(crate) flow: String,
    pub(crate) flow_name: String,
    pub(crate) tenant: String,
    pub(crate) step: String,
    pub(crate) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<String>,
}

/// Steps that wait for a decision.
pub(crate) type ApprovalList = Listed<PendingApproval>;

/// The steps of a flow that wait for a decision. `shown`: the name of a step as its definition spells it.
pub(crate) fn approvals<'s>(
    flow: &'s str,
    name: &'s str,
    tenant: &'s str,
    status: &'s FlowStatus,
) -> impl Iterator<Item = PendingApproval> + 's {
    let waits = status.steps.iter().filter(|step| step.phase == StepPhase::PendingApproval);
    waits.map(move |step| PendingApproval {
        id: format!("{flow}/{}", step.name),
        flow: flow.to_owned(),
        flow_name: name.to_owned(),
        tenant: tenant.to_owned(),
        step: step.name.clone(),
        message: step.message.clone(),
        since: times(step.start_time),
    })
}

/// The graph of a flow in column form: `nodes`, `edges`, `bends` and `groups` each hold parallel arrays.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FlowGraph)]
pub(crate) struct GraphShape {
    /// `name`, `kind`, `finally`, `wave`, `template`, `group`, `x`, `y`
    #[schema(value_type = Object)]
    pub(crate) nodes: (),
    /// `from`, `to`, `needs`: `satisfied` or `settled`
    #[schema(value_type = Object)]
    pub(crate) edges: (),
    /// Where edges bend: `edge`, `x`, `y`
    #[schema(value_type = Object)]
    pub(crate) bends: (),
    /// `kind`, `prefix`, `members`, `x`, `y`, `width`, `height`
    #[schema(value_type = Object)]
    pub(crate) groups: (),
    /// `width`, `height`
    #[schema(value_type = Object)]
    pub(crate) size: (),
    /// `width`, `height` of a box
    #[schema(value_type = Object)]
    pub(crate) node_size: (),
    /// Where the rule above `finally` lies
    pub(crate) finally_y: Option<i64>,
    pub(crate) waves: u32,
    /// `version`, `crossings`, `complete`
    #[schema(value_type = Object)]
    pub(crate) layout: (),
}
