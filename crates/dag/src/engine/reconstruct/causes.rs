//! Halts and causes, from what they left in a status: the reasons of steps they skipped or cut off, and the message of
//! the flow, which names the first cause. Failures imply what the failure policy makes of them.

use orlop_core::attempt::Address;
use orlop_core::machine::step::StepState;
use orlop_core::spec::policy::{FailurePolicy, ToleratedOutcome};
use orlop_core::spec::status::FlowStatus;

use super::super::state::{Cause, Node, Outcome, Stage, State, Text};
use super::super::{phrase, reason};
use crate::plan::{Plan, StepPlan};

/// What the records tell of halts and failures.
#[derive(Default)]
struct Traces {
    /// The halt that skipped a step of the main part.
    skipped: Option<Text>,
    /// The halt for which an attempt of the main part is or was cancelled.
    cancelled: Option<Text>,
    /// The halt of `finally`.
    finally: Option<Text>,
    /// Retries and counted failures of the main part.
    spent: u32,
    /// Whether a retry was due that the budget did not allow.
    over_budget: bool,
    /// Orders that cut something off.
    cut: Vec<Text>,
    /// The first untolerated failure of the main part and of `finally`.
    failures: [Option<String>; 2],
    /// Whether the failure policy applies to one of the main part: no join names it.
    halting: bool,
}

/// Restores halts and causes.
pub(super) fn infer(plan: &Plan, state: &mut State, status: &FlowStatus) {
    if state.flow.completed.is_some() {
        return;
    }
    let traces = Traces::read(plan, state);
    let first = phrase::before_suspended(&status.message);
    let (word, text) = phrase::split_word(first);
    let reported = reason::causes().find(|cause| *cause == word);
    let flow = &mut state.flow;
    let mut add = |reason: Text, message: &str| {
        if flow.causes.iter().all(|known| known.reason != reason) {
            flow.causes.push(Cause { reason, message: message.to_owned() });
        }
    };
    if let Some(reported) = reported {
        add(reported.into(), text);
    }
    let [main, last] = &traces.failures;
    let by_policy = main.as_ref().map(|message| {
        // The message of a status is its first cause: here that of the failure, unless it names another.
        add(reason::FLOW_FAILED.into(), if reported.is_none() { first } else { message });
        Text::from(reason::FLOW_FAILED)
    });
    // Only failures that are counted can pass the limit; those of `finally` halt nothing.
    let over_budget = traces.over_budget || traces.spent > plan.policy().backoff_limit;
    let by_count = over_budget.then(|| Text::from(reason::BACKOFF_LIMIT));
    let by_policy = by_policy.filter(|_| traces.halting && plan.policy().failure != FailurePolicy::Continue);
    let reported_halt = reported.filter(|reported| *reported != reason::FINALLY_FAILED).map(Text::from);
    let hard = |cause: &Text| matches!(cause.as_ref(), reason::TERMINATED | reason::REPLACED);
    let halt = traces.skipped.or(reported_halt).or(by_policy).or(traces.cancelled.clone()).or(by_count.clone());
    for cause in halt.iter().chain(&traces.cancelled).chain(&traces.finally).chain(&by_count) {
        add(cause.clone(), "the flow was asked to stop");
    }
    if let Some(message) = last {
        add(reason::FINALLY_FAILED.into(), message);
    }
    let cancels = |cause: &Text| {
        hard(cause)
            || cause == reason::DEADLINE
            || (!reason::is_order(cause) && plan.policy().failure == FailurePolicy::CancelRunning)
    };
    // A failure after an order to end still cancels what is live.
    let by_failure = || traces.halting.then_some(Text::from(reason::FLOW_FAILED)).filter(cancels);
    // What a queue held back is cancelled by every halt.
    let cancelled = traces.cancelled.filter(cancels);
    flow.cancel = cancelled.or_else(|| halt.clone().filter(cancels)).or_else(by_failure).or(by_count.filter(cancels));
    flow.cancel = flow.cancel.take().or_else(|| traces.finally.clone().filter(hard));
    flow.final_halt = traces.finally.or_else(|| [&flow.cancel, &halt].into_iter().flatten().find(|c| hard(c)).cloned());
    flow.halt = halt;
    flow.cut = traces.cut;
    if let Some(reported) = reported.filter(|reported| reason::is_order(reported)) {
        flow.cut.push(reported.into());
    }
}

