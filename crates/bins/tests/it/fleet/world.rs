//! A fleet inside the test: server and agent in this process, attempts and runners of steps as real processes of the
//! program. Owns starting and ending it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use orlop::api::Api;
use orlop::host::flow::fleet::{FleetSubstrate, FlowFacts, StepBackend};
use orlop::host::scheduler::clock::MachineClock;
use orlop::host::scheduler::flows::{Flows, ServerFleet};
use orlop::host::scheduler::grpc;
use orlop::host::scheduler::{Handle, Options, Server, Status, Stop};
use orlop::host::step;
use orlop::host::worker::remote::RemoteLink;
use orlop::host::worker::{Agent, AgentOptions};
use orlop::telemetry::metrics::Metrics;
use orlop::wire::grpc::Listening;
use orlop_cloud::runtime::process::ShimProgram;
use orlop_core::id::TenantName;
use orlop_core::ports::fleet_store::FleetStore;
use orlop_core::spec::flow::ResourceTemplates;
use orlop_core::testing::fleet_store::MemoryFleet;

/// Server and agent.
pub(crate) struct World {
    server: Server,
    api: Arc<Api>,
    agent: Agent,
    stop: Stop,
    _dir: tempfile::TempDir,
}

/// The program under a hidden argument.
fn program(argument: &str) -> ShimProgram {
    ShimProgram { path: env!("CARGO_BIN_EXE_orlop").into(), args: vec![argument.into()] }
}

/// An agent with its state in a directory.
async fn agent(state: &Path, server: std::net::SocketAddr) -> Agent {
    let endpoint = format!("http://{server}").parse().expect("an address");
    let link = RemoteLink::new(vec![endpoint], None, state).expect("a link");
    let mut options = AgentOptions::new(state);
    options.supervisor = Some(program(orlop::cli::SUPERVISOR));
    options.steps = Some(program(step::ARGUMENT));
    options.backoff = Duration::from_secs(1);
    // More than this machine has: the steps of the suite mostly wait.
    options.offer.cpu_m = Some(16_000);
    options.offer.memory_bytes = Some(16 << 30);
    options.offer.max_jobs = Some(64);
    Agent::start(options, Arc::new(link)).await.expect("the agent starts")
}

/// See [`World::substrate`].
pub(crate) fn substrate(handle: &Handle, tenant: &str, templates: Option<ResourceTemplates>) -> FleetSubstrate {
    let tenant: TenantName = tenant.parse().expect("a tenant");
    let fleet = ServerFleet::new(handle.clone(), tenant.clone());
    let facts = FlowFacts { templates, backend: StepBackend::Process, ..FlowFacts::new(tenant) };
    FleetSubstrate::new(Arc::new(fleet), facts)
}

impl World {
    /// A fleet of one worker that keeps nothing.
    pub(crate) async fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let store: Arc<dyn FleetStore> = Arc::new(MemoryFleet::new());
        let runtime = tokio::runtime::Handle::current();
        let server = Server::start(store, Arc::new(MachineClock::default()), Options::default(), runtime);
        let server = server.expect("the server starts");
        let mut status = server.handle().status_changes();
        let leads = status.wait_for(|status| matches!(status, Status::Leading { .. })).await;
        drop(leads.expect("it leads"));
        let address = "127.0.0.1:0".parse().expect("an address");
        let socket = Listening::bind(address, None).await.expect("a port");
        let (at, stop) = (socket.address(), Stop::default());
        let tenant = "default".parse().expect("a tenant");
        let options = orlop::api::Options::loopback(tenant);
        let api = Api::new(server.handle().clone(), Arc::new(Metrics::new()), options).await.expect("the interface");
        tokio::spawn(grpc::serve(server.handle().clone(), Arc::clone(&api), socket, stop.clone()));
        let agent = agent(&dir.path().join("worker"), at).await;
        Self { server, api, agent, stop, _dir: dir }
    }

    /// Flows that the server drives.
    pub(crate) fn flows(&self) -> &Flows {
        self.api.flows()
    }

    pub(crate) fn handle(&self) -> &Handle {
        self.server.handle()
    }

    /// A substrate on this fleet whose steps run as processes, for flows of a tenant with these templates.
    pub(crate) fn substrate(&self, tenant: &str, templates: Option<ResourceTemplates>) -> FleetSubstrate {
        substrate(self.handle(), tenant, templates)
    }

    pub(crate) async fn end(self) {
        self.agent.cancel();
        self.agent.ended().await;
        self.server.stop().await;
        self.stop.stop();
    }
}
