//! What the loop of any controller reports to those who measure it.

use std::time::Duration;

/// Something that has happened in the loop of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoopEvent<'a> {
    /// The loop is alive.
    Heartbeat {
        /// Keys in the work queue that nobody works on yet.
        depth: usize,
    },
    /// All that exists was listed once.
    Synced,
    /// A watch has ended and is begun again.
    WatchRestarted {
        /// Plural of what is watched.
        resource: &'static str,
    },
    /// A watch has listed what exists.
    WatchListed {
        /// Plural of what is watched.
        resource: &'static str,
    },
    /// A watch has failed, and is begun again after a while.
    WatchFailed {
        /// Plural of what is watched.
        resource: &'static str,
        /// HTTP status; none when no answer came.
        code: Option<u16>,
        /// A sentence, with nothing the server said.
        message: &'a str,
    },
    /// A pass over an object is over.
    Reconciled {
        /// How long it took.
        took: Duration,
        /// Whether something it needed had no success.
        failed: bool,
    },
}
