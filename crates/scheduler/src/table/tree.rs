//! A tree of least keys over numbered leaves, each with a mask of what it has to offer: which leaf with the least key has
//! any of what is wanted. Owns the search; masks are hints that the caller confirms.

use serde::{Deserialize, Serialize};
/// Keys of leaves that are not there.
const ABSENT: u64 = u64::MAX;

/// Leaves with a key and a mask, in a complete binary tree over a power of two of them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct LeastTree {
    /// Least key and union of masks below; node 1 is the root, node `leaves + n` is leaf `n`.
    nodes: Vec<(u64, u64)>,
    leaves: usize,
}

impl LeastTree {
    /// Sets key and mask of a leaf. A mask of 0 takes it out. Cost: the height of the tree.
    pub(crate) fn set(&mut self, leaf: u32, key: u64, mask: u64) {
        let leaf = leaf as usize;
        if leaf >= self.leaves {
            if mask == 0 {
                return;
            }
            self.grow(leaf + 1);
        }
        let mut at = self.leaves + leaf;
        let mut node = if mask == 0 { (ABSENT, 0) } else { (key.min(ABSENT - 1), mask) };
        while let Some(place) = self.nodes.get_mut(at) {
            if *place == node {
                return;
            }
            *place = node;
            let sibling = self.nodes.get(at ^ 1).copied().unwrap_or((ABSENT, 0));
            node = (node.0.min(sibling.0), node.1 | sibling.1);
            at /= 2;
            if at == 0 {
                break;
            }
        }
    }

    fn grow(&mut self, least: usize) {
        let old = std::mem::take(self);
        self.leaves = least.next_power_of_two();
        self.nodes = vec![(ABSENT, 0); self.leaves * 2];
        for (leaf, (key, mask)) in (0_u32..).zip(old.nodes.into_iter().skip(old.leaves)) {
            if mask != 0 {
                self.set(leaf, key, mask);
            }
        }
    }

    fn node(&self, at: usize) -> (u64, u64) {
        self.nodes.get(at).copied().unwrap_or((ABSENT, 0))
    }

    /// Whether a leaf may have any of `wanted`.
    pub(crate) fn any(&self, wanted: u64) -> bool {
        self.node(1).1 & wanted != 0
    }

    /// The leaf with the least key, then the least number, whose mask has any of `wanted` and that is confirmed.
    pub(crate) fn least(&self, wanted: u64, mut confirm: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut best: Option<(u64, usize)> = None;
        self.search(1, wanted, &mut best, &mut confirm);
        best.and_then(|(_, leaf)| u32::try_from(leaf).ok())
    }

    /// Depth is that of the tree, at most 32. The child with the lesser key is searched first.
    fn search(&self, at: usize, wanted: u64, best: &mut Option<(u64, usize)>, confirm: &mut impl FnMut(u32) -> bool) {
        let (key, mask) = self.node(at);
        if mask & wanted == 0
            || best.is_some_and(|(least, leaf)| key > least || (key == least && at_most(leaf, at, self.leaves)))
        {
            return;
        }
        if at >= self.leaves {
            let leaf = at - self.leaves;
            if u32::try_from(leaf).is_ok_and(confirm) {
                *best = Some((key, leaf));
            }
            return;
        }
        let (left, right) = (at * 2, at * 2 + 1);
        let (first, second) = if self.node(right).0 < self.node(left).0 { (right, left) } else { (left, right) };
        self.search(first, wanted, best, confirm);
        self.search(second, wanted, best, confirm);
    }
}

/// Whether every leaf below node `at` has a number of at least `leaf`.
fn at_most(leaf: usize, mut at: usize, leaves: usize) -> bool {
    while at < leaves {
        at *= 2;
    }
    leaf <= at - leaves
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn law_the_least_leaf_that_has_any(sets in prop::collection::vec((0..70_u32, 0..6_u64, 0..8_u64), 0..100), wanted in 0..8_u64, odd: bool) {
            let mut tree = LeastTree::default();
            let mut model = std::collections::BTreeMap::new();
            for (leaf, key, mask) in sets {
                tree.set(leaf, key, mask);
                model.insert(leaf, (key, mask));
            }
            let confirm = |leaf: u32| !odd || leaf % 2 == 1;
            let fit = model.iter().filter(|(leaf, (_, mask))| mask & wanted != 0 && confirm(**leaf));
            let expected = fit.min_by_key(|(leaf, (key, _))| (*key, **leaf)).map(|(leaf, _)| *leaf);
            prop_assert_eq!(tree.least(wanted, confirm), expected);
            prop_assert_eq!(tree.any(wanted), model.values().any(|(_, mask)| mask & wanted != 0));
        }
    }
}
