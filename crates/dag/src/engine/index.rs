//! What is derived from the recorded state so that no call scans all steps: counters, queues, live attempts, timers.
//! Owns the rebuild from scratch, which is also the check that the incremental form is right.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use orlop_core::attempt::Address;
use orlop_core::machine::step::{StepOutcome, StepPhase, StepState};
use orlop_core::time::Time;

use super::state::{Group, Node};
use crate::plan::Plan;

/// Derived structures.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    /// Per step: edges from steps that are not settled.
    pub(super) remaining: Vec<u32>,
    /// Per step: those of them that are dependencies, not only references.
    pub(super) needed: Vec<u32>,
    /// Waiting steps all of whose edges are settled: to be decided as soon as their part is under way.
    pub(super) decidable: BTreeSet<u32>,
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
    /// Attempts that the substrate does not accept now, for want of room or of an answer: they wait and are asked for again.
    pub(super) short: BTreeSet<Address>,
    /// Cancelled attempts that should be gone.
    pub(super) blocked: BTreeSet<Address>,
    /// Accepted attempts of which the substrate says why they do not run.
    pub(super) stuck: BTreeSet<Address>,
    /// Steps that have failed and are tolerated.
    pub(super) tolerated: BTreeSet<u32>,
    /// Timers that act at any time.
    pub(super) timers: BinaryHeap<Reverse<(Time, Address)>>,
    /// Timers that would start something, and so stand still while the flow is suspended.
    pub(super) starts: BinaryHeap<Reverse<(Time, Address)>>,
    /// Counts of the main part and of `finally`.
    pub(super) parts: [PartCounts; 2],
    /// Per fan-out with known instances: its own counts.
    pub(super) groups: BTreeMap<u32, GroupIndex>,
}

/// Counts of one part of the flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PartCounts {
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

impl PartCounts {
    /// Units that are neither settled nor live.
    pub(super) fn unstarted(&self) -> u32 {
        let settled = self.succeeded.saturating_add(self.failed).saturating_add(self.skipped);
        self.units.saturating_sub(settled).saturating_sub(self.live)
    }
}

/// Counts of one fan-out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct GroupIndex {
    /// Instances that may start when a slot is free.
    pub(super) queue: BTreeSet<u32>,
    /// Instances not settled.
    pub(super) open: u32,
    pub(super) live: u32,
    pub(super) running: u32,
    pub(super) succeeded: u32,
    pub(super) failed: u32,
    pub(super) skipped: u32,
    /// Whether an instance has left Pending.
    pub(super) begun: bool,
    /// Whether the items are not known: a restored flow reads them again.
    pub(super) unread: bool,
}

/// Units a step counts as: a fan-out as its instances, as one until they are known.
fn weight(plan: &Plan, at: Address) -> u32 {
    let listed = || plan.get(at.step.0).and_then(|step| step.fan_out.as_ref()?.listed);
    if at.item.is_some() { 1 } else { listed().unwrap_or(1) }
}

impl Index {
    pub(super) fn part(&mut self, finally: bool) -> &mut PartCounts {
        let [main, last] = &mut self.parts;
        if finally { last } else { main }
    }

    pub(super) fn part_of(&self, finally: bool) -> &PartCounts {
        let [main, last] = &self.parts;
        if finally { last } else { main }
    }

    /// Builds everything from the records.
    pub(super) fn rebuild(plan: &Plan, nodes: &[Node], groups: &BTreeMap<u32, Group>) -> Self {
        let mut index = Self { remaining: plan.graph().in_degree.clone(), ..Self::default() };
        index.needed = index.remaining.clone();
        for (number, node) in (0_u32..).zip(nodes) {
            for edge in plan.graph().successors(number) {
                let target = edge.target() as usize;
                if node.state.is_settled() {
                    lower(&mut index.remaining, target);
                }
                if node.state.is_settled() || edge.is_reference() {
                    lower(&mut index.needed, target);
                }
            }
        }
        for (number, (node, step)) in (0_u32..).zip(nodes.iter().zip(plan.steps())) {
            index.part(step.finally).open += u32::from(!node.state.is_settled());
            if node.state == StepState::Waiting && index.remaining.get(number as usize) == Some(&0) {
                index.decidable.insert(number);
            }
            match groups.get(&number) {
                Some(group) => index.add_group(plan, number, group),
                None => {
                    let at = Address::step(number);
                    let units = &mut index.part(step.finally).units;
                    *units = units.saturating_add(weight(plan, at));
                    index.add_unit(plan, at, node);
                }
            }
        }
        index
    }

