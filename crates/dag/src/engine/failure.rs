//! What a failure means: the pod failure policy, retries, the flow's budget, the failure policy.

use std::time::Duration;

use orlop_core::attempt::{Address, PodEnd};
use orlop_core::backoff;
use orlop_core::machine::step::{StepOutcome, StepState};
use orlop_core::spec::policy::{DEFAULT_CONTAINER, FailurePolicy, OnExitCodes, PodFailureRule};

use super::halt::Halt;
use super::state::{Node, Text};
use super::{Call, phrase, reason};
use crate::plan::Plan;

/// What the pod failure policy says of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PolicyAction {
    Ignore,
    Count,
    FailJob,
    None,
}

/// Rules in order, for each rule the failed pods in creation order: the first match decides.
pub(super) fn verdict(rules: &[PodFailureRule], pods: &[PodEnd]) -> PolicyAction {
    for rule in rules {
        if !pods.iter().any(|pod| rule.on_exit_codes.as_ref().is_none_or(|codes| matches(codes, pod))) {
            continue;
        }
        match rule.action.as_str() {
            "Ignore" => return PolicyAction::Ignore,
            "Count" => return PolicyAction::Count,
            "FailJob" => return PolicyAction::FailJob,
            _ => return PolicyAction::None,
        }
    }
    PolicyAction::None
}

fn matches(codes: &OnExitCodes, pod: &PodEnd) -> bool {
    let name = codes.container_name.as_deref().filter(|name| !name.is_empty()).unwrap_or(DEFAULT_CONTAINER);
    let Some(container) = pod.containers.iter().find(|container| container.name == name) else { return false };
    let listed = codes.values.contains(&container.exit_code);
    match codes.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        _ => false,
    }
}

/// The reason of a failure that a retry cannot fix, as the attempt itself says.
pub const PERMANENT: &str = "Permanent";

/// Whether the retry policy applies to a failure of this reason.
pub(super) fn is_retryable(why: &str) -> bool {
    !matches!(
        why,
        "TemplateInvalid"
            | "Forbidden"
            | "NameConflict"
            | "Unschedulable"
            | "ConditionError"
            | "OutputTooLarge"
            | "OutputInvalid"
            | PERMANENT
            | "Rejected"
            | "ApprovalTimedOut"
    )
}

/// Time between the end of a failed attempt and the next one.
pub(super) fn delay(plan: &Plan, uid: &str, at: Address, node: &Node) -> Duration {
    let Some((_, formula)) = plan.get(at.step.0).and_then(|step| step.retry.as_deref()) else {
        return Duration::ZERO;
    };
    let jitter = match formula.jitter > 0.0 {
        true => backoff::fraction(&[uid, &plan.instance_name(at), &node.attempt().to_string()]),
        false => 0.0,
    };
    formula.delay(node.retries, jitter)
}

