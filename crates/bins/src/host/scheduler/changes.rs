//! What has changed and is committed, gathered for live views. Nothing is gathered while nobody listens. Holds which things changed and
//! not their values: these are read from the store and the newest snapshot.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use orlop_core::id::{JobId, TenantName};
use orlop_dag::engine::StatusView;
use tokio::sync::Notify;

/// Jobs whose ids are kept; of more it is only known that there are many.
const JOBS: usize = 2000;

/// What changed of a flow.
#[derive(Clone, Debug)]
pub struct FlowChange {
    /// Whose it is.
    pub tenant: TenantName,
    /// How it stands now; none = it was deleted.
    pub view: Option<Arc<StatusView>>,
}

/// What changed since it was taken last.
#[derive(Clone, Debug, Default)]
pub struct Gathered {
    /// Jobs, or elements of them.
    pub jobs: BTreeSet<JobId>,
    /// There were more than `jobs` names.
    pub many_jobs: bool,
    /// There is a new snapshot of the fleet.
    pub fleet: bool,
    /// Flows, by their ids.
    pub flows: BTreeMap<String, FlowChange>,
}

impl Gathered {
    fn is_empty(&self) -> bool {
        self.jobs.is_empty() && !self.many_jobs && !self.fleet && self.flows.is_empty()
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Changes {
    gathered: Mutex<Gathered>,
    news: Notify,
    listeners: AtomicUsize,
}

/// Somebody listens, until this is dropped.
#[derive(Debug)]
pub struct Listening(Arc<Changes>);

impl Drop for Listening {
    fn drop(&mut self) {
        if self.0.listeners.fetch_sub(1, Ordering::SeqCst) == 1 {
            *self.0.gathered() = Gathered::default();
        }
    }
}

impl Changes {
    fn gathered(&self) -> MutexGuard<'_, Gathered> {
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gathers from now on, until the answer is dropped.
    pub fn listen(self: &Arc<Self>) -> Listening {
        self.listeners.fetch_add(1, Ordering::SeqCst);
        Listening(Arc::clone(self))
    }

    /// Whether somebody listens.
    pub fn is_heard(&self) -> bool {
        self.listeners.load(Ordering::SeqCst) > 0
    }

    fn note(&self, change: impl FnOnce(&mut Gathered)) {
        if !self.is_heard() {
            return;
        }
        change(&mut self.gathered());
        self.news.notify_one();
    }

    /// Changes of these jobs are committed.
    pub(super) fn jobs(&self, jobs: &[JobId]) {
        self.note(|gathered| {
            let room = JOBS.saturating_sub(gathered.jobs.len());
            gathered.many_jobs |= jobs.len() > room;
            gathered.jobs.extend(jobs.iter().take(room));
        });
    }

    /// There is a new snapshot of the fleet, of what is committed.
    pub(super) fn fleet(&self) {
        self.note(|gathered| gathered.fleet = true);
    }

    /// A flow stands like this; none = it was deleted.
    pub(super) fn flow(&self, id: &str, tenant: &TenantName, view: Option<Arc<StatusView>>) {
        self.note(|gathered| {
            gathered.flows.insert(id.to_owned(), FlowChange { tenant: tenant.clone(), view });
        });
    }

    /// Waits until something has changed. For one caller.
    pub async fn changed(&self) {
        loop {
            if !self.gathered().is_empty() {
                return;
            }
            self.news.notified().await;
        }
    }

    /// Takes what changed.
    pub fn take(&self) -> Gathered {
        std::mem::take(&mut *self.gathered())
    }
}

#[cfg(test)]
mod tests {
    use orlop_core::id::Epoch;

    use super::*;

    fn ids(numbers: std::ops::Range<u64>) -> Vec<JobId> {
        numbers.filter_map(|number| JobId::new(Epoch(1), number)).collect()
    }

    #[tokio::test]
    async fn what_changed_is_gathered_only_while_somebody_listens() {
        let changes = Arc::new(Changes::default());
        changes.jobs(&ids(1..4));
        assert!(changes.take().is_empty());
        let first = changes.listen();
        changes.jobs(&ids(1..4));
        changes.jobs(&ids(2..6));
        changes.fleet();
        changes.changed().await;
        let taken = changes.take();
        assert_eq!((taken.jobs.len(), taken.many_jobs, taken.fleet), (5, false, true));
        changes.jobs(&ids(1..2));
        drop(first);
        let _second = changes.listen();
        assert!(changes.take().is_empty(), "what nobody took is not kept for the next");
    }

    #[tokio::test]
    async fn of_very_many_jobs_it_is_only_known_that_they_are_many() {
        let changes = Arc::new(Changes::default());
        let _listening = changes.listen();
        changes.jobs(&ids(1..1_000_000));
        let taken = changes.take();
        assert_eq!((taken.jobs.len(), taken.many_jobs), (JOBS, true));
    }
}
