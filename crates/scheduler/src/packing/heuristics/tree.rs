//! Finds the first bin with enough room among many: a complete binary tree over bins with the most room of each subtree
//! (Johnson, "Fast algorithms for bin packing", 1974), all dimensions of a vector rounded down into the lanes of one word.
//! Owns the maxima; whether a bin really has room is asked of the caller.

/// O(log n) per query in one dimension; in several a subtree may promise room that none of its bins has at once.
pub(in crate::packing) struct Tree {
    lanes: Lanes,
    leaves: usize,
    most: Vec<u64>,
}

/// How vectors become words: each dimension loses so many low bits that it fits its lane, whose top bit stays 0.
struct Lanes {
    width: u32,
    shifts: Vec<u32>,
    tops: u64,
}

impl Lanes {
    fn new(capacity: &[u64]) -> Self {
        let width = (u64::BITS / capacity.len().max(1) as u32).max(2);
        let shifts = capacity.iter().map(|of| (u64::BITS - of.leading_zeros()).saturating_sub(width - 1)).collect();
        let tops = (0..capacity.len() as u32).fold(0, |tops, lane| tops | (1 << (lane * width + width - 1)));
        Self { width, shifts, tops }
    }

    fn word(&self, vector: &[u64]) -> u64 {
        let lanes = vector.iter().zip(&self.shifts).rev();
        lanes.fold(0, |word, (amount, shift)| {
            word.checked_shl(self.width).unwrap_or(0) | amount.checked_shr(*shift).unwrap_or(0)
        })
    }

    /// Top bits of the lanes in which the first is at least the second.
    fn at_least(&self, first: u64, second: u64) -> u64 {
        (first | self.tops).wrapping_sub(second) & self.tops
    }

    fn greatest(&self, first: u64, second: u64) -> u64 {
        let tops = self.at_least(first, second);
        let chosen = tops - (tops >> (self.width - 1));
        (first & chosen) | (second & !chosen)
    }
}

impl Tree {
    /// A tree over `count` bins of equal room.
    pub(in crate::packing) fn new(count: usize, capacity: &[u64]) -> Self {
        let (lanes, leaves) = (Lanes::new(capacity), count.next_power_of_two());
        let most = vec![lanes.word(capacity); 2 * leaves];
        Self { lanes, leaves, most }
    }

    /// A tree over bins of which none has room yet.
    pub(in crate::packing) fn closed(count: usize, capacity: &[u64]) -> Self {
        let mut tree = Self::new(count, capacity);
        tree.most.fill(0);
        tree
    }

    /// The first bin from `from` on that seems to have room and that `accepts` takes.
    pub(in crate::packing) fn first(
        &self,
        demand: &[u64],
        from: usize,
        accepts: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        if from >= self.leaves {
            return None;
        }
        let demand = self.lanes.word(demand);
        let mut node = self.leaves + from;
        // Climb while the node is a left child: its parent begins at the same bin.
        while node > 1 && node.is_multiple_of(2) {
            node /= 2;
        }
        loop {
            if self.lanes.at_least(self.most[node], demand) == self.lanes.tops {
                if node < self.leaves {
                    node *= 2;
                    continue;
                }
                if accepts(node - self.leaves) {
                    return Some(node - self.leaves);
                }
            }
            // The next subtree to the right; past the last one all bits of the node are ones.
            node >>= node.trailing_ones();
            if node == 0 {
                return None;
            }
            node += 1;
        }
    }

    /// Tells the tree what is left in a bin.
    pub(in crate::packing) fn set(&mut self, bin: usize, free: &[u64]) {
        let mut node = self.leaves + bin;
        self.most[node] = self.lanes.word(free);
        while node > 1 {
            node /= 2;
            let most = self.lanes.greatest(self.most[2 * node], self.most[2 * node + 1]);
            if std::mem::replace(&mut self.most[node], most) == most {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bin_with_room_is_the_one_a_scan_finds() {
        let mut random = crate::packing::random::Random::new(3);
        for (count, most) in [(1, 9), (2, 9), (3, 1), (7, 100), (8, u64::MAX), (33, 1 << 40)] {
            let mut tree = Tree::new(count, &[most, most, most]);
            let mut free = vec![[most; 3]; count];
            for _ in 0..200 {
                let bin = random.below(count);
                free[bin] = [0; 3].map(|_| random.within(0, most));
                tree.set(bin, &free[bin]);
                let demand = [0; 3].map(|_| random.within(0, most));
                let (from, odd) = (random.below(count), random.below(3));
                let fits = |bin: usize| bin < count && bin % 3 != odd && (0..3).all(|d| demand[d] <= free[bin][d]);
                assert_eq!(tree.first(&demand, from, fits), (from..count).find(|bin| fits(*bin)));
            }
        }
    }

    #[test]
    fn sixteen_dimensions_share_a_word() {
        let mut tree = Tree::new(2, &[u64::MAX; 16]);
        let mut free = [u64::MAX; 16];
        free[15] = 0;
        tree.set(0, &free);
        assert_eq!(tree.first(&[1 << 62; 16], 0, |_| true), Some(1));
        assert_eq!(tree.first(&[0; 16], 0, |_| true), Some(0));
    }

    #[test]
    fn one_dimension_has_a_word_for_itself() {
        let mut tree = Tree::new(2, &[u64::MAX]);
        tree.set(0, &[1 << 20]);
        assert_eq!(tree.first(&[1 << 21], 0, |_| true), Some(1));
        assert_eq!(tree.first(&[1], 2, |_| true), None);
    }
}
