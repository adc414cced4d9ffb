//! The end of an agent: patience, cancelling, telling the rest, goodbye.

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use orlop_cloud::runtime::worker::Cause;
use tokio::time::timeout;

use super::super::clock::now;
use super::super::link::{LinkError, Stream};
use super::{Session, Wish};

/// From asking to killing, when the agent itself ends its attempts.
const GRACE: Duration = Duration::from_secs(10);

/// How long a goodbye may take to be heard.
const LAST: Duration = Duration::from_secs(2);

impl Session {
    /// What time brings: attempts that wait in vain, writers that may go on, the end of patience.
    pub(super) fn tick(&mut self) {
        let (at, mut acts) = (Instant::now(), Vec::new());
        let wish = *self.wish.borrow();
        if wish >= Wish::Drain && self.deadline.is_none() {
            self.deadline = Some(at + self.options.drain);
        }
        let over = wish == Wish::Cancel || self.deadline.is_some_and(|deadline| deadline <= at);
        if over && !self.cancelled {
            self.shared.leave();
        }
        let ticked = {
            let mut core = self.shared.lock();
            let ticked = core.tick(at, &mut acts);
            ticked.and_then(|()| core.spool.flush())
        };
        if let Err(error) = ticked {
            tracing::error!(%error, "the spool cannot be written");
        }
        self.shared.perform(acts);
        if over && !self.cancelled {
            self.cancelled = true;
            self.end_all();
        }
    }

    /// Ends every attempt.
    pub(super) fn end_all(&self) {
        let mut acts = Vec::new();
        let ended = {
            let mut core = self.shared.lock();
            let mut ended = Ok(());
            for held in core.held() {
                ended = ended.and(core.end(held.id, Cause::Preempt, GRACE, now(), &mut acts));
            }
            ended.and_then(|()| core.spool.flush())
        };
        if let Err(error) = ended {
            tracing::error!(%error, "the spool cannot be written");
        }
        self.shared.perform(acts);
    }

    /// Whether the agent has nothing more to do here: asked to end, without attempts, and all is reported or nobody listens.
    pub(super) fn is_over(&mut self, connected: bool) -> bool {
        if self.shut_down {
            return true;
        }
        let core = self.shared.lock();
        if *self.wish.borrow() == Wish::Work || !core.is_idle() {
            return false;
        }
        let reported = core.spool.stats().results == 0 && core.spool.has_more() == (false, false);
        drop(core);
        let until = *self.farewell.get_or_insert_with(|| Instant::now() + self.options.farewell);
        (connected && reported) || Instant::now() >= until
    }

    pub(super) async fn goodbye(&mut self, stream: &mut Stream) -> Result<(), LinkError> {
        let reason = if self.shut_down { "shutdown" } else { "drained" };
        let Some(frame) = self.outbox.next(&mut self.shared.lock(), Some(reason)) else { return Ok(()) };
        tracing::info!(worker = %self.state.worker, reason, "goodbye");
        let seq = frame.seq;
        self.put(&stream.out, frame).await?;
        // Anyone who ends at once takes along what the connection has not sent yet.
        let heard = async {
            while let Some(Ok(frame)) = stream.back.next().await {
                if frame.ack >= seq {
                    break;
                }
            }
        };
        // Whether it was heard makes no difference any more.
        drop(timeout(LAST, heard).await);
        Ok(())
    }
}
