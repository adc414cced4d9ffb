//! The configuration of `orlop-operator`.

use std::ffi::OsString;
use std::str::FromStr;

use clap::{Parser, Subcommand};
use orlop_cloud::exit;
use orlop_core::error::Problem;
use orlop_core::id::dns1123_subdomain;
use orlop_core::rate::Rate;
use orlop_core::time::GoDuration;
use orlop_k8s::shell::lease;
use serde::Serialize;

use super::super::{Plan, Which};
use super::artifacts::{ArtifactConfig, ArtifactFlags};
use super::flows::FlowConfig;
use super::hourglass::HourglassFlags;
use super::listen::Listen;
use super::release::ReleaseFlags;
use super::switch::{LogFormat, Mode, Switch};
use super::way::WayFlags;
use super::webhook::{WebhookConfig, WebhookFlags};
use crate::host::cluster::Way;
use crate::host::program::{ProgramError, wrong_setting};
use crate::host::settings::{self, Scope, Settings};
use crate::telemetry::metrics::Telling;

/// Settings outside the command line.
const SCOPE: Scope = Scope {
    prefix: "ORLOP_",
    file: "ORLOP_OPERATOR_CONFIG",
    others: &[
        ("ZEN_FLOW_DEFAULT_CONCURRENCY_POLICY", "default_concurrency_policy"),
        ("ZEN_FLOW_DEFAULT_TTL_SECONDS", "default_ttl_seconds"),
        ("ZEN_FLOW_DEFAULT_BACKOFF_LIMIT", "default_backoff_limit"),
        ("ZEN_FLOW_DEFAULT_RETRY_LIMIT", "default_retry_limit"),
        ("ZEN_FLOW_DEFAULT_BACKOFF_BASE", "default_backoff_base"),
        ("ZEN_FLOW_DEFAULT_BACKOFF_FACTOR", "default_backoff_factor"),
        ("ZEN_FLOW_DEFAULT_CONTAINER_NAME", "default_container_name"),
        ("ZEN_FLOW_DEFAULT_CONFIGMAP_KEY", "default_configmap_key"),
        ("ZEN_FLOW_DEFAULT_ARCHIVE_FORMAT", "default_archive_format"),
        ("ZEN_FLOW_DEFAULT_COMPRESSION", "default_compression"),
        ("ZEN_FLOW_DEFAULT_CONTENT_TYPE", "default_content_type"),
        ("ZEN_FLOW_DEFAULT_DIR_PERM", "default_dir_perm"),
        ("ZEN_FLOW_DEFAULT_FILE_PERM", "default_file_perm"),
        ("ZEN_FLOW_CONFIGMAP_SIZE_LIMIT", "configmap_size_limit"),
        ("ZEN_FLOW_UID_TRUNCATE_LENGTH", "uid_truncate_length"),
    ],
};
/// Where a pod finds its namespace.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// What the arguments ask for.
pub(super) enum Invocation {
    /// To work.
    Run(Box<Config>),
    /// To say something.
    Show(String),
    /// To let go of objects.
    Release(Box<ReleaseFlags>),
}

