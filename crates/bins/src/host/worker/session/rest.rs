//! Between two connections: what time brings is done, and a server that asked to wait gets signs of life.

use std::time::{Duration, Instant};

use orlop_core::id::Epoch;
use tokio::time::{sleep, sleep_until, timeout};

use super::super::link::LinkError;
use super::Session;
use super::pump::{TICK, jittered};
use crate::wire::frame::DirectiveKind;
use crate::wire::status::Heartbeat;

/// How long a server may take for the answer to a sign of life.
const ANSWER: Duration = Duration::from_secs(5);

impl Session {
    /// Waits before the next connection. `asked_to`: the server is there and wants it so; it hears that this worker lives. One
    /// that cannot be reached is left alone: that is what the waiting is for. True when the agent has ended.
    pub(super) async fn rest(&mut self, wait: Duration, asked_to: bool) -> bool {
        let until = tokio::time::Instant::now() + wait;
        let mut beat = tokio::time::Instant::now() + jittered(self.heartbeat);
        loop {
            if self.shut_down || self.is_over(false) {
                return true;
            }
            self.tick();
            tokio::select! {
                () = sleep_until(until) => return false,
                () = sleep(TICK) => {}
                changed = self.wish.changed() => if changed.is_err() { return true },
            }
            if asked_to && beat <= tokio::time::Instant::now() {
                if self.show_life().await {
                    return false;
                }
                beat = tokio::time::Instant::now() + jittered(self.heartbeat);
            }
        }
    }

    /// A sign of life while no stream is up; the answer renews the lease. True when the session is over.
    async fn show_life(&mut self) -> bool {
        let Some(session) = self.session else { return false };
        let sent = Instant::now();
        let (session_id, epoch) = (session.as_bytes().to_vec(), self.state.epoch.0);
        let beat = Heartbeat { session_id, epoch, status: Some(self.status()) };
        let answer = match timeout(ANSWER, self.link.heartbeat(beat)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(LinkError::SessionOver(reason))) => return self.forget_session(&reason),
            Ok(Err(error)) => {
                tracing::debug!(worker = %self.state.worker, %error, "no answer to a heartbeat");
                return false;
            }
            Err(_) => return false,
        };
        match self.state.see(Epoch(answer.epoch)) {
            Ok(true) => {}
            Ok(false) => {
                tracing::warn!(epoch = answer.epoch, seen = %self.state.epoch, "a server of an older term answers");
                return false;
            }
            Err(error) => {
                tracing::error!(%error, "the epoch cannot be written down: the answer does not count");
                return false;
            }
        }
        if let Some(directive) = answer.directive.filter(|directive| directive.kind() == DirectiveKind::Reregister) {
            return self.forget_session(&directive.reason);
        }
        if answer.lease_ms > 0 {
            self.take_lease(sent, answer.lease_ms);
        }
        false
    }

    fn forget_session(&mut self, reason: &str) -> bool {
        tracing::info!(worker = %self.state.worker, reason, "the session is over");
        self.session = None;
        true
    }
}
