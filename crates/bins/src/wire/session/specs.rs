//! Which specifications an agent has: the same bounded memory on both sides, the least recently used forgotten first. Never
//! decides what is sent.

use std::collections::{BTreeMap, HashMap};

/// Values by number, at most so many, the least recently used forgotten first.
#[derive(Clone, Debug)]
pub struct SpecCache<T> {
    room: usize,
    clock: u64,
    values: HashMap<u64, (u64, T)>,
    by_use: BTreeMap<u64, u64>,
}

impl<T> SpecCache<T> {
    /// An empty memory for `room` values, at least 1.
    #[must_use]
    pub fn new(room: usize) -> Self {
        Self { room: room.max(1), clock: 0, values: HashMap::new(), by_use: BTreeMap::new() }
    }

    /// The value of a number, which counts as a use of it.
    pub fn get(&mut self, number: u64) -> Option<&T> {
        let (used, value) = self.values.get_mut(&number)?;
        self.clock += 1;
        self.by_use.remove(used);
        *used = self.clock;
        self.by_use.insert(self.clock, number);
        Some(value)
    }

    /// Remembers a value.
    pub fn insert(&mut self, number: u64, value: T) {
        self.clock += 1;
        if let Some((used, _)) = self.values.insert(number, (self.clock, value)) {
            self.by_use.remove(&used);
        }
        self.by_use.insert(self.clock, number);
        while self.values.len() > self.room {
            let Some((_, oldest)) = self.by_use.pop_first() else { break };
            self.values.remove(&oldest);
        }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_is_forgotten() {
        let mut cache = SpecCache::new(2);
        cache.insert(1, "a");
        cache.insert(2, "b");
        assert_eq!(cache.get(1), Some(&"a"));
        cache.insert(3, "c");
        assert_eq!([2, 1, 3].map(|number| cache.get(number).copied()), [None, Some("a"), Some("c")]);
        cache.insert(3, "d");
        assert_eq!((cache.get(3).copied(), cache.len(), cache.is_empty()), (Some("d"), 2, false));
    }
}
