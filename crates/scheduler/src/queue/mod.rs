//! Ready queues: jobs of one band, tenant and class in order of priority and submission. Owns order
//! and lanes; never decides whose turn it is.

use serde::{Deserialize, Serialize};
mod fifo;
mod lane;
mod passes;

pub(crate) use fifo::{Entry, Fifo};
pub(crate) use lane::{Lane, LaneEntry};
pub(crate) use passes::{Passes, QueueEntry};

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
