//! Which classes take part in rounds: they have jobs and are not blocked. Owns one bit per class and the union of these bits
//! modulo 64, by which trees of tenants are searched.

/// The bits.
#[derive(Clone, Debug)]
pub(crate) struct OpenClasses {
    bits: Vec<u64>,
    /// How many bits are set by number of the class modulo 64.
    counts: [u32; 64],
    mask: u64,
}

impl Default for OpenClasses {
    fn default() -> Self {
        Self { bits: Vec::new(), counts: [0; 64], mask: 0 }
    }
}

impl OpenClasses {
    /// Lets a class take part, or no longer.
    pub(crate) fn set(&mut self, class: u32, open: bool) {
        let (word, lane) = ((class / 64) as usize, (class % 64) as usize);
        if self.bits.len() <= word {
            if !open {
                return;
            }
            self.bits.resize(word + 1, 0);
        }
        let (Some(bits), Some(count)) = (self.bits.get_mut(word), self.counts.get_mut(lane)) else { return };
        let bit = 1_u64 << lane;
        match (*bits & bit != 0, open) {
            (false, true) => {
                *bits |= bit;
                *count += 1;
                self.mask |= bit;
            }
            (true, false) => {
                *bits &= !bit;
                *count -= 1;
                self.mask &= if *count == 0 { !bit } else { u64::MAX };
            }
            _ => {}
        }
    }

    /// Whether a class takes part.
    #[inline]
    pub(crate) fn has(&self, class: u32) -> bool {
        self.bits.get((class / 64) as usize).is_some_and(|bits| bits >> (class % 64) & 1 == 1)
    }

    /// The bits of 64 classes after the other; those that are missing are not set.
    pub(crate) fn words(&self) -> &[u64] {
        &self.bits
    }

    /// Union of `1 << (class % 64)` over the classes that take part.
    pub(crate) fn mask(&self) -> u64 {
        self.mask
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn law_it_is_a_set_with_the_union_of_its_members(steps in prop::collection::vec((0..200_u32, any::<bool>()), 0..300)) {
            let (mut open, mut model) = (OpenClasses::default(), BTreeSet::new());
            for (class, on) in steps {
                open.set(class, on);
                if on { model.insert(class); } else { model.remove(&class); }
                prop_assert!((0..200).all(|class| open.has(class) == model.contains(&class)));
                prop_assert_eq!(open.mask(), model.iter().fold(0, |mask, class| mask | 1_u64 << (class % 64)));
            }
        }
    }
}
