//! Rebuilding a state from what the API shows (section 3.1): per step, the higher of the recorded attempt and the highest
//! execution that exists wins. For stores that keep a status and no journal.

use std::collections::BTreeMap;

use orlop_core::attempt::Address;
use orlop_core::effect::FlowEffect;
use orlop_core::machine::flow::FlowPhase;
use orlop_core::machine::step::{StepOutcome, StepPhase, StepState};
use orlop_core::spec::meta::ObjectReference;
use orlop_core::spec::status::{ConditionStatus, FlowStatus, StepStatus};
use orlop_core::time::Time;

use super::index::Index;
use super::state::{Cause, FlowMeta, Group, Node, Outcome, Resources, Stage, State, Text};
use super::{Call, flow, reason};
use crate::plan::Plan;

/// An execution that exists in the world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedAttempt {
    /// Whose attempt.
    pub at: Address,
    /// Its number.
    pub attempt: u32,
    /// What runs it.
    pub reference: ObjectReference,
}

/// Rebuilds a state from a status and what exists. Results of attempts that have ended come as events afterwards.
pub fn reconstruct(
    plan: &Plan,
    meta: &FlowMeta,
    (status, live): (&FlowStatus, &[ObservedAttempt]),
    now: Time,
    out: &mut Vec<FlowEffect>,
) -> State {
    let mut state = flow::blank(plan, meta, now);
    read_flow(plan, &mut state, status);
    for record in &status.steps {
        read_step(plan, &mut state, record, status.phase.is_terminal());
    }
    for observed in live {
        adopt(plan, &mut state, observed);
    }
    infer_halts(plan, &mut state, status);
    restore_timers(plan, &mut state);
    state.index = Index::rebuild(plan, &state.nodes, &state.groups);
    let mut call = Call::new(plan, &mut state, now, out);
    call.go_on();
    state
}

impl Call<'_> {
    /// Looks at every step once: a reconstructed flow may stand between any two changes.
    fn go_on(&mut self) {
        if self.state.flow.completed.is_some() {
            return;
        }
        super::start::outstanding(self.plan, self.state, self.out);
        if self.state.flow.started.is_none() || self.state.flow.resources == Resources::Asked {
            return;
        }
        for step in 0..u32::try_from(self.plan.len()).unwrap_or(u32::MAX) {
            let node = self.state.node(Address::step(step)).map(|node| node.state);
            let finally = self.is_finally(Address::step(step));
            if finally != (self.state.flow.stage == Stage::Finally) || self.state.halted(finally).is_some() {
                continue;
            }
            if node == Some(StepState::Waiting) && self.state.index.remaining.get(step as usize) == Some(&0) {
                self.evaluate(step);
            }
            self.skip_if_unsatisfied(step);
        }
        self.close();
    }

    /// Skips what an unsatisfied step should have skipped before the host stopped.
    fn skip_if_unsatisfied(&mut self, step: u32) {
        let at = Address::step(step);
        let settled = self.state.node(at).is_some_and(|node| node.state.is_settled());
        if !settled || self.state.is_satisfied(self.plan, at) {
            return;
        }
        let plan = self.plan;
        for edge in plan.graph().successors(step).iter().filter(|edge| !edge.is_reference()) {
            let target = Address::step(edge.target());
            let waits = self.state.node(target).is_some_and(|node| node.state == StepState::Waiting);
            let joined = plan.get(edge.target()).is_some_and(|step| step.join.is_some());
            if waits && !joined {
                let failed = self
                    .state
                    .node(at)
                    .is_some_and(|node| node.failed() || node.reason.as_deref() == Some(reason::DEPENDENCY_FAILED));
                let why = if failed { reason::DEPENDENCY_FAILED } else { reason::DEPENDENCY_SKIPPED };
                let message = format!("step {} did not succeed", plan.name(at.step));
                self.settle(target, StepOutcome::Skipped, Some(why.into()), Some(message));
            }
        }
    }
}

