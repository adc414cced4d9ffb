//! Rebuilding a state from what the API shows: per step, the higher of the recorded attempt and the highest
//! execution that exists wins. For stores that keep a status and no journal.
//!
//! A status shows times in whole seconds, so a rebuilt timer may be due up to a second early. What else it has no field
//! for stands in messages (see `phrase`). The host then tells, as events, what the object orders (stop, suspension,
//! approvals, hold) and how executions that are no longer live have ended; what is known already changes nothing.

mod causes;
mod records;

use orlop_core::attempt::Address;
use orlop_core::effect::FlowEffect;
use orlop_core::machine::flow::FlowPhase;
use orlop_core::machine::step::{StepPhase, StepState};
use orlop_core::spec::flow::SuspendMode;
use orlop_core::spec::meta::ObjectReference;
use orlop_core::spec::status::{ConditionStatus, FlowStatus};
use orlop_core::time::Time;

use super::index::Index;
use super::state::{Cause, FlowMeta, Outcome, Resources, Stage, State, Text};
use super::{Call, flow, phrase, reason};
use crate::plan::Plan;

/// An execution that exists on the substrate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedAttempt {
    /// Whose attempt.
    pub at: Address,
    /// Its number.
    pub attempt: u32,
    /// What runs it.
    pub reference: ObjectReference,
}

/// Rebuilds a state from a stored status and the executions that exist, for hosts that keep no journal. Tell the engine the results of
/// attempts that have ended by events afterwards.
///
/// The status may be older than the executions: the higher attempt number of a step counts, and an attempt that the status does not
/// have counts as a retry. Executions of settled steps are left alone, except those that are to be deleted then.
pub fn reconstruct(
    plan: &Plan,
    meta: &FlowMeta,
    status: &FlowStatus,
    live: &[ObservedAttempt],
    now: Time,
    out: &mut Vec<FlowEffect>,
) -> State {
    let mut state = flow::blank(plan, meta, now);
    read_flow(plan, &mut state, status);
    for record in &status.steps {
        records::read_step(plan, &mut state, record, status.phase.is_terminal());
    }
    for observed in live {
        records::adopt(plan, &mut state, observed);
    }
    records::complete(plan, &mut state);
    causes::infer(plan, &mut state, status);
    state.flow.left_pending |= left_pending(&state);
    state.index = Index::rebuild(plan, &state.nodes, &state.groups);
    causes::infer_stage(plan, &mut state);
    state.drop_dead_timers(plan);
    let mut call = Call::new(plan, &mut state, now, out);
    call.let_go(live);
    call.go_on();
    state
}

impl Call<'_> {
    /// Asks again for the deletion of executions whose end the status names: the host may have stopped before it.
    fn let_go(&mut self, observed: &[ObservedAttempt]) {
        for ObservedAttempt { at, attempt, .. } in observed {
            let Some(node) = self.state.node(*at) else { continue };
            if *attempt < node.attempt() {
                self.retain_attempt(*at, *attempt, false);
            } else if *attempt == node.attempt() && node.state.is_settled() {
                let tolerated =
                    matches!(node.reason.as_deref(), Some(reason::FAILURE_IGNORED | reason::FAILURE_COUNTED));
                self.retain(*at, node.state == StepState::SUCCEEDED && !tolerated);
            }
        }
    }

    /// Looks at every step once: a reconstructed flow may stand between any two changes.
    fn go_on(&mut self) {
        if self.state.flow.completed.is_some() {
            return;
        }
        super::start::outstanding(self.plan, self.state, self.out);
        for step in 0..u32::try_from(self.plan.len()).unwrap_or(u32::MAX) {
            self.look_again(step);
        }
        for finally in [false, true] {
            if let Some(cause) = self.state.halted(finally).cloned() {
                self.end_waits(finally, &cause);
            }
        }
        let live: Vec<Address> = self.state.index.live.iter().copied().collect();
        self.read_mode(&live);
        for at in live {
            self.order_again(at);
        }
        self.close();
    }

    /// A status does not say how a flow was suspended. Where attempts run and the clock of none stands still, they were left to
    /// finish; the host tells what is wanted now.
    fn read_mode(&mut self, live: &[Address]) {
        let nodes = || live.iter().filter_map(|at| self.state.node(*at)).filter(|node| node.state == StepState::Active);
        if self.freezes() && nodes().next().is_some() && nodes().all(|node| node.frozen.is_none()) {
            (self.state.flow.mode, self.state.flow.suspensions) = (SuspendMode::Drain, 0);
        }
    }

    /// Tells an adopted attempt what the others were told before.
    fn order_again(&mut self, at: Address) {
        if self.state.node(at).is_none_or(|node| node.state != StepState::Active) {
            return;
        }
        if let Some(cause) = self.state.cancels(self.is_finally(at)).cloned() {
            self.begin_cancel(at, cause);
        } else if self.freezes() {
            self.freeze(at);
        }
    }

    /// Skips what should have been skipped for a settled step before the host stopped.
    fn look_again(&mut self, step: u32) {
        let at = Address::step(step);
        if self.halted(at).is_some() {
            return;
        }
        let plan = self.plan;
        let state = |call: &Self, step: u32| call.state.node(Address::step(step)).map(|node| node.state);
        if let Some(join) = plan.get(step).and_then(|step| step.join.as_deref())
            && state(self, step) == Some(StepState::Waiting)
            && self.state.index.needed.get(step as usize) == Some(&0)
        {
            self.decide_join(step, join);
        }
        if !state(self, step).is_some_and(StepState::is_settled) || self.state.is_satisfied(plan, at) {
            return;
        }
        for edge in plan.graph().successors(step).iter().filter(|edge| !edge.is_reference()) {
            let joined = plan.get(edge.target()).is_some_and(|step| step.join.is_some());
            if !joined && state(self, edge.target()) == Some(StepState::Waiting) {
                self.skip_for(step, edge.target());
            }
        }
    }
}

