//! The configuration of `orlop-worker`: from a file, variables `ORLOP_WORKER_*` and flags, in rising precedence. Owns
//! names, defaults and what is wrong with a value; secrets stand in files of their own and are never shown.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use orlop_cloud::runtime::worker::process::Enforce;
use orlop_core::id::{TenantName, WorkerId};
use serde::{Deserialize, Serialize};

use crate::host::worker::machine::Offer;
use crate::host::worker::{AgentOptions, Containers};
use crate::wire::grpc::Endpoint;
use crate::wire::identity::JoinToken;

/// Why the configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConfigError {
    /// The command line.
    #[error(transparent)]
    Usage(#[from] clap::Error),
    /// A file.
    #[error("`{0}` cannot be read: {1}")]
    File(PathBuf, #[source] io::Error),
    /// The text of a file.
    #[error("`{0}`: {1}")]
    Text(PathBuf, String),
    /// A value.
    #[error("{0}: {1}")]
    Value(&'static str, String),
}

/// Works for an Orlop scheduler: runs its jobs on this machine.
#[derive(Parser, Debug)]
#[command(
    name = "orlop-worker",
    version,
    after_help = "Examples:
  orlop-worker --server http://127.0.0.1:7071 --state /var/lib/orlop-worker
  orlop-worker --server https://scheduler:7071 --join-token-file /run/token --label zone=a

SIGTERM drains, a second signal or SIGINT cancels what runs."
)]
struct Flags {
    /// File with these settings in YAML: names without dashes before, `_` for `-`
    #[arg(long, env = "ORLOP_WORKER_CONFIG")]
    config: Option<PathBuf>,
    /// Address of a server; repeat it for more
    #[arg(long = "server", env = "ORLOP_WORKER_SERVER", value_delimiter = ',')]
    servers: Vec<String>,
    /// File with the join token
    #[arg(long, env = "ORLOP_WORKER_JOIN_TOKEN_FILE")]
    join_token_file: Option<PathBuf>,
    /// State directory
    #[arg(long, env = "ORLOP_WORKER_STATE")]
    state: Option<PathBuf>,
    /// The worker's id
    #[arg(long, env = "ORLOP_WORKER_ID")]
    id: Option<String>,
    /// Millicores to offer; default: all CPUs
    #[arg(long, env = "ORLOP_WORKER_CPU_M")]
    cpu_m: Option<u64>,
    /// Bytes of memory to offer; default: all but 5 %, at least 256 Mi
    #[arg(long, env = "ORLOP_WORKER_MEMORY_BYTES")]
    memory_bytes: Option<u64>,
    /// Attempts at once; default: four for each CPU
    #[arg(long, env = "ORLOP_WORKER_MAX_JOBS")]
    max_jobs: Option<u32>,
    /// A label, as key=value; repeat it for more
    #[arg(long = "label", env = "ORLOP_WORKER_LABELS", value_delimiter = ',')]
    labels: Vec<String>,
    /// A tenant whose jobs are taken; repeat it for more; default: everybody's
    #[arg(long = "tenant", env = "ORLOP_WORKER_TENANTS", value_delimiter = ',')]
    tenants: Vec<String>,
    /// Take no jobs that run as processes
    #[arg(long, env = "ORLOP_WORKER_NO_PROCESSES")]
    no_processes: bool,
    /// Take no jobs that run as containers
    #[arg(long, env = "ORLOP_WORKER_NO_CONTAINERS")]
    no_containers: bool,
    /// Address of the container engine; default: as the docker command finds it
    #[arg(long, env = "ORLOP_WORKER_DOCKER_HOST")]
    docker_host: Option<String>,
    /// The network containers are in, one of the engine's; default: the engine's default
    #[arg(long, env = "ORLOP_WORKER_NETWORK")]
    network: Option<String>,
    /// A capability that containers keep; repeat it for more; all others are dropped
    #[arg(long = "keep-capability", env = "ORLOP_WORKER_KEEP_CAPABILITIES", value_delimiter = ',')]
    keep_capabilities: Vec<String>,
    /// How many directories of attempts that failed stay; default: none
    #[arg(long, env = "ORLOP_WORKER_KEEP_FAILED")]
    keep_failed: Option<usize>,
    /// Whether limits are enforced by control groups
    #[arg(long, env = "ORLOP_WORKER_ENFORCE", value_enum)]
    enforce: Option<Limits>,
    /// Control group below which those of attempts are made; default: the program's own, if it was delegated
    #[arg(long, env = "ORLOP_WORKER_CGROUP")]
    cgroup: Option<PathBuf>,
    /// Bytes of output kept while the server does not take them
    #[arg(long, env = "ORLOP_WORKER_SPOOL_LOGS")]
    spool_logs: Option<u64>,
    /// Results survive the host, not only this program
    #[arg(long, env = "ORLOP_WORKER_SPOOL_FSYNC")]
    spool_fsync: bool,
    /// Seconds to wait for attempts when told to end
    #[arg(long, env = "ORLOP_WORKER_DRAIN_SECONDS")]
    drain_seconds: Option<u64>,
    /// Write the log as JSON lines
    #[arg(long, env = "ORLOP_WORKER_JSON_LOG")]
    json_log: bool,
    /// Show the settings that are in effect, and end
    #[arg(long)]
    print_config: bool,
}

