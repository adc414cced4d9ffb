//! The fleet as a substrate of flows: the suite of flows, each step a job on a real worker.

use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _};
use orlop::conformance::{Case, Ground, Hosted, all, check};
use orlop::host::flow::fleet::FleetSubstrate;
use orlop_core::attempt::AttemptKey;
use orlop_core::testing::MemoryJournal;
use orlop_core::testing::substrate::{Behaviour, SubstrateWorlds, shell_job, substrate_suite};

use super::world::{World, substrate};

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
struct Tenants<'a>(&'a World);

impl SubstrateWorlds for Tenants<'_> {
    type Substrate = FleetSubstrate;

    async fn open(&self, number: u32) -> FleetSubstrate {
        self.0.substrate(&format!("world-{number}"), None)
    }

    fn template(&self, _: u32, _: &AttemptKey, behaviour: &Behaviour) -> serde_json::Value {
        let mut job = shell_job("busybox", "", behaviour);
        // Jobs of a fleet are cancelled with the grace they were submitted with.
        job["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = serde_json::json!(1);
        job
    }

    async fn within<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        tokio::time::timeout(Duration::from_secs(8), future).await.ok()
    }

    async fn executions(&self, _: u32, _: &AttemptKey) -> Option<u32> {
        None
    }

    fn can_suspend(&self) -> bool {
        false
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_port_is_kept_on_the_fleet() {
    let world = World::new().await;
    let checks = substrate_suite(&Tenants(&world)).await;
    let checks = checks.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(checks.len() > 30);
    world.end().await;
}
