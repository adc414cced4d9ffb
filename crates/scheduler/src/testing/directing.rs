//! Placements beside the order of rounds in a random world: operators place jobs on workers that they name, and
//! drain workers, which urgent jobs enter all the same. Owns these events; what such a placement must keep to is
//! the law of every placement.

use super::law::Broken;
use super::world::World;
use crate::event::{DrainOrder, Event};
use crate::job::Demand;

impl World<'_> {
    /// Some jobs are urgent.
    pub(super) fn hurry(&mut self, spec: &mut Demand) {
        spec.urgent = self.choices.once_in(3);
    }

    /// What operators do here more often than elsewhere.
    pub(super) fn direct(&mut self) -> Result<(), Broken> {
        if self.model.machines.len() < 2 || self.choices.once_in(8) {
            return self.join();
        }
        let Some(worker) = self.worker() else { return Ok(()) };
        match self.choices.below(6) {
            0 | 1 => {
                let order = DrainOrder { deadline: None, host_shutdown: self.choices.once_in(8) };
                self.flag(Event::Drain { worker, order }, worker, |machine| machine.draining = true)
            }
            2 => self.submit(),
            _ => {
                let waiting: Vec<_> = self.model.waiting.iter().map(|(job, _)| *job).collect();
                let Some(job) = self.choices.pick(&waiting) else { return self.submit() };
                self.apply(Event::AssignJob { job, worker }).map(drop)
            }
        }
    }
}
