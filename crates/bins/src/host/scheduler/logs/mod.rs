//! Logs of attempts: on their way from agents to their storage, and from there to who reads and follows them. Owns both
//! ways and the names of one log in protocol and storage; the files are the storage's.

mod keep;
mod losses;
mod parts;
mod read;

use orlop_cloud::logs::{LogKey, LogStream as Stored};
use orlop_core::task::TaskRef;

use crate::wire::result::LogStream;

pub(super) use self::keep::{expect_ends, keep};
pub(super) use self::losses::Losses;
pub(super) use self::parts::first_missing;
pub use self::parts::{PartNews, PartsReader};
pub(crate) use self::read::reference;
pub use self::read::{LogNews, LogOrder, LogReader};

/// The name of an attempt's log.
fn key(attempt: TaskRef) -> LogKey {
    LogKey { job: attempt.job, index: attempt.index, member: attempt.member, attempt: attempt.attempt }
}

/// A stream by the storage's name.
pub(crate) const fn stored_stream(stream: LogStream) -> Stored {
    match stream {
        LogStream::Stdout => Stored::Stdout,
        LogStream::Stderr => Stored::Stderr,
        LogStream::System => Stored::System,
    }
}

/// A stream by the protocol's name.
pub(crate) const fn wire_stream(stream: Stored) -> LogStream {
    match stream {
        Stored::Stdout => LogStream::Stdout,
        Stored::Stderr => LogStream::Stderr,
        Stored::System => LogStream::System,
    }
}
