//! The end of a part and of the flow: when it is over, how it came out, what that is called (rules R1, R2, R22, R36).

use orlop_core::machine::flow::FlowPhase;
use orlop_core::spec::policy::ToleratedOutcome;

use super::fault::{Fault, fault};
use super::state::{Cause, Outcome, Stage};
use super::{Call, reason};

impl Call<'_> {
    /// Goes on to `finally` or to the end where a part is over; answers whether anything may now start.
    pub(super) fn advance(&mut self) -> bool {
        match self.state.flow.stage {
            Stage::Main if self.main_is_over() => {
                let outcome = self.main_outcome();
                self.state.flow.outcome = Some(outcome);
                self.changed = true;
                // A flow that was ended before it was admitted has nothing to clean up after, and holds no key.
                let any = self.plan.len() > self.plan.main_len() && self.state.flow.started.is_some();
                if any && self.state.flow.final_halt.is_none() {
                    self.state.flow.stage = Stage::Finally;
                    self.state.flow.deadline = None;
                    self.start_part(true);
                    true
                } else {
                    let cause = self.state.flow.halt.as_ref().map(|cause| cause.reason.clone());
                    self.state.flow.final_halt = self.state.flow.final_halt.take().or(cause);
                    self.finish();
                    false
                }
            }
            Stage::Finally if self.finally_is_over() => {
                self.finish();
                false
            }
            _ => !self.settled.is_empty() || !self.halts.is_empty(),
        }
    }

    fn main_is_over(&self) -> bool {
        let part = self.state.index.part_of(false);
        if self.state.flow.halt.is_some() {
            return part.live == 0 || fault(Fault::HastyFinally);
        }
        self.state.flow.started.is_some() && part.open == 0
    }

    fn finally_is_over(&self) -> bool {
        let part = self.state.index.part_of(true);
        if self.state.flow.final_halt.is_some() { part.live == 0 } else { part.open == 0 }
    }

    /// How the steps came out (rule R1).
    fn main_outcome(&self) -> Outcome {
        let flow = &self.state.flow;
        let skipped_by_halt = self.state.index.part_of(false).open > 0;
        let halt =
            flow.halt.as_ref().filter(|cause| !reason::is_order(&cause.reason) || skipped_by_halt || flow.cut_off);
        if let Some(cause) = flow.failure.as_ref().or(halt) {
            return Outcome { good: false, cause: Some(cause.clone()) };
        }
        if flow.tolerated_count > 0 && self.plan.policy().tolerated == ToleratedOutcome::Failed {
            let message = format!("{} steps failed, all tolerated", flow.tolerated_count);
            return Outcome { good: false, cause: Some(Cause { reason: reason::FLOW_FAILED.into(), message }) };
        }
        Outcome { good: true, cause: None }
    }

    fn finish(&mut self) {
        let now = self.now;
        let ended_finally = self.state.flow.stage == Stage::Finally;
        let open_finally = self.state.index.part_of(true).open > 0;
        let flow = &mut self.state.flow;
        flow.stage = Stage::Over;
        flow.started.get_or_insert(now);
        flow.completed = Some(now);
        flow.deadline = None;
        let mut outcome = flow.outcome.clone().unwrap_or(Outcome { good: true, cause: None });
        let cut = flow.final_halt.clone().filter(|_| ended_finally && (open_finally || flow.cut_off));
        if outcome.good
            && let Some(cause) = flow.final_failure.clone()
        {
            outcome = Outcome { good: false, cause: Some(cause) };
        } else if outcome.good
            && let Some(cut) = cut
        {
            let message = format!("the flow was ended: {cut}");
            outcome = Outcome { good: false, cause: Some(Cause { reason: cut, message }) };
        }
        flow.phase = if outcome.good { FlowPhase::Succeeded } else { FlowPhase::Failed };
        flow.ttl_due = Some(now.plus(self.plan.policy().ttl));
        flow.outcome = Some(outcome);
        self.changed = true;
        self.urgent = true;
        self.notice_finished();
    }

    /// The phase people see (section 3.4), the first that applies.
    pub(super) fn visible_phase(&self) -> FlowPhase {
        let flow = &self.state.flow;
        let waits = |finally: bool| self.state.halted(finally).is_none() && !self.state.index.awaiting.is_empty();
        if flow.completed.is_some() {
            flow.phase
        } else if self.state.is_paused() {
            FlowPhase::Suspended
        } else if waits(flow.stage == Stage::Finally) {
            FlowPhase::Paused
        } else if flow.left_pending && flow.started.is_some() {
            FlowPhase::Running
        } else {
            FlowPhase::Pending
        }
    }
}
