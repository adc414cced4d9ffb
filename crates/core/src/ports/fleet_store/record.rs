//! What a turn of the server writes. Owns the list of records; their shapes are in the modules beside this one.

use super::admin::{AuditEntry, IdempotencyRecord, OutboxEvent};
use super::array::{ElementChange, RangeChange};
use super::attempt::{AttemptChange, NewAttempt};
use super::document::{Document, Entry, Kind};
use super::job::{JobChange, JobRow, NewSpec};
use crate::error::Problem;

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
    /// A specification, before the first job that uses it. One that is stored already is left as it is.
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
    /// What somebody did or was refused. The store numbers it; `number` is ignored.
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
