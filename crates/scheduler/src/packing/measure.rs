//! Weights of dimensions and sizes of vectors. Owns these numbers, which only rank; never decides whether something fits.

use super::options::{Norm, Size, Weights};
use super::problem::Problem;

/// Demand that is still to be packed, as shares of the capacity, kept up to date as items are packed.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    sums: Vec<f64>,
    count: usize,
}

impl Waiting {
    pub(super) fn all(problem: &Problem) -> Self {
        let sums = problem.mean_shares().iter().map(|mean| mean * problem.len as f64).collect();
        Self { sums, count: problem.len }
    }

    pub(super) fn packed(&mut self, shares: &[f64]) {
        self.count = self.count.saturating_sub(1);
        for (sum, share) in self.sums.iter_mut().zip(shares) {
            *sum = (*sum - share).max(0.0);
        }
    }

    /// The weight of each dimension; `remaining` is the room of all open bins in capacities.
    pub(super) fn weights(&self, weights: Weights, remaining: &[f64]) -> Vec<f64> {
        let count = self.count.max(1) as f64;
        let of = |(&sum, &room): (&f64, &f64)| match weights {
            Weights::Unit => 1.0,
            Weights::MeanDemand => sum / count,
            Weights::Reciprocal => reciprocal(sum / count),
            Weights::Exponential => exponential(sum / count),
            Weights::DemandOverRemaining => sum * reciprocal(room),
        };
        self.sums.iter().zip(remaining).map(of).collect()
    }
}

/// One over a number, 0 for none: what nobody wants weighs nothing.
fn reciprocal(of: f64) -> f64 {
    if of > 1e-12 { 1.0 / of } else { 0.0 }
}

/// e to the power of a number of 0..=1, the same on every machine.
fn exponential(of: f64) -> f64 {
    let of = of.clamp(0.0, 1.0);
    (1..=20).rev().fold(1.0, |sum, n| 1.0 + of / f64::from(n) * sum)
}

/// The size of a vector of shares under given weights.
pub(super) fn size(norm: Norm, weights: &[f64], shares: &[f64]) -> f64 {
    let weighted = weights.iter().zip(shares).map(|(weight, share)| weight * share);
    match norm {
        Norm::L1 => weighted.sum(),
        Norm::L2 => weighted.map(|x| x * x).sum::<f64>().sqrt(),
        Norm::LInf => weighted.fold(0.0, f64::max),
    }
}

/// Sizes of all items under weights over all of them.
pub(super) fn sizes(problem: &Problem, by: Size) -> Vec<f64> {
    let weights = Waiting::all(problem).weights(by.weights, &vec![1.0; problem.dimensions]);
    (0..problem.len).map(|item| size(by.norm, &weights, problem.shares(item))).collect()
}

/// Items from the largest to the smallest, equal ones as they came.
pub(super) fn decreasing(sizes: &[f64]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..sizes.len() as u32).collect();
    order.sort_by(|&a, &b| sizes[b as usize].total_cmp(&sizes[a as usize]).then(a.cmp(&b)));
    order
}

/// After how many packed items dynamic weights are computed again.
pub(super) fn refresh_interval(items: usize) -> usize {
    items.div_ceil(1024).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packing::Items;

    fn problem() -> Problem {
        let items = Items::from_rows(2, [[50, 10], [30, 10], [10, 10]]).unwrap();
        Problem::new(&items, &[100, 100]).unwrap()
    }

    fn close(found: &[f64], wanted: &[f64]) {
        let near = found.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-9);
        assert!(near && found.len() == wanted.len(), "{found:?} {wanted:?}");
    }

    #[test]
    fn sizes_are_norms_of_weighted_shares() {
        let (weights, shares) = ([1.0, 2.0], [0.3, 0.2]);
        close(&[size(Norm::L1, &weights, &shares)], &[0.7]);
        close(&[size(Norm::L2, &weights, &shares)], &[0.5]);
        close(&[size(Norm::LInf, &weights, &shares)], &[0.4]);
    }

    #[test]
    fn weights_are_those_of_the_table() {
        let waiting = Waiting::all(&problem());
        let of = |weights| waiting.weights(weights, &[0.5, 2.0]);
        close(&of(Weights::Unit), &[1.0, 1.0]);
        close(&of(Weights::MeanDemand), &[0.3, 0.1]);
        close(&of(Weights::Reciprocal), &[1.0 / 0.3, 10.0]);
        close(&of(Weights::Exponential), &[0.3_f64.exp(), 0.1_f64.exp()]);
        close(&of(Weights::DemandOverRemaining), &[1.8, 0.15]);
    }

    #[test]
    fn weights_follow_what_is_left_to_pack() {
        let problem = problem();
        let mut waiting = Waiting::all(&problem);
        waiting.packed(problem.shares(0));
        close(&waiting.weights(Weights::MeanDemand, &[1.0, 1.0]), &[0.2, 0.1]);
        waiting.packed(problem.shares(1));
        waiting.packed(problem.shares(2));
        close(&waiting.weights(Weights::Reciprocal, &[1.0, 1.0]), &[0.0, 0.0]);
    }

    #[test]
    fn decreasing_order_keeps_equal_items_as_they_came() {
        assert_eq!(decreasing(&[0.1, 0.5, 0.1, 0.7]), [3, 1, 0, 2]);
    }
}
