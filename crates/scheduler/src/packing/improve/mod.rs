//! Local search that empties one bin after the other: its items wait in a pool, and insertions, exchanges with bins,
//! ejection chains, swaps between bins that raise the sum of squared loads, and seeded kicks empty the pool. Ends at the
//! lower bound or the budget.
//!
//! Sources: Alvim, Ribeiro, Glover and Aloise, "A hybrid improvement heuristic for the one-dimensional bin packing
//! problem", 2004 (swaps by squared load); Buljubašić and Vasquez, "Consistent neighborhood search for one-dimensional bin
//! packing and two-dimensional vector packing", 2016 (the pool).

mod exchange;
mod search;

use super::bins::Bins;
use super::measure::{Waiting, size};
use super::options::{Budget, Norm, Weights};
use super::problem::Problem;
use super::random::Random;

pub(super) use search::Search;

/// Sizes that the search adds up: positive, so that fewer items in the pool are better.
pub(super) fn search_sizes(problem: &Problem) -> Vec<f64> {
    let weights = Waiting::all(problem).weights(Weights::MeanDemand, &vec![1.0; problem.dimensions]);
    let total: f64 = weights.iter().sum::<f64>().max(1e-12);
    (0..problem.len).map(|item| size(Norm::L1, &weights, problem.shares(item)) / total + 1e-6).collect()
}

/// Makes a packing smaller while there is budget.
pub(super) fn improve(
    problem: &Problem,
    start: Bins,
    lower_bound: usize,
    random: &mut Random,
    budget: &mut Budget<'_>,
) -> Bins {
    let sizes = search_sizes(problem);
    let mut best = start;
    while best.len() > lower_bound.max(1) && budget.left() > 0 {
        let mut bins = best.clone();
        let load = |bin: usize| bins.members[bin].iter().map(|item| sizes[*item as usize]).sum::<f64>();
        let least = (0..bins.len()).min_by(|&a, &b| load(a).total_cmp(&load(b)).then(a.cmp(&b)));
        let pool = bins.close(problem, least.unwrap_or(0));
        let mut search = Search::new(problem, &sizes, bins, pool);
        if !search.run(random, budget) {
            break;
        }
        best = search.into_bins();
    }
    best
}

#[cfg(test)]
mod tests;
