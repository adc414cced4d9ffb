//! The journal of flows in one SQLite file (port [`FlowJournal`]). Owns durability: what was acknowledged is there after
//! a crash of the process or the machine. Never decides what a flow does, and never blocks the runtime: one thread owns
//! the connection, and appends that wait together are committed together.
//!
//! One host at a time writes a file; any number of viewers read it meanwhile.

mod error;
#[cfg(feature = "fleet")]
pub mod fleet;
mod open;
mod owner;
mod schema;
mod statements;
#[cfg(test)]
mod tests;
mod worker;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use orlop_core::error::{Class, Problem};
use orlop_core::ports::journal::{FlowJournal, FlowRecord, FlowRecordSummary, FlowSummary, JournalEntry, StoredFlow};

use self::open::Store;
use self::owner::{Names, Owner};
use self::statements::{NewFlow, Write};
use self::worker::Request;

/// Requests that may wait for the thread before callers wait to hand theirs over.
const QUEUE: usize = 256;

/// What its thread and file are called.
const NAMES: Names = Names { thread: "orlop-journal", file: "journal", again: "journal" };

/// What a journal is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading and writing; one process at a time. Creates the file, and brings an older one up to date.
    Host,
    /// Reading only, also while a host writes.
    Viewer,
}

/// A journal of flows in one SQLite file.
///
/// ```
/// use orlop_cloud::store::sqlite::{Access, SqliteJournal};
/// use orlop_core::ports::journal::FlowRecord;
/// use orlop_core::prelude::*;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let folder = tempfile::tempdir()?;
/// let journal = SqliteJournal::open(folder.path().join("flows.db"), Access::Host).await?;
/// let flow = JobFlow::new("nightly", FlowSpec::new([Step::new("a")]));
/// let record = FlowRecord { uid: "6d0d7a5e".into(), flow, created_at: Time::EPOCH, options: serde_json::Value::Null };
/// journal.create(&record).await?;
/// assert_eq!(journal.list().await?[0].name, "nightly");
/// # journal.close().await;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok(()) }
/// ```
///
/// A call whose future is dropped may still be carried out. Dropping the journal waits for calls under way; in
/// asynchronous code [`SqliteJournal::close`] does so without blocking.
pub struct SqliteJournal {
    owner: Owner<Request>,
    access: Access,
    commits: Arc<AtomicU64>,
}

impl fmt::Debug for SqliteJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteJournal")
            .field("path", &self.path())
            .field("access", &self.access)
            .finish_non_exhaustive()
    }
}

impl SqliteJournal {
    /// Opens the journal in a file; its folder exists.
    ///
    /// # Errors
    /// Conflict when another process hosts it; NotFound when there is none to view; Denied without rights to the file;
    /// Capacity when the disk is full; Fatal when the file is damaged, of another program or of a newer version.
    pub async fn open(path: impl Into<PathBuf>, access: Access) -> Result<Self, Problem> {
        Self::start(path.into(), access, open::open).await
    }

    /// Opens the file and serves it on its own thread, on which `open` is called too.
    async fn start(
        path: PathBuf,
        access: Access,
        open: impl FnOnce(&Path, Access) -> Result<Store, Problem> + Send + 'static,
    ) -> Result<Self, Problem> {
        let commits = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&commits);
        let open = move |path: &Path| open(path, access);
        let serve = move |store, inbox| worker::run(store, inbox, &counted);
        let owner = Owner::start(Arc::from(path), NAMES, QUEUE, open, serve).await?;
        Ok(Self { owner, access, commits })
    }

    /// Waits for calls under way and closes the file.
    pub async fn close(self) {
        self.owner.close().await;
    }

    /// Where the file is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.owner.path()
    }

    /// Number of transactions committed since the journal was opened. Fewer than calls when calls shared one.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    async fn write(&self, write: Write) -> Result<(), Problem> {
        if self.access == Access::Viewer {
            let message =
                format!("journal {} was opened for viewing only; open it as host to write", self.path().display());
            return Err(Problem::new(Class::Denied, message));
        }
        self.owner.ask(|answer| Request::Write(write, answer)).await
    }
}

#[async_trait]
impl FlowJournal for SqliteJournal {
    async fn create(&self, flow: &FlowRecord) -> Result<(), Problem> {
        self.write(Write::Create(Box::new(NewFlow::of(flow)?))).await
    }

    async fn load(&self, uid: &str) -> Result<StoredFlow, Problem> {
        let uid = uid.to_owned();
        self.owner.ask(|answer| Request::Load(uid, answer)).await
    }

    async fn append(&self, uid: &str, after: u64, entries: &[JournalEntry]) -> Result<(), Problem> {
        self.write(Write::Append { uid: uid.to_owned(), after, entries: entries.to_vec() }).await
    }

    async fn snapshot(&self, uid: &str, through: u64, state: &[u8]) -> Result<(), Problem> {
        self.write(Write::Snapshot { uid: uid.to_owned(), through, state: state.to_vec() }).await
    }

    async fn summarize(&self, uid: &str, summary: &FlowSummary) -> Result<(), Problem> {
        let summary = statements::json("summary", summary)?;
        self.write(Write::Summarize { uid: uid.to_owned(), summary }).await
    }

    async fn list(&self) -> Result<Vec<FlowRecordSummary>, Problem> {
        self.owner.ask(Request::List).await
    }

    async fn delete(&self, uid: &str) -> Result<(), Problem> {
        self.write(Write::Delete { uid: uid.to_owned() }).await
    }
}
