//! Starting attempts: slots, order, and what to do again after a crash.

use orlop_core::attempt::Address;
use orlop_core::effect::FlowEffect;
use orlop_core::machine::step::StepState;
use orlop_core::spec::status::WaitsOn;

use super::Call;
use super::state::{Resources, State};
use crate::plan::Plan;

impl Call<'_> {
    /// Starts what is ready while slots are free: spec order, then item index. Decisions hold no slot.
    pub(super) fn fill_slots(&mut self) {
        let unready = self.state.flow.started.is_none() || self.state.flow.resources == Resources::Asked;
        if self.state.flow.completed.is_some() || unready || self.state.is_paused() {
            return;
        }
        while let Some(step) = self.state.index.gates.pop_first() {
            let at = Address::step(step);
            if self.halted(at).is_none() {
                self.await_decision(at);
            }
        }
        let limit = self.limit();
        while self.live_count() < limit {
            let Some(at) = self.state.index.dequeue(self.plan) else { break };
            if self.halted(at).is_none() {
                self.start(at);
            }
        }
    }

    /// Live attempts the flow may have.
    fn limit(&self) -> usize {
        let own = self.plan.policy().parallelism;
        let limit = own.into_iter().chain(self.state.flow.meta.max_live).min();
        limit.map_or(usize::MAX, |limit| limit as usize)
    }

    fn live_count(&self) -> usize {
        self.state.index.live.len()
    }

    fn start(&mut self, at: Address) {
        self.set_state(at, StepState::Starting);
        for at in [at, Address { item: None, ..at }] {
            if let Some(node) = self.state.node_mut(at) {
                node.asked = true;
            }
        }
        if let Some(effect) = start_effect(self.plan, self.state, at) {
            self.out.push(effect);
        }
    }

    /// The substrate asked to wait and the wait is over: the same attempt again.
    pub(super) fn start_again(&mut self, at: Address) {
        if let Some(node) = self.state.node_mut(at) {
            // Why it was put off stays in sight until there is another answer.
            node.due = None;
        }
        self.changed = true;
        if let Some(effect) = start_effect(self.plan, self.state, at) {
            self.out.push(effect);
        }
    }
}

pub(super) fn start_effect(plan: &Plan, state: &State, at: Address) -> Option<FlowEffect> {
    let attempt = state.node(at)?.attempt();
    let item = state.item(plan, at).cloned().map(Box::new);
    Some(FlowEffect::StartAttempt { at, attempt, item })
}

/// Something a host has to do after a restart, when it has replayed the stored events.
#[derive(Clone, Debug, PartialEq)]
pub enum Duty {
    /// Carry out an effect that may have been lost with the last host. If it was carried out before, its key makes the repetition
    /// harmless.
    CarryOut(FlowEffect),
    /// Watch an attempt that the last host had started and that has not ended as far as is known, or report its end, such as
    /// [`AttemptLost`](orlop_core::event::FlowEvent::AttemptLost) where nothing is left of it. Without either the flow waits for
    /// ever.
    Adopt {
        /// The step or instance.
        at: Address,
        /// Number of the attempt.
        attempt: u32,
    },
}

