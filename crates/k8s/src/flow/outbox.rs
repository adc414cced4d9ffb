//! Events on their way to the server. Owns their queues, which hold no pass back: what does not fit is lost, and the log says
//! so. What a step does in the ordinary way waits in a queue of its own, behind all else.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::channel::mpsc::{Receiver, Sender, channel};
use futures::lock::Mutex;
#[cfg(feature = "client")]
use futures::{StreamExt as _, select_biased};
use orlop_core::error::Class;
use serde_json::Value;

use super::{Controller, ControllerEvent, text};
use crate::api::{Api, Kind, Request};

/// Events that may wait in a queue.
const WAITING: usize = 2_000;

/// See the module.
pub(super) struct Outbox {
    into: std::sync::Mutex<Queues<Sender<Value>>>,
    from: Mutex<Queues<Receiver<Value>>>,
    lost: AtomicU64,
}

/// Both queues, or ends of them.
struct Queues<Q> {
    /// What happens to flows, and what is wrong with steps.
    first: Q,
    /// What steps do in the ordinary way.
    steps: Q,
}

impl Default for Outbox {
    fn default() -> Self {
        let ((first_in, first), (steps_in, steps)) = (channel(WAITING), channel(WAITING));
        Self {
            into: std::sync::Mutex::new(Queues { first: first_in, steps: steps_in }),
            from: Mutex::new(Queues { first, steps }),
            lost: AtomicU64::new(0),
        }
    }
}

/// Whether an event is about what a step does in the ordinary way.
fn is_ordinary(event: &Value) -> bool {
    text(event, "/type") == "Normal" && text(event, "/reason").starts_with("Step")
}

impl Outbox {
    /// Takes an event in, where there is room.
    fn put(&self, event: Value) -> bool {
        let mut into = self.into.lock().unwrap_or_else(PoisonError::into_inner);
        let queue = if is_ordinary(&event) { &mut into.steps } else { &mut into.first };
        queue.try_send(event).is_ok()
    }
}

impl<A: Api> Controller<A> {
    /// Queues an event; it may be lost.
    pub(super) fn post(&self, event: Value) {
        if !self.outbox.put(event) {
            self.monitor.record(ControllerEvent::EventLost);
            let lost = self.outbox.lost.fetch_add(1, Ordering::Relaxed) + 1;
            // As often as to be seen, and not more.
            if lost.is_power_of_two() {
                tracing::warn!(lost, "the queue of events is full ({WAITING}); new events are lost");
            }
        }
    }

    /// Publishes events as they come, for ever.
    #[cfg(feature = "client")]
    pub(super) async fn publish_events(&self) {
        let mut from = self.outbox.from.lock().await;
        let Queues { first, steps } = &mut *from;
        loop {
            let event = select_biased! {
                event = first.select_next_some() => event,
                event = steps.select_next_some() => event,
                complete => return,
            };
            self.send_event(event).await;
        }
    }

    /// Publishes the events that wait now.
    pub(super) async fn publish_waiting(&self) {
        let mut from = self.outbox.from.lock().await;
        while let Ok(event) = from.first.try_recv().or_else(|_| from.steps.try_recv()) {
            self.send_event(event).await;
        }
    }

    async fn send_event(&self, event: Value) {
        let reason = text(&event, "/reason");
        if let Err(error) = self.beside.as_ref().unwrap_or(&self.api).send(&Request::create(Kind::Event, event)).await
            && error.class() != Class::Exists
        {
            self.monitor.record(ControllerEvent::EventLost);
            tracing::debug!(reason, %error, "an event is lost");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_steps_do_in_the_ordinary_way_takes_no_room_from_all_else_and_comes_after_it() {
        let outbox = Outbox::default();
        let event = |kind: &str, reason: &str| json!({"type": kind, "reason": reason});
        let taken = (0..3 * WAITING).filter(|_| outbox.put(event("Normal", "StepCreated"))).count();
        assert!((WAITING..=WAITING + 1).contains(&taken), "{taken}");
        assert!(outbox.put(event("Normal", "JobFlowCompleted")) && outbox.put(event("Warning", "StepFailed")));
        let mut from = outbox.from.try_lock().unwrap();
        let first = from.first.try_recv().unwrap();
        assert_eq!(first["reason"], "JobFlowCompleted");
        assert_eq!(from.first.try_recv().unwrap()["reason"], "StepFailed");
        assert!(from.first.try_recv().is_err() && from.steps.try_recv().is_ok());
    }
}
