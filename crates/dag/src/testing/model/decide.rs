//! What follows from a change: skips, halts, and which step is decided next.

use orlop_core::attempt::Address;
use orlop_core::spec::policy::{FailurePolicy, SkipPolicy};

use super::super::case::{Ask, Condition, Items, Join};
use super::{Model, St};

/// Halt causes.
const HALTS: [&str; 6] =
    ["FlowFailed", "BackoffLimitExceeded", "ActiveDeadlineExceeded", "Stopped", "Terminated", "Replaced"];

pub(in crate::testing) fn is_halt(reason: &str) -> bool {
    HALTS.contains(&reason)
}

impl Model<'_> {
    /// Settles a unit.
    pub(super) fn settle(&mut self, at: Address, st: St, reason: &str) {
        if self.st(at).settled() {
            return;
        }
        self.settled += 1;
        let (now, seq) = (self.now, self.settled);
        let Some(unit) = self.unit_mut(at) else { return };
        unit.reason = reason.to_owned();
        unit.seq = seq;
        (unit.due, unit.frozen) = (None, None);
        (unit.waits, unit.blocked) = (None, false);
        if st == St::Skipped {
            (unit.started, unit.ended) = (None, None);
        } else {
            unit.ended.get_or_insert(now);
        }
        self.set(at, st);
        if at.item.is_some() {
            self.conclude_group(at.step.0);
        }
    }

    /// Settles a fan-out all of whose instances are settled.
    fn conclude_group(&mut self, step: u32) {
        let Some(instances) = self.instances_of(step) else { return };
        if !instances.iter().all(|unit| unit.st.settled()) {
            return;
        }
        let ended = instances.iter().filter_map(|unit| unit.ended).max();
        let failed = instances.iter().find(|unit| unit.st == St::Failed).map(|unit| unit.reason.clone());
        let cut = instances.iter().find(|unit| unit.st == St::Skipped && is_halt(&unit.reason));
        let cut = cut.map(|unit| unit.reason.clone());
        let ran = instances.iter().any(|unit| unit.st == St::Succeeded);
        let at = Address::step(step);
        if let Some(unit) = self.unit_mut(at).filter(|unit| !unit.st.settled()) {
            unit.ended = ended;
        }
        match (failed, cut) {
            (Some(reason), _) => self.settle(at, St::Failed, &reason),
            (None, Some(cause)) => self.settle(at, St::Skipped, &cause),
            (None, None) if ran => self.settle(at, St::Succeeded, ""),
            (None, None) => self.settle(at, St::Skipped, "ConditionFalse"),
        }
    }

    /// Skips, then one halt, then one decision, until nothing follows any more.
    pub(super) fn settle_all(&mut self) {
        loop {
            if self.skip_one() {
                continue;
            }
            if !self.pending.is_empty() {
                let (cause, cancels) = self.pending.remove(0);
                self.halt(&cause, cancels);
                continue;
            }
            let Some(step) = self.next_step() else { break };
            self.decide(step);
        }
    }

    /// Whether a settled step lets dependents proceed.
    fn satisfied(&self, step: usize) -> bool {
        let Some(unit) = self.steps.get(step) else { return false };
        let strict = self.case.skip == SkipPolicy::Strict;
        let skips = |units: &Vec<super::ModelStep>| units.iter().any(|unit| unit.st == St::Skipped);
        match unit.st {
            St::Succeeded => !(strict && self.instances.get(step).and_then(Option::as_ref).is_some_and(skips)),
            St::Failed => self.case.steps.get(step).is_some_and(|step| step.continues),
            St::Skipped => !strict && unit.reason == "ConditionFalse",
            _ => false,
        }
    }

    fn by_failure(&self, step: usize) -> bool {
        self.steps.get(step).is_some_and(|unit| unit.st == St::Failed || unit.reason == "DependencyFailed")
    }

    /// Skips the first step that must be, by the step of the flow that settled first.
    fn skip_one(&mut self) -> bool {
        let mut settled: Vec<(u64, usize)> = self
            .steps
            .iter()
            .enumerate()
            .filter(|(_, unit)| unit.st.settled())
            .map(|(at, unit)| (unit.seq, at))
            .collect();
        settled.sort_unstable();
        for (_, source) in settled {
            for (target, step) in self.case.steps.iter().enumerate() {
                if self.steps.get(target).is_none_or(|unit| unit.st != St::Waiting) {
                    continue;
                }
                let reason = match &step.join {
                    Some(join) => self.join_skips(join, source),
                    None if step.needs.contains(&source) && !self.satisfied(source) => {
                        Some(if self.by_failure(source) { "DependencyFailed" } else { "DependencySkipped" })
                    }
                    None => None,
                };
                if let Some(reason) = reason {
                    self.settle(Address::step(u32::try_from(target).unwrap_or(u32::MAX)), St::Skipped, reason);
                    return true;
                }
            }
        }
        false
    }

    /// Why a join, the last of whose steps to settle was `source`, skips its step.
    fn join_skips(&self, join: &Join, source: usize) -> Option<&'static str> {
        let mut named = Vec::new();
        join.steps(&mut named);
        let seq = |step: &usize| self.steps.get(*step).filter(|unit| unit.st.settled()).map(|unit| unit.seq);
        let all: Option<Vec<u64>> = named.iter().map(seq).collect();
        if all?.into_iter().max() != seq(&source) || self.holds(join) {
            return None;
        }
        let untolerated = |step: &usize| {
            self.by_failure(*step)
                && !(self.steps.get(*step).is_some_and(|u| u.st == St::Failed) && self.case.tolerates(*step))
        };
        Some(if named.iter().any(untolerated) { "DependencyFailed" } else { "DependsFalse" })
    }

    fn holds(&self, join: &Join) -> bool {
        match join {
            Join::Not(inner) => !self.holds(inner),
            Join::And(a, b) => self.holds(a) && self.holds(b),
            Join::Or(a, b) => self.holds(a) || self.holds(b),
            Join::Term(step, ask) => self.asked(*step, *ask),
        }
    }

    fn asked(&self, step: usize, ask: Ask) -> bool {
        let Some(unit) = self.steps.get(step) else { return false };
        let group = self.instances.get(step).and_then(Option::as_ref);
        match ask {
            Ask::Satisfied => self.satisfied(step),
            Ask::Succeeded => unit.st == St::Succeeded,
            Ask::Failed => unit.st == St::Failed,
            Ask::Skipped => unit.st == St::Skipped && unit.reason == "ConditionFalse",
            Ask::Omitted => unit.st == St::Skipped && unit.reason != "ConditionFalse",
            Ask::Completed => {
                let asked = unit.asked || group.is_some_and(|group| group.iter().any(|unit| unit.asked));
                let reused = |unit: &super::ModelStep| unit.reason == "Reused";
                unit.st != St::Skipped && (asked || reused(unit) || group.is_some_and(|group| group.iter().any(reused)))
            }
            Ask::AnySucceeded => match group {
                Some(group) => group.iter().any(|unit| unit.st == St::Succeeded),
                None => unit.st == St::Succeeded,
            },
            Ask::AllFailed => match group {
                Some(group) => !group.is_empty() && group.iter().all(|unit| unit.st == St::Failed),
                None => unit.st == St::Failed,
            },
        }
    }

    /// The first step, in spec order, that may be decided: its part is under way, and all it names is settled.
    fn next_step(&self) -> Option<u32> {
        if self.admitted.is_none() || self.resources_asked || self.over.is_some() || self.halted(self.finally).is_some()
        {
            return None;
        }
        let settled = |step: &usize| self.steps.get(*step).is_some_and(|unit| unit.st.settled());
        let ready = |step: &u32| {
            let at = Address::step(*step);
            let Some(case) = self.case.steps.get(*step as usize) else { return false };
            let mut named = case.needs.clone();
            if let Some(join) = &case.join {
                join.steps(&mut named);
            }
            named.extend(&case.reads);
            named.extend(case.when.as_ref().and_then(Condition::step));
            if let Some(Items::Read(step)) = case.items {
                named.push(step);
            }
            self.is_finally(at) == self.finally && self.st(at) == St::Waiting && named.iter().all(settled)
        };
        (0..u32::try_from(self.steps.len()).unwrap_or(u32::MAX)).find(ready)
    }

    fn decide(&mut self, step: u32) {
        let at = Address::step(step);
        let Some(case) = self.case.steps.get(step as usize) else { return };
        let per_instance = matches!(case.when, Some(Condition::Index(_)));
        if !per_instance && !self.condition(at) {
            return;
        }
        if case.manual {
            if self.unit(at).is_some_and(|unit| unit.approval.is_some()) {
                self.decided(at);
            } else {
                self.set(at, St::Queued);
            }
            return;
        }
        self.set(at, St::Queued);
        match case.items {
            None => {}
            Some(Items::Listed(count)) => self.expand(step, count),
            Some(Items::Read(_)) => {
                self.expected.items.insert(step);
            }
        }
    }

    /// Whether the condition of a unit holds; settles the unit where it does not.
    fn condition(&mut self, at: Address) -> bool {
        let Some(when) = self.case.steps.get(at.step.0 as usize).and_then(|step| step.when.as_ref()) else {
            return true;
        };
        let unit = when.step().and_then(|step| self.steps.get(step));
        let verdict = match when {
            Condition::Never => Some(false),
            Condition::Phase(_, phase) => unit.map(|unit| format!("{:?}", unit.st) == *phase),
            Condition::Reason(_, reason) => unit.map(|unit| unit.reason == *reason),
            Condition::Retried(_) => unit.map(|unit| unit.retries > 0),
            Condition::Index(index) => Some(at.item == Some(*index)),
            Condition::Outcome(good) => self.fixed.as_ref().map(|cause| cause.is_none() == *good),
            Condition::Output(step, value) => self.output(*step).map(|output| output == *value),
        };
        match verdict {
            Some(true) => return true,
            Some(false) => self.settle(at, St::Skipped, "ConditionFalse"),
            None => self.fail_for_good(at, "ConditionError"),
        }
        false
    }

    /// The output of a settled step: of a fan-out that has ended, an array.
    fn output(&self, step: usize) -> Option<String> {
        let unit = self.steps.get(step)?;
        match self.instances.get(step)?.as_ref() {
            None => unit.output.clone(),
            Some(_) if unit.st == St::Skipped => None,
            Some(group) if group.iter().any(|unit| unit.st == St::Skipped && is_halt(&unit.reason)) => None,
            Some(_) => Some("[…]".to_owned()),
        }
    }

    /// Creates instances, and decides those whose condition reads the index.
    pub(super) fn expand(&mut self, step: u32, count: u32) {
        let unit = super::ModelStep { st: St::Queued, ..super::ModelStep::default() };
        if let Some(place) = self.instances.get_mut(step as usize) {
            *place = Some(vec![unit; count as usize]);
        }
        if count == 0 {
            return self.settle(Address::step(step), St::Succeeded, "EmptyFanOut");
        }
        let instances = || (0..count).map(|item| Address::instance(step, item));
        for at in instances().filter(|at| self.imports.contains(at)).collect::<Vec<_>>() {
            self.settle(at, St::Succeeded, "Reused");
        }
        let when = self.case.steps.get(step as usize).and_then(|step| step.when.as_ref());
        if matches!(when, Some(Condition::Index(_))) {
            for at in instances().filter(|at| !self.st(*at).settled()).collect::<Vec<_>>() {
                self.condition(at);
            }
        }
    }

    /// An attempt failed.
    pub(super) fn fail(&mut self, at: Address, reason: &str, retryable: bool) {
        let limit = self.case.steps.get(at.step.0 as usize).and_then(|step| step.retry).map_or(0, |retry| retry.limit);
        let again = retryable && self.unit(at).is_some_and(|unit| unit.retries < limit);
        let scheduled = self.units().into_iter().filter(|at| self.st(*at) == St::Backoff).count();
        let budget = (self.retries as usize + scheduled) < self.case.budget as usize;
        if let Some(cause) = self.halted(self.is_finally(at)) {
            if again && budget {
                self.cut.insert(cause);
            }
            self.fail_for_good(at, reason);
        } else if !again {
            self.fail_for_good(at, reason);
        } else if !budget {
            self.fail_over_budget(at, reason);
        } else {
            let delay = self.delay(at);
            if let Some(unit) = self.unit_mut(at) {
                unit.reason = reason.to_owned();
                unit.due = unit.ended.map(|ended| ended.plus(delay));
                unit.output = None;
            }
            self.set(at, St::Backoff);
        }
    }

    pub(super) fn fail_over_budget(&mut self, at: Address, reason: &str) {
        if self.is_finally(at) {
            self.fail_for_good(at, reason);
        } else {
            self.settle(at, St::Failed, reason);
            self.over_budget(at);
        }
    }

    pub(super) fn over_budget(&mut self, at: Address) {
        if !self.is_finally(at) {
            self.cause("BackoffLimitExceeded");
            let cancels = self.case.failure == FailurePolicy::CancelRunning;
            self.pending.push(("BackoffLimitExceeded".to_owned(), cancels));
        }
    }

    pub(super) fn fail_for_good(&mut self, at: Address, reason: &str) {
        self.settle(at, St::Failed, reason);
        if self.tolerated(at) {
            return;
        }
        if self.is_finally(at) {
            return self.cause("FinallyFailed");
        }
        self.cause("FlowFailed");
        match self.case.failure {
            _ if self.case.is_named(at.step.0 as usize) => {}
            FailurePolicy::Continue => {}
            FailurePolicy::FailFast => self.pending.push(("FlowFailed".to_owned(), false)),
            FailurePolicy::CancelRunning => self.pending.push(("FlowFailed".to_owned(), true)),
        }
    }

    pub(super) fn cause(&mut self, cause: &str) {
        if !self.causes.iter().any(|known| known == cause) {
            self.causes.push(cause.to_owned());
        }
    }

    /// A halt: the first one of a part skips what has not started, a cancelling one ends what is live.
    pub(super) fn halt(&mut self, cause: &str, cancels: bool) {
        let finally = self.finally;
        if !finally && self.halt.is_none() {
            self.halt = Some(cause.to_owned());
            self.skip_rest(false, cause);
        }
        if !cancels || (!finally && self.cancel.is_some()) {
            return;
        }
        if !finally {
            self.cancel = Some(cause.to_owned());
        }
        for at in self.units() {
            if self.is_finally(at) == finally && self.st(at) == St::Active {
                self.begin_cancel(at, cause);
            }
        }
    }

    /// Ends everything of a part that waits.
    pub(super) fn skip_rest(&mut self, finally: bool, cause: &str) {
        let part: Vec<Address> = self.units().into_iter().filter(|at| self.is_finally(*at) == finally).collect();
        for at in part {
            let Some(unit) = self.unit(at) else { continue };
            match unit.st {
                St::Waiting | St::Queued | St::Awaiting => self.settle(at, St::Skipped, cause),
                St::Starting if unit.due.is_some() => self.skip_cut(at, cause),
                St::Active if unit.is_queued() => self.begin_cancel(at, cause),
                St::Backoff => {
                    let reason = unit.reason.clone();
                    self.cut.insert(cause.to_owned());
                    self.settle(at, St::Failed, &reason);
                }
                _ => {}
            }
        }
    }

    pub(super) fn skip_cut(&mut self, at: Address, cause: &str) {
        self.cut.insert(cause.to_owned());
        self.settle(at, St::Skipped, cause);
    }
}
