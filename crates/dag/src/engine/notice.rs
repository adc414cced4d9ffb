//! Notices for people, and the report at the end of a call: phase, conditions, the order to write the status.

use orlop_core::attempt::Address;
use orlop_core::effect::{FlowEffect, FlowNotice};
use orlop_core::machine::flow::FlowPhase;
use orlop_core::machine::step::StepOutcome;
use orlop_core::spec::meta::ObjectReference;
use orlop_core::spec::status::ConditionStatus;

use super::output::FLOW_OUTPUTS_MAX;
use super::state::Text;
use super::{Call, reason};

impl Call<'_> {
    fn notice(&mut self, warning: bool, word: &str, message: String, at: Option<Address>) {
        let attempt = at.and_then(|at| self.state.node(at)).map_or(0, super::state::Node::attempt);
        self.out.push(FlowEffect::RecordEvent(FlowNotice { warning, reason: word.to_owned(), message, at, attempt }));
    }

    pub(super) fn notice_flow(&mut self, word: &str, message: String) {
        self.notice(false, word, message, None);
    }

    pub(super) fn notice_blocked(&mut self, why: &str, message: &str) {
        // Of a server that is slow or away nobody has to be told who reads conditions.
        if matches!(why, "ConcurrencyBlocked" | "QuotaExceeded") {
            self.notice(why == "QuotaExceeded", why, message.to_owned(), None);
        }
    }

    pub(super) fn notice_held(&mut self) {
        let message = "the spec was changed after the start; restore it to go on".to_owned();
        self.notice(true, "SpecChanged", message, None);
    }

    pub(super) fn notice_resources(&mut self, refs: &[ObjectReference]) {
        for reference in refs {
            self.notice(false, "ResourceCreated", format!("{} {}", reference.kind, reference.name), None);
        }
    }

    pub(super) fn notice_resource_failure(&mut self, why: &str, message: &str) {
        self.notice(true, why, message.to_owned(), None);
    }

    pub(super) fn notice_outputs(&mut self, bytes: u64) {
        let message =
            format!("all outputs together take {bytes} bytes of {FLOW_OUTPUTS_MAX}; use artifacts for what is large");
        self.notice(true, "StatusTooLarge", message, None);
    }

    pub(super) fn notice_created(&mut self, at: Address, reference: &ObjectReference) {
        self.notice(false, "StepCreated", format!("{} {}", reference.kind, reference.name), Some(at));
    }

    pub(super) fn notice_delayed(&mut self, at: Address, why: &str, message: &str) {
        if why == "QuotaExceeded" {
            self.notice(true, why, message.to_owned(), Some(at));
        }
    }

    pub(super) fn notice_retry(&mut self, at: Address, message: &str) {
        self.notice(false, "StepRetry", message.to_owned(), Some(at));
    }

    pub(super) fn notice_timeout(&mut self, at: Address, message: &str) {
        self.notice(true, "StepTimeout", message.to_owned(), Some(at));
    }

    pub(super) fn notice_waiting(&mut self, at: Address, message: String) {
        self.notice(true, "StepWaiting", message, Some(at));
    }

    pub(super) fn notice_cancel_blocked(&mut self, at: Address, left: &str) {
        let message = format!(
            "{left} is still there after the cancellation; nothing that comes after it starts. If it cannot run any more: \
             orlop flow confirm-gone"
        );
        self.notice(true, "CancelBlocked", message, Some(at));
    }

    pub(super) fn notice_gone(&mut self, at: Address, message: String) {
        self.notice(false, "GoneConfirmed", message, Some(at));
    }

    pub(super) fn notice_awaiting(&mut self, at: Address, message: String) {
        self.notice(false, "StepPendingApproval", message, Some(at));
    }

    pub(super) fn notice_decision(&mut self, at: Address, word: &str, message: String) {
        self.notice(word == "StepRejected", word, message, Some(at));
    }

    pub(super) fn notice_deadline(&mut self) {
        self.notice(true, reason::DEADLINE, "the flow's deadline is over".to_owned(), None);
    }

    pub(super) fn notice_settled(&mut self, at: Address, outcome: StepOutcome) {
        let Some(node) = self.state.node(at) else { return };
        let why = node.reason.as_deref().unwrap_or_default();
        let message = node.message.as_deref().unwrap_or_default();
        let text = [why, message].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ");
        let (warning, word) = match outcome {
            StepOutcome::Succeeded => (false, "StepSucceeded"),
            StepOutcome::Failed if why == reason::NAME_CONFLICT => (true, reason::NAME_CONFLICT),
            StepOutcome::Failed => (true, "StepFailed"),
            StepOutcome::Skipped => (false, "StepSkipped"),
        };
        self.notice(warning, word, text, Some(at));
    }

    pub(super) fn notice_finished(&mut self) {
        let cause = self.state.flow.outcome.as_ref().and_then(|outcome| outcome.cause.clone());
        match (self.state.flow.phase, cause) {
            (FlowPhase::Succeeded, _) => self.notice_flow("JobFlowCompleted", "the flow succeeded".to_owned()),
            (_, cause) => {
                let text = cause.map(|cause| format!("{}: {}", cause.reason, cause.message)).unwrap_or_default();
                self.notice(true, "JobFlowFailed", text, None);
            }
        }
    }

    /// Ends a call: the visible phase, its conditions, and the order to write the status where anything changed.
    pub(super) fn report(&mut self) {
        if !self.changed {
            return;
        }
        let before = self.state.flow.phase;
        let after = self.visible_phase();
        self.state.flow.phase = after;
        if !after.is_terminal() {
            self.note_begun();
        }
        if before != after {
            self.urgent = true;
            self.notice_phase(before, after);
        }
        self.update_conditions();
        let flow = &mut self.state.flow;
        flow.revision = flow.revision.saturating_add(1);
        self.out.push(FlowEffect::StatusChanged { urgent: self.urgent, revision: flow.revision });
    }

    /// Tells once that the first step has left Pending (transition T6).
    pub(super) fn note_begun(&mut self) {
        if !self.had_begun && self.state.has_begun() {
            self.had_begun = true;
            self.notice_flow("JobFlowStarted", "the first step has left Pending".to_owned());
        }
    }

    fn notice_phase(&mut self, before: FlowPhase, after: FlowPhase) {
        let left = matches!(before, FlowPhase::Paused | FlowPhase::Suspended);
        if left && !after.is_terminal() && after != FlowPhase::Suspended {
            self.notice_flow("FlowResumed", "the flow continues".to_owned());
        }
        match after {
            FlowPhase::Paused => self.notice_flow("FlowPaused", "the flow waits for a decision".to_owned()),
            FlowPhase::Suspended => self.notice_flow("FlowSuspended", "nothing more starts".to_owned()),
            _ => {}
        }
    }

    /// Notes when the status of each condition flipped.
    fn update_conditions(&mut self) {
        let phase = self.state.flow.phase;
        let done = phase.is_terminal();
        let flow = &self.state.flow;
        let ready = matches!(phase, FlowPhase::Succeeded | FlowPhase::Running);
        let mut facts: Vec<(&'static str, bool)> = vec![("Ready", ready)];
        if done {
            facts.push((if phase == FlowPhase::Succeeded { "Completed" } else { "Failed" }, true));
        }
        if !self.state.index.tolerated.is_empty() {
            facts.push(("FailuresTolerated", true));
        }
        let blocked = self.state.blocked().is_some();
        if blocked || flow.conditions.contains_key("Blocked") {
            facts.push(("Blocked", blocked));
        }
        let stuck = !self.state.index.blocked.is_empty();
        if stuck || flow.conditions.contains_key("CancelBlocked") {
            facts.push(("CancelBlocked", stuck));
        }
        if flow.held || flow.conditions.contains_key("SpecChanged") {
            facts.push(("SpecChanged", flow.held));
        }
        // Whoever reports here has planned the spec.
        if flow.conditions.contains_key("NotUnderstood") {
            facts.push(("NotUnderstood", false));
        }
        let now = self.now;
        for (kind, holds) in facts {
            let status = if holds { ConditionStatus::True } else { ConditionStatus::False };
            let entry = self.state.flow.conditions.entry(Text::Borrowed(kind)).or_insert((status, now));
            if entry.0 != status {
                *entry = (status, now);
            }
        }
    }
}
