//! The queues of one tenant in one band that have jobs. Owns which of them is next among open classes.

use serde::{Deserialize, Serialize};

use super::Key;
use crate::class::open::OpenClasses;

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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

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
}
