//! `orlop up`: the whole server in one process. Owns what is started, what is printed, and how it ends.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use orlop_cloud::artifact::{ArtifactBackend, UploadStore};
use orlop_cloud::logs::{LogOptions, LogStore};
use orlop_cloud::runtime::confidential;
use orlop_cloud::store::sqlite::fleet::Durability;
use orlop_core::error::{Class, Problem};
use orlop_core::id::TenantName;
use orlop_core::ports::fleet_store::Holder;
use orlop_core::rate::Rate;

use super::super::failure::{Exit, Failure};
use super::super::output;
use super::super::signals::Signals;
use super::client::SERVER;
use super::data::Data;
use crate::api::{BASE, NewJoinToken};
use crate::host::client_token;
use crate::host::scheduler::program::{AUTHORITY, ConsolePlan, Plan, StorePlace, TlsPlan, Whole};
use crate::host::scheduler::retention::Limits;
use crate::host::scheduler::{Disks, Handle, Options, SecretPlace, Status};
use crate::host::worker::machine::Offer;
use crate::host::worker::program::{Enforced, limits_of};
use crate::host::worker::remote::RemoteLink;
use crate::host::worker::{Agent, AgentOptions, Containers, Control};
use crate::telemetry::trace::{ExportPlan, Exporting, RATIO, Tracer, export};

/// The tenant of jobs that name none.
const TENANT: &str = "default";
/// How long the server may take to lead.
const LEADING: Duration = Duration::from_secs(60);

/// Options of `orlop up`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  orlop up                                  in this terminal; Ctrl-C stops it gracefully
  orlop up --data ./fleet --listen 127.0.0.1:8080
  orlop up --memory-store --workers 4       nothing is stored on disk; four workers share the machine
  orlop up --no-worker --listen 0.0.0.0:7070 --grpc-listen 0.0.0.0:7071
                                            for other machines: `orlop token create`, `orlop workers token create`
  orlop up --no-worker                      workers are started separately: `orlop worker --server http://127.0.0.1:7071`")]
pub(in crate::cli) struct UpArgs {
    /// Directory of the data; `$XDG_DATA_HOME/orlop`, else `~/.local/share/orlop`
    #[arg(long, value_name = "DIR", env = "ORLOP_DATA", conflicts_with = "memory_store")]
    data: Option<PathBuf>,
    /// Address of the REST interface; off loopback it has TLS and needs tokens
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7070")]
    listen: SocketAddr,
    /// Address of the gRPC services, where workers come; off loopback they have TLS and need tokens
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7071")]
    grpc_listen: SocketAddr,
    /// A name or address by which others find this machine; repeat it for more
    #[arg(long = "name", value_name = "HOST")]
    names: Vec<String>,
    /// Let anyone who may submit jobs run commands as this user: required where other machines reach a server
    /// that has a worker here
    #[arg(long)]
    trust_submitters: bool,
    /// While there is no token in the store: file of an administrator's, which is made if it is not there
    #[arg(long, value_name = "FILE")]
    first_token_file: Option<PathBuf>,
    /// Workers on this machine, of which each offers an equal part
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: u16,
    /// Run no worker on this machine
    #[arg(long, conflicts_with = "workers")]
    no_worker: bool,
    /// Address of the gRPC port of an OpenTelemetry collector that spans of jobs go to
    #[arg(long, value_name = "URL", env = "ORLOP_TRACE_ENDPOINT")]
    trace_endpoint: Option<String>,
    /// The share of traces that begin here and are kept, 0 to 1
    #[arg(long, value_name = "SHARE", env = "ORLOP_TRACE_RATIO", default_value_t = RATIO, requires = "trace_endpoint")]
    trace_ratio: f64,
    /// Whether limits of jobs are enforced by control groups
    #[arg(long, value_enum, ignore_case = true, default_value_t, env = "ORLOP_WORKER_ENFORCE")]
    enforce: Enforced,
    /// Control group below which those of jobs are made; default: the program's own, if it was delegated
    #[arg(long, value_name = "DIR", env = "ORLOP_WORKER_CGROUP")]
    cgroup: Option<PathBuf>,
    /// A limit of what processes of jobs use, as in ulimit, as name=number or name=unlimited; repeat it for more
    #[arg(long = "rlimit", value_name = "NAME=N", value_delimiter = ',')]
    rlimits: Vec<String>,
    /// Free bytes of the data's disk below which a worker takes no work; default: 1 Gi
    #[arg(long, value_name = "BYTES", env = "ORLOP_WORKER_MIN_FREE")]
    min_free: Option<u64>,
    /// The same as a share of that disk and of its inodes, in percent; default: 5
    #[arg(long, value_name = "PERCENT", env = "ORLOP_WORKER_MIN_FREE_PERCENT",
          value_parser = clap::value_parser!(u8).range(..=100))]
    min_free_percent: Option<u8>,
    /// Accept the store that is there, even if it is not the one that was there before: an empty file, another one,
    /// an older copy
    #[arg(long, conflicts_with = "memory_store")]
    accept_store: bool,
    /// Store nothing on disk: the store is lost when the server ends
    #[arg(long)]
    memory_store: bool,
}

