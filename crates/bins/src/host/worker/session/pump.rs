//! A stream while it stands: frames out, frames in, heartbeats.

use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _};
use orlop_core::machine::worker::WorkerState;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use super::super::link::{LinkError, Stream};
use super::pace::{COALESCE, FED, Pace, Waiting};
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
            next = if taken < TAKEN_IN {
                let here = stream.back.next().now_or_never();
                here.map(|frame| frame.unwrap_or_else(|| Err(closed()))).transpose()?
            } else {
                None
            };
        }
        Ok(())
    }
}

/// A tenth more or less, so that many agents do not beat at once.
pub(super) fn jittered(interval: Duration) -> Duration {
    interval.mul_f64(0.9 + 0.2 * f64::from(random()) / f64::from(u32::MAX))
}
