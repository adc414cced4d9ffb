//! Costs below which no mix exists. Owns the sums, all in whole numbers.
//!
//! Sources: the per-dimension and weighted volumes are the continuous relaxation of variable-sized bin packing (Friesen and
//! Langston, "Variable sized bin packing", 1986) in several dimensions; the clique is that of [`super::super::bounds`].

use super::super::bounds::{cliques, weight_vectors};
use super::super::problem::Problem;
use super::BinType;

/// Bits after the point.
const POINT: u32 = 32;

/// The greatest of the bounds.
pub(super) fn lower_bound(problem: &Problem, types: &[(u32, &BinType)], seed: u64) -> u128 {
    let volume =
        weight_vectors(problem, seed).iter().map(|weights| weighted(problem, types, weights)).max().unwrap_or(0);
    let covering = (0..problem.dimensions).map(|d| covering(problem.totals[d], types, d)).max().unwrap_or(0);
    volume.max(covering).max(apart(problem, types))
}

fn holds(problem: &Problem, item: usize, of: &BinType) -> bool {
    problem.demand(item).iter().zip(&of.capacity).all(|(demand, capacity)| demand <= capacity)
}

/// Each item pays its weighted share of the type where that is cheapest: the shares of a bin add up to one at most.
fn weighted(problem: &Problem, types: &[(u32, &BinType)], weights: &[u64]) -> u128 {
    let used: u64 = weights.iter().sum();
    let mut sum = 0_u128;
    for item in 0..problem.len {
        let fitting = types.iter().filter(|(_, of)| holds(problem, item, of));
        let pays = fitting.map(|(_, of)| {
            let terms = problem.demand(item).iter().zip(&of.capacity).zip(weights);
            terms
                .map(|((demand, capacity), weight)| part(*demand, *capacity, of.cost) * u128::from(*weight))
                .sum::<u128>()
        });
        sum = sum.saturating_add(pays.min().unwrap_or(0));
    }
    sum.div_ceil(u128::from(used.max(1)) << POINT)
}

/// cost·demand/capacity, rounded down.
fn part(demand: u64, capacity: u64, cost: u64) -> u128 {
    if capacity == 0 {
        return 0;
    }
    let (product, capacity) = (u128::from(demand) * u128::from(cost), u128::from(capacity));
    ((product / capacity) << POINT) + ((product % capacity) << POINT) / capacity
}

/// The least cost of bins whose capacities in one dimension add up to the demand, in parts of bins; counts are kept.
fn covering(total: u64, types: &[(u32, &BinType)], dimension: usize) -> u128 {
    let mut useful: Vec<&BinType> = types.iter().map(|(_, of)| *of).filter(|of| of.capacity[dimension] > 0).collect();
    useful.sort_by(|a, b| {
        let cross = |cost: &BinType, by: &BinType| u128::from(cost.cost) * u128::from(by.capacity[dimension]);
        cross(a, b).cmp(&cross(b, a))
    });
    let (mut left, mut sum) = (u128::from(total), 0_u128);
    for of in useful {
        let capacity = u128::from(of.capacity[dimension]);
        let all = of.count.map_or(u128::MAX, |count| capacity * count as u128);
        let taken = left.min(all);
        let whole = taken / capacity;
        let rest = (taken % capacity) as u64;
        sum = sum.saturating_add(whole.saturating_mul(u128::from(of.cost) << POINT));
        sum = sum.saturating_add(part(rest, of.capacity[dimension], of.cost));
        left -= taken;
        if left == 0 {
            break;
        }
    }
    sum.div_ceil(1 << POINT)
}

/// Items of which no two fit together even on the largest type need a bin each, at least of the cheapest type they fit.
fn apart(problem: &Problem, types: &[(u32, &BinType)]) -> u128 {
    let cheapest = |item: usize| -> u128 {
        let fitting = types.iter().filter(|(_, of)| holds(problem, item, of));
        fitting.map(|(_, of)| u128::from(of.cost)).min().unwrap_or(0)
    };
    let single = (0..problem.len).map(cheapest).max().unwrap_or(0);
    let of = |clique: &Vec<usize>| clique.iter().map(|item| cheapest(*item)).sum::<u128>();
    cliques(problem).iter().map(of).max().unwrap_or(0).max(single)
}
