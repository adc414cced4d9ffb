//! Laws of packing over random problems: every answer is a packing, no bound is above it, budgets and seeds decide alone.

use std::collections::BTreeSet;

use orlop_scheduler::packing::{
    Bound, Effort, Fit, ItemOrder, Items, Norm, Options, PackError, Packing, Refresh, Rule, Score, Size, Weights,
    lower_bounds, pack,
};
use proptest::prelude::*;

const WEIGHTS: [Weights; 5] =
    [Weights::Unit, Weights::MeanDemand, Weights::Reciprocal, Weights::Exponential, Weights::DemandOverRemaining];

/// Every rule there is.
fn rules() -> Vec<Rule> {
    let mut rules = vec![Rule::Auto, Rule::Completion];
    for weights in WEIGHTS {
        for refresh in [Refresh::Static, Refresh::Dynamic] {
            for norm in [Norm::L1, Norm::L2, Norm::LInf] {
                for fit in [Fit::Next, Fit::First, Fit::Best, Fit::Worst] {
                    let size = Size { norm, weights, refresh };
                    rules.extend([ItemOrder::Arrival, ItemOrder::Decreasing].map(|order| Rule::ItemCentric {
                        fit,
                        order,
                        size,
                    }));
                }
            }
            for score in [Score::DotProduct, Score::L2Norm] {
                rules.push(Rule::BinCentric { score, weights, refresh });
                rules.push(Rule::MultiBin { score, weights, refresh });
            }
        }
    }
    rules
}

#[derive(Clone, Debug)]
struct Case {
    items: Items,
    capacity: Vec<u64>,
}

/// Problems of 1 to 4 dimensions, with equal items, items that want nothing and apart groups, and capacities from none to
/// the greatest.
fn case(most: usize) -> impl Strategy<Value = Case> {
    let capacity = prop_oneof![Just(0), 1..=3_u64, Just(100), Just(1000), Just(1 << 50)];
    let row = |d: usize| (proptest::collection::vec(0..=100_u64, d), proptest::option::weighted(0.2, 0..3_u32));
    (1..=4_usize).prop_flat_map(move |d| {
        let rows = proptest::collection::vec(row(d), 0..=most);
        (proptest::collection::vec(capacity.clone(), d), rows).prop_map(move |(capacity, rows)| {
            let mut items = Items::new(d).unwrap();
            for (parts, group) in rows {
                let demand: Vec<u64> =
                    parts.iter().zip(&capacity).map(|(part, of)| of / 100 * part + of % 100 * part / 100).collect();
                match group {
                    Some(group) => items.push_apart(&demand, group).unwrap(),
                    None => items.push(&demand).unwrap(),
                }
            }
            Case { items, capacity }
        })
    })
}

/// Capacity never exceeded, groups kept apart, every item in one of the bins, none of them empty.
fn check(case: &Case, packing: &Packing) {
    assert_eq!(packing.bin_of.len(), case.items.len());
    let mut load = vec![vec![0_u64; case.capacity.len()]; packing.bins];
    let mut groups = BTreeSet::new();
    for (item, bin) in packing.bin_of.iter().enumerate() {
        for (load, demand) in load[*bin as usize].iter_mut().zip(case.items.demand(item)) {
            *load += demand;
        }
        if let Some(group) = case.items.apart(item) {
            assert!(groups.insert((bin, group)), "two of group {group} in bin {bin}");
        }
    }
    assert!(load.iter().all(|load| load.iter().zip(&case.capacity).all(|(load, capacity)| load <= capacity)));
    let used: BTreeSet<u32> = packing.bin_of.iter().copied().collect();
    assert_eq!(used, (0..packing.bins as u32).collect());
    assert!(packing.lower_bound <= packing.bins);
    assert_eq!(packing.optimal, packing.lower_bound == packing.bins);
}

