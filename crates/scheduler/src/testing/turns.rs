//! The laws of order, bands and fairness, judged before every placement by a plain model of who else could
//! be placed instead. Owns what has to be remembered between placements: the run that goes on, who was passed over, and what
//! every band got since it became ready.
//!
//! A *turn* is the choice of a band, a tenant in it and a line of that tenant. A turn may place a run: up to
//! `run_max` jobs of one line and priority, at most 1/256 of the fleet in the dominant dimension, one at least. Order between
//! lines, fairness and the share of bands are laws about turns; inside a line order is a law about every single job. Workers
//! that are kept for a job are entered by that job, or past it, without a turn.

use std::collections::BTreeMap;

use orlop_core::task::TaskRef;

use super::amounts::{Amounts, alternatives, needs};
use super::law::{Broken, Law};
use super::model::{Model, UnitId};
use super::room::{Key, Line, Open, cost};
use crate::config::{Config, Policy};
use crate::job::Demand;
use crate::token::WorkerKey;

/// How often `dot-product` may pass over the first of a line.
const PASSES: u32 = 16;
/// Shares are quotients of whole numbers: nothing else may differ.
const EXACT: f64 = 1e-12;

/// Jobs of one line that were placed one after the other.
#[derive(Clone, Debug)]
struct Run {
    class: usize,
    band: usize,
    step: u8,
    placed: u32,
    cost: f64,
}

/// What happened since a band became ready.
#[derive(Clone, Copy, Debug, Default)]
struct Stretch {
    service: f64,
    total: f64,
    /// The most that its service was ahead of its share.
    ahead: f64,
}

/// What is remembered between placements.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns {
    run: Option<Run>,
    passes: BTreeMap<UnitId, u32>,
    stretches: [Option<Stretch>; 3],
    /// The greatest cost of a run since no band was owed anything.
    largest: f64,
    /// What inherited a slot or entered kept workers since then, without a turn. A band stays ready until a run of it finds
    /// no room (2.3), though here it is not while the fleet is full: what it got meanwhile it owes afterwards.
    unturned: f64,
    /// How often each law was asked in earnest: somebody else was ready.
    pub(super) law_counts: LawCounts,
}

/// How often laws were asked where they could have been broken.
#[derive(Clone, Copy, Debug, Default)]
pub struct LawCounts {
    /// Another line of the same tenant and band was there.
    pub order: u64,
    /// Another tenant of the band was ready.
    pub fairness: u64,
    /// A band was behind its share by more than one run's cost and still within its bound.
    pub bands: u64,
    /// Placements inside a run that passed somebody over.
    pub runs: u64,
}

/// A placement that is about to be taken in.
pub(super) struct Placing<'a> {
    pub(super) model: &'a Model,
    pub(super) config: &'a Config,
    pub(super) unit: UnitId,
    /// Where it goes; of a gang, all members.
    pub(super) workers: Vec<WorkerKey>,
    /// What is held for each tenant beside its attempts; absent = it changes in this call, and shares cannot be told.
    pub(super) held: Option<&'a dyn Fn(&str) -> Amounts>,
}

impl Placing<'_> {
    fn could(&self, line: &Line, open: &[Open<'_>]) -> bool {
        let Some(held) = self.held else { return false };
        self.model.could_start(line.first.1, open, &held(&line.tenant)).is_some()
    }

    fn share(&self, tenant: &str, fleet: &Amounts) -> f64 {
        self.model.share(tenant, fleet)
    }
}

impl Turns {
    /// A call begins: no run goes on.
    pub(super) fn begin(&mut self) {
        self.run = None;
    }

