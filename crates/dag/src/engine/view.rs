//! The API status of a flow, paged. Owns how the state is shown; never changes it.

use std::ops::Range;

use orlop_core::attempt::{Address, StepIndex};
use orlop_core::machine::flow::FlowPhase;
use orlop_core::machine::step::{StepPhase, StepState};
use orlop_core::spec::status::{
    Audit, Condition, ConditionStatus, FlowStatus, Initiator, InstanceCounts, Progress, StepStatus, cut_message,
};
use orlop_core::time::Time;

use super::facts::effective;
use super::index::{GroupIndex, Part};
use super::reason;
use super::state::{Node, Resources, Stage, State};
use crate::plan::Plan;

/// A flow's status with one page of step records.
#[derive(Clone, Debug, PartialEq)]
pub struct StatusView {
    /// The status; its steps are those of the page.
    pub status: FlowStatus,
    /// Number of the change it shows.
    pub revision: u64,
    /// Records in all: one per step, followed by one per instance of it.
    pub records: usize,
}

/// The status of a flow with the step records in `page`, in spec order, `finally` last, instances after their step.
#[must_use]
pub fn view(plan: &Plan, state: &State, page: Range<usize>) -> StatusView {
    let flow = &state.flow;
    let records = state.nodes.len() + state.groups.values().map(|group| group.nodes.len()).sum::<usize>();
    let status = FlowStatus {
        phase: flow.phase,
        message: cut_message(&message(state)),
        conditions: conditions(plan, state),
        start_time: flow.started,
        completion_time: flow.completed,
        estimated_completion_time: estimate(plan, state),
        steps: addresses(state, page).map(|at| step_status(plan, state, at)).collect(),
        steps_packed: None,
        progress: progress(state),
        resource_refs: match &flow.resources {
            Resources::Ready(refs) => refs.clone(),
            _ => Vec::new(),
        },
        audit: audit(state),
        observed_generation: flow.meta.generation,
        spec_hash: flow.started.and(flow.meta.spec_hash.clone()),
        retries: flow.retries,
        suspended_seconds: paused_millis(state) / 1000,
    };
    StatusView { status, revision: flow.revision, records }
}

/// The status of a flow whose spec was refused: terminal at once (transition T1).
#[must_use]
pub fn refused(steps: usize, cause: &str, message: &str, now: Time) -> FlowStatus {
    let total = u32::try_from(steps).unwrap_or(u32::MAX);
    let condition = |kind: &str, status| Condition {
        kind: kind.to_owned(),
        status,
        last_transition_time: Some(now),
        reason: cause.to_owned(),
        message: cut_message(message),
    };
    FlowStatus {
        phase: FlowPhase::Failed,
        message: cut_message(message),
        conditions: vec![condition("Failed", ConditionStatus::True), condition("Ready", ConditionStatus::False)],
        start_time: Some(now),
        completion_time: Some(now),
        progress: Progress { total_steps: total, summary: format!("0/{total}"), ..Progress::default() },
        ..FlowStatus::default()
    }
}

/// Addresses of the records in `page`.
fn addresses(state: &State, page: Range<usize>) -> impl Iterator<Item = Address> {
    let steps = u32::try_from(state.nodes.len()).unwrap_or(u32::MAX);
    let instances =
        |step: u32| state.groups.get(&step).map_or(0, |group| u32::try_from(group.nodes.len()).unwrap_or(0));
    (0..steps)
        .flat_map(move |step| {
            std::iter::once(Address::step(step))
                .chain((0..instances(step)).map(move |item| Address::instance(step, item)))
        })
        .skip(page.start)
        .take(page.end.saturating_sub(page.start))
}

/// The record of one step or instance.
#[must_use]
pub fn step_status(plan: &Plan, state: &State, at: Address) -> StepStatus {
    let Some(node) = state.node(at) else { return StepStatus::default() };
    let unit = effective(plan, state, at);
    let counts = state.index.groups.get(&at.step.0).filter(|_| at.item.is_none());
    let derived = unit.state != node.state;
    let (reason, message) = if derived {
        (unit.reason.unwrap_or_default().to_owned(), String::new())
    } else {
        (shown_reason(node), node.message.as_deref().unwrap_or_default().to_owned())
    };
    StepStatus {
        name: plan.instance_name(at),
        phase: counts.filter(|_| !unit.state.is_settled()).map_or(unit.state.phase(), group_phase),
        reason,
        message,
        start_time: node.started.filter(|_| !derived),
        completion_time: node.ended.filter(|_| !derived),
        next_retry_time: node.due.filter(|_| node.state == StepState::Backoff),
        job_ref: node.job.as_deref().cloned(),
        retry_count: node.retries,
        attempt: if node.ran || node.state.is_live() { node.attempt() } else { 0 },
        lost_count: node.lost,
        counted_failures: node.counted,
        outputs: node.outputs.as_deref().cloned(),
        approval: node.approval.as_deref().cloned(),
        instances: counts.map(|counts| instance_counts(state, at.step, counts)),
    }
}

/// A fan-out under way is Running once an instance has left Pending.
fn group_phase(counts: &GroupIndex) -> StepPhase {
    let begun = counts.running + counts.succeeded + counts.failed + counts.skipped > 0;
    if begun { StepPhase::Running } else { StepPhase::Pending }
}

fn instance_counts(state: &State, step: StepIndex, counts: &GroupIndex) -> InstanceCounts {
    let total = state.groups.get(&step.0).map_or(0, |group| u32::try_from(group.nodes.len()).unwrap_or(u32::MAX));
    InstanceCounts {
        total,
        running: counts.running,
        succeeded: counts.succeeded,
        failed: counts.failed,
        skipped: counts.skipped,
    }
}