/// The fewest bins, by putting each item into every bin in turn.
fn optimum(case: &Case) -> usize {
    fn go(case: &Case, bin_of: &mut Vec<usize>, used: usize, best: &mut usize) {
        let item = bin_of.len();
        if used >= *best {
            return;
        }
        if item == case.items.len() {
            *best = used;
            return;
        }
        for bin in 0..=used {
            let with = |other: &usize| bin_of[*other] == bin;
            let apart =
                |other: usize| case.items.apart(item).is_some() && case.items.apart(item) == case.items.apart(other);
            let fits = |d: usize| {
                let load = (0..item).filter(with).map(|other| case.items.demand(other)[d]).sum::<u64>();
                load + case.items.demand(item)[d] <= case.capacity[d]
            };
            if (0..item).filter(with).all(|other| !apart(other)) && (0..case.capacity.len()).all(fits) {
                bin_of.push(bin);
                go(case, bin_of, used.max(bin + 1), best);
                bin_of.pop();
            }
        }
    }
    let mut best = case.items.len() + 1;
    go(case, &mut Vec::new(), 0, &mut best);
    best
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 4, ..ProptestConfig::default() })]

    #[test]
    fn every_rule_makes_a_packing(
        case in case(24),
        rules in proptest::sample::subsequence(rules(), 30),
        seed in any::<u64>(),
    ) {
        for rule in rules {
            let packing = pack(&case.items, &case.capacity, Options::new().rule(rule).moves(300).seed(seed)).unwrap();
            check(&case, &packing);
        }
    }

    #[test]
    fn no_bound_is_above_the_optimum_and_auto_is_close(case in case(8), seed in any::<u64>()) {
        let optimum = optimum(&case);
        for (bound, bins) in lower_bounds(&case.items, &case.capacity, Effort::Exact, seed).unwrap() {
            prop_assert!(bins <= optimum, "{} says {} where {} do", bound, bins, optimum);
        }
        let packing = pack(&case.items, &case.capacity, Options::new().moves(20_000).effort(Effort::Exact)).unwrap();
        check(&case, &packing);
        prop_assert!(packing.bins <= optimum + 1, "{} where {} do", packing.bins, optimum);
    }

    #[test]
    fn no_bound_is_above_any_packing(case in case(60)) {
        let packing = pack(&case.items, &case.capacity, Options::new().moves(5000)).unwrap();
        for (bound, bins) in lower_bounds(&case.items, &case.capacity, Effort::Exact, 0).unwrap() {
            prop_assert!(bins <= packing.bins, "{} says {} where {} do", bound, bins, packing.bins);
        }
    }

    #[test]
    fn auto_is_never_worse_than_first_fit_decreasing(case in case(60), moves in 0..3000_u64) {
        let of = |rule| pack(&case.items, &case.capacity, Options::new().rule(rule).moves(moves)).unwrap().bins;
        prop_assert!(of(Rule::Auto) <= of(Rule::first_fit_decreasing()));
    }

    #[test]
    fn equal_budgets_and_seeds_give_equal_packings(case in case(50), seed in any::<u64>(), moves in 0..5000_u64) {
        let of = || pack(&case.items, &case.capacity, Options::new().moves(moves).seed(seed).effort(Effort::Exact)).unwrap();
        prop_assert_eq!(of(), of());
    }

    #[test]
    fn a_deadline_ends_early_with_a_packing(case in case(60), polls in 0..20_u32) {
        let mut left = polls;
        let mut ended = || { left = left.saturating_sub(1); left == 0 };
        let packing = pack(&case.items, &case.capacity, Options::new().moves(50_000).deadline(&mut ended)).unwrap();
        check(&case, &packing);
    }

    #[test]
    fn any_numbers_give_a_packing_or_an_error(
        rows in proptest::collection::vec((any::<u64>(), any::<u64>(), 0..5_u32), 0..6),
        capacity in proptest::collection::vec(any::<u64>(), 0..3),
    ) {
        let mut items = Items::new(2).unwrap();
        for (one, other, shift) in rows {
            items.push(&[one >> (shift * 13), other >> (shift * 13)]).unwrap();
        }
        match pack(&items, &capacity, Options::new().moves(1000).effort(Effort::Exact)) {
            Ok(packing) => check(&Case { items, capacity }, &packing),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
}

#[test]
fn a_packing_of_an_id_never_changes() {
    let instance = orlop_scheduler::packing::instances::generate("mixed/4/3/60/0".parse().unwrap()).unwrap();
    let packing = pack(&instance.items, &instance.capacity, Options::new().moves(20_000).seed(1)).unwrap();
    // FNV-1a of the bins: rules, sums and seeds give the same on every machine and in every build.
    let hash = packing
        .bin_of
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, bin| (hash ^ u64::from(*bin)).wrapping_mul(0x0100_0000_01b3));
    assert_eq!((packing.bins, hash), (24, 6_890_724_303_289_368_844));
}

