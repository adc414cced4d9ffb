//! The API status of a flow, paged. Owns how the state is shown; never changes it.

use std::ops::Range;

use orlop_core::attempt::{Address, StepIndex};
use orlop_core::machine::flow::FlowPhase;
use orlop_core::machine::step::{StepPhase, StepState};
use orlop_core::spec::status::{
    Audit, Condition, ConditionStatus, FlowStatus, Initiator, InstanceCounts, Progress, StepStatus, cut_message,
};
use orlop_core::time::Time;

use super::facts::{Effective, effective};
use super::index::{GroupIndex, PartCounts};
use super::phrase::{self, Clock};
use super::reason;
use super::state::{Node, Resources, Stage, State};
use super::waits::Waits;
use crate::plan::Plan;

/// A flow's status with one page of step records.
#[derive(Clone, Debug, PartialEq)]
pub struct StatusView {
    /// The status; its steps are those of the page.
    pub status: FlowStatus,
    /// Number of the last change that it shows.
    pub revision: u64,
    /// Number of all records: one for each step, followed by one for each of its instances.
    pub records: usize,
}

/// The status of a flow with the step records whose positions are in `page`: in spec order, `finally` last, instances after their
/// step.
///
/// ```
/// use orlop_core::machine::flow::FlowPhase;
/// use orlop_core::machine::step::StepPhase;
/// use orlop_dag::prelude::*;
/// let plan = Plan::build(FlowSpec::new([Step::manual("approve", "Release it?"), Step::new("publish").after(["approve"])]).into())?;
/// let (mut effects, now) = (Vec::new(), Time::EPOCH);
/// let mut state = init(&plan, &FlowMeta::default(), now, &mut effects);
/// apply(&plan, &mut state, &FlowEvent::Admit, now, &mut effects);
/// let shown = view(&plan, &state, 0..100);
/// assert_eq!((shown.status.phase, shown.records), (FlowPhase::Paused, 2));
/// assert_eq!(shown.status.steps[0].phase, StepPhase::PendingApproval);
/// # Ok::<(), PlanErrors>(())
/// ```
#[must_use]
pub fn view(plan: &Plan, state: &State, page: Range<usize>) -> StatusView {
    let flow = &state.flow;
    let records = state.nodes.len() + state.groups.values().map(|group| group.nodes.len()).sum::<usize>();
    let status = FlowStatus {
        phase: flow.phase,
        message: cut_message(&message(plan, state)),
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
        suspended_seconds: flow.paused_millis / 1000,
    };
    StatusView { status, revision: flow.revision, records }
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
    let instances = match counts {
        Some(counts) => Some(instance_counts(plan, state, at, counts)),
        None => listed_counts(plan, at, unit.state),
    };
    let (reason, message) = if unit.derived { derived_words(state, at, &unit) } else { words(node, counts) };
    // What was skipped has no attempt that counts; a fan-out shows its end once it has one.
    let skipped = unit.state == StepState::SKIPPED;
    let ended = node.ended.filter(|_| !skipped && (counts.is_none() || unit.state.is_settled()));
    StepStatus {
        name: plan.instance_name(at),
        phase: counts
            .filter(|_| node.state == StepState::Queued && !unit.derived)
            .map_or(unit.state.phase(), group_phase),
        reason,
        message,
        start_time: node.started.filter(|_| !skipped),
        completion_time: ended,
        next_retry_time: node.due.filter(|_| node.state == StepState::Backoff),
        job_ref: node.job.as_deref().cloned(),
        retry_count: node.retries,
        attempt: if node.asked && counts.is_none() { node.attempt() } else { 0 },
        lost_count: node.lost,
        counted_failures: node.counted,
        outputs: node.outputs.as_deref().cloned(),
        approval: node.approval.as_deref().cloned(),
        instances,
        waiting: node.waits.as_deref().map(Waits::shown),
        waited_seconds: node.stood / 1000,
    }
}

/// A fan-out under way is Running once an instance has left Pending.
fn group_phase(counts: &GroupIndex) -> StepPhase {
    if counts.begun { StepPhase::Running } else { StepPhase::Pending }
}