/// Whether limits are enforced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
enum Limits {
    /// As far as this machine lets this program
    #[default]
    Auto,
    /// All of them, or nothing runs
    Require,
    /// None
    Off,
}

/// The settings of a file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct FileSettings {
    server: Vec<String>,
    join_token_file: Option<PathBuf>,
    state: Option<PathBuf>,
    id: Option<String>,
    cpu_m: Option<u64>,
    memory_bytes: Option<u64>,
    max_jobs: Option<u32>,
    labels: BTreeMap<String, String>,
    tenants: Vec<String>,
    extras: BTreeMap<String, u64>,
    no_processes: bool,
    no_containers: bool,
    docker_host: Option<String>,
    network: Option<String>,
    keep_capabilities: Vec<String>,
    keep_failed: Option<usize>,
    enforce: Option<Limits>,
    cgroup: Option<PathBuf>,
    spool_logs: Option<u64>,
    spool_fsync: bool,
    drain_seconds: Option<u64>,
    json_log: bool,
}

/// The settings in effect.
#[derive(Debug, Serialize)]
pub(super) struct Config {
    server: Vec<String>,
    join_token_file: Option<PathBuf>,
    pub(super) state: PathBuf,
    id: Option<String>,
    cpu_m: Option<u64>,
    memory_bytes: Option<u64>,
    max_jobs: Option<u32>,
    labels: BTreeMap<String, String>,
    tenants: Vec<String>,
    extras: BTreeMap<String, u64>,
    no_processes: bool,
    no_containers: bool,
    docker_host: Option<String>,
    network: Option<String>,
    keep_capabilities: Vec<String>,
    keep_failed: usize,
    enforce: Limits,
    cgroup: Option<PathBuf>,
    spool_logs: u64,
    spool_fsync: bool,
    drain_seconds: u64,
    pub(super) json_log: bool,
    #[serde(skip)]
    pub(super) print: bool,
}

/// Reads all of it.
pub(super) fn read(args: impl IntoIterator<Item = OsString>) -> Result<Config, ConfigError> {
    let flags = Flags::try_parse_from(args)?;
    let file = match &flags.config {
        None => FileSettings::default(),
        Some(path) => {
            let text = fs::read_to_string(path).map_err(|error| ConfigError::File(path.clone(), error))?;
            serde_saphyr::from_str(&text).map_err(|error| ConfigError::Text(path.clone(), error.to_string()))?
        }
    };
    let mut labels = file.labels;
    for label in &flags.labels {
        let (key, value) =
            label.split_once('=').ok_or_else(|| ConfigError::Value("label", format!("`{label}` is not key=value")))?;
        labels.insert(key.to_owned(), value.to_owned());
    }
    let or = |flags: Vec<String>, file: Vec<String>| if flags.is_empty() { file } else { flags };
    Ok(Config {
        server: or(flags.servers, file.server),
        join_token_file: flags.join_token_file.or(file.join_token_file),
        state: flags.state.or(file.state).unwrap_or_else(|| PathBuf::from("/var/lib/orlop-worker")),
        id: flags.id.or(file.id),
        cpu_m: flags.cpu_m.or(file.cpu_m),
        memory_bytes: flags.memory_bytes.or(file.memory_bytes),
        max_jobs: flags.max_jobs.or(file.max_jobs),
        labels,
        tenants: or(flags.tenants, file.tenants),
        extras: file.extras,
        no_processes: flags.no_processes || file.no_processes,
        no_containers: flags.no_containers || file.no_containers,
        docker_host: flags.docker_host.or(file.docker_host),
        network: flags.network.or(file.network),
        keep_capabilities: or(flags.keep_capabilities, file.keep_capabilities),
        keep_failed: flags.keep_failed.or(file.keep_failed).unwrap_or(0),
        enforce: flags.enforce.or(file.enforce).unwrap_or_default(),
        cgroup: flags.cgroup.or(file.cgroup),
        spool_logs: flags.spool_logs.or(file.spool_logs).unwrap_or(1 << 30),
        spool_fsync: flags.spool_fsync || file.spool_fsync,
        drain_seconds: flags.drain_seconds.or(file.drain_seconds).unwrap_or(600),
        json_log: flags.json_log || file.json_log,
        print: flags.print_config,
    })
}

