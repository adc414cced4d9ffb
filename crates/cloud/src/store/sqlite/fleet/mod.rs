//! The fleet's store in one SQLite file (ports [`FleetStore`] and [`FleetReads`]). Owns durability: what was acknowledged is
//! there after a crash of the process or the machine. Decides nothing about jobs, and never blocks the runtime: one thread
//! owns the writing connection, reads have connections of their own.
//!
//! A lock on a file beside the database keeps a second server out; the epoch in the database refuses what an earlier opening
//! left behind.

mod lists;
mod open;
mod read;
mod readers;
mod restore;
mod schema;
mod specs;
mod stamp;
#[cfg(test)]
mod tests;
mod worker;
mod write;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use orlop_core::error::Problem;
use orlop_core::id::{Epoch, JobId};
use orlop_core::ports::fleet_store::{FleetStore, Holder, Page, RestorePage, Retained, Retention, WriteBatch};

pub use self::open::Durability;
use self::open::Writer;
use self::readers::Readers;
use self::worker::Counters;
use super::owner::{Names, Owner};
use crate::store::fleet::batch::{Commit, QUEUE, Request};

#[cfg(doc)]
use orlop_core::ports::fleet_store::FleetReads;

/// What its thread and file are called.
const NAMES: Names = Names { thread: "orlop-fleet-store", file: "fleet store", again: "store" };

/// The fleet's store in one SQLite file.
///
/// A call whose future is dropped may still be carried out. Dropping the store waits for calls under way; in asynchronous
/// code [`SqliteFleet::close`] does so without blocking.
pub struct SqliteFleet {
    owner: Owner<Request>,
    readers: Readers,
    counters: Arc<Counters>,
}

impl fmt::Debug for SqliteFleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteFleet").field("path", &self.path()).finish_non_exhaustive()
    }
}

impl SqliteFleet {
    /// Opens the store in a file, which is created or brought up to date; its folder exists.
    ///
    /// # Errors
    /// Conflict with reason `Locked` when another server has it open: try again; Denied without rights to the file;
    /// Capacity when the disk is full; Fatal when the file is damaged, of another program or of a newer version; Invalid when it is not
    /// the store that was here before.
    pub async fn open(path: impl Into<PathBuf>, durability: Durability) -> Result<Self, Problem> {
        Self::start(path.into(), move |path| open::writer(path, durability, false)).await
    }

    /// The same, also where the file is not the store that was here before: an empty one, another, an older copy. Its epochs go on
    /// above those that were seen, so that workers follow it.
    ///
    /// # Errors
    /// As of [`SqliteFleet::open`], but for the file's being another.
    pub async fn accept(path: impl Into<PathBuf>, durability: Durability) -> Result<Self, Problem> {
        Self::start(path.into(), move |path| open::writer(path, durability, true)).await
    }

    /// Opens the file and serves it on its own thread, on which `open` is called too.
    async fn start(
        path: PathBuf,
        open: impl FnOnce(&Path) -> Result<Writer, Problem> + Send + 'static,
    ) -> Result<Self, Problem> {
        let path: Arc<Path> = Arc::from(path);
        let counters = Arc::new(Counters::default());
        let (found, counted) = (Arc::clone(&counters), Arc::clone(&counters));
        // Known before anybody has the store.
        let open =
            move |path: &Path| open(path).inspect(|writer| found.lost.store(writer.stamp.lost, Ordering::Relaxed));
        let serve = move |writer, inbox| worker::run(writer, inbox, counted);
        let owner = Owner::start(Arc::clone(&path), NAMES, QUEUE, open, serve).await?;
        Ok(Self { owner, readers: Readers::new(path), counters })
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

    /// Number of commits that were missing at the end of the log when the store was opened; they are lost.
    #[must_use]
    pub fn lost_commits(&self) -> u64 {
        self.counters.lost.load(Ordering::Relaxed)
    }

    /// Number of transactions that turns were committed in since the store was opened. Fewer than calls when calls shared one.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.counters.commits.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl FleetStore for SqliteFleet {
    async fn acquire(&self, holder: &Holder) -> Result<Epoch, Problem> {
        let holder = holder.clone();
        self.owner.ask(|answer| Request::Acquire(holder, answer)).await
    }

    async fn renew(&self, epoch: Epoch) -> Result<(), Problem> {
        self.owner.ask(|answer| Request::Renew(epoch, answer)).await
    }

    async fn release(&self, epoch: Epoch) -> Result<(), Problem> {
        self.owner.ask(|answer| Request::Release(epoch, answer)).await
    }

    async fn commit(&self, epoch: Epoch, turns: Vec<WriteBatch>) -> Result<(), Problem> {
        self.owner.ask(|answer| Request::Commit(Commit { epoch, turns, answer })).await
    }

    async fn restore(&self, page: &Page<JobId>) -> Result<RestorePage, Problem> {
        let page = page.clone();
        self.readers.read(move |connection| restore::restore(connection, &page)).await
    }

    async fn confirm(&self, epoch: Epoch, ids: &[u64]) -> Result<(), Problem> {
        let ids = ids.to_vec();
        self.owner.ask(|answer| Request::Confirm(epoch, ids, answer)).await
    }

    async fn retain(&self, epoch: Epoch, policy: &Retention) -> Result<Retained, Problem> {
        let policy = *policy;
        self.owner.ask(|answer| Request::Retain(epoch, policy, answer)).await
    }
}
