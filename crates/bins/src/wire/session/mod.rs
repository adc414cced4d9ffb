//! Sessions: frames that arrive exactly once and in order although streams break. Pure: time is an argument (microseconds of
//! a monotonic clock), streams and stores are the caller's.
//!
//! A frame with a number holds what must not be lost and is kept until the other side acknowledged it. A frame with
//! number 0 holds what is worth nothing later or stands in every later one: acknowledgements, heartbeats, leases, credit,
//! and the first frame of a stream. It is neither acknowledged nor sent again.

use std::collections::{BTreeMap, HashMap, VecDeque};

mod agent;
mod server;
mod slots;
#[cfg(test)]
pub(super) mod tests;

pub use agent::{AgentSession, Receipt};
pub use server::{Outgoing, ServerSession};
pub use slots::{Lease, Slots};

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
    /// More is waiting to be sent than a session may hold: the peer accepts no data.
    #[error("more than {0} entries wait to be sent; the peer accepts no data")]
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

/// Bytes of frames that wait for their acknowledgement; one more frame is taken below that.
const BYTES: usize = 16 << 20;
/// Frames that wait for their acknowledgement.
const FRAMES: usize = 1024;

/// Frames from the first that is not acknowledged to the last that was made.
#[derive(Clone, Debug)]
struct Window<F> {
    /// Number of the last frame made.
    last: u64,
    frames: VecDeque<(F, usize)>,
    bytes: usize,
    /// How many of them were sent on this stream, or need not be.
    sent: usize,
}

impl<F: Clone> Window<F> {
    pub(super) fn new() -> Self {
        Self { last: 0, frames: VecDeque::new(), bytes: 0, sent: 0 }
    }

    /// The number of the next frame.
    pub(super) fn next_seq(&self) -> u64 {
        self.last + 1
    }

    pub(super) fn first_seq(&self) -> u64 {
        self.last + 1 - self.frames.len() as u64
    }

    pub(super) fn len(&self) -> usize {
        self.frames.len()
    }

    /// Whether another frame may be made.
    pub(super) fn has_room(&self) -> bool {
        self.bytes < BYTES && self.frames.len() < FRAMES
    }

    /// Whether frames are to be sent on this stream that were made before.
    pub(super) fn has_unsent(&self) -> bool {
        self.sent < self.frames.len()
    }

    /// The frames, the oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &F> {
        self.frames.iter().map(|(frame, _)| frame)
    }

    /// Takes the frame with the next number.
    pub(super) fn push(&mut self, frame: F, size: usize) {
        self.last += 1;
        self.bytes += size;
        self.frames.push_back((frame, size));
    }

    /// The next frame to send on this stream.
    pub(super) fn pop(&mut self) -> Option<F> {
        let (frame, _) = self.frames.get(self.sent)?;
        self.sent += 1;
        Some(frame.clone())
    }

    /// Forgets frames up to `ack` and returns them.
    pub(super) fn acknowledge(&mut self, ack: u64) -> Result<Vec<F>, SessionError> {
        if ack > self.last {
            return Err(SessionError::Acknowledged { sent: self.last, given: ack });
        }
        let done = usize::try_from((ack + 1).saturating_sub(self.first_seq())).unwrap_or(usize::MAX);
        let done = done.min(self.frames.len());
        self.sent = self.sent.saturating_sub(done);
        let forgotten: Vec<(F, usize)> = self.frames.drain(..done).collect();
        self.bytes -= forgotten.iter().map(|(_, size)| size).sum::<usize>();
        Ok(forgotten.into_iter().map(|(frame, _)| frame).collect())
    }

    /// A new stream: everything above `received` is sent again.
    pub(super) fn reopen(&mut self, received: u64) -> Result<(), SessionError> {
        if received > self.last {
            return Err(SessionError::Acknowledged { sent: self.last, given: received });
        }
        let known = (received + 1).saturating_sub(self.first_seq());
        self.sent = usize::try_from(known).unwrap_or(usize::MAX).min(self.frames.len());
        Ok(())
    }

    /// Gives up all frames and their numbers.
    pub(super) fn take(&mut self) -> Vec<F> {
        let frames = self.frames.drain(..).map(|(frame, _)| frame).collect();
        *self = Self::new();
        frames
    }
}

/// What a received number means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arrival {
    /// It is the next one, or has no number.
    New,
    /// It came before.
    Repeated,
}

/// Judges the number of a received frame by the last one received.
fn arrive(last: &mut u64, given: u64) -> Result<Arrival, SessionError> {
    match given {
        0 => Ok(Arrival::New),
        _ if given <= *last => Ok(Arrival::Repeated),
        _ if given == *last + 1 => {
            *last = given;
            Ok(Arrival::New)
        }
        _ => Err(SessionError::Gap { last: *last, given }),
    }
}

/// Values by number, at most so many, the least recently used forgotten first.
#[derive(Clone, Debug)]
pub struct SpecCache<T> {
    room: usize,
    clock: u64,
    values: HashMap<u64, (u64, T)>,
    by_use: BTreeMap<u64, u64>,
}

impl<T> SpecCache<T> {
    /// An empty memory for `room` values, at least 1.
    #[must_use]
    pub fn new(room: usize) -> Self {
        Self { room: room.max(1), clock: 0, values: HashMap::new(), by_use: BTreeMap::new() }
    }

    /// The value of a number, which counts as a use of it.
    pub fn get(&mut self, number: u64) -> Option<&T> {
        let (used, value) = self.values.get_mut(&number)?;
        self.clock += 1;
        self.by_use.remove(used);
        *used = self.clock;
        self.by_use.insert(self.clock, number);
        Some(value)
    }

    /// Remembers a value.
    pub fn insert(&mut self, number: u64, value: T) {
        self.clock += 1;
        if let Some((used, _)) = self.values.insert(number, (self.clock, value)) {
            self.by_use.remove(&used);
        }
        self.by_use.insert(self.clock, number);
        while self.values.len() > self.room {
            let Some((_, oldest)) = self.by_use.pop_first() else { break };
            self.values.remove(&oldest);
        }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

#[cfg(test)]
mod cache_tests {
    use super::*;

    #[test]
    fn the_least_recently_used_is_forgotten() {
        let mut cache = SpecCache::new(2);
        cache.insert(1, "a");
        cache.insert(2, "b");
        assert_eq!(cache.get(1), Some(&"a"));
        cache.insert(3, "c");
        assert_eq!([2, 1, 3].map(|number| cache.get(number).copied()), [None, Some("a"), Some("c")]);
        cache.insert(3, "d");
        assert_eq!((cache.get(3).copied(), cache.len(), cache.is_empty()), (Some("d"), 2, false));
    }
}
