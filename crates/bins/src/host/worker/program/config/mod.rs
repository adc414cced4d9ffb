//! The configuration of `orlop-worker`: from a file, variables `ORLOP_WORKER_*` and flags, in rising precedence. Secrets
//! stand in files of their own and are never shown.

mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Parser, ValueEnum};
use orlop_cloud::exit;
use orlop_cloud::runtime::worker::process::{self, Enforce};
use orlop_core::error::{Class, Problem};
use orlop_core::hardware::fleet::check_labels;
use orlop_core::id::{TenantName, WorkerId};
use serde::{Deserialize, Serialize};

use self::values::Count;
use crate::host::layers::Layers;
use crate::host::program::{ProgramError, wrong_setting};
use crate::host::worker::machine::Offer;
use crate::host::worker::{AgentOptions, Containers};
use crate::telemetry::trace::ExportPlan;
use crate::wire::grpc::Endpoint;
use crate::wire::identity::JoinToken;

/// The section that all settings are of.
const SECTION: &str = "worker";
/// The variable that names the file.
const PLACE: &str = "ORLOP_WORKER_CONFIG";

/// Works for an Orlop scheduler: runs its jobs on this machine.
#[derive(Parser, Debug)]
#[command(
    name = "orlop-worker",
    version,
    after_help = exit::help("Examples:
  orlop worker --server http://127.0.0.1:7071 --state /var/lib/orlop-worker
  orlop worker --server https://scheduler:7071 --join-token-file /run/token --label zone=a

Every setting is also a key of the file and a variable ORLOP_WORKER_<KEY>, in rising precedence file, variable, flag;
--print-config shows them all. SIGTERM drains, a second signal or SIGINT cancels what runs.")
)]
pub(super) struct Flags {
    /// File with these settings in YAML: names without dashes before, `_` for `-`; else the variable ORLOP_WORKER_CONFIG
    #[arg(long)]
    config: Option<PathBuf>,
    /// Address of a server; repeat it for more
    #[arg(long = "server", value_delimiter = ',')]
    servers: Vec<String>,
    /// File with the join token
    #[arg(long)]
    join_token_file: Option<PathBuf>,
    /// File with the client token of a server that speaks plain text; default: that of a server of this user at that address
    #[arg(long)]
    token_file: Option<PathBuf>,
    /// Delete the file with the join token once the token was used, and start without it when it is gone
    #[arg(long)]
    delete_join_token: bool,
    /// State directory
    #[arg(long)]
    state: Option<PathBuf>,
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
    /// A label, as key=value; repeat it for more
    #[arg(long = "label", value_delimiter = ',')]
    labels: Vec<String>,
    /// A tenant whose jobs are taken; repeat it for more; default: everybody's
    #[arg(long = "tenant", value_delimiter = ',')]
    tenants: Vec<String>,
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
    #[arg(long = "keep-capability", value_delimiter = ',')]
    keep_capabilities: Vec<String>,
    /// A limit of what processes use, as in ulimit: as, core, cpu, data, fsize, memlock, nofile, nproc or stack, as
    /// name=number or name=unlimited; repeat it for more
    #[arg(long = "rlimit", value_delimiter = ',')]
    rlimits: Vec<String>,
    /// The user of this machine as whom processes of a tenant run, as tenant=uid or tenant=uid:gid; repeat it for more. Only
    /// for root; other tenants' jobs are not taken then, nor steps of flows
    #[arg(long = "user", value_delimiter = ',')]
    users: Vec<String>,
    /// How many directories of attempts that failed stay; default: none
    #[arg(long)]
    keep_failed: Option<usize>,
    /// How many days claims of flows stay that no step has used; default: 30
    #[arg(long)]
    keep_claims_days: Option<u64>,
    /// A named counter to offer, such as licences, as name=count; repeat it for more
    #[arg(long = "extra", value_delimiter = ',')]
    extras: Vec<String>,
    /// Free bytes of the state directory below which no work is taken; default: 1 Gi
    #[arg(long)]
    min_free: Option<u64>,
    /// The same as a share of that disk and of its inodes, in percent; default: 5
    #[arg(long, value_parser = clap::value_parser!(u8).range(..=100))]
    min_free_percent: Option<u8>,
    /// Whether limits are enforced by control groups
    #[arg(long, value_enum, ignore_case = true)]
    enforce: Option<Enforced>,
    /// Control group below which those of attempts are made; default: the program's own, if it was delegated
    #[arg(long)]
    cgroup: Option<PathBuf>,
    /// Bytes of output kept while the server does not take them
    #[arg(long)]
    spool_logs: Option<u64>,
    /// Results survive the host, not only this program
    #[arg(long)]
    spool_fsync: bool,
    /// Seconds to wait for attempts when asked to end
    #[arg(long)]
    drain_seconds: Option<u64>,
    /// The longest pause in seconds before it connects again to a server that is away; default: 60
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    reconnect_seconds: Option<u64>,
    /// Address of the gRPC port of an OpenTelemetry collector that spans of attempts go to; default: nowhere
    #[arg(long)]
    trace_endpoint: Option<String>,
    /// File with the certificate of the collector's authority, for https
    #[arg(long)]
    trace_ca_file: Option<PathBuf>,
    /// Write the log as JSON lines
    #[arg(long)]
    json_log: bool,
    /// Show the settings that are in effect, and end
    #[arg(long)]
    print_config: bool,
}

