//! `orlop up`: the whole server in one process. Owns what is started, what is printed, and how it ends.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use orlop_cloud::logs::{LogOptions, LogStore};
use orlop_cloud::runtime::process::ShimProgram;
use orlop_cloud::store::sqlite::fleet::{Durability, SqliteFleet};
use orlop_core::id::TenantName;
use orlop_core::ports::fleet_store::{FleetStore, Holder};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::super::signals::Signals;
use super::super::{SUPERVISOR, output};
use super::data::Data;
use super::exit::{Exit, Trouble};
use crate::api::{self, Api, BASE};
use crate::host::scheduler::clock::MachineClock;
use crate::host::scheduler::grpc;
use crate::host::scheduler::{Handle, Options, Server, Status, Stop};
use crate::host::worker::remote::RemoteLink;
use crate::host::worker::{Agent, AgentOptions, Control};
use crate::telemetry::metrics::Metrics;
use crate::wire::grpc::{Listening, Refusal};

/// The tenant of jobs that name none.
const TENANT: &str = "default";
/// How long the server may take to lead.
const LEADING: Duration = Duration::from_secs(60);

/// Options of `orlop up`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  orlop up                                  in this terminal; Ctrl-C ends it in good order
  orlop up --data ./fleet --listen 127.0.0.1:8080
  orlop up --memory-store                   nothing is kept
  orlop up --no-worker                      workers come from elsewhere: `orlop-worker --server http://127.0.0.1:7071`")]
pub(in crate::cli) struct UpArgs {
    /// Directory of the data; `$XDG_DATA_HOME/orlop`, else `~/.local/share/orlop`
    #[arg(long, value_name = "DIR", env = "ORLOP_DATA", conflicts_with = "memory_store")]
    data: Option<PathBuf>,
    /// Address of the REST interface, on loopback
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7070")]
    listen: SocketAddr,
    /// Address of the gRPC services, on loopback: workers come here
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7071")]
    grpc_listen: SocketAddr,
    /// Run no worker on this machine
    #[arg(long)]
    no_worker: bool,
    /// Keep nothing: the store is gone when the server ends
    #[arg(long)]
    memory_store: bool,
}

/// What runs.
struct Running {
    server: Server,
    store: Arc<SqliteFleet>,
    listener: api::Listener,
    grpc: Grpc,
    worker: Option<Agent>,
    data: Data,
}

/// The gRPC services.
struct Grpc {
    address: SocketAddr,
    stop: Stop,
    task: JoinHandle<Result<(), Refusal>>,
}

/// Starts the server and serves until it is told to end.
pub(in crate::cli) async fn up(args: UpArgs) -> Result<Exit, Trouble> {
    for address in [args.listen, args.grpc_listen] {
        if !address.ip().is_loopback() {
            let text = format!("{address} can be reached from outside; that needs TLS and tokens: use loopback");
            return Err(Trouble::usage(text));
        }
    }
    let mut signals = Signals::take()?;
    let running = start(&args).await?;
    output::print(&greeting(&running))?;
    signals.next().await;
    let control = running.worker.as_ref().map(Agent::control);
    output::tell("\nending: what runs may finish; interrupt again to cancel it");
    let ended = end(running);
    tokio::pin!(ended);
    tokio::select! {
        () = &mut ended => return Ok(Exit::Done),
        () = signals.next() => control.iter().for_each(Control::cancel),
    }
    output::tell("cancelling what runs; interrupt again to leave at once");
    tokio::select! {
        () = &mut ended => Ok(Exit::Done),
        () = signals.next() => Ok(Exit::Interrupted),
    }
}

async fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), Trouble> {
    let taken = TcpListener::bind(address).await;
    let socket = taken.map_err(|error| Trouble::usage(format!("{address} cannot be listened on: {error}")))?;
    let address = socket.local_addr().map_err(|error| Trouble::unreachable(error.to_string()))?;
    Ok((socket, address))
}

