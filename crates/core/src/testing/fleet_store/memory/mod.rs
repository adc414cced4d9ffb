//! The fleet's store in memory. Owns the contract of the port without durability; never touches a disk.

mod apply;
mod reads;
mod writes;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::error::{Class, Problem};
use crate::id::{Epoch, JobId};
use crate::ports::fleet_store::{
    AttemptDetail, AttemptRow, AuditEntry, Entry, Holder, IdempotencyKey, IdempotencyRecord, JobRow, Json, Kind,
    OutboxEvent, RangeChange, SpecHash, TaskStatus,
};
use crate::task::TaskRef;
use crate::testing::wait::lock;

/// A fleet's store in memory. Clones share what is stored, as two openings of one database would.
///
/// A test can make commits fail: [`MemoryFleet::fail_commits`] before anything is written, [`MemoryFleet::lose_answers`]
/// after it was; and it can let reads of single entries go unanswered: [`MemoryFleet::silence`].
#[derive(Clone, Debug, Default)]
pub struct MemoryFleet {
    state: Arc<Mutex<State>>,
}

/// A job with what belongs to it.
#[derive(Debug)]
struct JobEntry {
    row: JobRow,
    changes: Vec<RangeChange>,
    elements: BTreeMap<u32, TaskStatus>,
}

#[derive(Debug, Default)]
struct State {
    leader: Option<(Holder, Epoch)>,
    specs: BTreeMap<SpecHash, (Json, u64)>,
    jobs: BTreeMap<JobId, JobEntry>,
    attempts: BTreeMap<TaskRef, AttemptRow>,
    finals: BTreeMap<(JobId, u32), TaskRef>,
    details: BTreeMap<TaskRef, AttemptDetail>,
    entries: BTreeMap<(Kind, String), Entry>,
    keys: BTreeMap<IdempotencyKey, IdempotencyRecord>,
    audit: BTreeMap<u64, AuditEntry>,
    outbox: BTreeMap<u64, OutboxEvent>,
    audited: u64,
    events: u64,
    failures: Vec<Failure>,
    commits: u64,
    /// Whether lists of entries are never answered.
    silent: bool,
}

#[derive(Debug)]
struct Failure {
    class: Class,
    written: bool,
}

impl MemoryFleet {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The next `count` commits fail with an error of this class and write nothing.
    pub fn fail_commits(&self, count: usize, class: Class) {
        lock(&self.state).failures.extend((0..count).map(|_| Failure { class, written: false }));
    }

    /// The next `count` commits write and fail as Transient nevertheless, as when the answer is lost.
    pub fn lose_answers(&self, count: usize) {
        let failures = (0..count).map(|_| Failure { class: Class::Transient, written: true });
        lock(&self.state).failures.extend(failures);
    }

    /// From now on, or no longer, who asks for entries waits for ever, as where a line to a database has gone quiet.
    pub fn silence(&self, silent: bool) {
        lock(&self.state).silent = silent;
    }

    /// Number of commits that wrote something.
    #[must_use]
    pub fn commits(&self) -> u64 {
        lock(&self.state).commits
    }

    fn read<T>(&self, work: impl FnOnce(&State) -> T) -> T {
        work(&lock(&self.state))
    }
}

impl State {
    fn fence(&self, epoch: Epoch) -> Result<(), Problem> {
        match &self.leader {
            Some((holder, newest)) if *newest == epoch && !holder.name.is_empty() => Ok(()),
            newest => {
                let newest = newest.as_ref().map_or(Epoch(0), |(_, epoch)| *epoch);
                let message = format!(
                    "epoch {epoch} is not the current leader, the newest is {newest}; take leadership and restore"
                );
                Err(Problem::new(Class::Denied, message).with_reason(crate::ports::fleet_store::FENCED))
            }
        }
    }
}

/// In-memory stores by number, for [`super::fleet_store_suite`]: the same number opens the same store again.
#[derive(Debug, Default)]
pub struct MemoryFleets {
    stores: Mutex<BTreeMap<u32, MemoryFleet>>,
}

impl MemoryFleets {
    /// The store of a number, empty at first.
    #[must_use]
    pub fn open(&self, number: u32) -> MemoryFleet {
        lock(&self.stores).entry(number).or_default().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::fleet_store::{FleetReads as _, FleetStore as _, NewSpec, Record, WriteBatch};

    #[tokio::test]
    async fn failures_come_before_or_after_the_write() {
        let store = MemoryFleet::new();
        let epoch = store.acquire(&Holder { name: "a".into(), url: String::new() }).await.unwrap();
        let spec = NewSpec::new("{}");
        let turn = || vec![WriteBatch::new(vec![Record::Spec(Box::new(spec.clone()))])];
        store.fail_commits(1, Class::Capacity);
        assert_eq!(store.commit(epoch, turn()).await.unwrap_err().class, Class::Capacity);
        assert_eq!(store.spec(&spec.hash).await.unwrap(), None);
        store.lose_answers(1);
        assert_eq!(store.commit(epoch, turn()).await.unwrap_err().class, Class::Transient);
        assert_eq!(store.spec(&spec.hash).await.unwrap(), Some(spec));
        assert_eq!(store.commits(), 1);
    }
}
