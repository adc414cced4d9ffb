//! The configuration of `orlop-worker`. Secrets stand in files, of which only the paths are settings.

mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Parser, ValueEnum};
use orlop_cloud::exit;
use orlop_cloud::runtime::process::ResourceLimits;
use orlop_cloud::runtime::worker::process::Enforce;
use orlop_core::error::{Class, Problem};
use orlop_core::hardware::fleet::check_labels;
use orlop_core::id::{TenantName, WorkerId};
use serde::Serialize;

use self::values::Pair;
use crate::host::program::{ProgramError, wrong_setting};
use crate::host::settings::{self, Scope, Settings};
use crate::host::worker::machine::Offer;
use crate::host::worker::{AgentOptions, Containers};
use crate::telemetry::trace::ExportPlan;
use crate::wire::grpc::Endpoint;
use crate::wire::identity::JoinToken;

/// Settings outside the command line.
const SCOPE: Scope = Scope { prefix: "ORLOP_WORKER_", file: "ORLOP_WORKER_CONFIG", others: &[] };

/// Works for an Orlop scheduler: runs its jobs on this machine.
#[derive(Parser, Debug, Serialize)]
#[command(
    name = "orlop-worker",
    version,
    after_help = exit::help("Examples:
  orlop worker --server http://127.0.0.1:7071 --state /var/lib/orlop-worker
  orlop worker --server https://scheduler:7071 --join-token-file /run/token --label zone=a

Every setting is also a key of the file and a variable, in rising precedence file, variable, flag; --print-config shows them all.
SIGTERM drains, a second signal or SIGINT cancels what runs.")
)]
pub(super) struct Config {
    /// Address of a server; repeat it for more
    #[arg(long)]
    server: Vec<String>,
    /// File with the join token
    #[arg(long)]
    join_token_file: Option<PathBuf>,
    /// File with the client token of a server that speaks plain text; default: that of a server of this user at that address
    #[arg(long)]
    pub(super) token_file: Option<PathBuf>,
    /// Delete the file with the join token once the token was used, and start without it when it is gone
    #[arg(long)]
    delete_join_token: bool,
    /// State directory
    #[arg(long)]
    pub(super) state: PathBuf,
    /// The worker's id
    #[arg(long)]
    id: Option<String>,
    /// Millicores to offer; default: all CPUs
    #[arg(long)]
    cpu_m: Option<u64>,
    /// Bytes of memory to offer; default: all but 5 %, at least 256 Mi
    #[arg(long)]
    memory_bytes: Option<u64>,
    /// Attempts at once; default: four for each CPU
    #[arg(long)]
    max_jobs: Option<u32>,
    /// A label; repeat it for more
    #[arg(long = "label", value_name = "KEY=VALUE")]
    #[serde(serialize_with = "values::as_map")]
    labels: Vec<Pair>,
    /// A tenant whose jobs are taken; repeat it for more; default: all
    #[arg(long = "tenant")]
    tenants: Vec<String>,
    /// A named counter to offer, such as licences; repeat it for more
    #[arg(long = "extra", value_name = "NAME=COUNT")]
    #[serde(serialize_with = "values::as_map")]
    extras: Vec<Pair>,
    /// Take no jobs that run as processes
    #[arg(long)]
    no_processes: bool,
    /// Take no jobs that run as containers
    #[arg(long)]
    no_containers: bool,
    /// Address of the container engine; default: as the docker command finds it
    #[arg(long)]
    docker_host: Option<String>,
    /// The network containers are in, one of the engine's; default: the engine's default
    #[arg(long)]
    network: Option<String>,
    /// A capability that containers keep; repeat it for more; all others are dropped
    #[arg(long = "keep-capability")]
    keep_capabilities: Vec<String>,
    /// A limit of what processes use, as in ulimit: as, core, cpu, data, fsize, memlock, nofile, nproc or stack, with a number or
    /// `unlimited`; repeat it for more
    #[arg(long = "rlimit", value_name = "NAME=N")]
    #[serde(serialize_with = "values::as_map")]
    rlimits: Vec<Pair>,
    /// The user of this machine as whom processes of a tenant run; repeat it for more. Only for root; other tenants' jobs are not
    /// taken then, nor steps of flows
    #[arg(long = "user", value_name = "TENANT=UID[:GID]")]
    #[serde(serialize_with = "values::as_map")]
    users: Vec<Pair>,
    /// How many directories of attempts that failed stay
    #[arg(long)]
    keep_failed: usize,
    /// How many days claims of flows stay that no step has used
    #[arg(long)]
    keep_claims_days: u64,
    /// Free bytes of the state directory below which no work is taken
    #[arg(long)]
    min_free: u64,
    /// The same as a share of that disk and of its inodes, in percent
    #[arg(long, value_parser = clap::value_parser!(u8).range(..=100))]
    min_free_percent: u8,
    /// Whether limits are enforced by control groups
    #[arg(long, value_enum, ignore_case = true)]
    enforce: Enforced,
    /// Control group below which those of attempts are made; default: the program's own, if it was delegated
    #[arg(long)]
    cgroup: Option<PathBuf>,
    /// Bytes of output kept while the server does not take them
    #[arg(long)]
    spool_logs: u64,
    /// Results survive the host, not only this program
    #[arg(long)]
    spool_fsync: bool,
    /// Seconds to wait for attempts when asked to end
    #[arg(long)]
    drain_seconds: u64,
    /// The longest pause in seconds before it connects again to a server that is away
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    reconnect_seconds: u64,
    /// Address of the gRPC port of an OpenTelemetry collector that spans of attempts go to; default: nowhere
    #[arg(long)]
    trace_endpoint: Option<String>,
    /// File with the CA certificate of the collector, for https
    #[arg(long)]
    trace_ca_file: Option<PathBuf>,
    /// Write the log as JSON lines
    #[arg(long)]
    pub(super) json_log: bool,
}

