//! Answers that go on: how many there may be, and the events that many of them send.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use orlop_cloud::bus::local::LocalSubscription;
use orlop_core::error::{Code, Problem};
use orlop_core::id::TenantName;
use orlop_core::ports::bus::{BusEvent, Delivery, EventBody, SUBJECT_ROOT, SubjectFilter, Subscription as _};
use tokio::sync::broadcast;

use super::auth::Caller;
use crate::host::scheduler::Handle;

/// Streams at once, those of one token, and those of the client token.
const ALL: usize = 1000;
const OF_TOKEN: usize = 100;
const OF_CLIENT: usize = 800;
/// Events that wait for the slowest stream. It loses those that come then, and sends `lagged` in their place.
const WAITING: usize = 4096;

/// The streams of an interface.
#[derive(Debug, Default)]
pub(super) struct Streams {
    open: Arc<Mutex<BTreeMap<String, usize>>>,
    hub: Mutex<Weak<broadcast::Sender<Arc<EncodedEvent>>>>,
}

/// A stream that may go on until this is dropped.
#[derive(Debug)]
pub(crate) struct StreamPermit {
    open: Arc<Mutex<BTreeMap<String, usize>>>,
    whose: String,
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.whose) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.whose);
            }
        }
    }
}

/// An event as streams send it.
#[derive(Debug)]
pub(super) struct EncodedEvent {
    pub(super) subject: String,
    /// Whose; none = nobody's, such as of a worker.
    pub(super) tenant: Option<TenantName>,
    /// Its text; events before it were lost where it is none.
    pub(super) text: Option<Bytes>,
    pub(super) id: u64,
}

impl EncodedEvent {
    fn of(event: &BusEvent) -> Self {
        let body: Option<EventBody> = serde_json::from_str(&event.body).ok();
        let tenant = body.and_then(|body| body.tenant).and_then(|tenant| tenant.parse().ok());
        let kind = event.subject.strip_prefix(SUBJECT_ROOT).unwrap_or(&event.subject);
        // Bodies are JSON without line feeds.
        let text = format!("id: {}\nevent: {kind}\ndata: {}\n\n", event.id, event.body);
        Self { subject: event.subject.to_string(), tenant, text: Some(text.into()), id: event.id }
    }
}

impl Streams {
    /// A permit for a stream of a caller.
    ///
    /// # Errors
    /// RateLimited: there are as many as there may be, in all or of its token.
    pub(super) fn permit(&self, caller: &Caller) -> Result<StreamPermit, Problem> {
        let whose = caller.name().to_owned();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let (all, own) = (open.values().sum::<usize>(), open.get(&whose).copied().unwrap_or(0));
        let most = if caller.token.is_some() { OF_TOKEN } else { OF_CLIENT };
        let text = match (all >= ALL, own >= most) {
            (true, _) => format!("{ALL} streams are open, the maximum of a server; close some, or try again later"),
            (_, true) => format!("{most} streams of this token are open; close some, or use another token"),
            _ => {
                *open.entry(whose.clone()).or_default() += 1;
                return Ok(StreamPermit { open: Arc::clone(&self.open), whose });
            }
        };
        Err(Problem::coded(Code::RateLimited, text).retry_after(Duration::from_millis(5000)))
    }

    /// How many are open.
    pub(super) fn count(&self) -> u32 {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        u32::try_from(open.values().sum::<usize>()).unwrap_or(u32::MAX)
    }

    /// All events from now on. They are read and written as text as long as somebody listens.
    ///
    /// # Errors
    /// As of the bus.
    pub(super) fn events(&self, handle: &Handle) -> Result<Events, Problem> {
        let mut hub = self.hub.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = hub.upgrade() {
            return Ok(Events::new(sender));
        }
        let heard = handle.subscribe(SubjectFilter::all())?;
        let sender = Arc::new(broadcast::Sender::new(WAITING));
        *hub = Arc::downgrade(&sender);
        // Listens first: the task behind it says nothing to nobody.
        let events = Events::new(Arc::clone(&sender));
        tokio::spawn(say(heard, Arc::downgrade(&sender)));
        Ok(events)
    }
}

/// Events for a stream.
#[derive(Debug)]
pub(super) struct Events {
    events: broadcast::Receiver<Arc<EncodedEvent>>,
    /// Events were lost that the stream has not said yet.
    lagged: bool,
    /// The first event behind lost ones, once the loss was said.
    behind: Option<Arc<EncodedEvent>>,
    /// The last one ends the task behind it.
    _hub: Arc<broadcast::Sender<Arc<EncodedEvent>>>,
}

impl Events {
    fn new(hub: Arc<broadcast::Sender<Arc<EncodedEvent>>>) -> Self {
        Self { events: hub.subscribe(), lagged: false, behind: None, _hub: hub }
    }

    /// The next event; none when there are no more. Where some were lost, it says so first. Nothing is lost by giving up waiting.
    pub(super) async fn next(&mut self) -> Option<Arc<EncodedEvent>> {
        loop {
            if let Some(event) = self.behind.take() {
                return Some(event);
            }
            match self.events.recv().await {
                Ok(event) => return Some(self.after_loss(event)),
                Err(broadcast::error::RecvError::Closed) => return None,
                Err(broadcast::error::RecvError::Lagged(_)) => self.lagged = true,
            }
        }
    }

    /// The next event, if it is there already.
    pub(super) fn ready(&mut self) -> Option<Arc<EncodedEvent>> {
        loop {
            if let Some(event) = self.behind.take() {
                return Some(event);
            }
            match self.events.try_recv() {
                Ok(event) => return Some(self.after_loss(event)),
                Err(broadcast::error::TryRecvError::Lagged(_)) => self.lagged = true,
                Err(broadcast::error::TryRecvError::Empty | broadcast::error::TryRecvError::Closed) => return None,
            }
        }
    }

    fn after_loss(&mut self, event: Arc<EncodedEvent>) -> Arc<EncodedEvent> {
        if !std::mem::take(&mut self.lagged) {
            return event;
        }
        let from = event.id;
        self.behind = Some(event);
        lost(from)
    }
}

fn lost(from: u64) -> Arc<EncodedEvent> {
    Arc::new(EncodedEvent { subject: String::new(), tenant: None, text: None, id: from })
}

/// Hands events on as text until nobody listens.
async fn say(mut heard: LocalSubscription, to: Weak<broadcast::Sender<Arc<EncodedEvent>>>) {
    while let Some(delivered) = heard.next().await {
        let Some(to) = to.upgrade() else { return };
        let said = match delivered {
            Delivery::Event(event) => Arc::new(EncodedEvent::of(&event)),
            Delivery::Lagged { from } => lost(from),
        };
        // Nobody listens at this moment.
        drop(to.send(said));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: u64) -> Arc<EncodedEvent> {
        Arc::new(EncodedEvent { subject: "s".to_owned(), tenant: None, text: Some("t".into()), id })
    }

    #[tokio::test]
    async fn a_slow_stream_says_what_it_lost_and_loses_nothing_more() {
        for at_once in [false, true] {
            let hub = Arc::new(broadcast::Sender::new(2));
            let mut events = Events::new(Arc::clone(&hub));
            for id in 1..=5 {
                hub.send(event(id)).unwrap();
            }
            let mut seen = Vec::new();
            for _ in 0..3 {
                let next = if at_once { events.ready() } else { events.next().await };
                let next = next.unwrap();
                seen.push((next.id, next.text.is_some()));
            }
            assert_eq!(seen, [(4, false), (4, true), (5, true)]);
            assert!(events.ready().is_none());
        }
    }
}
