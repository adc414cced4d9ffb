//! Keys of workers, which events and effects use in place of names.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One incarnation of a worker, as the scheduler knows it. Never reused: a worker that comes back gets another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WorkerKey {
    /// Its index among the workers.
    pub index: u32,
    /// Tells workers apart that had the same index one after the other.
    pub generation: u32,
}

impl WorkerKey {
    /// That of no worker.
    pub(crate) const NOBODY: Self = Self { index: crate::table::NONE, generation: 0 };
}

impl fmt::Display for WorkerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "w{}.{}", self.index, self.generation)
    }
}