/// Runs JobFlow, Performer and HourglassExecutor objects in a Kubernetes cluster.
#[derive(Parser, Debug)]
#[command(
    name = "orlop-operator",
    version,
    args_conflicts_with_subcommands = true,
    after_help = exit::help("Examples:
  orlop operator crds | kubectl apply -f -              define the kinds of objects
  orlop operator --leader-elect=false --log-format text  try it with your kubeconfig
  orlop operator --namespaces team-a,team-b             work in two namespaces, with Roles there
  orlop operator release-finalizers --help              what is done before it is removed

SIGTERM and SIGINT finish what is under way and give the leases back, exit code 0; a second one ends at once.")
)]
pub(super) struct Flags {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    way: WayFlags,
    /// Controllers that run
    #[arg(long, value_enum, ignore_case = true, default_value = "jobflow,performer,executor")]
    controllers: Vec<Switch>,
    /// Namespaces to work in, separated by commas; default: all
    #[arg(long, value_name = "NAME")]
    namespaces: Vec<String>,
    /// Work only while this process holds the leases
    #[arg(long, default_value_t = true)]
    leader_elect: bool,
    /// The same flag as in zen-flow
    #[arg(long, value_enum, ignore_case = true, hide = true)]
    leader_election_mode: Option<Mode>,
    /// Lease of the operator
    #[arg(long, value_name = "NAME", default_value = lease::OPERATOR)]
    lease_name: String,
    /// Lease that the controller of flows shares with zen-flow
    #[arg(long, alias = "leader-election-id", value_name = "NAME",
          default_value = lease::FLOWS)]
    leader_election_lease_name: String,
    /// Namespace of the leases; default: POD_NAMESPACE, else that of the service account or the kubeconfig
    #[arg(long, value_name = "NAME")]
    lease_namespace: Option<String>,
    /// Address for /metrics, /healthz, /readyz and /version, or `off`; default: :8080 in a pod, else 127.0.0.1:8080
    #[arg(long, value_name = "HOST:PORT")]
    metrics_addr: Option<String>,
    /// Address for /healthz and /readyz alone, or `off`; default: :8081 in a pod, else 127.0.0.1:8081
    #[arg(long, value_name = "HOST:PORT")]
    health_addr: Option<String>,
    /// Export metrics of flows under the names of zen-flow too
    #[arg(long)]
    metrics_zen_aliases: bool,
    /// Label metrics of flows with their namespace: 200 of them by name, all others as `other`
    #[arg(long)]
    metrics_namespace_label: bool,
    #[command(flatten)]
    webhook: WebhookFlags,
    #[command(flatten)]
    artifacts: ArtifactFlags,
    /// Objects a controller works on at once
    #[arg(long, alias = "max-concurrent-reconciles", value_parser = at_least_one::<u16>, default_value_t = 8, value_name = "COUNT")]
    workers: u16,
    /// How often all that exists is listed again
    #[arg(long, default_value = "5m", value_name = "DURATION", value_parser = interval)]
    resync: GoDuration,
    /// Requests to the API server a second
    #[arg(long, value_parser = at_least_one::<u64>, default_value_t = 50, value_name = "COUNT")]
    kube_qps: u64,
    /// Requests to the API server at once
    #[arg(long, value_parser = at_least_one::<u64>, default_value_t = 100, value_name = "COUNT")]
    kube_burst: u64,
    /// Live Jobs of all flows together
    #[arg(long, value_parser = at_least_one::<usize>, default_value_t = 2000, value_name = "COUNT")]
    max_live_jobs: usize,
    /// Live Jobs of one flow
    #[arg(long, value_parser = at_least_one::<u32>, default_value_t = 500, value_name = "COUNT")]
    max_live_jobs_per_flow: u32,
    /// Kinds of owners that are schedules, besides CronJob: their flows exclude each other
    #[arg(long, value_name = "KIND")]
    schedule_kinds: Vec<String>,
    /// Bytes of a status with all its steps in it; larger ones are packed
    #[arg(long, default_value_t = 256 << 10, value_name = "BYTES")]
    status_inline_limit: usize,
    /// Bytes of a flow with its status; what is more goes to ConfigMaps
    #[arg(long, default_value_t = 1 << 20, value_name = "BYTES")]
    max_object_bytes: usize,
    /// Treat warnings about flows as errors
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    flows: FlowConfig,
    #[command(flatten)]
    hourglass: HourglassFlags,
    /// Log level: error, warn, info, debug, trace, or a filter by module
    #[arg(long, default_value = "info", value_name = "LEVEL")]
    log_level: String,
    /// Form of the log
    #[arg(long, value_enum, ignore_case = true, default_value_t = LogFormat::Json)]
    log_format: LogFormat,
}

/// What else the program can do.
#[derive(Subcommand, Clone, Debug)]
enum Command {
    /// Print the CustomResourceDefinitions
    Crds,
    /// Take the finalizers of Orlop, and nothing else, from performers and executors, before the operator is removed
    ReleaseFinalizers(Box<ReleaseFlags>),
}

/// The settings in effect.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Config {
    #[serde(flatten)]
    pub(super) way: Way,
    /// Whether it runs in a pod.
    #[serde(skip)]
    pub(super) in_pod: bool,
    controllers: Vec<Switch>,
    namespaces: Vec<String>,
    leader_elect: bool,
    lease_name: String,
    leader_election_lease_name: String,
    lease_namespace: Option<String>,
    #[serde(serialize_with = "super::listen::or_off")]
    pub(super) metrics_addr: Option<Listen>,
    #[serde(serialize_with = "super::listen::or_off")]
    pub(super) health_addr: Option<Listen>,
    metrics_zen_aliases: bool,
    metrics_namespace_label: bool,
    #[serde(flatten)]
    pub(super) webhook: WebhookConfig,
    #[serde(flatten)]
    pub(super) artifacts: ArtifactConfig,
    workers: u16,
    resync: GoDuration,
    kube_qps: u64,
    kube_burst: u64,
    max_live_jobs: usize,
    max_live_jobs_per_flow: u32,
    schedule_kinds: Vec<String>,
    status_inline_limit: usize,
    max_object_bytes: usize,
    strict: bool,
    #[serde(flatten)]
    pub(super) flows: FlowConfig,
    #[serde(flatten)]
    hourglass: HourglassFlags,
    pub(super) log_level: String,
    pub(super) log_format: LogFormat,
}

