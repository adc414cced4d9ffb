//! The store of the fleet's server: what it decides is stored before it acts on it. Owns the contract of the store and the list of
//! records; decides nothing about jobs.
//!
//! One server at a time writes, under an [`Epoch`] that it got from [`FleetStore::acquire`]; a commit of an older epoch is
//! refused and writes nothing. All batches of one [`FleetStore::commit`] are written in one durable transaction, or none.
//! Within it an adapter may merge changes of the same row. Reads ([`FleetReads`]) see committed batches only and never wait for
//! the writer.
//!
//! Jobs, elements and attempts have records of their own ([`Record`]); what is written rarely (workers, tenants, tokens,
//! secrets, flows, artifacts) is a [`Document`]: a JSON body under a key.
//!
//! ```
//! use orlop_core::id::{Epoch, JobId};
//! use orlop_core::machine::job::JobState;
//! use orlop_core::ports::fleet_store::{FleetStore, Holder, JobRow, NewJob, NewSpec, Record, WriteBatch};
//! use orlop_core::prelude::*;
//!
//! async fn write(store: &dyn FleetStore) -> Result<(), Problem> {
//!     let epoch = store.acquire(&Holder { name: "server-1".into(), url: "https://server-1".into() }).await?;
//!     let spec = NewSpec::new(r#"{"command":["make"]}"#);
//!     let job = NewJob::new(JobId::from_u64(1), "physics".parse().unwrap(), spec.hash, Time::EPOCH);
//!     let row = JobRow::submitted(job, JobState::Queued);
//!     let records = vec![Record::Spec(Box::new(spec)), Record::JobNew(Box::new(row))];
//!     store.commit(epoch, vec![WriteBatch::new(records)]).await?;
//!     assert_eq!(store.job(JobId::from_u64(1)).await?.map(|job| job.unit.state), Some(JobState::Queued));
//!     // A server that lost its leadership cannot write.
//!     let refused = store.commit(Epoch(0), Vec::new()).await.unwrap_err();
//!     assert_eq!((refused.class, refused.reason), (Class::Denied, Some("Fenced")));
//!     Ok(())
//! }
//! # #[cfg(feature = "testing")]
//! # tokio::runtime::Builder::new_current_thread().build().unwrap()
//! #     .block_on(write(&orlop_core::testing::MemoryFleet::new())).unwrap();
//! ```

mod admin;
mod array;
mod attempt;
mod document;
mod job;
mod query;

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;

use crate::error::Problem;
use crate::id::{Epoch, JobId, TenantName};
use crate::task::TaskRef;
use crate::time::Time;

pub use self::admin::{
    AuditEntry, Holder, IdempotencyKey, IdempotencyRecord, Leader, OutboxEvent, OutboxRow, Retained, Retention,
};
pub use self::array::{ElementChange, ElementCounts, ElementRow, ElementSpan, RangeChange, Spans};
pub use self::attempt::{AttemptChange, AttemptDetail, AttemptEnd, AttemptRow, NewAttempt};
pub use self::document::{
    Approval, Artifact, ArtifactLink, Document, Documents, Entry, FleetFlow, FlowStep, Kind, LeftBy, Pipeline, Secret,
    Session, SessionGrant, SessionLink, Tenant, Token, Upload, Worker, part,
};
pub use self::job::{JobChange, JobKind, JobRow, Json, NewJob, NewSpec, SpecHash, TaskStatus, Text};
pub use self::query::{
    AttemptFilter, AuditFilter, ElementFilter, EntryFilter, JobFilter, MAX_PAGE, Page, Paged, SortOrder,
};

/// Error reason of a commit whose epoch is not the newest: another server leads. Class Denied.
pub const FENCED: &str = "Fenced";
/// Error reason of a commit that would give a job or element a second accepted final result. Class Fatal.
pub const FINAL_TWICE: &str = "FinalTwice";
/// Error reason of an acquisition while another server leads. Class Conflict, with the time to ask again.
pub const HELD: &str = "Held";

/// Everything that one turn of the server changed, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteBatch {
    /// The records.
    pub records: Vec<Record>,
}

impl WriteBatch {
    /// A turn of these records.
    #[must_use]
    pub fn new(records: Vec<Record>) -> Self {
        Self { records }
    }
}

impl From<Vec<Record>> for WriteBatch {
    fn from(records: Vec<Record>) -> Self {
        Self { records }
    }
}

