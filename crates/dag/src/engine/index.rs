//! What is derived from the recorded state so that no call scans all steps: counters, the ready queue, live attempts,
//! timers. Owns the rebuild from scratch, which is also the check that the incremental form is right.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use orlop_core::attempt::Address;
use orlop_core::machine::step::{StepOutcome, StepState};
use orlop_core::time::Time;

use super::state::{Group, Node};
use crate::plan::Plan;

/// Derived structures.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    /// Per step: edges from steps that are not settled.
    pub(super) remaining: Vec<u32>,
    /// Steps that may start when a slot is free; a fan-out stands for its first queued instance.
    pub(super) ready: BTreeSet<Address>,
    /// Manual steps whose wait begins when the flow is resumed.
    pub(super) gates: BTreeSet<u32>,
    /// Attempts started and not known to have ended.
    pub(super) live: BTreeSet<Address>,
    /// Manual steps that wait for a decision.
    pub(super) awaiting: BTreeSet<u32>,
    /// Steps and instances whose retry is scheduled.
    pub(super) backoff: BTreeSet<Address>,
    /// Timers that act at any time.
    pub(super) timers: BinaryHeap<Reverse<(Time, Address)>>,
    /// Timers that would start something, and so stand still while the flow is suspended.
    pub(super) starts: BinaryHeap<Reverse<(Time, Address)>>,
    /// Counts of the main part and of `finally`.
    pub(super) parts: [Part; 2],
    /// Per fan-out with known instances: its own counts.
    pub(super) groups: BTreeMap<u32, GroupIndex>,
}

/// Counts of one part of the flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    /// Steps not settled.
    pub(super) open: u32,
    /// Units (steps, and instances in place of their step) in all.
    pub(super) units: u32,
    /// Units that succeeded.
    pub(super) succeeded: u32,
    /// Units that failed.
    pub(super) failed: u32,
    /// Units that were skipped.
    pub(super) skipped: u32,
    /// Units with a live attempt.
    pub(super) live: u32,
    /// Units whose attempt is accepted.
    pub(super) running: u32,
}

/// Counts of one fan-out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct GroupIndex {
    pub(super) queue: BTreeSet<u32>,
    pub(super) open: u32,
    pub(super) live: u32,
    pub(super) running: u32,
    pub(super) succeeded: u32,
    pub(super) failed: u32,
    pub(super) skipped: u32,
}

impl Index {
    pub(super) fn part(&mut self, finally: bool) -> &mut Part {
        let [main, last] = &mut self.parts;
        if finally { last } else { main }
    }

    pub(super) fn part_of(&self, finally: bool) -> &Part {
        let [main, last] = &self.parts;
        if finally { last } else { main }
    }

    /// Builds everything from the records.
    pub(super) fn rebuild(plan: &Plan, nodes: &[Node], groups: &BTreeMap<u32, Group>) -> Self {
        let mut index = Self { remaining: plan.graph().in_degree.clone(), ..Self::default() };
        for (number, (node, step)) in (0_u32..).zip(nodes.iter().zip(plan.steps())) {
            if node.state.is_settled() {
                for edge in plan.graph().successors(number) {
                    if let Some(remaining) = index.remaining.get_mut(edge.target() as usize) {
                        *remaining = remaining.saturating_sub(1);
                    }
                }
            } else {
                index.part(step.finally).open += 1;
            }
            match groups.get(&number) {
                Some(group) => index.add_group(plan, number, group),
                None => index.add_unit(plan, Address::step(number), node),
            }
        }
        index
    }

    /// Takes the instances of a fan-out into all counts; its step stops counting as one.
    pub(super) fn add_group(&mut self, plan: &Plan, step: u32, group: &Group) {
        self.groups.insert(step, GroupIndex::default());
        for (item, node) in (0_u32..).zip(&group.nodes) {
            if !node.state.is_settled()
                && let Some(group) = self.groups.get_mut(&step)
            {
                group.open += 1;
            }
            self.add_unit(plan, Address::instance(step, item), node);
        }
    }