async fn start(args: &UpArgs) -> Result<Running, Trouble> {
    let data = if args.memory_store { Data::passing()? } else { Data::at(args.data.clone())? };
    let durability = if args.memory_store { Durability::Normal } else { Durability::Full };
    let file = data.path().join("fleet.db");
    let opened = SqliteFleet::open(&file, durability).await;
    let store = opened.map_err(|error| Trouble::unreachable(format!("{}: {}", file.display(), error.chain())))?;
    let store = Arc::new(store);
    let (socket, address) = bind(args.listen).await?;
    let grpc_socket = Listening::bind(args.grpc_listen, None).await;
    let grpc_socket = grpc_socket.map_err(|refused| Trouble::usage(refused.to_string()))?;
    let grpc_address = grpc_socket.address();
    let holder = Holder { name: format!("up-{}", std::process::id()), url: format!("http://{address}") };
    let logs = LogStore::open(data.path().join("logs"), LogOptions::default());
    let logs = logs.map_err(|error| Trouble::unreachable(error.chain()))?;
    let options = Options { holder, logs: Some(logs), ..Options::default() };
    let fleet: Arc<dyn FleetStore> = Arc::clone(&store) as Arc<dyn FleetStore>;
    let runtime = tokio::runtime::Handle::current();
    let server = Server::start(fleet, Arc::new(MachineClock::default()), options, runtime);
    let server = server.map_err(|error| Trouble::unreachable(format!("the server cannot be started: {error}")))?;
    leads(server.handle()).await?;
    let tenant: TenantName = TENANT.parse().map_err(|error| Trouble::usage(format!("{error}")))?;
    let options = api::Options::loopback(tenant);
    let api = Api::new(server.handle().clone(), Arc::new(Metrics::new()), options).await;
    let api = api.map_err(|error| Trouble::unreachable(error.chain()))?;
    let listener = api::listen(socket, &api).map_err(|error| Trouble::unreachable(error.to_string()))?;
    let stop = Stop::default();
    let task = tokio::spawn(grpc::serve(server.handle().clone(), grpc_socket, stop.clone()));
    let grpc = Grpc { address: grpc_address, stop, task };
    let worker = if args.no_worker { None } else { Some(work(&data, grpc_address).await?) };
    Ok(Running { server, store, listener, grpc, worker, data })
}

/// Starts a worker on this machine: all of it but what the machine itself needs.
async fn work(data: &Data, server: SocketAddr) -> Result<Agent, Trouble> {
    let failed = |error: &dyn std::fmt::Display| Trouble::unreachable(format!("the worker cannot be started: {error}"));
    let state = data.path().join("worker");
    let endpoint = format!("http://{server}").parse().map_err(|error| failed(&error))?;
    let link = RemoteLink::new(vec![endpoint], None, &state).map_err(|error| failed(&error))?;
    let path = std::env::current_exe().map_err(|error| failed(&error))?;
    let mut options = AgentOptions::new(state);
    options.supervisor = Some(ShimProgram { path, args: vec![SUPERVISOR.into()] });
    // The server is on this machine: it is back as soon as it can be.
    options.backoff = Duration::from_secs(1);
    Agent::start(options, Arc::new(link)).await.map_err(|error| failed(&error))
}

/// Waits until the server has read everything and acts.
async fn leads(handle: &Handle) -> Result<(), Trouble> {
    let deadline = tokio::time::Instant::now() + LEADING;
    while !matches!(handle.status(), Status::Leading { .. }) {
        if tokio::time::Instant::now() > deadline {
            let text = "the server does not come to lead; another one may use the same data, or the disk may be full";
            return Err(Trouble::unreachable(text));
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}

fn greeting(running: &Running) -> String {
    let address = running.listener.address();
    let server = if address.port() == 7070 { String::new() } else { format!(" --server http://{address}") };
    let worker = match &running.worker {
        Some(agent) => agent.worker().to_string(),
        None => format!("none; start one with `orlop-worker --server http://{} --state DIR`", running.grpc.address),
    };
    format!(
        "orlop {} is up\n  REST    http://{address}{BASE}\n  gRPC    http://{}\n  data    {}\n  worker  {worker}\n\n\
         try:  orlop submit{server} --wait -- echo hello\n      orlop jobs{server}\n",
        env!("CARGO_PKG_VERSION"),
        running.grpc.address,
        running.data.path().display(),
    )
}

/// Ends in good order: what runs finishes, requests under way are answered, everything is written.
async fn end(running: Running) {
    let Running { server, store, listener, grpc, worker, data } = running;
    if let Some(agent) = worker {
        agent.drain();
        agent.ended().await;
    }
    listener.stop().await;
    server.stop().await;
    grpc.stop.stop();
    if let Ok(Err(error)) = grpc.task.await {
        tracing::warn!(target: "orlop::up", %error, "the gRPC services ended");
    }
    if let Some(store) = Arc::into_inner(store) {
        store.close().await;
    }
    drop(data);
}
