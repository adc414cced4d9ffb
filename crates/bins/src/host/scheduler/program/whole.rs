//! A whole server: store, loop, gRPC services and REST interface, put together in one place for `orlop-scheduler` and for
//! `orlop up`. Owns the order in which they begin and end; what each of them does is its own.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use orlop_core::error::{Class, Problem};
use orlop_core::id::TenantName;
use orlop_core::rate::Rate;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::super::clock::{Clock as _, MachineClock};
use super::super::retention::Limits;
use super::super::{Handle, Options, Server, Stop, grpc};
use super::background::{BackgroundTasks, BusPlace};
use super::console::ConsolePlan;
use super::first;
use super::store::OpenStore;
use super::tls::TlsPlan;
use crate::api::auth::{Caller, Role};
use crate::api::{self, Api, Console};
use crate::host::client_token::{Announcement, ClientToken};
use crate::web::Place;
use crate::wire::grpc::Listening;
use crate::wire::identity::http_config;

/// What a server is started with.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// How the loop behaves; where it is found is filled in.
    pub(crate) options: Options,
    /// Address of the REST interface; port 0 = any that is free.
    pub(crate) rest: SocketAddr,
    /// Address of the gRPC services; the same.
    pub(crate) grpc: SocketAddr,
    /// The tenant of jobs that name none.
    pub(crate) tenant: TenantName,
    /// By what it proves who it is, where it speaks TLS.
    pub(crate) tls: TlsPlan,
    /// Listeners on loopback speak TLS too.
    pub(crate) always: bool,
    /// File of the token of the people and workers of this machine.
    pub(crate) client_token: PathBuf,
    /// File of the first token of the store, while there is none.
    pub(crate) first_token: Option<PathBuf>,
    /// How often a token may call, and an address without one.
    pub(crate) rates: [Rate; 2],
    /// Origins whose pages may use the REST interface.
    pub(crate) origins: Vec<String>,
    /// The web page; none = there is no page.
    pub(crate) console: Option<ConsolePlan>,
    /// How long things are kept.
    pub(crate) limits: Limits,
    /// Where events go beside this process.
    pub(crate) bus: Option<BusPlace>,
    /// Where clients find the REST interface and the gRPC services; absent = at their addresses.
    pub(crate) urls: [Option<String>; 2],
}

/// An address that cannot be listened on.
fn cannot_listen(address: SocketAddr, why: impl std::fmt::Display) -> Problem {
    Problem::new(Class::Invalid, format!("{address} cannot be listened on: {why}; choose another address or port"))
}

/// A server that runs.
#[derive(Debug)]
pub(crate) struct Whole {
    server: Server,
    store: OpenStore,
    api: Arc<Api>,
    rest: api::Listener,
    grpc: Grpc,
    background: BackgroundTasks,
    urls: [String; 2],
    client: ClientToken,
    announced: Option<Announcement>,
}

/// The gRPC services.
#[derive(Debug)]
struct Grpc {
    address: SocketAddr,
    stop: Stop,
    task: JoinHandle<Result<(), Problem>>,
}

/// Opens a socket.
async fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), Problem> {
    let wrong = |error: io::Error| cannot_listen(address, error);
    let socket = TcpListener::bind(address).await.map_err(wrong)?;
    let taken = socket.local_addr().map_err(wrong)?;
    Ok((socket, taken))
}

/// Where clients find both.
fn urls(plan: &Plan, addresses: [SocketAddr; 2], secure: [bool; 2]) -> [String; 2] {
    let at = |address: SocketAddr, secure: bool| {
        let scheme = if secure { "https" } else { "http" };
        // Nobody reaches a server at the address that stands for all of its own.
        let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
        match host.filter(|_| address.ip().is_unspecified()) {
            Some(host) => format!("{scheme}://{host}:{}", address.port()),
            None => format!("{scheme}://{address}"),
        }
    };
    let [rest, grpc] = addresses;
    let [rest_url, grpc_url] = plan.urls.clone();
    [rest_url.unwrap_or_else(|| at(rest, secure[0])), grpc_url.unwrap_or_else(|| at(grpc, secure[1]))]
}

