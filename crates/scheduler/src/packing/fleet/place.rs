//! Places items into a fleet. Owns the search for the greatest number of small items that fit; never opens a bin.

use super::super::bins::Bins;
use super::super::heuristics::{Hints, Tree};
use super::super::improve::Search;
use super::super::measure::{Waiting, size};
use super::super::options::{Budget, Norm, Weights};
use super::super::problem::{NONE, Problem, share};
use super::super::random::Random;
use super::stranded;

/// Work of one placement by best fit, in looks at a pair of item and bin; past it first fit, one measure and a
/// coarser bisection do.
const LIMIT: usize = 20_000_000;

/// The measures by which an item is small, with the norm and weights of each.
const MEASURES: [(Norm, Weights); 4] = [
    (Norm::L1, Weights::DemandOverRemaining),
    (Norm::L1, Weights::Unit),
    (Norm::LInf, Weights::Unit),
    (Norm::L2, Weights::DemandOverRemaining),
];

/// The best placement found.
pub(super) fn place(
    problem: &Problem,
    fleet: &[Vec<u64>],
    candidates: &[u32],
    upper_bound: usize,
    random: &mut Random,
    budget: &mut Budget<'_>,
) -> Bins {
    let mut best = opened(problem, fleet);
    let mut most = 0;
    for (at, (norm, weights)) in MEASURES.into_iter().enumerate() {
        let attempt = Attempt { problem, fleet, sizes: sizes(problem, fleet, norm, weights) };
        if at > 0 && (!budget.work(1) || attempt.is_large(candidates)) {
            break;
        }
        let mut bins = attempt.most_of_the_smallest(candidates, upper_bound, budget);
        if placed(&bins) < upper_bound {
            let share = budget.left() / (MEASURES.len() - at) as u64;
            bins = budget.share(share, |budget| attempt.one_more(bins, candidates, upper_bound, random, budget));
        }
        let count = placed(&bins);
        if count > most || (count == most && stranded(&bins, fleet) < stranded(&best, fleet)) {
            (best, most) = (bins, count);
        }
    }
    best
}

fn opened(problem: &Problem, fleet: &[Vec<u64>]) -> Bins {
    let mut bins = Bins::new(problem);
    for bin in fleet {
        bins.open(bin);
    }
    bins
}

fn placed(bins: &Bins) -> usize {
    bins.bin_of.iter().filter(|bin| **bin != NONE).count()
}

/// Sizes with the weights of what is wanted over what the fleet has.
fn sizes(problem: &Problem, fleet: &[Vec<u64>], norm: Norm, weights: Weights) -> Vec<f64> {
    let room = |d: usize| fleet.iter().map(|bin| share(bin[d], problem.capacity[d])).sum::<f64>();
    let room: Vec<f64> = (0..problem.dimensions).map(room).collect();
    let weights = Waiting::all(problem).weights(weights, &room);
    let total = weights.iter().sum::<f64>().max(1e-12);
    (0..problem.len).map(|item| size(norm, &weights, problem.shares(item)) / total + 1e-6).collect()
}

/// Placement under one measure of size.
struct Attempt<'a> {
    problem: &'a Problem,
    fleet: &'a [Vec<u64>],
    sizes: Vec<f64>,
}