fn left_pending(state: &State) -> bool {
    let groups = state.groups.values().flat_map(|group| &group.nodes);
    state.nodes.iter().chain(groups).any(|node| node.state.phase() != StepPhase::Pending || node.attempt() > 1)
}

fn read_flow(plan: &Plan, state: &mut State, status: &FlowStatus) {
    let flow = &mut state.flow;
    flow.phase = status.phase;
    flow.started = status.start_time;
    flow.completed = status.completion_time;
    flow.retries = status.retries;
    flow.paused_millis = status.suspended_seconds.saturating_mul(1000);
    flow.left_pending = matches!(status.phase, FlowPhase::Running | FlowPhase::Paused);
    let mut ready = "";
    for condition in &status.conditions {
        let since = condition.last_transition_time.unwrap_or(flow.now);
        flow.conditions.insert(Text::Owned(condition.kind.clone()), (condition.status, since));
        let holds = condition.status == ConditionStatus::True;
        match condition.kind.as_str() {
            "Ready" => ready = &condition.message,
            "SpecChanged" => flow.held = holds,
            "Blocked" if holds => {
                flow.blocked = Some((Text::Owned(condition.reason.clone()), condition.message.clone()));
            }
            _ => {}
        }
    }
    if flow.phase == FlowPhase::Suspended {
        // A hold hides whether the flow is suspended besides; the host tells what the spec says now.
        flow.suspended = !flow.held || plan.spec().suspend.unwrap_or(false);
        flow.paused_at = Some(phrase::paused_since(ready).unwrap_or(flow.now));
    }
    flow.mode = plan.spec().suspend_mode.unwrap_or_default();
    flow.suspensions = u32::from(flow.suspended && flow.mode == SuspendMode::Suspend);
    let paused = std::time::Duration::from_millis(flow.paused_millis);
    let deadline = flow.started.zip(plan.policy().deadline);
    flow.deadline = deadline.map(|(started, limit)| started.plus(limit).plus(paused));
    let templates = plan.spec().resource_templates.as_ref().is_some_and(|templates| templates.names().next().is_some());
    flow.resources = match (flow.started, templates, status.resource_refs.is_empty()) {
        (Some(_), true, true) => Resources::Asked,
        (Some(_), true, false) => Resources::Ready(status.resource_refs.clone()),
        _ => Resources::Unasked,
    };
    // Later than that, what waits is told by steps.
    if flow.started.is_some() && flow.resources != Resources::Asked {
        flow.blocked = None;
    }
    if flow.completed.is_some() {
        read_end(plan, state, status);
    }
}

fn read_end(plan: &Plan, state: &mut State, status: &FlowStatus) {
    let flow = &mut state.flow;
    flow.stage = Stage::Over;
    flow.deadline = None;
    flow.ttl_due = flow.completed.map(|completed| completed.plus(plan.policy().ttl));
    flow.final_written = true;
    let failed = status.conditions.iter().find(|condition| condition.kind == "Failed");
    let cause = failed.map(|condition| {
        let message = match phrase::split_word(&condition.message) {
            (word, message) if word == condition.reason => message,
            _ => &condition.message,
        };
        Cause { reason: Text::Owned(condition.reason.clone()), message: message.to_owned() }
    });
    flow.outcome = Some(Outcome { good: status.phase == FlowPhase::Succeeded, cause });
}