/// A flag whose value cannot be used.
pub(super) fn wrong_flag(flag: &str, why: impl std::fmt::Display) -> Problem {
    wrong_setting(&format!("--{flag}"), why)
}

pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

/// A number that is not 0.
pub(super) fn at_least_one<T: FromStr + PartialOrd + From<u8>>(text: &str) -> Result<T, String> {
    text.parse().ok().filter(|count| *count >= T::from(1)).ok_or_else(|| "use a number, 1 or more".to_owned())
}

/// A time between two things that happen again and again.
fn interval(text: &str) -> Result<GoDuration, String> {
    let read = text.parse::<GoDuration>().map_err(|error| error.to_string())?;
    (!read.get().is_zero()).then_some(read).ok_or_else(|| "use more than 0".to_owned())
}

/// The arguments of the program.
pub(super) fn command() -> clap::Command {
    settings::command(<Flags as clap::CommandFactory>::command(), &SCOPE, &serde_json::Value::Null)
}

/// Reads all of it.
pub(super) fn read(
    arguments: Vec<OsString>,
    variables: impl Iterator<Item = (String, String)>,
) -> Result<Invocation, ProgramError> {
    let Settings { value: flags, print, sources } = settings::read::<Flags>(&command(), &SCOPE, arguments, variables)?;
    match flags.command {
        Some(Command::Crds) => return Ok(Invocation::Show(definitions()?)),
        Some(Command::ReleaseFinalizers(release)) => return Ok(Invocation::Release(release)),
        None => {}
    }
    let config = config(flags, variable("KUBERNETES_SERVICE_HOST").is_some())?;
    match print {
        true => Ok(Invocation::Show(sources.show(&config)?)),
        false => Ok(Invocation::Run(Box::new(config))),
    }
}

/// The definitions of the kinds, as documents of YAML.
fn definitions() -> Result<String, Problem> {
    let mut text = String::new();
    for (_, definition) in orlop_k8s::crd::all() {
        text.push_str("---\n");
        let written = serde_saphyr::to_string(&definition);
        text.push_str(&written.map_err(|error| wrong_flag("crds", error.to_string()))?);
    }
    Ok(text)
}

fn config(flags: Flags, in_pod: bool) -> Result<Config, Problem> {
    let elects = flags.leader_election_mode.map_or(flags.leader_elect, |mode| mode == Mode::Builtin);
    if !elects {
        alone(variable("REPLICA_COUNT").as_deref())?;
    }
    let namespaces: Vec<String> = flags.namespaces.into_iter().map(|name| name.trim().to_owned()).collect();
    let mut namespaces: Vec<String> = namespaces.into_iter().filter(|name| !name.is_empty()).collect();
    namespaces.sort();
    namespaces.dedup();
    let names = namespaces.iter().map(|name| ("namespaces", name));
    let names = names.chain(flags.lease_namespace.iter().map(|name| ("lease-namespace", name)));
    let leases = [("lease-name", &flags.lease_name), ("leader-election-lease-name", &flags.leader_election_lease_name)];
    for (flag, name) in names.chain(leases) {
        dns1123_subdomain(name).map_err(|error| wrong_flag(flag, error.to_string()))?;
    }
    let default = |port| if in_pod { Listen::everywhere(port) } else { Listen::loopback(port) };
    let address = |flag, given: Option<String>, port| match given.as_deref().map(str::trim) {
        None => Ok(Some(default(port))),
        Some("off" | "0" | "") => Ok(None),
        Some(text) => text.parse().map(Some).map_err(|error: String| wrong_flag(flag, error.to_string())),
    };
    Ok(Config {
        way: flags.way.into(),
        in_pod,
        controllers: flags.controllers,
        namespaces,
        leader_elect: elects,
        lease_name: flags.lease_name,
        leader_election_lease_name: flags.leader_election_lease_name,
        lease_namespace: flags.lease_namespace,
        metrics_addr: address("metrics-addr", flags.metrics_addr, 8080)?,
        health_addr: address("health-addr", flags.health_addr, 8081)?,
        metrics_zen_aliases: flags.metrics_zen_aliases,
        metrics_namespace_label: flags.metrics_namespace_label,
        webhook: flags.webhook.config(default)?,
        artifacts: flags.artifacts.config(default)?,
        workers: flags.workers,
        resync: flags.resync,
        kube_qps: flags.kube_qps,
        kube_burst: flags.kube_burst,
        max_live_jobs: flags.max_live_jobs,
        max_live_jobs_per_flow: flags.max_live_jobs_per_flow,
        schedule_kinds: flags.schedule_kinds,
        status_inline_limit: flags.status_inline_limit,
        max_object_bytes: flags.max_object_bytes,
        strict: flags.strict,
        flows: flags.flows,
        hourglass: flags.hourglass,
        log_level: flags.log_level,
        log_format: flags.log_format,
    })
}

