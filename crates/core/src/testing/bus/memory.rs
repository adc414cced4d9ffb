//! A bus in memory. Owns the contract of the port without threads or a network.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use async_trait::async_trait;

use crate::error::Problem;
use crate::ports::bus::{BusEvent, Delivery, EventBus, SubjectFilter, Subscription, check_events};
use crate::testing::wait::lock;

/// A bus in memory. Clones share what is published.
#[derive(Clone, Debug)]
pub struct MemoryBus {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    ring: VecDeque<Arc<BusEvent>>,
    size: usize,
    /// Number of events that have left the ring.
    gone: u64,
    /// Greatest id that was published.
    newest: u64,
    waiting: Vec<Waker>,
}

#[derive(Debug)]
struct MemorySubscription {
    state: Arc<Mutex<State>>,
    filter: SubjectFilter,
    /// Place of the next event in the order of publication.
    next: u64,
}

impl MemoryBus {
    /// A bus that keeps as many events for slow listeners.
    #[must_use]
    pub fn new(size: usize) -> Self {
        let state = State { ring: VecDeque::new(), size: size.max(1), gone: 0, newest: 0, waiting: Vec::new() };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Everything that the ring still holds.
    #[must_use]
    pub fn published(&self) -> Vec<Arc<BusEvent>> {
        lock(&self.state).ring.iter().cloned().collect()
    }
}

#[async_trait]
impl EventBus for MemoryBus {
    async fn publish(&self, events: Vec<BusEvent>) -> Result<(), Problem> {
        check_events(&events)?;
        let mut state = lock(&self.state);
        for event in events {
            if event.id <= state.newest {
                continue;
            }
            state.newest = event.id;
            state.ring.push_back(Arc::new(event));
            if state.ring.len() > state.size {
                state.ring.pop_front();
                state.gone += 1;
            }
        }
        state.waiting.drain(..).for_each(Waker::wake);
        Ok(())
    }

    async fn subscribe(&self, filter: SubjectFilter) -> Result<Box<dyn Subscription>, Problem> {
        let state = lock(&self.state);
        let next = state.gone + state.ring.len() as u64;
        Ok(Box::new(MemorySubscription { state: Arc::clone(&self.state), filter, next }))
    }
}

#[async_trait]
impl Subscription for MemorySubscription {
    async fn next(&mut self) -> Option<Delivery> {
        poll_fn(|context| {
            let mut state = lock(&self.state);
            if self.next < state.gone {
                self.next = state.gone;
                let from = state.ring.front().map_or(0, |event| event.id);
                return Poll::Ready(Some(Delivery::Lagged { from }));
            }
            while let Some(event) = usize::try_from(self.next - state.gone).ok().and_then(|at| state.ring.get(at)) {
                self.next += 1;
                if self.filter.passes(&event.subject) {
                    return Poll::Ready(Some(Delivery::Event(Arc::clone(event))));
                }
            }
            state.waiting.push(context.waker().clone());
            Poll::Pending
        })
        .await
    }
}
