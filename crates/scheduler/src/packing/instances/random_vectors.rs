//! Instances of random vectors: the classes of Caprara and Toth, their kin in more dimensions, and mixtures of large and
//! small. Owns the distributions.

use super::super::random::Random;
use super::InstanceId;
use super::draw::{self, Drawn, normal};

/// The ranges of classes 1–6 and the capacity.
const RANGES: [(u64, u64, u64); 6] =
    [(100, 400, 1000), (1, 1000, 1000), (200, 800, 1000), (50, 200, 1000), (25, 100, 1000), (20, 100, 150)];

fn in_range(id: InstanceId, random: &mut Random) -> Option<Drawn> {
    let (least, most, capacity) = *RANGES.get(id.class as usize - 1)?;
    let rows = (0..id.items).map(|_| draw::uniform(random, id.dimensions, least, most)).collect();
    Some(Drawn { rows, capacity: vec![capacity; id.dimensions] })
}

/// Neighbours in pairs: first ± 10 in class 7, 110 − first to 130 − first in class 8; a last one without neighbour is a
/// first one.
fn paired(id: InstanceId, most: u64, random: &mut Random) -> Drawn {
    let mut rows = Vec::with_capacity(id.items);
    for _ in 0..id.items {
        let mut row = Vec::with_capacity(id.dimensions);
        while row.len() < id.dimensions {
            let first = random.within(20, most);
            let (least, greatest) = if id.class == 7 { (first - 10, first + 10) } else { (110 - first, 130 - first) };
            row.push(first);
            if row.len() < id.dimensions {
                row.push(random.within(least, greatest));
            }
        }
        rows.push(row);
    }
    Drawn { rows, capacity: vec![150; id.dimensions] }
}

/// Classes 1–9 in two dimensions.
pub(super) fn caprara_toth(id: InstanceId, random: &mut Random) -> Drawn {
    if let Some(drawn) = in_range(id, random) {
        return drawn;
    }
    if id.class < 9 {
        return paired(id, 100, random);
    }
    let rows: Vec<Vec<u64>> = (0..id.items).map(|_| draw::uniform(random, id.dimensions, 100, 400)).collect();
    let sum = |dimension: usize| rows.iter().map(|row| row[dimension]).sum::<u64>();
    let sums: Vec<u64> = (0..id.dimensions).map(sum).collect();
    let bins = sums.iter().max().map_or(1, |most| most.div_ceil(1000));
    let largest = |dimension: usize| rows.iter().map(|row| row[dimension]).max().unwrap_or(1);
    let capacity = sums.iter().enumerate().map(|(d, sum)| sum.div_ceil(bins).max(largest(d))).collect();
    Drawn { rows, capacity }
}

/// Classes 1–6 as above; 7 and 8 with first numbers of 20–99; 9 of unit counts.
pub(super) fn panigrahy(id: InstanceId, random: &mut Random) -> Drawn {
    if let Some(drawn) = in_range(id, random) {
        return drawn;
    }
    if id.class < 9 {
        return paired(id, 99, random);
    }
    let rows = (0..id.items).map(|_| unit_counts(id.dimensions, random)).collect();
    Drawn { rows, capacity: vec![100; id.dimensions] }
}

/// 2·d units dealt to the dimensions at random, times one scale of 10–40, plus 0 or 1; drawn again if above 100.
fn unit_counts(dimensions: usize, random: &mut Random) -> Vec<u64> {
    loop {
        let mut row = vec![0; dimensions];
        for _ in 0..2 * dimensions {
            if let Some(count) = row.get_mut(random.below(dimensions)) {
                *count += 1;
            }
        }
        let scale = random.within(10, 40);
        for number in &mut row {
            *number = *number * scale + random.within(0, 1);
        }
        if row.iter().all(|number| *number <= 100) {
            return row;
        }
    }
}

/// Class 1: one dimension of 50–100, the others 0–25, n/d items for each dimension. 2 and 3: normal. 4–6: one demand in
/// ten is drawn around a large mean.
pub(super) fn mixed(id: InstanceId, random: &mut Random) -> Drawn {
    let number = |item: usize, dimension: usize, random: &mut Random| {
        let (large, small, deviation) = match id.class {
            1 if item % id.dimensions == dimension => return random.within(50, 100),
            1 => return random.within(0, 25),
            2 => return normal(random, 20.0, 10.0),
            3 => return normal(random, 30.0, 15.0),
            4 => (70.0, 30.0, 15.0),
            5 => (80.0, 20.0, 10.0),
            _ => (70.0, 15.0, 10.0),
        };
        let mean = if random.below(10) == 0 { large } else { small };
        normal(random, mean, deviation)
    };
    let row = |item: usize| (0..id.dimensions).map(|dimension| number(item, dimension, random)).collect();
    Drawn { rows: (0..id.items).map(row).collect(), capacity: vec![100; id.dimensions] }
}
