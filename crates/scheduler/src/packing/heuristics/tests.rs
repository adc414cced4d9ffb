//! What each rule does on problems small enough to follow by hand: one test a row of the table of rules.

use super::*;
use crate::packing::instances::generate;
use crate::packing::options::{Fit, ItemOrder, Norm, Options, Refresh, Score, Size};
use crate::packing::{Items, PackError};

const PLAIN: Size = Size { norm: Norm::L1, weights: Weights::Unit, refresh: Refresh::Static };

fn problem<const D: usize>(rows: &[[u64; D]]) -> Problem {
    let made = Items::from_rows(D, rows).and_then(|items| Problem::new(&items, &[10; D]));
    made.unwrap_or_else(|error: PackError| panic!("{error}"))
}

/// The bin of each item, named in order of first use.
fn bins<const D: usize>(rows: &[[u64; D]], rule: Rule) -> Vec<u32> {
    let problem = problem(rows);
    run(&problem, rule, 1, &mut Options::new().budget()).renumbered().0
}

fn arrival(fit: Fit) -> Rule {
    Rule::ItemCentric { fit, order: ItemOrder::Arrival, size: PLAIN }
}

fn decreasing(fit: Fit) -> Rule {
    Rule::ItemCentric { fit, order: ItemOrder::Decreasing, size: PLAIN }
}

#[test]
fn next_fit_never_returns_to_a_bin() {
    assert_eq!(bins(&[[6], [5], [4], [4]], arrival(Fit::Next)), [0, 1, 1, 2]);
}

#[test]
fn first_fit_takes_the_bin_opened_first() {
    assert_eq!(bins(&[[5], [7], [3], [2]], arrival(Fit::First)), [0, 1, 0, 0]);
}

#[test]
fn best_fit_takes_the_bin_with_least_left() {
    assert_eq!(bins(&[[5], [7], [3], [2]], arrival(Fit::Best)), [0, 1, 1, 0]);
}

#[test]
fn worst_fit_takes_the_bin_with_most_left() {
    assert_eq!(bins(&[[5], [7], [2], [1]], arrival(Fit::Worst)), [0, 1, 0, 0]);
    assert_eq!(bins(&[[5], [7], [3], [3]], arrival(Fit::Worst)), [0, 1, 0, 1]);
}

#[test]
fn decreasing_order_begins_with_the_largest() {
    assert_eq!(bins(&[[3], [5], [7], [5]], arrival(Fit::First)), [0, 0, 1, 2]);
    assert_eq!(bins(&[[3], [5], [7], [5]], decreasing(Fit::First)), [0, 1, 0, 1]);
}

fn decreasing_by(norm: Norm) -> Rule {
    Rule::ItemCentric { fit: Fit::First, order: ItemOrder::Decreasing, size: Size { norm, ..PLAIN } }
}

#[test]
fn the_norm_decides_what_is_large() {
    // By the sum [5, 5] comes first and takes [2, 5]; by the others [8, 0] does.
    let rows = [[5, 5], [8, 0], [2, 5], [0, 5]];
    assert_eq!(bins(&rows, decreasing_by(Norm::L1)), [0, 1, 0, 1]);
    assert_eq!(bins(&rows, decreasing_by(Norm::L2)), [0, 1, 1, 1]);
    assert_eq!(bins(&rows, decreasing_by(Norm::LInf)), [0, 1, 1, 1]);
    // [6, 6] is longer than [7, 0], but its greatest demand is less.
    let rows = [[6, 6], [7, 0], [3, 3]];
    assert_eq!(bins(&rows, decreasing_by(Norm::L2)), [0, 1, 0]);
    assert_eq!(bins(&rows, decreasing_by(Norm::LInf)), [0, 1, 1]);
}

