//! Events about the flow as a whole: admission, resources, stop, suspension, hold, import.

use std::collections::BTreeMap;
use std::sync::Arc;

use orlop_core::attempt::Address;
use orlop_core::effect::FlowEffect;
use orlop_core::event::FlowEvent;
use orlop_core::machine::step::{StepOutcome, StepState};
use orlop_core::spec::flow::{StopMode, SuspendMode};
use orlop_core::spec::meta::ObjectReference;
use orlop_core::spec::status::StepOutputs;
use orlop_core::time::Time;

use super::fault::{Fault, fault};
use super::index::Index;
use super::state::{Cause, Flow, FlowMeta, Node, Resources, Stage, State, Text};
use super::{Call, reason};
use crate::plan::Plan;

/// Begins a flow: all steps Pending, nothing started. The host asks the concurrency gate and answers with
/// [`FlowEvent::Admit`].
pub fn init(plan: &Plan, meta: &FlowMeta, now: Time, out: &mut Vec<FlowEffect>) -> State {
    let mut state = blank(plan, meta, now);
    state.flow.suspended = plan.spec().suspend.unwrap_or(false);
    state.flow.mode = plan.spec().suspend_mode.unwrap_or_default();
    if state.flow.suspended {
        state.flow.paused_at = Some(now);
    }
    let mut call = Call::new(plan, &mut state, now, out);
    call.changed = true;
    call.urgent = true;
    call.notice_flow("JobFlowCreated", "the flow was accepted".to_owned());
    call.report();
    state
}

/// A state in which nothing has happened.
pub(super) fn blank(plan: &Plan, meta: &FlowMeta, now: Time) -> State {
    let flow = Flow {
        meta: Arc::new(meta.clone()),
        now,
        revision: 0,
        started: None,
        completed: None,
        stage: Stage::Main,
        phase: orlop_core::machine::flow::FlowPhase::Pending,
        resources: Resources::Unasked,
        blocked: None,
        suspended: false,
        mode: SuspendMode::Drain,
        held: false,
        paused_at: None,
        paused_millis: 0,
        suspensions: 0,
        halt: None,
        cancel: None,
        final_halt: None,
        failure: None,
        final_failure: None,
        outcome: None,
        left_pending: false,
        cut_off: false,
        deadline: None,
        ttl_due: None,
        final_written: false,
        deleted: false,
        retries: 0,
        tolerated: Vec::new(),
        tolerated_count: 0,
        output_bytes: 0,
        attempt_millis: 0,
        attempts_ended: 0,
        fenced: 0,
        conditions: BTreeMap::new(),
    };
    let nodes = vec![Node::default(); plan.len()];
    let groups = BTreeMap::new();
    let index = Index::rebuild(plan, &nodes, &groups);
    State { flow, nodes, groups, index }
}

