//! Items of which no two fit together need a bin each. Owns the greedy search for such a set; never looks at more than the
//! largest 2,000 items, but for groups and for items above half a capacity, which it counts.

use super::super::measure::{decreasing, sizes};
use super::super::options::{Norm, Refresh, Size, Weights};
use super::super::problem::{NONE, Problem};

/// How many items are compared with each other.
pub(super) const MOST: usize = 2000;

pub(super) fn bound(problem: &Problem) -> usize {
    largest_group(problem).max(above_half(problem)).max(greedy(problem))
}

fn largest_group(problem: &Problem) -> usize {
    let mut count = vec![0; problem.group_count];
    for item in 0..problem.len {
        if let Some(count) = count.get_mut(problem.group(item) as usize) {
            *count += 1;
        }
    }
    count.into_iter().max().unwrap_or(0)
}

fn above_half(problem: &Problem) -> usize {
    let large = |d: usize, item: usize| u128::from(problem.demand(item)[d]) * 2 > u128::from(problem.capacity[d]);
    (0..problem.dimensions).map(|d| (0..problem.len).filter(|item| large(d, *item)).count()).max().unwrap_or(0)
}

/// From several orders: by norms, and by each dimension.
fn greedy(problem: &Problem) -> usize {
    let size = |norm| sizes(problem, Size { norm, weights: Weights::Unit, refresh: Refresh::Static });
    let grouped = |item: usize| problem.group(item) != NONE;
    let mut orders = vec![size(Norm::LInf), size(Norm::L2), size(Norm::L1)];
    for d in 0..problem.dimensions {
        orders.push((0..problem.len).map(|item| problem.shares(item)[d]).collect());
    }
    if problem.group_count > 0 {
        let first = |item: usize| problem.shares(item).iter().sum::<f64>() + if grouped(item) { 16.0 } else { 0.0 };
        orders.push((0..problem.len).map(first).collect());
    }
    orders.iter().map(|sizes| grow(problem, sizes)).max().unwrap_or(0)
}

fn grow(problem: &Problem, sizes: &[f64]) -> usize {
    let mut clique: Vec<usize> = Vec::new();
    for item in decreasing(sizes).into_iter().take(MOST) {
        let item = item as usize;
        if clique.iter().all(|member| !problem.compatible(*member, item)) {
            clique.push(item);
        }
    }
    clique.len()
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
