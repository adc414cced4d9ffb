//! Numbers with which instances are made. Owns the draws that several sets share; never names a set.

use super::super::random::Random;

/// Demands and the capacity of a bin.
pub(super) struct Drawn {
    pub(super) rows: Vec<Vec<u64>>,
    pub(super) capacity: Vec<u64>,
}

/// Independent numbers of a closed range.
pub(super) fn uniform(random: &mut Random, dimensions: usize, least: u64, most: u64) -> Vec<u64> {
    (0..dimensions).map(|_| random.within(least, most)).collect()
}

/// A rounded normal number, drawn again until it lies in 0..=100.
pub(super) fn normal(random: &mut Random, mean: f64, deviation: f64) -> u64 {
    loop {
        let drawn = (mean + deviation * random.normal()).round();
        if (0.0..=100.0).contains(&drawn) {
            return drawn as u64;
        }
    }
}

/// Three rows of which each dimension adds up to the capacity; `pair` draws two of the three numbers.
pub(super) fn triple(dimensions: usize, capacity: u64, mut pair: impl FnMut() -> (u64, u64)) -> [Vec<u64>; 3] {
    let mut rows = [const { Vec::new() }; 3];
    for _ in 0..dimensions {
        let (first, second) = pair();
        for (row, number) in rows.iter_mut().zip([first, second, capacity - first - second]) {
            row.push(number);
        }
    }
    rows
}