impl Call<'_> {
    pub(super) fn admit(&mut self) {
        if self.state.flow.started.is_some() {
            return;
        }
        let now = self.now;
        let flow = &mut self.state.flow;
        flow.started = Some(now);
        flow.blocked = None;
        flow.deadline = self.plan.policy().deadline.map(|limit| now.plus(limit));
        // A flow admitted while suspended begins its pause now: the deadline has not run before.
        if flow.paused_at.is_some() {
            flow.paused_at = Some(now);
        }
        self.changed = true;
        self.urgent = true;
        let templates = self.plan.spec().resource_templates.as_ref();
        if templates.is_some_and(|templates| templates.names().next().is_some()) {
            self.state.flow.resources = Resources::Asked;
            self.out.push(FlowEffect::EnsureResources);
        } else {
            self.start_part(false);
        }
    }

    pub(super) fn blocked(&mut self, why: &str, message: &str) {
        if self.state.flow.started.is_some() {
            return;
        }
        let news = (Text::Owned(why.to_owned()), message.to_owned());
        if self.state.flow.blocked.as_ref() != Some(&news) {
            self.state.flow.blocked = Some(news);
            self.changed = true;
            self.urgent = true;
            self.notice_blocked(why, message);
        }
    }

    pub(super) fn resources_ready(&mut self, refs: &[ObjectReference]) {
        if self.state.flow.resources != Resources::Asked {
            return;
        }
        self.state.flow.resources = Resources::Ready(refs.to_vec());
        self.changed = true;
        self.notice_resources(refs);
        if self.state.flow.halt.is_none() {
            self.start_part(false);
        }
    }

    pub(super) fn resources_failed(&mut self, why: &str, message: &str) {
        if self.state.flow.resources != Resources::Asked {
            return;
        }
        self.state.flow.resources = Resources::Unasked;
        let cause = Cause { reason: Text::Owned(why.to_owned()), message: message.to_owned() };
        self.state.flow.failure.get_or_insert(cause.clone());
        self.notice_resource_failure(why, message);
        // Steps end Skipped/FlowFailed; the flow's own cause is the resource's.
        self.state.flow.final_halt = Some(reason::FLOW_FAILED.into());
        self.halt(Cause { reason: reason::FLOW_FAILED.into(), message: cause.message }, false);
    }

    /// Makes the roots of a part ready.
    pub(super) fn start_part(&mut self, finally: bool) {
        let main = u32::try_from(self.plan.main_len()).unwrap_or(u32::MAX);
        let all = u32::try_from(self.plan.len()).unwrap_or(u32::MAX);
        let range = if finally { main..all } else { 0..main };
        for step in range {
            if self.state.index.remaining.get(step as usize) == Some(&0) {
                self.evaluate(step);
            }
        }
    }

    pub(super) fn stop(&mut self, mode: StopMode, replaced: bool) {
        let cause = match (mode, replaced) {
            (_, true) => reason::REPLACED,
            (StopMode::Graceful, false) => reason::STOPPED,
            (StopMode::Terminate, false) => reason::TERMINATED,
        };
        let cancel = mode == StopMode::Terminate || replaced;
        let known = self.state.flow.halt.is_some() && (!cancel || self.state.flow.final_halt.is_some());
        if known || (self.state.flow.stage == Stage::Finally && !cancel) {
            return;
        }
        self.notice_flow("FlowStopped", format!("the flow was told to end: {cause}"));
        if cancel {
            self.state.flow.final_halt = Some(cause.into());
        }
        self.halt(Cause { reason: cause.into(), message: format!("the flow was ended: {cause}") }, cancel);
    }

    /// Orders that nothing more starts; with `cancel` live attempts are told to end. The first halt names the reason of
    /// all that has not started, a later one can only add the cancellation.
    pub(super) fn halt(&mut self, cause: Cause, cancel: bool) {
        self.changed = true;
        if self.state.flow.stage == Stage::Main && self.state.flow.halt.is_none() {
            self.state.flow.halt = Some(cause.clone());
            self.state.flow.left_pending |= self.state.flow.started.is_some();
            self.end_waits();
        }
        if !cancel || self.state.flow.cancel.is_some() && self.state.flow.stage == Stage::Main {
            return;
        }
        self.state.flow.cancel.get_or_insert(cause.reason.clone());
        let finally = self.state.flow.stage == Stage::Finally;
        let live: Vec<Address> = self.state.index.live.iter().copied().collect();
        for at in live {
            let active = self.state.node(at).is_some_and(|node| node.state == StepState::Active);
            if active && self.is_finally(at) == finally {
                self.begin_cancel(at, cause.reason.clone());
            }
        }
        if finally {
            self.end_finally_waits();
        }
    }

    /// After a halt no retry and no decision is waited for.
    fn end_waits(&mut self) {
        for at in self.backoffs(false) {
            self.end_backoff(at);
        }
        let awaiting: Vec<u32> = self.state.index.awaiting.iter().copied().collect();
        if !awaiting.is_empty() {
            self.urgent = true;
        }
    }

    fn end_finally_waits(&mut self) {
        for at in self.backoffs(true) {
            self.end_backoff(at);
        }
    }

    fn backoffs(&self, finally: bool) -> Vec<Address> {
        self.state.index.backoff.iter().copied().filter(|at| self.is_finally(*at) == finally).collect()
    }

    fn end_backoff(&mut self, at: Address) {
        let Some(node) = self.state.node(at) else { return };
        let why = node.reason.clone();
        let message = node.message.as_deref().map(str::to_owned);
        self.state.flow.cut_off = true;
        self.note_tolerated(at);
        self.settle(at, StepOutcome::Failed, why, message);
    }

    pub(super) fn set_suspend(&mut self, on: bool, mode: SuspendMode) {
        let was = (self.state.flow.suspended, self.state.flow.mode);
        if was == (on, mode) {
            return;
        }
        self.state.flow.suspended = on;
        self.state.flow.mode = mode;
        self.changed = true;
        self.urgent = true;
        let frozen_before = was == (true, SuspendMode::Suspend);
        let frozen_now = on && mode == SuspendMode::Suspend;
        if frozen_now && !frozen_before {
            self.state.flow.suspensions = self.state.flow.suspensions.saturating_add(1);
            let live: Vec<Address> = self.state.index.live.iter().copied().collect();
            for at in live {
                self.freeze(at);
            }
        } else if frozen_before && !frozen_now {
            let live: Vec<Address> = self.state.index.live.iter().copied().collect();
            for at in live {
                self.thaw(at);
            }
        }
        self.pause_changed();
    }

    pub(super) fn hold(&mut self, on: bool) {
        if self.state.flow.held == on {
            return;
        }
        self.state.flow.held = on;
        self.changed = true;
        self.urgent = true;
        if on {
            self.notice_held();
        }
        self.pause_changed();
    }

    /// Starts or ends the pause; at its end the deadline moves by it.
    fn pause_changed(&mut self) {
        let paused = self.state.is_paused();
        let now = self.now;
        let flow = &mut self.state.flow;
        match (paused, flow.paused_at) {
            (true, None) => flow.paused_at = Some(now),
            (false, Some(since)) => {
                let pause = now.since(since);
                flow.paused_at = None;
                if flow.started.is_some() {
                    let millis = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
                    flow.paused_millis = flow.paused_millis.saturating_add(millis);
                    if !fault(Fault::DeadlineRuns) {
                        flow.deadline = flow.deadline.map(|deadline| deadline.plus(pause));
                    }
                }
            }
            _ => {}
        }
    }

    /// Stops the clock of an accepted attempt.
    pub(super) fn freeze(&mut self, at: Address) {
        let (now, epoch) = (self.now, self.state.flow.suspensions);
        let Some(node) = self.state.node_mut(at) else { return };
        if node.state != StepState::Active || node.frozen.is_some() {
            return;
        }
        node.frozen = Some(now);
        let attempt = node.attempt();
        self.out.push(FlowEffect::SuspendAttempt { at, attempt, epoch });
    }

    /// Lets a suspended attempt go on; its timer moves by the pause.
    fn thaw(&mut self, at: Address) {
        let (now, epoch) = (self.now, self.state.flow.suspensions);
        let Some(node) = self.state.node_mut(at) else { return };
        let Some(since) = node.frozen.take() else { return };
        let attempt = node.attempt();
        let due = node.due.map(|due| due.plus(now.since(since)));
        self.out.push(FlowEffect::ResumeAttempt { at, attempt, epoch });
        if let Some(due) = due {
            self.arm(at, due);
        }
    }

    /// A step, or one instance, was settled in the flow this one repeats (rule R39).
    pub(super) fn import(&mut self, at: Address, outputs: &StepOutputs) {
        let waiting = self.state.flow.started.is_none()
            && self.state.node(at).is_some_and(|node| node.state == StepState::Waiting);
        if !waiting || at.item.is_some() {
            return;
        }
        if let Some(node) = self.state.node_mut(at) {
            node.outputs = (!outputs.is_empty()).then(|| Box::new(outputs.clone()));
        }
        self.settle(at, StepOutcome::Succeeded, Some(reason::REUSED.into()), None);
    }

    /// Events after the end change nothing, but for the time to live.
    pub(super) fn after_end(&mut self, event: &FlowEvent) {
        if event.attempt().is_some() {
            self.state.flow.fenced = self.state.flow.fenced.saturating_add(1);
            if let (true, FlowEvent::AttemptFailed { at, .. }) = (fault(Fault::ReopenTerminal), event) {
                self.settle(*at, StepOutcome::Failed, Some(reason::LOST.into()), None);
            }
        }
        if *event == FlowEvent::FinalStatusWritten {
            self.state.flow.final_written = true;
        }
    }
}
