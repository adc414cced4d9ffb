//! The scheduler server: one thread owns the core and works in batches; what a batch decided is released after its commit.
//!
//! ```text
//! handlers ── Handle ──► LockFreePriorityQueue ──► batch: inputs → core → round → rows ──► writer: group commit
//!     ▲                                                                                        │
//!     └──────────── answers, frames to sessions, ends, in order, after the commit ◄────────────┘
//! ```

mod artifacts;
mod audit_buffer;
mod batch;
mod changes;
pub mod clock;
mod command;
mod commit;
mod disk_guard;
mod error;
pub mod event_publisher;
mod explain;
pub mod flows;
pub mod grpc;
mod handle;
pub mod ingress;
mod lead;
mod live;
mod logs;
pub mod machine;
#[cfg(all(unix, feature = "cli"))]
pub mod program;
pub mod retention;
mod retry;
mod secrets;
mod session;
mod shared;
mod snapshot;
mod spec;
mod stop;
mod tenants;
#[cfg(test)]
mod tests;
mod thread;
mod traced;

pub(crate) use self::batch::metrics::BANDS;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use orlop_core::ports::fleet_store::FleetStore;

pub use self::artifacts::Swept;
pub use self::changes::{Changes, FlowChange, Gathered, Listening};
use self::clock::Clock;
pub use self::command::{Alive, Batch, Cancelled, Once, Registration, Submission, Submitted, WorkerOrder};
use self::disk_guard::DiskGuard;
pub use self::disk_guard::Disks;
pub use self::explain::Explained;
pub use self::handle::{Handle, StreamError};
use self::ingress::{LockFreePriorityQueue, Wake};
pub use self::live::ClientFields;
pub use self::logs::{LogNews, LogOrder, LogReader, PartNews, PartsReader};
pub use self::secrets::{SecretPlace, Secrets};
pub use self::session::{Closing, Opened, Poll, Session, SessionFacts};
use self::shared::Shared;
pub use self::shared::{Frequent, Options, Status};
pub use self::snapshot::{DrainSnapshot, Snapshot, Totals, WorkerSnapshot};
pub use self::spec::{Prepared, Submissions, Submitter};
pub use self::stop::Stop;
pub use self::tenants::is_gone;

/// A running server. Dropping it without [`Server::stop`] ends it as a crash would: nothing more is committed or released
/// once its thread notices.
#[derive(Debug)]
pub struct Server {
    handle: Handle,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    /// Starts a server on a store. It leads as soon as the store lets it; [`Handle::status`] tells.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(
        store: Arc<dyn FleetStore>,
        clock: Arc<dyn Clock>,
        options: Options,
        runtime: tokio::runtime::Handle,
    ) -> std::io::Result<Self> {
        let disk_guard = DiskGuard::new(options.disks.clone());
        let shared = Arc::new(Shared {
            ingress: LockFreePriorityQueue::new(options.queue),
            clock,
            store,
            bus: Arc::default(),
            options,
            status: tokio::sync::watch::Sender::new(Status::Restoring),
            until: Arc::default(),
            snapshot: ArcSwap::from_pointee(Snapshot::default()),
            changes: Arc::default(),
            pause: Wake::default(),
            stopping: AtomicBool::new(false),
            uploads: tokio::sync::Mutex::default(),
            disk_guard,
            losses: Arc::default(),
            audit_buffer: audit_buffer::AuditBuffer::default(),
            streams: AtomicU64::new(1),
        });
        let handle = Handle { shared: Arc::clone(&shared) };
        let work = thread::Loop { shared, runtime };
        let thread = std::thread::Builder::new().name("orlop-batches".to_owned()).spawn(move || work.run())?;
        Ok(Self { handle, thread: Some(thread) })
    }

    /// What others call.
    #[must_use]
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Ends the server: what was taken is committed and answered, leadership is given up.
    pub async fn stop(mut self) {
        self.tell_to_stop();
        if let Some(thread) = self.thread.take() {
            let joined = tokio::task::spawn_blocking(move || thread.join()).await;
            if !matches!(joined, Ok(Ok(()))) {
                tracing::error!(target: "orlop::scheduler", "the loop panicked");
            }
        }
    }

    fn tell_to_stop(&self) {
        let shared = &self.handle.shared;
        shared.stopping.store(true, Ordering::SeqCst);
        shared.ingress.wake().wake();
        shared.pause.wake();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.tell_to_stop();
    }
}
