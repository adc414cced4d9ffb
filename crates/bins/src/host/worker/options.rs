//! What may be chosen about an agent.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use orlop_cloud::runtime::process::ResourceLimits;
use orlop_cloud::runtime::process::RoleProgram;
use orlop_cloud::runtime::worker::User;
use orlop_cloud::runtime::worker::process::Enforce;
use orlop_core::id::{TenantName, WorkerId};

use super::machine::Offer;
use crate::telemetry::trace::Tracer;

/// Options of an agent.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AgentOptions {
    /// Its state directory: id, spool, attempts. Made if it is not there.
    pub state: PathBuf,
    /// The worker's id; none: that of the state directory, or one made up from the host's name.
    pub worker: Option<WorkerId>,
    /// What it offers instead of what is found.
    pub offer: Offer,
    /// The text of its join token; empty where its certificate, or a loopback connection, speaks for it.
    pub join_token: String,
    /// Request for a certificate, PKCS #10 in DER; empty for none.
    pub csr: Vec<u8>,
    /// Whether this program runs nothing but attempts.
    pub exclusive: bool,
    /// Whether attempts may run as processes.
    pub processes: bool,
    /// How attempts run as containers; none: they do not.
    pub containers: Option<Containers>,
    /// How the supervisors of attempts are started that outlive the agent; none: such attempts are refused, and steps of flows cannot run.
    pub supervisor: Option<RoleProgram>,
    /// How long claims of flows stay on this worker that no step has used.
    pub claims: Duration,
    /// Free bytes of the state directory below which the worker is not well.
    pub min_free: u64,
    /// The same as a share, in percent: of the bytes that this program may use there, and of the inodes.
    pub min_free_percent: u8,
    /// How processes are started in control groups, under limits and as other users; none: without any.
    pub launcher: Option<RoleProgram>,
    /// Limits of resources of processes.
    pub limits: ResourceLimits,
    /// Users of this machine as whom processes run, by tenant; none: all run as this program's. With them this worker runs no
    /// steps of flows, whose files are this program's own.
    pub users: BTreeMap<TenantName, User>,
    /// How many directories of attempts that failed stay, the latest ones.
    pub keep_failed: usize,
    /// Whether limits are enforced.
    pub enforce: Enforce,
    /// Control group below which those of attempts are made; none: the program's own, if it was delegated.
    pub cgroup: Option<PathBuf>,
    /// The longest wait before it connects again.
    pub backoff: Duration,
    /// How long it waits for its attempts when it is asked to end.
    pub drain: Duration,
    /// How long it tries to get the rest to the server before it ends.
    pub farewell: Duration,
    /// Bytes of output kept while the server does not take them.
    pub spool_logs: u64,
    /// Whether what is spooled survives the host, not only the agent.
    pub spool_fsync: bool,
    /// Who takes spans of traces.
    pub tracer: Tracer,
}

/// How attempts run as containers. They are offered while a container engine answers.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Containers {
    /// Address of the engine, as in `DOCKER_HOST`; none: where engines are looked for.
    pub address: Option<String>,
    /// The network containers are in; none: the engine's default.
    pub network: Option<String>,
    /// Capabilities that containers keep; all others are dropped.
    pub capabilities: Vec<String>,
}

impl AgentOptions {
    /// The defaults, with the state in this directory.
    #[must_use]
    pub fn new(state: impl Into<PathBuf>) -> Self {
        Self {
            state: state.into(),
            worker: None,
            offer: Offer::default(),
            join_token: String::new(),
            csr: Vec::new(),
            exclusive: false,
            processes: true,
            containers: None,
            supervisor: None,
            launcher: None,
            limits: ResourceLimits::new(),
            users: BTreeMap::new(),
            claims: Duration::from_secs(30 * 86_400),
            min_free: 1 << 30,
            min_free_percent: 5,
            keep_failed: 0,
            enforce: Enforce::Auto,
            cgroup: None,
            backoff: Duration::from_secs(60),
            drain: Duration::from_secs(600),
            farewell: Duration::from_secs(10),
            spool_logs: 1 << 30,
            spool_fsync: false,
            tracer: Tracer::default(),
        }
    }
}