/// Refuses to act without an election beside others, or when nobody can tell how many there are.
fn alone(replicas: Option<&str>) -> Result<(), Problem> {
    let why = match replicas.map(|count| count.trim().parse::<u32>()) {
        None | Some(Ok(0 | 1)) => return Ok(()),
        Some(Ok(count)) => format!("REPLICA_COUNT is {count}, and without an election they would all write"),
        Some(Err(_)) => {
            "REPLICA_COUNT is not a number, so other replicas may write too; leave it out or set it to 1".to_owned()
        }
    };
    Err(wrong_flag("leader-elect", why))
}

impl Config {
    /// What the operator is to do. `home` is the namespace of the kubeconfig.
    pub(super) fn plan(&self, home: &str) -> Result<Plan, Problem> {
        let host = variable("POD_NAME").or_else(|| nix::unistd::gethostname().ok()?.into_string().ok());
        let host = host.unwrap_or_else(|| "orlop-operator".to_owned());
        // A pod that is started again has the same name: another process it is all the same.
        let identity = format!("{host}_{}", uuid::Uuid::new_v4().simple());
        let controllers: Vec<Which> = self.controllers.iter().map(|switch| switch.which()).collect();
        let account = || std::fs::read_to_string(ACCOUNT).ok().map(|text| text.trim().to_owned());
        let namespace = self.lease_namespace.clone().or_else(|| variable("POD_NAMESPACE")).or_else(account);
        let mut leases = vec![self.lease_name.clone()];
        if controllers.contains(&Which::JobFlow) && self.leader_election_lease_name != self.lease_name {
            leases.push(self.leader_election_lease_name.clone());
        }
        let election = lease::Options {
            leases,
            ..lease::Options::operator(identity, namespace.unwrap_or_else(|| home.to_owned()), false)
        };
        let mut flows = orlop_k8s::flow::Options::default();
        flows.limits.strict = self.strict;
        flows.sizes.inline = self.status_inline_limit;
        flows.sizes.object = self.max_object_bytes;
        flows.max_live_jobs = self.max_live_jobs;
        flows.max_live_jobs_per_flow = self.max_live_jobs_per_flow;
        flows.schedule_kinds.clone_from(&self.schedule_kinds);
        flows.defaults = self.flows.defaults();
        flows.secrets = self.flows.secrets();
        flows.helper = self.artifacts.helper();
        let hourglass = std::sync::Arc::new(self.hourglass.config(&host)?);
        flows.instance = host;
        let webhook = self.webhook.plan(&flows, &hourglass);
        // Who has decided is noted by the webhook, from what the API server knows of them.
        flows.identities_verified = webhook.is_some();
        Ok(Plan {
            controllers,
            namespaces: self.namespaces.clone(),
            election: self.leader_elect.then_some(election),
            passes: usize::from(self.workers),
            resync: self.resync.get(),
            rate: Rate { per_second: self.kube_qps, burst: self.kube_burst },
            flows,
            hourglass,
            webhook,
            telling: Telling { zen_aliases: self.metrics_zen_aliases, namespaces: self.metrics_namespace_label },
        })
    }
}

/// What arguments and variables say.
#[cfg(test)]
pub(super) fn read_with(arguments: &[&str], variables: &[(&str, &str)], in_pod: bool) -> Result<Config, ProgramError> {
    let arguments = std::iter::once("orlop-operator").chain(arguments.iter().copied()).map(OsString::from);
    let variables = variables.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    let settings = settings::read::<Flags>(&command(), &SCOPE, arguments.collect(), variables)?;
    Ok(config(settings.value, in_pod)?)
}

#[cfg(test)]
mod tests;
