//! The event bus inside one process (port [`EventBus`]). Keeps the newest events in a ring, stores nothing, and never waits for a
//! listener: one that is too slow is told which events it has missed.
//!
//! ```
//! use orlop_cloud::bus::local::LocalBus;
//! use orlop_core::ports::bus::{BusEvent, Delivery, SubjectFilter};
//! let bus = LocalBus::new();
//! let mut jobs = bus.listen(SubjectFilter::new("orlop.events.job.*")?)?;
//! bus.publish_now(vec![BusEvent { id: 1, subject: "orlop.events.job.created".into(), body: "{}".into() }])?;
//! assert!(matches!(jobs.next_now(), Some(Delivery::Event(event)) if event.id == 1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use async_trait::async_trait;
use orlop_core::error::{Class, Problem};
use orlop_core::ports::bus::{BusEvent, Delivery, EventBus, RING, SubjectFilter, Subscription, check_events};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

/// Listeners at once.
const LISTENERS: usize = 4096;

/// The event bus inside one process. Clones share it.
#[derive(Clone)]
pub struct LocalBus {
    ring: broadcast::Sender<Arc<BusEvent>>,
    /// Greatest id that was published.
    newest: Arc<AtomicU64>,
    listeners: Arc<AtomicUsize>,
}

impl fmt::Debug for LocalBus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalBus").field("listeners", &self.listeners()).finish_non_exhaustive()
    }
}

impl Default for LocalBus {
    fn default() -> Self {
        Self::with_ring(RING)
    }
}

impl LocalBus {
    /// A bus with a ring of [`RING`] events.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A bus that keeps as many events for slow listeners, rounded up to a power of two.
    #[must_use]
    pub fn with_ring(size: usize) -> Self {
        let ring = broadcast::Sender::new(size.clamp(1, 1 << 20));
        Self { ring, newest: Arc::default(), listeners: Arc::default() }
    }

    /// Number of listeners.
    #[must_use]
    pub fn listeners(&self) -> usize {
        self.listeners.load(Ordering::Relaxed)
    }

    /// Publishes events without waiting for anything. Those whose ids are not above all before are dropped: they came twice.
    ///
    /// # Errors
    /// Invalid when a body is too long or a subject is none of the fleet's.
    pub fn publish_now(&self, events: Vec<BusEvent>) -> Result<(), Problem> {
        check_events(&events)?;
        for event in events {
            let id = event.id;
            // One publisher at a time: the server's, in the order of its commits.
            if self.newest.fetch_max(id, Ordering::Relaxed) < id {
                // Nobody listens: nothing to do.
                drop(self.ring.send(Arc::new(event)));
            }
        }
        Ok(())
    }

    /// Listens from now on.
    ///
    /// # Errors
    /// Capacity when too many listen.
    pub fn listen(&self, filter: SubjectFilter) -> Result<LocalSubscription, Problem> {
        if self.listeners.fetch_add(1, Ordering::Relaxed) >= LISTENERS {
            self.listeners.fetch_sub(1, Ordering::Relaxed);
            let message = format!("{LISTENERS} listen to events already; close some, or try again later");
            return Err(Problem::new(Class::Capacity, message));
        }
        let (events, listeners) = (self.ring.subscribe(), Arc::clone(&self.listeners));
        Ok(LocalSubscription { events, filter, listeners, lagged: false, held: None })
    }
}

/// Events as one listener of a [`LocalBus`] gets them.
#[derive(Debug)]
pub struct LocalSubscription {
    events: broadcast::Receiver<Arc<BusEvent>>,
    filter: SubjectFilter,
    listeners: Arc<AtomicUsize>,
    /// Events were lost, and the listener does not know yet.
    lagged: bool,
    /// The first event after a loss that the listener knows of.
    held: Option<Arc<BusEvent>>,
}

impl Drop for LocalSubscription {
    fn drop(&mut self) {
        self.listeners.fetch_sub(1, Ordering::Relaxed);
    }
}

#[async_trait]
impl EventBus for LocalBus {
    async fn publish(&self, events: Vec<BusEvent>) -> Result<(), Problem> {
        self.publish_now(events)
    }

