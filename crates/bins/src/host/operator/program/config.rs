//! The configuration of `orlop-operator`: flags, and variables `ORLOP_*` of the same names.

use std::ffi::OsString;

use clap::{ArgAction, Parser, Subcommand, builder::BoolishValueParser as Boolish};
use orlop_cloud::exit;
use orlop_core::error::Problem;
use orlop_core::id::dns1123_subdomain;
use orlop_core::rate::Rate;
use orlop_core::time::GoDuration;
use orlop_k8s::shell::lease;
use serde::Serialize;

use super::super::{Plan, Which};
use super::artifacts::{ArtifactConfig, ArtifactFlags};
use super::flows::{FlowConfig, FlowFlags};
use super::hourglass::HourglassFlags;
use super::listen::Listen;
use super::release::ReleaseFlags;
use super::switch::{LogFormat, Mode, Switch};
use super::way::WayFlags;
use super::webhook::{WebhookConfig, WebhookFlags};
use crate::host::cluster::Way;
use crate::host::program::{ProgramError, wrong_setting};
use crate::telemetry::metrics::Telling;

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
    #[arg(
        long,
        env = "ORLOP_CONTROLLERS",
        value_delimiter = ',',
        value_enum,
        ignore_case = true,
        default_value = "jobflow,performer,executor"
    )]
    controllers: Vec<Switch>,
    /// Namespaces to work in, separated by commas; default: all
    #[arg(long, env = "ORLOP_NAMESPACES", value_delimiter = ',', value_name = "NAME")]
    namespaces: Vec<String>,
    /// Work only while this process holds the leases
    #[arg(long, env = "ORLOP_LEADER_ELECT", action = ArgAction::Set, value_parser = Boolish::new(),
          ignore_case = true, num_args = 0..=1, require_equals = true,
          default_value_t = true, default_missing_value = "true")]
    leader_elect: bool,
    /// The same in the words of zen-flow
    #[arg(long, env = "ORLOP_LEADER_ELECTION_MODE", value_enum, ignore_case = true, hide = true)]
    leader_election_mode: Option<Mode>,
    /// Lease of the operator
    #[arg(long, env = "ORLOP_LEASE_NAME", value_name = "NAME", default_value = lease::OPERATOR)]
    lease_name: String,
    /// Lease that the controller of flows shares with zen-flow
    #[arg(long, env = "ORLOP_LEADER_ELECTION_LEASE_NAME", alias = "leader-election-id", value_name = "NAME",
          default_value = lease::FLOWS)]
    leader_election_lease_name: String,
    /// Namespace of the leases; default: POD_NAMESPACE, else that of the service account or the kubeconfig
    #[arg(long, env = "ORLOP_LEASE_NAMESPACE", value_name = "NAME")]
    lease_namespace: Option<String>,
    /// Address for /metrics, /healthz, /readyz and /version, or `off`; default: :8080 in a pod, else 127.0.0.1:8080
    #[arg(long, env = "ORLOP_METRICS_ADDR", value_name = "HOST:PORT")]
    metrics_addr: Option<String>,
    /// Address for /healthz and /readyz alone, or `off`; default: :8081 in a pod, else 127.0.0.1:8081
    #[arg(long, env = "ORLOP_HEALTH_ADDR", value_name = "HOST:PORT")]
    health_addr: Option<String>,
    /// Export metrics of flows under the names of zen-flow too
    #[arg(long, env = "ORLOP_METRICS_ZEN_ALIASES", action = ArgAction::Set, value_parser = Boolish::new(),
          ignore_case = true, num_args = 0..=1, require_equals = true, default_value_t, default_missing_value = "true")]
    metrics_zen_aliases: bool,
    /// Label metrics of flows with their namespace: 200 of them by name, all others as `other`
    #[arg(long, env = "ORLOP_METRICS_NAMESPACE_LABEL", action = ArgAction::Set, value_parser = Boolish::new(),
          ignore_case = true, num_args = 0..=1, require_equals = true, default_value_t, default_missing_value = "true")]
    metrics_namespace_label: bool,
    #[command(flatten)]
    webhook: WebhookFlags,
    #[command(flatten)]
    artifacts: ArtifactFlags,
    /// Objects a controller works on at once
    #[arg(long, env = "ORLOP_WORKERS", alias = "max-concurrent-reconciles", default_value_t = 8, value_name = "COUNT")]
    workers: u16,
    /// How often all that exists is listed again
    #[arg(long, env = "ORLOP_RESYNC", default_value = "5m", value_name = "DURATION")]
    resync: GoDuration,
    /// Requests to the API server a second
    #[arg(long, env = "ORLOP_KUBE_QPS", default_value_t = 50, value_name = "COUNT")]
    kube_qps: u64,
    /// Requests to the API server at once
    #[arg(long, env = "ORLOP_KUBE_BURST", default_value_t = 100, value_name = "COUNT")]
    kube_burst: u64,
    /// Live Jobs of all flows together
    #[arg(long, env = "ORLOP_MAX_LIVE_JOBS", default_value_t = 2000, value_name = "COUNT")]
    max_live_jobs: usize,
    /// Live Jobs of one flow
    #[arg(long, env = "ORLOP_MAX_LIVE_JOBS_PER_FLOW", default_value_t = 500, value_name = "COUNT")]
    max_live_jobs_per_flow: u32,
    /// Kinds of owners that are schedules, besides CronJob: their flows exclude each other
    #[arg(long, env = "ORLOP_SCHEDULE_KINDS", value_delimiter = ',', value_name = "KIND")]
    schedule_kinds: Vec<String>,
    /// Bytes of a status with all its steps in it; larger ones are packed
    #[arg(long, env = "ORLOP_STATUS_INLINE_LIMIT", default_value_t = 256 << 10, value_name = "BYTES")]
    status_inline_limit: usize,
    /// Bytes of a flow with its status; what is more goes to ConfigMaps
    #[arg(long, env = "ORLOP_MAX_OBJECT_BYTES", default_value_t = 1 << 20, value_name = "BYTES")]
    max_object_bytes: usize,
    /// Refuse flows for what is otherwise only warned about
    #[arg(long, env = "ORLOP_STRICT", action = ArgAction::Set, value_parser = Boolish::new(),
          ignore_case = true, num_args = 0..=1, require_equals = true, default_value_t, default_missing_value = "true")]
    strict: bool,
    #[command(flatten)]
    flows: FlowFlags,
    #[command(flatten)]
    hourglass: HourglassFlags,
    /// What is logged: error, warn, info, debug, trace, or a filter by module
    #[arg(long, env = "ORLOP_LOG_LEVEL", default_value = "info", value_name = "LEVEL")]
    log_level: String,
    /// Form of the log
    #[arg(long, env = "ORLOP_LOG_FORMAT", value_enum, ignore_case = true, default_value_t = LogFormat::Json)]
    log_format: LogFormat,
    /// Show the settings that are in effect, and end
    #[arg(long)]
    print_config: bool,
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
    pub(super) metrics_addr: Option<Listen>,
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
    flows: FlowConfig,
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

