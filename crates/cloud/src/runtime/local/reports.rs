//! Ends of attempts, and why some do not run yet, on their way to the host. Owns the gate that keeps both back until the call
//! that asked for the attempt has its answer.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use orlop_core::attempt::{AttemptEnd, AttemptKey};
use orlop_core::ports::substrate::{AttemptDelay, AttemptReport};
use tokio::sync::Notify;

/// Ends and delays that wait to be read.
#[derive(Debug, Default)]
pub(super) struct Reports {
    state: Mutex<State>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct State {
    open: BTreeSet<AttemptKey>,
    held: BTreeMap<AttemptKey, AttemptEnd>,
    ready: VecDeque<AttemptReport>,
    /// The last of each attempt.
    delays: BTreeMap<AttemptKey, AttemptDelay>,
}

impl State {
    fn take_delay(&mut self) -> Option<AttemptDelay> {
        let key = self.delays.keys().find(|key| self.open.contains(key))?.clone();
        self.delays.remove(&key)
    }
}

impl Reports {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the end of an attempt through, now or when it comes.
    pub(super) fn open(&self, key: &AttemptKey) {
        let mut state = self.state();
        match state.held.remove(key) {
            Some(end) => state.ready.push_back(AttemptReport { key: key.clone(), end }),
            None => drop(state.open.insert(key.clone())),
        }
        drop(state);
        self.arrived.notify_waiters();
    }

    /// Keeps the end of an attempt back until its gate is opened.
    pub(super) fn close(&self, key: &AttemptKey) {
        self.state().open.remove(key);
    }

    /// An attempt has ended; its gate closes behind it.
    pub(super) fn deliver(&self, key: &AttemptKey, end: AttemptEnd) {
        let mut state = self.state();
        state.delays.remove(key);
        if state.open.remove(key) {
            state.ready.push_back(AttemptReport { key: key.clone(), end });
        } else {
            state.held.insert(key.clone(), end);
        }
        drop(state);
        self.arrived.notify_waiters();
    }

    /// Something keeps an attempt from running, or nothing does any more.
    pub(super) fn delay(&self, delay: AttemptDelay) {
        self.state().delays.insert(delay.key.clone(), delay);
        self.arrived.notify_waiters();
    }

    /// The next delay. Dropping the future loses nothing.
    pub(super) async fn next_delay(&self) -> AttemptDelay {
        loop {
            let mut arrived = pin!(self.arrived.notified());
            arrived.as_mut().enable();
            if let Some(delay) = self.state().take_delay() {
                return delay;
            }
            arrived.await;
        }
    }

    /// The next end. Dropping the future loses nothing.
    pub(super) async fn next(&self) -> AttemptReport {
        loop {
            let mut arrived = pin!(self.arrived.notified());
            arrived.as_mut().enable();
            if let Some(report) = self.state().ready.pop_front() {
                return report;
            }
            arrived.await;
        }
    }
}
