//! Attempts that may be ended for more urgent work, by priority number: what preemption looks at instead of everything that
//! runs. Owns the index; whether one of them may be ended right now is asked of its record.

use std::collections::BTreeSet;

use super::record::Attempt;

/// The index: priority number, worker and slot of every attempt of a preemptible job, of a gang of all its members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Preemptibles {
    known: BTreeSet<(u8, u32, u32)>,
}

impl Preemptibles {
    /// Notes an attempt that was just made. Cost: logarithmic, and none for what may not be preempted.
    pub(super) fn insert(&mut self, slot: u32, attempt: &Attempt) {
        if let Some(priority) = attempt.preemptible {
            self.known.insert((priority, attempt.worker, slot));
        }
    }

    /// Forgets an attempt that has ended.
    pub(super) fn remove(&mut self, slot: u32, attempt: &Attempt) {
        if let Some(priority) = attempt.preemptible {
            self.known.remove(&(priority, attempt.worker, slot));
        }
    }

    /// The greatest priority number, which is the least urgent; none if nothing may be preempted.
    pub(super) fn worst(&self) -> Option<u8> {
        self.known.last().map(|(priority, ..)| *priority)
    }

    /// Worker and slot of the attempts whose priority number is at least this.
    pub(super) fn from(&self, least: u8) -> impl Iterator<Item = (u32, u32)> {
        self.known.range((least, 0, 0)..).map(|(_, worker, slot)| (*worker, *slot))
    }
}