fn instance_counts(plan: &Plan, state: &State, at: Address, counts: &GroupIndex) -> InstanceCounts {
    let total = state.groups.get(&at.step.0).map_or(0, |group| u32::try_from(group.nodes.len()).unwrap_or(u32::MAX));
    let finally = plan.get(at.step.0).is_some_and(|step| step.finally);
    // A halt has skipped what was neither settled nor live.
    let skipped = match state.halted(finally) {
        Some(_) => total.saturating_sub(counts.succeeded + counts.failed + counts.live),
        None => counts.skipped,
    };
    InstanceCounts { total, running: counts.running, succeeded: counts.succeeded, failed: counts.failed, skipped }
}

/// Counts of a fan-out whose items the spec lists and whose instances have not begun: they are what the step is.
fn listed_counts(plan: &Plan, at: Address, state: StepState) -> Option<InstanceCounts> {
    let total = plan.get(at.step.0)?.fan_out.as_ref()?.listed.filter(|_| at.item.is_none())?;
    let of = |outcome| if state == outcome { total } else { 0 };
    Some(InstanceCounts {
        total,
        running: 0,
        succeeded: of(StepState::SUCCEEDED),
        failed: of(StepState::FAILED),
        skipped: of(StepState::SKIPPED),
    })
}

/// Reason and message of a unit as they are recorded.
fn words(node: &Node, counts: Option<&GroupIndex>) -> (String, String) {
    let own = node.reason.as_deref().unwrap_or_default();
    let text = node.message.as_deref().unwrap_or_default();
    let (reason, message) = match node.state {
        StepState::Queued if counts.is_some_and(|counts| counts.begun) => ("", text.to_owned()),
        StepState::Queued => (reason::QUEUED, text.to_owned()),
        StepState::Starting if own.is_empty() => (reason::STARTING, text.to_owned()),
        StepState::Starting => (own, node.due.map_or_else(|| text.to_owned(), |due| phrase::again(due, text))),
        StepState::Active => {
            let clock = phrase::clock(Clock { since: node.frozen, stood: node.stood });
            ("", phrase::both(clock, node.waits_for()))
        }
        StepState::Cancelling => (reason::CANCELLING, phrase::with_word(own, &phrase::ends(node.left.as_deref()))),
        StepState::Backoff => (reason::RETRY_SCHEDULED, phrase::with_word(own, text)),
        _ => (own, text.to_owned()),
    };
    (reason.to_owned(), cut_message(&message))
}

/// Reason and message of a unit that a halt has decided.
fn derived_words(state: &State, at: Address, unit: &Effective<'_>) -> (String, String) {
    let reason = match unit.state {
        StepState::Starting => reason::QUEUED,
        _ => unit.reason.unwrap_or_default(),
    };
    let failed = unit.state == StepState::FAILED;
    (reason.to_owned(), if failed { state.group_failures(at.step.0) } else { String::new() })
}