impl Call<'_> {
    /// A unit's attempt failed: another attempt, or the end of the unit.
    pub(super) fn fail(&mut self, at: Address, why: Text, message: String, retryable: bool) {
        self.retain(at, false);
        let finally = self.is_finally(at);
        let allowed = self.plan.get(at.step.0).and_then(|step| step.retry.as_deref()).map_or(0, |(limit, _)| *limit);
        let again = retryable && self.state.node(at).is_some_and(|node| node.retries < allowed);
        if self.state.halted(finally).is_some() {
            if again && self.has_budget() {
                self.note_cut(finally);
            }
            self.fail_for_good(at, why, message);
        } else if !again {
            self.fail_for_good(at, why, message);
        } else if self.has_budget() {
            self.back_off(at, why, message);
        } else {
            self.fail_over_budget(at, why, message);
        }
    }

    /// Whether the flow may make one more retry besides those that are made or scheduled.
    fn has_budget(&self) -> bool {
        let scheduled = u32::try_from(self.state.index.backoff.len()).unwrap_or(u32::MAX);
        let spent = self.state.flow.retries.saturating_add(scheduled);
        spent < self.plan.policy().backoff_limit
    }

    /// A retry that the flow's budget does not allow.
    fn fail_over_budget(&mut self, at: Address, why: Text, message: String) {
        if self.is_finally(at) {
            self.fail_for_good(at, why, message);
        } else {
            self.settle_failed(at, why, phrase::over_budget(&message));
            self.halt_over_budget(at);
        }
    }

    /// A retry is due: back to the queue under the next attempt number. Failures that were counted
    /// since it was scheduled may have used up the budget.
    pub(super) fn retry(&mut self, at: Address) {
        if self.state.flow.retries >= self.plan.policy().backoff_limit {
            let Some(node) = self.state.node_mut(at) else { return };
            let why = node.reason.take().unwrap_or_default();
            let message = node.message.take().map(String::from).unwrap_or_default();
            return self.fail_over_budget(at, why, message);
        }
        self.set_state(at, StepState::Queued);
        let Some(node) = self.state.node_mut(at) else { return };
        node.clear_attempt();
        node.retries = node.retries.saturating_add(1);
        self.state.flow.retries = self.state.flow.retries.saturating_add(1);
        self.state.index.enqueue(self.plan, at);
        self.notice_retry(at, "its retry is due");
    }

    fn back_off(&mut self, at: Address, why: Text, message: String) {
        let now = self.now;
        let meta = self.state.flow.meta.clone();
        let Some(node) = self.state.node_mut(at) else { return };
        let delay = delay(self.plan, &meta.uid, at, node);
        let outputs = node.outputs.take();
        node.reason = Some(why);
        node.message = Some(orlop_core::spec::status::cut_message(&message).into_boxed_str());
        let ended = *node.ended.get_or_insert(now);
        node.started = node.started.or(Some(ended));
        self.forget_outputs(outputs.as_deref());
        self.set_state(at, StepState::Backoff);
        self.arm(at, ended.plus(delay));
    }

    /// A unit failed and is not tried again. In `finally` nothing is halted: every step of it cleans up.
    pub(super) fn fail_for_good(&mut self, at: Address, why: Text, message: String) {
        let text = format!("step {} failed: {why}: {message}", self.plan.instance_name(at));
        self.settle_failed(at, why, message);
        let meaning = self.plan.failure(at.step);
        if meaning.tolerated {
            return;
        }
        if self.is_finally(at) {
            self.add_cause(reason::FINALLY_FAILED.into(), text);
            return;
        }
        self.add_cause(reason::FLOW_FAILED.into(), text);
        // Who named the failure is to run.
        if meaning.named {
            return;
        }
        let cancels = match self.plan.policy().failure {
            FailurePolicy::Continue => return,
            FailurePolicy::FailFast => false,
            FailurePolicy::CancelRunning => true,
        };
        self.halts.push_back(Halt { reason: reason::FLOW_FAILED.into(), cancels });
    }

    fn settle_failed(&mut self, at: Address, why: Text, message: String) {
        if let Some(node) = self.state.node_mut(at) {
            node.started = node.started.or(node.ended);
        }
        self.settle(at, StepOutcome::Failed, Some(why), Some(message));
    }

    /// The flow has used up its retries.
    pub(super) fn halt_over_budget(&mut self, at: Address) {
        if self.is_finally(at) {
            return;
        }
        let message = format!(
            "more retries than the flow's backoffLimit of {} allows, last of step {}",
            self.plan.policy().backoff_limit,
            self.plan.instance_name(at)
        );
        self.add_cause(reason::BACKOFF_LIMIT.into(), message);
        let cancels = self.plan.policy().failure == FailurePolicy::CancelRunning;
        self.halts.push_back(Halt { reason: reason::BACKOFF_LIMIT.into(), cancels });
    }
}

#[cfg(test)]
mod tests {
    use orlop_core::attempt::ContainerEnd;

    use super::*;

    fn rule(action: &str, operator: &str, values: &[i32]) -> PodFailureRule {
        let codes = OnExitCodes { container_name: None, operator: operator.into(), values: values.to_vec() };
        PodFailureRule { action: action.into(), on_exit_codes: Some(codes) }
    }

    fn pod(name: &str, exit_code: i32) -> PodEnd {
        PodEnd { containers: vec![ContainerEnd { name: name.into(), exit_code }] }
    }

    #[test]
    fn the_first_matching_rule_decides() {
        let rules = [rule("Ignore", "In", &[3]), rule("FailJob", "NotIn", &[1, 2])];
        assert_eq!(verdict(&rules, &[pod("main", 3)]), PolicyAction::Ignore);
        assert_eq!(verdict(&rules, &[pod("main", 9)]), PolicyAction::FailJob);
        assert_eq!(verdict(&rules, &[pod("main", 1)]), PolicyAction::None);
        assert_eq!(verdict(&rules, &[pod("main", 9), pod("main", 3)]), PolicyAction::Ignore);
    }

    #[test]
    fn absent_containers_unknown_words_and_no_pods_match_nothing() {
        let rules = [rule("Ignore", "In", &[3])];
        assert_eq!(verdict(&rules, &[pod("sidecar", 3)]), PolicyAction::None);
        assert_eq!(verdict(&rules, &[]), PolicyAction::None);
        assert_eq!(verdict(&[rule("Shrug", "In", &[3])], &[pod("main", 3)]), PolicyAction::None);
        let both = [rule("Shrug", "In", &[3]), rule("Ignore", "In", &[3])];
        assert_eq!(verdict(&both, &[pod("main", 3)]), PolicyAction::None, "the first match decides");
        assert_eq!(verdict(&[rule("Ignore", "Near", &[3])], &[pod("main", 3)]), PolicyAction::None);
        let bare = [PodFailureRule { action: "Count".into(), on_exit_codes: None }];
        assert_eq!(verdict(&bare, &[pod("x", 1)]), PolicyAction::Count);
        assert_eq!(verdict(&bare, &[]), PolicyAction::None);
    }
}
