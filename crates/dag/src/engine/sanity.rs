//! The check that what the state keeps up to date equals what its records say, rebuilt from scratch. For tests only: it
//! looks at everything.

use super::index::Index;
use super::state::{Stage, State};
use crate::plan::Plan;

impl State {
    /// Compares the derived part of the state with its recomputation.
    ///
    /// # Errors
    /// The first part that differs.
    pub(crate) fn sanity_check(&self, plan: &Plan) -> Result<(), String> {
        let index = Index::rebuild(plan, &self.nodes, &self.groups);
        same("counts", &self.index.parts, &index.parts)?;
        same("live attempts", &self.index.live, &index.live)?;
        same("scheduled retries", &self.index.backoff, &index.backoff)?;
        same("waits for decisions", &self.index.awaiting, &index.awaiting)?;
        same("delayed starts", &self.index.short, &index.short)?;
        same("blocked cancellations", &self.index.blocked, &index.blocked)?;
        same("attempts that do not run", &self.index.stuck, &index.stuck)?;
        same("tolerated failures", &self.index.tolerated, &index.tolerated)?;
        for (step, group) in &index.groups {
            let kept = self.index.groups.get(step).cloned().unwrap_or_default();
            // Queues of a halted part hold what will never start, and are emptied when it would.
            let queue = if self.is_over(plan, *step) { kept.queue.clone() } else { group.queue.clone() };
            same(&format!("fan-out {step}"), &kept, &super::index::GroupIndex { queue, ..group.clone() })?;
        }
        let open =
            |steps: Vec<u32>| -> Vec<u32> { steps.into_iter().filter(|step| !self.is_over(plan, *step)).collect() };
        let steps = |index: &Index| open(index.ready.iter().map(|at| at.step.0).collect());
        same("ready queue", &steps(&self.index), &steps(&index))?;
        let gates = |index: &Index| open(index.gates.iter().copied().collect());
        same("decisions to wait for", &gates(&self.index), &gates(&index))?;
        let decidable = |index: &Index| open(index.decidable.iter().copied().collect());
        same("decidable steps", &decidable(&self.index), &decidable(&index))?;
        let counts = |index: &Index| {
            let all = (0_u32..).zip(index.remaining.iter().zip(&index.needed));
            all.filter(|(step, _)| !self.is_over(plan, *step)).map(|(_, (r, n))| (*r, *n)).collect::<Vec<_>>()
        };
        same("edges not settled", &counts(&self.index), &counts(&index))
    }

    /// Whether nothing more starts in the part of a step.
    fn is_over(&self, plan: &Plan, step: u32) -> bool {
        let finally = plan.get(step).is_some_and(|step| step.finally);
        self.flow.stage == Stage::Over || self.halted(finally).is_some()
    }
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, kept: &T, right: &T) -> Result<(), String> {
    if kept == right { Ok(()) } else { Err(format!("{what}: kept {kept:?}, right is {right:?}")) }
}