/// What runs.
struct Running {
    whole: Whole,
    workers: Vec<Agent>,
    traces: Option<Exporting>,
    data: Data,
}

/// Starts the server and serves until it is asked to end.
pub(in crate::cli) async fn up(args: UpArgs) -> Result<Exit, Failure> {
    confidential::begin().map_err(|error| Failure::new(Exit::Failed, format!("cannot disable core dumps: {error}")))?;
    let mut signals = Signals::take()?;
    let running = tokio::select! {
        running = start(&args) => running?,
        exit = signals.next() => return Ok(exit),
    };
    let link = match output::is_terminal() {
        true => Some(running.whole.console_link().await.map_err(Failure::from)?),
        false => None,
    };
    output::print(&greeting(&running, link.as_deref()))?;
    let _ = signals.next().await;
    let controls: Vec<Control> = running.workers.iter().map(Agent::control).collect();
    output::tell("\nstopping: running jobs may finish; interrupt again to end them now");
    let ended = end(running);
    tokio::pin!(ended);
    tokio::select! {
        () = &mut ended => return Ok(Exit::Done),
        _ = signals.next() => controls.iter().for_each(Control::cancel),
    }
    output::tell("ending running jobs, which run again at the next start; interrupt again to exit at once");
    tokio::select! {
        () = &mut ended => Ok(Exit::Done),
        exit = signals.next() => Ok(exit),
    }
}

/// What a server that does not start means for who started it.
fn refused(problem: &Problem) -> Failure {
    match problem.class {
        Class::Invalid => Failure::usage(problem.chain()),
        class => Failure::new(class.into(), problem.chain()),
    }
}

/// Refuses a server that hands the account of its user to anyone who may submit from elsewhere.
fn check_trust(args: &UpArgs) -> Result<(), Failure> {
    let exposed = [args.listen, args.grpc_listen].into_iter().find(|address| !address.ip().is_loopback());
    match exposed {
        Some(address) if !args.no_worker && !args.trust_submitters => Err(Failure::usage(format!(
            "{address} can be reached from other machines, and the worker of this server runs jobs as this user, who can read \
             the server's keys and tokens: anyone who may submit could become administrator. Use --no-worker and start \
             `orlop worker` as another user (`orlop workers token create`), or say --trust-submitters"
        ))),
        _ => Ok(()),
    }
}

