//! Types about tasks, which scheduler, store, protocol and workers share. A task is the unit of work that one attempt runs: a job
//! is one task, an array has one for each element, a gang one for each member.

#[cfg(feature = "hardware")]
mod demand;

use std::fmt;
use std::str::FromStr;
#[cfg(feature = "hardware")]
use std::sync::Arc;

#[cfg(feature = "hardware")]
pub use demand::{Band, Demand, DemandError, Priority};
use serde::{Deserialize, Serialize};

use crate::id::{Epoch, JobId};
use crate::named::named_enum;
#[cfg(feature = "hardware")]
use crate::spec::job::{LogPolicy, Pull, StepSpec};

named_enum! {
    /// When a worker may start an attempt.
    #[derive(Default)]
    pub enum StartMode("start mode") {
        /// At once: its capacity is charged.
        #[default]
        Now = "now",
        /// When an attempt of the same tenant and shape ([`Demand::inherits_from`]) ends on this worker, however it ends, be it
        /// unstarted: the oldest one that waits takes its place.
        Inherit = "inherit",
    }
}

/// Why an attempt is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum CancelReason {
    /// Somebody cancelled its job.
    User,
    /// It ran too long.
    Timeout,
    /// It makes room for more urgent work.
    Preempted,
    /// Its worker's drain deadline has come.
    Drain,
    /// A newer attempt has taken its place.
    Stale,
    /// Another member ended its gang.
    Gang,
}

/// One attempt of a task with its fencing token (attempt number and epoch). Ordered by job, element, attempt, member and epoch.
///
/// ```
/// use orlop_core::id::{Epoch, JobId};
/// use orlop_core::task::TaskRef;
/// let task = TaskRef { job: JobId::from_u64(7), index: 1, member: 0, attempt: 2, epoch: Epoch(3) };
/// assert_eq!(task.to_string(), "j0000000000007.1.0.2.3");
/// assert_eq!(task.to_string().parse(), Ok(task));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskRef {
    /// The job.
    pub job: JobId,
    /// The element of an array, else 0.
    pub index: u32,
    /// The attempt's number, from 1 without gaps per job or element.
    pub attempt: u32,
    /// The member of a gang, else 0.
    pub member: u32,
    /// The epoch of the server that issued it.
    pub epoch: Epoch,
}

impl fmt::Display for TaskRef {
    /// `<job>.<index>.<member>.<attempt>.<epoch>`: safe as the name of a file and of a container.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}.{}.{}", self.job, self.index, self.member, self.attempt, self.epoch.0)
    }
}

/// A text that names no attempt of a task.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` does not name an attempt; expected <job>.<index>.<member>.<attempt>.<epoch>")]
pub struct TaskRefError(String);

impl FromStr for TaskRef {
    type Err = TaskRefError;

    fn from_str(text: &str) -> Result<Self, TaskRefError> {
        let wrong = || TaskRefError(text.chars().take(64).collect());
        let mut parts = text.split('.');
        let mut next = || parts.next().ok_or_else(wrong);
        let task = Self {
            job: next()?.parse().map_err(|_| wrong())?,
            index: next()?.parse().map_err(|_| wrong())?,
            member: next()?.parse().map_err(|_| wrong())?,
            attempt: next()?.parse().map_err(|_| wrong())?,
            epoch: Epoch(next()?.parse().map_err(|_| wrong())?),
        };
        // Only the form that is written names an attempt: `01` and `+1` are somebody else's names.
        if parts.next().is_none() && task.to_string() == text { Ok(task) } else { Err(wrong()) }
    }
}

named_enum! {
    /// How an attempt ended.
    pub enum TaskEnd("end of an attempt") {
        /// With a code that means success.
        Succeeded = "succeeded",
        /// With another code, by a signal, or for a reason of its own.
        Failed = "failed",
        /// It ran longer than its limit.
        TimedOut = "timed_out",
        /// It was asked to end.
        Cancelled = "cancelled",
        /// It made room for more urgent work.
        Preempted = "preempted",
        /// Its process or container could not be started.
        StartFailed = "start_failed",
        /// Nobody knows how.
        Lost = "lost",
    }
}

/// What an attempt used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// CPU time in milliseconds.
    pub cpu_ms: u64,
    /// Greatest resident memory seen, in bytes; 0 where the attempt was too short to be looked at.
    pub max_rss: u64,
    /// Bytes read from storage.
    pub io_read: u64,
    /// Bytes written to storage.
    pub io_write: u64,
}

impl Usage {
    /// The greater of both in everything.
    #[must_use]
    pub fn most(self, other: Self) -> Self {
        Self {
            cpu_ms: self.cpu_ms.max(other.cpu_ms),
            max_rss: self.max_rss.max(other.max_rss),
            io_read: self.io_read.max(other.io_read),
            io_write: self.io_write.max(other.io_write),
        }
    }
}

named_enum! {
    /// Where a piece of a log comes from.
    pub enum LogStream("log stream") {
        /// Standard output.
        Stdout = "stdout",
        /// Standard error.
        Stderr = "stderr",
        /// The worker itself.
        System = "system",
    }
}

/// What is missing of a log before a piece of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogGap {
    /// Pieces.
    pub chunks: u64,
    /// Bytes.
    pub bytes: u64,
}

/// What an agent runs for a specification. Made once, shared by all of its attempts.
#[cfg(feature = "hardware")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Program and arguments. May hold placeholders.
    pub argv: Vec<String>,
    /// The attempt of a flow's step that is run in place of a program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Arc<StepSpec>>,
    /// Environment. Values may hold placeholders.
    pub env: Vec<(String, String)>,
    /// Where the command runs, beneath the attempt's directory; none: in it.
    pub working_dir: Option<String>,
    /// CPU in millicores.
    pub cpu_m: u64,
    /// Memory in bytes; 0 is unlimited.
    pub memory_bytes: u64,
    /// Exit codes that mean success.
    pub success_codes: Vec<i32>,
    /// What happens to output.
    pub log: LogPolicy,
    /// Whether its texts are taken as they are, without placeholders.
    #[serde(default)]
    pub literal: bool,
    /// Container image; none for a process.
    pub image: Option<String>,
    /// When the image is pulled.
    pub pull: Pull,
    /// Whether the attempt goes on when the agent dies.
    pub survive: bool,
    /// Whether it ends when the lease runs out, with or without the agent (`overlap: forbid`).
    pub forbid_overlap: bool,
    /// Whether its directory stays after the end until it is removed, for its artifacts.
    pub keep: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_written_form_names_an_attempt() {
        for bad in ["", "j0000000000007.1.0.2", "j0000000000007.1.0.2.3.4", "j0000000000007.01.0.2.3", "x.1.0.2.3"] {
            assert!(bad.parse::<TaskRef>().is_err(), "{bad}");
        }
        assert_eq!(
            "nothing".parse::<TaskRef>().unwrap_err().to_string(),
            "`nothing` does not name an attempt; expected <job>.<index>.<member>.<attempt>.<epoch>"
        );
    }
}
