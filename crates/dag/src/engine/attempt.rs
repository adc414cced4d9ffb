//! Events about attempts. Owns the fence: an event whose attempt is not current, or whose step is settled, changes
//! nothing and is counted.

use std::time::Duration;

use orlop_core::attempt::Address;
use orlop_core::effect::FlowEffect;
use orlop_core::event::{AttemptResult, FlowEvent};
use orlop_core::machine::step::{StepOutcome, StepState};
use orlop_core::spec::meta::ObjectReference;
use orlop_core::spec::policy::JobRetention;
use orlop_core::time::Time;

use super::state::Text;
use super::{Call, failure, phrase, reason};

impl Call<'_> {
    pub(super) fn attempt_event(&mut self, event: &FlowEvent, at: Address, attempt: u32) {
        let current = self.state.node(at).map(|node| (node.state, node.attempt()));
        let Some((state, number)) = current else { return self.fence() };
        if number != attempt || !state.is_live() {
            return self.fence();
        }
        match (state, event) {
            (StepState::Starting, FlowEvent::AttemptAccepted { reference, .. }) => self.accepted(at, reference),
            (StepState::Starting, FlowEvent::AttemptDelayed { reason, message, retry_at, .. }) => {
                self.delayed(at, reason, message, *retry_at);
            }
            (StepState::Starting, FlowEvent::AttemptRefused { reason, message, retryable, .. }) => {
                self.refused(at, reason, message, *retryable);
            }
            (StepState::Cancelling, _) => self.cancelling(event, at),
            (StepState::Active, FlowEvent::AttemptWaiting { .. }) => self.waiting(at, event),
            (_, FlowEvent::AttemptSucceeded { result, ended_at, .. }) => {
                self.ran(at, *ended_at);
                self.succeeded(at, result);
            }
            (_, FlowEvent::AttemptFailed { ended_at, .. }) => {
                self.ran(at, *ended_at);
                self.attempt_failed(event, at);
            }
            (_, FlowEvent::AttemptGone { ended_at, .. }) => {
                self.ran(at, *ended_at);
                let message = "its job was deleted by another client".to_owned();
                self.fail(at, reason::JOB_MISSING.into(), message, true);
            }
            (_, FlowEvent::AttemptLost { message, ended_at, .. }) => self.lost(at, message, *ended_at),
            _ => self.fence(),
        }
    }

    fn fence(&mut self) {
        self.state.flow.fenced = self.state.flow.fenced.saturating_add(1);
    }

    fn accepted(&mut self, at: Address, reference: &ObjectReference) {
        let now = self.now;
        let Some(node) = self.state.node_mut(at) else { return };
        node.started = Some(now);
        node.job = Some(Box::new(reference.clone()));
        node.reason = None;
        node.message = None;
        node.due = None;
        node.ran = true;
        self.set_state(at, StepState::Active);
        self.note_group_start(at, now);
        self.notice_created(at, reference);
        self.set_clock(at, |_| {});
        if let Some(cause) = self.state.cancels(self.is_finally(at)).cloned() {
            self.begin_cancel(at, cause);
        } else if self.freezes() {
            self.freeze(at);
        }
    }

    /// A fan-out starts with the first of its instances.
    fn note_group_start(&mut self, at: Address, started: Time) {
        if let (Some(_), Some(step)) = (at.item, self.state.nodes.get_mut(at.step.0 as usize)) {
            step.started.get_or_insert(started);
        }
    }

    fn delayed(&mut self, at: Address, reason: &str, message: &str, retry_at: Time) {
        if let Some(cause) = self.halted(at).cloned() {
            return self.skip_by_halt(at, cause);
        }
        let due = retry_at.max(self.now);
        let message = orlop_core::spec::status::cut_message(message);
        let Some(node) = self.state.node_mut(at) else { return };
        let known = node.due == Some(due)
            && node.reason.as_deref() == Some(reason)
            && node.message.as_deref().unwrap_or_default() == message;
        if known {
            return;
        }
        node.reason = Some(Text::Owned(reason.to_owned()));
        node.message = Some(message.clone().into_boxed_str());
        let short = node.is_short();
        self.changed = true;
        if short {
            self.state.index.short.insert(at);
        } else {
            self.state.index.short.remove(&at);
        }
        self.notice_delayed(at, reason, &message);
        self.arm(at, due);
    }

    fn refused(&mut self, at: Address, reason: &str, message: &str, retryable: bool) {
        if let Some(cause) = self.halted(at).cloned() {
            return self.skip_by_halt(at, cause);
        }
        let now = self.now;
        self.ended(at, now);
        self.fail(at, Text::Owned(reason.to_owned()), message.to_owned(), retryable);
        if self.state.node(at).is_some_and(|node| node.state == StepState::Backoff) {
            self.notice_settled(at, StepOutcome::Failed);
        }
    }

    /// Notes the end of an attempt: its time and its share of the mean.
    fn ended(&mut self, at: Address, ended_at: Time) {
        let now = self.now;
        let Some(node) = self.state.node_mut(at) else { return };
        let started = *node.started.get_or_insert(ended_at.min(now));
        let ended = ended_at.min(now).max(started);
        node.ended = Some(ended);
        node.due = None;
        node.frozen = None;
        (node.waits, node.left) = (None, None);
        if node.ran {
            let flow = &mut self.state.flow;
            flow.attempts_ended = flow.attempts_ended.saturating_add(1);
            let millis = u64::try_from(ended.since(started).as_millis()).unwrap_or(u64::MAX);
            flow.attempt_millis = flow.attempt_millis.saturating_add(millis);
            self.note_group_start(at, started);
        }
    }

    /// Notes that an attempt has run, also where its end is the first that is heard of it.
    fn ran(&mut self, at: Address, ended_at: Time) {
        if let Some(node) = self.state.node_mut(at) {
            node.ran = true;
        }
        self.state.note_left(at);
        self.ended(at, ended_at);
    }

    fn succeeded(&mut self, at: Address, result: &AttemptResult) {
        match self.record_outputs(at, result, true) {
            Ok(()) => {
                self.retain(at, true);
                self.settle(at, StepOutcome::Succeeded, None, None);
            }
            Err((why, message)) => {
                let retryable = failure::is_retryable(&why);
                self.fail(at, why, message, retryable);
            }
        }
    }

    fn attempt_failed(&mut self, event: &FlowEvent, at: Address) {
        let FlowEvent::AttemptFailed { reason: why, message, pods, result, .. } = event else { return };
        let tolerated = match failure::verdict(&self.plan.policy().rules, pods) {
            failure::PolicyAction::Ignore => reason::FAILURE_IGNORED,
            failure::PolicyAction::Count => reason::FAILURE_COUNTED,
            failure::PolicyAction::FailJob => {
                self.take_outputs(at, result);
                return self.fail(at, Text::Owned(why.clone()), message.clone(), false);
            }
            failure::PolicyAction::None => {
                self.take_outputs(at, result);
                let retryable = failure::is_retryable(why);
                return self.fail(at, Text::Owned(why.clone()), message.clone(), retryable);
            }
        };
        if let Err((why, message)) = self.record_outputs(at, result, false) {
            return self.fail(at, why, message, false);
        }
        self.retain(at, false);
        if tolerated == reason::FAILURE_COUNTED {
            if let Some(node) = self.state.node_mut(at) {
                node.counted = node.counted.saturating_add(1);
            }
            self.state.flow.retries = self.state.flow.retries.saturating_add(1);
        }
        self.settle(at, StepOutcome::Succeeded, Some(tolerated.into()), Some(message.clone()));
        let over = self.state.flow.retries > self.plan.policy().backoff_limit;
        if tolerated == reason::FAILURE_COUNTED && over {
            self.halt_over_budget(at);
        }
    }

    /// An event about an attempt that was told to end. A success that came first stands unless it came too late.
    fn cancelling(&mut self, event: &FlowEvent, at: Address) {
        let cause = self.state.node(at).and_then(|node| node.reason.clone()).unwrap_or(reason::TERMINATED.into());
        let timed_out = cause == reason::TIMEOUT;
        let message = self.too_long(at, &cause);
        match event {
            FlowEvent::CancelBlocked { left, .. } => self.cancel_blocked(at, left),
            FlowEvent::GoneConfirmed { ended_at, .. } if self.gone_confirmed(event, at) => {
                self.ended(at, *ended_at);
                self.cancelled(at, cause, message);
            }
            FlowEvent::AttemptSucceeded { result, ended_at, .. } if !timed_out => {
                self.ended(at, *ended_at);
                self.succeeded(at, result);
            }
            FlowEvent::AttemptSucceeded { ended_at, .. }
            | FlowEvent::AttemptFailed { ended_at, .. }
            | FlowEvent::AttemptGone { ended_at, .. }
            | FlowEvent::AttemptLost { ended_at, .. }
            | FlowEvent::CancelConfirmed { ended_at, .. } => {
                self.ended(at, *ended_at);
                self.cancelled(at, cause, message);
            }
            _ => self.fence(),
        }
    }

    fn cancelled(&mut self, at: Address, cause: Text, too_long: String) {
        if cause == reason::TIMEOUT || cause == reason::PENDING_TIMEOUT {
            self.fail(at, cause, too_long, true);
            return;
        }
        self.note_cut_by(cause.clone());
        self.retain(at, false);
        self.settle(at, StepOutcome::Failed, Some(cause), Some(phrase::CANCELLED.to_owned()));
    }

    fn lost(&mut self, at: Address, message: &str, ended_at: Time) {
        let limit = self.plan.policy().lost_limit;
        let again = self.state.node(at).is_some_and(|node| node.lost < limit);
        self.ran(at, ended_at);
        if !again || self.halted(at).is_some() {
            if again {
                self.note_cut(self.is_finally(at));
            }
            self.fail(at, reason::LOST.into(), message.to_owned(), true);
            return;
        }
        self.retain(at, false);
        self.set_state(at, StepState::Queued);
        if let Some(node) = self.state.node_mut(at) {
            node.clear_attempt();
            node.lost = node.lost.saturating_add(1);
        }
        self.state.index.enqueue(self.plan, at);
        self.notice_retry(at, "its host was lost");
    }

    /// Tells a live attempt to end.
    pub(super) fn begin_cancel(&mut self, at: Address, cause: Text) {
        let Some(node) = self.state.node_mut(at) else { return };
        let attempt = node.attempt();
        node.reason = Some(cause.clone());
        node.due = None;
        node.frozen = None;
        self.set_state(at, StepState::Cancelling);
        self.out.push(FlowEffect::CancelAttempt { at, attempt, cause: cause.clone().into_owned(), grace: None });
    }

    /// Asks for an ended execution to be deleted, where the flow or the template says so.
    pub(super) fn retain(&mut self, at: Address, succeeded: bool) {
        if let Some(attempt) = self.state.node(at).filter(|node| node.ran).map(super::state::Node::attempt) {
            self.retain_attempt(at, attempt, succeeded);
        }
    }

    /// The same of any attempt that has run.
    pub(super) fn retain_attempt(&mut self, at: Address, attempt: u32, succeeded: bool) {
        let at_once = match self.plan.policy().retention {
            JobRetention::All => false,
            JobRetention::Failed => succeeded,
            JobRetention::None => true,
        };
        let later = self.plan.get(at.step.0).and_then(|step| step.forget_after);
        if let Some(after) = if at_once { Some(Duration::ZERO) } else { later } {
            self.out.push(FlowEffect::ForgetAttempt { at, attempt, after });
        }
    }
}
