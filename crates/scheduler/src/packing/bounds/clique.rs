//! Items of which no two fit together need a bin each. Owns the greedy search for such a set; never looks at more than the
//! largest 2,000 items, but for groups and for items above half a capacity, which it counts.

use super::super::measure::{decreasing, sizes};
use super::super::options::{Norm, Refresh, Size, Weights};
use super::super::problem::{NONE, Problem};

/// How many items are compared with each other.
const MOST: usize = 2000;

pub(super) fn bound(problem: &Problem) -> usize {
    cliques(problem).iter().map(Vec::len).max().unwrap_or(0)
}

/// Sets of items of which no two fit together: the largest group, those above half of each dimension, and what is found
/// greedily from several orders.
pub(in crate::packing) fn cliques(problem: &Problem) -> Vec<Vec<usize>> {
    let mut found = vec![largest_group(problem)];
    found.extend((0..problem.dimensions).map(|d| above_half(problem, d)));
    found.extend(orders(problem).iter().map(|sizes| grow(problem, sizes)));
    found
}

fn largest_group(problem: &Problem) -> Vec<usize> {
    let mut groups = vec![Vec::new(); problem.group_count];
    for item in 0..problem.len {
        if let Some(group) = groups.get_mut(problem.group(item) as usize) {
            group.push(item);
        }
    }
    groups.into_iter().max_by_key(Vec::len).unwrap_or_default()
}

fn above_half(problem: &Problem, d: usize) -> Vec<usize> {
    let large = |item: &usize| u128::from(problem.demand(*item)[d]) * 2 > u128::from(problem.capacity[d]);
    (0..problem.len).filter(large).collect()
}

/// Sizes by norms, and by each dimension.
fn orders(problem: &Problem) -> Vec<Vec<f64>> {
    let size = |norm| sizes(problem, Size { norm, weights: Weights::Unit, refresh: Refresh::Static });
    let mut orders = vec![size(Norm::LInf), size(Norm::L2), size(Norm::L1)];
    for d in 0..problem.dimensions {
        orders.push((0..problem.len).map(|item| problem.shares(item)[d]).collect());
    }
    if problem.group_count > 0 {
        let grouped = |item: usize| if problem.group(item) == NONE { 0.0 } else { 16.0 };
        orders.push((0..problem.len).map(|item| problem.shares(item).iter().sum::<f64>() + grouped(item)).collect());
    }
    orders
}

fn grow(problem: &Problem, sizes: &[f64]) -> Vec<usize> {
    let mut clique: Vec<usize> = Vec::new();
    for item in decreasing(sizes).into_iter().take(MOST) {
        let item = item as usize;
        if clique.iter().all(|member| !problem.compatible(*member, item)) {
            clique.push(item);
        }
    }
    clique
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packing::Items;

    #[test]
    fn items_that_exceed_a_dimension_in_pairs_need_a_bin_each() {
        let items = Items::from_rows(2, [[60, 10], [50, 60], [10, 50], [5, 5]]).unwrap();
        assert_eq!(bound(&Problem::new(&items, &[100, 100]).unwrap()), 2);
        let items = Items::from_rows(2, [[60, 10], [50, 60], [41, 50], [5, 5]]).unwrap();
        assert_eq!(bound(&Problem::new(&items, &[100, 100]).unwrap()), 3);
    }

    #[test]
    fn members_of_a_group_need_a_bin_each() {
        let mut items = Items::new(1).unwrap();
        for group in [1, 2, 1, 1] {
            items.push_apart(&[0], group).unwrap();
        }
        assert_eq!(bound(&Problem::new(&items, &[0]).unwrap()), 3);
    }
}