fn read_flow(plan: &Plan, state: &mut State, status: &FlowStatus) {
    let flow = &mut state.flow;
    flow.phase = status.phase;
    flow.started = status.start_time;
    flow.completed = status.completion_time;
    flow.retries = status.retries;
    flow.paused_millis = status.suspended_seconds.saturating_mul(1000);
    flow.suspended = plan.spec().suspend.unwrap_or(false);
    flow.mode = plan.spec().suspend_mode.unwrap_or_default();
    flow.paused_at = flow.suspended.then_some(flow.now);
    flow.left_pending = !matches!(status.phase, FlowPhase::Pending);
    for condition in &status.conditions {
        let since = condition.last_transition_time.unwrap_or(flow.now);
        flow.conditions.insert(Text::Owned(condition.kind.clone()), (condition.status, since));
        let holds = condition.status == ConditionStatus::True;
        match condition.kind.as_str() {
            "SpecChanged" => flow.held = holds,
            "Blocked" if holds => {
                flow.blocked = Some((Text::Owned(condition.reason.clone()), condition.message.clone()));
            }
            _ => {}
        }
    }
    let paused = std::time::Duration::from_millis(flow.paused_millis);
    let deadline = flow.started.zip(plan.policy().deadline);
    flow.deadline = deadline.map(|(started, limit)| started.plus(limit).plus(paused));
    let templates = plan.spec().resource_templates.as_ref().is_some_and(|templates| templates.names().next().is_some());
    flow.resources = match (flow.started, templates, status.resource_refs.is_empty()) {
        (Some(_), true, true) => Resources::Asked,
        (Some(_), true, false) => Resources::Ready(status.resource_refs.clone()),
        _ => Resources::Unasked,
    };
    if let Some(completed) = flow.completed {
        flow.stage = Stage::Over;
        flow.ttl_due = Some(completed.plus(plan.policy().ttl));
        flow.final_written = true;
        let failed = status.conditions.iter().find(|condition| condition.kind == "Failed");
        let cause = failed.map(|condition| Cause {
            reason: Text::Owned(condition.reason.clone()),
            message: condition.message.clone(),
        });
        flow.outcome = Some(Outcome { good: status.phase == FlowPhase::Succeeded, cause });
    }
}

fn read_step(plan: &Plan, state: &mut State, record: &StepStatus, terminal: bool) {
    let Some(at) = plan.address_of(&record.name) else { return };
    let node = read_node(plan, at, record, terminal);
    if let Some(item) = at.item {
        let listed = plan.get(at.step.0).and_then(|step| step.fan_out.as_ref()?.listed);
        let group = state.groups.entry(at.step.0).or_insert_with(|| {
            let count = listed.unwrap_or(0) as usize;
            Group { items: None, nodes: vec![Node { state: StepState::Queued, ..Node::default() }; count] }
        });
        let wanted = item as usize + 1;
        if group.nodes.len() < wanted && wanted <= crate::params::ITEMS_MAX {
            group.nodes.resize(wanted, Node { state: StepState::Queued, ..Node::default() });
        }
    }
    if at.item.is_none() && plan.tolerates(at.step) && node.failed() {
        state.flow.tolerated_count = state.flow.tolerated_count.saturating_add(1);
        if state.flow.tolerated.len() < 20 {
            state.flow.tolerated.push(at);
        }
    }
    let outputs =
        node.outputs.as_ref().map_or(0, |outputs| outputs.parameters.iter().map(|output| output.value.len()).sum());
    if at.item.is_some() || record.instances.is_none() {
        state.flow.output_bytes = state.flow.output_bytes.saturating_add(outputs as u64);
    }
    if let Some(place) = state.node_mut(at) {
        *place = node;
    }
}

fn read_node(plan: &Plan, at: Address, record: &StepStatus, terminal: bool) -> Node {
    let retries_left = plan
        .get(at.step.0)
        .and_then(|step| step.retry.as_deref())
        .is_some_and(|(limit, _)| record.retry_count < *limit);
    let begun = record.retry_count + record.lost_count > 0 || !record.reason.is_empty();
    let fan_out = plan.get(at.step.0).is_some_and(|step| step.fan_out.is_some()) && at.item.is_none();
    let state = match record.phase {
        StepPhase::Pending if record.reason == reason::STARTING => StepState::Starting,
        StepPhase::Pending if begun || at.item.is_some() => StepState::Queued,
        StepPhase::Pending => StepState::Waiting,
        StepPhase::Running if fan_out => StepState::Queued,
        StepPhase::Running if record.reason == reason::CANCELLING => StepState::Cancelling,
        StepPhase::Running => StepState::Active,
        StepPhase::Succeeded => StepState::SUCCEEDED,
        StepPhase::Failed if record.reason == reason::RETRY_SCHEDULED => StepState::Backoff,
        StepPhase::Failed if record.reason.is_empty() && !terminal && retries_left => StepState::Backoff,
        StepPhase::Failed => StepState::FAILED,
        StepPhase::Skipped => StepState::SKIPPED,
        StepPhase::PendingApproval => StepState::Awaiting,
    };
    let settled = state.is_settled();
    let reason = match state {
        StepState::Cancelling => Some(reason::TIMEOUT.into()),
        _ if settled && !record.reason.is_empty() => Some(Text::Owned(record.reason.clone())),
        _ => None,
    };
    Node {
        state,
        reason,
        message: (!record.message.is_empty()).then(|| record.message.clone().into_boxed_str()),
        retries: record.retry_count,
        lost: record.lost_count,
        counted: record.counted_failures,
        ran: record.attempt > 0,
        started: record.start_time,
        ended: record.completion_time,
        due: record.next_retry_time,
        frozen: None,
        job: record.job_ref.clone().map(Box::new),
        outputs: record.outputs.clone().map(Box::new),
        approval: record.approval.clone().map(Box::new),
    }
}

