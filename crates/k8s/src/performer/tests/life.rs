//! From the first pass to the last: what is made, what is said of it, in which order it goes.

use orlop_core::machine::performer::MACHINE;
use serde_json::json;

use super::{ADDRESS, TestEnv, env, place, pods, running, spec};
use crate::api::Kind;
use crate::hourglass::tests::host;
use crate::hourglass::tests::steps::table;

#[test]
fn a_performer_comes_up_serves_and_is_left_alone() {
    let mut env = running(spec("well"));
    let status = env.status("avs");
    assert_eq!((&status["ready"], &status["state"]), (&json!(true), &json!("Running")));
    assert_eq!(status["grpcEndpoint"], "performer-avs.default.svc.cluster.local:9090");
    assert_eq!(status["host"], "performer-avs.default.svc.cluster.local");
    assert_eq!((&status["podName"], &status["nodeName"]), (&json!("performer-avs"), &json!("node-1")));
    assert_eq!((&status["image"], &status["incarnation"]), (&json!("well"), &json!(1)));
    let conditions =
        ["Available", "Progressing", "Degraded", "HardwareAvailable"].map(|kind| env.condition("avs", kind));
    insta::assert_snapshot!(conditions.join(" "), @"True/PodReady False/UpToDate False/AsExpected True/NotRequired");
    insta::assert_snapshot!(env.events().join(" "), @"Created Scheduled Ready");
    env.writes_nothing_more();
}

