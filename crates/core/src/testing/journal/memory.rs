//! A journal in memory. Owns the contract of the port without durability; never touches a disk.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use crate::error::{Class, Problem};
use crate::ports::journal::{FlowJournal, FlowRecord, FlowRecordSummary, FlowSummary, JournalEntry, StoredFlow};
use crate::testing::wait::lock;

/// A journal in memory. Clones share what is stored, as two openings of one file would.
///
/// A test can make calls fail: [`MemoryJournal::fail_writes`] before anything is written, [`MemoryJournal::lose_answers`]
/// after it was.
#[derive(Clone, Debug, Default)]
pub struct MemoryJournal {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    flows: BTreeMap<String, FlowEntry>,
    failures: Vec<Failure>,
    writes: u64,
}

#[derive(Debug)]
struct FlowEntry {
    stored: StoredFlow,
    summary: FlowSummary,
}

#[derive(Debug)]
struct Failure {
    class: Class,
    written: bool,
}

impl MemoryJournal {
    /// An empty journal.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The next `count` writing calls fail with an error of this class and write nothing.
    pub fn fail_writes(&self, count: usize, class: Class) {
        let failures = (0..count).map(|_| Failure { class, written: false });
        lock(&self.state).failures.extend(failures);
    }

    /// The next `count` writing calls write and fail as Transient nevertheless, as when the answer is lost.
    pub fn lose_answers(&self, count: usize) {
        let failures = (0..count).map(|_| Failure { class: Class::Transient, written: true });
        lock(&self.state).failures.extend(failures);
    }

    /// Number of writing calls that wrote something.
    #[must_use]
    pub fn writes(&self) -> u64 {
        lock(&self.state).writes
    }

    fn write<T>(&self, work: impl FnOnce(&mut State) -> Result<T, Problem>) -> Result<T, Problem> {
        let mut state = lock(&self.state);
        let failure = if state.failures.is_empty() { None } else { Some(state.failures.remove(0)) };
        if let Some(Failure { class, written: false }) = failure {
            return Err(Problem::new(class, "the test had the journal fail this write"));
        }
        let value = work(&mut state)?;
        state.writes += 1;
        match failure {
            None => Ok(value),
            Some(failure) => Err(Problem::new(failure.class, "the test had the journal lose this answer")),
        }
    }
}

impl State {
    fn flow(&mut self, uid: &str) -> Result<&mut FlowEntry, Problem> {
        self.flows
            .get_mut(uid)
            .ok_or_else(|| Problem::new(Class::NotFound, format!("there is no flow with uid `{uid}` in the journal")))
    }
}

impl FlowEntry {
    fn covered(&self) -> u64 {
        self.stored.snapshot.as_ref().map_or(0, |(through, _)| *through)
    }
}

#[async_trait]
impl FlowJournal for MemoryJournal {
    async fn create(&self, flow: &FlowRecord) -> Result<(), Problem> {
        self.write(|state| {
            let named = |held: &FlowEntry| {
                let record = &held.stored.record;
                record.namespace() == flow.namespace() && record.flow.metadata.name == flow.flow.metadata.name
            };
            if state.flows.values().any(named) {
                let message = format!("flow `{}/{}` already exists", flow.namespace(), flow.flow.metadata.name);
                return Err(Problem::new(Class::Exists, message));
            }
            match state.flows.entry(flow.uid.clone()) {
                Entry::Occupied(_) => {
                    Err(Problem::new(Class::Exists, format!("a flow with uid `{}` already exists", flow.uid)))
                }
                Entry::Vacant(place) => {
                    let stored = StoredFlow { record: flow.clone(), snapshot: None, entries: Vec::new(), last: 0 };
                    place.insert(FlowEntry { stored, summary: FlowSummary::default() });
                    Ok(())
                }
            }
        })
    }

    async fn load(&self, uid: &str) -> Result<StoredFlow, Problem> {
        lock(&self.state).flow(uid).map(|held| held.stored.clone())
    }