    async fn subscribe(&self, filter: SubjectFilter) -> Result<Box<dyn Subscription>, Problem> {
        Ok(Box::new(self.listen(filter)?))
    }
}

impl LocalSubscription {
    /// The next delivery that is there by now.
    pub fn next_now(&mut self) -> Option<Delivery> {
        if let Some(event) = self.take_held() {
            return Some(event);
        }
        loop {
            match self.events.try_recv() {
                Ok(event) => {
                    if let Some(delivery) = self.take(event) {
                        return Some(delivery);
                    }
                }
                Err(TryRecvError::Lagged(_)) => self.lagged = true,
                Err(TryRecvError::Empty | TryRecvError::Closed) => return None,
            }
        }
    }

    fn take_held(&mut self) -> Option<Delivery> {
        self.held.take().filter(|event| self.filter.passes(&event.subject)).map(Delivery::Event)
    }

    fn take(&mut self, event: Arc<BusEvent>) -> Option<Delivery> {
        if std::mem::take(&mut self.lagged) {
            let from = event.id;
            self.held = Some(event);
            return Some(Delivery::Lagged { from });
        }
        self.filter.passes(&event.subject).then_some(Delivery::Event(event))
    }
}

#[async_trait]
impl Subscription for LocalSubscription {
    async fn next(&mut self) -> Option<Delivery> {
        if let Some(event) = self.take_held() {
            return Some(event);
        }
        loop {
            match self.events.recv().await {
                Ok(event) => {
                    if let Some(delivery) = self.take(event) {
                        return Some(delivery);
                    }
                }
                Err(RecvError::Lagged(_)) => self.lagged = true,
                Err(RecvError::Closed) => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use orlop_core::testing::bus_suite;

    use super::*;

    fn event(id: u64) -> BusEvent {
        BusEvent { id, subject: "orlop.events.job.created".into(), body: "{}".into() }
    }

    #[tokio::test]
    async fn the_bus_passes_the_suite() {
        bus_suite(async |_| LocalBus::new()).await.unwrap_or_else(|error| panic!("{error}"));
    }

    #[tokio::test]
    async fn a_slow_listener_is_distinguished_from_where_it_goes_on() {
        let bus = LocalBus::with_ring(4);
        let mut slow = bus.listen(SubjectFilter::all()).unwrap();
        bus.publish_now((1..=10).map(event).collect()).unwrap();
        assert_eq!(slow.next().await, Some(Delivery::Lagged { from: 7 }));
        for id in 7..=10 {
            assert_eq!(slow.next().await, Some(Delivery::Event(Arc::new(event(id)))));
        }
        bus.publish_now(vec![event(11)]).unwrap();
        assert_eq!(slow.next().await, Some(Delivery::Event(Arc::new(event(11)))));
        drop(bus);
        assert_eq!(slow.next().await, None);
    }

    #[tokio::test]
    async fn what_is_there_is_had_without_waiting() {
        let bus = LocalBus::with_ring(4);
        let mut listener = bus.listen(SubjectFilter::all()).unwrap();
        assert_eq!(listener.next_now(), None);
        bus.publish_now((1..=2).map(event).collect()).unwrap();
        assert_eq!(listener.next_now(), Some(Delivery::Event(Arc::new(event(1)))));
        bus.publish_now((3..=9).map(event).collect()).unwrap();
        assert_eq!(listener.next_now(), Some(Delivery::Lagged { from: 6 }));
        assert_eq!(listener.next().await, Some(Delivery::Event(Arc::new(event(6)))));
        let rest: Vec<_> = std::iter::from_fn(|| listener.next_now()).collect();
        assert_eq!(rest, (7..=9).map(|id| Delivery::Event(Arc::new(event(id)))).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn listeners_are_counted_and_bounded() {
        let bus = LocalBus::with_ring(1);
        let all: Vec<_> = (0..LISTENERS).map(|_| bus.listen(SubjectFilter::all()).unwrap()).collect();
        assert_eq!(bus.listen(SubjectFilter::all()).unwrap_err().class, Class::Capacity);
        drop(all);
        assert_eq!(bus.listeners(), 0);
    }
}
