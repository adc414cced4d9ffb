//! The end of a part and of the flow: when it is over, how it came out, what that is called.

use orlop_core::machine::flow::FlowPhase;
use orlop_core::spec::policy::ToleratedOutcome;

use super::state::{Cause, Outcome, Stage};
use super::{Call, reason};

impl Cause {
    /// What fails a flow whose failures were all tolerated.
    pub(super) fn tolerated() -> Self {
        let message = "every failure was tolerated, and toleratedOutcome is Failed".to_owned();
        Self { reason: reason::FLOW_FAILED.into(), message }
    }
}

impl Call<'_> {
    /// Goes on to `finally` or to the end where a part is over; answers whether anything may now start.
    pub(super) fn advance(&mut self) -> bool {
        match self.state.flow.stage {
            Stage::Main if self.main_is_over() => {
                let outcome = self.outcome();
                self.state.flow.outcome = Some(outcome);
                self.changed = true;
                // A flow that was ended before it was admitted has nothing to clean up after, and holds no key.
                let any = self.plan.len() > self.plan.main_len() && self.state.flow.started.is_some();
                if any && self.state.flow.final_halt.is_none() {
                    self.state.flow.stage = Stage::Finally;
                    self.state.flow.deadline = None;
                    self.state.flow.left_pending = true;
                    return true;
                }
                self.state.flow.final_halt = self.state.flow.final_halt.take().or(self.state.flow.halt.clone());
                self.finish();
                false
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
            return part.live == 0;
        }
        self.state.flow.started.is_some() && part.open == 0
    }

    fn finally_is_over(&self) -> bool {
        let part = self.state.index.part_of(true);
        if self.state.flow.final_halt.is_some() { part.live == 0 } else { part.open == 0 }
    }

    /// How the flow comes out by what has happened so far.
    fn outcome(&self) -> Outcome {
        if let Some(cause) = self.state.cause(self.plan) {
            return Outcome { good: false, cause: Some(cause.clone()) };
        }
        let tolerated = !self.state.index.tolerated.is_empty();
        let cause = (tolerated && self.plan.policy().tolerated == ToleratedOutcome::Failed).then(Cause::tolerated);
        Outcome { good: cause.is_none(), cause }
    }

    fn finish(&mut self) {
        let now = self.now;
        // What `finally` did can make a good outcome bad, never a bad one good or its cause another.
        let outcome = self.state.flow.outcome.take().filter(|outcome| !outcome.good).unwrap_or_else(|| self.outcome());
        self.note_begun();
        self.state.flow.started.get_or_insert(now);
        self.end_pause();
        let flow = &mut self.state.flow;
        flow.stage = Stage::Over;
        flow.completed = Some(now);
        flow.deadline = None;
        flow.blocked = None;
        flow.phase = if outcome.good { FlowPhase::Succeeded } else { FlowPhase::Failed };
        flow.ttl_due = Some(now.plus(self.plan.policy().ttl));
        flow.outcome = Some(outcome);
        self.changed = true;
        self.urgent = true;
        self.notice_finished();
    }

    /// The phase people see, the first that applies.
    pub(super) fn visible_phase(&self) -> FlowPhase {
        let flow = &self.state.flow;
        if flow.completed.is_some() {
            flow.phase
        } else if self.state.is_paused() {
            FlowPhase::Suspended
        } else if self.state.first_awaiting(self.plan).is_some() {
            FlowPhase::Paused
        } else if self.state.has_begun() {
            FlowPhase::Running
        } else {
            FlowPhase::Pending
        }
    }
}
