//! The journal of flows in the fleet's store: a document for the list, and under the flow's id its record, its snapshot and
//! the entries after it.
//!
//! One server writes at a time, fenced by its epoch: what an earlier leader still tries to write is refused by the store.
//! Within the server every flow has one writer at a time.

mod entry;
mod place;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use orlop_core::error::{Class, Problem};
use orlop_core::exact;
use orlop_core::id::Epoch;
use orlop_core::machine::flow::FlowPhase;
use orlop_core::ports::fleet_store::{
    Document as _, Documents as _, Entry, EntryFilter, FleetFlow, FleetStore, Kind, MAX_PAGE, Page, Record, WriteBatch,
};
use orlop_core::ports::journal::{FlowJournal, FlowRecord, FlowRecordSummary, FlowSummary, JournalEntry, StoredFlow};
use serde::{Deserialize, Serialize};

use self::entry::{StoredEntry, StoredRecord, StoredSnapshot};
use self::place::{NameHolder, entry_key, entry_prefix, flow_prefix, name_key, record_key, snapshot_key};
use super::expiry::ttl;

/// Says in which epoch this server may write now.
pub type MayWrite = Arc<dyn Fn() -> Result<Epoch, Problem> + Send + Sync>;

/// Rows that one transaction deletes at most.
const BATCH: usize = 2000;

/// The journal of flows of a server.
pub struct FleetJournal {
    store: Arc<dyn FleetStore>,
    may_write: MayWrite,
    /// Held while a flow is created: its name must be free.
    creating: tokio::sync::Mutex<()>,
    flows: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<Option<Position>>>>>,
}

/// How far the journal of a flow is.
#[derive(Clone, Debug)]
struct Position {
    last: u64,
    covered: Option<u64>,
    document: FleetFlow,
}

/// What a flow's document holds beside what every reader needs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Listed {
    pub(super) namespace: String,
    pub(super) summary: FlowSummary,
    /// Somebody ended it.
    pub(super) cancelled: bool,
    /// Seconds after its end at which it is deleted.
    pub(super) ttl: Option<u32>,
    /// Its labels.
    pub(super) labels: BTreeMap<String, String>,
}

/// What of the record's options says where the flow comes from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Origin {
    /// Id and version of its pipeline.
    pub(super) pipeline: Option<(String, u32)>,
}

impl FleetJournal {
    /// The journal in a store.
    #[must_use]
    pub fn new(store: Arc<dyn FleetStore>, may_write: MayWrite) -> Self {
        Self { store, may_write, creating: tokio::sync::Mutex::default(), flows: Mutex::default() }
    }