    async fn append(&self, uid: &str, after: u64, entries: &[JournalEntry]) -> Result<(), Problem> {
        self.write(|state| {
            let stored = &mut state.flow(uid)?.stored;
            if stored.last != after {
                let message = format!("flow `{uid}` has {} entries, not {after}; load it again", stored.last);
                return Err(Problem::new(Class::Conflict, message));
            }
            stored.entries.extend_from_slice(entries);
            stored.last += entries.len() as u64;
            Ok(())
        })
    }

    async fn snapshot(&self, uid: &str, through: u64, bytes: &[u8]) -> Result<(), Problem> {
        self.write(|state| {
            let held = state.flow(uid)?;
            let covered = held.covered();
            if through < covered {
                let message = format!("flow `{uid}` has a snapshot through {covered}, later than {through}");
                return Err(Problem::new(Class::Conflict, message));
            }
            if through > held.stored.last {
                let message = format!("flow `{uid}` has {} entries, none with number {through}", held.stored.last);
                return Err(Problem::new(Class::Invalid, message));
            }
            let dropped = usize::try_from(through - covered).unwrap_or(usize::MAX);
            held.stored.entries.drain(..dropped.min(held.stored.entries.len()));
            held.stored.snapshot = Some((through, bytes.to_vec()));
            Ok(())
        })
    }

    async fn summarize(&self, uid: &str, summary: &FlowSummary) -> Result<(), Problem> {
        self.write(|state| {
            state.flow(uid)?.summary = summary.clone();
            Ok(())
        })
    }

    async fn list(&self) -> Result<Vec<FlowRecordSummary>, Problem> {
        let state = lock(&self.state);
        let mut list: Vec<FlowRecordSummary> = state
            .flows
            .values()
            .map(|FlowEntry { stored: StoredFlow { record, .. }, summary }| FlowRecordSummary {
                uid: record.uid.clone(),
                namespace: record.namespace().to_owned(),
                name: record.flow.metadata.name.clone(),
                created_at: record.created_at,
                summary: summary.clone(),
            })
            .collect();
        list.sort_by(|a, b| a.created_at.cmp(&b.created_at).then_with(|| a.uid.cmp(&b.uid)));
        Ok(list)
    }

    async fn delete(&self, uid: &str) -> Result<(), Problem> {
        self.write(|state| {
            state.flows.remove(uid);
            Ok(())
        })
    }
}

/// In-memory journals by number, for [`super::journal_suite`]: the same number opens the same journal again.
#[derive(Debug, Default)]
pub struct MemoryJournals {
    journals: Mutex<BTreeMap<u32, MemoryJournal>>,
}

impl MemoryJournals {
    /// The journal of a number, empty at first.
    #[must_use]
    pub fn open(&self, number: u32) -> MemoryJournal {
        lock(&self.journals).entry(number).or_default().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::flow::{FlowSpec, JobFlow};
    use crate::time::Time;

    fn record() -> FlowRecord {
        let flow = JobFlow::new("f", FlowSpec::default());
        FlowRecord { uid: "u".to_owned(), flow, created_at: Time::EPOCH, options: serde_json::Value::Null }
    }

    #[tokio::test]
    async fn failures_come_before_or_after_the_write() {
        let journal = MemoryJournal::new();
        journal.fail_writes(1, Class::Capacity);
        assert_eq!(journal.create(&record()).await.unwrap_err().class, Class::Capacity);
        assert_eq!(journal.load("u").await.unwrap_err().class, Class::NotFound);
        journal.lose_answers(1);
        assert_eq!(journal.create(&record()).await.unwrap_err().class, Class::Transient);
        assert!(journal.load("u").await.is_ok());
        assert_eq!(journal.create(&record()).await.unwrap_err().class, Class::Exists);
        assert_eq!(journal.writes(), 1);
    }
}