/// Everything a host has to do after a restart: attempts to adopt, then effects to carry out. Costs O(steps); called once.
///
/// ```
/// use orlop_core::attempt::Address;
/// use orlop_core::event::FlowEvent;
/// use orlop_core::spec::flow::FlowSpec;
/// use orlop_core::spec::step::Step;
/// use orlop_core::time::Time;
/// use orlop_dag::engine::{Duty, FlowMeta, apply, duties, init};
/// use orlop_dag::plan::Plan;
///
/// let plan = Plan::build(FlowSpec::new([Step::new("a")]).into())?;
/// let (now, mut effects) = (Time::from_millis(0), Vec::new());
/// // What the last host wrote: the flow was admitted, and the attempt of `a` was started.
/// let accepted = FlowEvent::AttemptAccepted { at: Address::step(0), attempt: 1, reference: Default::default() };
/// let mut state = init(&plan, &FlowMeta::default(), now, &mut effects);
/// for event in [FlowEvent::Admit, accepted] {
///     apply(&plan, &mut state, &event, now, &mut effects);
/// }
/// for duty in duties(&plan, &state) {
///     match duty {
///         Duty::CarryOut(effect) => println!("carry out {}", effect.key()),
///         Duty::Adopt { at, attempt } => {
///             // Nothing is left of it here: the engine starts the next attempt.
///             let lost = FlowEvent::AttemptLost { at, attempt, message: "restarted".into(), ended_at: now };
///             apply(&plan, &mut state, &lost, now, &mut effects);
///         }
///     }
/// }
/// assert_eq!(state.attempt(Address::step(0)).map(|(_, attempt)| attempt), Some(2));
/// # Ok::<(), orlop_dag::plan::PlanErrors>(())
/// ```
#[must_use]
pub fn duties(plan: &Plan, state: &State) -> Vec<Duty> {
    let accepted = |unit: &(Address, u32)| {
        let state = state.attempt(unit.0).map(|(state, _)| state);
        matches!(state, Some(StepState::Active | StepState::Cancelling))
    };
    let adopted = state.live().filter(accepted).map(|(at, attempt)| Duty::Adopt { at, attempt });
    let mut effects = Vec::new();
    outstanding(plan, state, &mut effects);
    adopted.chain(effects.into_iter().map(Duty::CarryOut)).collect()
}

/// Everything that is under way and whose effect may have been lost with a crashed host.
pub(super) fn outstanding(plan: &Plan, state: &State, out: &mut Vec<FlowEffect>) {
    let flow = &state.flow;
    if flow.completed.is_some() {
        out.extend(flow.deleted.then_some(FlowEffect::DeleteFlow));
        return;
    }
    if flow.resources == Resources::Asked {
        out.push(FlowEffect::EnsureResources);
    }
    out.extend(state.index.live.iter().filter_map(|at| outstanding_of(plan, state, *at)));
    for (number, step) in (0_u32..).zip(plan.steps()) {
        let at = Address::step(number);
        let by_param = step.fan_out.as_ref().is_some_and(|fan_out| fan_out.listed.is_none());
        let unread = state.groups.get(&number).is_none_or(|group| group.items.is_none());
        let queued = state.node(at).is_some_and(|node| node.state == StepState::Queued);
        let asked = || state.index.live.range(Address::instance(number, 0)..Address::step(number + 1)).next().is_some();
        if by_param && unread && queued && (state.halted(step.finally).is_none() || asked()) {
            out.push(FlowEffect::ResolveItems { step: at.step });
        }
    }
}

/// What a live attempt may still have to be told.
fn outstanding_of(plan: &Plan, state: &State, at: Address) -> Option<FlowEffect> {
    let node = state.node(at)?;
    let (attempt, epoch) = (node.attempt(), state.flow.suspensions);
    match node.state {
        // An instance whose items are still to be read again is asked for then.
        StepState::Starting if at.item.is_some() && !state.knows_items(at) => None,
        StepState::Starting if node.due.is_none() => start_effect(plan, state, at),
        StepState::Active if node.frozen.is_some() => Some(FlowEffect::SuspendAttempt { at, attempt, epoch }),
        // Its resumption may have been lost. One that was never suspended takes no harm; one that somebody else has is his.
        StepState::Active if epoch > 0 && !node.waits_on(WaitsOn::Suspended) => {
            Some(FlowEffect::ResumeAttempt { at, attempt, epoch })
        }
        StepState::Cancelling => {
            let cause = node.reason.clone().unwrap_or_default().into_owned();
            Some(FlowEffect::CancelAttempt { at, attempt, cause, grace: None })
        }
        _ => None,
    }
}