    /// Forgets how far flows are: another server may have written meanwhile.
    pub(super) fn forget(&self) {
        self.flows.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn slot(&self, uid: &str) -> Arc<tokio::sync::Mutex<Option<Position>>> {
        let mut flows = self.flows.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(flows.entry(uid.to_owned()).or_default())
    }

    pub(super) async fn commit(&self, records: Vec<Record>) -> Result<(), Problem> {
        let epoch = (self.may_write)()?;
        self.store.commit(epoch, vec![WriteBatch::new(records)]).await
    }

    /// The document of a flow.
    pub(super) async fn document(&self, uid: &str) -> Result<FleetFlow, Problem> {
        let key = orlop_core::ports::fleet_store::part(uid);
        self.store.get::<FleetFlow>(&key).await?.ok_or_else(|| unknown(uid))
    }

    /// Records that somebody ended a flow.
    pub(super) async fn mark_cancelled(&self, uid: &str) -> Result<(), Problem> {
        self.write(uid, async |position| {
            let listed = Listed { cancelled: true, ..listed(&position.document) };
            let revision = position.document.revision + 1;
            let document = FleetFlow { engine: value(&listed), revision, ..position.document.clone() };
            self.commit(vec![Record::put(&document)?]).await?;
            position.document = document;
            Ok(())
        })
        .await
    }

    /// Forgets how far a flow is that is not driven any more.
    pub(super) fn leave(&self, uid: &str) {
        self.flows.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }

    /// Who has a name among the flows that have not ended.
    pub(super) async fn holder(&self, namespace: &str, name: &str) -> Result<Option<String>, Problem> {
        let entry = self.store.entry(Kind::FlowEntry, &name_key(namespace, name)).await?;
        Ok(entry.map(|entry| read::<NameHolder>(&entry)).transpose()?.map(|holder| holder.uid))
    }

    async fn position(&self, uid: &str) -> Result<Position, Problem> {
        let document = self.document(uid).await?;
        let covered = self.stored_snapshot(uid).await?.map(|snapshot| snapshot.through);
        let mut last = covered.unwrap_or(0);
        for entry in self.entries(uid).await? {
            last = last.max(entry.seq);
        }
        Ok(Position { last, covered, document })
    }

    async fn stored_snapshot(&self, uid: &str) -> Result<Option<StoredSnapshot>, Problem> {
        let entry = self.store.entry(Kind::FlowEntry, &snapshot_key(uid)).await?;
        entry.as_ref().map(read).transpose()
    }

    async fn entries(&self, uid: &str) -> Result<Vec<StoredEntry>, Problem> {
        let entries = self.all(Kind::FlowEntry, &entry_prefix(uid)).await?;
        entries.iter().map(read).collect()
    }

    async fn all(&self, kind: Kind, prefix: &str) -> Result<Vec<Entry>, Problem> {
        let filter = EntryFilter { prefix: prefix.to_owned(), ..EntryFilter::default() };
        let (mut found, mut page) = (Vec::new(), Page::first(MAX_PAGE));
        loop {
            let part = self.store.entries(kind, &filter, &page).await?;
            found.extend(part.items);
            match part.next {
                Some(next) => page = Page::after(next, MAX_PAGE),
                None => return Ok(found),
            }
        }
    }

    /// Writes with the flow's position at hand, which is read anew after whatever may have gone half way.
    async fn write<T>(
        &self,
        uid: &str,
        work: impl AsyncFnOnce(&mut Position) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let slot = self.slot(uid);
        let mut held = slot.lock().await;
        let mut position = match held.take() {
            Some(position) => position,
            None => self.position(uid).await?,
        };
        let done = work(&mut position).await;
        if !matches!(&done, Err(error) if error.class == Class::Transient) {
            *held = Some(position);
        }
        done
    }

    /// The records by which a flow that has ended leaves: its name is free, and it goes with the jobs of its time.
    async fn leaving(&self, document: &FleetFlow, listed: &Listed) -> Result<Vec<Record>, Problem> {
        let mut records = Vec::new();
        if self.holder(&listed.namespace, &document.name).await?.as_deref() == Some(document.id.as_str()) {
            records.push(Record::Delete(Kind::FlowEntry, name_key(&listed.namespace, &document.name)));
        }
        for entry in self.all(Kind::FlowEntry, &flow_prefix(&document.id)).await? {
            records.push(Record::Put(Box::new(Entry { ended_at: document.ended_at, ..entry })));
        }
        Ok(records)
    }
}

fn unknown(uid: &str) -> Problem {
    Problem::new(Class::NotFound, format!("there is no flow with uid `{uid}` in the journal"))
}

fn read<T: serde::de::DeserializeOwned>(entry: &Entry) -> Result<T, Problem> {
    exact::from_str(&entry.body).map_err(|error| {
        let message = format!("`{}` of {} cannot be read; restore a backup of the store", entry.key, entry.kind);
        Problem::new(Class::Fatal, message).because(error)
    })
}

fn put(key: String, value: &impl Serialize) -> Result<Record, Problem> {
    let body = serde_json::to_string(value)
        .map_err(|error| Problem::new(Class::Invalid, format!("`{key}` cannot be written as JSON")).because(error))?;
    let entry = Entry { kind: Kind::FlowEntry, key, tenant: None, ended_at: None, body: body.into() };
    Ok(Record::Put(Box::new(entry)))
}

fn value(listed: &Listed) -> serde_json::Value {
    serde_json::to_value(listed).unwrap_or_default()
}

/// What a flow's document holds for lists.
pub(super) fn listed(document: &FleetFlow) -> Listed {
    serde_json::from_value(document.engine.clone()).unwrap_or_default()
}

#[async_trait]
impl FlowJournal for FleetJournal {
    async fn create(&self, flow: &FlowRecord) -> Result<(), Problem> {
        let _one = self.creating.lock().await;
        let (namespace, name) = (flow.namespace(), &flow.flow.metadata.name);
        let exists = |what: String| Err(Problem::new(Class::Exists, what));
        if self.holder(namespace, name).await?.is_some() {
            return exists(format!(
                "the name is taken: there is a flow `{name}` of tenant `{namespace}` that has not ended; choose another with --name, \
                 give every flow a new name with `metadata.generateName`, or end it"
            ));
        }
        if self.store.entry(Kind::Flow, &orlop_core::ports::fleet_store::part(&flow.uid)).await?.is_some() {
            return exists(format!("there is a flow with uid `{}`", flow.uid));
        }
        let tenant =
            namespace.parse().map_err(|error| Problem::new(Class::Invalid, "whose flow it is").because(error))?;
        let origin: Origin =
            flow.options.get("driver").and_then(|driver| Origin::deserialize(driver).ok()).unwrap_or_default();
        let (ttl, labels) = (Some(ttl(&flow.flow.spec)), flow.flow.metadata.labels.clone());
        let listed = Listed { namespace: namespace.to_owned(), ttl, labels, ..Listed::default() };
        let document = FleetFlow {
            id: flow.uid.clone(),
            tenant,
            name: name.clone(),
            pipeline: origin.pipeline,
            phase: FlowPhase::default().to_string(),
            engine: value(&listed),
            revision: 1,
            created_at: flow.created_at,
            ended_at: None,
        };
        let holder = NameHolder { uid: flow.uid.clone() };
        let records = vec![
            Record::put(&document)?,
            put(record_key(&flow.uid), &StoredRecord::of(flow))?,
            put(name_key(namespace, name), &holder)?,
        ];
        self.commit(records).await
    }

