//! The index of classes that fit nowhere, or only where something grew, by the magnitudes of their cpu and memory requests: which of them could fit
//! what a worker has free. Owns the buckets and the test by cpu and memory; the exact test is the caller's.

use serde::{Deserialize, Serialize};

use crate::fleet::table::magnitude;
/// Buckets by magnitude of cpu, then of memory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Refused {
    buckets: Vec<Vec<Seated>>,
    /// Per magnitude of cpu, which magnitudes of memory have classes.
    rows: [u64; SIDE],
}

/// A class with what it asks of cpu and memory, so that those that cannot fit are not even looked up.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Seated {
    class: u32,
    cpu: i32,
    memory: i32,
}

/// Magnitudes of an `i32`: 0 to 31.
const SIDE: usize = 32;

impl Default for Refused {
    fn default() -> Self {
        Self { buckets: vec![Vec::new(); SIDE * SIDE], rows: [0; SIDE] }
    }
}

impl Refused {
    /// Where classes with this need stand.
    fn bucket(cpu: i32, memory: i32) -> (usize, usize) {
        (magnitude(cpu) as usize % SIDE, magnitude(memory) as usize % SIDE)
    }

    /// Adds a class by what it asks of cpu and memory; returns its seat.
    pub(crate) fn insert(&mut self, need: (i32, i32), class: u32) -> u32 {
        let (row, column) = Self::bucket(need.0, need.1);
        let Some(bucket) = self.buckets.get_mut(row * SIDE + column) else { return 0 };
        self.rows[row] |= 1 << column;
        bucket.push(Seated { class, cpu: need.0, memory: need.1 });
        u32::try_from(bucket.len() - 1).unwrap_or(0)
    }

    /// Takes a class out; returns the class that now has its seat.
    pub(crate) fn remove(&mut self, need: (i32, i32), seat: u32) -> Option<u32> {
        let (row, column) = Self::bucket(need.0, need.1);
        let bucket = self.buckets.get_mut(row * SIDE + column)?;
        if (seat as usize) < bucket.len() {
            bucket.swap_remove(seat as usize);
        }
        if bucket.is_empty() {
            self.rows[row] &= !(1 << column);
        }
        bucket.get(seat as usize).map(|seated| seated.class)
    }

    /// Collects every class that asks at most this much of cpu and memory.
    pub(crate) fn within(&self, cpu: i32, memory: i32, found: &mut Vec<u32>) {
        found.clear();
        let (last, column) = Self::bucket(cpu, memory);
        let upto = (2_u64 << column) - 1;
        for (row, mask) in self.rows.iter().enumerate().take(last + 1) {
            let mut mask = mask & upto;
            while mask != 0 {
                let column = mask.trailing_zeros() as usize;
                mask &= mask - 1;
                let bucket = self.buckets.get(row * SIDE + column).map_or(&[][..], Vec::as_slice);
                found.extend(
                    bucket
                        .iter()
                        .filter(|seated| seated.cpu <= cpu && seated.memory <= memory)
                        .map(|seated| seated.class),
                );
            }
        }
    }
}
