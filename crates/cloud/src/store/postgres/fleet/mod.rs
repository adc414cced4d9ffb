//! The fleet's store in PostgreSQL (ports [`FleetStore`] and [`FleetReads`]), which several servers share while one leads.
//! Decides nothing about jobs.
//!
//! One task owns the writing connection; the statements of a commit travel together, many rows each. Reads have connections
//! of their own. A broken connection is opened again by the next call.

mod artifacts;
mod columns;
mod connection;
mod error;
mod lists;
mod logs;
mod places;
mod read;
mod restore;
mod schema;
#[cfg(test)]
mod tests;
mod tls;
mod worker;
mod write;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use orlop_core::error::{Class, Problem};
use orlop_core::id::{Epoch, JobId};
use orlop_core::ports::fleet_store::{FleetStore, Holder, Page, RestorePage, Retained, Retention, WriteBatch};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

pub use self::artifacts::PostgresArtifacts;
use self::connection::{Connection, Session, schema_name};
pub use self::logs::PostgresLogs;
pub use self::places::Contents;
use crate::store::fleet::batch::{Commit, QUEUE, Request};

#[cfg(doc)]
use orlop_core::ports::fleet_store::FleetReads;

/// Connections that read.
const READERS: usize = 3;

/// How the store is reached.
#[derive(Clone)]
#[non_exhaustive]
pub struct PostgresOptions {
    /// A URL or words such as `host=/run/postgresql dbname=orlop user=orlop`. The server knows the connections as `orlop`
    /// unless `application_name` is among them. Off this machine it is reached over TLS, and its certificate is checked by the
    /// authorities of the system or of the file `sslrootcert`; `sslmode=disable` asks for plain text.
    pub url: String,
    /// Schema that holds the tables; it is made when it is not there.
    pub schema: String,
    /// How long leadership lasts without being renewed.
    pub term: Duration,
    /// How long who reads waits for a database that says nothing, before a transient error.
    pub patience: Duration,
}

impl PostgresOptions {
    /// The store at a URL, in the schema `orlop`, with terms of 10 seconds; reads wait for 10 seconds at most.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        let (term, patience) = (Duration::from_secs(10), Duration::from_secs(10));
        Self { url: url.into(), schema: "orlop".to_owned(), term, patience }
    }

    /// The same in another schema.
    #[must_use]
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = schema.into();
        self
    }

    /// The same with another term.
    #[must_use]
    pub fn term(mut self, term: Duration) -> Self {
        self.term = term;
        self
    }

    /// The same where reads wait for so long.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }
}

impl fmt::Debug for PostgresOptions {
    /// Without the URL, which can hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresOptions")
            .field("schema", &self.schema)
            .field("term", &self.term)
            .field("patience", &self.patience)
            .finish_non_exhaustive()
    }
}

/// What connections are opened to.
#[derive(Clone, Debug)]
struct Target {
    config: tokio_postgres::Config,
    tls: Option<tls::Tls>,
    schema: String,
    term: Duration,
    patience: Duration,
}

impl Target {
    /// A place for a connection that writes.
    fn writer(&self) -> Connection {
        Connection::new(self.config.clone(), self.tls.clone(), self.schema.clone(), self.term)
    }

    /// The same for one that reads.
    fn reader(&self) -> Connection {
        self.writer().bounded(self.patience)
    }
}

/// The fleet's store in PostgreSQL.
///
/// A call whose future is dropped may still be carried out.
pub struct PostgresFleet {
    target: Target,
    requests: mpsc::Sender<Request>,
    readers: Vec<Connection>,
    turn: AtomicUsize,
    worker: JoinHandle<()>,
}

impl fmt::Debug for PostgresFleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresFleet").field("schema", &self.target.schema).finish_non_exhaustive()
    }
}

impl PostgresFleet {
    /// Connects, and makes the schema or brings it up to date.
    ///
    /// # Errors
    /// Invalid when the URL or the schema's name is none; Transient when the database cannot be reached; Denied without
    /// rights; Fatal when the schema is of a newer version.
    pub async fn open(options: PostgresOptions) -> Result<Self, Problem> {
        let (mut config, tls) = tls::of(&options.url)?;
        if config.get_application_name().is_none() {
            config.application_name("orlop");
        }
        config.connect_timeout(Duration::from_secs(5)).keepalives_idle(Duration::from_secs(5));
        let schema = schema_name(&options.schema)?;
        let target = Target { config, tls, schema, term: options.term, patience: options.patience };
        let writer = target.writer();
        writer.session().await?;
        let (requests, inbox) = mpsc::channel(QUEUE);
        let worker = tokio::spawn(worker::run(writer, inbox, options.term));
        let readers = (0..READERS).map(|_| target.reader()).collect();
        Ok(Self { target, requests, readers, turn: AtomicUsize::new(0), worker })
    }

    /// A connection that reads, each in its turn.
    async fn reader(&self) -> Result<Arc<Session>, Problem> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.readers.len().max(1);
        let reader = self.readers.get(turn).ok_or_else(stopped)?;
        reader.session().await
    }

    /// Waits for calls under way and ends the connections.
    pub async fn close(self) {
        let Self { requests, worker, .. } = self;
        drop(requests);
        if let Err(error) = worker.await {
            tracing::error!(%error, "the task of the fleet store panicked");
        }
    }

    async fn ask<T>(&self, request: impl FnOnce(oneshot::Sender<Result<T, Problem>>) -> Request) -> Result<T, Problem> {
        let (answer, answered) = oneshot::channel();
        self.requests.send(request(answer)).await.map_err(|_| stopped())?;
        answered.await.map_err(|_| stopped())?
    }
}

fn stopped() -> Problem {
    Problem::new(Class::Fatal, "the task of the fleet store has stopped; see the log for why, and open the store again")
}

#[async_trait]
impl FleetStore for PostgresFleet {
    async fn acquire(&self, holder: &Holder) -> Result<Epoch, Problem> {
        let holder = holder.clone();
        self.ask(|answer| Request::Acquire(holder, answer)).await
    }

    async fn renew(&self, epoch: Epoch) -> Result<(), Problem> {
        self.ask(|answer| Request::Renew(epoch, answer)).await
    }

    async fn release(&self, epoch: Epoch) -> Result<(), Problem> {
        self.ask(|answer| Request::Release(epoch, answer)).await
    }

    async fn commit(&self, epoch: Epoch, turns: Vec<WriteBatch>) -> Result<(), Problem> {
        self.ask(|answer| Request::Commit(Commit { epoch, turns, answer })).await
    }

    async fn restore(&self, page: &Page<JobId>) -> Result<RestorePage, Problem> {
        let session = self.reader().await?;
        restore::restore(&session, page).await
    }

    async fn confirm(&self, epoch: Epoch, ids: &[u64]) -> Result<(), Problem> {
        let ids = ids.to_vec();
        self.ask(|answer| Request::Confirm(epoch, ids, answer)).await
    }

    async fn retain(&self, epoch: Epoch, policy: &Retention) -> Result<Retained, Problem> {
        let policy = *policy;
        self.ask(|answer| Request::Retain(epoch, policy, answer)).await
    }
}
