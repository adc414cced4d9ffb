//! Sets and maps of element numbers as ranges: a million neighbours cost as much as one. Owns splitting and merging.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A map from numbers to values that stores equal neighbours once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound(serialize = "V: Serialize", deserialize = "V: Deserialize<'de>"))]
pub(crate) struct RangeMap<V> {
    /// Last number and value by first number; ranges neither overlap nor touch with equal values.
    #[serde(with = "crate::table::stored::pairs")]
    ranges: BTreeMap<u32, (u32, V)>,
    len: u64,
}

impl<V> Default for RangeMap<V> {
    fn default() -> Self {
        Self { ranges: BTreeMap::new(), len: 0 }
    }
}

impl<V: Copy + Eq> RangeMap<V> {
    pub(crate) fn get(&self, at: u32) -> Option<V> {
        let (_, (last, value)) = self.ranges.range(..=at).next_back()?;
        (*last >= at).then_some(*value)
    }

    /// How many numbers have a value.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Gives every number from `first` to `last` this value.
    pub(crate) fn insert(&mut self, first: u32, last: u32, value: V) {
        if first > last {
            return;
        }
        self.remove(first, last);
        self.len += u64::from(last - first) + 1;
        let (mut first, mut last) = (first, last);
        let before = self.ranges.range(..first).next_back().map(|(start, (end, value))| (*start, *end, *value));
        if let Some((start, end, _)) =
            before.filter(|(_, end, known)| end.checked_add(1) == Some(first) && *known == value)
        {
            self.ranges.remove(&start);
            debug_assert!(end < first, "ranges do not overlap");
            first = start;
        }
        let after = last.checked_add(1).and_then(|next| self.ranges.get(&next).copied().map(|found| (next, found)));
        if let Some((start, (end, _))) = after.filter(|(_, (_, known))| *known == value) {
            self.ranges.remove(&start);
            last = end;
        }
        self.ranges.insert(first, (last, value));
    }

    /// Takes the values of every number from `first` to `last` away and returns them.
    pub(crate) fn remove(&mut self, first: u32, last: u32) -> Vec<(u32, u32, V)> {
        let mut gone = Vec::new();
        if first > last {
            return gone;
        }
        self.split(first);
        while let Some((&start, &(end, value))) = self.ranges.range(first..=last).next() {
            self.ranges.remove(&start);
            if end > last {
                self.ranges.insert(last + 1, (end, value));
            }
            let end = end.min(last);
            self.len -= u64::from(end - start) + 1;
            gone.push((start, end, value));
        }
        gone
    }

    /// Cuts the range that `at` lies inside of, so that one begins with it.
    fn split(&mut self, at: u32) {
        if let Some((_, (last, value))) = self.ranges.range_mut(..at).next_back()
            && *last >= at
        {
            let rest = (*last, *value);
            *last = at - 1;
            self.ranges.insert(at, rest);
        }
    }

    /// First numbers, last numbers and values, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, u32, V)> {
        self.ranges.iter().map(|(first, (last, value))| (*first, *last, *value))
    }
}

/// A set of numbers as ranges.
pub(crate) type RangeSet = RangeMap<()>;

impl RangeSet {
    /// Takes the least number out.
    pub(crate) fn pop_first(&mut self) -> Option<u32> {
        let (first, (last, ())) = self.ranges.pop_first()?;
        if first < last {
            self.ranges.insert(first + 1, (last, ()));
        }
        self.len -= 1;
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn equal_neighbours_are_one_range() {
        let mut map = RangeMap::default();
        map.insert(5, 9, 'a');
        map.insert(0, 4, 'a');
        map.insert(u32::MAX, u32::MAX, 'b');
        assert_eq!(map.iter().collect::<Vec<_>>(), [(0, 9, 'a'), (u32::MAX, u32::MAX, 'b')]);
        map.insert(3, 6, 'c');
        assert_eq!(map.len(), 11);
        assert_eq!(map.remove(2, 3), [(2, 2, 'a'), (3, 3, 'c')]);
    }

    proptest! {
        #[test]
        fn law_it_is_a_map(steps in prop::collection::vec((0..50_u32, 0..20_u32, 0..4_u8), 0..60)) {
            let (mut map, mut model) = (RangeMap::default(), BTreeMap::new());
            for (first, size, value) in steps {
                let last = first + size;
                if value == 3 {
                    map.remove(first, last);
                } else {
                    map.insert(first, last, value);
                }
                for at in first..=last {
                    if value == 3 { model.remove(&at) } else { model.insert(at, value) };
                }
                prop_assert_eq!(map.len(), model.len() as u64);
                for at in 0..75 {
                    prop_assert_eq!(map.get(at), model.get(&at).copied());
                }
                let ranges: Vec<_> = map.iter().collect();
                for pair in ranges.windows(2) {
                    prop_assert!(pair[0].1 < pair[1].0 && (pair[0].1 + 1 < pair[1].0 || pair[0].2 != pair[1].2));
                }
            }
        }

        #[test]
        fn law_a_set_gives_its_numbers_in_order(ranges in prop::collection::vec((0..50_u32, 0..5_u32), 0..9)) {
            let mut set = RangeSet::default();
            ranges.iter().for_each(|(first, size)| set.insert(*first, first + size, ()));
            let len = set.len();
            let numbers: Vec<u32> = std::iter::from_fn(|| set.pop_first()).collect();
            prop_assert!(numbers.is_sorted() && numbers.len() as u64 == len && set.len() == 0);
        }
    }
}
