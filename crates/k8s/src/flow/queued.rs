//! Jobs of steps that somebody else has suspended, as queues such as Kueue do until there is room (flow contract, section 4.1).
//! Owns what a status says of them: their steps stay Running, and their timeouts go on.

use orlop_core::machine::step::{StepPhase, StepState};
use orlop_core::spec::status::FlowStatus;
use orlop_dag::engine::step_status;
use serde_json::Value;

use super::memory::{Memory, Unit};
use crate::observe;

/// What is said of such a step.
const QUEUED: &str = "its Job is suspended by somebody else, such as a queue, and waits to be let run";

impl Memory {
    /// Notes whether the Job of an attempt is suspended.
    pub(super) fn note_queued(&mut self, unit: Unit, job: &Value) {
        let active = self.state.attempt(unit.0) == Some((StepState::Active, unit.1));
        let held = job.pointer("/spec/suspend").and_then(Value::as_bool).unwrap_or(false);
        // Where it was this flow, the engine says since when.
        let own = !step_status(&self.plan, &self.state, unit.0).message.is_empty();
        let queued = active && held && !own && observe::conclusion(job).is_none();
        let changed = if queued { self.queued.insert(unit) } else { self.queued.remove(&unit) };
        self.dirty |= changed;
    }

    /// Says of running steps that their Jobs are suspended.
    pub(super) fn say_queued(&self, status: &mut FlowStatus) {
        if self.queued.is_empty() {
            return;
        }
        let names: Vec<String> = self.queued.iter().map(|(at, _)| self.plan.instance_name(*at)).collect();
        for step in &mut status.steps {
            if step.phase == StepPhase::Running && step.message.is_empty() && names.contains(&step.name) {
                QUEUED.clone_into(&mut step.message);
            }
        }
    }
}