/// One change. Later records win over earlier ones of the same thing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Record {
    /// A specification, before the first job that uses it. One that is already stored is left as it is.
    Spec(Box<NewSpec>),
    /// A new job; its spec is stored, or comes before it.
    JobNew(Box<JobRow>),
    /// A new state of a job.
    Job(Box<JobChange>),
    /// A new state of elements that were never assigned.
    Ranges(RangeChange),
    /// A new state of an element that was assigned at least once.
    Element(Box<ElementChange>),
    /// A new attempt.
    AttemptNew(Box<NewAttempt>),
    /// A new state of an attempt.
    Attempt(Box<AttemptChange>),
    /// A document, new or replaced.
    Put(Box<Entry>),
    /// A document that is to go. One that is not there is fine.
    Delete(Kind, String),
    /// The answer to a request with an idempotency key; replaces an older one of the same key.
    Idempotency(Box<IdempotencyRecord>),
    /// An entry of the audit trail. The store numbers it; `number` is ignored.
    Audit(Box<AuditEntry>),
    /// An event to be published after the commit by way of the outbox. The store numbers it.
    Event(Box<OutboxEvent>),
}

impl Record {
    /// The record that stores a document.
    ///
    /// # Errors
    /// Invalid when it cannot be written as JSON.
    pub fn put<D: Document>(document: &D) -> Result<Self, Problem> {
        Ok(Self::Put(Box::new(Entry::of(document)?)))
    }
}

/// A job that is not final.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredJob {
    /// The job.
    pub row: JobRow,
    /// Its elements, if it is an array.
    pub elements: Spans,
    /// Its attempts that have not ended or are only lost from sight, in order; of an array those of `elements.live`.
    pub attempts: Vec<AttemptRow>,
}

/// Some of the jobs that are not final.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestorePage {
    /// The jobs, in order of their ids.
    pub jobs: Vec<RestoredJob>,
    /// Each spec of these jobs once, in order of their hashes.
    pub specs: Vec<NewSpec>,
    /// Where the next page begins, if there is one.
    pub next: Option<JobId>,
}

/// What can be read of the fleet's store, by the leader and by standbys.
#[async_trait]
pub trait FleetReads: Send + Sync {
    /// A job, if it is stored.
    ///
    /// # Errors
    /// Transient when it cannot be read now; so of all reads.
    async fn job(&self, id: JobId) -> Result<Option<JobRow>, Problem>;

    /// Those of some jobs that are stored, in the order of their ids. An adapter asks once for all.
    ///
    /// # Errors
    /// As of [`FleetReads::job`].
    async fn some_jobs(&self, ids: &BTreeSet<JobId>) -> Result<Vec<JobRow>, Problem>;

    /// Jobs that pass a filter.
    ///
    /// # Errors
    /// As of [`FleetReads::job`].
    async fn jobs(&self, filter: &JobFilter, page: &Page<JobId>) -> Result<Paged<JobRow, JobId>, Problem>;

    /// An interned specification, if it is stored.
    ///
    /// # Errors
    /// As of [`FleetReads::job`].
    async fn spec(&self, hash: &SpecHash) -> Result<Option<NewSpec>, Problem>;

    /// Elements of an array in order of their indices, those never assigned among them.
    ///
    /// # Errors
    /// As of [`FleetReads::job`].
    async fn elements(
        &self,
        job: JobId,
        filter: &ElementFilter,
        page: &Page<u32>,
    ) -> Result<Paged<ElementRow, u32>, Problem>;

    /// How many elements of arrays are in which state, those never assigned among them. Jobs that are no arrays, or not
    /// stored, are left out.
    ///
    /// # Errors
    /// As of [`FleetReads::job`].
    async fn element_counts(&self, jobs: &BTreeSet<JobId>) -> Result<BTreeMap<JobId, ElementCounts>, Problem>;

    /// Attempts of a job in order of (index, attempt, member, epoch). The cursor is the last attempt seen.
    ///
    /// # Errors
    /// As of [`FleetReads::job`].
    async fn attempts(
        &self,
        job: JobId,
        filter: &AttemptFilter,
        page: &Page<TaskRef>,
    ) -> Result<Paged<AttemptRow, TaskRef>, Problem>;

    /// Outputs, tail and log summary of an attempt, if any were stored.
    ///
    /// # Errors
    /// As of [`FleetReads::job`].
    async fn detail(&self, attempt: &TaskRef) -> Result<Option<AttemptDetail>, Problem>;

    /// A document by its key.
    ///
    /// # Errors
    /// As of [`FleetReads::job`].
    async fn entry(&self, kind: Kind, key: &str) -> Result<Option<Entry>, Problem>;

    /// Documents of a kind in order of their keys, compared byte by byte.
    ///
    /// # Errors
    /// As of [`FleetReads::job`].
    async fn entries(
        &self,
        kind: Kind,
        filter: &EntryFilter,
        page: &Page<String>,
    ) -> Result<Paged<Entry, String>, Problem>;

