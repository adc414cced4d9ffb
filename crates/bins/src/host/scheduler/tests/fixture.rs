//! A server for a test, and what tests do with it.

use std::sync::Arc;
use std::time::Duration;

use orlop_core::id::{JobId, TenantName};
use orlop_core::machine::job::JobState;
use orlop_core::ports::fleet_store::{AttemptFilter, AttemptRow, FleetReads, FleetStore, JobRow, Page};
use orlop_core::rate::Rate;
use orlop_core::spec::job::JobSpec;
use orlop_core::testing::fleet_store::MemoryFleet;
use ring::rand::SystemRandom;
use serde_json::json;

use super::super::clock::{Clock, ManualClock};
use super::super::{Batch, Handle, Options, Server, Status, Submission};
use crate::api::auth::Bearer;
use crate::api::{self, Api};
use crate::telemetry::metrics::Metrics;

/// How long a test waits for what must come.
pub(in crate::host::scheduler) const SOON: Duration = Duration::from_secs(60);

/// A server with its world.
pub(in crate::host::scheduler) struct Fixture {
    pub(in crate::host::scheduler) store: MemoryFleet,
    pub(in crate::host::scheduler) clock: Arc<ManualClock>,
    options: Options,
    server: Option<Server>,
}

pub(in crate::host::scheduler) fn tenant() -> TenantName {
    "physics".parse().unwrap()
}

/// Waits until something holds; what waits for the loop is woken by what it publishes, so this only yields.
pub(in crate::host::scheduler) async fn until<T>(what: &str, mut probe: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = tokio::time::Instant::now() + SOON;
    loop {
        if let Some(found) = probe().await {
            return found;
        }
        assert!(tokio::time::Instant::now() < deadline, "{what} did not come");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

impl Fixture {
    pub(in crate::host::scheduler) async fn new() -> Self {
        Self::on(MemoryFleet::new()).await
    }

    pub(in crate::host::scheduler) async fn on(store: MemoryFleet) -> Self {
        Self::with(store, Options::default()).await
    }

    pub(in crate::host::scheduler) async fn with(store: MemoryFleet, options: Options) -> Self {
        let mut fixture = Self { store, clock: Arc::default(), options, server: None };
        fixture.start().await;
        fixture
    }

    pub(in crate::host::scheduler) async fn start(&mut self) {
        let store: Arc<dyn FleetStore> = Arc::new(self.store.clone());
        let clock: Arc<dyn Clock> = Arc::clone(&self.clock) as Arc<dyn Clock>;
        let runtime = tokio::runtime::Handle::current();
        self.server = Some(Server::start(store, clock, self.options.clone(), runtime).unwrap());
        self.leads().await;
    }

    pub(in crate::host::scheduler) async fn leads(&self) {
        let handle = self.handle();
        until("leadership", async || matches!(handle.status(), Status::Leading { .. }).then_some(())).await;
    }

    pub(in crate::host::scheduler) fn handle(&self) -> Handle {
        self.server.as_ref().unwrap().handle().clone()
    }

    /// Ends the server in good order.
    pub(in crate::host::scheduler) async fn stop(&mut self) {
        self.server.take().unwrap().stop().await;
    }

    /// Ends the server as a crash would.
    pub(in crate::host::scheduler) fn crash(&mut self) {
        drop(self.server.take());
    }

    /// Lets the time pass.
    pub(in crate::host::scheduler) fn pass(&self, time: Duration) {
        self.clock.advance(time);
    }

    /// Submits jobs; `fields` go on top of a job that starts nothing.
    pub(in crate::host::scheduler) async fn submit(&self, fields: &[serde_json::Value]) -> Vec<JobId> {
        self.handle().submit(batch(fields)).await.unwrap().jobs
    }

    pub(in crate::host::scheduler) async fn row(&self, job: JobId) -> JobRow {
        self.store.job(job).await.unwrap().unwrap()
    }

    pub(in crate::host::scheduler) async fn state(&self, job: JobId) -> JobState {
        self.row(job).await.unit.state
    }

    /// Waits until a job is stored in a state.
    pub(in crate::host::scheduler) async fn reaches(&self, job: JobId, state: JobState) {
        until(&format!("{job} {state}"), async || (self.state(job).await == state).then_some(())).await;
    }

    pub(in crate::host::scheduler) async fn attempts(&self, job: JobId) -> Vec<AttemptRow> {
        self.store.attempts(job, &AttemptFilter::default(), &Page::first(1000)).await.unwrap().items
    }
}

/// A job that starts nothing, with fields on top.
pub(in crate::host::scheduler) fn spec(fields: &serde_json::Value) -> JobSpec {
    let mut job = json!({ "runtime": "noop", "resources": { "cpu_m": 1000, "memory_bytes": 0 } });
    for (key, value) in fields.as_object().unwrap() {
        job[key] = value.clone();
    }
    JobSpec::from_json(&job).unwrap()
}

pub(in crate::host::scheduler) fn batch(fields: &[serde_json::Value]) -> Batch {
    let jobs = fields.iter().map(|fields| Submission::of(&spec(fields), &tenant(), None).unwrap());
    Batch { jobs: jobs.collect(), once: None }
}

/// The interface of a server, without a bound on how fast it may be called, and its client token.
pub(super) fn interface(fixture: &Fixture) -> (Arc<Api>, String) {
    let fast = Rate { per_second: 1_000_000, burst: 1_000_000 };
    let client = Bearer::generate(&SystemRandom::new()).unwrap();
    let options = api::Options {
        rate: fast,
        address_rate: fast,
        client_token: Some(client.hash()),
        ..api::Options::loopback("default".parse().unwrap())
    };
    (Api::new(fixture.handle(), Arc::new(Metrics::new()), options), client.reveal())
}
