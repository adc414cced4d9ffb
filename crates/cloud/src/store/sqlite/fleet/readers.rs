//! Connections that only read, lent out one read at a time on threads that may block.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use orlop_core::error::{Class, Problem};
use orlop_core::id::JobId;
use orlop_core::ports::fleet_store::{
    AttemptDetail, AttemptFilter, AttemptRow, AuditEntry, AuditFilter, ElementCounts, ElementFilter, ElementRow, Entry,
    EntryFilter, FleetReads, IdempotencyKey, IdempotencyRecord, JobFilter, JobRow, Kind, Leader, NewSpec, OutboxRow,
    Page, Paged, SpecHash,
};
use orlop_core::task::TaskRef;
use orlop_core::time::Time;
use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::{SqliteFleet, lists, open, read, specs, write};
use crate::store::sqlite::error::CallError;

/// Reads at once; more wait.
const AT_ONCE: usize = 4;

#[derive(Debug)]
pub(super) struct Readers {
    path: Arc<Path>,
    idle: Arc<Mutex<Vec<Connection>>>,
    permits: Semaphore,
}

impl Readers {
    pub(super) fn new(path: Arc<Path>) -> Self {
        Self { path, idle: Arc::default(), permits: Semaphore::new(AT_ONCE) }
    }

    /// Carries out a read.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, CallError> + Send + 'static,
    ) -> Result<T, Problem> {
        let stopped = || Problem::new(Class::Transient, "the read was aborted; the program is ending");
        let _permit = self.permits.acquire().await.map_err(|_| stopped())?;
        let (path, idle) = (Arc::clone(&self.path), Arc::clone(&self.idle));
        let read = move || {
            let idle_one = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let connection = idle_one.map_or_else(|| open::reader(&path), Ok)?;
            let value = work(&connection).map_err(|trouble| trouble.into_problem("fleet store", &path, "reading"))?;
            idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
            Ok(value)
        };
        tokio::task::spawn_blocking(read).await.map_err(|error| stopped().because(error))?
    }
}

#[async_trait]
impl FleetReads for SqliteFleet {
    async fn job(&self, id: JobId) -> Result<Option<JobRow>, Problem> {
        self.readers.read(move |connection| read::find_job(connection, id)).await
    }

    async fn some_jobs(&self, ids: &BTreeSet<JobId>) -> Result<Vec<JobRow>, Problem> {
        let ids = ids.clone();
        let read = move |connection: &Connection| {
            ids.iter().filter_map(|id| read::find_job(connection, *id).transpose()).collect()
        };
        self.readers.read(read).await
    }

    async fn jobs(&self, filter: &JobFilter, page: &Page<JobId>) -> Result<Paged<JobRow, JobId>, Problem> {
        let (filter, page) = (filter.clone(), page.clone());
        self.readers.read(move |connection| lists::jobs(connection, &filter, &page)).await
    }

    async fn spec(&self, hash: &SpecHash) -> Result<Option<NewSpec>, Problem> {
        let hash = *hash;
        self.readers.read(move |connection| specs::find(connection, &hash)).await
    }

    async fn elements(
        &self,
        job: JobId,
        filter: &ElementFilter,
        page: &Page<u32>,
    ) -> Result<Paged<ElementRow, u32>, Problem> {
        let (filter, page) = (filter.clone(), page.clone());
        let read = move |connection: &Connection| match read::find_job(connection, job)? {
            Some(job) => lists::elements(connection, &job, &filter, &page),
            None => Ok(Paged { items: Vec::new(), next: None }),
        };
        self.readers.read(read).await
    }

    async fn element_counts(&self, jobs: &BTreeSet<JobId>) -> Result<BTreeMap<JobId, ElementCounts>, Problem> {
        let jobs = jobs.clone();
        let read = move |connection: &Connection| {
            let mut counts = BTreeMap::new();
            for id in jobs {
                if let Some(job) = read::find_job(connection, id)?.filter(|job| !job.job.indices.is_empty()) {
                    counts.insert(id, lists::element_counts(connection, &job)?);
                }
            }
            Ok(counts)
        };
        self.readers.read(read).await
    }

    async fn attempts(
        &self,
        job: JobId,
        filter: &AttemptFilter,
        page: &Page<TaskRef>,
    ) -> Result<Paged<AttemptRow, TaskRef>, Problem> {
        let (filter, page) = (*filter, page.clone());
        self.readers.read(move |connection| lists::attempts(connection, job, &filter, &page)).await
    }

    async fn detail(&self, attempt: &TaskRef) -> Result<Option<AttemptDetail>, Problem> {
        let id = *attempt;
        self.readers.read(move |connection| read::find_detail(connection, &id)).await
    }

    async fn entry(&self, kind: Kind, key: &str) -> Result<Option<Entry>, Problem> {
        let key = key.to_owned();
        self.readers.read(move |connection| lists::one_entry(connection, kind, &key)).await
    }

    async fn entries(
        &self,
        kind: Kind,
        filter: &EntryFilter,
        page: &Page<String>,
    ) -> Result<Paged<Entry, String>, Problem> {
        let (filter, page) = (filter.clone(), page.clone());
        self.readers.read(move |connection| lists::entries(connection, kind, &filter, &page)).await
    }

    async fn idempotency(&self, key: &IdempotencyKey, now: Time) -> Result<Option<IdempotencyRecord>, Problem> {
        let key = key.clone();
        self.readers.read(move |connection| lists::one_answer(connection, &key, now)).await
    }

    async fn idempotency_keys(
        &self,
        now: Time,
        page: &Page<IdempotencyKey>,
    ) -> Result<Paged<IdempotencyRecord, IdempotencyKey>, Problem> {
        let page = page.clone();
        self.readers.read(move |connection| lists::answers(connection, now, &page)).await
    }

    async fn audit(&self, filter: &AuditFilter, page: &Page<u64>) -> Result<Paged<AuditEntry, u64>, Problem> {
        let (filter, page) = (filter.clone(), page.clone());
        self.readers.read(move |connection| lists::audit(connection, &filter, &page)).await
    }

    async fn outbox(&self, page: &Page<u64>) -> Result<Paged<OutboxRow, u64>, Problem> {
        let page = page.clone();
        self.readers.read(move |connection| lists::outbox(connection, &page)).await
    }

    async fn outbox_len(&self) -> Result<u64, Problem> {
        self.readers.read(lists::outbox_len).await
    }

    async fn leader(&self) -> Result<Option<Leader>, Problem> {
        self.readers.read(write::leader).await
    }
}
