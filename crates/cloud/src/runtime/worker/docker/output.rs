//! The output of a container on its way from the engine to the outbox log. Owns which bytes were read already, so that none is
//! reported twice after a connection broke; never decides how long to read.

use std::time::{Duration, Instant};

use bollard::container::LogOutput;
use bytes::Bytes;
use futures::StreamExt;
use orlop_core::spec::job::OnFull;
use orlop_core::task::{LogStream, TaskRef};

use crate::runtime::docker::engine::Engine;
use crate::runtime::docker::jobs::{Follow, Output};
use crate::runtime::logs::now;
use crate::runtime::worker::event::{AttemptEvents, LogCapacity, LogChunk, LogTotals};
use crate::runtime::worker::logs::{Cutter, Fill, Moment};

/// Bytes of a container, in the order in which the engine sends them.
pub(super) struct Tap {
    output: Option<Output>,
    /// Whether all that was written so far came this way.
    whole: bool,
    /// Whether the present connection reads what the engine keeps.
    kept: bool,
    /// Bytes of standard output and error that were read so far,
    read: [u64; 2],
    /// and those of the present connection that were read on an earlier one.
    skip: [u64; 2],
}

impl Tap {
    /// Of a container that has not written anything yet.
    pub(super) const fn new(output: Output) -> Self {
        Self { output: Some(output), whole: true, kept: false, read: [0, 0], skip: [0, 0] }
    }

    /// Of one that has ended while nobody read: nothing.
    pub(super) const fn closed() -> Self {
        Self { output: None, whole: false, kept: false, read: [0, 0], skip: [0, 0] }
    }

    /// Of one that runs since some time: what it writes from now on.
    pub(super) async fn adopted(engine: &Engine, container: &str) -> Self {
        // One that has ended meanwhile says nothing more.
        Self { output: engine.attach(container).await.ok(), ..Self::closed() }
    }

    /// The connection broke: what the engine keeps is read from its beginning, and what is known is passed over.
    pub(super) async fn again(&mut self, engine: &Engine, container: &str) {
        if self.whole {
            self.output = Some(engine.kept(container, Follow::Yes));
            (self.kept, self.skip) = (true, self.read);
        } else {
            *self = Self::adopted(engine, container).await;
        }
    }

    /// The container has ended. An engine that is asked to follow what it keeps may end before the last of it.
    pub(super) fn last(&mut self, engine: &Engine, container: &str) -> bool {
        if self.kept {
            self.output = Some(engine.kept(container, Follow::No));
            self.skip = self.read;
        }
        std::mem::take(&mut self.kept)
    }

    /// Whether there may be more.
    pub(super) const fn is_open(&self) -> bool {
        self.output.is_some()
    }

    /// The next piece; none when the connection has ended. May be dropped while it waits.
    pub(super) async fn next(&mut self) -> Option<(LogStream, Bytes)> {
        loop {
            let piece = self.output.as_mut()?.next().await;
            let (index, stream, mut bytes) = match piece {
                Some(Ok(LogOutput::StdOut { message })) => (0, LogStream::Stdout, message),
                Some(Ok(LogOutput::StdErr { message })) => (1, LogStream::Stderr, message),
                // The torn end of a frame: its bytes come again where they are kept.
                Some(Ok(LogOutput::Console { .. } | LogOutput::StdIn { .. })) => continue,
                Some(Err(_)) | None => {
                    self.output = None;
                    return None;
                }
            };
            let (Some(skip), Some(read)) = (self.skip.get_mut(index), self.read.get_mut(index)) else { continue };
            let known = usize::try_from(*skip).unwrap_or(usize::MAX).min(bytes.len());
            *skip -= known as u64;
            drop(bytes.split_to(known));
            if !bytes.is_empty() {
                *read += bytes.len() as u64;
                return Some((stream, bytes));
            }
        }
    }
}

/// The output of an attempt, cut, masked and reported.
#[derive(Debug)]
pub(super) struct Voice {
    id: TaskRef,
    on_full: OnFull,
    cutter: Cutter,
    begun: Instant,
    fresh: Vec<LogChunk>,
    /// Whether the container is not read because there is no room.
    pub(super) paused: bool,
}

impl Voice {
    pub(super) fn new(id: TaskRef, on_full: OnFull, cutter: Cutter) -> Self {
        Self { id, on_full, cutter, begun: Instant::now(), fresh: Vec::new(), paused: false }
    }

    /// The container starts now: short logs are short from here on.
    pub(super) fn begins(&mut self) {
        self.begun = Instant::now();
    }

    fn moment(&self) -> Moment {
        Moment { since: self.begun.elapsed(), wall: now() }
    }

    /// A line of the worker's own.
    pub(super) fn say(&mut self, line: &str) {
        self.cutter.say(line, self.moment(), &mut self.fresh);
    }

    pub(super) fn push(&mut self, stream: LogStream, bytes: &[u8]) -> Fill {
        let fill = self.cutter.push(stream, bytes, self.moment(), &mut self.fresh);
        self.paused |= fill == Fill::Wait;
        fill
    }

    /// When something has waited long enough to be reported.
    pub(super) fn due(&self) -> Option<Instant> {
        self.cutter.due().and_then(|since| self.begun.checked_add(since))
    }

    pub(super) fn tick(&mut self) {
        let moment = self.moment();
        if self.cutter.due().is_some_and(|due| due <= moment.since) {
            self.cutter.tick(moment, &mut self.fresh);
        }
    }

    /// Tells what is ready.
    pub(super) fn tell(&mut self, events: &dyn AttemptEvents) {
        if self.fresh.is_empty() {
            return;
        }
        for chunk in self.fresh.drain(..) {
            let room = events.log(self.id, chunk);
            self.paused |= room == LogCapacity::Full && self.on_full == OnFull::Block;
        }
        events.flush();
    }

    /// The end of all output.
    pub(super) fn finish(mut self, events: &dyn AttemptEvents) -> (LogTotals, Vec<u8>) {
        let moment = Moment { since: self.begun.elapsed(), wall: now() };
        let (totals, tail) = self.cutter.finish(moment, &mut self.fresh);
        for chunk in self.fresh {
            // There may be no room: the last output of an attempt is reported all the same.
            let _ = events.log(self.id, chunk);
        }
        (totals, tail)
    }
}

/// How long what a container wrote last may take to arrive.
pub(super) const LAST: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    fn output(pieces: &[&'static [u8]]) -> Output {
        let all: Vec<_> =
            pieces.iter().map(|piece| Ok(LogOutput::StdOut { message: Bytes::from_static(piece) })).collect();
        futures::stream::iter(all).boxed()
    }

    #[tokio::test]
    async fn after_a_broken_connection_no_byte_comes_twice_and_none_is_missing() {
        let mut tap = Tap::new(output(&[b"abc", b"de"]));
        let mut got = Vec::new();
        while let Some((_, bytes)) = tap.next().await {
            got.extend_from_slice(&bytes);
        }
        assert!(!tap.is_open() && got == b"abcde");
        (tap.output, tap.skip) = (Some(output(&[b"ab", b"cdef", b"g"])), tap.read);
        while let Some((_, bytes)) = tap.next().await {
            got.extend_from_slice(&bytes);
        }
        assert_eq!(got, b"abcdefg");
        assert_eq!(tap.read, [7, 0]);
    }
}