/// Finds out whether `finally` is under way: a step of it has been decided, and not by a halt.
pub(super) fn infer_stage(plan: &Plan, state: &mut State) {
    let decided = |(node, step): (&Node, &StepPlan)| {
        let by_halt = node.state == StepState::SKIPPED && node.reason.as_deref().is_some_and(reason::is_halt);
        step.finally && node.state != StepState::Waiting && !by_halt
    };
    let begun = state.nodes.iter().zip(plan.steps()).any(decided);
    if !begun || state.flow.started.is_none() || state.flow.completed.is_some() || state.index.part_of(false).open > 0 {
        return;
    }
    let main = u32::try_from(plan.main_len()).unwrap_or(u32::MAX);
    let tolerated = state.index.tolerated.range(0..main).next().is_some();
    let flow = &mut state.flow;
    flow.stage = Stage::Finally;
    flow.deadline = None;
    // A hard stop of `finally` came after the steps had come out.
    let own =
        |cause: &&Cause| cause.reason != reason::FINALLY_FAILED && Some(&cause.reason) != flow.final_halt.as_ref();
    let cause = flow.causes.iter().find(own).cloned();
    let by_policy = (tolerated && plan.policy().tolerated == ToleratedOutcome::Failed).then(Cause::tolerated);
    let cause = cause.or(by_policy);
    flow.outcome = Some(Outcome { good: cause.is_none(), cause });
}

impl Traces {
    fn read(plan: &Plan, state: &State) -> Self {
        let mut traces = Self::default();
        for (number, node) in (0_u32..).zip(&state.nodes) {
            // Of a fan-out its instances tell.
            if state.groups.get(&number).is_none_or(|group| group.nodes.is_empty()) {
                traces.take(plan, Address::step(number), node);
            }
        }
        for (number, group) in &state.groups {
            for (item, node) in (0_u32..).zip(&group.nodes) {
                traces.take(plan, Address::instance(*number, item), node);
            }
        }
        traces
    }

    fn take(&mut self, plan: &Plan, at: Address, node: &Node) {
        let finally = plan.get(at.step.0).is_some_and(|step| step.finally);
        let why = node.reason.as_deref().unwrap_or_default();
        let text = node.message.as_deref().unwrap_or_default();
        let halt = || Some(Text::Owned(why.to_owned()));
        if !finally {
            self.spent = self.spent.saturating_add(node.retries).saturating_add(node.counted);
        }
        match node.state {
            StepState::SKIPPED if reason::is_halt(why) => {
                let place = if finally { &mut self.finally } else { &mut self.skipped };
                *place = place.take().or_else(halt);
                self.note_cut(why);
            }
            StepState::FAILED | StepState::Cancelling
                if node.was_cancelled() || (node.state == StepState::Cancelling && reason::is_halt(why)) =>
            {
                let place = if finally { &mut self.finally } else { &mut self.cancelled };
                *place = place.take().or_else(halt);
                if node.state == StepState::FAILED {
                    self.note_cut(why);
                }
            }
            // A halt that ends the wait for a retry is not a failure of its own.
            StepState::FAILED if phrase::is_unmade(text) => {}
            StepState::FAILED if phrase::is_over_budget(text) => self.over_budget = true,
            StepState::FAILED if !plan.failure(at.step).tolerated => {
                self.halting |= !finally && !plan.failure(at.step).named;
                let text = format!("step {} failed: {why}: {text}", plan.instance_name(at));
                let [main, last] = &mut self.failures;
                let place = if finally { last } else { main };
                place.get_or_insert(text);
            }
            _ => {}
        }
    }

    fn note_cut(&mut self, cause: &str) {
        if reason::is_order(cause) && self.cut.iter().all(|known| known != cause) {
            self.cut.push(Text::Owned(cause.to_owned()));
        }
    }
}
