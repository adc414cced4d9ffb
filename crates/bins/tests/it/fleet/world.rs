//! A fleet inside the test: server and agent in this process, attempts and pods of steps as real processes of the
//! program. Owns starting and ending it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use orlop::api::Api;
use orlop::host::client_token::{self, ClientToken};
use orlop::host::flow::fleet::{FleetSubstrate, FlowFacts};
use orlop::host::scheduler::clock::MachineClock;
use orlop::host::scheduler::flows::{Flows, ServerFleet};
use orlop::host::scheduler::grpc;
use orlop::host::scheduler::{Handle, Options, Server, Status, Stop};
use orlop::host::worker::remote::RemoteLink;
use orlop::host::worker::{Agent, AgentOptions, Containers};
use orlop::telemetry::metrics::Metrics;
use orlop::wire::grpc::Listening;
use orlop_cloud::artifact::UploadStore;
use orlop_core::id::{TenantName, WorkerId};
use orlop_core::ports::fleet_store::FleetStore;
use orlop_core::spec::flow::ResourceTemplates;
use orlop_core::spec::job::StepBackend;
use orlop_core::testing::fleet_store::MemoryFleet;

/// The zone of a worker that runs containers.
const CONTAINERS: &str = "containers";

/// Server and agent.
pub(crate) struct World {
    server: Server,
    api: Arc<Api>,
    agents: Vec<Agent>,
    stop: Stop,
    _dir: tempfile::TempDir,
}

/// An agent with its state in a directory, in a zone if it is named.
async fn agent(state: &Path, server: std::net::SocketAddr, token: &Path, zone: &str) -> Agent {
    let endpoint = format!("http://{server}").parse().expect("an address");
    let link = RemoteLink::new(vec![endpoint], None, state).expect("a link").with_client_token(token);
    let mut options = AgentOptions::new(state);
    options.play_with(Path::new(env!("CARGO_BIN_EXE_orlop")));
    options.backoff = Duration::from_secs(1);
    options.min_free_percent = 0;
    // More than this machine has: the steps of the suite mostly wait.
    options.offer.cpu_m = Some(16_000);
    options.offer.memory_bytes = Some(16 << 30);
    options.offer.max_jobs = Some(64);
    if zone == CONTAINERS {
        options.containers = Some(Containers::default());
    } else if !zone.is_empty() {
        options.worker = Some(World::worker(zone));
        options.offer.labels.insert("zone".to_owned(), zone.to_owned());
    }
    Agent::start(options, Arc::new(link)).await.expect("the agent starts")
}

/// See [`World::substrate`].
pub(crate) fn substrate(handle: &Handle, tenant: &str, templates: Option<ResourceTemplates>) -> FleetSubstrate {
    substrate_by(handle, tenant, templates, StepBackend::Process)
}

/// A substrate on a fleet whose steps run so.
pub(crate) fn substrate_by(
    handle: &Handle,
    tenant: &str,
    templates: Option<ResourceTemplates>,
    backend: StepBackend,
) -> FleetSubstrate {
    let tenant: TenantName = tenant.parse().expect("a tenant");
    let fleet = ServerFleet::new(handle.clone(), tenant.clone());
    let facts = FlowFacts { templates: templates.map(Arc::new), backend, ..FlowFacts::new(tenant) };
    FleetSubstrate::new(Arc::new(fleet), facts)
}

impl World {
    /// A fleet of one worker that keeps nothing.
    pub(crate) async fn new() -> Self {
        Self::of(&[""]).await
    }

    /// A fleet of one worker that keeps nothing and runs containers, which has said so.
    pub(crate) async fn with_containers() -> Self {
        let world = Self::of(&[CONTAINERS]).await;
        let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
        let offers = |world: &Self| {
            let snapshot = world.handle().snapshot();
            snapshot.workers.values().any(|worker| worker.capabilities.features.contains("docker"))
        };
        while !offers(&world) {
            assert!(tokio::time::Instant::now() < deadline, "the worker offers no containers");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        world
    }

    /// The worker of a zone.
    pub(crate) fn worker(zone: &str) -> WorkerId {
        format!("worker-{zone}").parse().expect("a worker id")
    }

    /// A fleet that keeps nothing, of a worker in each zone.
    pub(crate) async fn of(zones: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let store: Arc<dyn FleetStore> = Arc::new(MemoryFleet::new());
        let runtime = tokio::runtime::Handle::current();
        let artifacts = UploadStore::open(&dir.path().join("artifacts")).expect("a folder of artifacts");
        let options = Options { artifacts: Some(Arc::new(artifacts)), ..Options::default() };
        let server = Server::start(store, Arc::new(MachineClock::default()), options, runtime);
        let server = server.expect("the server starts");
        let mut status = server.handle().status_changes();
        let leads = status.wait_for(|status| matches!(status, Status::Leading { .. })).await;
        drop(leads.expect("it leads"));
        let address = "127.0.0.1:0".parse().expect("an address");
        let socket = Listening::bind(address, None).await.expect("a port");
        let (at, stop) = (socket.address(), Stop::default());
        let tenant = "default".parse().expect("a tenant");
        let token = ClientToken::take_up(&dir.path().join(client_token::FILE)).expect("a client token");
        let client_token = Some(token.hash());
        let options = orlop::api::Options { client_token, ..orlop::api::Options::loopback(tenant) };
        let api = Api::new(server.handle().clone(), Arc::new(Metrics::new()), options);
        tokio::spawn(grpc::serve(server.handle().clone(), Arc::clone(&api), socket, stop.clone()));
        let mut agents = Vec::new();
        for zone in zones {
            agents.push(agent(&dir.path().join(format!("worker-{zone}")), at, token.path(), zone).await);
        }
        Self { server, api, agents, stop, _dir: dir }
    }

    /// Flows that the server drives.
    pub(crate) fn flows(&self) -> &Flows {
        self.api.flows()
    }

    pub(crate) fn handle(&self) -> &Handle {
        self.server.handle()
    }

    pub(crate) async fn end(self) {
        for agent in self.agents {
            agent.cancel();
            agent.ended().await.expect("it ends");
        }
        self.server.stop().await;
        self.stop.stop();
    }
}
