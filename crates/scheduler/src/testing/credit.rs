//! What bands are owed for starts beside the turns of a round: whoever inherits a slot, or is placed
//! by an operator, is charged to its band like any placement. Owns the naive account of one call; rounds, in which bands
//! begin and cease to be ready, have the law of bands.

use orlop_core::task::TaskRef;

use super::amounts::{Amounts, alternatives, needs};
use super::law::{Broken, Law};
use super::model::Model;
use super::room::cost;
use crate::engine::Scheduler;

/// Sums of a few quotients: nothing else may differ.
const EXACT: f64 = 1e-9;

/// What was seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Credits {
    /// The credit of each band after the last call; absent = it may be another one by now.
    known: Option<[f64; 3]>,
    /// Band and cost of every start since.
    charges: Vec<(usize, f64)>,
}

impl Credits {
    /// Turns are about to be taken, or the scheduler started again.
    pub(super) fn forget(&mut self) {
        self.known = None;
    }

    /// An attempt got its slot without a turn.
    pub(super) fn start(&mut self, model: &Model, attempt: TaskRef) {
        let Some(spec) = model.spec(attempt.job) else { return };
        let alone = || match alternatives(spec).as_slice() {
            [gpu] => Some(needs(spec, *gpu)),
            _ => None,
        };
        let holds: Option<Amounts> = model.live.get(&attempt).map(|live| live.holds).or_else(alone);
        match holds {
            Some(holds) => self.charges.push((spec.priority.band().index(), cost(&holds, &model.fleet()))),
            // It has ended by now, and nobody says which of several kinds of devices it had.
            None => self.forget(),
        }
    }

    /// After a call: credit has moved by what started, and by nothing else.
    pub(super) fn check(&mut self, scheduler: &Scheduler) -> Result<(), Broken> {
        let (charges, seen) = (std::mem::take(&mut self.charges), scheduler.band_credit());
        let credits = seen.map(|(credit, _)| credit);
        let Some(mut expected) = self.known.replace(credits) else { return Ok(()) };
        let shares = scheduler.config().band_share;
        let ready: Vec<usize> = (0..3).filter(|band| seen[*band].1).collect();
        let left = 1.0 - ready.iter().map(|band| shares[*band]).sum::<f64>();
        for (band, cost) in &charges {
            for other in &ready {
                expected[*other] += shares[*other] * cost;
            }
            // What is left over goes to the highest.
            if let Some(first) = ready.first() {
                expected[*first] += left.max(0.0) * cost;
            }
            expected[*band] -= if ready.contains(band) { *cost } else { 0.0 };
        }
        let right = expected.iter().zip(credits).all(|(expected, seen)| (expected - seen).abs() <= EXACT);
        Law::Bands.demand(right, || format!("after {charges:?} bands are owed {credits:?}, it should be {expected:?}"))
    }
}