impl Config {
    /// The settings as a file would have them. Secrets stand in files, of which only the paths are settings.
    pub(super) fn masked(&self) -> String {
        serde_saphyr::to_string(self).unwrap_or_else(|error| format!("# {error}\n"))
    }

    pub(super) fn servers(&self) -> Result<Vec<Endpoint>, ConfigError> {
        let one = |text: &String| text.parse().map_err(|error| ConfigError::Value("server", format!("{error}")));
        self.server.iter().map(one).collect()
    }

    pub(super) fn token(&self) -> Result<Option<JoinToken>, ConfigError> {
        let Some(path) = &self.join_token_file else { return Ok(None) };
        let text = fs::read_to_string(path).map_err(|error| ConfigError::File(path.clone(), error))?;
        let token = text.trim().parse().map_err(|error| ConfigError::Text(path.clone(), format!("{error}")))?;
        Ok(Some(token))
    }

    pub(super) fn options(&self) -> Result<AgentOptions, ConfigError> {
        let wrong = |what| move |error: orlop_core::id::IdError| ConfigError::Value(what, error.to_string());
        let worker = self.id.clone().map(WorkerId::new).transpose().map_err(wrong("id"))?;
        let tenants: Result<BTreeSet<_>, _> = self.tenants.iter().cloned().map(TenantName::new).collect();
        let offer = Offer {
            cpu_m: self.cpu_m,
            memory_bytes: self.memory_bytes,
            max_jobs: self.max_jobs,
            labels: self.labels.clone(),
            extras: self.extras.clone(),
            tenants: tenants.map_err(wrong("tenant"))?,
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
            keep_failed: self.keep_failed,
            enforce: match self.enforce {
                Limits::Auto => Enforce::Auto,
                Limits::Require => Enforce::Require,
                Limits::Off => Enforce::Off,
            },
            cgroup: self.cgroup.clone(),
            drain: Duration::from_secs(self.drain_seconds),
            spool_logs: self.spool_logs,
            spool_fsync: self.spool_fsync,
            ..AgentOptions::new(&self.state)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Config, ConfigError> {
        read(std::iter::once("orlop-worker").chain(args.iter().copied()).map(OsString::from))
    }

    #[test]
    fn s10_flags_come_before_the_file_and_unknown_keys_are_errors() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("worker.yaml");
        fs::write(&path, "server: [http://127.0.0.1:1]\nmax_jobs: 3\nid: a\nlabels: {zone: a, rack: r}\n").unwrap();
        let file = path.to_str().unwrap();
        let config = parse(&["--config", file, "--id", "b", "--label", "zone=b"]).unwrap();
        let options = config.options().unwrap();
        assert_eq!((options.worker.unwrap().to_string(), options.offer.max_jobs), ("b".to_owned(), Some(3)));
        assert_eq!(options.offer.labels.get("zone").map(String::as_str), Some("b"));
        assert_eq!(config.servers().unwrap().len(), 1);
        assert!(config.masked().contains("max_jobs: 3"), "{}", config.masked());
        fs::write(&path, "maxjobs: 3\n").unwrap();
        assert!(matches!(parse(&["--config", file]), Err(ConfigError::Text(..))));
        assert!(matches!(parse(&["--label", "x"]), Err(ConfigError::Value("label", _))));
        assert!(parse(&["--server", "ftp://x"]).unwrap().servers().is_err());
    }
}
