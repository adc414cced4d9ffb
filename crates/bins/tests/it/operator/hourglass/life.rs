//! Lives of performers and executors from `deploy/examples`: to Running, through upgrades, scales and restarts of the operator,
//! to their end.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::fixture::{ACCOUNT, Fixture, example, node, quick};
use super::machines;

const PERFORMER: &str = "Performer";
const EXECUTOR: &str = "HourglassExecutor";

/// Nodes and classes for every example.
fn fleet(fixture: &Fixture) {
    for node in machines::special().into_iter().chain([machines::a100()]) {
        fixture.create("", "nodes", "", &node);
    }
    for class in machines::classes() {
        let (group, _) = class["apiVersion"].as_str().unwrap().split_once('/').unwrap();
        let kind = class["kind"].as_str().unwrap().to_lowercase();
        let plural = if kind.ends_with('s') { format!("{kind}es") } else { format!("{kind}s") };
        fixture.create(group, &plural, "", &class);
    }
}

#[test]
fn every_example_comes_to_running_with_the_rights_that_ship() {
    let fixture = Fixture::everywhere();
    fleet(&fixture);
    let operator = fixture.start("operator", &[]);
    operator.comes_to_lead();
    let mut all: Vec<Value> = ["minimal", "basic", "gpu", "mig", "amd", "sgx", "tdx", "tee-gpu", "dra"]
        .iter()
        .map(|name| example(&format!("performer-{name}")))
        .collect();
    all.extend([example("executor-basic"), example("executor-ha")]);
    all.iter().for_each(|object| fixture.submit(object));
    for object in &all {
        fixture.comes_to(object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap(), "Running");
    }
    for (performer, host) in [("gpu", "a100"), ("mig", "mig"), ("amd", "amd"), ("sgx", "sgx"), ("tee-gpu", "hidden")] {
        assert_eq!(fixture.status(PERFORMER, performer)["nodeName"], host, "{performer}");
        assert_eq!(fixture.condition(PERFORMER, performer, "HardwareAvailable"), "True/NodesMatch");
    }
    assert_eq!(fixture.status(EXECUTOR, "multi-chain")["readyReplicas"], 3);
    assert_eq!(fixture.denied(), [] as [String; 0]);
    for line in [
        "orlop_objects{controller=\"performer\",phase=\"Running\"} 9",
        "orlop_objects{controller=\"executor\",phase=\"Running\"} 2",
        "orlop_performer_time_to_ready_seconds_count 9",
        "orlop_executor_unready 0",
        "orlop_leader 1",
        "orlop_phase_transitions_total{controller=\"performer\",from=\"Creating\",to=\"Running\"} 9",
    ] {
        // What is written is counted when it is read again.
        fixture.waits(line, || operator.get("/metrics").1.contains(line));
    }
    // One lease for all, and nothing is written while nothing happens.
    assert_eq!(
        fixture.server.look_all("leases.coordination.k8s.io").len(),
        2,
        "its own, and the one flows share with zen-flow"
    );
    let writes = || {
        let all = fixture.server.writes().into_iter();
        all.filter(|write| write.client == ACCOUNT && !write.resource.starts_with("leases")).collect::<Vec<_>>()
    };
    let before = writes().len();
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(writes()[before..], [], "zero writes");
}

