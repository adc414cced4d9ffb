//! Bounds on weighted sums of dimensions. Owns the weight vectors; the bounds themselves stand in [`super::line`].

use super::super::problem::Problem;
use super::super::random::Random;
use super::line::Line;

/// How many weight vectors are tried.
const VECTORS: usize = 64;

/// The greatest weight of a dimension.
const WEIGHT: u64 = 64;

/// What a bin holds where sizes must be rounded.
const SCALE: u64 = 1 << 40;

pub(super) fn bound(problem: &Problem, seed: u64) -> usize {
    let of = |weights: Vec<u64>| {
        let (sizes, capacity) = sizes(problem, &weights);
        let line = Line::new(sizes, capacity);
        line.dual_feasible().max(line.martello_toth())
    };
    weight_vectors(problem, seed).into_iter().map(of).max().unwrap_or(0)
}

/// Units, means, pairs, then seeded vectors; fewer than 64 only in one dimension, where all are alike.
pub(in crate::packing) fn weight_vectors(problem: &Problem, seed: u64) -> Vec<Vec<u64>> {
    let d = problem.dimensions;
    let unit = |dimension: usize| (0..d).map(|other| u64::from(other == dimension)).collect::<Vec<u64>>();
    let mut vectors: Vec<Vec<u64>> = (0..d).map(unit).collect();
    if d == 1 {
        return vectors;
    }
    let means = problem.mean_shares();
    let most = means.iter().copied().fold(1e-12, f64::max);
    let least = means.iter().copied().filter(|mean| *mean > 0.0).fold(most, f64::min);
    let whole = |weight: f64| (weight * WEIGHT as f64).round() as u64;
    vectors.push(vec![1; d]);
    vectors.push(means.iter().map(|mean| whole(mean / most)).collect());
    vectors.push(means.iter().map(|mean| if *mean > 0.0 { whole(least / mean) } else { 0 }).collect());
    // Pairs of the fullest dimensions first, with eight places kept for chance.
    let mut order: Vec<usize> = (0..d).collect();
    order.sort_by(|a, b| means[*b].total_cmp(&means[*a]).then(a.cmp(b)));
    for (at, one) in order.iter().enumerate() {
        for other in order.iter().take(at) {
            if vectors.len() < VECTORS - 8 {
                vectors.push((0..d).map(|dimension| u64::from(dimension == *one || dimension == *other)).collect());
            }
        }
    }
    let mut random = Random::new(seed ^ 0x7375_7272);
    while vectors.len() < VECTORS {
        vectors.push((0..d).map(|_| random.within(0, 16)).collect());
    }
    vectors.retain(|weights| weights.iter().any(|weight| *weight > 0));
    vectors
}

/// Σ λ_d·x_d/C_d on a common scale: exact if the capacities have a small common multiple, else each term rounded down,
/// which leaves every set that fits feasible.
pub(super) fn sizes(problem: &Problem, weights: &[u64]) -> (Vec<u64>, u64) {
    let used = |d: &usize| weights[*d] > 0 && problem.capacity[*d] > 0;
    let dimensions: Vec<usize> = (0..problem.dimensions).filter(used).collect();
    let sum: u64 = dimensions.iter().map(|d| weights[*d].min(WEIGHT)).sum();
    let common = dimensions.iter().try_fold(1_u64, |common, d| least_common_multiple(common, problem.capacity[*d]));
    let exact = common.filter(|common| *common <= SCALE);
    let scale = exact.unwrap_or(SCALE);
    let term = |item: usize, d: usize| {
        let scaled = u128::from(problem.demand(item)[d]) * u128::from(scale) / u128::from(problem.capacity[d]);
        scaled as u64 * weights[d].min(WEIGHT)
    };
    let sizes = (0..problem.len).map(|item| dimensions.iter().map(|d| term(item, *d)).sum()).collect();
    (sizes, scale * sum)
}

fn least_common_multiple(a: u64, b: u64) -> Option<u64> {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    (a / x.max(1)).checked_mul(b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packing::Items;

    #[test]
    fn a_weighted_sum_shows_what_no_dimension_shows() {
        // Each dimension alone is half full; together no two items fit.
        let items = Items::from_rows(2, [[60, 0], [30, 60], [0, 60], [60, 30]]).unwrap();
        let problem = Problem::new(&items, &[100, 100]).unwrap();
        assert!(bound(&problem, 0) >= 2);
        assert_eq!(weight_vectors(&problem, 0).len(), VECTORS);
    }

    #[test]
    fn sizes_are_exact_for_small_capacities_and_round_down_for_others() {
        let items = Items::from_rows(2, [[1, 2]]).unwrap();
        let problem = Problem::new(&items, &[4, 6]).unwrap();
        assert_eq!(sizes(&problem, &[1, 1]), (vec![3 + 4], 24));
        let problem = Problem::new(&items, &[u64::MAX, u64::MAX - 1]).unwrap();
        assert_eq!(sizes(&problem, &[1, 3]), (vec![0], 4 << 40));
    }

    #[test]
    fn weights_of_many_dimensions_leave_places_for_chance() {
        let items = Items::from_rows(16, [[1; 16]]).unwrap();
        let problem = Problem::new(&items, &[4; 16]).unwrap();
        let vectors = weight_vectors(&problem, 3);
        assert_eq!(vectors.len(), VECTORS);
        assert_ne!(vectors, weight_vectors(&problem, 4));
    }
}
