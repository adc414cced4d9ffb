//! What a tenant reserves its limits for: the job, and those that wait longest for these limits. Owns the record; who reserves for
//! whom and for how long is decided by the engine.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::queue::Key;

/// The first job of a tenant and band, which the tenant's limits stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Watched {
    pub(crate) job: u32,
    /// When it was first seen to be stopped.
    pub(crate) since: u64,
}

/// The job that a tenant reserves for: the first of its band.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReservedJob {
    pub(crate) job: u32,
    pub(crate) queue: u32,
    pub(crate) band: usize,
    pub(crate) key: Key,
}

/// Whom a tenant reserves for, and whom it may save for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct QuotaReservation {
    /// By band.
    pub(crate) watched: [Option<Watched>; 3],
    pub(crate) target: Option<ReservedJob>,
    /// The timer that looks at those that are watched is set.
    pub(crate) timer: bool,
    /// Whether the workers that are there could hold the first job of a queue if they were empty, as far as that was asked
    /// since these or the limits last changed.
    #[serde(default)]
    pub(crate) possible: BTreeMap<u32, bool>,
}

impl QuotaReservation {
    /// Whether there is anybody that it is or may be reserved for, be it with other workers.
    pub(crate) fn is_on(&self) -> bool {
        self.target.is_some() || self.watched.iter().any(Option::is_some) || self.possible.values().any(|known| !known)
    }
}
