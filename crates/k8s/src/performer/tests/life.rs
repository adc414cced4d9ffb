//! From the first pass to the last: what is made, what is said of it, in which order it goes.

use orlop_core::machine::performer::MACHINE;
use serde_json::json;

use super::{ADDRESS, Bed, bed, place, pods, running, spec};
use crate::api::Kind;
use crate::hourglass::tests::host;
use crate::hourglass::tests::steps::table;

#[test]
fn a_performer_comes_up_serves_and_is_left_alone() {
    let mut bed = running(spec("well"));
    let status = bed.status("avs");
    assert_eq!((&status["ready"], &status["state"]), (&json!(true), &json!("Running")));
    assert_eq!(status["grpcEndpoint"], "performer-avs.default.svc.cluster.local:9090");
    assert_eq!(status["host"], "performer-avs.default.svc.cluster.local");
    assert_eq!((&status["podName"], &status["nodeName"]), (&json!("performer-avs"), &json!("node-1")));
    assert_eq!((&status["image"], &status["incarnation"]), (&json!("well"), &json!(1)));
    let conditions =
        ["Available", "Progressing", "Degraded", "HardwareAvailable"].map(|kind| bed.condition("avs", kind));
    insta::assert_snapshot!(conditions.join(" "), @"True/PodReady False/UpToDate False/AsExpected True/NotRequired");
    insta::assert_snapshot!(bed.events().join(" "), @"Created Scheduled Ready");
    bed.writes_nothing_more();
}

