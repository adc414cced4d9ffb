//! Laws of packing onto types of bins: counts and capacities kept, costs added up, no bound above the cheapest mix.

use std::collections::BTreeSet;

use orlop_scheduler::packing::{BinType, Items, Options, PackError, TypedPacking, pack_types};
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Case {
    items: Items,
    types: Vec<BinType>,
}

fn case(most: usize) -> impl Strategy<Value = Case> {
    let count = prop_oneof![3 => Just(None), 1 => (0..4_usize).prop_map(Some)];
    let of = (proptest::collection::vec(0..=60_u64, 2), count, 0..=20_u64);
    let of = of.prop_map(|(capacity, count, cost)| BinType { capacity, count, cost });
    let row = (proptest::collection::vec(0..=30_u64, 2), proptest::option::weighted(0.2, 0..2_u32));
    (proptest::collection::vec(of, 1..4), proptest::collection::vec(row, 0..=most)).prop_map(|(types, rows)| {
        let mut items = Items::new(2).unwrap();
        for (demand, group) in rows {
            match group {
                Some(group) => items.push_apart(&demand, group).unwrap(),
                None => items.push(&demand).unwrap(),
            }
        }
        Case { items, types }
    })
}

fn check(case: &Case, packing: &TypedPacking) {
    assert_eq!(packing.bin_of.len(), case.items.len());
    let mut load = vec![[0_u64; 2]; packing.type_of.len()];
    let mut groups = BTreeSet::new();
    for (item, bin) in packing.bin_of.iter().enumerate() {
        (0..2).for_each(|d| load[*bin as usize][d] += case.items.demand(item)[d]);
        assert!(case.items.apart(item).is_none_or(|group| groups.insert((bin, group))));
    }
    let mut cost = 0;
    let mut used = vec![0; case.types.len()];
    for (load, of) in load.iter().zip(&packing.type_of) {
        let (at, of) = (*of as usize, &case.types[*of as usize]);
        assert!(load.iter().zip(&of.capacity).all(|(load, capacity)| load <= capacity));
        cost += u128::from(of.cost);
        used[at] += 1;
        assert!(of.count.is_none_or(|count| used[at] <= count), "more of type {at} than there are");
    }
    assert_eq!(packing.cost, cost);
    assert!(packing.lower_bound <= packing.cost);
    assert_eq!(packing.optimal, packing.lower_bound == packing.cost);
}

/// A bin of the search: its type, load and groups.
type Bin = (usize, [u64; 2], Vec<u32>);

/// The least cost, by opening every type for every item.
fn cheapest(case: &Case) -> Option<u128> {
    fn go(case: &Case, item: usize, bins: &mut Vec<Bin>, cost: u128, best: &mut Option<u128>) {
        if best.is_some_and(|best| cost > best) {
            return;
        }
        if item == case.items.len() {
            *best = Some(cost);
            return;
        }
        for at in 0..bins.len() {
            put(case, item, at, bins, cost, best);
        }
        for (of, kind) in case.types.iter().enumerate() {
            if kind.count.is_none_or(|count| bins.iter().filter(|bin| bin.0 == of).count() < count) {
                bins.push((of, [0, 0], Vec::new()));
                put(case, item, bins.len() - 1, bins, cost + u128::from(kind.cost), best);
                bins.pop();
            }
        }
    }
    fn put(case: &Case, item: usize, at: usize, bins: &mut Vec<Bin>, cost: u128, best: &mut Option<u128>) {
        let bin = bins[at].clone();
        let (demand, group) = (case.items.demand(item), case.items.apart(item));
        let load = [bin.1[0] + demand[0], bin.1[1] + demand[1]];
        let holds = load.iter().zip(&case.types[bin.0].capacity).all(|(load, capacity)| load <= capacity);
        if holds && group.is_none_or(|group| !bin.2.contains(&group)) {
            bins[at] = (bin.0, load, bin.2.iter().copied().chain(group).collect());
            go(case, item + 1, bins, cost, best);
            bins[at] = bin;
        }
    }
    let mut best = None;
    go(case, 0, &mut Vec::new(), 0, &mut best);
    best
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 2, ..ProptestConfig::default() })]

    #[test]
    fn a_mix_keeps_counts_and_capacities_and_is_not_below_its_bound(case in case(40), seed in any::<u64>()) {
        match pack_types(&case.items, &case.types, Options::new().moves(3000).seed(seed)) {
            Ok(packing) => check(&case, &packing),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }

    #[test]
    fn no_bound_is_above_the_cheapest_mix(case in case(6)) {
        let packing = pack_types(&case.items, &case.types, Options::new().moves(20_000));
        match (packing, cheapest(&case)) {
            (Ok(packing), Some(cost)) => {
                check(&case, &packing);
                prop_assert!(packing.lower_bound <= cost && cost <= packing.cost);
                prop_assert!(packing.cost <= 2 * cost + 20, "{} where {} do", packing.cost, cost);
            }
            (Ok(packing), None) => prop_assert!(false, "{:?} cannot be", packing),
            (Err(PackError::NoRoom { .. }), _) | (Err(_), None) => {}
            (Err(error), Some(cost)) => prop_assert!(false, "{} where a mix costs {}", error, cost),
        }
    }

    #[test]
    fn equal_budgets_and_seeds_give_equal_mixes(case in case(30), seed in any::<u64>()) {
        let of = || pack_types(&case.items, &case.types, Options::new().moves(3000).seed(seed));
        prop_assert_eq!(of(), of());
    }

    #[test]
    fn a_deadline_ends_early_with_a_mix_wherever_there_is_one(case in case(40), polls in 0..20_u32) {
        let mut left = polls;
        let mut ended = || { left = left.saturating_sub(1); left == 0 };
        let early = pack_types(&case.items, &case.types, Options::new().moves(50_000).deadline(&mut ended));
        let whole = pack_types(&case.items, &case.types, Options::new().moves(50_000));
        match (&early, whole) {
            (Ok(early), Ok(whole)) => {
                check(&case, early);
                prop_assert!(whole.cost <= early.cost);
            }
            // Where bins are counted, the way that finds room may come after the deadline.
            (Err(PackError::NoRoom { .. }), _) | (Err(_), Err(_)) => {}
            (early, whole) => prop_assert!(false, "{:?} early, {:?} in time", early, whole),
        }
    }
}