async fn start(args: &UpArgs) -> Result<Running, Failure> {
    check_trust(args)?;
    let data = if args.memory_store { Data::passing()? } else { Data::at(args.data.clone())? };
    let durability = if args.memory_store { Durability::Normal } else { Durability::Full };
    let path = data.path().join("fleet.db");
    let failed = format!("{}: ", path.display());
    let store = StorePlace::Sqlite { path, durability, accept: args.accept_store }.open().await;
    let store = store.map_err(|error| Failure::new(error.class.into(), failed + &error.chain()))?;
    let logs = LogStore::folder(data.path().join("logs"), LogOptions::default()).map_err(Failure::from)?;
    let holder = Holder { name: format!("up-{}", std::process::id()), url: String::new() };
    let tenant: TenantName = TENANT.parse().map_err(|error| Failure::usage(format!("{error}")))?;
    let secrets = SecretPlace::KeyFile(data.path().join("secrets.key")).open(store.fleet());
    let secrets = secrets.map_err(Failure::from)?;
    let artifacts = UploadStore::open(&data.path().join("artifacts"));
    let artifacts: Arc<dyn ArtifactBackend> = Arc::new(artifacts.map_err(Failure::from)?);
    let (tracer, traces) = traces(args)?;
    // A laptop's disk is fuller than a server's, and its jobs are fewer.
    let place = data.path().to_owned();
    let disks = Disks {
        store: Some(place.clone()),
        logs: Some(place.join("logs")),
        artifacts: Some(place.join("artifacts")),
        least: 256 << 20,
        reserve: 0,
    };
    let disks = Some(disks);
    let tracing = tracer.clone();
    let options = Options {
        holder,
        logs: Some(logs),
        artifacts: Some(artifacts),
        disks,
        secrets,
        tracer: tracing,
        ..Options::default()
    };
    let plan = Plan {
        options,
        rest: args.listen,
        grpc: args.grpc_listen,
        tenant,
        tls: TlsPlan::Own { directory: data.path().join("tls"), names: args.names.clone() },
        always: false,
        client_token: data.path().join(client_token::FILE),
        first_token: args.first_token_file.clone(),
        rates: [Rate { per_second: 100, burst: 200 }, Rate { per_second: 20, burst: 20 }],
        origins: Vec::new(),
        console: Some(ConsolePlan::default()),
        limits: Limits::default(),
        bus: None,
        urls: [None, None],
    };
    let whole = Whole::start(plan, store).await.map_err(|error| refused(&error))?;
    leads(whole.handle()).await?;
    let mut workers = Vec::new();
    let count = if args.no_worker { 0 } else { usize::from(args.workers) };
    for number in 0..count {
        workers.push(work(args, &data, &whole, number, count, tracer.clone()).await?);
    }
    Ok(Running { whole, workers, traces, data })
}

/// Who takes spans, and who sends them on.
fn traces(args: &UpArgs) -> Result<(Tracer, Option<Exporting>), Failure> {
    let Some(endpoint) = args.trace_endpoint.clone() else { return Ok((Tracer::default(), None)) };
    let instance = std::process::id().to_string();
    let plan = ExportPlan { endpoint, authority: None, ratio: args.trace_ratio, service: "orlop", instance };
    let (tracer, exporting) = export(&plan).map_err(|error| Failure::usage(format!("--trace-endpoint: {error}")))?;
    Ok((tracer, Some(exporting)))
}

