//! How attempts and workers are addressed: the fence that travels in every message. Owns the values only.

use std::fmt;

use orlop_core::id::{Epoch, JobId};
use serde::{Deserialize, Serialize};

/// One attempt of a job, an element or a gang member, with its fencing token (attempt number and epoch).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AttemptRef {
    /// The job.
    pub job: JobId,
    /// The element of an array, else 0.
    pub index: u32,
    /// The member of a gang, else 0.
    pub member: u32,
    /// The attempt's number, from 1 without gaps per job or element.
    pub attempt: u32,
    /// The epoch of the server that issued it.
    pub epoch: Epoch,
}

impl fmt::Display for AttemptRef {
    /// `<job>.<index>#<attempt>@<epoch>`, of a gang member `<job>.m<member>#…`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.member == 0 {
            write!(f, "{}.{}#{}@{}", self.job, self.index, self.attempt, self.epoch)
        } else {
            write!(f, "{}.m{}#{}@{}", self.job, self.member, self.attempt, self.epoch)
        }
    }
}

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
