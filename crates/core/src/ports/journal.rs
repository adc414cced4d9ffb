//! Storing the events of flows before a host acts on them, so that a flow goes on after a crash. Owns the contract; the bytes of
//! events and snapshots are the flow engine's.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::error::Problem;
use crate::spec::flow::JobFlow;
use crate::time::Time;

/// A durable journal of flows: per flow its object, at most one snapshot, and the events after it.
///
/// `orlop_core::testing::journal_suite` (feature `testing`) checks one of your own.
///
/// ```
/// use orlop_core::ports::journal::{FlowRecord, JournalEntry};
/// use orlop_core::prelude::*;
///
/// async fn write(journal: &dyn FlowJournal) -> Result<(), Problem> {
///     let flow = JobFlow::new("nightly", FlowSpec::new([Step::new("a")]));
///     let (uid, created_at) = ("6d0d7a5e".to_owned(), Time::EPOCH);
///     journal.create(&FlowRecord { uid, flow, created_at, options: serde_json::Value::Null }).await?;
///     let entry = JournalEntry { now: Time::EPOCH, event: r#"{"type":"admit"}"#.to_owned() };
///     journal.append("6d0d7a5e", 0, &[entry.clone()]).await?;
///     // Somebody who does not know of the first entry is told so.
///     let late = journal.append("6d0d7a5e", 0, &[entry]).await;
///     assert_eq!(late.unwrap_err().class, Class::Conflict);
///     assert_eq!(journal.load("6d0d7a5e").await?.last, 1);
///     Ok(())
/// }
/// # #[cfg(feature = "testing")]
/// # tokio::runtime::Builder::new_current_thread().build().unwrap()
/// #     .block_on(write(&orlop_core::testing::MemoryJournal::new())).unwrap();
/// ```
#[async_trait]
pub trait FlowJournal: Send + Sync {
    /// Writes a new flow down, durably.
    ///
    /// # Errors
    /// Exists when the uid is there, or its namespace and name.
    async fn create(&self, flow: &FlowRecord) -> Result<(), Problem>;

    /// Reads a flow with its snapshot and the entries after it.
    ///
    /// # Errors
    /// NotFound; Fatal when what is stored cannot be read.
    async fn load(&self, uid: &str) -> Result<StoredFlow, Problem>;

    /// Appends entries in one durable transaction. `after` is the sequence number of the last entry the caller knows;
    /// entries get the numbers that follow. All entries are written, or none.
    ///
    /// # Errors
    /// Conflict when another host has appended meanwhile; NotFound; Capacity when the disk is full.
    async fn append(&self, uid: &str, after: u64, entries: &[JournalEntry]) -> Result<(), Problem>;

    /// Replaces the snapshot by one that covers the entries up to `through`, and drops those.
    ///
    /// # Errors
    /// Conflict when a later snapshot is stored; Invalid when no entry has the number `through` (which may be 0); NotFound.
    async fn snapshot(&self, uid: &str, through: u64, state: &[u8]) -> Result<(), Problem>;

    /// Writes the summary that lists show.
    ///
    /// # Errors
    /// NotFound.
    async fn summarize(&self, uid: &str, summary: &FlowSummary) -> Result<(), Problem>;

    /// Every flow, in order of creation then uid, with its summary.
    ///
    /// # Errors
    /// Transient when it cannot be read now.
    async fn list(&self) -> Result<Vec<FlowRecordSummary>, Problem>;

    /// Deletes a flow with its snapshot and entries; does nothing when there is none.
    ///
    /// # Errors
    /// Transient when it cannot be written now.
    async fn delete(&self, uid: &str) -> Result<(), Problem>;
}

/// A flow as it was submitted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowRecord {
    /// Unique id.
    pub uid: String,
    /// The object; its metadata names it.
    pub flow: JobFlow,
    /// When it was accepted.
    pub created_at: Time,
    /// Further data that the host wrote, to go on with the flow after a crash.
    pub options: serde_json::Value,
}

impl FlowRecord {
    /// Namespace of the flow; `default` where its metadata names none.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.flow.metadata.namespace.as_deref().unwrap_or("default")
    }
}

/// One journal entry: an event and the time the engine was told it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalEntry {
    /// The time.
    pub now: Time,
    /// The event as JSON.
    pub event: String,
}

/// A flow as a journal holds it.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredFlow {
    /// The flow.
    pub record: FlowRecord,
    /// Sequence number the snapshot covers, and its bytes.
    pub snapshot: Option<(u64, Vec<u8>)>,
    /// The entries after it.
    pub entries: Vec<JournalEntry>,
    /// Sequence number of the last entry ever appended; 0 for none.
    pub last: u64,
}

/// What a list shows of a flow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FlowSummary {
    /// Phase.
    pub phase: crate::machine::flow::FlowPhase,
    /// Progress, such as `3/10`.
    pub progress: String,
    /// Message.
    pub message: String,
    /// When it started.
    pub started_at: Option<Time>,
    /// When it ended.
    pub ended_at: Option<Time>,
}

/// A flow in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowRecordSummary {
    /// Unique id.
    pub uid: String,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// When it was accepted.
    pub created_at: Time,
    /// What is known of it.
    pub summary: FlowSummary,
}
