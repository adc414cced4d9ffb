//! Flows over two workers: artifacts travel by way of the server, claims stay where they are.

use std::time::Duration;

use orlop::host::scheduler::WorkerOrder;
use orlop::host::scheduler::flows::{Driver, NewFlow};
use orlop_core::machine::flow::FlowPhase;
use orlop_core::machine::step::StepPhase;
use orlop_core::spec::flow::JobFlow;
use orlop_core::spec::job::StepBackend;
use orlop_core::spec::status::FlowStatus;
use serde_json::{Value, json};

use super::world::World;

/// A step that runs a script, on workers of a zone if one is named.
fn step(name: &str, zone: Option<&str>, script: &str, after: &[&str]) -> Value {
    let container = json!({
        "name": "main", "image": "busybox", "command": ["/bin/sh", "-c", script],
        "resources": { "requests": { "cpu": "100m", "memory": "32Mi" } },
    });
    let mut pod = json!({ "containers": [container], "terminationGracePeriodSeconds": 1 });
    if let Some(zone) = zone {
        pod["nodeSelector"] = json!({ "zone": zone });
    }
    let template = json!({ "apiVersion": "batch/v1", "kind": "Job", "spec": { "template": { "spec": pod } } });
    json!({ "name": name, "dependencies": after, "template": template })
}

/// Mounts a claim of the flow.
fn mounted(mut step: Value, claim: &str) -> Value {
    let pod = &mut step["template"]["spec"]["template"]["spec"];
    pod["volumes"] = json!([{ "name": "v", "persistentVolumeClaim": { "claimName": claim } }]);
    pod["containers"][0]["volumeMounts"] = json!([{ "name": "v", "mountPath": "/data" }]);
    step
}

async fn submit(world: &World, spec: Value) -> String {
    let object = json!({
        "apiVersion": "workflow.kube-zen.io/v1alpha1", "kind": "JobFlow", "metadata": { "name": "spread" }, "spec": spec,
    });
    let flow: JobFlow = serde_json::from_value(object).expect("a flow");
    let uid = uuid::Uuid::new_v4().to_string();
    let new = NewFlow {
        flow,
        tenant: "default".parse().expect("a tenant"),
        parameters: std::collections::BTreeMap::new(),
        driver: Driver { backend: StepBackend::Process, ..Driver::default() },
        first: Vec::new(),
        uid,
    };
    world.flows().submit(new).await.expect("the flow is taken").uid
}

/// Waits until something holds of a flow.
async fn until(world: &World, uid: &str, holds: impl Fn(&FlowStatus) -> bool) -> FlowStatus {
    let waited = tokio::time::timeout(Duration::from_secs(60), async {
        if let Some(mut changes) = world.flows().changes(uid) {
            // A host that has gone has ended its flow: the journal tells.
            drop(changes.wait_for(|view| holds(&view.status) || view.status.phase.is_terminal()).await);
        }
        let flow = world.flows().find(uid, None).await.expect("the flow is there");
        world.flows().read(flow).await.expect("it can be read").status()
    });
    waited.await.expect("what is waited for comes")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_artifact_of_one_worker_is_delivered_on_another() {
    let world = World::of(&["a", "b"]).await;
    let mut make =
        step("make", Some("a"), "mkdir -p /tmp/out/deep && echo hello > /tmp/out/deep/f && echo raw > /tmp/raw", &[]);
    make["outputs"] =
        json!({ "artifacts": [{ "name": "tree", "path": "/tmp/out" }, { "name": "raw", "path": "/tmp/raw" }] });
    let inputs = |from: &str| {
        json!({ "artifacts": [
            { "name": "tree", "from": format!("{from}/tree"), "path": "/tmp/in" },
            { "name": "raw", "from": format!("{from}/raw"), "path": "/tmp/in-raw" },
        ] })
    };
    let check = "test \"$(cat /tmp/in/deep/f)\" = hello && test \"$(cat /tmp/in-raw)\" = raw";
    let mut far = step("far", Some("b"), check, &["make"]);
    let mut near = step("near", Some("a"), check, &["make"]);
    (far["inputs"], near["inputs"]) = (inputs("make"), inputs("make"));
    let uid = submit(&world, json!({ "steps": [make, far, near] })).await;
    let status = until(&world, &uid, |_| false).await;
    assert_eq!(status.phase, FlowPhase::Succeeded, "{status:#?}");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn steps_with_a_claim_wait_for_the_worker_that_has_it() {
    let world = World::of(&["a", "b"]).await;
    let claim = json!({ "metadata": { "name": "data" }, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Mi" } } } });
    let write = mounted(step("write", Some("a"), "echo kept > /data/f", &[]), "data");
    let gate = json!({ "name": "gate", "type": "Manual", "dependencies": ["write"] });
    let read = mounted(step("read", None, "test \"$(cat /data/f)\" = kept", &["gate"]), "data");
    let free = step("free", None, "true", &["gate"]);
    let templates = json!({ "volumeClaimTemplates": [claim] });
    let uid = submit(&world, json!({ "steps": [write, gate, read, free], "resourceTemplates": templates })).await;
    until(&world, &uid, |status| status.phase == FlowPhase::Paused).await;
    // The worker with the claim takes nothing: who needs the claim waits, who does not goes to the other one.
    let holder = World::worker("a");
    world.handle().order(holder.clone(), WorkerOrder::Cordon).await.expect("it is cordoned");
    let flow = world.flows().find(&uid, None).await.expect("the flow is there");
    let by = orlop::host::scheduler::flows::Decider { name: "test".to_owned(), verified: true, operator: true };
    let approved = orlop_core::spec::status::Decision::Approved;
    world.flows().decide(&flow, "gate", approved, (by, None)).await.expect("it is decided");
    let is = |status: &FlowStatus, step: &str, phase: StepPhase| {
        status.steps.iter().any(|known| known.name == step && known.phase == phase)
    };
    let status = until(&world, &uid, |status| is(status, "free", StepPhase::Succeeded)).await;
    assert!(is(&status, "free", StepPhase::Succeeded) && !status.phase.is_terminal(), "{status:#?}");
    world.handle().order(holder, WorkerOrder::Uncordon).await.expect("it is uncordoned");
    let status = until(&world, &uid, |_| false).await;
    assert_eq!(status.phase, FlowPhase::Succeeded, "{status:#?}");
    world.end().await;
}