#[test]
fn objects_are_upgraded_scaled_and_deleted() {
    let fixture = Fixture::everywhere();
    let operator = fixture.start("operator", &["--controllers=performer,executor"]);
    fixture.create("", "nodes", "", &node("pool", json!({"node-pool": "performers"}), json!({})));
    fixture.submit(&quick("avs"));
    fixture.submit(&example("executor-basic"));
    fixture.comes_to(PERFORMER, "avs", "Running");
    fixture.comes_to(EXECUTOR, "basic", "Running");
    let endpoint = fixture.status(PERFORMER, "avs")["grpcEndpoint"].clone();
    assert_eq!(endpoint, "performer-avs.default.svc.cluster.local:9090");
    fixture.patch(PERFORMER, "avs", &json!({"spec": {"image": "registry.example/performer:2.0.0"}}));
    fixture.comes_to(PERFORMER, "avs", "Running");
    let status = fixture.status(PERFORMER, "avs");
    assert_eq!(
        (&status["image"], &status["active"]["incarnation"]),
        (&json!("registry.example/performer:2.0.0"), &json!(2))
    );
    assert_eq!(status["grpcEndpoint"], endpoint, "the name stays");
    fixture.waits("the end of the old pod", || {
        fixture.names("pods").iter().filter(|name| name.starts_with("performer")).count() == 1
    });
    let (_, metrics) = operator.get("/metrics");
    assert!(metrics.contains("orlop_performer_upgrades_total{result=\"completed\"} 1"), "{metrics}");
    // Through the subresource, as an autoscaler does.
    let before: Vec<String> = fixture.names("pods");
    fixture.patch(EXECUTOR, "basic/scale", &json!({"spec": {"replicas": 3}}));
    fixture.comes_to(EXECUTOR, "basic", "Running");
    assert_eq!(fixture.status(EXECUTOR, "basic")["readyReplicas"], 3);
    assert!(before.iter().all(|name| fixture.names("pods").contains(name)), "those that were there stay");
    fixture.patch(EXECUTOR, "basic", &json!({"spec": {"config": {"logLevel": "debug"}}}));
    fixture.waits("other pods", || {
        before.iter().filter(|name| name.starts_with("basic")).all(|name| !fixture.names("pods").contains(name))
    });
    fixture.comes_to(EXECUTOR, "basic", "Running");
    fixture.delete(PERFORMER, "avs");
    fixture.delete(EXECUTOR, "basic");
    fixture.waits("the end of both", || !fixture.is_there(PERFORMER, "avs") && !fixture.is_there(EXECUTOR, "basic"));
    fixture.waits("the end of what belonged to them", || {
        ["pods", "services", "deployments.apps", "secrets", "poddisruptionbudgets.policy", "controllerrevisions.apps"]
            .iter()
            .all(|resource| fixture.names(resource).is_empty())
    });
    assert_eq!(fixture.denied(), [] as [String; 0]);
}

#[test]
fn the_example_of_an_autoscaler_scales_the_executor_that_it_names() {
    let (autoscaler, executor) = (example("executor-autoscaler"), example("executor-ha"));
    let fixture = Fixture::everywhere();
    let operator = fixture.start("operator", &["--controllers=executor"]);
    operator.comes_to_lead();
    fixture.submit(&executor);
    let target = &autoscaler["spec"]["scaleTargetRef"];
    assert_eq!((&target["apiVersion"], &target["kind"]), (&executor["apiVersion"], &executor["kind"]));
    let name = target["name"].as_str().unwrap();
    fixture.comes_to(EXECUTOR, name, "Running");
    // What utilization is measured against, and of which pods.
    let container = &fixture.server.look_all("pods")[0]["spec"]["containers"][0];
    let measured = autoscaler["spec"]["metrics"][0]["resource"]["name"].as_str().unwrap();
    assert!(container["resources"]["requests"][measured].is_string(), "{container}");
    let labels = fixture.server.look_all("pods")[0]["metadata"]["labels"].clone();
    let scale = fixture.scale(name);
    let selector = scale["status"]["selector"].as_str().unwrap();
    assert!(selector.split(',').all(|part| labels[part.split_once('=').unwrap().0] == part.split_once('=').unwrap().1));
    assert_eq!(scale["spec"]["replicas"], autoscaler["spec"]["minReplicas"]);
    for bound in ["maxReplicas", "minReplicas"] {
        let replicas = &autoscaler["spec"][bound];
        fixture.patch(EXECUTOR, &format!("{name}/scale"), &json!({"spec": {"replicas": replicas}}));
        fixture.comes_to(EXECUTOR, name, "Running");
        assert_eq!(&fixture.status(EXECUTOR, name)["readyReplicas"], replicas, "{bound}");
        assert_eq!(&fixture.scale(name)["status"]["replicas"], replicas, "{bound}");
    }
}

#[test]
fn no_node_that_fits_is_reported_within_seconds_and_the_pod_starts_when_one_comes() {
    let fixture = Fixture::everywhere();
    let operator = fixture.start("operator", &["--controllers=performer"]);
    operator.comes_to_lead();
    let began = Instant::now();
    fixture.submit(&example("performer-gpu"));
    fixture.waits("the condition", || {
        fixture.condition(PERFORMER, "gpu", "HardwareAvailable") == "False/NoMatchingLabels"
    });
    // Far from the ten minutes after which all is looked at again.
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    fixture.waits("the report", || fixture.condition(PERFORMER, "gpu", "Degraded") == "True/HardwareUnavailable");
    let (pods, uid) = (fixture.names("pods"), fixture.server.look_all("pods")[0]["metadata"]["uid"].clone());
    assert_eq!(pods.len(), 1, "the pod is kept");
    let (_, metrics) = operator.get("/metrics");
    assert!(metrics.contains("orlop_hardware_unavailable{reason=\"NoMatchingLabels\"} 1"), "{metrics}");
    fixture.create("", "nodes", "", &machines::a100());
    fixture.comes_to(PERFORMER, "gpu", "Running");
    assert_eq!(fixture.server.look_all("pods")[0]["metadata"]["uid"], uid, "the same pod");
    // Nodes are watched beside pods.
    fixture.waits("the nodes", || fixture.condition(PERFORMER, "gpu", "HardwareAvailable") == "True/NodesMatch");
}

