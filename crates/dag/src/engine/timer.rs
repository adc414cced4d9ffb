//! Timers: everything that happens because time has passed (rule R16). Owns when a host must call again.

use std::cmp::Reverse;

use orlop_core::attempt::Address;
use orlop_core::effect::FlowEffect;
use orlop_core::machine::step::StepState;
use orlop_core::time::Time;

use super::state::{Cause, Stage, State};
use super::{Call, reason};
use crate::plan::Plan;

/// When the engine must be called again if nothing happens before; none while only events can change anything. Timers
/// that cannot act now, such as a retry while the flow is suspended, are left out.
#[must_use]
pub fn next_deadline(state: &State) -> Option<Time> {
    let flow = &state.flow;
    if flow.completed.is_some() {
        return flow.ttl_due.filter(|_| !flow.deleted);
    }
    let timer = state.index.timers.peek().map(|Reverse((due, _))| *due);
    let start = state.index.starts.peek().filter(|_| !state.is_paused()).map(|Reverse((due, _))| *due);
    let deadline = flow.deadline.filter(|_| deadline_runs(state));
    [timer, start, deadline].into_iter().flatten().min()
}

/// The deadline acts on the steps only, stands still while the flow is suspended, and acts once.
fn deadline_runs(state: &State) -> bool {
    let paused = state.is_paused() && !super::fault::fault(super::fault::Fault::DeadlineRuns);
    state.flow.stage == Stage::Main && !paused
}

/// Whether a heap entry is still the timer of its unit.
fn is_current(state: &State, due: Time, at: Address) -> bool {
    state.node(at).is_some_and(|node| node.due == Some(due) && node.frozen.is_none())
}

impl Call<'_> {
    /// Lets every timer act that is due.
    pub(super) fn fire_timers(&mut self) {
        if self.state.flow.completed.is_some() {
            return self.fire_ttl();
        }
        if self.state.flow.deadline.is_some_and(|deadline| deadline <= self.now) && deadline_runs(self.state) {
            self.state.flow.deadline = None;
            self.notice_deadline();
            let message = "the flow took longer than activeDeadlineSeconds allows".to_owned();
            self.halt(Cause { reason: reason::DEADLINE.into(), message }, true);
            self.propagate();
        }
        while let Some(Reverse((due, at))) = self.state.index.timers.peek().copied() {
            if due > self.now {
                break;
            }
            self.state.index.timers.pop();
            if is_current(self.state, due, at) {
                self.fire(at);
                self.propagate();
            }
        }
        while !self.state.is_paused() {
            match self.state.index.starts.peek().copied() {
                Some(Reverse((due, at))) if due <= self.now => {
                    self.state.index.starts.pop();
                    if is_current(self.state, due, at) {
                        self.fire(at);
                    }
                }
                _ => break,
            }
        }
    }

    fn fire(&mut self, at: Address) {
        let halted = self.state.halted(self.is_finally(at)).is_some();
        match self.state.node(at).map(|node| node.state) {
            Some(StepState::Active) => self.time_out(at),
            Some(StepState::Awaiting) if !halted => self.approval_due(at),
            Some(StepState::Backoff) if !halted => self.retry(at),
            Some(StepState::Starting) => self.start_again(at),
            _ => {}
        }
    }

    fn time_out(&mut self, at: Address) {
        let limit = self.plan.get(at.step.0).and_then(|step| step.timeout).unwrap_or_default();
        self.notice_timeout(at, &format!("the attempt took longer than {}", orlop_core::time::GoDuration::new(limit)));
        self.begin_cancel(at, reason::TIMEOUT.into());
    }

    /// A retry is due: back to the queue under the next attempt number (rules R9 and S18).
    fn retry(&mut self, at: Address) {
        self.set_state(at, StepState::Queued);
        let Some(node) = self.state.node_mut(at) else { return };
        node.clear_attempt();
        node.retries = node.retries.saturating_add(1);
        self.state.flow.retries = self.state.flow.retries.saturating_add(1);
        self.state.index.enqueue(self.plan, at);
        self.notice_retry(at, "its retry is due");
    }

    fn fire_ttl(&mut self) {
        let flow = &mut self.state.flow;
        let due = flow.ttl_due.is_some_and(|due| due <= self.now);
        let written = !self.plan.policy().ttl.is_zero() || flow.final_written;
        if due && written && !flow.deleted {
            flow.deleted = true;
            self.out.push(FlowEffect::DeleteFlow);
        }
    }

    /// Drops heads of the heaps that no longer are anybody's timer, so that the next deadline is true.
    pub(super) fn drop_dead_timers(&mut self) {
        while let Some(Reverse((due, at))) = self.state.index.timers.peek().copied() {
            if is_current(self.state, due, at) && acts(self.plan, self.state, at) {
                break;
            }
            self.state.index.timers.pop();
        }
        while let Some(Reverse((due, at))) = self.state.index.starts.peek().copied() {
            if is_current(self.state, due, at) && acts(self.plan, self.state, at) {
                break;
            }
            self.state.index.starts.pop();
        }
    }
}

/// Whether a timer would still do something: after a halt, waits are over though nobody has touched them.
fn acts(plan: &Plan, state: &State, at: Address) -> bool {
    let finally = plan.get(at.step.0).is_some_and(|step| step.finally);
    match state.node(at).map(|node| node.state) {
        Some(StepState::Active | StepState::Starting) => true,
        Some(StepState::Awaiting | StepState::Backoff) => state.halted(finally).is_none(),
        _ => false,
    }
}
