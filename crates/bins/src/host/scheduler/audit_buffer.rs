//! Lines of the audit trail on their way to the store. They go along with the next batch that is written, so that they cost
//! no commit of their own; alone they wait a moment for one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use orlop_core::ports::fleet_store::{AuditEntry, Record};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Handle, Status};

/// Lines that wait at most; anyone who brings another one waits then.
const WAITING: usize = 4096;
/// With so many the next batch need not be waited for.
const MANY: usize = 512;
/// How long a line waits for a batch.
const PATIENCE: Duration = Duration::from_millis(50);

/// What a server answers that does not lead, over either interface. Nothing was done; who leads writes down what is asked there.
const ELSEWHERE: [&str; 2] = ["not-leader", "Unavailable"];

/// A line that is not written yet. Dropped, it is logged.
#[derive(Debug)]
pub(super) struct PendingEntry {
    entry: Option<Box<AuditEntry>>,
    /// Its place among those that wait.
    place: Option<OwnedSemaphorePermit>,
}

impl PendingEntry {
    /// It is in the store.
    pub(super) fn written(mut self) {
        self.entry = None;
    }
}

impl Drop for PendingEntry {
    fn drop(&mut self) {
        if let Some(entry) = self.entry.take() {
            let AuditEntry { actor, action, target, outcome, .. } = *entry;
            let why = "it could not be written";
            tracing::warn!(target: "orlop::audit", actor, %action, target, %outcome, why, "not in the audit trail");
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct AuditBuffer {
    waiting: Mutex<Vec<PendingEntry>>,
    due: AtomicBool,
    places: Arc<Semaphore>,
}

impl Default for AuditBuffer {
    fn default() -> Self {
        Self { waiting: Mutex::default(), due: AtomicBool::new(false), places: Arc::new(Semaphore::new(WAITING)) }
    }
}

impl AuditBuffer {
    /// Adds a line. Gives how many wait with it.
    fn add(&self, pending: PendingEntry) -> usize {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push(pending);
        waiting.len()
    }

    /// They wait no longer.
    pub(super) fn hurry(&self) {
        self.due.store(true, Ordering::SeqCst);
    }

    /// Whether they are worth a batch of their own.
    pub(super) fn are_due(&self) -> bool {
        self.due.load(Ordering::SeqCst)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Takes the oldest, with the records that write them.
    pub(super) fn take(&self) -> (Vec<Record>, Vec<PendingEntry>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let some = waiting.len().min(MANY);
        let entries: Vec<PendingEntry> = waiting.drain(..some).collect();
        self.due.store(!waiting.is_empty(), Ordering::SeqCst);
        drop(waiting);
        let record = |pending: &PendingEntry| pending.entry.clone().map(Record::Audit);
        (entries.iter().filter_map(record).collect(), entries)
    }

    /// Nobody writes them: they are logged, and anyone who waits for a place goes on.
    pub(super) fn give_up(&self) {
        let entries = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        drop(entries);
    }
}

impl Handle {
    /// Writes a line of the audit trail down, soon; nobody waits for it, unless too many do so already.
    pub async fn note(&self, entry: AuditEntry) {
        let shared = &self.shared;
        let leads = || matches!(self.status(), Status::Leading { .. });
        if ELSEWHERE.contains(&entry.outcome.as_ref()) {
            return;
        }
        let mut pending = PendingEntry { entry: Some(Box::new(entry)), place: None };
        if !leads() {
            return;
        }
        // It is never closed.
        pending.place = Arc::clone(&shared.audit_buffer.places).acquire_owned().await.ok();
        if !leads() {
            return;
        }
        let waiting = shared.audit_buffer.add(pending);
        if waiting == MANY {
            shared.audit_buffer.hurry();
            shared.ingress.wake().wake();
        } else if waiting == 1 {
            let shared = Arc::clone(shared);
            tokio::spawn(async move {
                tokio::time::sleep(PATIENCE).await;
                if !shared.audit_buffer.is_empty() {
                    shared.audit_buffer.hurry();
                    shared.ingress.wake().wake();
                }
            });
        }
    }
}