#[test]
fn an_operator_that_is_killed_is_replaced_and_nothing_is_made_twice() {
    let fixture = Fixture::everywhere();
    // Pods take their time, so that there is a middle.
    let mut habits = orlop::k8s::testing::PodHabits::default();
    habits.start = 15_000;
    fixture.server.jobs().set_habits(habits);
    let mut first = fixture.start("first", &["--controllers=performer,executor"]);
    fixture.submit(&quick("avs"));
    fixture.submit(&example("executor-basic"));
    fixture.waits("the middle", || {
        fixture.names("pods").len() == 2 && fixture.status(PERFORMER, "avs")["phase"] == "Creating"
    });
    first.kill();
    habits.start = 4000;
    fixture.server.jobs().set_habits(habits);
    let mut second = fixture.start("second", &["--controllers=performer,executor"]);
    fixture.comes_to(PERFORMER, "avs", "Running");
    fixture.comes_to(EXECUTOR, "basic", "Running");
    assert_eq!(fixture.names("pods").len(), 2);
    fixture.patch(PERFORMER, "avs", &json!({"spec": {"image": "registry.example/performer:2.0.0"}}));
    fixture.waits("the middle of an upgrade", || fixture.status(PERFORMER, "avs")["state"] == "PodRecreation");
    second.kill();
    let mut third = fixture.start("third", &["--controllers=performer,executor"]);
    fixture.comes_to(PERFORMER, "avs", "Running");
    fixture.waits("the end of the old pod", || fixture.names("pods").len() == 2);
    assert_eq!(fixture.status(PERFORMER, "avs")["incarnation"], 2);
    let made = fixture.server.writes().into_iter().filter(|write| {
        write.client == ACCOUNT && write.resource == "pods" && write.verb.as_str() == "create" && write.code == 201
    });
    assert_eq!(made.count(), 2, "one create for each number");
    // In good order: the leases are given back.
    third.signal(Signal::SIGTERM);
    assert_eq!(third.end(), Some(0));
    for lease in fixture.server.look_all("leases.coordination.k8s.io") {
        assert_eq!(lease["spec"]["holderIdentity"].as_str().unwrap_or_default(), "", "{lease}");
    }
}

#[test]
fn in_some_namespaces_only_the_operator_needs_no_other_right() {
    let fixture = Fixture::new(&["kustomize/namespaced/role.yaml", "kustomize/base/role.yaml"]);
    fixture.server.namespace("elsewhere");
    let operator = fixture.start("operator", &["--namespaces=default"]);
    let mut elsewhere = quick("elsewhere");
    elsewhere["metadata"]["namespace"] = json!("elsewhere");
    fixture.create("hourglass.eigenlayer.io", "performers", "elsewhere", &elsewhere);
    fixture.submit(&example("performer-gpu"));
    fixture.submit(&quick("avs"));
    fixture.submit(&example("executor-basic"));
    fixture.comes_to(PERFORMER, "avs", "Running");
    fixture.comes_to(EXECUTOR, "basic", "Running");
    fixture.waits("the condition", || {
        fixture.condition(PERFORMER, "gpu", "HardwareAvailable") == "Unknown/NodesNotReadable"
    });
    // What may not be seen of the cluster does not make it unready.
    operator.comes_to_lead();
    let theirs = fixture.server.look("performers.hourglass.eigenlayer.io", "elsewhere", "elsewhere").unwrap();
    assert_eq!(theirs["status"], Value::Null);
    let denied = fixture.denied();
    let cluster = ["nodes", "runtimeclasses", "deviceclasses", "resourceslices"];
    assert!(denied.iter().all(|request| cluster.iter().any(|resource| request.contains(resource))), "{denied:?}");
}