    /// Takes the instances of a fan-out into all counts.
    pub(super) fn add_group(&mut self, plan: &Plan, step: u32, group: &Group) {
        let by_param = plan.get(step).is_some_and(|step| step.fan_out.as_ref().is_some_and(|f| f.listed.is_none()));
        let unread = by_param && group.items.is_none();
        self.groups.insert(step, GroupIndex { unread, ..GroupIndex::default() });
        self.add_instances(plan, step, &group.nodes, 0);
    }

    /// Takes the instances from `first` on into all counts.
    pub(super) fn add_instances(&mut self, plan: &Plan, step: u32, nodes: &[Node], first: u32) {
        let finally = plan.get(step).is_some_and(|step| step.finally);
        for (item, node) in (first..).zip(nodes.iter().skip(first as usize)) {
            if let Some(counts) = self.groups.get_mut(&step) {
                counts.open += u32::from(!node.state.is_settled());
                counts.begun |= node.state.phase() != StepPhase::Pending || node.attempt() > 1;
            }
            self.part(finally).units += 1;
            self.add_unit(plan, Address::instance(step, item), node);
        }
        // Instances after a queued one may have taken its slot.
        self.offer(plan, step);
    }

    /// A step that fans out stops counting as such: its instances count instead.
    pub(super) fn drop_step(&mut self, plan: &Plan, at: Address) {
        let finally = plan.get(at.step.0).is_some_and(|step| step.finally);
        let units = &mut self.part(finally).units;
        *units = units.saturating_sub(weight(plan, at));
    }

    fn add_unit(&mut self, plan: &Plan, at: Address, node: &Node) {
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
        if node.is_short() {
            self.short.insert(at);
        }
        if node.left.is_some() {
            self.blocked.insert(at);
        }
        if node.is_stuck() {
            self.stuck.insert(at);
        }
        self.note_failure(plan, at, node);
        if let (None, Some(due)) = (node.frozen, node.due) {
            self.arm(at, node.state, due);
        }
    }

    /// Notes a failure that is tolerated; what a halt cut off is none, and of a fan-out its instances tell.
    pub(super) fn note_failure(&mut self, plan: &Plan, at: Address, node: &Node) {
        let by_instances = at.item.is_none() && self.groups.contains_key(&at.step.0);
        if node.failed() && !by_instances && !node.was_cancelled() && plan.failure(at.step).tolerated {
            self.tolerated.insert(at.step.0);
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
        let weight = weight(plan, at);
        let by = |count: &mut u32| {
            *count = if add { count.saturating_add(weight) } else { count.saturating_sub(weight) };
        };
        let mut none = GroupIndex::default();
        let group = if at.item.is_some() { self.groups.get_mut(&at.step.0) } else { None }.unwrap_or(&mut none);
        let [main, last] = &mut self.parts;
        let part = if finally { last } else { main };
        match state {
            StepState::Done(StepOutcome::Succeeded) => {
                by(&mut part.succeeded);
                by(&mut group.succeeded);
            }
            StepState::Done(StepOutcome::Failed) => {
                by(&mut part.failed);
                by(&mut group.failed);
            }
            StepState::Done(StepOutcome::Skipped) => {
                by(&mut part.skipped);
                by(&mut group.skipped);
            }
            state if state.is_live() => {
                by(&mut part.live);
                by(&mut group.live);
                if state != StepState::Starting {
                    by(&mut part.running);
                    by(&mut group.running);
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

    /// Takes a unit out of the ready queue.
    pub(super) fn unqueue(&mut self, plan: &Plan, at: Address) {
        match (at.item, self.groups.get_mut(&at.step.0)) {
            (Some(item), Some(group)) => {
                group.queue.remove(&item);
                self.offer(plan, at.step.0);
            }
            _ => {
                self.ready.remove(&at);
                self.gates.remove(&at.step.0);
            }
        }
    }

    /// Shows a fan-out in the ready queue exactly while it has a queued instance, items, and a slot of its own.
    pub(super) fn offer(&mut self, plan: &Plan, step: u32) {
        let limit = plan.get(step).and_then(|step| step.fan_out.as_ref()?.parallelism).unwrap_or(u32::MAX);
        let open =
            self.groups.get(&step).is_some_and(|group| !group.queue.is_empty() && group.live < limit && !group.unread);
        if open {
            self.ready.insert(Address::step(step));
        } else {
            self.ready.remove(&Address::step(step));
        }
    }

    /// Takes the first unit that may start out of the ready queue: spec order, then item index.
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

fn lower(counts: &mut [u32], at: usize) {
    if let Some(count) = counts.get_mut(at) {
        *count = count.saturating_sub(1);
    }
}
