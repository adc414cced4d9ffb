//! Manual steps: decisions before, while and after they are waited for.

use orlop_core::attempt::Address;
use orlop_core::event::FlowEvent;
use orlop_core::machine::step::{StepOutcome, StepState};
use orlop_core::spec::status::{ApprovalRecord, Decision};

use super::{Call, reason};

impl Call<'_> {
    /// Records a decision; the first one is final.
    pub(super) fn approval(&mut self, event: &FlowEvent) {
        let FlowEvent::Approval { at, decision, by, verified, decided_at, reason } = event else { return };
        let manual = at.item.is_none() && self.plan.get(at.step.0).is_some_and(|step| step.manual);
        if !manual || *decision == Decision::TimedOut || self.halted(*at).is_some() {
            return;
        }
        let Some(node) = self.state.node_mut(*at) else { return };
        if node.approval.is_some() || node.state.is_settled() {
            return;
        }
        node.approval = Some(Box::new(ApprovalRecord {
            decision: *decision,
            by: by.clone(),
            verified: *verified,
            at: Some(*decided_at),
            reason: reason.clone(),
        }));
        let state = node.state;
        self.changed = true;
        self.urgent = true;
        if matches!(state, StepState::Awaiting | StepState::Queued) {
            self.state.index.gates.remove(&at.step.0);
            self.conclude_approval(*at);
        }
    }

    /// Settles a Manual step as its decision says.
    pub(super) fn conclude_approval(&mut self, at: Address) {
        let record = self.state.node(at).and_then(|node| node.approval.as_deref().cloned());
        let Some(record) = record else { return };
        self.urgent = true;
        let by = record.by.as_deref().unwrap_or("an unknown user");
        let why = record.reason.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
        match record.decision {
            Decision::Approved => {
                self.notice_decision(at, "StepApproved", format!("approved by {by}{why}"));
                self.settle(at, StepOutcome::Succeeded, None, Some(format!("approved by {by}{why}")));
            }
            Decision::Rejected => {
                self.notice_decision(at, "StepRejected", format!("rejected by {by}{why}"));
                self.fail_for_good(at, reason::REJECTED.into(), format!("rejected by {by}{why}"));
            }
            Decision::TimedOut => {
                let message = "no decision in time".to_owned();
                self.fail_for_good(at, reason::APPROVAL_TIMED_OUT.into(), message);
            }
        }
    }

    /// Begins to wait for a decision.
    pub(super) fn await_decision(&mut self, at: Address) {
        let now = self.now;
        let plan = self.plan;
        let text = plan.step(at.step).and_then(|step| step.message.as_deref());
        let message = text.map_or_else(
            || format!("Waiting for manual approval of step {}", plan.name(at.step)),
            |text| super::facts::substitute_message(plan, self.state, at, text),
        );
        let Some(node) = self.state.node_mut(at) else { return };
        node.started = Some(now);
        node.message = Some(orlop_core::spec::status::cut_message(&message).into_boxed_str());
        self.set_state(at, StepState::Awaiting);
        self.notice_awaiting(at, message);
        if let Some(limit) = plan.get(at.step.0).and_then(|step| step.timeout) {
            self.arm(at, now.plus(limit));
        }
    }

    /// No decision in time.
    pub(super) fn approval_due(&mut self, at: Address) {
        let now = self.now;
        if let Some(node) = self.state.node_mut(at) {
            let decision = Decision::TimedOut;
            let record = ApprovalRecord { decision, by: None, verified: false, at: Some(now), reason: None };
            node.approval = Some(Box::new(record));
        }
        self.notice_timeout(at, "no decision in time");
        self.conclude_approval(at);
    }
}
