//! Events about the flow as a whole: admission, resources, stop, suspension, hold, import.

use std::collections::BTreeMap;
use std::sync::Arc;

use orlop_core::attempt::Address;
use orlop_core::effect::FlowEffect;
use orlop_core::event::FlowEvent;
use orlop_core::machine::step::{StepOutcome, StepState};
use orlop_core::spec::flow::SuspendMode;
use orlop_core::spec::meta::ObjectReference;
use orlop_core::spec::status::StepOutputs;
use orlop_core::time::Time;

use super::halt::Halt;
use super::index::Index;
use super::state::{Flow, FlowMeta, Node, Resources, Stage, State, Text};
use super::{Call, reason};
use crate::plan::Plan;

/// The state of a new flow: all steps Pending, nothing started. To let it begin, apply [`FlowEvent::Admit`], after the host has asked
/// for its [concurrency key](crate::gate) where it has one.
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
        causes: Vec::new(),
        cut: Vec::new(),
        outcome: None,
        left_pending: false,
        deadline: None,
        ttl_due: None,
        final_written: false,
        deleted: false,
        retries: 0,
        output_bytes: 0,
        attempt_millis: 0,
        attempts_ended: 0,
        fenced: 0,
        conditions: BTreeMap::new(),
        imports: BTreeMap::new(),
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
        }
    }

    pub(super) fn blocked(&mut self, why: &str, message: &str) {
        // A flow that has begun waits as a whole only for its resources.
        if self.state.flow.started.is_some() && self.state.flow.resources != Resources::Asked {
            return;
        }
        let news = (Text::Owned(why.to_owned()), message.to_owned());
        if self.state.flow.blocked.as_ref() != Some(&news) {
            self.state.flow.blocked = Some(news);
            self.changed = true;
            self.urgent |= self.state.flow.started.is_none();
            self.notice_blocked(why, message);
        }
    }

    pub(super) fn resources_ready(&mut self, refs: &[ObjectReference]) {
        if self.state.flow.resources != Resources::Asked {
            return;
        }
        self.state.flow.resources = Resources::Ready(refs.to_vec());
        self.state.flow.blocked = None;
        self.changed = true;
        self.urgent = true;
        self.notice_resources(refs);
    }

    pub(super) fn resources_failed(&mut self, why: &str, message: &str) {
        if self.state.flow.resources != Resources::Asked {
            return;
        }
        self.state.flow.resources = Resources::Unasked;
        self.state.flow.blocked = None;
        self.notice_resource_failure(why, message);
        // Steps end Skipped/FlowFailed, those of `finally` too; the flow's own cause is the resource's.
        self.add_cause(Text::Owned(why.to_owned()), message.to_owned());
        self.state.flow.final_halt.get_or_insert(reason::FLOW_FAILED.into());
        self.halt(Halt { reason: reason::FLOW_FAILED.into(), cancels: false });
    }

    /// A step was settled in the flow this one repeats. Steps that were skipped by their own condition are not
    /// imported: the condition is evaluated again, over the same values.
    pub(super) fn import(&mut self, at: Address, outputs: &StepOutputs) {
        // `finally` always runs again.
        if self.is_finally(at) || self.halted(at).is_some() {
            return;
        }
        if let Some(item) = at.item {
            return self.import_instance(at.step.0, item, outputs);
        }
        let waiting = self.state.flow.started.is_none()
            && self.state.node(at).is_some_and(|node| node.state == StepState::Waiting);
        if !waiting {
            return;
        }
        self.import_outputs(at, outputs.clone());
        self.settle(at, StepOutcome::Succeeded, Some(reason::REUSED.into()), None);
    }

    /// Events after the end change nothing, but for the time to live.
    pub(super) fn after_end(&mut self, event: &FlowEvent) {
        if event.attempt().is_some() {
            self.state.flow.fenced = self.state.flow.fenced.saturating_add(1);
        }
        if *event == FlowEvent::FinalStatusWritten {
            self.state.flow.final_written = true;
        }
    }
}