/// An execution the status does not know, or not yet by that number, has been accepted.
fn adopt(plan: &Plan, state: &mut State, observed: &ObservedAttempt) {
    let now = state.flow.now;
    let terminal = state.flow.completed.is_some();
    let fan_out = plan.get(observed.at.step.0).is_some_and(|step| step.fan_out.is_some());
    let Some(node) = state.node_mut(observed.at) else { return };
    if terminal
        || node.state.is_settled()
        || (fan_out && observed.at.item.is_none())
        || observed.attempt < node.attempt()
    {
        return;
    }
    let ahead = observed.attempt - node.attempt();
    let known = node.state.is_live() && ahead == 0 && node.state != StepState::Starting;
    if known || (node.state == StepState::Backoff && ahead == 0) {
        return;
    }
    node.retries = node.retries.saturating_add(ahead);
    node.state = StepState::Active;
    node.reason = None;
    node.message = None;
    node.ended = None;
    node.ran = true;
    node.started = if ahead == 0 { node.started.or(Some(now)) } else { Some(now) };
    node.job = Some(Box::new(observed.reference.clone()));
    state.flow.retries = state.flow.retries.saturating_add(ahead);
    state.flow.left_pending = true;
}

/// Halts leave their cause in the steps they skipped; an untolerated failure implies one under its policy.
fn infer_halts(plan: &Plan, state: &mut State, status: &FlowStatus) {
    use orlop_core::spec::policy::FailurePolicy;
    let text = || status.message.clone();
    let mut counts: BTreeMap<bool, (u32, u32)> = BTreeMap::new();
    let (mut halt, mut failure) = (None, None);
    for (number, node) in (0_u32..).zip(&state.nodes) {
        let finally = plan.get(number).is_some_and(|step| step.finally);
        let open = counts.entry(finally).or_default();
        open.0 += u32::from(!node.state.is_settled());
        open.1 += 1;
        let why = node.reason.as_deref().unwrap_or_default();
        if !finally
            && node.state.is_settled()
            && reason::is_halt(why)
            && (node.state == StepState::SKIPPED || reason::is_order(why) || why == reason::DEADLINE)
        {
            halt.get_or_insert_with(|| Text::Owned(why.to_owned()));
        } else if node.failed() && !plan.tolerates(orlop_core::attempt::StepIndex(number)) {
            let word = if finally { reason::FINALLY_FAILED } else { reason::FLOW_FAILED };
            let cause = Cause { reason: word.into(), message: text() };
            if finally {
                state.flow.final_failure.get_or_insert(cause);
            } else {
                failure.get_or_insert(cause);
            }
        }
    }
    if failure.is_some() && plan.policy().failure != FailurePolicy::Continue {
        halt.get_or_insert(reason::FLOW_FAILED.into());
    }
    let cancels = halt
        .as_deref()
        .is_some_and(|why| why == reason::DEADLINE || why == reason::TERMINATED || why == reason::REPLACED)
        || (halt.is_some() && plan.policy().failure == FailurePolicy::CancelRunning);
    state.flow.failure = failure;
    state.flow.cut_off = halt.as_deref().is_some_and(reason::is_order);
    if let Some(why) = halt {
        if cancels {
            state.flow.cancel = Some(why.clone());
        }
        if matches!(why.as_ref(), reason::TERMINATED | reason::REPLACED) {
            state.flow.final_halt = Some(why.clone());
        }
        state.flow.halt = Some(Cause { reason: why, message: text() });
    }
    let begun = (0_u32..)
        .zip(&state.nodes)
        .any(|(number, node)| plan.get(number).is_some_and(|step| step.finally) && node.state != StepState::Waiting);
    if begun && state.flow.completed.is_none() {
        state.flow.stage = Stage::Finally;
        state.flow.deadline = None;
        let good = state.flow.failure.is_none() && state.flow.halt.is_none();
        let cause = state.flow.failure.clone().or(state.flow.halt.clone());
        state.flow.outcome = Some(Outcome { good, cause });
    }
}

/// Timers follow from recorded times and the plan.
fn restore_timers(plan: &Plan, state: &mut State) {
    let now = state.flow.now;
    let arm = |at: Address, node: &mut Node| {
        let Some(step) = plan.get(at.step.0) else { return };
        node.due = match node.state {
            StepState::Active | StepState::Awaiting if at.item.is_some() || step.fan_out.is_none() => {
                step.timeout.zip(node.started).map(|(limit, started)| started.plus(limit))
            }
            StepState::Backoff => node.due.or_else(|| {
                let (_, formula) = step.retry.as_deref()?;
                Some(node.ended.unwrap_or(now).plus(formula.delay(node.retries, 0.0)))
            }),
            _ => None,
        };
    };
    for (number, node) in (0_u32..).zip(&mut state.nodes) {
        arm(Address::step(number), node);
    }
    for (step, group) in &mut state.groups {
        for (item, node) in (0_u32..).zip(&mut group.nodes) {
            arm(Address::instance(*step, item), node);
        }
    }
}
