//! Pods that do not start, nodes that are lost, names that are taken, servers that refuse.

use serde_json::{Value, json};

use super::{Bed, another, bed, place, pods, running, selected, serves, spec};
use crate::api::{ApiError, Kind};
use crate::hourglass::tests::{host, quota};
use crate::shell::fake::{Fault, refused};

fn failing(habit: &'static str) -> Bed {
    let mut bed = bed();
    bed.images.insert("bad".into(), habit);
    bed.submit("avs", spec("bad"));
    bed.rest();
    bed
}

#[test]
fn a_pod_that_does_not_start_is_kept_and_said_why() {
    for (habit, reason) in [
        ("ImagePullBackOff", "ImagePullFailed"),
        ("InvalidImageName", "ImagePullFailed"),
        ("CreateContainerConfigError", "ContainerConfigError"),
        ("RunContainerError", "ContainerStartFailed"),
        ("CrashLoopBackOff", "ContainerStartFailed"),
    ] {
        let mut bed = failing(habit);
        assert_eq!(place(&bed), format!("Failed/Failed True/{reason}"), "{habit}");
        bed.writes_nothing_more();
        assert_eq!(pods(&bed), ["performer-avs"]);
        // It goes on where it was once the cause is gone.
        bed.server.edit(Kind::Pod, "performer-avs", |pod| {
            pod["status"]["containerStatuses"] =
                json!([{"name": "performer", "state": {"running": {}}, "imageID": "sha256:1"}]);
            pod["status"]["conditions"] =
                json!([{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-21T10:05:00Z"}]);
        });
        bed.rest();
        assert_eq!(place(&bed), "Running/Running False/AsExpected", "{habit}");
    }
}

#[test]
fn a_container_that_never_becomes_ready_runs_into_its_deadline() {
    let mut bed = failing("never");
    assert_eq!(place(&bed), "Creating/ServiceCreation False/AsExpected");
    bed.wait(601);
    assert_eq!(place(&bed), "Failed/Failed True/ReadinessTimeout");
    bed.writes_nothing_more();
}

#[test]
fn hardware_without_room_is_said_after_five_minutes() {
    let mut bed = Bed::new();
    bed.show(Kind::Node, host("node-1", json!({}), json!({"cpu": "1"})));
    bed.submit("one", json!({"avsAddress": super::ADDRESS, "image": "i", "resources": {"requests": {"cpu": "1"}}}));
    bed.rest();
    bed.submit("avs", json!({"avsAddress": super::ADDRESS, "image": "i", "resources": {"requests": {"cpu": "1"}}}));
    bed.rest();
    assert_eq!(place(&bed), "Creating/NodeSelection False/AsExpected");
    bed.wait(301);
    assert_eq!(place(&bed), "Failed/Failed True/SchedulingFailed");
}

#[test]
fn a_pod_that_ends_is_replaced_later_each_time() {
    let mut bed = running(spec("well"));
    let mut waits = Vec::new();
    for number in 1..=6_u32 {
        let name = pods(&bed).pop().unwrap();
        bed.server.edit(Kind::Pod, &name, |pod| pod["status"]["phase"] = json!("Failed"));
        bed.rest();
        assert_eq!(place(&bed), "Failed/Failed True/PodFailed");
        bed.restart();
        let mut waited = 0;
        while bed.status("avs")["incarnation"] != number + 1 {
            bed.wait(1);
            waited += 1;
        }
        waits.push(waited);
        bed.wait(1);
        assert!(serves(&bed));
    }
    assert_eq!(waits, [10, 20, 40, 80, 160, 300]);
    bed.wait(601);
    assert_eq!(bed.status("avs")["retry"], Value::Null, "failures are forgotten");
}

#[test]
fn a_deleted_pod_is_replaced_at_once() {
    let mut bed = running(spec("well"));
    bed.server.request_deletion(Kind::Pod, "performer-avs");
    bed.rest();
    assert_eq!((place(&bed).as_str(), serves(&bed)), ("Running/Running False/AsExpected", true));
    assert_eq!(bed.status("avs")["active"]["incarnation"], 2);
    assert!(bed.events().contains(&"PodDeleted".to_owned()));
}

#[test]
fn a_lost_node_does_not_hold_up_the_next_pod() {
    let mut bed = running(spec("well"));
    bed.show(Kind::Node, host("node-2", json!({}), json!({})));
    let mut lost = host("node-1", json!({}), json!({}));
    lost["status"]["conditions"][0] = json!({"type": "Ready", "status": "Unknown", "lastTransitionTime": bed.server.get(Kind::Performer, "avs").unwrap()["metadata"]["creationTimestamp"]});
    bed.show(Kind::Node, lost);
    bed.wait(119);
    assert_eq!(pods(&bed).len(), 1);
    bed.wait(3);
    assert_eq!(bed.status("avs")["nodeName"], "node-2", "{}", bed.status("avs"));
    assert!(serves(&bed) && bed.events().contains(&"NodeLost".to_owned()));
    // The old pod is told to go and stays until its node answers; nothing waits for it.
    assert_eq!(pods(&bed).len(), 2);
    bed.writes_nothing_more();
    bed.server.request_deletion(Kind::Performer, "avs");
    bed.wait(100);
    assert!(bed.server.list(Kind::Performer).is_empty());
}

#[test]
fn what_belongs_to_others_is_never_touched() {
    for kind in [Kind::Pod, Kind::Service] {
        let mut bed = bed();
        let theirs = bed.server.put(
            kind,
            json!({"metadata": {"name": "performer-avs"}, "spec": {"mine": true}, "status": {"phase": "Succeeded"}}),
        );
        bed.submit("avs", spec("well"));
        bed.rest();
        assert_eq!(place(&bed), "Failed/Failed True/Conflict", "{kind:?}");
        bed.writes_nothing_more();
        assert_eq!(bed.server.get(kind, "performer-avs"), Some(theirs));
        assert!(bed.events().contains(&"Conflict".to_owned()));
        bed.server.remove(kind, "performer-avs");
        bed.wait(61);
        assert_eq!(place(&bed), "Running/Running False/AsExpected", "{kind:?}");
    }
}

#[test]
fn a_name_that_is_being_freed_is_skipped() {
    let mut bed = bed();
    bed.server.put(Kind::Pod, json!({"metadata": {"name": "performer-avs", "deletionTimestamp": "2027-01-01T00:00:00Z", "finalizers": ["x"]}, "spec": {}}));
    bed.submit("avs", spec("well"));
    bed.settle();
    assert_eq!(bed.status("avs")["candidate"]["incarnation"], 2);
}

/// As a limit of the namespace, a policy or a webhook refuses a pod.
fn by_admission(code: u16, message: &str) -> ApiError {
    ApiError::from_status(code, &json!({"reason": "Forbidden", "message": message}))
}

#[test]
fn refusals_are_said_and_tried_again_less_and_less_often_without_end() {
    let limit = "pods \"performer-avs\" is forbidden: maximum memory usage per Container is 1Gi, but limit is 2Gi";
    let policy =
        "pods \"performer-avs\" is forbidden: ValidatingAdmissionPolicy 'owner' denied request: label team is missing";
    for (error, reason, message) in [
        (quota(), "QuotaExceeded", "does not fit the quota of the namespace"),
        (
            refused(403, "Forbidden"),
            "Forbidden",
            "the operator may not create pods: Pod `performer-avs`; check its role",
        ),
        (by_admission(403, limit), "AdmissionRefused", limit),
        (by_admission(422, policy), "AdmissionRefused", policy),
    ] {
        let mut bed = Bed::with_faults(vec![Fault::Refuse("create", Kind::Pod, u32::MAX, error)]);
        bed.show(Kind::Node, host("node-1", json!({}), json!({})));
        bed.submit("avs", spec("well"));
        bed.wait(2000);
        assert_eq!(place(&bed), format!("Failed/Failed True/{reason}"));
        let degraded = crate::value::item(&bed.status("avs"), "/conditions", "type", "Degraded").unwrap().clone();
        assert!(degraded["message"].as_str().unwrap().contains(message), "{degraded}");
        // Rights and policies change without a sign, so they are tried each minute.
        let tries = if reason == "QuotaExceeded" { 10..=18 } else { 32..=48 };
        assert!(tries.contains(&bed.failures().len()), "{reason}: {} tries", bed.failures().len());
        assert_eq!(bed.told(reason), 1, "it is told once");
        bed.server.store().faults.clear();
        bed.wait(301);
        assert_eq!(place(&bed), "Running/Running False/AsExpected", "{reason}");
        bed.writes_nothing_more();
    }
}

#[test]
fn another_spec_is_tried_at_once_after_a_refusal() {
    for error in [refused(422, "Invalid"), refused(403, "Forbidden"), by_admission(403, "no"), quota()] {
        let mut bed = Bed::with_faults(vec![Fault::Refuse("create", Kind::Pod, u32::MAX, error)]);
        bed.show(Kind::Node, host("node-1", json!({}), json!({})));
        bed.submit("avs", spec("well"));
        bed.wait(1000);
        bed.server.store().faults.clear();
        bed.change("avs", |spec| spec["image"] = json!("other"));
        bed.wait(10);
        assert_eq!(place(&bed), "Running/Running False/AsExpected");
    }
}

#[test]
fn what_is_evicted_or_shut_down_with_its_node_is_replaced_at_once_the_first_time() {
    let target = json!([{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]);
    for (status, reason) in [
        (json!({"phase": "Failed", "conditions": target}), "Evicted"),
        (
            json!({"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}),
            "Evicted",
        ),
        (json!({"phase": "Failed", "reason": "Terminated"}), "Evicted"),
        (json!({"phase": "Failed", "reason": "NodeShutdown"}), "Evicted"),
        (json!({"phase": "Failed", "reason": "UnexpectedAdmissionError"}), "PodFailed"),
    ] {
        let mut bed = running(spec("well"));
        bed.server.edit(Kind::Pod, "performer-avs", |pod| {
            for (name, value) in status.as_object().unwrap() {
                pod["status"][name] = value.clone();
            }
        });
        bed.wait(2);
        assert!(bed.events().contains(&reason.to_owned()), "{status}");
        assert_eq!(serves(&bed), reason == "Evicted", "{status}");
        bed.wait(20);
        assert!(serves(&bed), "{status}");
    }
}

#[test]
fn a_server_that_fails_is_left_in_peace_and_then_said_so() {
    let error = refused(500, "InternalError");
    let mut bed = Bed::with_faults(vec![Fault::Refuse("create", Kind::Pod, u32::MAX, error)]);
    bed.show(Kind::Node, host("node-1", json!({}), json!({})));
    bed.submit("avs", spec("well"));
    bed.wait(1200);
    assert_eq!(place(&bed), "Failed/Failed True/RetriesExhausted");
    bed.server.store().faults.clear();
    bed.wait(700);
    assert_eq!(place(&bed), "Running/Running False/AsExpected");
}

#[test]
fn a_pod_that_fails_right_after_the_switch_gives_the_service_back_to_the_one_that_drains() {
    let mut bed = running(spec("well"));
    bed.change("avs", |spec| spec["image"] = json!("other"));
    bed.wait(5);
    assert_eq!((super::selected(&bed).as_str(), pods(&bed).len()), ("2", 2), "the first drains");
    let last = pods(&bed).pop().unwrap();
    bed.server.edit(Kind::Pod, &last, |pod| pod["status"]["phase"] = json!("Failed"));
    bed.settle();
    assert_eq!((super::selected(&bed).as_str(), serves(&bed)), ("1", true), "{}", bed.status("avs"));
    bed.wait(120);
    assert_eq!((super::selected(&bed).as_str(), place(&bed).as_str()), ("3", "Running/Running False/AsExpected"));
    let left: Vec<Value> = bed.server.list(Kind::Revision);
    assert_eq!(left.len(), 1, "only what serves is kept in the end: {left:?}");
}

#[test]
fn a_pod_that_fails_beside_a_candidate_gives_the_service_back_to_the_one_that_drains() {
    let mut bed = running(spec("well"));
    bed.change("avs", |spec| spec["config"] = json!({"grpcPort": 9002}));
    bed.wait(5);
    assert_eq!((super::selected(&bed).as_str(), pods(&bed).len()), ("2", 2), "the first drains");
    bed.images.insert("well".into(), "never");
    bed.change("avs", |spec| spec["config"] = json!({"grpcPort": 9003}));
    bed.settle();
    let second = bed.status("avs")["active"]["podName"].as_str().unwrap().to_owned();
    bed.server.edit(Kind::Pod, &second, |pod| pod["status"]["phase"] = json!("Failed"));
    bed.settle();
    assert_eq!((super::selected(&bed).as_str(), serves(&bed)), ("1", true), "{}", bed.status("avs"));
    bed.wait(200);
    assert_eq!((super::selected(&bed).as_str(), serves(&bed)), ("1", true), "as long as the candidate is not ready");
    bed.images.insert("well".into(), "well");
    bed.wait(100);
    let status = bed.status("avs");
    assert_eq!((super::selected(&bed), pods(&bed).len()), (status["active"]["incarnation"].to_string(), 1), "{status}");
    assert_eq!(place(&bed), "Running/Running False/AsExpected");
    bed.writes_nothing_more();
}

#[test]
fn a_pod_that_stops_being_ready_after_the_switch_is_stood_in_for_by_the_one_that_drains() {
    let mut bed = running(spec("well"));
    bed.change("avs", |spec| spec["image"] = json!("other"));
    bed.wait(5);
    assert_eq!((super::selected(&bed).as_str(), pods(&bed).len()), ("2", 2), "the first drains");
    bed.images.insert("other".into(), "never");
    let last = pods(&bed).pop().unwrap();
    bed.server
        .edit(Kind::Pod, &last, |pod| pod["status"]["conditions"] = json!([{"type": "Ready", "status": "False"}]));
    bed.settle();
    assert_eq!((super::selected(&bed).as_str(), serves(&bed)), ("1", true), "{}", bed.status("avs"));
    assert_eq!(bed.condition("avs", "Available"), "False/NotReady", "the pod of the wanted spec is not");
    bed.wait(100);
    assert_eq!((super::selected(&bed).as_str(), pods(&bed).len()), ("1", 2), "as long as nothing else is ready");
    bed.images.insert("other".into(), "well");
    bed.rest();
    assert_eq!((super::selected(&bed).as_str(), serves(&bed)), ("2", true));
    bed.wait(60);
    assert_eq!((place(&bed).as_str(), pods(&bed).len()), ("Running/Running False/AsExpected", 1));
    bed.writes_nothing_more();
}

#[test]
fn a_candidate_that_cannot_be_made_does_not_keep_the_service_from_what_serves() {
    let mut bed = running(spec("well"));
    bed.refuse("create", Kind::Revision, 3, refused(500, "InternalError"));
    bed.change("avs", |spec| spec["image"] = json!("other"));
    bed.settle();
    bed.server
        .edit(Kind::Service, "performer-avs", |service| service["spec"]["selector"][super::INCARNATION] = json!("2"));
    bed.settle();
    assert_eq!((super::selected(&bed).as_str(), serves(&bed)), ("1", true));
    bed.server.remove(Kind::Service, "performer-avs");
    bed.settle();
    assert_eq!(
        (super::selected(&bed).as_str(), serves(&bed)),
        ("1", true),
        "it is made for what serves, not for what comes"
    );
    bed.wait(100);
    assert_eq!((place(&bed).as_str(), super::selected(&bed).as_str()), ("Running/Running False/AsExpected", "2"));
}

#[test]
fn a_former_pod_goes_in_its_time_also_where_the_next_one_is_refused() {
    let mut bed = running(spec("well"));
    another(&bed, "second", json!({"minReadySeconds": 0, "drainSeconds": 100}));
    bed.rest();
    assert_eq!((selected(&bed).as_str(), pods(&bed).len()), ("2", 2));
    bed.refuse("create", Kind::Pod, u32::MAX, refused(422, "Invalid"));
    another(&bed, "third", json!({"minReadySeconds": 0, "drainSeconds": 100}));
    bed.settle();
    assert_eq!((place(&bed).as_str(), pods(&bed).len()), ("Upgrading/PodRecreation True/AdmissionRefused", 2));
    bed.wait(110);
    assert_eq!((selected(&bed).as_str(), serves(&bed), pods(&bed).len()), ("2", true, 1));
    assert!(bed.failures().len() <= 8, "{:?}", bed.failures());
}
