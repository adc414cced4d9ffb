//! The steps of a flow in column form: parallel arrays in place of a list of objects, in the order of the graph.

use std::collections::BTreeMap;
use std::sync::Arc;

use orlop_core::machine::step::StepPhase;
use orlop_core::spec::status::{FlowStatus, InstanceCounts, StepStatus, Waiting};
use orlop_core::time::Time;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

/// Causes for which a step counts as cancelled.
const CANCELLED: [&str; 3] = ["Stopped", "Terminated", "Replaced"];

/// What keeps the accepted attempt of a step from running.
pub(crate) fn waiting(step: &StepStatus) -> Option<&Waiting> {
    step.waiting.as_ref().filter(|_| step.phase == StepPhase::Running)
}

/// Where a step stands, in a word for people. A step whose job has no worker waits, whatever the flow has accepted.
pub(crate) fn step_word(step: &StepStatus) -> &'static str {
    match step.phase {
        StepPhase::Pending => "Pending",
        StepPhase::Running if waiting(step).is_some() => "Waiting",
        StepPhase::Running => "Running",
        StepPhase::PendingApproval => "PendingApproval",
        StepPhase::Failed if step.next_retry_time.is_some() => "Retrying",
        StepPhase::Failed if CANCELLED.contains(&step.reason.as_str()) => "Cancelled",
        StepPhase::Failed => "Failed",
        StepPhase::Succeeded => "Succeeded",
        StepPhase::Skipped => "Skipped",
    }
}

/// The reason of a step in a word: of one that waits what it waits for.
pub(crate) fn step_reason(step: &StepStatus) -> &str {
    match waiting(step) {
        Some(waiting) if !waiting.reason.is_empty() => &waiting.reason,
        _ => &step.reason,
    }
}

/// A flow and its steps at one moment. Times are milliseconds since 1970.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FlowState {
    /// Number of the change that it shows
    pub(crate) seq: u64,
    pub(crate) flow: FlowHead,
    pub(crate) nodes: NodeColumns,
}

/// The flow itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct FlowHead {
    /// Pending, Running, Paused, Suspended, Succeeded or Failed
    pub(crate) phase: String,
    pub(crate) message: String,
    /// Such as `3/10`
    pub(crate) progress: String,
    pub(crate) started_at: Option<i64>,
    pub(crate) ended_at: Option<i64>,
}

/// One entry a node in each column, in the order of the graph; of a change, of the nodes in `index` only.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(crate) struct NodeColumns {
    /// Of a change: which nodes these are
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) index: Option<Vec<u32>>,
    /// Pending, Waiting, Running, Retrying, PendingApproval, Succeeded, Failed, Cancelled or Skipped
    pub(crate) phase: Vec<&'static str>,
    pub(crate) reason: Vec<String>,
    pub(crate) message: Vec<String>,
    pub(crate) attempt: Vec<u32>,
    pub(crate) retries: Vec<u32>,
    pub(crate) started_at: Vec<Option<i64>>,
    pub(crate) ended_at: Vec<Option<i64>>,
    pub(crate) next_retry_at: Vec<Option<i64>>,
    /// The job of the newest attempt
    pub(crate) job: Vec<Option<String>>,
    /// Of a fan-out: all instances, running, succeeded, failed, skipped
    pub(crate) instances: Vec<Option<[u32; 5]>>,
}

#[derive(Clone, Debug, PartialEq)]
struct Node {
    phase: &'static str,
    reason: String,
    message: String,
    attempt: u32,
    retries: u32,
    started_at: Option<i64>,
    ended_at: Option<i64>,
    next_retry_at: Option<i64>,
    job: Option<String>,
    instances: Option<[u32; 5]>,
}

fn counts(counts: &InstanceCounts) -> [u32; 5] {
    [counts.total, counts.running, counts.succeeded, counts.failed, counts.skipped]
}

fn millis(time: Option<Time>) -> Option<i64> {
    time.map(Time::millis)
}

impl Node {
    fn of(step: &StepStatus) -> Self {
        let waits = waiting(step);
        Self {
            phase: step_word(step),
            reason: step_reason(step).to_owned(),
            message: waits.map_or(&step.message, |waiting| &waiting.message).clone(),
            attempt: step.attempt,
            retries: step.retry_count,
            // What waits has not begun.
            started_at: millis(step.start_time.filter(|_| waits.is_none())),
            ended_at: millis(step.completion_time),
            next_retry_at: millis(step.next_retry_time),
            job: step.job_ref.as_ref().map(|job| job.uid.clone()),
            instances: step.instances.as_ref().map(counts),
        }
    }
}

/// A flow as it was shown last.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    seq: u64,
    head: FlowHead,
    nodes: Vec<Node>,
    places: Arc<BTreeMap<String, usize>>,
}