#[test]
fn pod_service_and_revision_are_what_the_contract_says() {
    let bed = running(json!({
        "avsAddress": ADDRESS,
        "image": "well",
        "config": {
            "environment": {"B": "2", "A": "1", "K": "plain"},
            "environmentFrom": [{"name": "K", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
            "args": ["--fast"],
        },
        "resources": {"requests": {"cpu": "1"}},
    }));
    let mut pod = bed.server.get(Kind::Pod, "performer-avs").unwrap();
    pod.as_object_mut().unwrap().remove("status");
    insta::assert_json_snapshot!("pod", pod);
    insta::assert_json_snapshot!("service", bed.server.get(Kind::Service, "performer-avs").unwrap());
    let revisions = bed.server.list(Kind::Revision);
    assert_eq!(revisions.len(), 1);
    assert_eq!(revisions[0]["data"]["image"], "well");
    assert!(bed.events().contains(&"DuplicateEnvironment".to_owned()));
}

#[test]
fn deletion_goes_from_the_service_over_the_pod_to_the_finalizer() {
    let mut bed = running(spec("well"));
    let before = bed.writes().len();
    bed.server.request_deletion(Kind::Performer, "avs");
    bed.rest();
    assert_eq!(place(&bed), "Terminating/PodCleanup False/AsExpected");
    assert_eq!((bed.status("avs")["ready"].clone(), bed.server.list(Kind::Service).len()), (json!(false), 0));
    assert_eq!(pods(&bed), ["performer-avs"], "connections are drained first");
    bed.wait(31);
    assert!(pods(&bed).is_empty() && bed.server.list(Kind::Performer).is_empty());
    let order: Vec<String> = bed.writes()[before..]
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
    let mut bed = running(spec("well"));
    let service = bed.server.get(Kind::Service, "performer-avs").unwrap();
    bed.server.request_deletion(Kind::Performer, "avs");
    bed.rest();
    assert_eq!(place(&bed), "Terminating/PodCleanup False/AsExpected");
    // A request of an earlier leader that took its time.
    bed.server.put(Kind::Service, service);
    bed.wait(40);
    assert!(bed.server.list(Kind::Service).is_empty() && pods(&bed).is_empty());
    assert!(bed.server.list(Kind::Performer).is_empty());
}

#[test]
fn a_performer_without_children_goes_at_once() {
    let mut bed = Bed::new();
    bed.submit("avs", json!({"avsAddress": ADDRESS, "image": 5}));
    bed.rest();
    assert_eq!(place(&bed), "Failed/Failed True/InvalidSpec");
    bed.server.request_deletion(Kind::Performer, "avs");
    bed.rest();
    assert!(bed.server.list(Kind::Performer).is_empty());
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
    let mut bed = running(spec("well"));
    let before = bed.status("avs");
    bed.server.edit(Kind::Performer, "avs", |performer| performer["status"] = json!({}));
    bed.restart();
    bed.rest();
    let after = bed.status("avs");
    for name in ["phase", "active", "specHash", "podName", "incarnation", "grpcEndpoint"] {
        assert_eq!(after[name], before[name], "{name}");
    }
    assert_eq!(bed.created().iter().filter(|name| name.starts_with("pods")).count(), 1);
}

#[test]
fn what_somebody_changes_on_the_service_is_put_right() {
    let mut bed = running(spec("well"));
    bed.server.edit(Kind::Service, "performer-avs", |service| {
        service["spec"]["ports"][0]["port"] = json!(1);
        service["metadata"]["labels"]["theirs"] = json!("kept");
    });
    bed.rest();
    let service = bed.server.get(Kind::Service, "performer-avs").unwrap();
    assert_eq!(service["spec"]["ports"][0]["port"], 9090);
    assert_eq!(service["metadata"]["labels"]["theirs"], "kept");
    bed.server.remove(Kind::Service, "performer-avs");
    bed.rest();
    assert!(bed.server.get(Kind::Service, "performer-avs").is_some());
    assert_eq!(place(&bed), "Running/Running False/AsExpected");
    bed.writes_nothing_more();
}

#[test]
fn version_and_executor_are_told_without_a_restart() {
    let mut bed = running(spec("well"));
    bed.change("avs", |spec| {
        spec["version"] = json!("2.0");
        spec["executorRef"] = json!("none");
    });
    bed.rest();
    assert_eq!((bed.status("avs")["version"].clone(), pods(&bed).len()), (json!("2.0"), 1));
    assert!(bed.events().contains(&"ExecutorNotFound".to_owned()));
    bed.writes_nothing_more();
}

#[test]
fn long_names_have_legal_children() {
    let mut bed = bed();
    let name = format!("{}.x", "a".repeat(250));
    bed.submit(&name, spec("well"));
    bed.rest();
    assert_eq!(bed.status(&name)["phase"], "Running", "{}", bed.status(&name));
    let service = bed.status(&name)["serviceName"].as_str().unwrap().to_owned();
    assert!(service.len() <= 63 && pods(&bed) == [service]);
}

#[test]
fn a_node_that_appears_lets_a_waiting_pod_start() {
    let mut bed = Bed::new();
    bed.show(Kind::Node, host("small", json!({}), json!({})));
    bed.submit("avs", super::gpu("well"));
    bed.rest();
    assert_eq!(bed.condition("avs", "HardwareAvailable"), "False/InsufficientAllocatable");
    assert_eq!((place(&bed).as_str(), pods(&bed).len()), ("Creating/HardwareValidation False/AsExpected", 1));
    bed.wait(11);
    assert_eq!(place(&bed), "Failed/Failed True/HardwareUnavailable");
    bed.writes_nothing_more();
    bed.show(Kind::Node, super::gpu_host("large", 1));
    // The scheduler looks again, at the same pod.
    bed.server.edit(Kind::Pod, "performer-avs", |pod| pod["status"]["conditions"] = json!([]));
    bed.rest();
    assert_eq!((place(&bed).as_str(), pods(&bed).len()), ("Running/Running False/AsExpected", 1));
    assert_eq!(bed.condition("avs", "HardwareAvailable"), "True/NodesMatch");
    assert_eq!(bed.created().iter().filter(|name| name.starts_with("pods")).count(), 1);
}

/// Somebody writes that it is at an end nobody has asked for.
fn ended(bed: &Bed, state: &str) {
    bed.server.edit(Kind::Performer, "avs", |performer| {
        performer["status"]["phase"] = json!("Terminating");
        performer["status"]["state"] = json!(state);
        performer["status"]["drainUntil"] = json!("2026-11-21T09:00:00Z");
    });
}

#[test]
fn an_end_that_nobody_has_asked_for_is_not_believed() {
    for state in ["Terminating", "ServiceCleanup", "PodCleanup", "Gone"] {
        let mut bed = running(spec("well"));
        ended(&bed, state);
        bed.wait(301);
        assert_eq!((place(&bed).as_str(), pods(&bed).len()), ("Running/Running False/AsExpected", 1), "{state}");
        assert_eq!((bed.failures(), bed.created().len()), (Vec::new(), 4), "{state}: {:?}", bed.created());
        let strange: Vec<_> = bed.steps().difference(&table(&MACHINE)).copied().collect();
        assert_eq!(strange, [], "{state}");
        bed.server.request_deletion(Kind::Performer, "avs");
        bed.rest();
        assert_eq!(pods(&bed).len(), 1, "{state}: connections are drained");
        // Nor is one that has been reached before it could be.
        ended(&bed, "Gone");
        bed.wait(400);
        assert!(bed.server.list(Kind::Performer).is_empty() && bed.failures().is_empty(), "{state}");
    }
}

#[test]
fn a_number_is_reserved_before_its_pod_is_made_and_the_service_comes_after_it() {
    let mut bed = bed();
    bed.submit("avs", spec("well"));
    bed.settle();
    let writes: Vec<String> = bed.writes().into_iter().filter(|write| !write.contains(" events ")).collect();
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
    let mut bed = bed();
    bed.show(Kind::Node, super::gpu_host("gpu-1", 1));
    bed.submit("plain", spec("well"));
    bed.submit("avs", super::gpu("well"));
    bed.rest();
    let before = bed.passes;
    for number in 0..20 {
        let mut other = host("node-9", json!({"seen": number.to_string()}), json!({}));
        bed.show(Kind::Node, other.clone());
        other["spec"] = json!({"taints": [{"key": "k", "effect": "NoSchedule"}]});
        bed.show(Kind::Node, other);
        bed.settle();
    }
    assert_eq!(bed.passes, before, "nothing is read");
    // The only node with a device goes: that matters to one of both.
    bed.hide(Kind::Node, "gpu-1");
    bed.settle();
    assert!(bed.passes > before);
    assert_eq!(bed.condition("avs", "HardwareAvailable"), "False/InsufficientAllocatable");
}
