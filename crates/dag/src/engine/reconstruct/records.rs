//! Records of steps and instances: from a status and from executions that exist.

use orlop_core::attempt::Address;
use orlop_core::machine::step::{StepPhase, StepState};
use orlop_core::spec::flow::SuspendMode;
use orlop_core::spec::status::StepStatus;
use orlop_core::time::Time;

use super::super::output::bytes_of;
use super::super::state::{Group, Node, State, Text};
use super::super::waits::{Waits, limit};
use super::super::{failure, phrase, reason};
use super::ObservedAttempt;
use crate::plan::{Plan, StepPlan};

/// A node that is ready and waits for a slot.
fn queued() -> Node {
    Node { state: StepState::Queued, ..Node::default() }
}

/// Reads one record of a status.
pub(super) fn read_step(plan: &Plan, state: &mut State, record: &StepStatus, terminal: bool) {
    let Some(at) = plan.address_of(&record.name) else { return };
    let Some(planned) = plan.get(at.step.0) else { return };
    let mut node = read_node(planned, at, record, terminal, state.flow.now);
    node.due = due(plan, state, at, &node, record);
    match (at.item, record.instances) {
        (Some(item), _) => open_group(planned, state, at.step.0, item as usize + 1),
        (None, Some(counts)) if is_expanded(planned, record) => {
            open_group(planned, state, at.step.0, counts.total as usize);
        }
        _ => {}
    }
    let bytes = node.outputs.as_deref().map_or(0, bytes_of);
    // The arrays of a fan-out repeat what its instances recorded.
    if at.item.is_some() || planned.fan_out.is_none() {
        state.flow.output_bytes = state.flow.output_bytes.saturating_add(bytes);
    }
    if let (true, Some(started), Some(ended)) = (node.ran, node.started, node.ended) {
        let flow = &mut state.flow;
        flow.attempts_ended = flow.attempts_ended.saturating_add(1);
        let millis = u64::try_from(ended.since(started).as_millis()).unwrap_or(u64::MAX);
        flow.attempt_millis = flow.attempt_millis.saturating_add(millis);
    }
    if node.frozen.is_some() {
        state.flow.mode = SuspendMode::Suspend;
        state.flow.suspensions = 1;
    } else if node.state == StepState::Active && node.stood > 0 && state.flow.paused_millis > 0 {
        // Its resumption may never have arrived.
        state.flow.suspensions = 1;
    }
    if let Some(place) = state.node_mut(at) {
        *place = node;
    }
}

/// Whether a fan-out that shows counts has instances: one over a list shows them before it has.
fn is_expanded(planned: &StepPlan, record: &StepStatus) -> bool {
    let read = planned.fan_out.as_ref().is_some_and(|fan_out| fan_out.listed.is_none());
    read || record.reason == reason::EMPTY_FAN_OUT
}

/// Makes room for so many instances.
fn open_group(planned: &StepPlan, state: &mut State, step: u32, wanted: usize) {
    let Some(fan_out) = &planned.fan_out else { return };
    let most = fan_out.listed.map_or(crate::params::ITEMS_MAX, |listed| listed as usize);
    if wanted > most {
        return;
    }
    let count = fan_out.listed.map_or(0, |listed| listed as usize);
    let group = state.groups.entry(step).or_insert_with(|| Group { items: None, nodes: vec![queued(); count] });
    if group.nodes.len() < wanted {
        group.nodes.resize(wanted, queued());
    }
}

fn read_node(planned: &StepPlan, at: Address, record: &StepStatus, terminal: bool, now: Time) -> Node {
    let state = read_state(planned, at, record, terminal);
    let (word, text) = phrase::split_word(&record.message);
    let own = |text: &str| (!text.is_empty()).then(|| Text::Owned(text.to_owned()));
    let (reason, message) = match state {
        StepState::Backoff | StepState::Cancelling if word.is_empty() => (Some(Text::from(UNKNOWN)), text),
        StepState::Backoff => (own(word), text),
        StepState::Cancelling => (own(word), ""),
        StepState::Active => (None, ""),
        StepState::Starting if record.reason == reason::STARTING => (None, record.message.as_str()),
        StepState::Starting => (own(&record.reason), phrase::read_again(&record.message).1),
        _ if state.is_settled() => (own(&record.reason), record.message.as_str()),
        _ => (None, record.message.as_str()),
    };
    let left = (state == StepState::Cancelling).then(|| phrase::read_left(text)).flatten();
    let live = matches!(state, StepState::Active | StepState::Cancelling);
    let clock = if state == StepState::Active { phrase::read_clock(&record.message) } else { phrase::Clock::default() };
    Node {
        state,
        reason,
        message: (!message.is_empty()).then(|| message.to_owned().into_boxed_str()),
        retries: record.retry_count,
        lost: record.lost_count,
        counted: record.counted_failures,
        asked: record.attempt > 0,
        ran: record.job_ref.is_some() || record.phase == StepPhase::Running,
        started: record.start_time,
        ended: record.completion_time,
        due: None,
        frozen: clock.since,
        stood: if state == StepState::Active { clock.stood } else { record.waited_seconds.saturating_mul(1000) },
        waits: record.waiting.as_ref().filter(|_| live).map(|shown| Box::new(Waits::read(shown, now))),
        left: left.map(Box::from),
        job: record.job_ref.clone().map(Box::new),
        outputs: record.outputs.clone().map(Box::new),
        approval: record.approval.clone().map(Box::new),
    }
}

