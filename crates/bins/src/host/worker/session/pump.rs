//! A stream while it stands: frames out, frames in, heartbeats.

use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _};
use orlop_core::machine::worker::WorkerState;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use super::super::link::{LinkError, Stream};
use super::{Session, closed, random};
use crate::wire::frame::{ServerFrame, WorkerFrame};

/// Frames that came meanwhile and are taken in before something is sent again, at most.
const TAKEN_IN: usize = 64;
/// Between two looks at what time brings.
pub(super) const TICK: Duration = Duration::from_millis(250);
/// Between two heartbeats that only say that there is work, or none.
const CHANGES: Duration = Duration::from_secs(1);
/// Between two looks at whether slots still have work waiting.
const LOOK: Duration = Duration::from_millis(2);

/// What is remembered of a stream.
struct Pump {
    pace: Pace,
    /// A frame of the server was not acknowledged yet.
    owes_ack: bool,
    /// The server wants to hear nothing before.
    paused_until: Instant,
    /// The state that was reported last, and when.
    reported: (WorkerState, Instant),
    /// When the next heartbeat is due.
    beat: Instant,
}

impl Session {
    /// Sends and receives until the stream ends, or the agent does.
    pub(super) async fn pump(&mut self, mut stream: Stream) -> Result<(), LinkError> {
        let shared = Arc::clone(&self.shared);
        let now = Instant::now();
        let reported = (self.worker_state(), now);
        let mut pump = Pump { pace: Pace::new(now), owes_ack: false, paused_until: now, reported, beat: now };
        let mut tick = tokio::time::interval(TICK);
        loop {
            let due = self.speak(&stream.out, &mut pump).await?;
            self.beat_when_due(&stream.out, &mut pump).await?;
            if self.is_over(true) {
                return self.goodbye(&mut stream).await;
            }
            tokio::select! {
                biased;
                frame = stream.back.next() => {
                    let frame = frame.unwrap_or_else(|| Err(closed()))?;
                    self.take_in(frame, &mut stream, &mut pump)?;
                }
                () = shared.bell.notified() => {}
                () = sleep_until(due.unwrap_or(now)), if due.is_some() => {}
                _ = tick.tick() => self.tick(),
                () = sleep_until(pump.beat) => {}
                // Nobody holds the agent any more: it ends as it is, for the next one.
                changed = self.wish.changed() => if changed.is_err() { return Ok(()) },
            }
        }
    }

    /// Says what is due. Gives when there will be more to say, as far as that is known.
    async fn speak(&mut self, out: &mpsc::Sender<WorkerFrame>, pump: &mut Pump) -> Result<Option<Instant>, LinkError> {
        let waiting = self.waiting(pump.owes_ack);
        let due = pump.pace.due(Instant::now(), waiting).map(|due| due.max(pump.paused_until));
        if due.is_none_or(|due| due > Instant::now()) {
            return Ok(due);
        }
        let sent = self.send(out, pump).await?;
        if sent && pump.pace.is_loaded(Instant::now()) {
            // Nobody wakes it meanwhile: to be woken for each event costs more than to hear of all a little later.
            sleep(COALESCE).await;
            while !self.gathers(&pump.pace).is_zero() {
                sleep(LOOK).await;
            }
        }
        // What could not be reported now waits for what makes it possible.
        Ok(None)
    }

    fn waiting(&self, owes_ack: bool) -> Waiting {
        let core = self.shared.lock();
        match core.has_news() {
            true => Waiting::News,
            false if owes_ack || core.spool.has_more().0 => Waiting::Patient,
            false => Waiting::Nothing,
        }
    }

    /// For how long news may be gathered.
    fn gathers(&self, pace: &Pace) -> Duration {
        let fed = self.shared.lock().slots.are_fed(FED);
        pace.gathers(Instant::now(), fed)
    }

    /// Sends what there is. True when something was sent.
    async fn send(&mut self, out: &mpsc::Sender<WorkerFrame>, pump: &mut Pump) -> Result<bool, LinkError> {
        let mut sent = false;
        while !self.outbox.is_far_ahead() {
            let frame = {
                let mut core = self.shared.lock();
                // Only what is on disk is reported; what cannot be written waits.
                if let Err(error) = core.spool.flush() {
                    tracing::error!(%error, "the spool cannot be written: nothing is reported");
                    break;
                }
                match self.outbox.next(&mut core, None) {
                    Some(frame) => Some(frame),
                    None if pump.owes_ack => Some(WorkerFrame { ack: self.outbox.heard, ..WorkerFrame::default() }),
                    None => None,
                }
            };
            let Some(frame) = frame else { break };
            pump.owes_ack = false;
            sent |= frame.seq > 0;
            pump.pace.sent(Instant::now(), frame.entries());
            self.put(out, frame).await?;
        }
        Ok(sent)
    }

    /// Tells how this worker is: from time to time, and when that changes, but not for each of many short attempts.
    async fn beat_when_due(&mut self, out: &mpsc::Sender<WorkerFrame>, pump: &mut Pump) -> Result<(), LinkError> {
        let (state, now) = (self.worker_state(), Instant::now());
        let changed = state != pump.reported.0 && (state == WorkerState::Draining || now >= pump.reported.1 + CHANGES);
        if changed || pump.beat <= now {
            self.beat(out).await?;
            self.look_for_more()?;
            pump.reported = (state, now);
            pump.beat = Instant::now() + jittered(self.heartbeat);
        }
        Ok(())
    }