fn of(capacity: u64, count: Option<usize>, cost: u64) -> BinType {
    BinType { capacity: vec![capacity], count, cost }
}

#[test]
fn the_cheapest_mix_is_found_where_volume_and_counts_matter() {
    // 100 units: the large type is cheapest for its size, but there are two of them.
    let items = Items::from_rows(1, [[10]; 10]).unwrap();
    let packing = pack_types(&items, &[of(20, None, 5), of(40, Some(2), 8)], Options::new()).unwrap();
    assert_eq!((packing.cost, packing.optimal), (21, true));
    // Without a limit a third large one is dearer than the small one for the rest.
    let packing = pack_types(&items, &[of(20, None, 5), of(40, None, 8)], Options::new()).unwrap();
    assert_eq!(packing.cost, 21);
}

#[test]
fn a_bin_becomes_the_cheapest_type_that_holds_its_load() {
    let items = Items::from_rows(1, [[30], [30], [5]]).unwrap();
    let packing = pack_types(&items, &[of(60, None, 10), of(10, None, 1)], Options::new()).unwrap();
    assert_eq!((packing.cost, packing.optimal), (11, true));
}

#[test]
fn extreme_costs_and_capacities_do_not_overflow() {
    let items = Items::from_rows(1, [[u64::MAX / 2], [u64::MAX / 2]]).unwrap();
    let packing = pack_types(&items, &[of(u64::MAX - 2, None, u64::MAX)], Options::new()).unwrap();
    assert_eq!((packing.cost, packing.optimal), (2 * u128::from(u64::MAX), true));
}

#[test]
fn what_is_wrong_with_types_is_said() {
    let said = |rows: &[[u64; 2]], types: &[BinType]| {
        pack_types(&Items::from_rows(2, rows).unwrap(), types, Options::new()).unwrap_err().to_string()
    };
    let of = |x, y, count| BinType { capacity: vec![x, y], count, cost: 1 };
    insta::assert_snapshot!(said(&[[3, 3]], &[of(3, 1, None), of(1, 3, None)]), @"item 0 fits no type of bin; add a type that is large enough in all dimensions at once");
    insta::assert_snapshot!(said(&[[3, 3], [3, 3]], &[of(3, 3, Some(1))]), @"no room was found for 1 of 2 items in the bins there are; allow more bins of some type");
    insta::assert_snapshot!(said(&[[1, 1]], &[]), @"item 0 wants something in dimension 0, where every capacity is zero; leave the dimension out or give it a capacity");
    insta::assert_snapshot!(said(&[[1, 1]], &[BinType { capacity: vec![1], count: None, cost: 1 }]), @"the capacity of type 0 has 1 dimensions where the items have 2; give one amount a resource");
}