    /// Judges a placement by what was true before it.
    pub(super) fn judge(&mut self, placing: &Placing<'_>) -> Result<(), Broken> {
        let Placing { model, unit, .. } = placing;
        let Some(job) = model.jobs.get(&unit.0) else { return Ok(()) };
        let (spec, class, key) = (&*job.spec, job.class, (job.spec.priority.0, *unit));
        let tenant = spec.tenant.as_str();
        let paused = model.paused.contains(tenant);
        Law::Order.demand(!paused, || format!("{unit:?} starts though tenant {tenant} is paused"))?;
        let lines = model.lines();
        let band = spec.priority.band().index();
        let own = lines.iter().find(|line| line.tenant == tenant && line.band == band && line.class == class);
        let first = own.map(|line| line.first);
        let right = first == Some(key) || model.may_go_first(key, first);
        Law::Order.demand(right, || format!("{unit:?} starts, the first of its line is {first:?}"))?;
        let fleet = model.fleet();
        let costs: Vec<f64> = alternatives(spec).into_iter().map(|gpu| cost(&needs(spec, gpu), &fleet)).collect();
        let (least, most) = costs.iter().fold((f64::MAX, 0.0), |(l, m): (f64, f64), c| (l.min(*c), m.max(*c)));
        let cost = most * f64::from(spec.members());
        let open = model.open();
        let turned = placing.workers.iter().all(|worker| open.iter().any(|(key, ..)| key == worker));
        let goes_on = turned && self.goes_on(placing.config, spec, class, least);
        if turned && !goes_on {
            for passed in self.order(placing, (&lines, &open), key)? {
                *self.passes.entry(passed).or_default() += 1;
            }
            self.fairness(placing, &lines, &open, tenant, band, &fleet)?;
        } else if goes_on {
            // Runs end early for reasons of their own: where another turn would have come to the same, one may have begun.
            let by_turn = self.order(placing, (&lines, &open), key).is_ok()
                && self.fairness(placing, &lines, &open, tenant, band, &fleet).is_ok();
            if let Some(run) = self.run.as_mut().filter(|_| by_turn) {
                run.placed = 0;
            }
            let passed = |line: &&Line| line.band == band && line.class != class && placing.could(line, &open);
            self.law_counts.runs += u64::from(lines.iter().filter(passed).count() > 0);
        }
        self.note_run(class, spec, goes_on, turned, cost);
        self.bands(placing, &lines, &open, band, cost, turned)?;
        if costs.len() > 1 {
            // Which of several kinds of devices counts as its cost is not laid down.
            self.stretches = [None; 3];
        }
        Ok(())
    }

    /// Whether a placement may belong to the run that is going on.
    fn goes_on(&self, config: &Config, spec: &Demand, class: usize, cost: f64) -> bool {
        let fills = !matches!(config.policy, Policy::Spread | Policy::Balanced);
        let fill = (1.0 / (256.0 * cost)) as u32;
        let most = if fills { config.run_max.min(fill.max(1)) } else { 1 };
        let (band, step) = (spec.priority.band().index(), spec.priority.0);
        let same = |run: &&Run| run.class == class && (run.band, run.step) == (band, step) && run.placed < most;
        spec.gang.is_none() && self.run.as_ref().filter(same).is_some()
    }

    fn note_run(&mut self, class: usize, spec: &Demand, goes_on: bool, turned: bool, cost: f64) {
        let before = self.run.take().filter(|_| goes_on);
        let run = Run {
            class,
            band: spec.priority.band().index(),
            step: spec.priority.0,
            placed: before.as_ref().map_or(1, |run| run.placed + 1),
            cost: before.map_or(cost, |run| run.cost + cost),
        };
        self.largest = self.largest.max(run.cost);
        self.run = Some(run).filter(|_| turned);
    }