/// Whether limits are enforced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Enforced {
    /// As far as this machine lets this program
    #[default]
    Auto,
    /// All of them, or nothing runs
    Require,
    /// None
    Off,
}

impl From<Enforced> for Enforce {
    fn from(enforced: Enforced) -> Self {
        match enforced {
            Enforced::Auto => Self::Auto,
            Enforced::Require => Self::Require,
            Enforced::Off => Self::Off,
        }
    }
}

/// Defaults that follow from what the agent does by itself.
fn defaults() -> serde_json::Value {
    let options = AgentOptions::new("/var/lib/orlop-worker");
    serde_json::json!({
        "state": options.state,
        "keep_failed": options.keep_failed,
        "keep_claims_days": options.claims.as_secs() / 86_400,
        "min_free": options.min_free,
        "min_free_percent": options.min_free_percent,
        "enforce": Enforced::default(),
        "spool_logs": options.spool_logs,
        "spool_fsync": options.spool_fsync,
        "drain_seconds": options.drain.as_secs(),
        "reconnect_seconds": options.backoff.as_secs(),
    })
}

/// The arguments of the program.
pub(super) fn command() -> clap::Command {
    settings::command(<Config as clap::CommandFactory>::command(), &SCOPE, &defaults())
}

/// Reads all of it.
pub(super) fn read(
    args: impl IntoIterator<Item = OsString>,
    variables: impl Iterator<Item = (String, String)>,
) -> Result<Settings<Config>, ProgramError> {
    settings::read(&command(), &SCOPE, args.into_iter().collect(), variables)
}

/// A file that cannot be read.
fn unreadable(path: &Path, error: &io::Error) -> Problem {
    Problem::new(Class::Invalid, format!("`{}` cannot be read: {error}", path.display()))
}

