//! Halts: orders that nothing more starts, what makes the flow fail, and which orders of people
//! count. A halt is one mark; steps that have not started are skipped by derivation.

use orlop_core::attempt::Address;
use orlop_core::machine::step::{StepOutcome, StepState};
use orlop_core::spec::flow::StopMode;
use orlop_core::spec::status::WaitsOn;

use super::state::{Cause, Stage, State, Text};
use super::{Call, reason};
use crate::plan::Plan;

/// A halt that is still to take effect.
#[derive(Debug)]
pub(super) struct Halt {
    pub(super) reason: Text,
    /// Whether live attempts are cancelled.
    pub(super) cancels: bool,
}

impl Call<'_> {
    /// A person, or another flow of the same key, ends the flow. An order that adds nothing changes nothing.
    pub(super) fn stop(&mut self, mode: StopMode, replaced: bool) {
        let cause = match (mode, replaced) {
            (_, true) => reason::REPLACED,
            (StopMode::Graceful, false) => reason::STOPPED,
            (StopMode::Terminate, false) => reason::TERMINATED,
        };
        let cancels = mode == StopMode::Terminate || replaced;
        let flow = &self.state.flow;
        let known = flow.final_halt.is_some() || (!cancels && (flow.halt.is_some() || flow.stage == Stage::Finally));
        if known {
            return;
        }
        self.urgent = true;
        self.notice_flow("FlowStopped", format!("the flow was asked to stop: {cause}"));
        if replaced {
            self.notice_flow("ConcurrencyReplaced", "another flow takes its concurrency key".to_owned());
        }
        self.add_cause(cause.into(), "the flow was asked to stop".to_owned());
        if cancels {
            self.state.flow.final_halt = Some(cause.into());
        }
        self.halt(Halt { reason: cause.into(), cancels });
    }

    /// Notes what makes the flow fail; of each reason the first is told.
    pub(super) fn add_cause(&mut self, reason: Text, message: String) {
        self.changed = true;
        let causes = &mut self.state.flow.causes;
        if causes.iter().all(|known| known.reason != reason) {
            causes.push(Cause { reason, message });
        }
    }

    /// Orders that nothing more starts. The first halt of a part names the reason of all that has not started, a later
    /// one can only add the cancellation.
    pub(super) fn halt(&mut self, halt: Halt) {
        self.take_effect(halt);
        for finally in [false, true] {
            self.note_left(finally);
        }
    }

    fn take_effect(&mut self, halt: Halt) {
        self.changed = true;
        let finally = self.state.flow.stage == Stage::Finally;
        let first = if finally { halt.cancels } else { self.state.flow.halt.is_none() };
        if !finally {
            self.state.flow.halt.get_or_insert_with(|| halt.reason.clone());
        }
        if first {
            self.end_waits(finally, &halt.reason);
        }
        if !halt.cancels || !finally && self.state.flow.cancel.is_some() {
            return;
        }
        if !finally {
            self.state.flow.cancel = Some(halt.reason.clone());
        }
        for at in self.live_of(finally) {
            if self.state.node(at).is_some_and(|node| node.state == StepState::Active) {
                self.begin_cancel(at, halt.reason.clone());
            }
        }
    }

    fn live_of(&self, finally: bool) -> Vec<Address> {
        self.state.index.live.iter().copied().filter(|at| self.is_finally(*at) == finally).collect()
    }

    /// After a halt no retry, no decision, no delayed start and no place in a queue is waited for.
    pub(super) fn end_waits(&mut self, finally: bool, cause: &Text) {
        let live = self.live_of(finally);
        self.urgent |= !self.state.index.awaiting.is_empty();
        let retries: Vec<Address> =
            self.state.index.backoff.iter().copied().filter(|at| self.is_finally(*at) == finally).collect();
        for at in retries {
            self.note_cut(finally);
            self.end_backoff(at);
        }
        for at in live {
            match self.state.node(at) {
                Some(node) if node.state == StepState::Starting && node.due.is_some() => {
                    self.skip_by_halt(at, cause.clone());
                }
                _ => self.cancel_if_queued(at, cause),
            }
        }
    }

    /// An attempt that a queue holds back runs nothing: after a halt it would start something.
    pub(super) fn cancel_if_queued(&mut self, at: Address, cause: &Text) {
        let queued = |node: &super::state::Node| node.state == StepState::Active && node.waits_on(WaitsOn::Suspended);
        if self.state.node(at).is_some_and(queued) {
            self.begin_cancel(at, cause.clone());
        }
    }

    /// What a halt has skipped by derivation has left Pending.
    fn note_left(&mut self, finally: bool) {
        let flow = &self.state.flow;
        // Who has left is not asked again: every failure after a halt comes here.
        if !flow.left_pending && flow.started.is_some() && self.state.skipping(self.plan, finally).is_some() {
            self.state.flow.left_pending = true;
        }
    }

    /// A retry that is not made: the step keeps its last reason.
    pub(super) fn end_backoff(&mut self, at: Address) {
        let Some(node) = self.state.node_mut(at) else { return };
        let why = node.reason.take();
        let message = super::phrase::unmade(node.message.take().as_deref().unwrap_or_default());
        self.settle(at, StepOutcome::Failed, why, Some(message));
    }

    /// Settles a unit whose start had been asked for and was not accepted before the halt.
    pub(super) fn skip_by_halt(&mut self, at: Address, cause: Text) {
        self.note_cut(self.is_finally(at));
        self.settle(at, StepOutcome::Skipped, Some(cause), None);
    }

    /// Notes that the halt of a part has cut something off.
    pub(super) fn note_cut(&mut self, finally: bool) {
        if let Some(cause) = self.state.halted(finally).cloned() {
            self.note_cut_by(cause);
        }
    }

    /// Notes that an order has cut something off, and so counts.
    pub(super) fn note_cut_by(&mut self, cause: Text) {
        let cut = &mut self.state.flow.cut;
        if reason::is_order(&cause) && !cut.contains(&cause) {
            cut.push(cause);
        }
    }
}

impl State {
    /// What makes the flow fail, if it ended now: the first cause that applies, an order only where it cut something off
    /// or skipped it.
    pub(super) fn cause(&self, plan: &Plan) -> Option<&Cause> {
        self.flow.causes.iter().find(|cause| {
            !reason::is_order(&cause.reason)
                || self.flow.cut.contains(&cause.reason)
                || [false, true].iter().any(|finally| self.skipping(plan, *finally) == Some(&cause.reason))
        })
    }

    /// The halt of a part, where it has skipped a step by derivation: one that is neither settled nor has a live attempt.
    fn skipping(&self, plan: &Plan, finally: bool) -> Option<&Text> {
        let halt = self.halted(finally)?;
        let part = self.index.part_of(finally);
        let is_finally = |step: u32| plan.get(step).is_some_and(|step| step.finally);
        let mut live: Vec<u32> =
            self.index.live.iter().map(|at| at.step.0).filter(|at| is_finally(*at) == finally).collect();
        live.dedup();
        Some(halt).filter(|_| part.unstarted() > 0 || part.open as usize > live.len())
    }
}
