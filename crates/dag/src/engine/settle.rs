//! Settling steps and what follows from it: skip cascades, joins, conditions. Each step settles once and each edge is
//! crossed once in a flow's life, by a work list, never by recursion.

use orlop_core::attempt::Address;
use orlop_core::machine::step::{StepOutcome, StepState};

use super::fault::{Fault, fault};
use super::state::Text;
use super::{Call, facts, reason};
use crate::depends::SettledView;

impl Call<'_> {
    /// Settles a unit for ever.
    pub(super) fn settle(&mut self, at: Address, outcome: StepOutcome, reason: Option<Text>, message: Option<String>) {
        let now = self.now;
        let Some(node) = self.state.node_mut(at) else { return };
        if node.state.is_settled() && !fault(Fault::SettleTwice) {
            return;
        }
        node.reason = reason;
        node.message = message.map(|text| orlop_core::spec::status::cut_message(&text).into_boxed_str());
        node.due = None;
        node.frozen = None;
        if outcome != StepOutcome::Skipped && node.ended.is_none() {
            node.ended = Some(now);
        }
        self.set_state(at, StepState::Done(outcome));
        self.notice_settled(at, outcome);
        match at.item {
            None => self.step_settled(at.step.0),
            Some(_) => self.instance_settled(at.step.0),
        }
    }

    pub(super) fn step_settled(&mut self, step: u32) {
        let finally = self.is_finally(Address::step(step));
        let part = self.state.index.part(finally);
        part.open = part.open.saturating_sub(1);
        self.settled.push(step);
    }

    /// Tells dependents of what was settled, theirs of what that settles, and so on; then lets halts take effect.
    pub(super) fn propagate(&mut self) {
        loop {
            while let Some(step) = self.settled.pop() {
                self.tell_dependents(step);
            }
            if self.halts.is_empty() {
                break;
            }
            for (cause, cancel) in std::mem::take(&mut self.halts) {
                self.halt(cause, cancel);
            }
        }
    }

    fn tell_dependents(&mut self, step: u32) {
        let at = Address::step(step);
        // After a halt nothing starts: what has not been settled is skipped by derivation.
        if self.state.halted(self.is_finally(at)).is_some() && !fault(Fault::StartAfterHalt) {
            return;
        }
        let satisfied = self.state.is_satisfied(self.plan, at) || fault(Fault::FailureSatisfies);
        let plan = self.plan;
        for edge in plan.graph().successors(step) {
            self.dependency_settled(step, edge.target(), satisfied || edge.is_reference());
        }
    }

    fn dependency_settled(&mut self, source: u32, target: u32, satisfied: bool) {
        let Some(remaining) = self.state.index.remaining.get_mut(target as usize) else { return };
        *remaining = remaining.saturating_sub(1);
        let last = *remaining == 0;
        let at = Address::step(target);
        if self.state.node(at).map(|node| node.state) != Some(StepState::Waiting) {
            return;
        }
        let joined = self.plan.get(target).is_some_and(|step| step.join.is_some());
        if !satisfied && !joined && !fault(Fault::NoCascade) {
            let why = self.unsatisfied_reason(source);
            let message = format!("step {} did not succeed", self.plan.name(Address::step(source).step));
            self.settle(at, StepOutcome::Skipped, Some(why.into()), Some(message));
        } else if last {
            self.evaluate(target);
        }
    }

    /// Why a dependent of an unsatisfied step is skipped: a failure at the root, or a skip.
    fn unsatisfied_reason(&self, source: u32) -> &'static str {
        let node = self.state.node(Address::step(source));
        let by_failure =
            node.is_some_and(|node| node.failed() || node.reason.as_deref() == Some(reason::DEPENDENCY_FAILED));
        if by_failure { reason::DEPENDENCY_FAILED } else { reason::DEPENDENCY_SKIPPED }
    }

    /// Decides a step whose dependencies and references are all settled: join, condition, then what it is.
    pub(super) fn evaluate(&mut self, step: u32) {
        let at = Address::step(step);
        let plan = self.plan;
        let Some(planned) = plan.get(step) else { return };
        if self.state.node(at).map(|node| node.state) != Some(StepState::Waiting) {
            return;
        }
        if let Some(join) = &planned.join
            && !join.eval(&|name| self.settled_view(name))
        {
            let failed = join.references().any(|name| self.failed_untolerated(name));
            let why = if failed { reason::DEPENDENCY_FAILED } else { reason::DEPENDS_FALSE };
            let message = "its `depends` is false".to_owned();
            self.settle(at, StepOutcome::Skipped, Some(why.into()), Some(message));
            return;
        }
        let per_instance = planned.condition.as_ref().is_some_and(|condition| condition.references().is_per_instance());
        if !per_instance && !self.condition_holds(at) {
            return;
        }
        self.release(at);
    }

    /// Evaluates the condition of a unit; settles it and answers false where it does not hold.
    pub(super) fn condition_holds(&mut self, at: Address) -> bool {
        let plan = self.plan;
        let Some(condition) = plan.get(at.step.0).and_then(|step| step.condition.as_ref()) else { return true };
        let verdict = condition.eval(&facts::View::new(plan, self.state, at));
        match verdict {
            Ok(true) => true,
            Ok(false) if fault(Fault::IgnoreCondition) => true,
            Ok(false) => {
                let message = "its `when` is false".to_owned();
                self.settle(at, StepOutcome::Skipped, Some(reason::CONDITION_FALSE.into()), Some(message));
                false
            }
            Err(error) => {
                let message = format!("its `when` cannot be evaluated: {error}");
                self.fail_for_good(at, reason::CONDITION_ERROR.into(), message);
                false
            }
        }
    }

    /// Lets a unit whose condition holds wait for what it needs next: a decision, its items, a slot.
    fn release(&mut self, at: Address) {
        let Some(planned) = self.plan.get(at.step.0) else { return };
        if planned.manual {
            let decided = self.state.node(at).is_some_and(|node| node.approval.is_some());
            if decided {
                self.conclude_approval(at);
            } else {
                self.set_state(at, StepState::Queued);
                self.state.index.enqueue(self.plan, at);
            }
            return;
        }
        self.set_state(at, StepState::Queued);
        match &planned.fan_out {
            None => self.state.index.enqueue(self.plan, at),
            Some(fan_out) => match fan_out.listed {
                Some(count) => self.expand(at.step.0, count, None),
                None => self.out.push(orlop_core::effect::FlowEffect::ResolveItems { step: at.step }),
            },
        }
    }

    fn failed_untolerated(&self, name: &str) -> bool {
        self.plan.index_of(name).is_some_and(|step| {
            let at = Address { step, item: None };
            let by_failure = |node: &super::state::Node| {
                (node.failed() && !self.plan.tolerates(step))
                    || node.reason.as_deref() == Some(reason::DEPENDENCY_FAILED)
            };
            self.state.node(at).is_some_and(by_failure)
        })
    }

    /// What joins may ask of a settled step (rule R35).
    fn settled_view(&self, name: &str) -> SettledView {
        let Some(step) = self.plan.index_of(name) else { return SettledView::default() };
        let at = Address { step, item: None };
        let Some(node) = self.state.node(at) else { return SettledView::default() };
        let own = node.reason.as_deref() == Some(reason::CONDITION_FALSE);
        let skipped = node.state == StepState::SKIPPED;
        let group = self.state.index.groups.get(&step.0);
        SettledView {
            satisfied: self.state.is_satisfied(self.plan, at),
            succeeded: node.state == StepState::SUCCEEDED,
            failed: node.failed(),
            skipped: skipped && own,
            omitted: skipped && !own,
            completed: node.state.is_settled()
                && (node.ran || group.is_some_and(|group| group.succeeded + group.failed > 0)),
            any_succeeded: group.map_or(node.state == StepState::SUCCEEDED, |group| group.succeeded > 0),
            all_failed: match (group, self.state.groups.get(&step.0)) {
                (Some(counts), Some(group)) => !group.nodes.is_empty() && counts.failed as usize == group.nodes.len(),
                _ => node.failed(),
            },
        }
    }
}