/// Whether limits are enforced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
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

/// The settings in effect: names in files, and in variables in capitals behind `ORLOP_WORKER_`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Config {
    server: Vec<String>,
    join_token_file: Option<PathBuf>,
    pub(super) token_file: Option<PathBuf>,
    delete_join_token: bool,
    pub(super) state: PathBuf,
    id: Option<String>,
    cpu_m: Option<u64>,
    memory_bytes: Option<u64>,
    max_jobs: Option<u32>,
    labels: BTreeMap<String, String>,
    tenants: Vec<String>,
    extras: BTreeMap<String, Count>,
    no_processes: bool,
    no_containers: bool,
    docker_host: Option<String>,
    network: Option<String>,
    keep_capabilities: Vec<String>,
    rlimits: BTreeMap<String, Count>,
    users: BTreeMap<String, Count>,
    keep_failed: usize,
    keep_claims_days: u64,
    min_free: u64,
    min_free_percent: u8,
    #[serde(deserialize_with = "orlop_core::named::in_any_case")]
    enforce: Enforced,
    cgroup: Option<PathBuf>,
    spool_logs: u64,
    spool_fsync: bool,
    drain_seconds: u64,
    reconnect_seconds: u64,
    trace_endpoint: Option<String>,
    trace_ca_file: Option<PathBuf>,
    pub(super) json_log: bool,
    #[serde(skip)]
    pub(super) print: bool,
}

impl Default for Config {
    fn default() -> Self {
        let (options, days) = (AgentOptions::new("/var/lib/orlop-worker"), 86_400);
        Self {
            server: Vec::new(),
            join_token_file: None,
            token_file: None,
            delete_join_token: false,
            id: None,
            cpu_m: None,
            memory_bytes: None,
            max_jobs: None,
            labels: BTreeMap::new(),
            tenants: Vec::new(),
            extras: BTreeMap::new(),
            no_processes: false,
            no_containers: false,
            docker_host: None,
            network: None,
            keep_capabilities: Vec::new(),
            rlimits: BTreeMap::new(),
            users: BTreeMap::new(),
            keep_failed: options.keep_failed,
            keep_claims_days: options.claims.as_secs() / days,
            min_free: options.min_free,
            min_free_percent: options.min_free_percent,
            enforce: Enforced::default(),
            cgroup: None,
            spool_logs: options.spool_logs,
            spool_fsync: options.spool_fsync,
            drain_seconds: options.drain.as_secs(),
            reconnect_seconds: options.backoff.as_secs(),
            trace_endpoint: None,
            trace_ca_file: None,
            json_log: false,
            print: false,
            state: options.state,
        }
    }
}

/// Reads all of it.
pub(super) fn read(
    args: impl IntoIterator<Item = OsString>,
    variables: impl Iterator<Item = (String, String)>,
) -> Result<Config, ProgramError> {
    let flags = Flags::try_parse_from(args)?;
    let (place, variables): (Vec<_>, Vec<_>) = variables.partition(|(name, _)| name == PLACE);
    let defaults =
        serde_json::to_value(Config::default()).map_err(|error| wrong_setting(SECTION, error.to_string()))?;
    let mut layers = Layers::new(serde_json::json!({ SECTION: defaults }));
    if let Some(path) = flags.config.clone().or_else(|| place.into_iter().next().map(|(_, path)| PathBuf::from(path))) {
        let text = fs::read_to_string(&path).map_err(|error| unreadable(&path, &error))?;
        layers.file_of(SECTION, &path.display().to_string(), &text)?;
    }
    layers.environment(variables.into_iter())?;
    let mut all = layers.value();
    let settings = all.get_mut(SECTION).map(serde_json::Value::take).unwrap_or_default();
    let mut config: Config =
        serde_json::from_value(settings).map_err(|error| wrong_setting(SECTION, error.to_string()))?;
    flags.put_on(&mut config)?;
    Ok(config)
}

/// A file that cannot be read.
fn unreadable(path: &Path, error: &io::Error) -> Problem {
    Problem::new(Class::Invalid, format!("`{}` cannot be read: {error}", path.display()))
}

