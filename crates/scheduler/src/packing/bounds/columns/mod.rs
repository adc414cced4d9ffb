//! The bound by columns: a linear programme over all sets of items that fit a bin, made column by column. Owns the loop
//! between master and pricing. The master computes in floating point; what it says only chooses prices, and the bound is
//! computed from those in whole numbers (Farley, "A note on bounding a class of linear programming problems, including
//! cutting stock problems", 1990), so that no rounding can make it too great.
//!
//! Apart groups are left out: what they forbid can only raise the optimum.

mod knapsack;
mod master;

use super::super::problem::Problem;
use knapsack::Knapsack;
use master::{Column, Master};

/// What a price of 1 is in whole numbers.
const UNIT: f64 = 1_073_741_824.0;

/// Columns that may be priced in all.
const MOST_COLUMNS: usize = 6000;

/// Nodes of searches for patterns in all: how much time the bound may take.
const MOST_NODES: u64 = 6_000_000;

/// Nodes of a search that only has to find some good pattern.
const QUICK_NODES: u64 = 500;

/// Nodes of one search for the best pattern.
const FULL_NODES: u64 = 600_000;

/// Items that are alike, and how many.
pub(super) struct Type {
    pub(super) item: usize,
    pub(super) count: u32,
}

/// The greatest bound found that is above `known`, or `known`; stops early at `enough`.
pub(super) fn bound(problem: &Problem, known: usize, enough: usize) -> usize {
    let types = types(problem);
    let mut best = known;
    if types.is_empty() {
        return best;
    }
    let counts: Vec<f64> = types.iter().map(|of| f64::from(of.count)).collect();
    let mut master = Master::new(&counts);
    let mut nodes = MOST_NODES;
    for _ in 0..MOST_COLUMNS {
        let Some(prices) = master.prices() else { break };
        if let Some(negative) = negative(&prices) {
            if !master.enter(Column::Surplus(negative)) {
                break;
            }
            continue;
        }
        let whole: Vec<u64> = prices.iter().map(|price| (price.max(0.0) * UNIT) as u64).collect();
        let mut knapsack = Knapsack::new(problem, &types, &whole);
        let mut found = knapsack.search(QUICK_NODES.min(nodes));
        let improves = |profit: u64| profit as f64 > UNIT * (1.0 + 1e-7);
        if !improves(found.profit) && !found.complete {
            nodes = nodes.saturating_sub(found.nodes);
            found = knapsack.search(FULL_NODES.min(nodes));
        }
        nodes = nodes.saturating_sub(found.nodes);
        best = best.max(farley(&whole, &types, found.most));
        let settled = master.value().ceil() as usize <= best;
        if best >= enough || !improves(found.profit) || settled || nodes == 0 {
            break;
        }
        if !master.enter(Column::Pattern(found.pattern)) {
            break;
        }
    }
    best
}

/// ⌈Σ price·count ÷ greatest worth of a pattern⌉: each bin holds at most so much of the worth of all items.
fn farley(prices: &[u64], types: &[Type], most: u64) -> usize {
    let worth: u128 = prices.iter().zip(types).map(|(price, of)| u128::from(*price) * u128::from(of.count)).sum();
    if most == 0 { 0 } else { worth.div_ceil(u128::from(most)) as usize }
}

fn negative(prices: &[f64]) -> Option<usize> {
    let least = prices.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1))?;
    (*least.1 < -1e-9).then_some(least.0)
}

/// Items of equal demand together; items that want nothing are left out.
fn types(problem: &Problem) -> Vec<Type> {
    let wants = |item: &usize| problem.demand(*item).iter().any(|demand| *demand > 0);
    let mut items: Vec<usize> = (0..problem.len).filter(wants).collect();
    items.sort_by(|a, b| problem.demand(*a).cmp(problem.demand(*b)).then(a.cmp(b)));
    let mut types: Vec<Type> = Vec::new();
    for item in items {
        match types.last_mut() {
            Some(last) if problem.demand(last.item) == problem.demand(item) => last.count += 1,
            _ => types.push(Type { item, count: 1 }),
        }
    }
    types
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packing::Items;

    fn of(rows: &[[u64; 2]], capacity: u64) -> usize {
        let items = Items::from_rows(2, rows).unwrap();
        bound(&Problem::new(&items, &[capacity, capacity]).unwrap(), 0, usize::MAX)
    }

    #[test]
    fn it_sees_that_only_pairs_fit() {
        // Thirds in volume, but any two items fill a bin.
        assert_eq!(of(&[[4, 0]; 6], 10), 3);
        assert_eq!(of(&[[4, 0], [4, 0], [4, 0], [0, 4], [0, 4], [0, 4]], 10), 2);
    }

    #[test]
    fn it_is_the_value_of_the_programme_rounded_up() {
        // Patterns {6,4}, {4,4}: 6 with 4 three times, and the last 4 alone.
        assert_eq!(of(&[[6, 1], [6, 1], [6, 1], [4, 1], [4, 1], [4, 1], [4, 1]], 10), 4);
    }

    #[test]
    fn items_that_want_nothing_need_no_column() {
        assert_eq!(of(&[[0, 0]; 3], 10), 0);
        assert_eq!(of(&[[0, 0]; 3], 0), 0);
    }

    #[test]
    fn it_is_never_above_the_optimum_of_triplets() {
        use crate::packing::instances::{InstanceId, Set, generate};
        for (class, seed) in [(1, 0), (2, 1), (3, 2)] {
            let id = InstanceId { set: Set::Triplets, class, dimensions: 3, items: 30, seed };
            let instance = generate(id).unwrap();
            let problem = Problem::new(&instance.items, &instance.capacity).unwrap();
            assert_eq!(bound(&problem, 0, usize::MAX), 10);
        }
    }
}