    async fn load(&self, uid: &str) -> Result<StoredFlow, Problem> {
        let slot = self.slot(uid);
        // No writer meanwhile: snapshot and entries are of one moment.
        let _held = slot.lock().await;
        let entry = self.store.entry(Kind::FlowEntry, &record_key(uid)).await?.ok_or_else(|| unknown(uid))?;
        let record = read::<StoredRecord>(&entry)?.into_record();
        let snapshot = self.stored_snapshot(uid).await?;
        let covered = snapshot.as_ref().map_or(0, |snapshot| snapshot.through);
        let mut entries = self.entries(uid).await?;
        entries.retain(|entry| entry.seq > covered);
        let last = entries.last().map_or(covered, |entry| entry.seq);
        let snapshot = snapshot.map(StoredSnapshot::into_parts).transpose()?;
        Ok(StoredFlow { record, snapshot, entries: entries.into_iter().map(StoredEntry::into_entry).collect(), last })
    }

    async fn append(&self, uid: &str, after: u64, entries: &[JournalEntry]) -> Result<(), Problem> {
        self.write(uid, async |position| {
            if position.last != after {
                let message = format!("flow `{uid}` has {} entries, not {after}; load it again", position.last);
                return Err(Problem::new(Class::Conflict, message));
            }
            let numbered = (after + 1..).zip(entries);
            let records = numbered.map(|(seq, entry)| put(entry_key(uid, seq), &StoredEntry::of(seq, entry)));
            let records = records.collect::<Result<Vec<_>, _>>()?;
            if !records.is_empty() {
                self.commit(records).await?;
            }
            position.last += entries.len() as u64;
            Ok(())
        })
        .await
    }

    async fn snapshot(&self, uid: &str, through: u64, state: &[u8]) -> Result<(), Problem> {
        self.write(uid, async |position| {
            if let Some(covered) = position.covered.filter(|covered| through < *covered) {
                let message = format!("flow `{uid}` has a snapshot through {covered}, later than {through}");
                return Err(Problem::new(Class::Conflict, message));
            }
            if through > position.last {
                let message = format!("flow `{uid}` has {} entries, none with number {through}", position.last);
                return Err(Problem::new(Class::Invalid, message));
            }
            // The snapshot comes first: entries it covers are not read any more, so they may go bit by bit.
            self.commit(vec![put(snapshot_key(uid), &StoredSnapshot::of(through, state))?]).await?;
            let first = position.covered.map_or(1, |covered| covered + 1);
            position.covered = Some(through);
            let gone: Vec<u64> = (first..=through).collect();
            for some in gone.chunks(BATCH) {
                let records = some.iter().map(|seq| Record::Delete(Kind::FlowEntry, entry_key(uid, *seq)));
                self.commit(records.collect()).await?;
            }
            Ok(())
        })
        .await
    }

    async fn summarize(&self, uid: &str, summary: &FlowSummary) -> Result<(), Problem> {
        self.write(uid, async |position| {
            let before = &position.document;
            let listed = Listed { summary: summary.clone(), ..listed(before) };
            let document = FleetFlow {
                phase: summary.phase.to_string(),
                engine: value(&listed),
                revision: before.revision + 1,
                ended_at: summary.ended_at.filter(|_| summary.phase.is_terminal()),
                ..before.clone()
            };
            let mut records = vec![Record::put(&document)?];
            if document.ended_at.is_some() && before.ended_at.is_none() {
                records.extend(self.leaving(&document, &listed).await?);
            }
            self.commit(records).await?;
            position.document = document;
            Ok(())
        })
        .await
    }

    async fn list(&self) -> Result<Vec<FlowRecordSummary>, Problem> {
        let mut flows = Vec::new();
        for entry in self.all(Kind::Flow, "").await? {
            let document: FleetFlow = entry.read()?;
            let Listed { namespace, summary, .. } = listed(&document);
            let FleetFlow { id: uid, name, created_at, .. } = document;
            flows.push(FlowRecordSummary { uid, namespace, name, created_at, summary });
        }
        flows.sort_by(|a, b| a.created_at.cmp(&b.created_at).then_with(|| a.uid.cmp(&b.uid)));
        Ok(flows)
    }

    async fn delete(&self, uid: &str) -> Result<(), Problem> {
        let document = match self.document(uid).await {
            Err(error) if error.class == Class::NotFound => return Ok(()),
            document => document?,
        };
        self.write(uid, async |_| {
            let namespace = listed(&document).namespace;
            let mut records = vec![Record::Delete(Kind::Flow, document.key())];
            if self.holder(&namespace, &document.name).await?.as_deref() == Some(uid) {
                records.push(Record::Delete(Kind::FlowEntry, name_key(&namespace, &document.name)));
            }
            for kind in [Kind::FlowEntry, Kind::FlowStep, Kind::Approval] {
                let entries = self.all(kind, &flow_prefix(uid)).await?;
                records.extend(entries.into_iter().map(|entry| Record::Delete(kind, entry.key)));
            }
            self.commit(records).await
        })
        .await?;
        self.leave(uid);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