    /// No earlier job of another line of the tenant and band could have been placed; `dot-product` may pass over each 16
    /// times. Returns whom it passes over.
    fn order(
        &mut self,
        placing: &Placing<'_>,
        (lines, open): (&[Line], &[Open<'_>]),
        key: Key,
    ) -> Result<Vec<UnitId>, Broken> {
        let mut passed = Vec::new();
        let Some(job) = placing.model.jobs.get(&placing.unit.0) else { return Ok(passed) };
        let band = job.spec.priority.band().index();
        let others = lines
            .iter()
            .filter(|line| job.spec.tenant == *line.tenant.as_str() && line.band == band && line.class != job.class);
        for line in others {
            self.law_counts.order += 1;
            if line.first > key || !placing.could(line, open) {
                continue;
            }
            let first = line.first.1;
            Law::Order.demand(placing.config.policy == Policy::DotProduct, || {
                format!("{key:?} starts before {:?}, which could be placed", line.first)
            })?;
            let passes = self.passes.get(&first).copied().unwrap_or(0);
            Law::Order.demand(passes < PASSES, || format!("{:?} is passed over {} times", line.first, passes + 1))?;
            passed.push(first);
        }
        Ok(passed)
    }

    /// No other tenant with a job of the band that could have been placed has a smaller share.
    fn fairness(
        &mut self,
        placing: &Placing<'_>,
        lines: &[Line],
        open: &[Open<'_>],
        tenant: &str,
        band: usize,
        fleet: &Amounts,
    ) -> Result<(), Broken> {
        let Some(held) = placing.held else { return Ok(()) };
        let none = super::amounts::NOTHING;
        let own = placing.share(tenant, fleet);
        for line in lines.iter().filter(|line| line.band == band && line.tenant != tenant) {
            if held(tenant) != none || held(&line.tenant) != none || !placing.could(line, open) {
                continue;
            }
            self.law_counts.fairness += 1;
            let other = placing.share(&line.tenant, fleet);
            Law::Fairness.demand(own <= other * (1.0 + EXACT), || {
                let next = line.first.1;
                format!(
                    "{tenant} with a share of {own} is next in band {band}, {} has {other} and {next:?}",
                    line.tenant
                )
            })?;
        }
        Ok(())
    }

    /// Every band that stays ready gets its share of all service, but for three runs and what entered kept workers.
    fn bands(
        &mut self,
        placing: &Placing<'_>,
        lines: &[Line],
        open: &[Open<'_>],
        band: usize,
        cost: f64,
        turned: bool,
    ) -> Result<(), Broken> {
        self.unturned += if turned { 0.0 } else { cost };
        for other in 0..3 {
            let ready = lines.iter().any(|line| line.band == other && placing.could(line, open));
            let Some(stretch) = self.stretches.get_mut(other) else { continue };
            if !ready {
                *stretch = None;
                continue;
            }
            let stretch = stretch.get_or_insert_default();
            stretch.total += cost;
            stretch.service += if other == band { cost } else { 0.0 };
            let share = placing.config.band_share.get(other).copied().unwrap_or(0.0);
            let ahead = stretch.service - share * stretch.total;
            let behind = stretch.ahead - ahead;
            let bound = 3.0 * self.largest + self.unturned;
            self.law_counts.bands += u64::from(behind > self.largest);
            let Stretch { service, total, .. } = *stretch;
            Law::Bands.demand(behind <= bound * (1.0 + 1e-9), || {
                format!("band {other} got {service} of {total} and fell {behind} behind its share of {share}, {bound} is allowed")
            })?;
            stretch.ahead = stretch.ahead.max(ahead);
        }
        Ok(())
    }

    /// An attempt that was sent ahead has a slot from now on, or one was placed by an operator: its band is served, without a
    /// turn.
    pub(super) fn inherit(&mut self, model: &Model, attempt: TaskRef, config: &Config) {
        let Some(spec) = model.spec(attempt.job) else { return };
        let fleet = model.fleet();
        let most = alternatives(spec).into_iter().map(|gpu| cost(&needs(spec, gpu), &fleet)).fold(0.0, f64::max);
        self.unturned += most;
        for (band, stretch) in self.stretches.iter_mut().enumerate() {
            let Some(stretch) = stretch else { continue };
            stretch.total += most;
            stretch.service += if band == spec.priority.band().index() { most } else { 0.0 };
            let share = config.band_share.get(band).copied().unwrap_or(0.0);
            stretch.ahead = stretch.ahead.max(stretch.service - share * stretch.total);
        }
    }

    /// A unit waits no longer, be it that it was sent ahead: if it comes back, it begins anew.
    pub(super) fn leave(&mut self, unit: UnitId) {
        self.passes.remove(&unit);
    }

    /// Whether the end of a call matters.
    pub(super) fn watches(&self) -> bool {
        self.largest + self.unturned > 0.0 || self.stretches.iter().any(Option::is_some)
    }

    /// A call is over: bands that are not ready now did not stay so. After a whole round in which none is, none is owed.
    pub(super) fn end(&mut self, ready: [bool; 3], whole_round: bool) {
        for (stretch, ready) in self.stretches.iter_mut().zip(ready) {
            if !ready {
                *stretch = None;
            }
        }
        if whole_round && ready == [false; 3] {
            (self.largest, self.unturned) = (0.0, 0.0);
        }
    }

    /// The scheduler starts again and remembers nothing of this.
    pub(super) fn restart(&mut self) {
        *self = Self { law_counts: self.law_counts, ..Self::default() };
    }

    /// Shares or sizes are others from now on.
    pub(super) fn anew(&mut self) {
        self.stretches = [None; 3];
    }
}
