//! What the loop, its handles and the services share: the way in, the clock, the store, and what was last published.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use arc_swap::ArcSwap;
use orlop_cloud::artifact::ArtifactBackend;
use orlop_cloud::bus::local::LocalBus;
use orlop_cloud::logs::LogStore;
use orlop_core::id::{Epoch, TenantName};
use orlop_core::ports::fleet_store::{FleetStore, Holder};
use orlop_scheduler::config::Config as CoreConfig;
use tokio::sync::watch;

use super::artifacts::StoredBytes;
use super::audit_buffer::AuditBuffer;
use super::changes::Changes;
use super::clock::Clock;
use super::command::Command;
use super::disk_guard::{DiskGuard, Disks};
use super::ingress::{LockFreePriorityQueue, Wake};
use super::logs::Losses;
use super::secrets::Secrets;
use super::snapshot::Snapshot;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::trace::Tracer;

/// What a server is started with.
#[derive(Clone, Debug)]
pub struct Options {
    /// How the core behaves.
    pub core: CoreConfig,
    /// Orders workers of equal rank.
    pub seed: u64,
    /// Who this server is to others.
    pub holder: Holder,
    /// The tenant of jobs that name none; absent = `default`.
    pub default_tenant: Option<TenantName>,
    /// Every tenant that work names is one; else it must have been made.
    pub create_tenants: bool,
    /// How many inputs each queue holds.
    pub queue: usize,
    /// Where logs are kept; absent = they are given up.
    pub logs: Option<LogStore>,
    /// Where artifacts are kept; absent = jobs that name one fail.
    pub artifacts: Option<Arc<dyn ArtifactBackend>>,
    /// Whose free room is looked after; absent = nobody's.
    pub disks: Option<Disks>,
    /// Secrets of tenants; absent = jobs that name one fail.
    pub secrets: Option<Secrets>,
    /// Events go to the store's outbox too, for a bus outside.
    pub outbox: bool,
    /// Which of the frequent events are reported, too.
    pub frequent: Frequent,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Who takes spans of traces.
    pub tracer: Tracer,
    /// The wall limit of attempts whose specification names none, in milliseconds; 0 = none.
    pub timeout_ms: u64,
    /// Time between the heartbeats of an agent, in milliseconds.
    pub heartbeat_ms: u32,
}

/// Events that are many and tell little, off by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frequent {
    /// `worker.heartbeat`, of each heartbeat.
    pub heartbeats: bool,
    /// `log.chunk`, of what is stored of a log: its place, never its text.
    pub chunks: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            core: CoreConfig::default(),
            seed: 1,
            holder: Holder { name: "orlop-scheduler".to_owned(), url: String::new() },
            default_tenant: None,
            create_tenants: false,
            queue: 8192,
            logs: None,
            artifacts: None,
            disks: None,
            secrets: None,
            outbox: false,
            frequent: Frequent::default(),
            metrics: Arc::new(Metrics::new()),
            tracer: Tracer::default(),
            timeout_ms: 0,
            heartbeat_ms: 5000,
        }
    }
}

impl Options {
    /// The name of the tenant that is always there.
    pub(crate) fn always_there(&self) -> &str {
        self.default_tenant.as_ref().map_or("default", TenantName::as_str)
    }

    /// The lease of attempts as agents learn it, in milliseconds: the one that the core counts with.
    pub(crate) fn lease_ms(&self) -> u32 {
        u32::try_from(self.core.lease).unwrap_or(u32::MAX)
    }
}

/// What the server does at the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// It leads and acts.
    Leading {
        /// Its epoch.
        epoch: Epoch,
    },
    /// It leads or wants to, but cannot write or has not read everything yet.
    Restoring,
    /// Another server leads.
    Standby {
        /// Where that is, if known.
        leader: Option<String>,
    },
    /// It ends.
    Stopped,
}

/// What the parts of a server share.
pub(super) struct Shared {
    pub(super) ingress: LockFreePriorityQueue<Command>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) store: Arc<dyn FleetStore>,
    pub(super) bus: Arc<LocalBus>,
    pub(super) options: Options,
    pub(super) status: watch::Sender<Status>,
    /// Until when this server may act, in monotonic milliseconds; 0 while it does not lead.
    pub(super) until: Arc<AtomicU64>,
    pub(super) snapshot: ArcSwap<Snapshot>,
    /// What has changed and is committed.
    pub(super) changes: Arc<Changes>,
    /// Where the loop sleeps while nobody's input is waited for.
    pub(super) pause: Wake,
    /// The server is to end.
    pub(super) stopping: AtomicBool,
    /// Held while artifacts come and go.
    pub(super) uploads: tokio::sync::Mutex<StoredBytes>,
    /// DiskGuard on the disks.
    pub(super) disk_guard: DiskGuard,
    /// What workers dropped of logs.
    pub(super) losses: Arc<Losses>,
    /// Lines of the audit trail that wait.
    pub(super) audit_buffer: AuditBuffer,
    /// Number of the next stream.
    pub(super) streams: AtomicU64,
}

impl Shared {
    /// From now on readers see this.
    pub(super) fn publish(&self, snapshot: Arc<Snapshot>) {
        self.snapshot.store(snapshot);
        self.changes.fleet();
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("options", &self.options).field("status", &self.status).finish_non_exhaustive()
    }
}