#[test]
fn nothing_needs_no_bin() {
    let packing = pack(&Items::new(3).unwrap(), &[0, 0, 0], Options::new()).unwrap();
    assert_eq!((packing.bins, packing.lower_bound, packing.optimal), (0, 0, true));
}

#[test]
fn items_that_want_nothing_share_a_bin_unless_apart() {
    let mut items = Items::from_rows(1, [[0], [0]]).unwrap();
    assert_eq!(pack(&items, &[0], Options::new()).unwrap().bins, 1);
    items.push_apart(&[0], 1).unwrap();
    items.push_apart(&[0], 1).unwrap();
    assert_eq!(pack(&items, &[0], Options::new()).unwrap().bins, 2);
}

#[test]
fn sixteen_dimensions_of_extreme_sizes_are_packed() {
    let whole = [u64::MAX; 16];
    let packing = pack(&Items::from_rows(16, [whole]).unwrap(), &whole, Options::new().effort(Effort::Exact)).unwrap();
    assert_eq!((packing.bins, packing.optimal), (1, true));
    let half = [u64::MAX / 2; 16];
    let packing =
        pack(&Items::from_rows(16, [half, half]).unwrap(), &whole, Options::new().effort(Effort::Exact)).unwrap();
    assert_eq!((packing.bins, packing.optimal), (1, true));
}

#[test]
fn a_deadline_that_has_passed_leaves_first_fit_decreasing_and_the_continuous_bound() {
    let instance = orlop_scheduler::packing::instances::generate("mixed/1/3/120/0".parse().unwrap()).unwrap();
    let of = |options| pack(&instance.items, &instance.capacity, options).unwrap();
    let mut ended = || true;
    let early = of(Options::new().effort(Effort::Exact).deadline(&mut ended));
    assert_eq!(early.bin_of, of(Options::new().rule(Rule::first_fit_decreasing())).bin_of);
    assert_eq!(early.bound_name, Bound::Continuous);
    assert!(of(Options::new()).bins < early.bins);
}

#[test]
fn triplets_are_packed_to_their_optimum() {
    let instance = orlop_scheduler::packing::instances::generate("triplets/2/5/60/3".parse().unwrap()).unwrap();
    let packing = pack(&instance.items, &instance.capacity, Options::new().moves(1_000_000)).unwrap();
    assert_eq!((Some(packing.bins), packing.optimal), (instance.optimum, true));
}

#[test]
fn what_is_wrong_is_said_with_what_to_do() {
    let of = |rows: &[[u64; 2]], capacity: &[u64]| {
        let error: Result<Packing, PackError> =
            Items::from_rows(2, rows).and_then(|items| pack(&items, capacity, Options::new()));
        error.unwrap_err().to_string()
    };
    insta::assert_snapshot!(of(&[[1, 1], [3, 1]], &[2, 2]), @"item 1 wants 3 in dimension 0, and no bin holds more than 2; split it or use larger bins");
    insta::assert_snapshot!(of(&[[0, 1]], &[2, 0]), @"item 0 wants something in dimension 1, where every capacity is zero; leave the dimension out or give it a capacity");
    insta::assert_snapshot!(of(&[[u64::MAX, 0], [1, 0]], &[u64::MAX, 0]), @"the sum of demands in dimension 0 is more than a 64-bit number holds; use a larger unit");
    insta::assert_snapshot!(of(&[[0, 1]], &[2]), @"the capacity has 1 dimensions where the items have 2; give one amount a resource");
    insta::assert_snapshot!(Items::new(17).unwrap_err(), @"17 dimensions are not between 1 and 16; name at most 16 resources");
    insta::assert_snapshot!(Items::new(0).unwrap_err(), @"0 dimensions are not between 1 and 16; name at most 16 resources");
    insta::assert_snapshot!(Items::new(2).unwrap().push(&[1]).unwrap_err(), @"item 0 has 1 dimensions where the items have 2; give one amount a resource");
}