    /// The answer stored under an idempotency key, unless it expired before `now`.
    ///
    /// # Errors
    /// As of [`FleetReads::job`].
    async fn idempotency(&self, key: &IdempotencyKey, now: Time) -> Result<Option<IdempotencyRecord>, Problem>;

    /// Every idempotency key that is still valid at `now`, in order of (tenant, key).
    ///
    /// # Errors
    /// As of [`FleetReads::job`].
    async fn idempotency_keys(
        &self,
        now: Time,
        page: &Page<IdempotencyKey>,
    ) -> Result<Paged<IdempotencyRecord, IdempotencyKey>, Problem>;

    /// The audit trail; the cursor is an entry's number.
    ///
    /// # Errors
    /// As of [`FleetReads::job`].
    async fn audit(&self, filter: &AuditFilter, page: &Page<u64>) -> Result<Paged<AuditEntry, u64>, Problem>;

    /// Events that wait to be published, in order of their ids.
    ///
    /// # Errors
    /// As of [`FleetReads::job`].
    async fn outbox(&self, page: &Page<u64>) -> Result<Paged<OutboxRow, u64>, Problem>;

    /// How many events wait to be published.
    ///
    /// # Errors
    /// As of [`FleetReads::job`].
    async fn outbox_len(&self) -> Result<u64, Problem>;

    /// Who leads, or led last; absent before the first acquisition.
    ///
    /// # Errors
    /// As of [`FleetReads::job`].
    async fn leader(&self) -> Result<Option<Leader>, Problem>;
}

/// The fleet's store, as its leading server uses it.
#[async_trait]
pub trait FleetStore: FleetReads {
    /// Takes leadership: every later commit needs the epoch that this returns, which is one more than any before.
    ///
    /// # Errors
    /// Conflict with reason [`HELD`] while another server leads; Transient when the store cannot be reached; Fatal when the
    /// epochs are used up.
    async fn acquire(&self, holder: &Holder) -> Result<Epoch, Problem>;

    /// Prolongs leadership where it has a term.
    ///
    /// # Errors
    /// Denied with reason [`FENCED`] when another epoch was taken or the term is over; Transient when the store cannot be
    /// reached.
    async fn renew(&self, epoch: Epoch) -> Result<(), Problem>;

    /// Gives leadership up: its commits are refused from now on, and another server can take it at once. Of an epoch that is not the newest: nothing happens.
    ///
    /// # Errors
    /// Transient when the store cannot be reached; the term then runs out.
    async fn release(&self, epoch: Epoch) -> Result<(), Problem>;

    /// Writes turns, in their order, in one durable transaction. Calls are carried out in the order in which they were first
    /// polled, and calls that wait together may share a transaction.
    ///
    /// # Errors
    /// Nothing was written: Denied with reason [`FENCED`] when the epoch is not the newest; Fatal with reason
    /// [`FINAL_TWICE`] when a job or element already has an accepted final result; Invalid when a record names a job,
    /// attempt or spec that is not stored, one that is already stored, a job id above 2⁶³ − 1, or a final state without
    /// `finished_at`; Capacity when the disk is full. Transient: it may or may not be written; a caller restores before it goes on.
    async fn commit(&self, epoch: Epoch, turns: Vec<WriteBatch>) -> Result<(), Problem>;

    /// Everything that lives, for a server that has just taken leadership: jobs that are not final, in order of their ids,
    /// with the specs they need. Documents and idempotency keys are read as such.
    ///
    /// # Errors
    /// Transient when it cannot be read now; Fatal when what is stored cannot be read.
    async fn restore(&self, page: &Page<JobId>) -> Result<RestorePage, Problem>;

    /// Deletes events that were published. Unknown ids are fine.
    ///
    /// # Errors
    /// As of [`FleetStore::commit`].
    async fn confirm(&self, epoch: Epoch, ids: &[u64]) -> Result<(), Problem>;

    /// Deletes what is older than the policy says, at most `policy.batch` jobs and as many rows of each other kind. Call it
    /// again while [`Retained::more`] holds.
    ///
    /// # Errors
    /// As of [`FleetStore::commit`].
    async fn retain(&self, epoch: Epoch, policy: &Retention) -> Result<Retained, Problem>;
}

/// The greatest number of a job id, and of an epoch's, that stores keep in order.
pub const MAX_JOB_ID: u64 = i64::MAX as u64;

/// Whether a filter by tenants lets one through; none = all.
#[must_use]
pub(crate) fn tenant_passes(tenants: Option<&[TenantName]>, tenant: Option<&TenantName>) -> bool {
    tenants.is_none_or(|allowed| tenant.is_some_and(|tenant| allowed.contains(tenant)))
}
