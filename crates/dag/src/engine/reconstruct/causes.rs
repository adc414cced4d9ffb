//! Halts and causes, from what they left in a status: the reasons of steps they skipped or cut off, and the message of
//! the flow, which names the first cause. Failures imply what the failure policy makes of them.

use orlop_core::attempt::Address;
use orlop_core::machine::step::StepState;
use orlop_core::spec::policy::FailurePolicy;
use orlop_core::spec::status::FlowStatus;

use super::super::state::{Cause, Node, State, Text};
use super::super::{phrase, reason};
use crate::plan::Plan;

/// What the records tell of halts and failures.
#[derive(Default)]
struct Traces {
    /// The halt that skipped a step of the main part.
    skipped: Option<Text>,
    /// The halt for which a live attempt of the main part is or was cancelled.
    cancelled: Option<Text>,
    /// The halt of `finally`.
    finally: Option<Text>,
    /// Orders that cut something off.
    cut: Vec<Text>,
    /// The first untolerated failure of the main part and of `finally`.
    failures: [Option<String>; 2],
}

/// Restores halts and causes.
pub(super) fn infer(plan: &Plan, state: &mut State, status: &FlowStatus) {
    if state.flow.completed.is_some() {
        return;
    }
    let traces = Traces::read(plan, state);
    let (word, text) = phrase::split_word(&status.message);
    let told = reason::causes().find(|cause| *cause == word);
    let flow = &mut state.flow;
    let mut add = |reason: Text, message: &str| {
        if flow.causes.iter().all(|known| known.reason != reason) {
            flow.causes.push(Cause { reason, message: message.to_owned() });
        }
    };
    if let Some(told) = told {
        add(told.into(), text);
    }
    let [main, last] = &traces.failures;
    let by_policy = main.as_ref().map(|message| {
        // The message of a status is its first cause: here that of the failure, unless it names another.
        add(reason::FLOW_FAILED.into(), if told.is_none() { &status.message } else { message });
        Text::from(reason::FLOW_FAILED)
    });
    let by_policy = by_policy.filter(|_| plan.policy().failure != FailurePolicy::Continue);
    let told_halt = told.filter(|told| *told != reason::FINALLY_FAILED).map(Text::from);
    let hard = |cause: &Text| matches!(cause.as_ref(), reason::TERMINATED | reason::REPLACED);
    let halt = traces.skipped.or(told_halt).or(by_policy).or(traces.cancelled.clone());
    for cause in halt.iter().chain(&traces.cancelled).chain(&traces.finally) {
        add(cause.clone(), "the flow was told to end");
    }
    if let Some(message) = last {
        add(reason::FINALLY_FAILED.into(), message);
    }
    let cancels = |cause: &Text| {
        hard(cause)
            || cause == reason::DEADLINE
            || (!reason::is_order(cause) && plan.policy().failure == FailurePolicy::CancelRunning)
    };
    flow.cancel = traces.cancelled.or_else(|| halt.clone().filter(cancels));
    flow.final_halt = traces.finally.or_else(|| [&flow.cancel, &halt].into_iter().flatten().find(|c| hard(c)).cloned());
    flow.halt = halt;
    flow.cut = traces.cut;
    if let Some(told) = told.filter(|told| reason::is_order(told)) {
        flow.cut.push(told.into());
    }
}

impl Traces {
    fn read(plan: &Plan, state: &State) -> Self {
        let mut traces = Self::default();
        for (number, node) in (0_u32..).zip(&state.nodes) {
            traces.take(plan, Address::step(number), node);
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
        let halt = || Some(Text::Owned(why.to_owned()));
        match node.state {
            StepState::SKIPPED if reason::is_halt(why) => {
                let place = if finally { &mut self.finally } else { &mut self.skipped };
                *place = place.take().or_else(halt);
                self.note_cut(why);
            }
            StepState::FAILED | StepState::Cancelling if reason::is_halt(why) => {
                let place = if finally { &mut self.finally } else { &mut self.cancelled };
                *place = place.take().or_else(halt);
                if node.state == StepState::FAILED {
                    self.note_cut(why);
                }
            }
            StepState::FAILED if !plan.tolerates(at.step) => {
                let message = node.message.as_deref().unwrap_or_default();
                let text = format!("step {} failed: {why}: {message}", plan.instance_name(at));
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