/// Reads all of it.
pub(super) fn read(args: impl IntoIterator<Item = OsString>) -> Result<Invocation, ProgramError> {
    let flags = Flags::try_parse_from(args)?;
    match flags.command {
        Some(Command::Crds) => return Ok(Invocation::Show(definitions()?)),
        Some(Command::ReleaseFinalizers(release)) => return Ok(Invocation::Release(release)),
        None => {}
    }
    let print = flags.print_config;
    let config = config(flags, variable("KUBERNETES_SERVICE_HOST").is_some())?;
    if print {
        let text = serde_saphyr::to_string(&config);
        return Ok(Invocation::Show(text.map_err(|error| wrong_flag("print-config", error.to_string()))?));
    }
    Ok(Invocation::Run(Box::new(config)))
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
    let positive = |flag, value: u64| match value {
        0 => Err(wrong_flag(flag, "must be at least 1".to_owned())),
        value => Ok(value),
    };
    positive("workers", u64::from(flags.workers))?;
    positive("resync", u64::from(!flags.resync.get().is_zero()))?;
    positive("max-live-jobs", flags.max_live_jobs.min(1) as u64)?;
    positive("max-live-jobs-per-flow", u64::from(flags.max_live_jobs_per_flow))?;
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
        kube_qps: positive("kube-qps", flags.kube_qps)?,
        kube_burst: positive("kube-burst", flags.kube_burst)?,
        max_live_jobs: flags.max_live_jobs,
        max_live_jobs_per_flow: flags.max_live_jobs_per_flow,
        schedule_kinds: flags.schedule_kinds,
        status_inline_limit: flags.status_inline_limit,
        max_object_bytes: flags.max_object_bytes,
        strict: flags.strict,
        flows: flags.flows.config()?,
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
            "REPLICA_COUNT is no number, so that others may write too; leave it out or set it to 1".to_owned()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn of(args: &[&str]) -> Result<Config, ProgramError> {
        let flags = Flags::try_parse_from(["orlop-operator"].iter().chain(args))?;
        Ok(config(flags, false)?)
    }

    #[test]
    fn flags_have_the_defaults_of_the_contract() {
        let config = of(&[]).unwrap();
        insta::assert_snapshot!(serde_saphyr::to_string(&config).unwrap(), @"
        kubeconfig: null
        context: null
        master: null
        controllers:
        - jobflow
        - performer
        - executor
        namespaces: []
        leader_elect: true
        lease_name: orlop-operator
        leader_election_lease_name: zen-flow-controller-leader-election
        lease_namespace: null
        metrics_addr: 127.0.0.1:8080
        health_addr: 127.0.0.1:8081
        metrics_zen_aliases: false
        metrics_namespace_label: false
        webhook_addr: null
        webhook_cert_file: /etc/webhook/certs/tls.crt
        webhook_key_file: /etc/webhook/certs/tls.key
        insecure_webhook: false
        helper_image: null
        artifact_store: configmap
        artifact_s3_endpoint: https://s3.amazonaws.com
        artifact_s3_secret: null
        artifact_addr: null
        artifact_url: null
        artifact_max_bytes: 107374182400
        default_content_type: null
        default_dir_perm: null
        default_file_perm: null
        configmap_size_limit: null
        workers: 8
        resync: 5m0s
        kube_qps: 50
        kube_burst: 100
        max_live_jobs: 2000
        max_live_jobs_per_flow: 500
        schedule_kinds: []
        status_inline_limit: 262144
        max_object_bytes: 1048576
        strict: false
        secret_mode: env
        default_concurrency_policy: null
        default_ttl_seconds: null
        default_backoff_limit: null
        default_retry_limit: null
        default_backoff_base: null
        default_backoff_factor: null
        default_container_name: null
        default_configmap_key: null
        default_archive_format: null
        default_compression: null
        hardware_config: null
        cluster_domain: cluster.local
        security_profile: restricted
        log_level: info
        log_format: json
        ");
        let plan = config.plan("home").unwrap();
        let election = plan.election.unwrap();
        assert_eq!(election.leases, ["orlop-operator", "zen-flow-controller-leader-election"]);
        assert_eq!((plan.passes, plan.resync.as_secs()), (8, 300));
        assert!(plan.webhook.is_none() && !plan.flows.identities_verified);
    }

    #[test]
    fn each_flag_is_a_variable_of_its_name_too() {
        let command = <Flags as clap::CommandFactory>::command();
        let flags: Vec<_> = command.get_arguments().filter(|flag| flag.get_long() != Some("print-config")).collect();
        assert!(flags.len() >= 30, "{}", flags.len());
        for flag in flags {
            let name = flag.get_long().unwrap();
            let wanted = format!("ORLOP_{}", name.to_uppercase().replace('-', "_"));
            assert_eq!(flag.get_env().and_then(std::ffi::OsStr::to_str), Some(wanted.as_str()), "--{name}");
        }
    }

    #[test]
    fn flags_of_other_controllers_of_flows_are_taken() {
        let config = of(&[
            "--leader-election-mode=disabled",
            "--leader-election-id=mine",
            "--max-concurrent-reconciles=3",
            "--metrics-addr=:9090",
            "--health-addr=off",
            "--namespaces=b, a,b",
        ]);
        let config = config.unwrap();
        assert_eq!((config.leader_elect, config.workers), (false, 3));
        assert_eq!(config.leader_election_lease_name, "mine");
        assert_eq!((config.metrics_addr.unwrap().to_string().as_str(), config.health_addr), (":9090", None));
        assert_eq!(config.namespaces, ["a", "b"]);
    }

    #[test]
    fn without_an_election_there_may_be_no_others() {
        for count in [None, Some("0"), Some(" 1 ")] {
            alone(count).unwrap();
        }
        insta::assert_snapshot!(alone(Some("2")).unwrap_err().to_string(), @"--leader-elect: REPLICA_COUNT is 2, and without an election they would all write");
        insta::assert_snapshot!(alone(Some("two")).unwrap_err().to_string(), @"--leader-elect: REPLICA_COUNT is no number, so that others may write too; leave it out or set it to 1");
    }

    #[test]
    fn wrong_values_are_refused_with_their_flag() {
        insta::assert_snapshot!(of(&["--namespaces=Team"]).unwrap_err().to_string(), @"--namespaces: name `Team` is not valid: character 'T' at position 1 is not allowed; use lower case letters, digits, `-` and `.`");
        insta::assert_snapshot!(of(&["--metrics-addr=x"]).unwrap_err().to_string(), @"--metrics-addr: `x` is no address; write host:port, or :port for all addresses of the machine");
        insta::assert_snapshot!(of(&["--workers=0"]).unwrap_err().to_string(), @"--workers: must be at least 1");
        assert!(matches!(of(&["--controllers=performers"]), Err(ProgramError::Usage(_))));
        assert!(matches!(of(&["--leader-election-mode=zenlead"]), Err(ProgramError::Usage(_))));
    }

    #[test]
    fn in_a_pod_probes_come_from_outside() {
        let flags = Flags::try_parse_from(["orlop-operator"]).unwrap();
        let config = config(flags, true).unwrap();
        assert_eq!(config.health_addr.unwrap().to_string(), ":8081");
    }
}
