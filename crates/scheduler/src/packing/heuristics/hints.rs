//! Where first fit may begin to look. Room only shrinks while first fit packs, so a bin that once had no room for the
//! smallest demand of a cell of demands has none for any demand of that cell ever after. Owns one bin for each cell.

use super::tree::Tree;

/// Cells are named by this many bits in all, shared by the dimensions.
const BITS: usize = 12;

pub(in crate::packing) struct Hints {
    bits: usize,
    capacity: Vec<u64>,
    first: Vec<usize>,
}

impl Hints {
    pub(in crate::packing) fn new(capacity: &[u64]) -> Self {
        let bits = (BITS / capacity.len()).max(1);
        let named = (bits * capacity.len()).min(BITS);
        Self { bits, capacity: capacity.to_vec(), first: vec![0; 1 << named] }
    }

    /// The first bin that may have room for a demand.
    pub(in crate::packing) fn from(&mut self, tree: &Tree, demand: &[u64]) -> usize {
        let mut cell = 0;
        let mut corner = vec![0; demand.len()];
        let named = demand.iter().zip(&self.capacity).zip(&mut corner).take(BITS / self.bits);
        for ((&demand, &capacity), corner) in named {
            let width = u128::from(capacity) + 1;
            let part = (u128::from(demand) << self.bits) / width;
            *corner = (part * width).div_ceil(1 << self.bits) as u64;
            cell = (cell << self.bits) | part as usize;
        }
        let Some(first) = self.first.get_mut(cell) else { return 0 };
        *first = tree.first(&corner, *first, |_| true).unwrap_or(usize::MAX);
        *first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_bin_before_the_hint_has_room() {
        let mut random = crate::packing::random::Random::new(5);
        for capacity in [[7, 7], [100, 1000], [u64::MAX, 1]] {
            let (mut tree, mut hints) = (Tree::new(40, &capacity), Hints::new(&capacity));
            let mut free = vec![capacity; 40];
            for _ in 0..400 {
                let bin = random.below(40);
                free[bin] = free[bin].map(|free| random.within(0, free));
                tree.set(bin, &free[bin]);
                let demand = capacity.map(|capacity| random.within(0, capacity));
                let from = hints.from(&tree, &demand);
                let room = |bin: &[u64; 2]| demand[0] <= bin[0] && demand[1] <= bin[1];
                assert!(free.iter().take(from).all(|bin| !room(bin)), "{from} {demand:?} {free:?}");
            }
        }
    }
}