impl Attempt<'_> {
    fn ascending(&self, items: &[u32]) -> Vec<u32> {
        let mut items = items.to_vec();
        items.sort_by(|a, b| self.sizes[*a as usize].total_cmp(&self.sizes[*b as usize]).then(a.cmp(b)));
        items
    }

    /// The greatest k found by bisection of which the k smallest fit, with whatever else fits then.
    fn most_of_the_smallest(&self, candidates: &[u32], upper_bound: usize, budget: &mut Budget<'_>) -> Bins {
        let items = self.ascending(candidates);
        let exact = !self.is_large(candidates);
        let step = if exact { 1 } else { items.len().div_ceil(64) };
        let mut best = opened(self.problem, self.fleet);
        let (mut fit, mut too_many) = (0, upper_bound + 1);
        let mut k = upper_bound;
        while fit < k {
            let mut bins = opened(self.problem, self.fleet);
            let largest_first = items[..k].iter().rev().chain(&items[k..]);
            if exact {
                self.best_fit(&mut bins, largest_first, budget);
            } else {
                self.first_fit(&mut bins, largest_first);
            }
            if items[..k].iter().all(|item| bins.bin_of[*item as usize] != NONE) {
                fit = k;
            } else {
                too_many = k;
            }
            if placed(&bins) > placed(&best) {
                best = bins;
            }
            if !budget.work(1) || too_many - fit <= step {
                break;
            }
            k = fit + (too_many - fit) / 2;
        }
        best
    }

    fn is_large(&self, candidates: &[u32]) -> bool {
        candidates.len().saturating_mul(self.fleet.len()) > LIMIT
    }

    /// Puts items without a place where they fit best, in the order they come.
    fn best_fit<'i>(&self, bins: &mut Bins, items: impl Iterator<Item = &'i u32>, budget: &mut Budget<'_>) {
        for &item in items {
            let item = item as usize;
            if bins.bin_of[item] == NONE
                && let Some(bin) = self.tightest(bins, item)
            {
                bins.put(self.problem, item, bin);
            }
            budget.work(bins.len() as u64 / 16 + 1);
        }
    }

    /// Puts items without a place into the first bin they fit, in the order they come.
    fn first_fit<'i>(&self, bins: &mut Bins, items: impl Iterator<Item = &'i u32>) {
        let mut tree = Tree::closed(bins.len().max(1), &self.problem.capacity);
        (0..bins.len()).for_each(|bin| tree.set(bin, bins.free(bin)));
        let mut hints = Hints::new(&self.problem.capacity);
        for &item in items {
            let item = item as usize;
            let demand = self.problem.demand(item);
            let accepts = |bin: usize| bin < bins.len() && bins.fits(self.problem, item, bin);
            if bins.bin_of[item] == NONE
                && let Some(bin) = tree.first(demand, hints.from(&tree, demand), accepts)
            {
                bins.put(self.problem, item, bin);
                tree.set(bin, bins.free(bin));
            }
        }
    }

    /// The bin of least ‖ρ‖₂ + (max ρ − min ρ) after the item.
    fn tightest(&self, bins: &Bins, item: usize) -> Option<usize> {
        let mut best: Option<(f64, usize)> = None;
        for bin in (0..bins.len()).filter(|bin| bins.fits(self.problem, item, *bin)) {
            let (mut squares, mut most, mut least) = (0.0, 0.0_f64, 1.0_f64);
            let of = bins.free(bin).iter().zip(self.problem.demand(item)).zip(&self.problem.capacity);
            for ((free, demand), capacity) in of {
                let left = share(free - demand, *capacity);
                squares += left * left;
                (most, least) = (most.max(left), least.min(left));
            }
            let score = squares.sqrt() + most - least;
            if best.is_none_or(|(other, _)| score < other) {
                best = Some((score, bin));
            }
        }
        best.map(|(_, bin)| bin)
    }

    /// Makes room for the smallest item without a place, again and again, until one finds none. What has found a place keeps
    /// some place.
    fn one_more(
        &self,
        start: Bins,
        candidates: &[u32],
        upper_bound: usize,
        random: &mut Random,
        budget: &mut Budget<'_>,
    ) -> Bins {
        let items = self.ascending(candidates);
        let mut best = start;
        while placed(&best) < upper_bound && budget.left() > 0 {
            let Some(&next) = items.iter().find(|item| best.bin_of[**item as usize] == NONE) else { break };
            let mut search = Search::new(self.problem, &self.sizes, best.clone(), vec![next]);
            if !search.run(random, budget) {
                break;
            }
            best = search.into_bins();
            self.best_fit(&mut best, items.iter(), budget);
        }
        best
    }
}
