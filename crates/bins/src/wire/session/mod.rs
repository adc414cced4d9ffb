//! Sessions: frames that arrive exactly once and in order although streams break. Pure: time is an argument (microseconds of
//! a monotonic clock), streams and stores are the caller's.
//!
//! A frame with a number holds what must not be lost and is kept until the other side acknowledged it. A frame with
//! number 0 holds what is worth nothing later or stands in every later one: acknowledgements, heartbeats, leases, credit,
//! and the first frame of a stream. It is neither acknowledged nor sent again.

mod agent;
mod lease;
mod server;
mod slots;
mod specs;
#[cfg(test)]
pub(super) mod tests;
mod window;

pub use agent::{AgentSession, Receipt};
pub use lease::Lease;
pub use server::{Outgoing, ServerSession};
pub use slots::Slots;
pub use specs::SpecCache;

/// Microseconds in a millisecond.
const MILLI: u64 = 1000;
/// How long entries may wait for more of them when a frame was sent just before, in microseconds.
const COALESCE: u64 = MILLI;

/// Why a stream cannot go on. It is closed and may be opened again, unless the epoch says otherwise.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// A frame is missing.
    #[error("frame {given} came after frame {last}; open the stream again")]
    Gap {
        /// The last one received.
        last: u64,
        /// The one that came.
        given: u64,
    },
    /// A frame acknowledges what was never sent.
    #[error("frame {given} is acknowledged, but {sent} is the last that was sent")]
    Acknowledged {
        /// The last one sent.
        sent: u64,
        /// The one acknowledged.
        given: u64,
    },
    /// The first frame of the stream is not what it must be, or such a frame comes later.
    #[error("a stream begins with hello and welcome, and has each of them once")]
    Opening,
    /// A frame without a number holds what must have one.
    #[error("a frame without a number holds entries, which could be lost")]
    Unnumbered,
    /// The other side is of an older epoch.
    #[error("the server is of epoch {given}, epoch {known} was seen before; another server leads")]
    OldEpoch {
        /// Its epoch.
        given: u64,
        /// The highest seen.
        known: u64,
    },
    /// More log bytes than there was credit for.
    #[error("{given} bytes of logs were sent, {credit} were allowed")]
    Credit {
        /// Bytes sent in all.
        given: u64,
        /// Bytes allowed in all.
        credit: u64,
    },
    /// More is waiting to be sent than a session may hold: the other side takes nothing.
    #[error("more than {0} entries wait to be sent; the other side takes nothing")]
    Full(usize),
}

/// When frames are sent: at once after a pause, else together with what comes within a millisecond.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    last: Option<u64>,
}

impl Pace {
    /// When what is ready now may be sent.
    fn due(self, now: u64) -> u64 {
        self.last.map_or(now, |last| last.saturating_add(COALESCE))
    }

    fn sent(&mut self, now: u64) {
        self.last = Some(now);
    }
}
