//! The queues of one tenant in one band that have jobs. Owns which of them is next; whether a class is blocked is asked.

use super::Key;
use serde::{Deserialize, Serialize};

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

/// All queues with jobs, in no order.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Lane {
    pub(crate) entries: Vec<LaneEntry>,
    /// Union of `1 << (class % 64)` over the entries that are not stopped, or more.
    pub(crate) mask: u64,
}

impl Lane {
    /// Adds a queue; returns its seat.
    pub(crate) fn insert(&mut self, entry: LaneEntry) -> u32 {
        self.entries.push(entry);
        self.mask |= 1 << (entry.class % 64);
        u32::try_from(self.entries.len() - 1).unwrap_or(u32::MAX)
    }

    /// Takes a queue out; returns the queue that now has its seat.
    pub(crate) fn remove(&mut self, seat: u32) -> Option<u32> {
        if (seat as usize) < self.entries.len() {
            self.entries.swap_remove(seat as usize);
        }
        self.refresh();
        self.entries.get(seat as usize).map(|entry| entry.queue)
    }

    /// Works the mask out again.
    pub(crate) fn refresh(&mut self) {
        let live = self.entries.iter().filter(|entry| !entry.stopped);
        self.mask = live.fold(0, |mask, entry| mask | 1 << (entry.class % 64));
    }

    pub(crate) fn get_mut(&mut self, seat: u32) -> Option<&mut LaneEntry> {
        self.entries.get_mut(seat as usize)
    }

    /// Whether a queue that is not stopped has a class of which `open` holds.
    pub(crate) fn any(&self, open: impl Fn(u32) -> bool) -> bool {
        self.entries.iter().any(|entry| !entry.stopped && open(entry.class))
    }

    /// The queue whose head is first among those whose class is open.
    pub(crate) fn first(&self, open: impl Fn(u32) -> bool) -> Option<LaneEntry> {
        let ready = self.entries.iter().filter(|entry| !entry.stopped && open(entry.class));
        ready.min_by_key(|entry| entry.key).copied()
    }
}
