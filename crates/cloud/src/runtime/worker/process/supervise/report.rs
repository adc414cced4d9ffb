//! Entries of the journal of an attempt under a supervisor.

use serde::{Deserialize, Serialize};

use crate::runtime::process::identity::Identity;
use crate::runtime::worker::event::{AttemptEnd, LogChunk, Started};

/// What a supervisor says of the attempt that it keeps.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Report {
    /// The process that keeps it; the first.
    Supervisor(Identity),
    /// Its process or container runs.
    Started(Started),
    /// It wrote something.
    Log(LogChunk),
    /// It ended; the last.
    Ended(AttemptEnd),
}