/// Limits of processes as flags write them.
pub(crate) fn limits_of(flags: &[String]) -> Result<process::Limits, String> {
    let given = flags.iter().map(|text| {
        let (name, value) = pair("rlimit", text)?;
        Ok((name.to_owned(), Count::Text(value.to_owned())))
    });
    let given = given.collect::<Result<_, Problem>>().and_then(|given| values::limits(&given));
    given.map_err(|error| error.to_string())
}

/// A flag as `key=value`.
fn pair<'a>(flag: &'static str, text: &'a str) -> Result<(&'a str, &'a str), Problem> {
    text.split_once('=').ok_or_else(|| wrong_setting(flag, format!("`{text}` is not key=value")))
}

/// Takes the place of what is there, if it was given.
fn put<T>(given: Option<T>, place: &mut T) {
    if let Some(given) = given {
        *place = given;
    }
}

impl Flags {
    /// Puts the flags on top. Labels, counters, limits and users are added to those that are there.
    fn put_on(self, config: &mut Config) -> Result<(), Problem> {
        let some = |list: Vec<String>| (!list.is_empty()).then_some(list);
        for label in &self.labels {
            let (key, value) = pair("label", label)?;
            config.labels.insert(key.to_owned(), value.to_owned());
        }
        for (flag, given, place) in [
            ("extra", &self.extras, &mut config.extras),
            ("rlimit", &self.rlimits, &mut config.rlimits),
            ("user", &self.users, &mut config.users),
        ] {
            for text in given {
                let (key, value) = pair(flag, text)?;
                place.insert(key.to_owned(), Count::Text(value.to_owned()));
            }
        }
        put(some(self.servers), &mut config.server);
        put(some(self.tenants), &mut config.tenants);
        put(some(self.keep_capabilities), &mut config.keep_capabilities);
        put(self.state, &mut config.state);
        put(self.keep_failed, &mut config.keep_failed);
        put(self.keep_claims_days, &mut config.keep_claims_days);
        put(self.min_free, &mut config.min_free);
        put(self.min_free_percent, &mut config.min_free_percent);
        put(self.enforce, &mut config.enforce);
        put(self.spool_logs, &mut config.spool_logs);
        put(self.drain_seconds, &mut config.drain_seconds);
        put(self.reconnect_seconds, &mut config.reconnect_seconds);
        put(self.join_token_file.map(Some), &mut config.join_token_file);
        put(self.token_file.map(Some), &mut config.token_file);
        put(self.id.map(Some), &mut config.id);
        put(self.cpu_m.map(Some), &mut config.cpu_m);
        put(self.memory_bytes.map(Some), &mut config.memory_bytes);
        put(self.max_jobs.map(Some), &mut config.max_jobs);
        put(self.docker_host.map(Some), &mut config.docker_host);
        put(self.network.map(Some), &mut config.network);
        put(self.cgroup.map(Some), &mut config.cgroup);
        put(self.trace_endpoint.map(Some), &mut config.trace_endpoint);
        put(self.trace_ca_file.map(Some), &mut config.trace_ca_file);
        config.delete_join_token |= self.delete_join_token;
        config.no_processes |= self.no_processes;
        config.no_containers |= self.no_containers;
        config.spool_fsync |= self.spool_fsync;
        config.json_log |= self.json_log;
        config.print = self.print_config;
        Ok(())
    }
}

impl Config {
    /// The settings as a file would have them. Secrets stand in files, of which only the paths are settings.
    pub(super) fn masked(&self) -> String {
        serde_saphyr::to_string(self).unwrap_or_else(|error| format!("# {error}\n"))
    }

    pub(super) fn servers(&self) -> Result<Vec<Endpoint>, Problem> {
        if self.server.is_empty() {
            let text = "no server is named; use `--server URL`, such as http://127.0.0.1:7071".to_owned();
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
        let extras: Result<BTreeMap<_, _>, _> =
            self.extras.iter().map(|(name, count)| values::count_of(name, count)).collect();
        check_labels(&self.labels).map_err(|error| wrong_setting("label", error.to_string()))?;
        let offer = Offer {
            cpu_m: self.cpu_m,
            memory_bytes: self.memory_bytes,
            max_jobs: self.max_jobs,
            labels: self.labels.clone(),
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
            min_free_percent: values::percent(self.min_free_percent)?,
            enforce: self.enforce.into(),
            cgroup: self.cgroup.clone(),
            drain: Duration::from_secs(self.drain_seconds),
            backoff: values::pause(self.reconnect_seconds)?,
            spool_logs: self.spool_logs,
            spool_fsync: self.spool_fsync,
            ..AgentOptions::new(&self.state)
        })
    }
}

#[cfg(test)]
mod tests;
