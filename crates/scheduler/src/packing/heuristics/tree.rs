//! Finds the first bin with enough room among many: a tree over bins with the most room of each subtree (Johnson, "Fast
//! algorithms for bin packing", 1974), eight children a node so that they share a cache line, all dimensions of a vector
//! rounded down into the lanes of one word. Owns the maxima; whether a bin really has room is asked of the caller.

/// Children of a node.
const CHILDREN: usize = 8;

/// O(log n) per query in one dimension; in several a subtree may promise room that none of its bins has at once.
pub(in crate::packing) struct Tree {
    lanes: Lanes,
    /// The bins, then what eight of them have at most, and so on up to a level of eight.
    levels: Vec<Vec<u64>>,
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
        let lanes = Lanes::new(capacity);
        let full = lanes.word(capacity);
        let mut levels = Vec::new();
        let mut len = count.max(1);
        loop {
            let padded = len.next_multiple_of(CHILDREN);
            levels.push(vec![full; padded]);
            if padded == CHILDREN {
                return Self { lanes, levels };
            }
            len = padded / CHILDREN;
        }
    }

    /// A tree over bins of which none has room yet.
    pub(in crate::packing) fn closed(count: usize, capacity: &[u64]) -> Self {
        let mut tree = Self::new(count, capacity);
        tree.levels.iter_mut().for_each(|level| level.fill(0));
        tree
    }

    /// The first bin from `from` on that seems to have room and that `accepts` takes; it may be past the last one.
    pub(in crate::packing) fn first(
        &self,
        demand: &[u64],
        from: usize,
        accepts: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let demand = self.lanes.word(demand);
        let top = self.levels.len() - 1;
        if self.levels[0].len() <= from {
            return None;
        }
        let (mut level, mut at) = (0, from);
        let mut entered = false;
        loop {
            // What lies before is done: the node whose children begin here stands for all of them.
            while !entered && at.is_multiple_of(CHILDREN) && level < top {
                at /= CHILDREN;
                level += 1;
            }
            let end = at - at % CHILDREN + CHILDREN;
            let words = self.levels[level].get(at..end)?;
            match words.iter().position(|most| self.lanes.at_least(*most, demand) == self.lanes.tops) {
                None => (at, entered) = (end, false),
                Some(child) if level > 0 => {
                    (at, entered) = ((at + child) * CHILDREN, true);
                    level -= 1;
                }
                Some(bin) if accepts(at + bin) => return Some(at + bin),
                Some(bin) => (at, entered) = (at + bin + 1, false),
            }
        }
    }

    /// Tells the tree what is left in a bin.
    pub(in crate::packing) fn set(&mut self, bin: usize, free: &[u64]) {
        let (mut at, mut word) = (bin, self.lanes.word(free));
        for level in 0..self.levels.len() {
            if std::mem::replace(&mut self.levels[level][at], word) == word {
                break;
            }
            at /= CHILDREN;
            let children = &self.levels[level][at * CHILDREN..(at + 1) * CHILDREN];
            word = children.iter().fold(0, |most, child| self.lanes.greatest(most, *child));
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
        assert_eq!(tree.first(&[1], 8, |_| true), None);
        assert_eq!(tree.first(&[1], usize::MAX, |_| true), None);
    }
}
