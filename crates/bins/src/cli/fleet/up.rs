//! `orlop up`: the whole server in one process. Owns what is started, what is printed, and how it ends.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use orlop_cloud::store::sqlite::fleet::{Durability, SqliteFleet};
use orlop_core::id::TenantName;
use orlop_core::ports::fleet_store::{FleetStore, Holder};
use tokio::net::TcpListener;

use super::super::output;
use super::super::signals::Signals;
use super::data::Data;
use super::exit::{Exit, Trouble};
use crate::api::{self, Api, BASE};
use crate::host::scheduler::clock::MachineClock;
use crate::host::scheduler::{Handle, Options, Server, Status};
use crate::telemetry::metrics::Metrics;

/// The tenant of jobs that name none.
const TENANT: &str = "default";
/// How long the server may take to lead.
const LEADING: Duration = Duration::from_secs(60);

/// Options of `orlop up`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  orlop up                                  in this terminal; Ctrl-C ends it in good order
  orlop up --data ./fleet --listen 127.0.0.1:8080
  orlop up --memory-store                   nothing is kept")]
pub(in crate::cli) struct UpArgs {
    /// Directory of the data; `$XDG_DATA_HOME/orlop`, else `~/.local/share/orlop`
    #[arg(long, value_name = "DIR", env = "ORLOP_DATA", conflicts_with = "memory_store")]
    data: Option<PathBuf>,
    /// Address of the REST interface, on loopback
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7070")]
    listen: SocketAddr,
    /// Keep nothing: the store is gone when the server ends
    #[arg(long)]
    memory_store: bool,
}

/// What runs.
struct Running {
    server: Server,
    store: Arc<SqliteFleet>,
    listener: api::Listener,
    data: Data,
}

/// Starts the server and serves until it is told to end.
pub(super) async fn up(args: UpArgs) -> Result<Exit, Trouble> {
    if !args.listen.ip().is_loopback() {
        let text = format!("{} can be reached from outside; that needs TLS and tokens: use loopback", args.listen);
        return Err(Trouble::usage(text));
    }
    let mut signals = Signals::take()?;
    let running = start(&args).await?;
    output::print(&greeting(&running))?;
    signals.next().await;
    output::tell("\nending: requests under way are answered; interrupt again to leave at once");
    tokio::select! {
        () = end(running) => Ok(Exit::Done),
        () = signals.next() => Ok(Exit::Interrupted),
    }
}

async fn start(args: &UpArgs) -> Result<Running, Trouble> {
    let data = if args.memory_store { Data::passing()? } else { Data::at(args.data.clone())? };
    let durability = if args.memory_store { Durability::Normal } else { Durability::Full };
    let file = data.path().join("fleet.db");
    let opened = SqliteFleet::open(&file, durability).await;
    let store =
        Arc::new(opened.map_err(|error| Trouble::unreachable(format!("{}: {}", file.display(), error.chain())))?);
    let taken = TcpListener::bind(args.listen).await;
    let socket = taken.map_err(|error| Trouble::usage(format!("{} cannot be listened on: {error}", args.listen)))?;
    let address = socket.local_addr().map_err(|error| Trouble::unreachable(error.to_string()))?;
    let holder = Holder { name: format!("up-{}", std::process::id()), url: format!("http://{address}") };
    let options = Options { holder, ..Options::default() };
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
    Ok(Running { server, store, listener, data })
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
    format!(
        "orlop {} is up\n  REST  http://{address}{BASE}\n  data  {}\n\ntry:  orlop submit{server} -- echo hello\n      orlop jobs{server}\n",
        env!("CARGO_PKG_VERSION"),
        running.data.path().display(),
    )
}

/// Ends in good order: no new requests, those under way are answered, everything is written.
async fn end(running: Running) {
    let Running { server, store, listener, data } = running;
    listener.stop().await;
    server.stop().await;
    if let Some(store) = Arc::into_inner(store) {
        store.close().await;
    }
    drop(data);
}
