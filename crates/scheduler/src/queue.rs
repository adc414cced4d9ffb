//! Ready queues: jobs of one band, tenant and class in order of priority and submission, which of a tenant's queues is
//! next among open classes, and how often heads were passed over. Owns order and lanes; never decides whose turn it is.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::class::OpenClasses;

/// Order of a job inside its band: priority, then id, which grows with submission.
pub(crate) type Key = (u8, u64);

/// A queue.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Queue {
    pub(crate) tenant: u32,
    pub(crate) band: usize,
    pub(crate) class: u32,
    /// By priority inside the band.
    pub(crate) lists: [Fifo; 4],
    /// It has jobs, and an entry in its lane.
    pub(crate) lined: bool,
    /// How often its heads were passed over by `dot-product`.
    #[serde(default)]
    pub(crate) passes: Passes,
}

impl Queue {
    /// The first job, as the caller says which entries still wait.
    pub(crate) fn head(&mut self, valid: impl Fn(Entry) -> bool) -> Option<(Key, Entry)> {
        for (step, list) in (0_u8..).zip(&mut self.lists) {
            if let Some((id, entry)) = list.head(&valid) {
                return Some(((step, id), entry));
            }
        }
        None
    }

    /// Jobs that wait, an array counting as one.
    pub(crate) fn len(&self) -> u64 {
        self.lists.iter().map(Fifo::len).sum()
    }

    /// Takes the first job of a priority out, after `head` found it.
    pub(crate) fn pop(&mut self, (step, id): Key) {
        if let Some(list) = self.lists.get_mut(usize::from(step)) {
            list.pop(id);
        }
    }
}

/// A waiting job: its slot and a stamp that changes when it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) job: u32,
    pub(crate) stamp: u32,
}

/// Jobs of one priority in order of their ids. Entries that no longer wait are dropped when they are met, or when they are
/// more than those that do.
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

/// A queue with jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LaneEntry {
    pub(crate) class: u32,
    pub(crate) queue: u32,
    /// Its head.
    pub(crate) key: Key,
    /// The tenant's quota has no room for its class.
    pub(crate) stopped: bool,
}

/// All queues with jobs, by class: there is one of each at most.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Lane {
    pub(crate) entries: Vec<LaneEntry>,
    /// Union of `1 << (class % 64)` over the entries that are not stopped.
    #[serde(skip)]
    pub(crate) mask: u64,
    /// By 64 classes: those of all entries, and those of the entries that are not stopped.
    #[serde(skip)]
    words: Vec<(u64, u64)>,
}

const fn split(class: u32) -> (usize, u32) {
    ((class / 64) as usize, class % 64)
}

/// What is below a bit.
const fn below(bit: u32) -> u64 {
    (1 << bit) - 1
}

impl Lane {
    /// Where the entry of a class is or would be, and whether it is there.
    fn seat(&self, class: u32) -> (usize, bool) {
        let (word, bit) = split(class);
        let before: u32 = self.words.iter().take(word).map(|(known, _)| known.count_ones()).sum();
        let known = self.words.get(word).map_or(0, |(known, _)| *known);
        ((before + (known & below(bit)).count_ones()) as usize, known >> bit & 1 == 1)
    }

    /// The entry of a class.
    pub(crate) fn get(&self, class: u32) -> Option<&LaneEntry> {
        let (seat, there) = self.seat(class);
        self.entries.get(seat).filter(|_| there)
    }

    /// The entry of a class, of which only the head may be changed.
    pub(crate) fn get_mut(&mut self, class: u32) -> Option<&mut LaneEntry> {
        let (seat, there) = self.seat(class);
        self.entries.get_mut(seat).filter(|_| there)
    }

    /// Adds a queue whose class has none. Cost: linear in the queues of the lane.
    pub(crate) fn insert(&mut self, entry: LaneEntry) {
        let (seat, there) = self.seat(entry.class);
        debug_assert!(!there, "a class has one queue in a lane");
        self.entries.insert(seat.min(self.entries.len()), entry);
        self.refresh();
    }

    /// Takes the queue of a class out. Cost: linear in the queues of the lane.
    pub(crate) fn remove(&mut self, class: u32) {
        let (seat, there) = self.seat(class);
        if there && seat < self.entries.len() {
            self.entries.remove(seat);
            self.refresh();
        }
    }

    /// Works out again what is known of the entries together, after some have stopped or may go on.
    pub(crate) fn refresh(&mut self) {
        self.words.clear();
        self.mask = 0;
        for entry in &self.entries {
            let (word, bit) = split(entry.class);
            if self.words.len() <= word {
                self.words.resize(word + 1, (0, 0));
            }
            if let Some((known, going)) = self.words.get_mut(word) {
                let going_too = u64::from(!entry.stopped) << bit;
                *known |= 1 << bit;
                *going |= going_too;
                self.mask |= going_too;
            }
        }
    }

