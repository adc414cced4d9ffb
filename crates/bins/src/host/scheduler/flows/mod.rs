//! Flows inside the server: while it leads it drives every flow that has not ended, each by its own host
//! ([`crate::host::flow`]) whose steps are jobs of this server and whose journal is the fleet's store.
//!
//! What happens to a flow is in the store before anything is done about it. A server that takes the lead reads the flows
//! that live and goes on with them: a step that was started is found by the key of its job, so no attempt runs twice.

mod check;
mod counts;
mod drive;
mod event;
mod expiry;
mod facts;
mod jobs;
mod journal;
mod key;
mod order;
mod parts;
mod pipeline;
mod read;
mod retry;
mod submit;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use orlop_core::error::{Class, Problem};
use tokio::sync::{Semaphore, watch};
use tokio::task::AbortHandle;

pub(crate) use self::check::Checked;
pub use self::facts::Driver;
pub use self::jobs::ServerFleet;
pub use self::journal::{FleetJournal, MayWrite};
use self::key::Keys;
pub use self::order::{APPROVERS, Decider};
pub use self::pipeline::definition_text;
pub use self::read::{FlowRead, FlowSummary};
pub use self::retry::Again;
pub use self::submit::{Accepted, NewFlow, read_definition};
use super::{Handle, Status};
use crate::host::flow::HostHandle;

/// The flows of a server. Cheap to clone.
#[derive(Clone)]
pub struct Flows {
    inner: Arc<Inner>,
}

struct Inner {
    handle: Handle,
    journal: Arc<FleetJournal>,
    keys: Arc<Keys>,
    live: Mutex<BTreeMap<String, Live>>,
    /// When flows that have ended are deleted.
    expiry: Arc<expiry::Expiry>,
    /// Every flow that lives is driven: new ones may come.
    ready: watch::Sender<bool>,
    /// Held while a pipeline is read and changed.
    pipelines: tokio::sync::Mutex<()>,
    /// As many definitions are read at once.
    readers: Arc<Semaphore>,
    /// As many are only checked at once.
    checkers: Arc<Semaphore>,
}

/// Definitions that are read at once: each takes a core, and memory by its size.
const READERS: usize = 2;

impl Drop for Inner {
    fn drop(&mut self) {
        self.abandon();
    }
}

/// A flow that is driven.
struct Live {
    host: HostHandle,
    tasks: Vec<AbortHandle>,
    /// Closed once nothing more is written about it from here.
    left: watch::Receiver<()>,
}

impl fmt::Debug for Flows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flows").field("live", &self.inner.live().len()).finish_non_exhaustive()
    }
}

impl Inner {
    /// Drives nothing any more; the next leader goes on.
    fn abandon(&self) {
        self.ready.send_replace(false);
        let live = std::mem::take(&mut *self.live());
        live.into_values().flat_map(|live| live.tasks).for_each(|task| task.abort());
    }

    fn live(&self) -> MutexGuard<'_, BTreeMap<String, Live>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Flows {
    /// The flows of the server behind a handle, driven from now on whenever it leads. Call it inside a runtime.
    #[must_use]
    pub fn start(handle: Handle) -> Self {
        let leading = handle.clone();
        let may_write: MayWrite = Arc::new(move || match leading.status() {
            Status::Leading { epoch } => Ok(epoch),
            _ => Err(Problem::new(Class::Transient, "this server is not the leader now")),
        });
        let journal = Arc::new(FleetJournal::new(Arc::clone(handle.store()), may_write));
        let (keys, live, pipelines) = (Arc::default(), Mutex::default(), tokio::sync::Mutex::default());
        let (ready, expiry) = (watch::Sender::new(false), Arc::default());
        let [readers, checkers] = [(); 2].map(|()| Arc::new(Semaphore::new(READERS)));
        let inner = Inner { handle, journal, keys, live, expiry, ready, pipelines, readers, checkers };
        let flows = Self { inner: Arc::new(inner) };
        // A task that held the flows would keep them for ever; it ends with the server.
        tokio::spawn(drive::supervise(Arc::downgrade(&flows.inner), flows.inner.handle.status_changes()));
        flows
    }

    /// How many flows are driven.
    #[must_use]
    pub fn live(&self) -> usize {
        self.inner.live().len()
    }
}
