//! How often heads of a queue were passed over by `dot-product`. Owns that each job or element is counted by
//! itself: what comes in front of one, or leaves from there, changes nothing about it.

use serde::{Deserialize, Serialize};

use super::Key;

/// A job or element that waits, by the order of its queue.
pub(crate) type QueueEntry = (Key, u32);

/// The counts of those that were passed over and may still wait, the first of the queue last.
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

    /// The first of the queue is passed over once more; whoever was before it does not wait any more.
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
    use super::*;

    #[test]
    fn whoever_comes_in_front_is_counted_by_itself() {
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
