//! What the loop knows beside the core: which specification and client fields a live job has, who waits for its end, which
//! requests were made under a key, and the workers with their sessions.

mod keys;
mod numbers;
mod spec;
mod watchers;
mod worker;

use std::collections::HashMap;
use std::sync::Arc;

use orlop_core::id::JobId;
use tokio::sync::oneshot;

pub(super) use keys::{Answered, Keys};
pub(super) use numbers::ByNumber;
pub use spec::Interned;
pub(super) use spec::Specs;
pub(super) use watchers::{ANY, Watchers};
pub(super) use worker::{LiveWorker, Syncing, Workers};

/// What a client said about a job that is neither placement nor what is run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientFields {
    /// Follows the request through all parts.
    pub correlation_id: Option<Box<str>>,
    /// W3C trace context.
    pub traceparent: Option<Box<str>>,
}

/// A job that is not final.
#[derive(Clone, Debug)]
pub(super) struct LiveJob {
    /// What it is.
    pub(super) spec: Arc<Interned>,
    /// What its client said, if anything.
    pub(super) client: Option<Arc<ClientFields>>,
    /// It is an array.
    pub(super) array: bool,
    /// Its array was stored as Running.
    pub(super) shown_running: bool,
}

/// Jobs that are not final.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    live: HashMap<JobId, LiveJob, ByNumber>,
    waiters: HashMap<JobId, Vec<oneshot::Sender<()>>, ByNumber>,
}

impl Jobs {
    pub(super) fn insert(&mut self, id: JobId, job: LiveJob) {
        self.live.insert(id, job);
    }

    pub(super) fn get(&self, id: JobId) -> Option<&LiveJob> {
        self.live.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: JobId) -> Option<&mut LiveJob> {
        self.live.get_mut(&id)
    }

    /// Forgets a job that is final, and gives those who waited for that.
    pub(super) fn finish(&mut self, id: JobId) -> Vec<oneshot::Sender<()>> {
        self.live.remove(&id);
        if self.waiters.is_empty() { Vec::new() } else { self.waiters.remove(&id).unwrap_or_default() }
    }

    /// Lets somebody wait for the end of a job. One that is not live has ended, or was never there: the waiter comes back.
    pub(super) fn wait(&mut self, id: JobId, waiter: oneshot::Sender<()>) -> Option<oneshot::Sender<()>> {
        if !self.live.contains_key(&id) {
            return Some(waiter);
        }
        let waiters = self.waiters.entry(id).or_default();
        waiters.retain(|known| !known.is_closed());
        waiters.push(waiter);
        None
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = (JobId, &LiveJob)> {
        self.live.iter().map(|(id, job)| (*id, job))
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.live.len()
    }
}
