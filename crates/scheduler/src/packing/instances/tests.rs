//! What instances look like: every row of the table of sets, checked on all ids of the reports.

use super::*;

fn rows(instance: &Instance) -> Vec<Vec<u64>> {
    (0..instance.items.len()).map(|item| instance.items.demand(item).to_vec()).collect()
}

fn all(set: Set, class: u32) -> Vec<Instance> {
    set.ids().filter(|id| id.class == class).map(|id| generate(id).unwrap()).collect()
}

/// Least and greatest number over all instances of a class.
fn range(set: Set, class: u32) -> (u64, u64) {
    let numbers: Vec<u64> = all(set, class).iter().flat_map(rows).flatten().collect();
    (*numbers.iter().min().unwrap(), *numbers.iter().max().unwrap())
}

#[test]
fn reports_have_ten_seeds_a_cell() {
    let count = |set: Set| set.ids().count();
    assert_eq!(Set::ALL.map(count), [400, 1620, 1080, 360, 40, 40, 360]);
}

#[test]
fn ids_are_read_as_they_are_written() {
    for set in Set::ALL {
        for id in set.ids() {
            assert_eq!(id.to_string().parse::<InstanceId>(), Ok(id));
        }
    }
    for wrong in ["", "mixed/1/3/20", "mixed/1/3/20/x", "mixt/1/3/20/0", "mixed/1/3/20/0/0", "mixed/-1/3/20/0"] {
        let error = wrong.parse::<InstanceId>().unwrap_err();
        assert!(error.to_string().contains("set/class/d/n/seed"), "{error}");
    }
}

#[test]
fn an_id_names_one_instance() {
    let id: InstanceId = "panigrahy/2/3/20/0".parse().unwrap();
    assert_eq!(generate(id), generate(id));
    assert_ne!(generate(id).unwrap().items, generate(InstanceId { seed: 1, ..id }).unwrap().items);
    let first = generate(id).unwrap();
    assert_eq!(first.items.demand(0), FIRST_OF_PANIGRAHY, "the numbers of an id never change");
}

/// What the generator has always made.
const FIRST_OF_PANIGRAHY: [u64; 3] = [301, 852, 803];

#[test]
fn ids_outside_a_set_are_refused() {
    for wrong in [
        "mixed/7/3/20/0",
        "mixed/0/3/20/0",
        "mixed/1/17/20/0",
        "falkenauer-u/1/2/20/0",
        "triplets/1/3/61/0",
        "mixed/1/3/0/0",
    ] {
        let error = generate(wrong.parse().unwrap()).unwrap_err();
        assert!(error.to_string().contains("has no such"), "{error}");
    }
}

#[test]
fn uniform_classes_fill_their_ranges() {
    for (class, range_of, capacity) in [
        (1, (100, 400), 1000),
        (2, (1, 1000), 1000),
        (3, (200, 800), 1000),
        (4, (50, 200), 1000),
        (5, (25, 100), 1000),
        (6, (20, 100), 150),
    ] {
        assert_eq!(range(Set::CapraraToth, class), range_of);
        assert_eq!(range(Set::Panigrahy, class), range_of);
        assert!(all(Set::Panigrahy, class).iter().all(|of| of.capacity == vec![capacity; of.id.dimensions]));
    }
    assert_eq!(range(Set::FalkenauerU, 1), (20, 100));
    for (class, (least, capacity)) in
        (1..).zip([(1, 100), (1, 120), (1, 150), (20, 100), (20, 120), (20, 150), (50, 100), (50, 120), (50, 150)])
    {
        assert_eq!(range(Set::MartelloToth, class), (least, 100));
        assert!(all(Set::MartelloToth, class).iter().all(|of| of.capacity == [capacity]));
    }
}

#[test]
fn neighbours_of_classes_7_and_8_go_together() {
    for (set, most) in [(Set::CapraraToth, 100), (Set::Panigrahy, 99)] {
        for row in all(set, 7).iter().flat_map(rows) {
            for pair in row.chunks(2) {
                assert!(
                    (20..=most).contains(&pair[0]) && pair.get(1).is_none_or(|second| second.abs_diff(pair[0]) <= 10)
                );
            }
        }
        for row in all(set, 8).iter().flat_map(rows) {
            for pair in row.chunks(2) {
                assert!(
                    (20..=most).contains(&pair[0])
                        && pair.get(1).is_none_or(|second| (110..=130).contains(&(second + pair[0])))
                );
            }
        }
    }
}