    /// Applies a frame, and those that came meanwhile.
    fn take_in(&mut self, first: ServerFrame, stream: &mut Stream, pump: &mut Pump) -> Result<(), LinkError> {
        let (mut next, mut taken) = (Some(first), 0);
        while let Some(frame) = next {
            self.see(&frame)?;
            pump.owes_ack |= frame.seq > 0;
            let asked = self.apply(frame)?;
            if !asked.pause.is_zero() {
                pump.paused_until = Instant::now() + asked.pause;
            }
            self.obey(asked)?;
            taken += 1;
            next = if taken < TAKEN_IN { arrived(stream)? } else { None };
        }
        Ok(())
    }
}

/// A frame that is there already. The stream is polled again before the task sleeps: this look wakes nobody.
fn arrived(stream: &mut Stream) -> Result<Option<ServerFrame>, LinkError> {
    stream.back.next().now_or_never().map(|frame| frame.unwrap_or_else(|| Err(closed()))).transpose()
}

/// A tenth more or less, so that many agents do not beat at once.
pub(super) fn jittered(interval: Duration) -> Duration {
    interval.mul_f64(0.9 + 0.2 * f64::from(random()) / f64::from(u32::MAX))
}

/// How long a word that nobody waits for is kept back: that an attempt was taken on, that a frame arrived.
const PATIENCE: Duration = Duration::from_millis(5);
/// Between two frames under load.
const COALESCE: Duration = Duration::from_millis(1);
/// The same while every slot has attempts waiting here.
const AHEAD: Duration = Duration::from_millis(8);
/// Over which time entries are counted.
const WINDOW: f64 = 0.05;
/// So many entries in that time are load.
const LOAD: f64 = 12.0;
/// Attempts that wait for each that runs, so that nobody misses an answer.
const FED: usize = 4;

/// What there is to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    Nothing,
    /// Only what nobody waits for.
    Patient,
    News,
}

/// When the agent speaks. What nobody waits for goes along with what comes next; news go out at once, until there are many of them:
/// then they are gathered, and for longer while slots have work waiting here, so that nobody misses an answer. Reads no clock.
#[derive(Debug)]
struct Pace {
    sent_at: Instant,
    /// Entries of late, each counting less the older it is.
    entries: f64,
    /// Since when something waits that nobody waits for.
    kept_since: Option<Instant>,
}

impl Pace {
    const fn new(now: Instant) -> Self {
        Self { sent_at: now, entries: 0.0, kept_since: None }
    }

    /// A frame with so many entries leaves.
    fn sent(&mut self, now: Instant, entries: usize) {
        self.entries = self.entries_at(now) + entries as f64;
        (self.sent_at, self.kept_since) = (now, None);
    }

    /// When the next frame is due.
    fn due(&mut self, now: Instant, waiting: Waiting) -> Option<Instant> {
        match waiting {
            Waiting::Nothing => {
                self.kept_since = None;
                None
            }
            Waiting::Patient => Some(*self.kept_since.get_or_insert(now) + PATIENCE),
            Waiting::News if self.is_loaded(now) => Some(self.sent_at + COALESCE),
            Waiting::News => Some(now),
        }
    }

    /// Whether there are so many news that they are gathered, and nobody need be woken for each.
    fn is_loaded(&self, now: Instant) -> bool {
        self.entries_at(now) >= LOAD
    }

    /// For how much longer news may be gathered, while slots are fed.
    fn gathers(&self, now: Instant, fed: bool) -> Duration {
        match fed && self.is_loaded(now) {
            true => (self.sent_at + AHEAD).saturating_duration_since(now),
            false => Duration::ZERO,
        }
    }

    fn entries_at(&self, now: Instant) -> f64 {
        self.entries * (-now.saturating_duration_since(self.sent_at).as_secs_f64() / WINDOW).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// After so many frames of so many entries, a millisecond apart.
    fn after(frames: u32, entries: usize) -> (Pace, Instant) {
        let mut now = Instant::now();
        let mut pace = Pace::new(now);
        for _ in 0..frames {
            now += MS;
            pace.sent(now, entries);
        }
        (pace, now)
    }

    #[test]
    fn the_first_news_go_out_at_once_and_many_are_gathered() {
        let (mut pace, now) = after(2, 3);
        assert_eq!(pace.due(now, Waiting::News), Some(now));
        let (mut pace, now) = after(50, 3);
        assert_eq!(pace.due(now, Waiting::News), Some(now + COALESCE));
        assert_eq!(pace.due(now + 200 * MS, Waiting::News), Some(now + 200 * MS), "after a pause");
    }

    #[test]
    fn an_acceptance_waits_for_the_start_but_not_for_long() {
        let (mut pace, now) = after(1, 1);
        assert_eq!(pace.due(now, Waiting::Patient), Some(now + PATIENCE));
        assert_eq!(pace.due(now + MS, Waiting::Patient), Some(now + PATIENCE), "counted from when it came");
        assert_eq!(pace.due(now + MS, Waiting::News), Some(now + MS));
        pace.sent(now + MS, 2);
        assert_eq!(pace.due(now + 2 * MS, Waiting::Nothing), None);
        assert_eq!(pace.due(now + 3 * MS, Waiting::Patient), Some(now + 3 * MS + PATIENCE));
    }

    #[test]
    fn news_are_gathered_for_longer_only_while_slots_are_fed() {
        let (pace, now) = after(50, 3);
        assert_eq!(pace.gathers(now, true), AHEAD);
        assert_eq!(pace.gathers(now + 5 * MS, true), AHEAD - 5 * MS);
        assert_eq!(pace.gathers(now, false), Duration::ZERO, "the slots might run dry");
        let (idle, now) = after(1, 3);
        assert_eq!(idle.gathers(now, true), Duration::ZERO, "nothing is going on");
    }
}
