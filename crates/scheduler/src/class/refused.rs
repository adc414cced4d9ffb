//! The index of classes that fit nowhere, or only where something grew, by the magnitudes of their cpu and memory requests (section 2.5): which of them could fit
//! what a worker has free. Owns the buckets; the exact test is the caller's.

use serde::{Deserialize, Serialize};
/// Buckets by magnitude of cpu, then of memory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Refused {
    buckets: Vec<Vec<u32>>,
    /// Per magnitude of cpu, which magnitudes of memory have classes.
    rows: [u64; SIDE],
}

/// Magnitudes of an `i32`: 0 to 31.
const SIDE: usize = 32;

impl Default for Refused {
    fn default() -> Self {
        Self { buckets: vec![Vec::new(); SIDE * SIDE], rows: [0; SIDE] }
    }
}

impl Refused {
    /// Adds a class; returns its seat.
    pub(crate) fn insert(&mut self, (cpu, memory): (u32, u32), class: u32) -> u32 {
        let (cpu, memory) = (cpu as usize % SIDE, memory as usize % SIDE);
        let Some(bucket) = self.buckets.get_mut(cpu * SIDE + memory) else { return 0 };
        self.rows[cpu] |= 1 << memory;
        bucket.push(class);
        u32::try_from(bucket.len() - 1).unwrap_or(0)
    }

    /// Takes a class out; returns the class that now has its seat.
    pub(crate) fn remove(&mut self, (cpu, memory): (u32, u32), seat: u32) -> Option<u32> {
        let (cpu, memory) = (cpu as usize % SIDE, memory as usize % SIDE);
        let bucket = self.buckets.get_mut(cpu * SIDE + memory)?;
        if (seat as usize) < bucket.len() {
            bucket.swap_remove(seat as usize);
        }
        if bucket.is_empty() {
            self.rows[cpu] &= !(1 << memory);
        }
        bucket.get(seat as usize).copied()
    }

    /// Collects every class whose request is in a bucket of at most these magnitudes.
    pub(crate) fn within(&self, (cpu, memory): (u32, u32), found: &mut Vec<u32>) {
        found.clear();
        let upto = (2_u64 << memory.min(31)) - 1;
        for (row, mask) in self.rows.iter().enumerate().take(cpu.min(31) as usize + 1) {
            let mut mask = mask & upto;
            while mask != 0 {
                let column = mask.trailing_zeros() as usize;
                mask &= mask - 1;
                if let Some(bucket) = self.buckets.get(row * SIDE + column) {
                    found.extend_from_slice(bucket);
                }
            }
        }
    }
}
