//! What a failure means: the pod failure policy, retries, the flow's budget, the failure policy.

use orlop_core::attempt::{Address, PodEnd};
use orlop_core::backoff;
use orlop_core::machine::step::{StepOutcome, StepState};
use orlop_core::spec::policy::{DEFAULT_CONTAINER, FailurePolicy, OnExitCodes, PodFailureRule};

use super::fault::{Fault, fault};
use super::state::{Cause, Text};
use super::{Call, reason};

/// What the pod failure policy says of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Ignore,
    Count,
    FailJob,
    None,
}

/// Rules in order, for each rule the failed pods in creation order: the first match decides (rule R19).
pub(super) fn verdict(rules: &[PodFailureRule], pods: &[PodEnd]) -> Verdict {
    for rule in rules {
        if !pods.iter().any(|pod| rule.on_exit_codes.as_ref().is_none_or(|codes| matches(codes, pod))) {
            continue;
        }
        match rule.action.as_str() {
            "Ignore" => return Verdict::Ignore,
            "Count" => return Verdict::Count,
            "FailJob" => return Verdict::FailJob,
            _ => {}
        }
    }
    Verdict::None
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

/// Whether the retry policy applies to a failure of this reason (section 1.4).
pub(super) fn is_retryable(why: &str) -> bool {
    !matches!(
        why,
        "TemplateInvalid"
            | "Forbidden"
            | "NameConflict"
            | "Unschedulable"
            | "ConditionError"
            | "OutputTooLarge"
            | "Rejected"
            | "ApprovalTimedOut"
    )
}

impl Call<'_> {
    /// A unit's attempt failed: another attempt, or the end of the unit.
    pub(super) fn fail(&mut self, at: Address, why: Text, message: String, retryable: bool) {
        self.retain(at, false);
        let halted = self.state.halted(self.is_finally(at)).is_some();
        let allowed = self.plan.get(at.step.0).and_then(|step| step.retry.as_deref()).map_or(0, |(limit, _)| *limit);
        let used = self.state.node(at).map_or(0, |node| node.retries);
        if !retryable || halted || used >= allowed {
            if halted {
                self.state.flow.cut_off |= retryable && used < allowed;
            }
            self.fail_for_good(at, why, message);
            return;
        }
        let scheduled = u32::try_from(self.state.index.backoff.len()).unwrap_or(u32::MAX);
        let spent = self.state.flow.retries.saturating_add(scheduled);
        if spent >= self.plan.policy().backoff_limit && !fault(Fault::NoBudget) {
            let finally = self.is_finally(at);
            if finally {
                self.fail_for_good(at, why, message);
            } else {
                self.settle_failed(at, why, message);
                self.halt_over_budget(at);
            }
            return;
        }
        self.back_off(at, why, message);
    }

    fn back_off(&mut self, at: Address, why: Text, message: String) {
        let delay = self.retry_delay(at);
        let now = self.now;
        let Some(node) = self.state.node_mut(at) else { return };
        node.reason = Some(why);
        node.message = Some(orlop_core::spec::status::cut_message(&message).into_boxed_str());
        node.outputs = None;
        let from = *node.ended.get_or_insert(now);
        node.started = node.started.or(Some(from));
        self.set_state(at, StepState::Backoff);
        let due = if fault(Fault::NoBackoff) { from } else { from.plus(delay) };
        self.arm(at, due);
    }

    fn retry_delay(&self, at: Address) -> std::time::Duration {
        let Some((_, formula)) = self.plan.get(at.step.0).and_then(|step| step.retry.as_deref()) else {
            return std::time::Duration::ZERO;
        };
        let Some(node) = self.state.node(at) else { return std::time::Duration::ZERO };
        let name = self.plan.instance_name(at);
        let jitter = backoff::fraction(&[&self.state.flow.meta.uid, &name, &node.attempt().to_string()]);
        formula.delay(node.retries, jitter)
    }

    /// A unit failed and is not tried again.
    pub(super) fn fail_for_good(&mut self, at: Address, why: Text, message: String) {
        let halted = self.state.halted(self.is_finally(at)).is_some();
        let text = format!("step {} failed: {why}: {message}", self.plan.instance_name(at));
        self.settle_failed(at, why, message);
        if self.plan.tolerates(at.step) {
            return;
        }
        let cause = Cause { reason: reason::FLOW_FAILED.into(), message: text };
        if self.is_finally(at) {
            let cause = Cause { reason: reason::FINALLY_FAILED.into(), ..cause };
            self.state.flow.final_failure.get_or_insert(cause);
            return;
        }
        if halted {
            return;
        }
        self.state.flow.failure.get_or_insert(cause.clone());
        match self.plan.policy().failure {
            FailurePolicy::Continue => {}
            FailurePolicy::FailFast => self.halts.push((cause, false)),
            FailurePolicy::CancelRunning => self.halts.push((cause, true)),
        }
    }

    fn settle_failed(&mut self, at: Address, why: Text, message: String) {
        self.note_tolerated(at);
        let started = self.state.node(at).and_then(|node| node.started);
        if let Some(node) = self.state.node_mut(at)
            && node.ended.is_some()
        {
            node.started = started.or(node.ended);
        }
        self.settle(at, StepOutcome::Failed, Some(why), Some(message));
    }

    /// The flow has used up its retries (rule R12).
    pub(super) fn halt_over_budget(&mut self, at: Address) {
        if self.is_finally(at) {
            return;
        }
        let message = format!(
            "more retries than the flow's backoffLimit of {} allows, last of step {}",
            self.plan.policy().backoff_limit,
            self.plan.instance_name(at)
        );
        let cancel = self.plan.policy().failure == FailurePolicy::CancelRunning;
        self.halts.push((Cause { reason: reason::BACKOFF_LIMIT.into(), message }, cancel));
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
    fn r19_the_first_matching_rule_decides() {
        let rules = [rule("Ignore", "In", &[3]), rule("FailJob", "NotIn", &[1, 2])];
        assert_eq!(verdict(&rules, &[pod("main", 3)]), Verdict::Ignore);
        assert_eq!(verdict(&rules, &[pod("main", 9)]), Verdict::FailJob);
        assert_eq!(verdict(&rules, &[pod("main", 1)]), Verdict::None);
        assert_eq!(verdict(&rules, &[pod("main", 9), pod("main", 3)]), Verdict::Ignore);
    }

    #[test]
    fn r19_absent_containers_unknown_words_and_no_pods_match_nothing() {
        let rules = [rule("Ignore", "In", &[3])];
        assert_eq!(verdict(&rules, &[pod("sidecar", 3)]), Verdict::None);
        assert_eq!(verdict(&rules, &[]), Verdict::None);
        assert_eq!(verdict(&[rule("Shrug", "In", &[3])], &[pod("main", 3)]), Verdict::None);
        assert_eq!(verdict(&[rule("Ignore", "Near", &[3])], &[pod("main", 3)]), Verdict::None);
        let bare = [PodFailureRule { action: "Count".into(), on_exit_codes: None }];
        assert_eq!(verdict(&bare, &[pod("x", 1)]), Verdict::Count);
        assert_eq!(verdict(&bare, &[]), Verdict::None);
    }
}