/// Limits of processes as flags write them.
pub(crate) fn limits_of(flags: &[String]) -> Result<ResourceLimits, String> {
    let pairs = flags.iter().map(|text| text.parse()).collect::<Result<Vec<Pair>, _>>()?;
    values::limits(&pairs).map_err(|error| error.to_string())
}

impl Config {
    pub(super) fn servers(&self) -> Result<Vec<Endpoint>, Problem> {
        if self.server.is_empty() {
            let text = "no server is given; use `--server URL`, such as http://127.0.0.1:7071".to_owned();
            return Err(wrong_setting("server", text));
        }
        let one = |text: &String| text.parse().map_err(|error| wrong_setting("server", format!("{error}")));
        self.server.iter().map(one).collect()
    }

    pub(super) fn token(&self) -> Result<Option<JoinToken>, Problem> {
        let Some(path) = &self.join_token_file else { return Ok(None) };
        let text = match fs::read_to_string(path) {
            // It was used up: from then on the certificate of the state directory speaks for the worker.
            Err(error) if self.delete_join_token && error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|error| unreadable(path, &error))?,
        };
        let token = text.trim().parse().map_err(|error| wrong_setting(&format!("`{}`", path.display()), error))?;
        Ok(Some(token))
    }

    /// The file of the join token, if it is to go once the token was used.
    pub(super) fn used_up(&self) -> Option<&Path> {
        self.join_token_file.as_deref().filter(|_| self.delete_join_token)
    }

    /// Where spans go; none = nowhere. Which traces are kept the server decides.
    pub(super) fn traces(&self) -> Option<ExportPlan> {
        let endpoint = self.trace_endpoint.clone().filter(|endpoint| !endpoint.is_empty())?;
        let instance = self.id.clone().unwrap_or_default();
        let authority = self.trace_ca_file.clone();
        Some(ExportPlan { endpoint, authority, ratio: 0.0, service: "orlop-worker", instance })
    }

    pub(super) fn options(&self) -> Result<AgentOptions, Problem> {
        let wrong = |what| move |error: orlop_core::id::IdError| wrong_setting(what, error.to_string());
        let worker = self.id.clone().map(WorkerId::new).transpose().map_err(wrong("id"))?;
        let tenants: Result<BTreeSet<_>, _> = self.tenants.iter().cloned().map(TenantName::new).collect();
        let users = values::users(&self.users)?;
        let tenants = values::tenants(tenants.map_err(wrong("tenant"))?, &users)?;
        let extras: Result<BTreeMap<_, _>, _> = self.extras.iter().map(values::count_of).collect();
        let labels: BTreeMap<_, _> = self.labels.iter().cloned().map(|pair| (pair.key, pair.value)).collect();
        check_labels(&labels).map_err(|error| wrong_setting("label", error.to_string()))?;
        let offer = Offer {
            cpu_m: self.cpu_m,
            memory_bytes: self.memory_bytes,
            max_jobs: self.max_jobs,
            labels,
            extras: extras?,
            tenants,
            ..Offer::default()
        };
        Ok(AgentOptions {
            worker,
            offer,
            processes: !self.no_processes,
            containers: (!self.no_containers).then(|| Containers {
                address: self.docker_host.clone(),
                network: self.network.clone(),
                capabilities: self.keep_capabilities.clone(),
            }),
            limits: values::limits(&self.rlimits)?,
            users,
            keep_failed: self.keep_failed,
            claims: Duration::from_secs(self.keep_claims_days.saturating_mul(86_400)),
            min_free: self.min_free,
            min_free_percent: self.min_free_percent,
            enforce: self.enforce.into(),
            cgroup: self.cgroup.clone(),
            drain: Duration::from_secs(self.drain_seconds),
            backoff: Duration::from_secs(self.reconnect_seconds),
            spool_logs: self.spool_logs,
            spool_fsync: self.spool_fsync,
            ..AgentOptions::new(&self.state)
        })
    }
}

#[cfg(test)]
mod tests;
