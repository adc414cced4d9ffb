//! The flow engine: state, event and time go in, effects come out. Pure: no clock, no I/O, no randomness, and nothing depends on
//! the order of a hash map. The same plan, snapshot and sequence of (event, now) give a byte-identical state and the same effects
//! in the same order. No input makes it panic; an event about an attempt that is not the current one changes nothing and is
//! counted ([`State::fenced`]).
//!
//! A host stores each event before it carries out the effects of [`apply`]. After a crash it replays the stored events and does its
//! [`duties`]: it watches the attempts that were started, and carries out again the effects that may have been lost. Their keys
//! make repeated effects harmless.
//!
//! Each call of [`apply`] works in the same order: the event; skips and joins that follow from steps it settled; halts of the flow;
//! steps that may now be decided, in spec order; due timers, earliest first; starts in free slots; the end of the main steps or of
//! `finally`.

mod approval;
mod attempt;
mod bare;
mod explain;
mod facts;
mod failure;
mod fanout;
mod flow;
mod halt;
mod index;
mod notice;
mod outcome;
mod output;
mod phrase;
pub(crate) mod reason;
mod reconstruct;
#[cfg(any(test, feature = "testing"))]
mod sanity;
mod settle;
mod snapshot;
mod start;
mod state;
mod suspend;
mod timer;
mod view;
mod waits;

use std::collections::VecDeque;

use orlop_core::attempt::Address;
use orlop_core::effect::FlowEffect;
use orlop_core::event::FlowEvent;
use orlop_core::machine::step::{StepPhase, StepState};
use orlop_core::time::Time;

use crate::plan::Plan;

pub use bare::{HoldReason, held, refused, terminated};
pub use explain::{Because, Explainer, Explanation, Waited, explain};
pub use facts::{ReadError, flow_fact, read_path};
pub use failure::PERMANENT;
pub use flow::init;
pub use phrase::{last_word, left_of};
pub use reconstruct::{ObservedAttempt, reconstruct};
pub use snapshot::{RestoreError, restore, snapshot};
pub use start::{Duty, duties};
pub use state::{FlowMeta, State};
pub use timer::next_deadline;
pub use view::{StatusView, step_status, view};

/// Applies an event to the state of a flow, and gives the effects that follow.
///
/// Costs O(out-degree of the steps it settles + log n). `now` is clamped to the largest time seen. Effects are appended
/// to `out` in the order in which they are to be carried out.
///
/// ```
/// use orlop_core::attempt::Address;
/// use orlop_dag::prelude::*;
/// let plan = Plan::build(FlowSpec::new([Step::new("a"), Step::new("b").after(["a"])]).into())?;
/// let (mut effects, now, at) = (Vec::new(), Time::from_millis(0), Address::step(0));
/// let mut state = init(&plan, &FlowMeta::default(), now, &mut effects);
/// let result = Box::default();
/// for event in [
///     FlowEvent::Admit,
///     FlowEvent::AttemptAccepted { at, attempt: 1, reference: Default::default() },
///     FlowEvent::AttemptSucceeded { at, attempt: 1, result, ended_at: now },
/// ] {
///     effects.clear();
///     apply(&plan, &mut state, &event, now, &mut effects);
/// }
/// let next = FlowEffect::StartAttempt { at: Address::step(1), attempt: 1, item: None };
/// assert!(effects.contains(&next), "b follows a");
/// # Ok::<(), PlanErrors>(())
/// ```
pub fn apply(plan: &Plan, state: &mut State, event: &FlowEvent, now: Time, out: &mut Vec<FlowEffect>) {
    let mut call = Call::new(plan, state, now, out);
    call.event(event);
    call.close();
}

/// One call of the engine.
struct Call<'a> {
    pub(super) plan: &'a Plan,
    pub(super) state: &'a mut State,
    pub(super) out: &'a mut Vec<FlowEffect>,
    pub(super) now: Time,
    pub(super) changed: bool,
    pub(super) urgent: bool,
    /// Whether a step of the admitted flow had left Pending before this call.
    pub(super) had_begun: bool,
    /// Settled steps whose dependents have not been looked at yet.
    pub(super) settled: VecDeque<u32>,
    /// Halts that take effect once dependents of what failed have been skipped for the failure itself.
    pub(super) halts: VecDeque<halt::Halt>,
}

