//! The law of no starvation: the head of any band and tenant that fits some worker's total and the tenant's
//! quota starts after a bounded number of job ends, although others keep coming. Owns the siege by which this is tried: all
//! attempts end within some turns, the fleet is kept full by small jobs of everybody, and nothing else happens.
//!
//! One thing is left out of the siege: jobs of the same tenant and band with a better priority number, which come first by
//! choice.

use std::collections::BTreeSet;
use std::sync::Arc;

use orlop_core::id::{Epoch, JobId};
use orlop_core::machine::job::JobState;
use orlop_core::task::TaskRef;

use super::amounts::{Amounts, NOTHING, totals};
use super::law::{Broken, Law};
use super::model::UnitId;
use super::world::World;
use crate::config::Config;
use crate::event::{Event, Outcome, TenantSettings};
use crate::job::{Demand, Priority};
use crate::token::WorkerKey;

/// Rounds that a head may have to wait for each line that was there before and each job that waits longer, and besides.
/// Reservations go by waiting time (2.7): a line of many old jobs comes first with each of them.
const ROUNDS: (usize, usize) = (12, 60);

impl World<'_> {
    /// Lets everybody press on the heads that wait and demands that these start. Returns how many that were.
    ///
    /// # Errors
    /// The law that broke.
    pub fn besiege(mut self) -> Result<usize, Broken> {
        self.calm()?;
        let mut heads = self.heads();
        let (count, lines) = (heads.len(), self.model.lines().len());
        let last = heads.iter().map(|(id, _)| *id).max();
        let older = self.model.waiting.iter().filter(|id| Some(**id) < last).count();
        let bound = ROUNDS.0 * (lines + older) + ROUNDS.1;
        for _ in 0..bound {
            if heads.is_empty() {
                break;
            }
            self.press_on(&heads)?;
            heads.retain(|(id, issued)| {
                self.model.units.get(id).is_some_and(|unit| unit.state == JobState::Queued && unit.issued == *issued)
            });
        }
        if let Some((id, _)) = heads.first() {
            let (why, kept) = (self.scheduler.explain(id.0), self.scheduler.reservations().collect::<Vec<_>>());
            let spec = self.model.spec(id.0);
            return Err(
                Law::NoStarvation.broken(format!("{id:?} waits for {bound} rounds: {spec:?}, {why:?}, kept: {kept:?}"))
            );
        }
        Ok(count)
    }

    /// Everybody is there, nobody is paused, nothing runs.
    fn calm(&mut self) -> Result<(), Broken> {
        let config = Config { band_share: [1.0 / 3.0; 3], max_reservations: 16, ..self.scheduler.config().clone() };
        self.turns.anew();
        self.apply(Event::ConfigChanged { config: Box::new(config) })?;
        for tenant in self.tenants.clone() {
            self.model.paused.remove(tenant.as_str());
            self.model.weights.remove(tenant.as_str());
            self.apply(Event::TenantChanged { tenant, settings: TenantSettings::default() })?;
        }
        for worker in self.model.machines.keys().copied().collect::<Vec<_>>() {
            let uncordoned = self.apply(Event::Uncordon { worker })?;
            let stays = self.apply(Event::Undrain { worker })?;
            if let Some(machine) = self.model.machines.get_mut(&worker) {
                machine.cordoned &= !uncordoned;
                machine.draining &= !stays;
            }
        }
        self.come_back()?;
        let _ = self.end_some(usize::MAX)?;
        Ok(())
    }

    /// The first jobs of each tenant and band that would fit the fleet if it was empty, and how many attempts they had.
    fn heads(&self) -> Vec<(UnitId, u32)> {
        let empty: Vec<_> = self
            .model
            .open_or_kept()
            .into_iter()
            .map(|(key, machine, _)| (key, machine, totals(&machine.offer)))
            .collect();
        let lines = self.model.whole_lines();
        // Who waits for what its tenant reserves for another is to start as well.
        let mut model = self.model.clone();
        model.reservations.clear();
        let mut heads = Vec::new();
        for line in &lines {
            let fellows = lines.iter().filter(|other| (&other.tenant, other.band) == (&line.tenant, line.band));
            let first = fellows.map(|other| other.first).min() == Some(line.first);
            let held: Amounts = NOTHING;
            let fits = first && model.could_start(line.first.1, &empty, &held).is_some();
            let issued = self.model.units.get(&line.first.1).map_or(0, |unit| unit.issued);
            heads.extend(fits.then_some((line.first.1, issued)));
        }
        heads
    }

    /// Some seconds pass: small jobs come, what fits is placed, and the oldest quarter of all attempts ends.
    fn press_on(&mut self, heads: &[(UnitId, u32)]) -> Result<(), Broken> {
        self.now += 4000;
        for worker in self.model.machines.keys().copied().collect::<Vec<_>>() {
            self.hear(Event::Heartbeat { worker }, worker)?;
        }
        for _ in 0..4 {
            self.submit_small(heads)?;
        }
        self.give_back()?;
        self.whole_round()?;
        let live = self.model.live.len();
        self.end_some(live.div_ceil(4)).map(drop)
    }

    /// A small job with a time limit, of anybody, however tight its quota: first in its band, but last where a head of the
    /// tenant waits.
    fn submit_small(&mut self, heads: &[(UnitId, u32)]) -> Result<(), Broken> {
        let (Some(tenant), Some(job)) = (self.choices.pick(&self.tenants), JobId::new(Epoch(1), self.next_job)) else {
            return Ok(());
        };
        let band = self.choices.below(3) as usize;
        let here = |spec: &Demand| spec.tenant == tenant && spec.priority.band().index() == band;
        let waits = heads.iter().any(|(id, _)| self.model.spec(id.0).is_some_and(here));
        let mut spec = Demand::new(tenant);
        spec.priority = Priority([[0, 4, 8], [3, 7, 9]][usize::from(waits)][band]);
        spec.resources.cpu_m = [250, 500, 1000][self.choices.below(3) as usize];
        spec.timeout_ms = [5000, 60_000][self.choices.below(2) as usize];
        self.submit_plain(job, Arc::new(spec))
    }

    /// Ends the oldest attempts, at most so many.
    pub(super) fn end_some(&mut self, most: usize) -> Result<usize, Broken> {
        let slots = self.model.live.iter().filter(|(_, live)| !live.waiting);
        let live: BTreeSet<TaskRef> = slots.map(|(attempt, _)| *attempt).collect();
        let oldest: Vec<(TaskRef, WorkerKey)> =
            self.model.sent.iter().filter(|(attempt, _)| live.contains(attempt)).copied().take(most).collect();
        for (attempt, worker) in &oldest {
            self.result(*attempt, *worker, Outcome::Succeeded)?;
        }
        Ok(oldest.len())
    }
}