fn shown_reason(node: &Node) -> String {
    let own = || node.reason.as_deref().unwrap_or_default().to_owned();
    match node.state {
        StepState::Queued => reason::QUEUED.to_owned(),
        StepState::Starting if node.reason.is_none() => reason::STARTING.to_owned(),
        StepState::Cancelling => reason::CANCELLING.to_owned(),
        StepState::Backoff => reason::RETRY_SCHEDULED.to_owned(),
        _ => own(),
    }
}

/// Counts of settled units: what a halt has skipped counts though nobody has touched it.
pub(super) fn progress(state: &State) -> Progress {
    let mut progress = Progress::default();
    for finally in [false, true] {
        let part: &Part = state.index.part_of(finally);
        let skipped = match state.halted(finally) {
            Some(_) => part.units.saturating_sub(part.succeeded + part.failed + part.live),
            None => part.skipped,
        };
        progress.total_steps += part.units;
        progress.successful_steps += part.succeeded;
        progress.failed_steps += part.failed;
        progress.skipped_steps += skipped;
        progress.running_steps += part.running;
    }
    progress.completed_steps = progress.successful_steps + progress.failed_steps + progress.skipped_steps;
    progress.summary = format!("{}/{}", progress.completed_steps, progress.total_steps);
    progress
}

/// First failure, or what the flow waits for.
fn message(state: &State) -> String {
    let flow = &state.flow;
    if let Some(outcome) = &flow.outcome
        && let Some(cause) = &outcome.cause
    {
        return cause.message.clone();
    }
    match flow.phase {
        FlowPhase::Suspended if flow.held => "the spec was changed after the start; restore it to go on".to_owned(),
        FlowPhase::Suspended => "suspended; resume it to go on".to_owned(),
        FlowPhase::Paused => {
            let first = state.index.awaiting.first().and_then(|step| state.node(Address::step(*step)));
            first.and_then(|node| node.message.as_deref()).unwrap_or_default().to_owned()
        }
        FlowPhase::Pending => flow.blocked.as_ref().map(|(_, message)| message.clone()).unwrap_or_default(),
        _ => flow.failure.as_ref().map(|cause| cause.message.clone()).unwrap_or_default(),
    }
}

fn conditions(plan: &Plan, state: &State) -> Vec<Condition> {
    let flow = &state.flow;
    let cause = flow.outcome.as_ref().and_then(|outcome| outcome.cause.as_ref());
    let text = message(state);
    let describe = |kind: &str| -> (String, String) {
        match kind {
            "FailuresTolerated" => {
                let names: Vec<String> = flow.tolerated.iter().map(|at| plan.instance_name(*at)).collect();
                let more = flow.tolerated_count.saturating_sub(u32::try_from(names.len()).unwrap_or(u32::MAX));
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                ("FailuresTolerated".to_owned(), format!("{}{more}", names.join(", ")))
            }
            "Blocked" => match &flow.blocked {
                Some((why, message)) => (why.to_string(), message.clone()),
                None => ("Admitted".to_owned(), String::new()),
            },
            "SpecChanged" if flow.held => ("SpecChanged".to_owned(), text.clone()),
            "SpecChanged" => ("SpecRestored".to_owned(), String::new()),
            _ => (ready_reason(flow.phase, cause.map(|cause| cause.reason.as_ref())), text.clone()),
        }
    };
    flow.conditions
        .iter()
        .map(|(kind, (status, since))| {
            let (reason, message) = describe(kind);
            let message = cut_message(&message);
            Condition { kind: kind.to_string(), status: *status, last_transition_time: Some(*since), reason, message }
        })
        .collect()
}

fn ready_reason(phase: FlowPhase, cause: Option<&str>) -> String {
    match phase {
        FlowPhase::Pending => "FlowPending",
        FlowPhase::Running => "FlowRunning",
        FlowPhase::Paused => "FlowPaused",
        FlowPhase::Suspended => "FlowSuspended",
        FlowPhase::Succeeded => "FlowSucceeded",
        FlowPhase::Failed => cause.unwrap_or(reason::FLOW_FAILED),
    }
    .to_owned()
}

/// Now + longest remaining path × mean attempt time; absent until an attempt ended and once the flow has.
fn estimate(plan: &Plan, state: &State) -> Option<Time> {
    let flow = &state.flow;
    if flow.attempts_ended == 0 || flow.stage != Stage::Main || flow.started.is_none() {
        return None;
    }
    let index = &state.index;
    let frontier = index.live.iter().chain(&index.backoff).chain(&index.ready).map(|at| at.step.0);
    let waits = index.awaiting.iter().chain(&index.gates).copied();
    let longest = frontier.chain(waits).filter_map(|step| plan.height(step)).max()?;
    let mean = flow.attempt_millis / flow.attempts_ended;
    Some(flow.now.plus(std::time::Duration::from_millis(mean.saturating_mul(u64::from(longest)))))
}

fn paused_millis(state: &State) -> u64 {
    let flow = &state.flow;
    let running = flow.paused_at.filter(|_| flow.started.is_some()).map(|since| flow.now.since(since).as_millis());
    flow.paused_millis.saturating_add(u64::try_from(running.unwrap_or(0)).unwrap_or(u64::MAX))
}

fn audit(state: &State) -> Option<Audit> {
    let annotation = |key: &str| state.flow.meta.annotations.get(&format!("{}/{key}", orlop_core::spec::flow::GROUP));
    let user = annotation("initiated-by");
    let correlation_id = annotation("correlation-id").cloned();
    if user.is_none() && correlation_id.is_none() {
        return None;
    }
    let kind = annotation("initiator-type").cloned().unwrap_or_default();
    Some(Audit { initiated_by: user.map(|user| Initiator { user: user.clone(), kind }), correlation_id })
}
