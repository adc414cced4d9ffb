//! Limits starts: those that a flow wants against the live Jobs that there may be over all flows. The engine is given an event for
//! those that wait.

use std::time::Duration;

use orlop_core::effect::FlowEffect;
use orlop_core::event::FlowEvent;
use orlop_core::machine::flow::FlowPhase;
use orlop_core::machine::step::StepState;
use orlop_core::time::Time;
use orlop_dag::engine::step_status;

use super::Controller;
use super::memory::Memory;
use super::start::Start;
use crate::api::Api;

/// Starts of one flow that are under way at once.
const STARTS: usize = 16;
/// How long the engine is told to wait. A flow is called before that when there is room; this is for a call that is lost.
const WAIT: Duration = Duration::from_secs(600);
/// Why a start waits: in a word, and as a sentence.
const THROTTLED: &str = "Throttled";
const FULL: &str = "the limit of live Jobs (--max-live-jobs) is reached; the step waits for one to end";

impl Memory {
    /// Whether there are starts that the time of a pass was too short for.
    pub(super) fn has_unmade_starts(&self) -> bool {
        self.waiting.values().any(|(_, announced)| announced.is_none())
    }

    /// Takes up the starts that waited when an earlier controller wrote the status: the engine would ask for them only when
    /// the time is over that it was told.
    pub(super) fn restore_waiting(&mut self, now: Time) {
        let Self { waiting, state, plan, .. } = self;
        for (at, attempt) in state.live() {
            let starting = state.attempt(at) == Some((StepState::Starting, attempt));
            if !starting || step_status(plan, state, at).reason != THROTTLED {
                continue;
            }
            let item = state.item(plan, at).cloned().map(Box::new);
            if at.item.is_none() || item.is_some() {
                waiting.insert((at, attempt), (Start { at, attempt, item, delays: 0 }, Some(now.plus(WAIT))));
            }
        }
    }
}

impl<A: Api> Controller<A> {
    /// The starts to be made now: those at the head of the queue and those that wait, in spec order, as many as may be
    /// under way at once and as there is room for.
    pub(super) fn next_starts(&self, memory: &mut Memory) -> Vec<Start> {
        while let Some(FlowEffect::StartAttempt { at, attempt, item }) = memory.queue.front().cloned() {
            let Some(effect) = memory.queue.pop_front() else { break };
            let delays = memory.delays.get(&effect.key()).copied().unwrap_or(0);
            memory.waiting.insert((at, attempt), (Start { at, attempt, item, delays }, None));
        }
        let Memory { waiting, state, .. } = memory;
        waiting.retain(|(at, attempt), _| state.attempt(*at) == Some((StepState::Starting, *attempt)));
        let key = memory.key();
        let suspended = memory.state.phase() == FlowPhase::Suspended;
        let wanted = if suspended { 0 } else { memory.waiting.len().min(STARTS) };
        let granted = {
            let mut known = self.known();
            let room = self.room(&known);
            if wanted == 0 {
                known.slots.leave(&key);
            }
            known.slots.take(&key, wanted, room)
        };
        let starts: Vec<Start> = memory.waiting.values().take(granted).map(|(start, _)| start.clone()).collect();
        for start in &starts {
            memory.waiting.remove(&(start.at, start.attempt));
        }
        if granted < wanted || suspended {
            self.delay_starts(memory);
        }
        starts
    }

    /// Tells the engine, and so people, that starts wait.
    fn delay_starts(&self, memory: &mut Memory) {
        let now = self.now();
        let retry_at = now.plus(WAIT);
        let mut unannounced = Vec::new();
        for (unit, (_, announced)) in &mut memory.waiting {
            if announced.is_none_or(|until| until <= now) {
                *announced = Some(retry_at);
                unannounced.push(*unit);
            }
        }
        for (at, attempt) in unannounced {
            let reason = THROTTLED.to_owned();
            let message = FULL.to_owned();
            memory.apply_event(&FlowEvent::AttemptDelayed { at, attempt, reason, message, retry_at }, now);
        }
    }
}
