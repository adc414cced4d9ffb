//! Timers: everything that happens because time has passed. Owns when a host must call again.

use std::cmp::Reverse;

use orlop_core::attempt::Address;
use orlop_core::effect::FlowEffect;
use orlop_core::machine::step::StepState;
use orlop_core::time::Time;

use super::halt::Halt;
use super::state::{Stage, State};
use super::{Call, reason};
use crate::plan::Plan;

/// When [`apply`](super::apply) must be called with [`FlowEvent::Tick`](orlop_core::event::FlowEvent::Tick) if nothing happens
/// before; none while only other events can change anything. Timers that cannot act now, such as a retry while the flow is
/// suspended, are left out.
///
/// ```
/// use std::time::Duration;
/// use orlop_core::machine::flow::FlowPhase;
/// use orlop_dag::prelude::*;
/// let wait = Step::manual("approve", "Release it?").timeout(Duration::from_secs(60));
/// let plan = Plan::build(FlowSpec::new([wait]).into())?;
/// let (mut effects, now) = (Vec::new(), Time::EPOCH);
/// let mut state = init(&plan, &FlowMeta::default(), now, &mut effects);
/// apply(&plan, &mut state, &FlowEvent::Admit, now, &mut effects);
/// let due = next_deadline(&state).ok_or("the approval has a limit")?;
/// assert_eq!(due.since(now), Duration::from_secs(60));
/// apply(&plan, &mut state, &FlowEvent::Tick, due, &mut effects);
/// assert_eq!(state.phase(), FlowPhase::Failed);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn next_deadline(state: &State) -> Option<Time> {
    let flow = &state.flow;
    if flow.completed.is_some() {
        // A time to live of zero also waits for the final status.
        let waits = flow.ttl_due == flow.completed && !flow.final_written;
        return flow.ttl_due.filter(|_| !flow.deleted && !waits);
    }
    state.next_timer().map(|timer| timer.due)
}

/// A timer of a flow that is not over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Timer {
    due: Time,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Deadline,
    /// A timeout or the limit of an approval.
    Limit(Address),
    /// A retry or a delayed start.
    Start(Address),
}

impl State {
    /// The timer that is due first: the deadline before others of the same time, these by address.
    fn next_timer(&self) -> Option<Timer> {
        let deadline = self.flow.deadline.filter(|_| self.deadline_runs());
        let deadline = deadline.map(|due| Timer { due, what: What::Deadline });
        let limit = self.index.timers.peek().map(|Reverse((due, at))| Timer { due: *due, what: What::Limit(*at) });
        let start = self.index.starts.peek().filter(|_| !self.is_paused());
        let start = start.map(|Reverse((due, at))| Timer { due: *due, what: What::Start(*at) });
        [deadline, limit, start].into_iter().flatten().min_by_key(|timer| match timer.what {
            What::Deadline => (timer.due, None),
            What::Limit(at) | What::Start(at) => (timer.due, Some(at)),
        })
    }

    /// The deadline acts on the steps only, stands still while the flow is suspended, and acts once.
    fn deadline_runs(&self) -> bool {
        self.flow.stage == Stage::Main && !self.is_paused()
    }

    /// Whether a heap entry is still the timer of its unit, and would do something: after a halt waits are over though
    /// nobody has touched them. An old timer of another kind may be due at the same time.
    fn is_current(&self, plan: &Plan, Timer { due, what }: Timer) -> bool {
        let (at, starts) = match what {
            What::Deadline => return false,
            What::Limit(at) => (at, false),
            What::Start(at) => (at, true),
        };
        let finally = plan.get(at.step.0).is_some_and(|step| step.finally);
        let Some(node) = self.node(at).filter(|node| node.due == Some(due) && node.frozen.is_none()) else {
            return false;
        };
        match node.state {
            StepState::Active => !starts,
            StepState::Awaiting => !starts && self.halted(finally).is_none(),
            // A restored instance is asked for again when its item is known.
            StepState::Starting => starts && (at.item.is_none() || self.knows_items(at)),
            StepState::Backoff => starts && self.halted(finally).is_none(),
            _ => false,
        }
    }
}

impl State {
    /// Drops heads of the heaps that no longer are anybody's timer, so that the next deadline is true.
    pub(super) fn drop_dead_timers(&mut self, plan: &Plan) {
        while let Some(Reverse((due, at))) = self.index.timers.peek().copied() {
            if self.is_current(plan, Timer { due, what: What::Limit(at) }) {
                break;
            }
            self.index.timers.pop();
        }
        while let Some(Reverse((due, at))) = self.index.starts.peek().copied() {
            if self.is_current(plan, Timer { due, what: What::Start(at) }) {
                break;
            }
            self.index.starts.pop();
        }
    }
}

impl Call<'_> {
    /// Lets every timer act that is due, in the order in which they are.
    pub(super) fn fire_timers(&mut self) {
        if self.state.flow.completed.is_some() {
            return self.fire_ttl();
        }
        while let Some(timer) = self.state.next_timer().filter(|timer| timer.due <= self.now) {
            let at = match timer.what {
                What::Deadline => {
                    self.deadline_due();
                    None
                }
                What::Limit(at) => self.state.index.timers.pop().map(|_| at),
                What::Start(at) => self.state.index.starts.pop().map(|_| at),
            };
            if let Some(at) = at.filter(|_| self.state.is_current(self.plan, timer)) {
                self.fire(at);
            }
            self.propagate();
        }
    }

    fn deadline_due(&mut self) {
        self.state.flow.deadline = None;
        self.notice_deadline();
        let message = "the flow took longer than activeDeadlineSeconds allows".to_owned();
        self.add_cause(reason::DEADLINE.into(), message);
        self.halt(Halt { reason: reason::DEADLINE.into(), cancels: true });
    }

    fn fire(&mut self, at: Address) {
        match self.state.node(at).map(|node| node.state) {
            Some(StepState::Active) => self.time_out(at),
            Some(StepState::Awaiting) => self.approval_due(at),
            Some(StepState::Backoff) => self.retry(at),
            Some(StepState::Starting) => self.start_again(at),
            _ => {}
        }
    }

    fn fire_ttl(&mut self) {
        let flow = &mut self.state.flow;
        let due = flow.ttl_due.is_some_and(|due| due <= self.now);
        let written = !self.plan.policy().ttl.is_zero() || flow.final_written;
        if due && written && !flow.deleted {
            flow.deleted = true;
            self.out.push(FlowEffect::DeleteFlow);
        }
    }
}