#[test]
fn class_9_of_caprara_and_toth_sets_the_capacity_by_the_sums() {
    for of in all(Set::CapraraToth, 9) {
        let sums = of.items.totals().unwrap();
        let bins = sums.iter().max().unwrap().div_ceil(1000);
        assert_eq!(of.capacity, sums.iter().map(|sum| sum.div_ceil(bins)).collect::<Vec<_>>());
    }
}

#[test]
fn class_9_of_panigrahy_deals_units() {
    for of in all(Set::Panigrahy, 9) {
        for row in rows(&of) {
            assert!(row.iter().all(|number| *number <= 100));
            // 2·d units of 10–40, and up to d of noise.
            let (sum, d) = (row.iter().sum::<u64>(), of.id.dimensions as u64);
            assert!((20 * d..=80 * d + d).contains(&sum), "{row:?}");
        }
    }
}

#[test]
fn mixed_classes_are_as_large_as_they_say() {
    for of in all(Set::Mixed, 1) {
        for (item, row) in rows(&of).iter().enumerate() {
            let large = item % of.id.dimensions;
            assert!((50..=100).contains(&row[large]));
            assert!(row.iter().enumerate().all(|(d, number)| d == large || *number <= 25));
        }
    }
    // The means of the mixtures; drawing again what is below 0 moves them up a little.
    for (class, mean) in [(2, 20.0), (3, 30.0), (4, 34.0), (5, 26.0), (6, 20.5)] {
        let numbers: Vec<u64> = all(Set::Mixed, class).iter().flat_map(rows).flatten().collect();
        let found = numbers.iter().sum::<u64>() as f64 / numbers.len() as f64;
        assert!((0.0..1.5).contains(&(found - mean)), "class {class}: {found}");
    }
    // The deviation, a little less for what is drawn again; and one demand in ten is large, here told apart at 1.5 σ.
    for (class, deviation) in [(2, 10.0), (3, 15.0)] {
        let numbers: Vec<u64> = all(Set::Mixed, class).iter().flat_map(rows).flatten().collect();
        let mean = numbers.iter().sum::<u64>() as f64 / numbers.len() as f64;
        let square = numbers.iter().map(|number| (*number as f64 - mean).powi(2)).sum::<f64>() / numbers.len() as f64;
        assert!((0.90..=1.0).contains(&(square.sqrt() / deviation)), "class {class}: {}", square.sqrt());
    }
    for (class, between) in [(5, 50), (6, 42)] {
        let numbers: Vec<u64> = all(Set::Mixed, class).iter().flat_map(rows).flatten().collect();
        let large = numbers.iter().filter(|number| **number >= between).count() as f64 / numbers.len() as f64;
        assert!((0.09..0.12).contains(&large), "class {class}: {large}");
    }
}

#[test]
fn triplets_fill_bins_exactly() {
    let sets = [(Set::CapraraToth, 10, 100), (Set::FalkenauerT, 1, 1000)].into_iter();
    for (set, class, capacity) in sets.chain((1..=3).map(|class| (Set::Triplets, class, 100))) {
        for of in all(set, class) {
            assert_eq!(of.optimum, Some(of.id.items / 3));
            for three in rows(&of).chunks(3) {
                assert!((0..of.id.dimensions).all(|d| three.iter().map(|row| row[d]).sum::<u64>() == capacity));
            }
        }
    }
    // What the first two of three are drawn from; the third completes.
    let pairs = |set, class| -> Vec<(u64, u64)> {
        let rows: Vec<Vec<u64>> = all(set, class).iter().flat_map(rows).collect();
        rows.chunks(3)
            .flat_map(|three| three[0].iter().copied().zip(three[1].iter().copied()).collect::<Vec<_>>())
            .collect()
    };
    let both = |set, class, range: std::ops::RangeInclusive<u64>| {
        pairs(set, class).iter().all(|(first, second)| range.contains(first) && range.contains(second))
    };
    assert!(both(Set::CapraraToth, 10, 25..=50) && both(Set::Triplets, 2, 25..=50) && both(Set::Triplets, 3, 1..=50));
    for (set, first_of, least, capacity) in
        [(Set::Triplets, 38..=49, 25, 100), (Set::FalkenauerT, 380..=490, 250, 1000)]
    {
        for (first, second) in pairs(set, 1) {
            assert!(
                first_of.contains(&first) && (least..=(capacity - first) / 2).contains(&second),
                "{first} {second}"
            );
        }
    }
}
