//! Starting attempts: slots, order, and what to do again after a crash.

use orlop_core::attempt::Address;
use orlop_core::effect::FlowEffect;
use orlop_core::machine::step::{StepOutcome, StepState};

use super::Call;
use super::fault::{Fault, fault};
use super::state::{Resources, State};
use crate::plan::Plan;

impl Call<'_> {
    /// Starts what is ready while slots are free: spec order, then item index (rule R38). Decisions hold no slot.
    pub(super) fn fill_slots(&mut self) {
        let unready = self.state.flow.started.is_none() || self.state.flow.resources == Resources::Asked;
        if self.state.flow.completed.is_some() || unready || (self.state.is_paused() && !fault(Fault::IgnoreSuspend)) {
            return;
        }
        while let Some(step) = self.state.index.gates.pop_first() {
            let at = Address::step(step);
            if self.state.halted(self.is_finally(at)).is_none() {
                self.await_decision(at);
            }
        }
        let limit = self.limit();
        while self.live_count() < limit {
            let Some(at) = self.state.index.dequeue(self.plan) else { break };
            if self.state.halted(self.is_finally(at)).is_some() && !fault(Fault::StartAfterHalt) {
                continue;
            }
            if self.has_item(at) {
                self.start(at);
            }
        }
    }

    /// Live attempts the flow may have.
    fn limit(&self) -> usize {
        if fault(Fault::NoParallelism) {
            return usize::MAX;
        }
        let own = self.plan.policy().parallelism;
        let limit = own.into_iter().chain(self.state.flow.meta.max_live).min();
        limit.map_or(usize::MAX, |limit| limit as usize)
    }

    fn live_count(&self) -> usize {
        self.state.index.live.len()
    }

    fn start(&mut self, at: Address) {
        self.set_state(at, StepState::Starting);
        if let Some(effect) = start_effect(self.plan, self.state, at) {
            self.out.push(effect);
        }
    }

    /// The substrate asked to wait and the wait is over: the same attempt again.
    pub(super) fn start_again(&mut self, at: Address) {
        if let Some(cause) = self.state.halted(self.is_finally(at)).cloned() {
            self.settle(at, StepOutcome::Skipped, Some(cause), None);
            return;
        }
        if let Some(node) = self.state.node_mut(at) {
            node.due = None;
        }
        self.changed = true;
        if let Some(effect) = start_effect(self.plan, self.state, at) {
            self.out.push(effect);
        }
    }
}

fn start_effect(plan: &Plan, state: &State, at: Address) -> Option<FlowEffect> {
    let attempt = state.node(at)?.attempt();
    let item = state.item(plan, at).cloned().map(Box::new);
    Some(FlowEffect::StartAttempt { at, attempt, item })
}

/// Everything that is under way and whose effect may have been lost with a crashed host: carried out again under the
/// same keys, it changes nothing that has happened. An accepted attempt needs no effect: the host adopts it
/// (see [`State::live`]). Costs O(steps); a host calls it once, after a restart.
pub fn outstanding(plan: &Plan, state: &State, out: &mut Vec<FlowEffect>) {
    let flow = &state.flow;
    if flow.completed.is_some() {
        return;
    }
    if flow.resources == Resources::Asked {
        out.push(FlowEffect::EnsureResources);
    }
    for at in &state.index.live {
        let Some(node) = state.node(*at) else { continue };
        match node.state {
            StepState::Starting if node.due.is_none() => out.extend(start_effect(plan, state, *at)),
            StepState::Active if node.frozen.is_some() => {
                out.push(FlowEffect::SuspendAttempt { at: *at, attempt: node.attempt(), epoch: flow.suspensions });
            }
            StepState::Cancelling => {
                let cause = node.reason.clone().unwrap_or_default().into_owned();
                out.push(FlowEffect::CancelAttempt { at: *at, attempt: node.attempt(), cause, grace: None });
            }
            _ => {}
        }
    }
    for (number, step) in (0_u32..).zip(plan.steps()) {
        let at = Address::step(number);
        let by_param = step.fan_out.as_ref().is_some_and(|fan_out| fan_out.listed.is_none());
        let unread = state.groups.get(&number).is_none_or(|group| group.items.is_none());
        let queued = state.node(at).is_some_and(|node| node.state == StepState::Queued);
        if by_param && unread && queued && state.halted(step.finally).is_none() {
            out.push(FlowEffect::ResolveItems { step: at.step });
        }
    }
}