impl<'a> Call<'a> {
    pub(super) fn new(plan: &'a Plan, state: &'a mut State, now: Time, out: &'a mut Vec<FlowEffect>) -> Self {
        let now = now.max(state.flow.now);
        state.flow.now = now;
        let had_begun = state.has_begun();
        let (settled, halts) = (VecDeque::new(), VecDeque::new());
        Self { plan, state, out, now, changed: false, urgent: false, had_begun, settled, halts }
    }

    fn event(&mut self, event: &FlowEvent) {
        if self.state.flow.completed.is_some() {
            self.after_end(event);
            return;
        }
        if let Some((at, attempt)) = event.attempt() {
            self.attempt_event(event, at, attempt);
            return;
        }
        match event {
            FlowEvent::Admit => self.admit(),
            FlowEvent::Blocked { reason, message } => self.blocked(reason, message),
            FlowEvent::ResourcesReady { refs } => self.resources_ready(refs),
            FlowEvent::ResourcesFailed { reason, message } => self.resources_failed(reason, message),
            FlowEvent::ItemsResolved { at, items } => self.items_resolved(*at, items),
            FlowEvent::Approval { .. } => self.approval(event),
            FlowEvent::SetSuspend { on, mode } => self.set_suspend(*on, *mode),
            FlowEvent::Stop { mode, replaced } => self.stop(*mode, *replaced),
            FlowEvent::Hold { on } => self.hold(*on),
            FlowEvent::Import { at, outputs } => self.import(*at, outputs),
            // Time passes in `close`; the final status can only be written after the end.
            _ => {}
        }
    }

    /// What every call ends with: due timers, dependents of what was settled, free slots, the end of a part.
    pub(super) fn close(&mut self) {
        self.propagate();
        self.fire_timers();
        loop {
            self.propagate();
            self.fill_slots();
            if !self.advance() {
                break;
            }
        }
        self.state.drop_dead_timers(self.plan);
        self.report();
    }

    /// Moves a unit to another state and keeps the counts right. Timers of the old state die by no longer matching.
    pub(super) fn set_state(&mut self, at: Address, to: StepState) {
        let Some(node) = self.state.node_mut(at) else { return };
        let from = node.state;
        node.state = to;
        self.changed = true;
        // The step of a fan-out with known instances does not count: they do.
        if at.item.is_some() || !self.state.groups.contains_key(&at.step.0) {
            self.state.index.count(self.plan, at, from, false);
            self.state.index.count(self.plan, at, to, true);
        }
        self.keep_lists(at, from, to);
        if at.item.is_some() && from.is_live() != to.is_live() {
            self.state.index.offer(self.plan, at.step.0);
        }
        if to.phase() != StepPhase::Pending {
            self.state.note_left(at);
        }
    }

    fn keep_lists(&mut self, at: Address, from: StepState, to: StepState) {
        let index = &mut self.state.index;
        match from {
            StepState::Awaiting => {
                index.awaiting.remove(&at.step.0);
                self.urgent = true;
            }
            StepState::Backoff => {
                index.backoff.remove(&at);
            }
            StepState::Starting => {
                index.short.remove(&at);
            }
            StepState::Active => {
                index.stuck.remove(&at);
            }
            StepState::Cancelling => {
                index.blocked.remove(&at);
            }
            _ => {}
        }
        match to {
            StepState::Awaiting => {
                index.awaiting.insert(at.step.0);
                self.urgent = true;
            }
            StepState::Backoff => {
                index.backoff.insert(at);
            }
            _ => {}
        }
    }

    /// Sets the timer of a unit's current state.
    pub(super) fn arm(&mut self, at: Address, due: Time) {
        if let Some(node) = self.state.node_mut(at) {
            node.due = Some(due);
            let state = node.state;
            self.state.index.arm(at, state, due);
        }
    }

    pub(super) fn is_finally(&self, at: Address) -> bool {
        self.plan.get(at.step.0).is_some_and(|step| step.finally)
    }

    /// Why what has not started in the part of a unit will not.
    pub(super) fn halted(&self, at: Address) -> Option<&state::Text> {
        self.state.halted(self.is_finally(at))
    }
}

#[cfg(test)]
mod tests;