impl Shown {
    /// A flow whose nodes have these names, in the order of the graph.
    pub(crate) fn new(names: &[String], status: &FlowStatus, seq: u64) -> Self {
        let places = names.iter().enumerate().map(|(place, name)| (name.clone(), place)).collect();
        Self::at(&Arc::new(places), status, seq)
    }

    fn at(places: &Arc<BTreeMap<String, usize>>, status: &FlowStatus, seq: u64) -> Self {
        let mut nodes = vec![Node::of(&StepStatus::default()); places.len()];
        // Others are instances.
        for step in &status.steps {
            if let Some(node) = places.get(&step.name).and_then(|place| nodes.get_mut(*place)) {
                *node = Node::of(step);
            }
        }
        let head = FlowHead {
            phase: status.phase.to_string(),
            message: status.message.clone(),
            progress: status.progress.summary.clone(),
            started_at: millis(status.start_time),
            ended_at: millis(status.completion_time),
        };
        Self { seq, head, nodes, places: Arc::clone(places) }
    }

    /// The whole of it.
    pub(crate) fn state(&self) -> FlowState {
        let all: Vec<usize> = (0..self.nodes.len()).collect();
        FlowState { seq: self.seq, flow: self.head.clone(), nodes: NodeColumns { index: None, ..self.columns(&all) } }
    }

    fn columns(&self, which: &[usize]) -> NodeColumns {
        let mut columns = NodeColumns::default();
        for node in which.iter().filter_map(|place| self.nodes.get(*place)) {
            columns.phase.push(node.phase);
            columns.reason.push(node.reason.clone());
            columns.message.push(node.message.clone());
            columns.attempt.push(node.attempt);
            columns.retries.push(node.retries);
            columns.started_at.push(node.started_at);
            columns.ended_at.push(node.ended_at);
            columns.next_retry_at.push(node.next_retry_at);
            columns.job.push(node.job.clone());
            columns.instances.push(node.instances);
        }
        let index = which.iter().filter_map(|place| u32::try_from(*place).ok()).collect();
        NodeColumns { index: Some(index), ..columns }
    }

    /// What has changed since, if anything; it is shown from now on. An older status changes nothing.
    pub(crate) fn update(&mut self, status: &FlowStatus, seq: u64) -> Option<Value> {
        if seq <= self.seq {
            return None;
        }
        let newer = Self::at(&self.places, status, seq);
        let pairs = self.nodes.iter().zip(&newer.nodes).enumerate();
        let changed: Vec<usize> = pairs.filter(|(_, (old, new))| old != new).map(|(place, _)| place).collect();
        let head = (self.head != newer.head).then(|| newer.head.clone());
        *self = newer;
        if changed.is_empty() && head.is_none() {
            return None;
        }
        let mut delta = json!({ "seq": seq });
        if let Some(head) = head {
            delta["flow"] = json!(head);
        }
        if !changed.is_empty() {
            delta["nodes"] = json!(self.columns(&changed));
        }
        Some(delta)
    }
}

#[cfg(test)]
mod tests {
    use orlop_core::spec::status::WaitsOn;

    use super::*;

    fn step(name: &str, phase: StepPhase) -> StepStatus {
        StepStatus { name: name.to_owned(), phase, start_time: Some(Time::from_millis(5)), ..StepStatus::default() }
    }

    fn status(steps: Vec<StepStatus>) -> FlowStatus {
        FlowStatus { steps, ..FlowStatus::default() }
    }

    #[test]
    fn a_step_whose_job_has_no_worker_waits_and_has_not_begun() {
        let waiting =
            Waiting { on: WaitsOn::Suspended, reason: "Queued".to_owned(), message: "no room".to_owned(), since: None };
        let waits = StepStatus { waiting: Some(waiting), ..step("a", StepPhase::Running) };
        let shown = Shown::new(&["a".to_owned()], &status(vec![waits]), 1).state();
        let nodes = shown.nodes;
        assert_eq!((nodes.phase[0], nodes.reason[0].as_str(), nodes.started_at[0]), ("Waiting", "Queued", None));
        assert_eq!(nodes.message[0], "no room");
    }

    #[test]
    fn a_change_names_the_nodes_that_changed_and_nothing_else() {
        let names = ["a".to_owned(), "b".to_owned()];
        let first = status(vec![step("a", StepPhase::Running), step("b", StepPhase::Pending)]);
        let mut shown = Shown::new(&names, &first, 1);
        assert_eq!(shown.update(&first, 2), None);
        let second = status(vec![
            step("a", StepPhase::Succeeded),
            step("a-i0", StepPhase::Running),
            step("b", StepPhase::Pending),
        ]);
        let delta = shown.update(&second, 3).unwrap();
        assert_eq!((&delta["nodes"]["index"], &delta["nodes"]["phase"]), (&json!([0]), &json!(["Succeeded"])));
        assert_eq!(delta.get("flow"), None);
        assert_eq!(shown.update(&first, 2), None, "an older status changes nothing");
        assert_eq!(shown.state().nodes.phase, ["Succeeded", "Pending"]);
    }
}
