//! How workers are addressed.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One incarnation of a worker, as the scheduler knows it. Never reused: a worker that comes back gets another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WorkerKey {
    /// Its place among the workers.
    pub index: u32,
    /// Tells the users of that place apart.
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
