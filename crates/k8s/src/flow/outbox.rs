//! Events on their way to the server. Owns their queue, which holds no pass back: what does not fit is lost, and the log says so.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::StreamExt as _;
use futures::channel::mpsc::{Receiver, Sender, channel};
use futures::lock::Mutex;
use orlop_core::error::Class;
use serde_json::Value;

use super::{Controller, Note, text};
use crate::api::{Api, Kind, Request};

/// Events that may wait.
const WAITING: usize = 2_000;

/// See the module.
pub(super) struct Outbox {
    into: std::sync::Mutex<Sender<Value>>,
    from: Mutex<Receiver<Value>>,
    lost: AtomicU64,
}

impl Default for Outbox {
    fn default() -> Self {
        let (into, from) = channel(WAITING);
        Self { into: std::sync::Mutex::new(into), from: Mutex::new(from), lost: AtomicU64::new(0) }
    }
}

impl<A: Api> Controller<A> {
    /// Queues an event; it may be lost.
    pub(super) fn post(&self, event: Value) {
        let mut into = self.outbox.into.lock().unwrap_or_else(PoisonError::into_inner);
        if into.try_send(event).is_err() {
            self.monitor.note(Note::EventLost);
            let lost = self.outbox.lost.fetch_add(1, Ordering::Relaxed) + 1;
            // As often as to be seen, and not more.
            if lost.is_power_of_two() {
                tracing::warn!(lost, "more events wait than may; the newest are lost");
            }
        }
    }

    /// Publishes events as they come, for ever.
    pub(super) async fn publish_events(&self) {
        let mut from = self.outbox.from.lock().await;
        while let Some(event) = from.next().await {
            self.send_event(event).await;
        }
    }

    /// Publishes the events that wait now. A controller that runs does this by itself.
    pub async fn publish_waiting(&self) {
        let mut from = self.outbox.from.lock().await;
        while let Ok(event) = from.try_recv() {
            self.send_event(event).await;
        }
    }

    async fn send_event(&self, event: Value) {
        let reason = text(&event, "/reason");
        if let Err(error) = self.events.as_ref().unwrap_or(&self.api).send(&Request::create(Kind::Event, event)).await
            && error.class() != Class::Exists
        {
            self.monitor.note(Note::EventLost);
            tracing::debug!(reason, %error, "an event is lost");
        }
    }
}