#[test]
fn pod_service_and_revision_are_what_the_contract_says() {
    let env = running(json!({
        "avsAddress": ADDRESS,
        "image": "well",
        "config": {
            "environment": {"B": "2", "A": "1", "K": "plain"},
            "environmentFrom": [{"name": "K", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
            "args": ["--fast"],
        },
        "resources": {"requests": {"cpu": "1"}},
    }));
    let mut pod = env.server.get(Kind::Pod, "performer-avs").unwrap();
    pod.as_object_mut().unwrap().remove("status");
    insta::assert_json_snapshot!("pod", pod);
    insta::assert_json_snapshot!("service", env.server.get(Kind::Service, "performer-avs").unwrap());
    let revisions = env.server.list(Kind::Revision);
    assert_eq!(revisions.len(), 1);
    assert_eq!(revisions[0]["data"]["image"], "well");
    assert!(env.events().contains(&"DuplicateEnvironment".to_owned()));
}

#[test]
fn deletion_goes_from_the_service_over_the_pod_to_the_finalizer() {
    let mut env = running(spec("well"));
    let before = env.writes().len();
    env.server.request_deletion(Kind::Performer, "avs");
    env.rest();
    assert_eq!(place(&env), "Terminating/PodCleanup False/AsExpected");
    assert_eq!((env.status("avs")["ready"].clone(), env.server.list(Kind::Service).len()), (json!(false), 0));
    assert_eq!(pods(&env), ["performer-avs"], "connections are drained first");
    env.wait(31);
    assert!(pods(&env).is_empty() && env.server.list(Kind::Performer).is_empty());
    let order: Vec<String> = env.writes()[before..]
        .iter()
        .filter(|write| !write.contains("status") && !write.contains("events"))
        .cloned()
        .collect();
    insta::assert_snapshot!(order.join("\n"), @"
    delete services default/performer-avs
    delete pods default/performer-avs
    patch performers default/avs
    ");
}

#[test]
fn a_service_that_comes_back_while_pods_drain_goes_too() {
    let mut env = running(spec("well"));
    let service = env.server.get(Kind::Service, "performer-avs").unwrap();
    env.server.request_deletion(Kind::Performer, "avs");
    env.rest();
    assert_eq!(place(&env), "Terminating/PodCleanup False/AsExpected");
    // A request of an earlier leader that took its time.
    env.server.put(Kind::Service, service);
    env.wait(40);
    assert!(env.server.list(Kind::Service).is_empty() && pods(&env).is_empty());
    assert!(env.server.list(Kind::Performer).is_empty());
}

#[test]
fn a_performer_without_children_goes_at_once() {
    let mut env = TestEnv::new();
    env.submit("avs", json!({"avsAddress": ADDRESS, "image": 5}));
    env.rest();
    assert_eq!(place(&env), "Failed/Failed True/InvalidSpec");
    env.server.request_deletion(Kind::Performer, "avs");
    env.rest();
    assert!(env.server.list(Kind::Performer).is_empty());
}

#[test]
fn a_pod_without_number_is_adopted_as_the_first() {
    let mut first = running(spec("well"));
    // As an earlier operator left it: no number, no status.
    first.server.edit(Kind::Pod, "performer-avs", |pod| {
        pod["metadata"]["labels"] = json!({"app": "hourglass-performer"});
        pod["metadata"]["annotations"] = json!({});
    });
    first.server.edit(Kind::Performer, "avs", |performer| performer["status"] = json!({}));
    first.restart();
    first.rest();
    assert_eq!((place(&first).as_str(), pods(&first).len()), ("Running/Running False/AsExpected", 1));
    assert_eq!(first.status("avs")["active"]["incarnation"], 1);
    first.writes_nothing_more();
}

#[test]
fn a_lost_status_is_found_again_from_the_pods() {
    let mut env = running(spec("well"));
    let before = env.status("avs");
    env.server.edit(Kind::Performer, "avs", |performer| performer["status"] = json!({}));
    env.restart();
    env.rest();
    let after = env.status("avs");
    for name in ["phase", "active", "specHash", "podName", "incarnation", "grpcEndpoint"] {
        assert_eq!(after[name], before[name], "{name}");
    }
    assert_eq!(env.created().iter().filter(|name| name.starts_with("pods")).count(), 1);
}

#[test]
fn what_somebody_changes_on_the_service_is_put_right() {
    let mut env = running(spec("well"));
    env.server.edit(Kind::Service, "performer-avs", |service| {
        service["spec"]["ports"][0]["port"] = json!(1);
        service["metadata"]["labels"]["theirs"] = json!("kept");
    });
    env.rest();
    let service = env.server.get(Kind::Service, "performer-avs").unwrap();
    assert_eq!(service["spec"]["ports"][0]["port"], 9090);
    assert_eq!(service["metadata"]["labels"]["theirs"], "kept");
    env.server.remove(Kind::Service, "performer-avs");
    env.rest();
    assert!(env.server.get(Kind::Service, "performer-avs").is_some());
    assert_eq!(place(&env), "Running/Running False/AsExpected");
    env.writes_nothing_more();
}

#[test]
fn version_and_executor_are_reported_without_a_restart() {
    let mut env = running(spec("well"));
    env.change("avs", |spec| {
        spec["version"] = json!("2.0");
        spec["executorRef"] = json!("none");
    });
    env.rest();
    assert_eq!((env.status("avs")["version"].clone(), pods(&env).len()), (json!("2.0"), 1));
    assert!(env.events().contains(&"ExecutorNotFound".to_owned()));
    env.writes_nothing_more();
}

#[test]
fn long_names_have_legal_children() {
    let mut env = env();
    let name = format!("{}.x", "a".repeat(250));
    env.submit(&name, spec("well"));
    env.rest();
    assert_eq!(env.status(&name)["phase"], "Running", "{}", env.status(&name));
    let service = env.status(&name)["serviceName"].as_str().unwrap().to_owned();
    assert!(service.len() <= 63 && pods(&env) == [service]);
}

#[test]
fn a_node_that_appears_lets_a_waiting_pod_start() {
    let mut env = TestEnv::new();
    env.add(Kind::Node, host("small", json!({}), json!({})));
    env.submit("avs", super::gpu("well"));
    env.rest();
    assert_eq!(env.condition("avs", "HardwareAvailable"), "False/InsufficientAllocatable");
    assert_eq!((place(&env).as_str(), pods(&env).len()), ("Creating/HardwareValidation False/AsExpected", 1));
    env.wait(11);
    assert_eq!(place(&env), "Failed/Failed True/HardwareUnavailable");
    env.writes_nothing_more();
    env.add(Kind::Node, super::gpu_host("large", 1));
    // The scheduler looks again, at the same pod.
    env.server.edit(Kind::Pod, "performer-avs", |pod| pod["status"]["conditions"] = json!([]));
    env.rest();
    assert_eq!((place(&env).as_str(), pods(&env).len()), ("Running/Running False/AsExpected", 1));
    assert_eq!(env.condition("avs", "HardwareAvailable"), "True/NodesMatch");
    assert_eq!(env.created().iter().filter(|name| name.starts_with("pods")).count(), 1);
}

/// Somebody writes that it is at an end nobody has asked for.
fn ended(env: &TestEnv, state: &str) {
    env.server.edit(Kind::Performer, "avs", |performer| {
        performer["status"]["phase"] = json!("Terminating");
        performer["status"]["state"] = json!(state);
        performer["status"]["drainUntil"] = json!("2026-11-21T09:00:00Z");
    });
}

#[test]
fn an_end_that_nobody_has_asked_for_is_not_believed() {
    for state in ["Terminating", "ServiceCleanup", "PodCleanup", "Gone"] {
        let mut env = running(spec("well"));
        ended(&env, state);
        env.wait(301);
        assert_eq!((place(&env).as_str(), pods(&env).len()), ("Running/Running False/AsExpected", 1), "{state}");
        assert_eq!((env.failures(), env.created().len()), (Vec::new(), 4), "{state}: {:?}", env.created());
        let strange: Vec<_> = env.steps().difference(&table(&MACHINE)).copied().collect();
        assert_eq!(strange, [], "{state}");
        env.server.request_deletion(Kind::Performer, "avs");
        env.rest();
        assert_eq!(pods(&env).len(), 1, "{state}: connections are drained");
        // Nor is one that has been reached before it could be.
        ended(&env, "Gone");
        env.wait(400);
        assert!(env.server.list(Kind::Performer).is_empty() && env.failures().is_empty(), "{state}");
    }
}

#[test]
fn a_number_is_reserved_before_its_pod_is_made_and_the_service_comes_after_it() {
    let mut env = env();
    env.submit("avs", spec("well"));
    env.settle();
    let writes: Vec<String> = env.writes().into_iter().filter(|write| !write.contains(" events ")).collect();
    insta::assert_snapshot!(writes.join("\n"), @"
    patch performers default/avs
    patch performers/status default/avs
    create controllerrevisions default/performer-avs-3def4ca93d
    create pods default/performer-avs
    create services default/performer-avs
    patch performers/status default/avs
    ");
}

#[test]
fn what_changes_at_nodes_costs_no_read_where_nothing_follows_from_it() {
    let mut env = env();
    env.add(Kind::Node, super::gpu_host("gpu-1", 1));
    env.submit("plain", spec("well"));
    env.submit("avs", super::gpu("well"));
    env.rest();
    let before = env.passes;
    for number in 0..20 {
        let mut other = host("node-9", json!({"seen": number.to_string()}), json!({}));
        env.add(Kind::Node, other.clone());
        other["spec"] = json!({"taints": [{"key": "k", "effect": "NoSchedule"}]});
        env.add(Kind::Node, other);
        env.settle();
    }
    assert_eq!(env.passes, before, "nothing is read");
    // The only node with a device goes: that matters to one of both.
    env.remove(Kind::Node, "gpu-1");
    env.settle();
    assert!(env.passes > before);
    assert_eq!(env.condition("avs", "HardwareAvailable"), "False/InsufficientAllocatable");
}