    /// Whether a queue that is not stopped has an open class.
    pub(crate) fn any(&self, open: &OpenClasses) -> bool {
        self.words.iter().zip(open.words()).any(|((_, going), open)| going & open != 0)
    }

    /// The queue whose head is first among those that are not stopped and whose class is open.
    pub(crate) fn first(&self, open: &OpenClasses) -> Option<LaneEntry> {
        let (mut before, mut best): (u32, Option<&LaneEntry>) = (0, None);
        for ((known, going), open) in self.words.iter().zip(open.words()) {
            let mut ready = going & open;
            while ready != 0 {
                let bit = ready.trailing_zeros();
                ready &= ready - 1;
                let entry = self.entries.get((before + (known & below(bit)).count_ones()) as usize);
                best = match (best, entry) {
                    (Some(best), Some(entry)) if entry.key >= best.key => Some(best),
                    (best, entry) => entry.or(best),
                };
            }
            before += known.count_ones();
        }
        best.copied()
    }
}

/// A job or element that waits, by the order of its queue.
pub(crate) type QueueEntry = (Key, u32);

/// The counts of those that were passed over and may still wait, the first of the queue last. Each job or element is counted by
/// itself: what comes in front of one, or leaves from there, changes nothing about it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Passes(Vec<(QueueEntry, u8)>);

impl Passes {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How often this one was passed over since it came.
    pub(crate) fn of(&self, place: QueueEntry) -> u8 {
        self.0.iter().rev().find(|(known, _)| *known == place).map_or(0, |(_, count)| *count)
    }

    /// The first of the queue is passed over once more; entries that were before it do not wait any more.
    pub(crate) fn count(&mut self, head: QueueEntry) {
        while self.0.last().is_some_and(|(known, _)| *known < head) {
            self.0.pop();
        }
        match self.0.last_mut() {
            Some((known, count)) if *known == head => *count = count.saturating_add(1),
            _ => self.0.push((head, 1)),
        }
    }

    /// One is not in the queue any more: if it comes back, it begins anew.
    pub(crate) fn forget(&mut self, place: QueueEntry) {
        self.0.retain(|(known, _)| *known != place);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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

    proptest! {
        #[test]
        fn law_the_first_open_queue_is_found(steps in prop::collection::vec((0..150_u32, 0..3_u8, 0..9_u64), 0..120)) {
            let (mut lane, mut open, mut model) = (Lane::default(), OpenClasses::default(), BTreeMap::new());
            for (class, step, head) in steps {
                match (step, lane.get(class).is_some()) {
                    (0, true) => {
                        lane.remove(class);
                        model.remove(&class);
                    }
                    (1, true) => open.set(class, !open.has(class)),
                    (_, true) => {
                        lane.get_mut(class).unwrap().stopped ^= true;
                        lane.refresh();
                        model.entry(class).and_modify(|entry: &mut LaneEntry| entry.stopped ^= true);
                    }
                    (_, false) => {
                        // No two jobs have the same id.
                        let key = (0, head * 200 + u64::from(class));
                        let entry = LaneEntry { class, queue: class, key, stopped: false };
                        lane.insert(entry);
                        model.insert(class, entry);
                        open.set(class, step == 1);
                    }
                }
                prop_assert_eq!(&lane.entries, &model.values().copied().collect::<Vec<_>>());
                let ready = || model.values().filter(|entry| !entry.stopped && open.has(entry.class));
                prop_assert_eq!(lane.first(&open), ready().min_by_key(|entry| entry.key).copied());
                prop_assert_eq!(lane.any(&open), ready().next().is_some());
                let going = model.values().filter(|entry| !entry.stopped);
                prop_assert_eq!(lane.mask, going.fold(0, |mask, entry| mask | 1_u64 << (entry.class % 64)));
            }
        }
    }

    #[test]
    fn an_entry_that_comes_in_front_is_counted_by_itself() {
        let mut passes = Passes::default();
        let (first, last) = (((0, 1), 0), ((0, 2), 7));
        (0..3).for_each(|_| passes.count(last));
        passes.count(first);
        assert_eq!((passes.of(first), passes.of(last)), (1, 3));
        passes.forget(first);
        assert_eq!((passes.of(first), passes.of(last)), (0, 3));
        passes.count(first);
        passes.count(last);
        assert_eq!((passes.of(first), passes.of(last)), (0, 4), "nobody is first behind another one");
    }
}
