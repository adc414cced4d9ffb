//! Frames that were numbered and are not acknowledged yet. Never looks into them.

use std::collections::VecDeque;

use super::SessionError;

/// Bytes of frames that wait for their acknowledgement; one more frame is taken below that.
const BYTES: usize = 16 << 20;
/// Frames that wait for their acknowledgement.
const FRAMES: usize = 1024;

/// Frames from the first that is not acknowledged to the last that was made.
#[derive(Clone, Debug)]
pub(super) struct Window<F> {
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
pub(super) enum Arrival {
    /// It is the next one, or has no number.
    New,
    /// It came before.
    Repeated,
}

/// Judges the number of a received frame by the last one received.
pub(super) fn arrive(last: &mut u64, given: u64) -> Result<Arrival, SessionError> {
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
