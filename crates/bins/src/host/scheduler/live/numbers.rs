//! Hashing of ids that are numbers already: one multiplication.

use std::hash::{BuildHasher, Hasher};

/// Builds the hasher of numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ByNumber;

/// Mixes numbers by multiplication with the golden ratio.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mixed(u64);

impl BuildHasher for ByNumber {
    type Hasher = Mixed;

    fn build_hasher(&self) -> Mixed {
        Mixed::default()
    }
}

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // Tables take their place from the low bits and their tag from the high ones.
        self.0 = mixed ^ (mixed >> 32);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use orlop_core::id::{Epoch, JobId};

    use super::*;

    #[test]
    fn ids_in_a_row_spread_over_low_bits() {
        let ids = (0..1024).filter_map(|counter| JobId::new(Epoch(7), counter));
        let places: HashSet<u64> = ids.map(|id| ByNumber.hash_one(id) & 1023).collect();
        assert!(places.len() > 512, "{}", places.len());
    }
}
