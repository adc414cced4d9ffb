//! Fan-out: from items to instances, and from settled instances to the step.

use std::ops::Range;
use std::sync::Arc;

use orlop_core::attempt::Address;
use orlop_core::machine::step::{StepOutcome, StepState};
use orlop_core::spec::status::{OutputValue, StepOutputs};
use orlop_core::time::Time;
use serde_json::Value;

use super::state::{Group, Node, State, Text};
use super::{Call, reason};
use crate::params::ITEMS_MAX;

impl Call<'_> {
    /// The items of a `withParam` fan-out are known, or cannot be.
    pub(super) fn items_resolved(&mut self, at: Address, items: &Result<Vec<Value>, String>) {
        let step = at.step.0;
        let by_param =
            self.plan.get(step).and_then(|step| step.fan_out.as_ref()).is_some_and(|fan_out| fan_out.listed.is_none());
        let queued = self.state.nodes.get(step as usize).is_some_and(|node| node.state == StepState::Queued);
        let restored = self.state.groups.get(&step).map(|group| group.items.is_none());
        if at.item.is_some() || !by_param || !queued || (self.halted(at).is_some() && restored != Some(true)) {
            return;
        }
        let items = match items {
            Ok(items) if items.len() <= ITEMS_MAX => Ok(items),
            Ok(items) => Err(format!("withParam gives {} items, {ITEMS_MAX} are allowed", items.len())),
            Err(message) => Err(message.clone()),
        };
        match (restored, items) {
            (None, Ok(items)) => {
                self.expand(step, u32::try_from(items.len()).unwrap_or(u32::MAX), Some(Arc::new(items.clone())));
            }
            (None, Err(message)) => {
                self.fail_for_good(at, reason::PARAMETER_UNRESOLVED.into(), message);
            }
            (Some(true), items) => self.restore_items(step, items),
            (Some(false), _) => {}
        }
    }

    /// Creates the instances.
    pub(super) fn expand(&mut self, step: u32, count: u32, items: Option<Arc<Vec<Value>>>) {
        let at = Address::step(step);
        self.changed = true;
        self.state.index.drop_step(self.plan, at);
        let node = Node { state: StepState::Queued, ..Node::default() };
        let group = Group { items, nodes: vec![node; count as usize] };
        self.state.index.add_group(self.plan, step, &group);
        self.state.groups.insert(step, group);
        if count == 0 {
            self.settle_empty(at);
        } else {
            self.settle_imported(step);
            self.decide_instances(step, 0..count);
        }
    }

    /// An instance succeeded in the flow this one repeats: it is settled as soon as its fan-out begins.
    pub(super) fn import_instance(&mut self, step: u32, item: u32, outputs: &StepOutputs) {
        let waits = matches!(self.state.nodes.get(step as usize), Some(node) if !node.state.is_settled());
        let listed = self.plan.get(step).and_then(|step| Some(step.fan_out.as_ref()?.listed));
        let exists = listed.is_some_and(|listed| item < listed.unwrap_or(u32::MAX));
        if waits && exists && !self.state.groups.contains_key(&step) {
            self.state.flow.imports.entry(step).or_default().insert(item, outputs.clone());
        }
    }

    fn settle_imported(&mut self, step: u32) {
        for (item, outputs) in self.state.flow.imports.remove(&step).unwrap_or_default() {
            let at = Address::instance(step, item);
            self.import_outputs(at, outputs);
            self.settle(at, StepOutcome::Succeeded, Some(reason::REUSED.into()), None);
            self.state.index.unqueue(self.plan, at);
        }
    }

    fn settle_empty(&mut self, at: Address) {
        self.gather_outputs(at, true);
        self.settle(at, StepOutcome::Succeeded, Some(reason::EMPTY_FAN_OUT.into()), None);
    }

    /// Evaluates a condition that reads items, once per instance, until a failure halts the flow.
    fn decide_instances(&mut self, step: u32, items: Range<u32>) {
        let condition = self.plan.get(step).and_then(|step| step.condition.as_ref());
        if !condition.is_some_and(|condition| condition.references().is_per_instance()) {
            return;
        }
        for item in items {
            let at = Address::instance(step, item);
            let open = self.state.node(at).is_some_and(|node| !node.state.is_settled());
            if open && self.halts.is_empty() && !self.condition_holds(at) {
                self.state.index.unqueue(self.plan, at);
            }
        }
    }

    /// Gives a restored fan-out its items again; instances that the status did not know join it.
    fn restore_items(&mut self, step: u32, items: Result<&Vec<Value>, String>) {
        let (items, trouble) = match items {
            Ok(items) => (items.clone(), "the item of this instance is gone from withParam".to_owned()),
            Err(message) => (Vec::new(), message),
        };
        let Some(group) = self.state.groups.get_mut(&step) else { return };
        self.changed = true;
        let known = u32::try_from(group.nodes.len()).unwrap_or(u32::MAX);
        let total = u32::try_from(items.len()).unwrap_or(u32::MAX);
        if total > known {
            group.nodes.resize(items.len(), Node { state: StepState::Queued, ..Node::default() });
        }
        group.items = Some(Arc::new(items));
        if let Some(counts) = self.state.index.groups.get_mut(&step) {
            counts.unread = false;
        }
        if let Some(group) = self.state.groups.get(&step) {
            self.state.index.add_instances(self.plan, step, &group.nodes, known);
        }
        for item in 0..known {
            self.restore_instance(Address::instance(step, item), item < total, &trouble);
        }
        self.decide_instances(step, known..total);
    }

    /// What was asked for is asked for again; what has no item cannot start. Accepted instances were given theirs.
    fn restore_instance(&mut self, at: Address, has_item: bool, trouble: &str) {
        match self.state.node(at).map(|node| node.state) {
            Some(StepState::Starting) if has_item => match self.state.node(at).and_then(|node| node.due) {
                Some(due) => self.arm(at, due),
                None => self.out.extend(super::start::start_effect(self.plan, self.state, at)),
            },
            Some(StepState::Queued | StepState::Backoff | StepState::Starting) if !has_item => {
                self.state.index.unqueue(self.plan, at);
                if let Some(cause) = self.halted(at).cloned() {
                    self.skip_by_halt(at, cause);
                } else {
                    self.fail_for_good(at, reason::PARAMETER_UNRESOLVED.into(), trouble.to_owned());
                }
            }
            _ => {}
        }
    }

    /// Looks at a fan-out one of whose instances was settled.
    pub(super) fn instance_settled(&mut self, step: u32, ended: Option<Time>) {
        let at = Address::step(step);
        if let Some(node) = self.state.node_mut(at).filter(|node| !node.state.is_settled()) {
            node.ended = node.ended.max(ended);
        }
        let Some(counts) = self.state.index.groups.get_mut(&step) else { return };
        counts.open = counts.open.saturating_sub(1);
        let (open, failed, succeeded) = (counts.open, counts.failed, counts.succeeded);
        if open > 0 || self.state.node(at).is_none_or(|node| node.state.is_settled()) {
            return;
        }
        let cut = self.halted(at).filter(|_| self.state.cut_short(step)).cloned();
        if failed > 0 {
            let (why, message) = (self.state.group_failure(step).cloned(), self.state.group_failures(step));
            self.gather_outputs(at, cut.is_none());
            self.settle(at, StepOutcome::Failed, why, Some(message));
        } else if cut.is_some() {
            self.settle(at, StepOutcome::Skipped, cut, None);
        } else if succeeded > 0 {
            self.gather_outputs(at, true);
            self.settle(at, StepOutcome::Succeeded, None, None);
        } else {
            let message = "its `when` is false for every item".to_owned();
            self.settle(at, StepOutcome::Skipped, Some(reason::CONDITION_FALSE.into()), Some(message));
        }
    }

    /// Records the outputs of a fan-out, where it was not cut short.
    fn gather_outputs(&mut self, at: Address, whole: bool) {
        let outputs = self.group_outputs(at.step.0).filter(|_| whole);
        if let Some(node) = self.state.node_mut(at) {
            node.outputs = outputs;
        }
    }

    /// Outputs of a fan-out: JSON arrays in item order; an instance without a value gives null.
    fn group_outputs(&self, step: u32) -> Option<Box<StepOutputs>> {
        let spec = self.plan.step(orlop_core::attempt::StepIndex(step))?;
        let group = self.state.groups.get(&step)?;
        let declared = spec.output_parameters();
        if declared.is_empty() {
            return None;
        }
        let array = |name: &str| {
            let value = |node: &Node| match node.outputs.as_ref().and_then(|outputs| outputs.parameter(name)) {
                Some(text) => Value::String(text.to_owned()),
                None => Value::Null,
            };
            Value::Array(group.nodes.iter().map(value).collect()).to_string()
        };
        let parameters = declared
            .iter()
            .map(|output| OutputValue { name: output.name.clone(), value: array(&output.name) })
            .collect();
        Some(Box::new(StepOutputs { parameters, ..StepOutputs::default() }))
    }
}

impl State {
    /// Why a fan-out failed: the reason of its first failed instance.
    pub(super) fn group_failure(&self, step: u32) -> Option<&Text> {
        let group = self.groups.get(&step)?;
        group.nodes.iter().find(|node| node.failed())?.reason.as_ref()
    }

    /// How much of a fan-out failed, in a sentence.
    pub(super) fn group_failures(&self, step: u32) -> String {
        let failed = self.index.groups.get(&step).map_or(0, |counts| counts.failed);
        let total = self.groups.get(&step).map_or(0, |group| group.nodes.len());
        format!("{failed} of {total} instances failed")
    }

    /// Whether a halt has skipped an instance.
    fn cut_short(&self, step: u32) -> bool {
        let by_halt =
            |node: &Node| node.state == StepState::SKIPPED && node.reason.as_deref().is_some_and(reason::is_halt);
        self.groups.get(&step).is_some_and(|group| group.nodes.iter().any(by_halt))
    }
}
