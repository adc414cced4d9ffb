//! The default way to pack: several rules, then local search on the best two. Owns which rules are worth their cost for a
//! problem; never gives more bins than first-fit decreasing.

use super::bins::Bins;
use super::heuristics::{completion, first_fit_decreasing, multi_bin, run};
use super::improve::improve;
use super::options::{Budget, Fit, ItemOrder, Norm, Refresh, Rule, Score, Size, Weights};
use super::problem::Problem;
use super::random::Random;

/// Work that one quadratic rule may take, in looks at an item; past it only first-fit rules are run.
const QUADRATIC: usize = 400_000_000;

/// The same for multi-bin rules, in looks at a pair of item and bin.
const CUBIC: usize = 200_000_000;

/// The best packing of the portfolio, and its bins.
pub(super) fn pack(problem: &Problem, first: Bins, lower_bound: usize, seed: u64, budget: &mut Budget<'_>) -> Bins {
    let mut found = BestPackings { best: vec![first], lower_bound };
    constructions(problem, &mut found, budget);
    let mut random = Random::new(seed);
    let mut best: Option<Bins> = None;
    let starts = found.best.len() as u64;
    for (at, start) in found.best.into_iter().enumerate() {
        if best.as_ref().is_some_and(|best| best.len() <= lower_bound) {
            break;
        }
        let share = budget.left() / (starts - at as u64);
        let better = budget.share(share, |budget| improve(problem, start, lower_bound, &mut random, budget));
        if best.as_ref().is_none_or(|best| better.len() < best.len()) {
            best = Some(better);
        }
    }
    best.unwrap_or_else(|| first_fit_decreasing(problem))
}

/// The two packings with the fewest bins so far, the earlier first on a tie.
struct BestPackings {
    best: Vec<Bins>,
    lower_bound: usize,
}

impl BestPackings {
    fn add(&mut self, bins: Option<Bins>) {
        let Some(bins) = bins else { return };
        let at = self.best.partition_point(|other| other.len() <= bins.len());
        if self.best.iter().all(|other| other.bin_of != bins.bin_of) {
            self.best.insert(at, bins);
            self.best.truncate(2);
        }
    }

    fn least(&self) -> usize {
        self.best.first().map_or(usize::MAX, Bins::len)
    }

    fn is_optimal(&self) -> bool {
        self.least() <= self.lower_bound
    }
}

fn constructions(problem: &Problem, found: &mut BestPackings, budget: &mut Budget<'_>) {
    let size = |norm, weights| Size { norm, weights, refresh: Refresh::Static };
    let decreasing = |fit, size| Rule::ItemCentric { fit, order: ItemOrder::Decreasing, size };
    let bin_centric = |score, weights, refresh| Rule::BinCentric { score, weights, refresh };
    let mut rules = vec![decreasing(Fit::First, size(Norm::LInf, Weights::Unit))];
    let quadratic = problem.len.saturating_mul(problem.kinds().len()).saturating_mul(problem.dimensions) <= QUADRATIC;
    if quadratic {
        rules.extend([
            Rule::dot_product(),
            bin_centric(Score::L2Norm, Weights::MeanDemand, Refresh::Dynamic),
            bin_centric(Score::DotProduct, Weights::Reciprocal, Refresh::Dynamic),
            bin_centric(Score::L2Norm, Weights::Unit, Refresh::Static),
            decreasing(Fit::Best, size(Norm::L1, Weights::MeanDemand)),
        ]);
    }
    for rule in rules {
        if found.is_optimal() || !budget.work(1) {
            return;
        }
        found.add(Some(run(problem, rule, found.lower_bound, budget)));
    }
    if quadratic {
        completions(problem, found, budget);
    }
    let cubic = problem.len.saturating_mul(problem.len).saturating_mul(found.least()) <= CUBIC;
    for score in [Score::DotProduct, Score::L2Norm] {
        // What is sought is fewer bins than known, so the climb starts there and goes down.
        while cubic && !found.is_optimal() && found.least() > 1 && budget.work(1) {
            let fewer = found.least() - 1;
            let tried = multi_bin::pack(problem, score, Weights::MeanDemand, Refresh::Dynamic, fewer, budget);
            if tried.is_none() {
                break;
            }
            found.add(tried);
        }
    }
}

fn completions(problem: &Problem, found: &mut BestPackings, budget: &mut Budget<'_>) {
    for weights in [Weights::MeanDemand, Weights::Unit] {
        if !found.is_optimal() && budget.left() > 0 {
            let share = budget.left() / 3;
            found.add(budget.share(share, |budget| completion::pack(problem, weights, budget)));
        }
    }
}