    fn add_unit(&mut self, plan: &Plan, at: Address, node: &Node) {
        let finally = plan.get(at.step.0).is_some_and(|step| step.finally);
        self.part(finally).units += 1;
        self.count(plan, at, node.state, true);
        match node.state {
            StepState::Queued => self.enqueue(plan, at),
            StepState::Awaiting => {
                self.awaiting.insert(at.step.0);
            }
            StepState::Backoff => {
                self.backoff.insert(at);
            }
            _ => {}
        }
        if let (None, Some(due)) = (node.frozen, node.due) {
            self.arm(at, node.state, due);
        }
    }

    /// Puts the timer of a node's current state into the right heap.
    pub(super) fn arm(&mut self, at: Address, state: StepState, due: Time) {
        match state {
            StepState::Backoff | StepState::Starting => self.starts.push(Reverse((due, at))),
            _ => self.timers.push(Reverse((due, at))),
        }
    }

    /// Counts a unit in a state, or takes it out again.
    pub(super) fn count(&mut self, plan: &Plan, at: Address, state: StepState, add: bool) {
        let finally = plan.get(at.step.0).is_some_and(|step| step.finally);
        let step_by = |count: &mut u32| *count = if add { *count + 1 } else { count.saturating_sub(1) };
        let group = if at.item.is_some() { self.groups.get_mut(&at.step.0) } else { None };
        let mut none = GroupIndex::default();
        let group = group.unwrap_or(&mut none);
        let [main, last] = &mut self.parts;
        let part = if finally { last } else { main };
        match state {
            StepState::Done(StepOutcome::Succeeded) => {
                step_by(&mut part.succeeded);
                step_by(&mut group.succeeded);
            }
            StepState::Done(StepOutcome::Failed) => {
                step_by(&mut part.failed);
                step_by(&mut group.failed);
            }
            StepState::Done(StepOutcome::Skipped) => {
                step_by(&mut part.skipped);
                step_by(&mut group.skipped);
            }
            state if state.is_live() => {
                step_by(&mut part.live);
                step_by(&mut group.live);
                if state != StepState::Starting {
                    step_by(&mut part.running);
                    step_by(&mut group.running);
                }
                if add {
                    self.live.insert(at);
                } else {
                    self.live.remove(&at);
                }
            }
            _ => {}
        }
    }

    /// Puts a unit into the ready queue.
    pub(super) fn enqueue(&mut self, plan: &Plan, at: Address) {
        let Some(step) = plan.get(at.step.0) else { return };
        match at.item {
            None if step.manual => {
                self.gates.insert(at.step.0);
            }
            // A fan-out step itself never starts: its instances do.
            None if step.fan_out.is_some() => {}
            None => {
                self.ready.insert(at);
            }
            Some(item) => {
                if let Some(group) = self.groups.get_mut(&at.step.0) {
                    group.queue.insert(item);
                }
                self.offer(plan, at.step.0);
            }
        }
    }

    /// Shows a fan-out in the ready queue exactly while it has a queued instance and a slot of its own.
    pub(super) fn offer(&mut self, plan: &Plan, step: u32) {
        let limit = plan.get(step).and_then(|step| step.fan_out.as_ref()?.parallelism).unwrap_or(u32::MAX);
        let open = self.groups.get(&step).is_some_and(|group| !group.queue.is_empty() && group.live < limit);
        if open {
            self.ready.insert(Address::step(step));
        } else {
            self.ready.remove(&Address::step(step));
        }
    }

    /// Takes the first unit that may start out of the ready queue: spec order, then item index (rule R38).
    pub(super) fn dequeue(&mut self, plan: &Plan) -> Option<Address> {
        let first = *self.ready.first()?;
        let Some(group) = self.groups.get_mut(&first.step.0) else {
            self.ready.remove(&first);
            return Some(first);
        };
        let item = group.queue.pop_first();
        self.offer(plan, first.step.0);
        item.map(|item| Address::instance(first.step.0, item))
    }
}