/// The reason of an end that a status does not tell.
const UNKNOWN: &str = "Unknown";

fn read_state(planned: &StepPlan, at: Address, record: &StepStatus, terminal: bool) -> StepState {
    let group = planned.fan_out.is_some() && at.item.is_none();
    let retries_left = planned.retry.as_deref().is_some_and(|(limit, _)| record.retry_count < *limit);
    match record.phase {
        StepPhase::Pending if record.reason.is_empty() && at.item.is_none() => StepState::Waiting,
        StepPhase::Pending if record.reason == reason::QUEUED || record.reason.is_empty() || group => StepState::Queued,
        // Starting, or a word of the substrate why it is not yet accepted.
        StepPhase::Pending => StepState::Starting,
        StepPhase::Running if group => StepState::Queued,
        StepPhase::Running if record.reason == reason::CANCELLING => StepState::Cancelling,
        StepPhase::Running => StepState::Active,
        StepPhase::Succeeded => StepState::SUCCEEDED,
        StepPhase::Failed if record.reason == reason::RETRY_SCHEDULED => StepState::Backoff,
        // A failure without a reason, as other controllers leave it.
        StepPhase::Failed if record.reason.is_empty() && !terminal && retries_left && !group => StepState::Backoff,
        StepPhase::Failed => StepState::FAILED,
        StepPhase::Skipped => StepState::SKIPPED,
        StepPhase::PendingApproval => StepState::Awaiting,
    }
}

/// Timers follow from recorded times and the plan.
fn due(plan: &Plan, state: &State, at: Address, node: &Node, record: &StepStatus) -> Option<Time> {
    match node.state {
        StepState::Active => limit(plan.get(at.step.0)?, node),
        StepState::Awaiting => {
            let timeout = plan.get(at.step.0)?.timeout;
            timeout.zip(node.started).map(|(limit, started)| started.plus(limit))
        }
        StepState::Backoff => Some(record.next_retry_time.unwrap_or_else(|| {
            let delay = failure::delay(plan, &state.flow.meta.uid, at, node);
            node.ended.unwrap_or(state.flow.now).plus(delay)
        })),
        // Without a time it has been asked for again.
        StepState::Starting => phrase::read_again(&record.message).0,
        _ => None,
    }
}

/// An execution the status does not know, or not yet by that number, has been accepted.
pub(super) fn adopt(plan: &Plan, state: &mut State, observed: &ObservedAttempt) {
    let at = observed.at;
    let Some(planned) = plan.get(at.step.0) else { return };
    let runs = planned.fan_out.is_some() == at.item.is_some() && !planned.manual;
    let step_settled = state.nodes.get(at.step.0 as usize).is_none_or(|node| node.state.is_settled());
    if !runs || step_settled || state.flow.completed.is_some() {
        return;
    }
    if let Some(item) = at.item {
        open_group(planned, state, at.step.0, item as usize + 1);
        if let Some(step) = state.nodes.get_mut(at.step.0 as usize) {
            step.state = StepState::Queued;
        }
    }
    let now = state.flow.now;
    let Some(node) = state.node_mut(at).filter(|node| !node.state.is_settled()) else { return };
    let Some(ahead) = observed.attempt.checked_sub(node.attempt()) else { return };
    let waits = matches!(node.state, StepState::Waiting | StepState::Queued | StepState::Starting);
    if ahead == 0 && !waits {
        return;
    }
    node.retries = node.retries.saturating_add(ahead);
    node.clear_attempt();
    node.state = StepState::Active;
    (node.asked, node.ran, node.started) = (true, true, Some(now));
    node.job = Some(Box::new(observed.reference.clone()));
    node.due = planned.timeout.map(|limit| now.plus(limit));
    state.flow.retries = state.flow.retries.saturating_add(ahead);
    if let (Some(_), Some(step)) = (at.item, state.nodes.get_mut(at.step.0 as usize)) {
        step.asked = true;
        step.started.get_or_insert(now);
    }
}

/// Closes gaps between records: a listed fan-out that is to start and has no instances yet is decided again.
pub(super) fn complete(plan: &Plan, state: &mut State) {
    for (number, planned) in (0_u32..).zip(plan.steps()) {
        let Some(fan_out) = &planned.fan_out else { continue };
        let Some(step) = state.nodes.get_mut(number as usize) else { continue };
        let group = state.groups.get_mut(&number);
        match (group, fan_out.listed) {
            (None, Some(_)) if step.state == StepState::Queued => step.state = StepState::Waiting,
            (Some(group), _) => step.asked = group.nodes.iter().any(|node| node.asked),
            (None, _) => {}
        }
    }
}