/// Starts a worker on this machine: a part of all but what the machine itself needs.
async fn work(
    args: &UpArgs,
    data: &Data,
    whole: &Whole,
    number: usize,
    of: usize,
    tracer: Tracer,
) -> Result<Agent, Failure> {
    let failed =
        |error: &dyn std::fmt::Display| Failure::new(Exit::Failed, format!("the worker cannot be started: {error}"));
    // The first is where the only one is.
    let state = data.path().join(if number == 0 { "worker".to_owned() } else { format!("worker-{}", number + 1) });
    let mut server = whole.grpc();
    if server.ip().is_unspecified() {
        server.set_ip(if server.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() });
    }
    // Where workers prove who they are, this one does so too.
    let token = match whole.api().authority() {
        Some(_) => {
            let once = NewJoinToken { note: "the worker of this server".to_owned(), ..NewJoinToken::default() };
            let made = whole.api().make_join_token(once, None).await;
            Some(made.map_err(|problem| failed(&problem))?.0)
        }
        None => None,
    };
    let scheme = if token.is_some() { "https" } else { "http" };
    let endpoint = format!("{scheme}://{server}").parse().map_err(|error| failed(&error))?;
    let link = RemoteLink::new(vec![endpoint], token, &state).map_err(|error| failed(&error))?;
    let link = link.with_client_token(whole.client_token());
    let path = std::env::current_exe().map_err(|error| failed(&error))?;
    let mut options = AgentOptions::new(state);
    options.offer = Offer::part(number, of);
    options.tracer = tracer;
    options.play_with(&path);
    (options.enforce, options.cgroup) = (args.enforce.into(), args.cgroup.clone());
    options.limits = limits_of(&args.rlimits).map_err(Failure::usage)?;
    options.min_free = args.min_free.unwrap_or(options.min_free);
    options.min_free_percent = args.min_free_percent.unwrap_or(options.min_free_percent);
    // Where an engine answers.
    options.containers = Some(Containers::default());
    // The server is on this machine: it is back as soon as it can be.
    options.backoff = Duration::from_secs(1);
    Agent::start(options, Arc::new(link)).await.map_err(|error| failed(&error))
}

/// Waits until the server has read everything and acts.
async fn leads(handle: &Handle) -> Result<(), Failure> {
    let deadline = tokio::time::Instant::now() + LEADING;
    while !matches!(handle.status(), Status::Leading { .. }) {
        if tokio::time::Instant::now() > deadline {
            let text =
                "the server does not become the leader; another one may use the same data, or the disk may be full";
            return Err(Failure::unreachable(text));
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}

fn greeting(running: &Running, link: Option<&str>) -> String {
    let (rest, grpc) = (running.whole.rest_url(), running.whole.grpc_url());
    let mut access = if rest == SERVER { String::new() } else { format!(" --server {rest}") };
    let mut elsewhere = String::new();
    if rest.starts_with("https://") {
        let authority = running.data.path().join("tls").join(AUTHORITY).display().to_string();
        let token = running.whole.client_token().display();
        access.push_str(&format!(" --ca-file {authority} --token-file {token}"));
        elsewhere = format!(
            "\nfrom another machine: copy {authority} there, and a token created with `orlop token create{access}`; then give both files in --ca-file and --token-file\n(or in ORLOP_CA_FILE and ORLOP_TOKEN_FILE). If {rest} is not how it finds this \
             one, start with --name HOST.\n"
        );
    }
    // What a job asks for by default may be more than a part of a small machine.
    let small = Offer::part(0, running.workers.len()).cpu_m.filter(|cpu_m| *cpu_m < 1000);
    let cpu = small.map(|cpu_m| format!(" --cpu {cpu_m}m")).unwrap_or_default();
    let workers: Vec<String> = running.workers.iter().map(|agent| agent.worker().to_string()).collect();
    let workers = match workers.is_empty() {
        true => format!("none; start one with `orlop worker --server {grpc} --state DIR`"),
        false => workers.join(" "),
    };
    let new = if running.data.is_new() { " (new: this fleet has no jobs yet)" } else { "" };
    let console = link.or(running.whole.console_url()).unwrap_or_default();
    format!(
        "orlop {} is up\n  REST    {rest}{BASE}\n  gRPC    {grpc}\n  console {console}\n  data    {}{new}\n  worker  {workers}\n\n\
         try:  orlop submit{access}{cpu} --wait -- echo hello\n      orlop jobs{access}\n{elsewhere}",
        env!("CARGO_PKG_VERSION"),
        running.data.path().display(),
    )
}

/// Ends in good order: what runs finishes, requests under way are answered, everything is written.
async fn end(running: Running) {
    let Running { whole, workers, traces, data } = running;
    workers.iter().for_each(Agent::drain);
    for agent in workers {
        if let Err(error) = agent.ended().await {
            tracing::error!(%error, "a worker did not end by itself");
        }
    }
    whole.stop().await;
    if let Some(traces) = traces {
        traces.end().await;
    }
    drop(data);
}