#[test]
fn dynamic_weights_change_the_order_and_unit_weights_never_do() {
    let instance = generate("mixed/1/3/120/0".parse().unwrap()).unwrap();
    let problem = Problem::new(&instance.items, &instance.capacity).unwrap();
    let of = |weights, refresh| {
        let size = Size { norm: Norm::L1, weights, refresh };
        let rule = Rule::ItemCentric { fit: Fit::First, order: ItemOrder::Decreasing, size };
        let packed = run(&problem, rule, 1, &mut Options::new().budget());
        assert!(packed.bin_of.iter().all(|bin| (*bin as usize) < packed.len()));
        packed.bin_of
    };
    assert_eq!(of(Weights::Unit, Refresh::Static), of(Weights::Unit, Refresh::Dynamic));
    for weights in [Weights::MeanDemand, Weights::Reciprocal, Weights::Exponential, Weights::DemandOverRemaining] {
        assert_ne!(of(weights, Refresh::Static), of(weights, Refresh::Dynamic), "{weights:?}");
    }
}

#[test]
fn the_dot_product_fills_with_what_the_room_is_like() {
    // After [6, 2] more is left of the second dimension, and [2, 6] uses it; first fit would take [4, 3].
    let rule = Rule::BinCentric { score: Score::DotProduct, weights: Weights::Unit, refresh: Refresh::Static };
    assert_eq!(bins(&[[6, 3], [4, 3], [2, 6]], rule), [0, 1, 0]);
}

#[test]
fn the_l2_norm_takes_what_leaves_least() {
    let rule = Rule::BinCentric { score: Score::L2Norm, weights: Weights::Unit, refresh: Refresh::Static };
    assert_eq!(bins(&[[6, 6], [3, 3], [4, 4]], rule), [0, 1, 0]);
}

#[test]
fn multi_bin_rules_climb_until_a_number_of_bins_is_enough() {
    for score in [Score::DotProduct, Score::L2Norm] {
        let rule = Rule::MultiBin { score, weights: Weights::MeanDemand, refresh: Refresh::Dynamic };
        assert_eq!(bins(&[[6], [6], [4], [4]], rule).iter().max(), Some(&1));
        // One bin is the lower bound handed in; three are needed.
        assert_eq!(bins(&[[6], [6], [6]], rule), [0, 1, 2]);
    }
}

#[test]
fn a_number_of_bins_that_is_too_small_is_given_up() {
    let problem = problem(&[[6], [6], [6]]);
    let mut budget = Options::new().budget();
    let two = multi_bin::pack(&problem, Score::DotProduct, Weights::Unit, Refresh::Static, 2, &mut budget);
    assert!(two.is_none());
}

#[test]
fn completion_finds_the_pair_that_fills_a_bin() {
    // Beside 5 fit 4 alone, or 3 and 2: the pair leaves nothing.
    assert_eq!(bins(&[[5], [4], [3], [2]], Rule::Completion), [0, 1, 0, 0]);
}

#[test]
fn groups_are_kept_apart_by_every_family() {
    let mut items = Items::new(1).unwrap();
    for (size, group) in [(2, 1), (2, 1), (2, 2), (2, 2), (2, 1)] {
        items.push_apart(&[size], group).unwrap();
    }
    let problem = Problem::new(&items, &[10]).unwrap();
    let (weights, refresh) = (Weights::Unit, Refresh::Dynamic);
    for rule in [
        arrival(Fit::First),
        decreasing(Fit::Best),
        Rule::BinCentric { score: Score::L2Norm, weights, refresh },
        Rule::MultiBin { score: Score::DotProduct, weights, refresh },
        Rule::Completion,
    ] {
        assert_eq!(run(&problem, rule, 1, &mut Options::new().budget()).len(), 3, "{rule:?}");
    }
}

#[test]
fn a_rule_that_the_deadline_ends_is_finished_by_first_fit_decreasing() {
    let problem = problem(&[[6]; 2000]);
    let mut ended = || true;
    let bins = run(&problem, Rule::dot_product(), 1, &mut Options::new().deadline(&mut ended).budget());
    assert_eq!(bins.len(), 2000);
}
