//! The fleet as a substrate of flows: the suite of flows, each step a job on a real worker.

use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _};
use orlop::conformance::{Case, Control, Ground, Harness, Hosted, Trigger, all, check};
use orlop::host::flow::fleet::FleetSubstrate;
use orlop::host::scheduler::flows::{Decider, Driver, Flows, NewFlow};
use orlop_core::attempt::AttemptKey;
use orlop_core::spec::job::StepBackend;
use orlop_core::spec::status::FlowStatus;
use orlop_core::testing::MemoryJournal;
use orlop_core::testing::substrate::{Behaviour, SubstrateWorlds, shell_job, substrate_suite};

use super::world::{World, substrate, substrate_by};
use crate::image::{Image, remove_containers};

/// Flows that run at once.
const AT_ONCE: usize = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_case_conforms_on_the_fleet() {
    let world = World::new().await;
    let handle = world.handle().clone();
    let runs = futures::stream::iter(all()).map(|case| {
        let handle = handle.clone();
        tokio::spawn(async move {
            let harness = Hosted::new("busybox", move |case: &Case| {
                let (handle, case) = (handle.clone(), case.clone());
                async move {
                    let flow = case.flow("busybox").map_err(|error| error.to_string())?;
                    let substrate = substrate(&handle, "default", flow.spec.resource_templates);
                    Ok(Ground { substrate: Arc::new(substrate), journal: Arc::new(MemoryJournal::new()) })
                }
                .boxed()
            });
            match tokio::time::timeout(Duration::from_secs(120), check(&harness, &case)).await {
                Ok(found) => found,
                Err(_) => vec![format!("{} did not end", case.name)],
            }
        })
    });
    let found = runs.buffer_unordered(AT_ONCE).collect::<Vec<_>>().await;
    let found = found.into_iter().flat_map(|found| found.unwrap_or_else(|error| vec![error.to_string()]));
    let differences: Vec<String> = found.collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    world.end().await;
}

/// Worlds of the port's suite: a tenant each, on one fleet.
struct Tenants<'a> {
    world: &'a World,
    image: &'a str,
    backend: StepBackend,
}

impl SubstrateWorlds for Tenants<'_> {
    type Substrate = FleetSubstrate;

    async fn open(&self, number: u32) -> FleetSubstrate {
        substrate_by(self.world.handle(), &format!("world-{number}"), None, self.backend)
    }

    fn template(&self, _: u32, _: &AttemptKey, behaviour: &Behaviour) -> serde_json::Value {
        let mut job = shell_job(self.image, "", behaviour);
        // Jobs of a fleet are cancelled with the grace they were submitted with.
        job["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = serde_json::json!(1);
        job
    }

    async fn within<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        // A container takes its time.
        let patience = if self.backend == StepBackend::Docker { 30 } else { 8 };
        tokio::time::timeout(Duration::from_secs(patience), future).await.ok()
    }

    async fn due<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        tokio::time::timeout(Duration::from_secs(60), future).await.ok()
    }

    async fn executions(&self, _: u32, _: &AttemptKey) -> Option<u32> {
        None
    }

    fn at_once(&self) -> usize {
        8
    }

    fn can_suspend(&self) -> bool {
        false
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_port_is_kept_on_the_fleet() {
    let world = World::new().await;
    let worlds = Tenants { world: &world, image: "busybox", backend: StepBackend::Process };
    let checks = substrate_suite(&worlds).await;
    let checks = checks.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(checks.len() > 30);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_port_is_kept_on_the_fleet_with_containers() {
    let image = match Image::import() {
        Ok(image) => image,
        Err(why) => return println!("\nskipped: the_port_is_kept_on_the_fleet_with_containers: {why}"),
    };
    let world = World::with_containers().await;
    let worlds = Tenants { world: &world, image: &image.0, backend: StepBackend::Docker };
    let checks = substrate_suite(&worlds).await;
    remove_containers(&image.0);
    let checks = checks.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(checks.len() > 30);
    world.end().await;
}

/// Flows that the server itself drives.
struct Served(Flows);

#[async_trait::async_trait]
impl Harness for Served {
    fn image(&self) -> &str {
        "busybox"
    }

    fn runs_scripts(&self) -> bool {
        true
    }

    async fn run(&self, case: &Case) -> Result<FlowStatus, String> {
        let flows = &self.0;
        let new = NewFlow {
            flow: case.flow(self.image()).map_err(|error| error.to_string())?,
            tenant: "served".parse().map_err(|_| "a tenant".to_owned())?,
            parameters: case.parameters.clone(),
            driver: Driver { backend: StepBackend::Process, ..Driver::default() },
            first: Vec::new(),
            uid: uuid::Uuid::new_v4().to_string(),
        };
        let uid = flows.submit(new).await.map_err(|error| error.message)?.uid;
        for (trigger, control) in &case.controls {
            let mut changes = flows.changes(&uid).ok_or("the flow is not driven")?;
            let holds = |status: &FlowStatus| match trigger {
                Trigger::AtStart => true,
                Trigger::When { step, phase } => {
                    status.steps.iter().any(|known| known.name == *step && known.phase.to_string() == *phase)
                }
            };
            let waited = changes.wait_for(|view| holds(&view.status) || view.status.phase.is_terminal()).await;
            drop(waited.map_err(|_| format!("the host has gone before {trigger:?}"))?);
            let flow = flows.find(&uid, None).await.map_err(|error| error.message)?;
            let by = Decider { name: "suite".to_owned(), verified: true, operator: true };
            let given = match control {
                Control::Decide(step, decision) => flows.decide(&flow, step, *decision, (by, None)).await,
                Control::Suspend(_) => flows.suspend(&flow, true).await,
                Control::Resume => flows.suspend(&flow, false).await,
                Control::Stop => flows.cancel(&flow, true).await.map(drop),
                Control::Terminate => flows.cancel(&flow, false).await.map(drop),
            };
            given.map_err(|error| format!("{control:?} was refused: {}", error.message))?;
        }
        if let Some(mut changes) = flows.changes(&uid) {
            // A host that has gone has ended its flow: the journal tells.
            drop(changes.wait_for(|view| view.status.phase.is_terminal()).await);
        }
        let flow = flows.find(&uid, None).await.map_err(|error| error.message)?;
        flows.read(flow).await.map(|read| read.status()).map_err(|error| error.message)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_case_conforms_as_a_flow_of_the_server() {
    let world = World::new().await;
    let runs = futures::stream::iter(all()).map(|case| {
        let flows = world.flows().clone();
        tokio::spawn(async move {
            match tokio::time::timeout(Duration::from_secs(120), check(&Served(flows), &case)).await {
                Ok(found) => found,
                Err(_) => vec![format!("{} did not end", case.name)],
            }
        })
    });
    let found = runs.buffer_unordered(AT_ONCE).collect::<Vec<_>>().await;
    let found = found.into_iter().flat_map(|found| found.unwrap_or_else(|error| vec![error.to_string()]));
    let differences: Vec<String> = found.collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    world.end().await;
}
