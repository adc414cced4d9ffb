//! Settling steps and what follows from it: skip cascades, joins, conditions. Each step settles once and each edge is
//! crossed once in a flow's life, by a work list, never by recursion.

use orlop_core::attempt::{Address, StepIndex};
use orlop_core::machine::step::{StepOutcome, StepState};

use super::state::{Node, Resources, Stage, Text};
use super::{Call, facts, reason};
use crate::depends::{Depends, SettledView};
use crate::plan::Edge;

impl Call<'_> {
    /// Settles a unit for ever.
    pub(super) fn settle(&mut self, at: Address, outcome: StepOutcome, reason: Option<Text>, message: Option<String>) {
        let now = self.now;
        let Some(node) = self.state.node_mut(at) else { return };
        if node.state.is_settled() {
            return;
        }
        node.reason = reason;
        node.message = message.map(|text| orlop_core::spec::status::cut_message(&text).into_boxed_str());
        node.due = None;
        node.frozen = None;
        (node.waits, node.left) = (None, None);
        if outcome == StepOutcome::Skipped {
            // No attempt of it counts.
            (node.started, node.ended) = (None, None);
        } else {
            node.ended.get_or_insert(now);
        }
        let ended = node.ended;
        self.set_state(at, StepState::Done(outcome));
        self.state.note_failure(self.plan, at);
        self.notice_settled(at, outcome);
        match at.item {
            None => self.step_settled(at.step.0),
            Some(_) => self.instance_settled(at.step.0, ended),
        }
    }

    fn step_settled(&mut self, step: u32) {
        let part = self.state.index.part(self.plan.get(step).is_some_and(|step| step.finally));
        part.open = part.open.saturating_sub(1);
        self.state.index.decidable.remove(&step);
        self.settled.push_back(step);
    }

    /// What follows from what was settled: skips first, so that they show the failure or skip at their root; then halts;
    /// then the steps that may be decided, one at a time in spec order.
    pub(super) fn propagate(&mut self) {
        loop {
            while let Some(step) = self.settled.pop_front() {
                self.tell_dependents(step);
            }
            if let Some(halt) = self.halts.pop_front() {
                self.halt(halt);
            } else if let Some(step) = self.next_decidable() {
                self.evaluate(step);
            } else {
                break;
            }
        }
    }

    /// The first step that may be decided in the part that is under way.
    fn next_decidable(&mut self) -> Option<u32> {
        let flow = &self.state.flow;
        let finally = match flow.stage {
            Stage::Main => false,
            Stage::Finally => true,
            Stage::Over => return None,
        };
        if flow.started.is_none() || flow.resources == Resources::Asked || self.state.halted(finally).is_some() {
            return None;
        }
        let main = u32::try_from(self.plan.main_len()).unwrap_or(u32::MAX);
        let range = if finally { main..u32::MAX } else { 0..main };
        let step = self.state.index.decidable.range(range).next().copied()?;
        self.state.index.decidable.remove(&step);
        Some(step)
    }

    fn tell_dependents(&mut self, step: u32) {
        let at = Address::step(step);
        // After a halt nothing starts: what has not been settled is skipped by derivation.
        if self.halted(at).is_some() {
            return;
        }
        let satisfied = self.state.is_satisfied(self.plan, at);
        let plan = self.plan;
        for edge in plan.graph().successors(step) {
            self.dependency_settled(step, *edge, satisfied);
        }
    }

    fn dependency_settled(&mut self, source: u32, edge: Edge, satisfied: bool) {
        let target = edge.target();
        let index = &mut self.state.index;
        let Some(remaining) = index.remaining.get_mut(target as usize) else { return };
        *remaining = remaining.saturating_sub(1);
        let last = *remaining == 0;
        let mut joins = false;
        if let Some(needed) = index.needed.get_mut(target as usize).filter(|_| !edge.is_reference()) {
            *needed = needed.saturating_sub(1);
            joins = *needed == 0;
        }
        if self.state.nodes.get(target as usize).is_none_or(|node| node.state != StepState::Waiting) {
            return;
        }
        match self.plan.get(target).and_then(|step| step.join.as_deref()) {
            Some(join) if joins => self.decide_join(target, join),
            Some(_) => {}
            None if satisfied || edge.is_reference() => {}
            None => self.skip_for(source, target),
        }
        if last && self.state.nodes.get(target as usize).is_some_and(|node| node.state == StepState::Waiting) {
            self.state.index.decidable.insert(target);
        }
    }

    /// Skips a step because a step it depends on settled unsatisfied.
    pub(super) fn skip_for(&mut self, source: u32, target: u32) {
        let node = self.state.nodes.get(source as usize);
        let by_failure = node.is_some_and(is_failure_rooted);
        let why = if by_failure { reason::DEPENDENCY_FAILED } else { reason::DEPENDENCY_SKIPPED };
        let message = format!("step {} did not succeed", self.plan.name(StepIndex(source)));
        self.settle(Address::step(target), StepOutcome::Skipped, Some(why.into()), Some(message));
    }

    /// Evaluates a join all of whose steps are settled; skips the step where it is false.
    pub(super) fn decide_join(&mut self, step: u32, join: &Depends) {
        if join.eval(&|name| self.settled_view(name)) {
            return;
        }
        let failed = join.references().any(|name| self.failed_untolerated(name));
        let why = if failed { reason::DEPENDENCY_FAILED } else { reason::DEPENDS_FALSE };
        let message = "its `depends` is false".to_owned();
        self.settle(Address::step(step), StepOutcome::Skipped, Some(why.into()), Some(message));
    }

    /// Decides a step whose dependencies and references are all settled: condition, then what it is.
    fn evaluate(&mut self, step: u32) {
        let at = Address::step(step);
        let Some(planned) = self.plan.get(step) else { return };
        if self.state.node(at).map(|node| node.state) != Some(StepState::Waiting) {
            return;
        }
        let per_instance = planned.condition.as_ref().is_some_and(|condition| condition.references().is_per_instance());
        if per_instance || self.condition_holds(at) {
            self.release(at);
        }
    }

    /// Evaluates the condition of a unit; settles it and answers false where it does not hold.
    pub(super) fn condition_holds(&mut self, at: Address) -> bool {
        let plan = self.plan;
        let Some(condition) = plan.get(at.step.0).and_then(|step| step.condition.as_ref()) else { return true };
        let verdict = condition.eval(&facts::View::new(plan, self.state, at));
        match verdict {
            Ok(true) => true,
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
            let tolerated = self.plan.failure(step).tolerated;
            self.state.node(at).is_some_and(|node| is_failure_rooted(node) && !(node.failed() && tolerated))
        })
    }

    /// What joins may ask of a settled step.
    fn settled_view(&self, name: &str) -> SettledView {
        let Some(step) = self.plan.index_of(name) else { return SettledView::default() };
        let at = Address { step, item: None };
        let Some(node) = self.state.node(at) else { return SettledView::default() };
        let own = node.reason.as_deref() == Some(reason::CONDITION_FALSE);
        let skipped = node.state == StepState::SKIPPED;
        let group = self.state.index.groups.get(&step.0);
        let instances = self.state.groups.get(&step.0).map_or(&[][..], |group| &group.nodes);
        let total = instances.len();
        let is_reused = |node: &Node| node.reason.as_deref() == Some(reason::REUSED);
        let reused = is_reused(node) || instances.iter().any(is_reused);
        SettledView {
            satisfied: self.state.is_satisfied(self.plan, at),
            succeeded: node.state == StepState::SUCCEEDED,
            failed: node.failed(),
            skipped: skipped && own,
            omitted: skipped && !own,
            completed: node.state.is_settled() && !skipped && (node.asked || reused),
            any_succeeded: group.map_or(node.state == StepState::SUCCEEDED, |group| group.succeeded > 0),
            all_failed: group.map_or(node.failed(), |counts| total > 0 && counts.failed as usize == total),
        }
    }
}

/// Whether a failure is at the root of what became of a step.
fn is_failure_rooted(node: &Node) -> bool {
    node.failed() || node.reason.as_deref() == Some(reason::DEPENDENCY_FAILED)
}
