//! Logs of attempts: on their way from agents to their storage, and from there to who reads and follows them.

mod keep;
mod losses;
mod parts;
mod read;

use orlop_cloud::logs::LogKey;
use orlop_core::task::TaskRef;

pub(super) use self::keep::{expect_ends, keep};
pub(super) use self::losses::Losses;
pub(super) use self::parts::first_missing;
pub use self::parts::{PartNews, PartsReader};
pub use self::read::{LogNews, LogOrder, LogReader};

/// The name of an attempt's log.
fn key(attempt: TaskRef) -> LogKey {
    LogKey { job: attempt.job, index: attempt.index, member: attempt.member, attempt: attempt.attempt }
}
