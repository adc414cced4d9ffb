//! Rounds of a random world, whole ones and such of a few placements, and what has to hold after them: the limit was kept, and
//! after a whole one nothing is left that could be placed. Owns these two laws.

use super::law::{Broken, Law};
use super::preempting::Preemptions;
use super::world::World;
use crate::effect::Effect;

impl World<'_> {
    pub(super) fn round(&mut self) -> Result<(), Broken> {
        let few = self.shape.backlog || self.choices.once_in(4);
        let limit = if few && !self.choices.once_in(4) { 1 + self.choices.below(4) as u32 } else { u32::MAX };
        self.limited_round(limit)
    }

    /// A round that places whatever can be.
    pub(super) fn whole_round(&mut self) -> Result<(), Broken> {
        self.limited_round(u32::MAX)
    }

    fn limited_round(&mut self, limit: u32) -> Result<(), Broken> {
        let stats = self.scheduler.round(self.now, limit, &mut self.effects);
        let placed = self.effects.iter().filter(|effect| matches!(effect, Effect::Assign { .. })).count();
        Law::Bookkeeping.demand(placed == (stats.placed + stats.prefilled) as usize, || {
            format!("{placed} assignments, {} counted", stats.placed)
        })?;
        self.within_limit(limit)?;
        self.credits.forget();
        self.model.hopeless.clear();
        self.absorb(!stats.limited)?;
        self.deadlines.fired(&self.model, self.scheduler.now(), self.scheduler.config())?;
        self.preemptions.check(&self.scheduler, &self.model, stats.limited)?;
        if stats.limited { Ok(()) } else { self.conserve_work() }
    }

    /// A round sends no attempt once it has come to its limit; members of a gang are not parted.
    fn within_limit(&self, limit: u32) -> Result<(), Broken> {
        let mut sent = 0;
        for effect in &self.effects {
            let Effect::Assign { attempt, .. } = effect else { continue };
            Law::Bookkeeping.demand(attempt.member > 0 || sent < limit, || {
                format!("{attempt} is sent past the limit of {limit}")
            })?;
            sent += 1;
        }
        Ok(())
    }

    /// After an unlimited round nothing that is ready, within its quota, fits any worker.
    fn conserve_work(&self) -> Result<(), Broken> {
        let open = self.model.open();
        for line in self.model.lines() {
            let held = Preemptions::held(&self.scheduler, &self.model, &line.tenant);
            let Some(spec) = self.model.spec(line.first.1.0) else { continue };
            if let Some(worker) = self.model.could_start(line.first.1, &open, &held) {
                let left = open.iter().find(|(key, ..)| *key == worker).map(|(.., left)| left);
                let (first, asked) = (line.first, &spec.resources);
                return Err(Law::WorkConservation.broken(format!(
                    "{first:?} waits though it fits {worker}: {asked:?} of {left:?}, {:?}",
                    spec.gang
                )));
            }
        }
        let held = |tenant: &str| Preemptions::held(&self.scheduler, &self.model, tenant);
        self.prefills.conserve(&self.model, held)
    }
}