/// Counts of settled units: what a halt has skipped counts though nobody has touched it.
pub(super) fn progress(state: &State) -> Progress {
    let mut progress = Progress::default();
    for finally in [false, true] {
        let part: &PartCounts = state.index.part_of(finally);
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

/// First failure, or what the flow waits for. A cause that is not a step's failure stands in front as a word. A suspended
/// flow does not end either before it is resumed.
fn message(plan: &Plan, state: &State) -> String {
    let cause = state.flow.outcome.as_ref().and_then(|outcome| outcome.cause.as_ref()).or_else(|| state.cause(plan));
    let text = match cause {
        Some(cause) if cause.reason == reason::FLOW_FAILED => cause.message.clone(),
        Some(cause) => phrase::with_word(&cause.reason, &cause.message),
        None => return waits_for(plan, state),
    };
    let flow = &state.flow;
    match flow.paused_at {
        Some(since) if flow.phase == FlowPhase::Suspended && !flow.held => phrase::and_suspended(&text, since),
        _ => text,
    }
}

/// What the flow waits for.
fn waits_for(plan: &Plan, state: &State) -> String {
    let flow = &state.flow;
    let since = flow.paused_at.unwrap_or(flow.now);
    match flow.phase {
        FlowPhase::Suspended if flow.held => phrase::held(since),
        FlowPhase::Suspended => phrase::suspended(since),
        FlowPhase::Paused => {
            let first = state.first_awaiting(plan).and_then(|step| state.node(Address::step(step)));
            first.and_then(|node| node.message.as_deref()).unwrap_or_default().to_owned()
        }
        FlowPhase::Pending => state.blocked().map(|(_, message)| message.to_owned()).unwrap_or_default(),
        FlowPhase::Running => stuck(plan, state),
        _ => String::new(),
    }
}

/// Why the first accepted attempt does not run of which that is known, and how many others there are.
fn stuck(plan: &Plan, state: &State) -> String {
    let Some(at) = state.index.stuck.first() else { return String::new() };
    let why = state.node(*at).map(Node::waits_for).unwrap_or_default();
    let more = match state.index.stuck.len() - 1 {
        0 => String::new(),
        1 => "; 1 more step waits".to_owned(),
        more => format!("; {more} more steps wait"),
    };
    format!("step {}: {why}{more}", plan.instance_name(*at))
}

fn conditions(plan: &Plan, state: &State) -> Vec<Condition> {
    let flow = &state.flow;
    let cause = flow.outcome.as_ref().and_then(|outcome| outcome.cause.as_ref());
    let describe = |kind: &str| -> (String, String) {
        match kind {
            "FailuresTolerated" => ("FailuresTolerated".to_owned(), tolerated(plan, state)),
            "Blocked" => match state.blocked() {
                Some((why, message)) => (why.to_owned(), message.to_owned()),
                None => ("Admitted".to_owned(), String::new()),
            },
            "CancelBlocked" => match blocked_cancellations(plan, state) {
                text if text.is_empty() => ("AttemptsGone".to_owned(), text),
                text => ("CancelBlocked".to_owned(), text),
            },
            "SpecChanged" if flow.held => ("SpecChanged".to_owned(), waits_for(plan, state)),
            "SpecChanged" => ("SpecRestored".to_owned(), String::new()),
            "NotUnderstood" => ("Understood".to_owned(), String::new()),
            _ => {
                let waits = waits_for(plan, state);
                let text = if waits.is_empty() { message(plan, state) } else { waits };
                (ready_reason(flow.phase, cause.map(|cause| cause.reason.as_ref())), text)
            }
        }
    };
    let condition = |(kind, (status, since)): (&super::state::Text, &(ConditionStatus, Time))| {
        let (reason, message) = describe(kind);
        let message = cut_message(&message);
        Condition { kind: kind.to_string(), status: *status, last_transition_time: Some(*since), reason, message }
    };
    flow.conditions.iter().map(condition).collect()
}

/// Cancelled attempts that should be gone, with what is left of them: the first of them.
fn blocked_cancellations(plan: &Plan, state: &State) -> String {
    let text = |at: &Address| {
        let left = state.node(*at).and_then(|node| node.left.as_deref()).unwrap_or_default();
        format!("step {}: {left}", plan.instance_name(*at))
    };
    state.index.blocked.iter().take(5).map(text).collect::<Vec<_>>().join("; ")
}

/// Names of steps whose failure was tolerated, at most 20.
fn tolerated(plan: &Plan, state: &State) -> String {
    let steps = &state.index.tolerated;
    let names: Vec<&str> = steps.iter().take(20).map(|step| plan.name(StepIndex(*step))).collect();
    let more = steps.len() - names.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", names.join(", "))
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
    if flow.attempts_ended == 0 || flow.stage == Stage::Over || flow.started.is_none() {
        return None;
    }
    let index = &state.index;
    let finally = flow.stage == Stage::Finally;
    let frontier = index.live.iter().chain(&index.backoff).chain(&index.ready).map(|at| at.step.0);
    let waits = index.awaiting.iter().chain(&index.gates).copied();
    let steps = frontier.chain(waits).filter(|step| plan.get(*step).is_some_and(|step| step.finally) == finally);
    // After a halt only live attempts are waited for.
    let height = |step| if state.halted(finally).is_some() { Some(1) } else { plan.height(step) };
    let longest = steps.filter_map(height).max()?;
    let mean = flow.attempt_millis / flow.attempts_ended;
    Some(flow.now.plus(std::time::Duration::from_millis(mean.saturating_mul(u64::from(longest)))))
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
