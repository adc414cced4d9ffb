//! Jobs of one priority in order of their ids. Owns the order; entries that no longer wait are dropped when they are met,
//! or when they are more than those that do.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// A waiting job: its slot and a stamp that changes when it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) job: u32,
    pub(crate) stamp: u32,
}

/// The list.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Fifo {
    /// Ascending ids, almost always appended.
    line: VecDeque<(Id, Entry)>,
    /// Those that came back, and those that came out of order.
    #[serde(with = "crate::table::stored::pairs")]
    back: BTreeMap<u64, Entry>,
    /// Entries that were given up where they stood.
    dead: usize,
}

/// An id in two halves, so that a line needs no padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Id(u32, u32);

impl Id {
    const fn new(id: u64) -> Self {
        Self((id >> 32) as u32, id as u32)
    }

    const fn get(self) -> u64 {
        (self.0 as u64) << 32 | self.1 as u64
    }
}

impl Fifo {
    /// Adds a job. Cost: constant at the end, else logarithmic in those that came back.
    pub(crate) fn push(&mut self, id: u64, entry: Entry) {
        if self.line.back().is_none_or(|(last, _)| last.get() < id) {
            self.line.push_back((Id::new(id), entry));
        } else {
            self.back.insert(id, entry);
        }
    }

    /// Notes that an entry was given up; sweeps when most are.
    pub(crate) fn give_up(&mut self, valid: impl Fn(Entry) -> bool) {
        self.dead += 1;
        if self.dead > 64 && self.dead * 2 > self.line.len() + self.back.len() {
            self.line.retain(|(_, entry)| valid(*entry));
            self.back.retain(|_, entry| valid(*entry));
            self.line.shrink_to(self.line.len() * 2);
            self.dead = 0;
        }
    }

    /// The job with the least id that still waits.
    pub(crate) fn head(&mut self, valid: impl Fn(Entry) -> bool) -> Option<(u64, Entry)> {
        // Without entries that were given up there is nothing to check, and no job to be read for it.
        while self.dead > 0
            && let Some((_, entry)) = self.line.front()
            && !valid(*entry)
        {
            self.line.pop_front();
            self.dead -= 1;
        }
        while self.dead > 0
            && let Some((_, entry)) = self.back.first_key_value()
            && !valid(*entry)
        {
            self.back.pop_first();
            self.dead -= 1;
        }
        let first = self.line.front().map(|(id, entry)| (id.get(), *entry));
        let other = self.back.first_key_value().map(|(id, entry)| (*id, *entry));
        match (first, other) {
            (Some(first), Some(other)) => Some(if other.0 < first.0 { other } else { first }),
            (first, other) => first.or(other),
        }
    }

    /// How many jobs wait.
    pub(crate) fn len(&self) -> u64 {
        (self.line.len() + self.back.len()).saturating_sub(self.dead) as u64
    }

    /// Takes the head out.
    pub(crate) fn pop(&mut self, id: u64) {
        if self.line.front().is_some_and(|(first, _)| first.get() == id) {
            self.line.pop_front();
            if self.line.is_empty() && self.line.capacity() > 1024 {
                self.line.shrink_to(0);
            }
        } else {
            self.back.remove(&id);
        }
    }

    /// All entries in order, given up or not; for views and checks.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Entry> {
        self.line.iter().map(|(_, entry)| *entry).chain(self.back.values().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn re_entries_come_back_by_their_original_sequence() {
        let mut list = Fifo::default();
        let entry = |job| Entry { job, stamp: 0 };
        [1, 2, 5].into_iter().for_each(|id| list.push(id, entry(id as u32)));
        list.pop(1);
        list.push(9, entry(9));
        list.push(1, entry(1));
        list.push(7, entry(7));
        let mut order = Vec::new();
        list.give_up(|entry| entry.job != 5);
        while let Some((id, _)) = list.head(|entry| entry.job != 5) {
            order.push(id);
            list.pop(id);
        }
        assert_eq!(order, [1, 2, 7, 9]);
    }

    #[test]
    fn entries_that_were_given_up_do_not_stay() {
        let mut list = Fifo::default();
        (0..1000).for_each(|id| list.push(id, Entry { job: id as u32, stamp: 0 }));
        (0..1000_u32).for_each(|gone| list.give_up(|entry| entry.job > gone));
        assert!(list.iter().count() < 130, "{}", list.iter().count());
    }
}
