//! Laws of packing into a fixed fleet: room never exceeded, no bound below the most items, close to it.

use std::collections::BTreeSet;

use orlop_scheduler::packing::{FleetPacking, Items, Options, pack_into};
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Case {
    items: Items,
    fleet: Vec<Vec<u64>>,
}

fn case(items: usize, bins: usize) -> impl Strategy<Value = Case> {
    let fleet = proptest::collection::vec(proptest::collection::vec(0..=60_u64, 2), 0..=bins);
    let row = (proptest::collection::vec(0..=40_u64, 2), proptest::option::weighted(0.2, 0..2_u32));
    (fleet, proptest::collection::vec(row, 0..=items)).prop_map(|(fleet, rows)| {
        let mut items = Items::new(2).unwrap();
        for (demand, group) in rows {
            match group {
                Some(group) => items.push_apart(&demand, group).unwrap(),
                None => items.push(&demand).unwrap(),
            }
        }
        Case { items, fleet }
    })
}

fn check(case: &Case, packing: &FleetPacking) {
    let mut load = vec![[0_u64; 2]; case.fleet.len()];
    let mut groups = BTreeSet::new();
    for (item, bin) in packing.bin_of.iter().enumerate() {
        let Some(bin) = *bin else { continue };
        (0..2).for_each(|d| load[bin as usize][d] += case.items.demand(item)[d]);
        assert!(case.items.apart(item).is_none_or(|group| groups.insert((bin, group))));
    }
    assert!(load.iter().zip(&case.fleet).all(|(load, room)| load.iter().zip(room).all(|(load, room)| load <= room)));
    assert_eq!(packing.bin_of.len(), case.items.len());
    assert_eq!(packing.placed, packing.bin_of.iter().flatten().count());
    assert!(packing.placed <= packing.upper_bound);
    assert_eq!(packing.optimal, packing.placed == packing.upper_bound);
    assert!((0.0..=1.0).contains(&packing.stranded), "{}", packing.stranded);
    // Nothing that still fits is left out.
    for item in (0..case.items.len()).filter(|item| packing.bin_of[*item].is_none()) {
        for (bin, (load, room)) in load.iter().zip(&case.fleet).enumerate() {
            let meets = case.items.apart(item).is_some_and(|group| groups.contains(&(bin as u32, group)));
            assert!(meets || (0..2).any(|d| load[d] + case.items.demand(item)[d] > room[d]), "{item} fits {bin}");
        }
    }
}

/// The most items that can be placed, by trying every bin for every item.
fn most(case: &Case, item: usize, load: &mut Vec<([u64; 2], Vec<u32>)>) -> usize {
    if item == case.items.len() {
        return 0;
    }
    let mut best = most(case, item + 1, load);
    let (demand, group) = (case.items.demand(item), case.items.apart(item));
    for bin in 0..case.fleet.len() {
        let before = load[bin].clone();
        let with = [before.0[0] + demand[0], before.0[1] + demand[1]];
        let holds = with.iter().zip(&case.fleet[bin]).all(|(load, room)| load <= room);
        if holds && group.is_none_or(|group| !before.1.contains(&group)) {
            load[bin] = (with, before.1.iter().copied().chain(group).collect());
            best = best.max(1 + most(case, item + 1, load));
            load[bin] = before;
        }
    }
    best
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 2, ..ProptestConfig::default() })]

    #[test]
    fn a_fleet_is_never_overfilled_and_nothing_that_fits_is_left(case in case(60, 8), seed in any::<u64>()) {
        let packing = pack_into(&case.items, &case.fleet, Options::new().moves(3000).seed(seed)).unwrap();
        check(&case, &packing);
    }

    #[test]
    fn no_bound_is_below_the_most_items_and_they_are_nearly_placed(case in case(7, 3)) {
        let most = most(&case, 0, &mut vec![([0, 0], Vec::new()); case.fleet.len()]);
        let packing = pack_into(&case.items, &case.fleet, Options::new().moves(20_000)).unwrap();
        check(&case, &packing);
        prop_assert!(packing.upper_bound >= most && packing.placed <= most);
        prop_assert!(packing.placed + 1 >= most, "{} where {} do", packing.placed, most);
    }

    #[test]
    fn equal_budgets_and_seeds_give_equal_placements(case in case(40, 6), seed in any::<u64>()) {
        let of = || pack_into(&case.items, &case.fleet, Options::new().moves(3000).seed(seed)).unwrap();
        prop_assert_eq!(of(), of());
    }

    #[test]
    fn a_deadline_ends_early_with_what_is_placed_by_then(case in case(60, 8), polls in 0..20_u32) {
        let mut left = polls;
        let mut ended = || { left = left.saturating_sub(1); left == 0 };
        let early = pack_into(&case.items, &case.fleet, Options::new().moves(50_000).deadline(&mut ended)).unwrap();
        check(&case, &early);
    }
}

#[test]
fn an_item_larger_than_any_bin_is_left_out() {
    let items = Items::from_rows(1, [[9], [3]]).unwrap();
    let packing = pack_into(&items, &[vec![4], vec![0]], Options::new()).unwrap();
    assert_eq!((packing.bin_of, packing.optimal), (vec![None, Some(0)], true));
}

#[test]
fn of_equal_counts_the_less_stranding_is_taken() {
    // Either job fits either machine; only one way leaves no machine with memory and no cores.
    let items = Items::from_rows(2, [[8, 2], [2, 8]]).unwrap();
    let packing = pack_into(&items, &[vec![8, 8], vec![2, 8]], Options::new()).unwrap();
    assert_eq!(packing.bin_of, [Some(0), Some(1)]);
    let balanced = pack_into(&Items::from_rows(2, [[4, 4]]).unwrap(), &[vec![8, 8]], Options::new()).unwrap();
    assert!(balanced.stranded < 1e-9);
    let skewed = pack_into(&Items::from_rows(2, [[8, 0]]).unwrap(), &[vec![8, 8]], Options::new()).unwrap();
    assert!((skewed.stranded - 0.5).abs() < 1e-9);
}

#[test]
fn a_fleet_that_must_be_filled_exactly_is_filled() {
    // Six triplets of twos and threes on bins of ten and eleven.
    let rows = [3, 3, 4, 4, 4, 3, 5, 5, 1, 2, 8].map(|size| [size]);
    let items = Items::from_rows(1, rows).unwrap();
    let packing = pack_into(&items, &[vec![10], vec![11], vec![11], vec![10]], Options::new()).unwrap();
    assert_eq!((packing.placed, packing.optimal), (11, true));
}

#[test]
fn a_bin_of_another_shape_is_refused() {
    let items = Items::from_rows(1, [[1]]).unwrap();
    let error = pack_into(&items, &[vec![1], vec![1, 2]], Options::new()).unwrap_err();
    insta::assert_snapshot!(error, @"bin 1 has 2 dimensions where the items have 1; give one amount a resource");
}
