//! Rules that fill one bin at a time with the best item that fits. Owns the choice of the item; never returns to a bin.

use super::super::bins::Bins;
use super::super::measure::{Waiting, refresh_interval};
use super::super::options::{Budget, Refresh, Score, Weights};
use super::super::problem::{Kind, Problem, share};

/// What makes a pair good; `room` and the item are shares of the capacity, greater is better.
pub(super) fn score(by: Score, weights: &[f64], shares: &[f64], room: &[f64]) -> f64 {
    let of = weights.iter().zip(shares).zip(room);
    match by {
        Score::DotProduct => of.map(|((weight, x), r)| weight * x * r).sum(),
        Score::L2Norm => -of.map(|((weight, x), r)| weight * (r - x) * weight * (r - x)).sum::<f64>(),
    }
}

/// A bin-centric rule. `None` if the deadline passed first.
pub(in crate::packing) fn pack(
    problem: &Problem,
    by: Score,
    of: Weights,
    refresh: Refresh,
    budget: &mut Budget<'_>,
) -> Option<Bins> {
    let mut kinds = problem.kinds();
    kinds.iter_mut().for_each(|kind| kind.items.reverse());
    let mut bins = Bins::new(problem);
    let mut waiting = Waiting::all(problem);
    let mut weights = waiting.weights(of, &vec![1.0; problem.dimensions]);
    let (mut placed, interval) = (0_usize, refresh_interval(problem.len));
    while !kinds.is_empty() {
        let bin = bins.open(&problem.capacity);
        loop {
            let room: Vec<f64> = bins.free(bin).iter().zip(&problem.capacity).map(|(f, c)| share(*f, *c)).collect();
            if refresh == Refresh::Dynamic && placed.is_multiple_of(interval) {
                weights = waiting.weights(of, &room);
            }
            let Some(at) = best(problem, &bins, bin, &kinds, |item| score(by, &weights, problem.shares(item), &room))
            else {
                break;
            };
            let Some(item) = kinds[at].items.pop() else { break };
            if kinds[at].items.is_empty() {
                kinds.swap_remove(at);
            }
            bins.put(problem, item as usize, bin);
            waiting.packed(problem.shares(item as usize));
            placed += 1;
            if !budget.work(kinds.len() as u64 / 16 + 1) {
                return None;
            }
        }
    }
    Some(bins)
}

/// The kind of greatest score that fits, the one with the least last item on a tie.
fn best(problem: &Problem, bins: &Bins, bin: usize, kinds: &[Kind], score: impl Fn(usize) -> f64) -> Option<usize> {
    let mut best: Option<(f64, u32, usize)> = None;
    for (at, kind) in kinds.iter().enumerate() {
        let Some(&item) = kind.items.last() else { continue };
        if bins.fits(problem, item as usize, bin) {
            let score = score(item as usize);
            if best.is_none_or(|(most, first, _)| score > most || (score == most && item < first)) {
                best = Some((score, item, at));
            }
        }
    }
    best.map(|(_, _, at)| at)
}