impl Whole {
    /// Starts a server on a store. It answers at once, and leads as soon as the store lets it.
    ///
    /// # Errors
    /// Invalid where an address, the token of this machine or the identity for TLS cannot be used; as of the store.
    pub(crate) async fn start(plan: Plan, store: OpenStore) -> Result<Self, Problem> {
        let client = ClientToken::take_up(&plan.client_token)
            .map_err(|error| Problem::new(Class::Invalid, error.to_string()))?;
        let (rest_socket, rest) = bind(plan.rest).await?;
        let (grpc_socket, grpc) = bind(plan.grpc).await?;
        // Before anything is answered: clients find it as soon as they can connect.
        let announced = client.announce(&[rest, grpc]).inspect_err(|error| {
            let path = client.path().display();
            tracing::warn!(
                target: "orlop::scheduler", %path, %error,
                "clients on this machine cannot find the client token by themselves: give its file with --token-file"
            );
        });
        let secure = [rest, grpc].map(|address| plan.always || !address.ip().is_loopback());
        let identity = match secure.contains(&true) {
            true => Some(plan.tls.identity(&[rest, grpc], MachineClock::default().wall())?),
            false => None,
        };
        let tls = |secure: bool| identity.as_ref().filter(|_| secure).map(|identity| identity.tls.clone());
        let grpc_socket = Listening::on(grpc_socket, tls(secure[1]));
        let grpc_socket = grpc_socket.map_err(|refused| cannot_listen(grpc, refused.message))?;
        let urls = urls(&plan, [rest, grpc], secure);
        let mut options = plan.options;
        options.holder.url = urls.join(" ");
        options.outbox = plan.bus.is_some();
        let metrics = Arc::clone(&options.metrics);
        let runtime = tokio::runtime::Handle::current();
        let server = Server::start(store.fleet(), Arc::new(MachineClock::default()), options, runtime)?;
        let handle = server.handle();
        let authority = identity.as_ref().filter(|_| secure[1]).and_then(|identity| identity.authority.clone());
        let loopback = rest.ip().is_loopback();
        let [rate, address_rate] = plan.rates;
        let origins = plan.origins;
        let client_token = Some(client.hash());
        let console = plan.console.map(|console| {
            let [rest_url, _] = &urls;
            let place = console.place.unwrap_or_else(|| Place::of_listener(rest_url, client.hash().as_bytes()));
            Console { place, lives: console.lives, tick: console.tick }
        });
        let open = api::Options {
            authority,
            loopback,
            client_token,
            rate,
            address_rate,
            origins,
            console,
            ..api::Options::loopback(plan.tenant)
        };
        let api = Api::new(handle.clone(), metrics, open);
        if let Some(file) = plan.first_token {
            tokio::spawn(first::token(Arc::clone(&api), file));
        }
        let http = tls(secure[0]).map(|tls| http_config(&tls.server)).transpose();
        let http = http.map_err(|error| cannot_listen(rest, error))?;
        let rest = api::listen(rest_socket, http, &api)?;
        let stop = Stop::default();
        let task = tokio::spawn(grpc::serve(handle.clone(), Arc::clone(&api), grpc_socket, stop.clone()));
        let background = BackgroundTasks::start(handle, plan.limits, plan.bus);
        let grpc = Grpc { address: grpc, stop, task };
        Ok(Self { server, store, api, rest, grpc, background, urls, client, announced: announced.ok() })
    }

    /// What others call.
    pub(crate) fn handle(&self) -> &Handle {
        self.server.handle()
    }

    /// Where the gRPC services are.
    pub(crate) fn grpc(&self) -> SocketAddr {
        self.grpc.address
    }

    /// The interface, for what is asked of it from inside.
    pub(crate) fn api(&self) -> &Arc<Api> {
        &self.api
    }

    /// The file of the token of the people and workers of this machine.
    pub(crate) fn client_token(&self) -> &Path {
        self.client.path()
    }

    /// Where clients find the REST interface.
    pub(crate) fn rest_url(&self) -> &str {
        let [rest, _] = &self.urls;
        rest
    }

    /// Where workers and clients find the gRPC services.
    pub(crate) fn grpc_url(&self) -> &str {
        let [_, grpc] = &self.urls;
        grpc
    }

    /// Where browsers find the web page, if there is one.
    pub(crate) fn console_url(&self) -> Option<&str> {
        self.api.console_url()
    }

    /// A link to the web page that signs the people of this machine in, once.
    ///
    /// # Errors
    /// As of the store.
    pub(crate) async fn console_link(&self) -> Result<String, Problem> {
        self.api.session_link(Caller::local().grant(Role::Admin), "").await.map(|(url, _)| url)
    }

    /// Waits until the gRPC services end, which they do by themselves only when something is wrong.
    pub(crate) async fn failed(&mut self) -> String {
        match (&mut self.grpc.task).await {
            Ok(Ok(())) => "the gRPC services ended".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        }
    }

    /// Ends in good order: requests under way are answered, what was taken is committed, then connections close.
    pub(crate) async fn stop(self) {
        let Self { server, store, api, rest, grpc, background, announced, .. } = self;
        // Before its addresses are free: anyone who takes one then is somebody else.
        drop(announced);
        rest.stop().await;
        drop(api);
        background.stop().await;
        server.stop().await;
        grpc.stop.stop();
        if !grpc.task.is_finished()
            && let Ok(Err(error)) = grpc.task.await
        {
            tracing::warn!(target: "orlop::scheduler", %error, "the gRPC services ended");
        }
        store.close().await;
    }
}
