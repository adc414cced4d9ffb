//! Items of which no three fit together: at most two lie in a bin, so that n of them need n bins less the greatest number
//! of pairs that fit. Owns the choice of such items: all above a third of a dimension, or of a weighted sum of dimensions.

use super::super::problem::Problem;
use super::matching::greatest_matching;
use super::surrogate::{sizes, weight_vectors};

/// How many items are matched at most, the largest.
const MOST: usize = 1000;

pub(super) fn bound(problem: &Problem) -> usize {
    let of = |weights: Vec<u64>| {
        let (sizes, capacity) = sizes(problem, &weights);
        let third = |item: &usize| u128::from(sizes[*item]) * 3 > u128::from(capacity);
        let mut items: Vec<usize> = (0..problem.len).filter(third).collect();
        items.sort_by(|a, b| sizes[*b].cmp(&sizes[*a]).then(a.cmp(b)));
        items.truncate(MOST);
        items
    };
    let mut seen: Vec<Vec<usize>> = Vec::new();
    let mut best = 0;
    for mut items in weight_vectors(problem, 0).into_iter().map(of) {
        // Half of them is the least that a matching can leave over, all of them the most.
        if items.len() <= best {
            continue;
        }
        items.sort_unstable();
        if !seen.contains(&items) {
            best = best.max(items.len() - matched(problem, &items));
            seen.push(items);
        }
    }
    best
}

fn matched(problem: &Problem, items: &[usize]) -> usize {
    let beside = |one: usize| {
        let fits = |other: &u32| *other as usize != one && problem.compatible(items[one], items[*other as usize]);
        (0..items.len() as u32).filter(fits).collect()
    };
    greatest_matching(&(0..items.len()).map(beside).collect::<Vec<Vec<u32>>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packing::Items;

    fn of(rows: &[[u64; 2]]) -> usize {
        let items = Items::from_rows(2, rows).unwrap();
        bound(&Problem::new(&items, &[100, 100]).unwrap())
    }

    #[test]
    fn items_above_a_third_go_in_pairs() {
        assert_eq!(of(&[[34, 0]; 6]), 3);
        assert_eq!(of(&[[34, 0]; 5]), 3);
        assert_eq!(of(&[[33, 0]; 6]), 0);
    }

    #[test]
    fn pairs_that_do_not_fit_cost_a_bin() {
        // The first two do not fit together, and the third fits only one of them.
        assert_eq!(of(&[[40, 70], [40, 40], [60, 20]]), 2);
        assert_eq!(of(&[[40, 70], [40, 40], [61, 70]]), 3);
    }
}
