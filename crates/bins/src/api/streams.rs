//! Answers that go on: how many there may be, and the events that many of them send. Owns these bounds, and that an event is read and
//! written as text once, however many streams send it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;
use orlop_cloud::bus::local::LocalSubscription;
use orlop_core::id::TenantName;
use orlop_core::ports::bus::{BusEvent, Delivery, EventBody, SUBJECT_ROOT, SubjectFilter, Subscription as _};
use tokio::sync::broadcast;

use super::auth::Caller;
use crate::host::scheduler::{Error, Handle};
use crate::wire::problem::{Code, Problem};

/// Streams at once, those of one token, and those of the client token.
const ALL: usize = 1000;
const OF_TOKEN: usize = 100;
const OF_CLIENT: usize = 800;
/// Events that wait for the slowest stream; what comes then is lost to it, and it is told so.
const WAITING: usize = 4096;

/// The streams of an interface.
#[derive(Debug, Default)]
pub(super) struct Streams {
    open: Arc<Mutex<BTreeMap<String, usize>>>,
    hub: Mutex<Weak<broadcast::Sender<Arc<EncodedEvent>>>>,
}

/// A stream that may go on until this is dropped.
#[derive(Debug)]
pub(super) struct StreamPermit {
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
    pub(super) fn permit(&self, caller: &Caller) -> Result<StreamPermit, Error> {
        let whose = caller.name().to_owned();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let (all, own) = (open.values().sum::<usize>(), open.get(&whose).copied().unwrap_or(0));
        let most = if caller.token.is_some() { OF_TOKEN } else { OF_CLIENT };
        let text = match (all >= ALL, own >= most) {
            (true, _) => format!("{ALL} streams are open; a server has no more"),
            (_, true) => format!("{most} streams of this token are open; close some, or use another token"),
            _ => {
                *open.entry(whose.clone()).or_default() += 1;
                return Ok(StreamPermit { open: Arc::clone(&self.open), whose });
            }
        };
        Err(Box::new(Problem::new(Code::RateLimited, text).after(5000)))
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
    pub(super) fn events(&self, handle: &Handle) -> Result<Events, Error> {
        let mut hub = self.hub.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = hub.upgrade() {
            let events = sender.subscribe();
            return Ok(Events { events, _hub: sender });
        }
        let heard = handle.subscribe(SubjectFilter::all())?;
        let (sender, events) = broadcast::channel(WAITING);
        let sender = Arc::new(sender);
        *hub = Arc::downgrade(&sender);
        tokio::spawn(say(heard, Arc::downgrade(&sender)));
        Ok(Events { events, _hub: sender })
    }
}

/// Events for a stream.
#[derive(Debug)]
pub(super) struct Events {
    events: broadcast::Receiver<Arc<EncodedEvent>>,
    /// The last one ends the task behind it.
    _hub: Arc<broadcast::Sender<Arc<EncodedEvent>>>,
}

impl Events {
    /// The next event; none when there are no more. Where some were lost, it says so first.
    pub(super) async fn next(&mut self) -> Option<Arc<EncodedEvent>> {
        match self.events.recv().await {
            Ok(said) => Some(said),
            Err(broadcast::error::RecvError::Closed) => None,
            Err(broadcast::error::RecvError::Lagged(_)) => {
                let next = self.events.recv().await.ok()?;
                Some(lost(next.id))
            }
        }
    }

    /// The next event, if it is there already.
    pub(super) fn ready(&mut self) -> Option<Arc<EncodedEvent>> {
        self.events.try_recv().ok()
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
