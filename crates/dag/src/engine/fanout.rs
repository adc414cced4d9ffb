//! Fan-out: from items to instances, and from settled instances to the step (rule R34).

use std::sync::Arc;

use orlop_core::attempt::Address;
use orlop_core::machine::step::{StepOutcome, StepState};
use orlop_core::spec::status::{OutputValue, StepOutputs};
use serde_json::Value;

use super::state::{Group, Node};
use super::{Call, reason};

/// The most items a fan-out may have; the limit of a flow's steps.
const ITEMS_MAX: usize = 100_000;

impl Call<'_> {
    /// The items of a `withParam` fan-out are known, or cannot be.
    pub(super) fn items_resolved(&mut self, step: u32, items: &Result<Vec<Value>, String>) {
        let at = Address::step(step);
        let planned = self.plan.get(step).and_then(|step| step.fan_out.as_ref());
        let by_param = planned.is_some_and(|fan_out| fan_out.listed.is_none());
        let queued = self.state.node(at).is_some_and(|node| node.state == StepState::Queued);
        if !by_param || !queued || self.state.halted(self.is_finally(at)).is_some() {
            return;
        }
        let items = match items {
            Ok(items) if items.len() <= ITEMS_MAX => items,
            Ok(items) => {
                let message = format!("withParam gives {} items, {ITEMS_MAX} are allowed", items.len());
                return self.fail_for_good(at, reason::PARAMETER_UNRESOLVED.into(), message);
            }
            Err(message) => {
                return self.fail_for_good(at, reason::PARAMETER_UNRESOLVED.into(), message.clone());
            }
        };
        if let Some(group) = self.state.groups.get_mut(&step) {
            return restore_items(group, items);
        }
        self.expand(step, u32::try_from(items.len()).unwrap_or(u32::MAX), Some(Arc::new(items.clone())));
    }

    /// Creates the instances.
    pub(super) fn expand(&mut self, step: u32, count: u32, items: Option<Arc<Vec<Value>>>) {
        let at = Address::step(step);
        self.changed = true;
        let part = self.is_finally(at);
        // The step stops counting as one unit: its instances count instead.
        let units = &mut self.state.index.part(part).units;
        *units = units.saturating_sub(1);
        let node = Node { state: StepState::Queued, ..Node::default() };
        let group = Group { items, nodes: vec![node; count as usize] };
        let index = &mut self.state.index;
        index.add_group(self.plan, step, &group);
        self.state.groups.insert(step, group);
        if count == 0 {
            let outputs = self.group_outputs(step);
            if let Some(node) = self.state.node_mut(at) {
                node.outputs = outputs;
            }
            self.settle(at, StepOutcome::Succeeded, Some(reason::EMPTY_FAN_OUT.into()), None);
            return;
        }
        let condition = self.plan.get(step).and_then(|step| step.condition.as_ref());
        if condition.is_some_and(|condition| condition.references().is_per_instance()) {
            for item in 0..count {
                let at = Address::instance(step, item);
                if !self.condition_holds(at) {
                    self.unqueue(step, item);
                }
            }
        }
    }

    fn unqueue(&mut self, step: u32, item: u32) {
        if let Some(group) = self.state.index.groups.get_mut(&step) {
            group.queue.remove(&item);
        }
        self.state.index.offer(self.plan, step);
    }

    /// Looks at a fan-out one of whose instances was settled.
    pub(super) fn instance_settled(&mut self, step: u32) {
        let at = Address::step(step);
        let Some(counts) = self.state.index.groups.get_mut(&step) else { return };
        counts.open = counts.open.saturating_sub(1);
        let (open, failed, succeeded) = (counts.open, counts.failed, counts.succeeded);
        if open > 0 || self.state.node(at).is_none_or(|node| node.state.is_settled()) {
            return;
        }
        let outputs = self.group_outputs(step);
        let total = self.state.groups.get(&step).map_or(0, |group| group.nodes.len());
        let first_failure =
            self.state.groups.get(&step).and_then(|group| group.nodes.iter().find(|node| node.failed()));
        let why = first_failure.and_then(|node| node.reason.clone());
        let ended =
            self.state.groups.get(&step).and_then(|group| group.nodes.iter().filter_map(|node| node.ended).max());
        let started =
            self.state.groups.get(&step).and_then(|group| group.nodes.iter().filter_map(|node| node.started).min());
        if let Some(node) = self.state.node_mut(at) {
            node.outputs = outputs;
            node.ended = ended;
            node.started = started;
        }
        if failed > 0 {
            let message = format!("{failed} of {total} instances failed");
            self.settle(at, StepOutcome::Failed, why, Some(message));
        } else if succeeded > 0 {
            self.settle(at, StepOutcome::Succeeded, None, None);
        } else {
            let message = "its `when` is false for every item".to_owned();
            self.settle(at, StepOutcome::Skipped, Some(reason::CONDITION_FALSE.into()), Some(message));
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

    /// Whether an instance may start: a restored fan-out waits for its items.
    pub(super) fn has_item(&self, at: Address) -> bool {
        at.item.is_none() || self.state.item(self.plan, at).is_some()
    }
}

/// Gives a restored group its items; instances beyond the recorded ones join it.
fn restore_items(group: &mut Group, items: &[Value]) {
    if group.items.is_none() {
        group.items = Some(Arc::new(items.to_vec()));
    }
}
