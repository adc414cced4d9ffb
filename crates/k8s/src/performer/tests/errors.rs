//! Pods that do not start, nodes that are lost, names that are taken, servers that refuse.

use serde_json::{Value, json};

use super::{TestEnv, another, env, place, pods, running, selected, serves, spec};
use crate::api::{ApiError, Kind};
use crate::hourglass::tests::{host, quota};
use crate::shell::fake::{Fault, refused};

fn failing(habit: &'static str) -> TestEnv {
    let mut env = env();
    env.images.insert("bad".into(), habit);
    env.submit("avs", spec("bad"));
    env.rest();
    env
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
        let mut env = failing(habit);
        assert_eq!(place(&env), format!("Failed/Failed True/{reason}"), "{habit}");
        env.writes_nothing_more();
        assert_eq!(pods(&env), ["performer-avs"]);
        // It goes on where it was once the cause is gone.
        env.server.edit(Kind::Pod, "performer-avs", |pod| {
            pod["status"]["containerStatuses"] =
                json!([{"name": "performer", "state": {"running": {}}, "imageID": "sha256:1"}]);
            pod["status"]["conditions"] =
                json!([{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-21T10:05:00Z"}]);
        });
        env.rest();
        assert_eq!(place(&env), "Running/Running False/AsExpected", "{habit}");
    }
}

#[test]
fn a_container_that_never_becomes_ready_runs_into_its_deadline() {
    let mut env = failing("never");
    assert_eq!(place(&env), "Creating/ServiceCreation False/AsExpected");
    env.wait(601);
    assert_eq!(place(&env), "Failed/Failed True/ReadinessTimeout");
    env.writes_nothing_more();
}

#[test]
fn hardware_without_room_is_said_after_five_minutes() {
    let mut env = TestEnv::new();
    env.add(Kind::Node, host("node-1", json!({}), json!({"cpu": "1"})));
    env.submit("one", json!({"avsAddress": super::ADDRESS, "image": "i", "resources": {"requests": {"cpu": "1"}}}));
    env.rest();
    env.submit("avs", json!({"avsAddress": super::ADDRESS, "image": "i", "resources": {"requests": {"cpu": "1"}}}));
    env.rest();
    assert_eq!(place(&env), "Creating/NodeSelection False/AsExpected");
    env.wait(301);
    assert_eq!(place(&env), "Failed/Failed True/SchedulingFailed");
}

#[test]
fn a_pod_that_ends_is_replaced_later_each_time() {
    let mut env = running(spec("well"));
    let mut waits = Vec::new();
    for number in 1..=6_u32 {
        let name = pods(&env).pop().unwrap();
        env.server.edit(Kind::Pod, &name, |pod| pod["status"]["phase"] = json!("Failed"));
        env.rest();
        assert_eq!(place(&env), "Failed/Failed True/PodFailed");
        env.restart();
        let mut waited = 0;
        while env.status("avs")["incarnation"] != number + 1 {
            env.wait(1);
            waited += 1;
        }
        waits.push(waited);
        env.wait(1);
        assert!(serves(&env));
    }
    assert_eq!(waits, [10, 20, 40, 80, 160, 300]);
    env.wait(601);
    assert_eq!(env.status("avs")["retry"], Value::Null, "failures are forgotten");
}

#[test]
fn a_deleted_pod_is_replaced_at_once() {
    let mut env = running(spec("well"));
    env.server.request_deletion(Kind::Pod, "performer-avs");
    env.rest();
    assert_eq!((place(&env).as_str(), serves(&env)), ("Running/Running False/AsExpected", true));
    assert_eq!(env.status("avs")["active"]["incarnation"], 2);
    assert!(env.events().contains(&"PodDeleted".to_owned()));
}

#[test]
fn a_lost_node_does_not_hold_up_the_next_pod() {
    let mut env = running(spec("well"));
    env.add(Kind::Node, host("node-2", json!({}), json!({})));
    let mut lost = host("node-1", json!({}), json!({}));
    lost["status"]["conditions"][0] = json!({"type": "Ready", "status": "Unknown", "lastTransitionTime": env.server.get(Kind::Performer, "avs").unwrap()["metadata"]["creationTimestamp"]});
    env.add(Kind::Node, lost);
    env.wait(119);
    assert_eq!(pods(&env).len(), 1);
    env.wait(3);
    assert_eq!(env.status("avs")["nodeName"], "node-2", "{}", env.status("avs"));
    assert!(serves(&env) && env.events().contains(&"NodeLost".to_owned()));
    // The old pod is told to go and stays until its node answers; nothing waits for it.
    assert_eq!(pods(&env).len(), 2);
    env.writes_nothing_more();
    env.server.request_deletion(Kind::Performer, "avs");
    env.wait(100);
    assert!(env.server.list(Kind::Performer).is_empty());
}

#[test]
fn what_belongs_to_others_is_never_touched() {
    for kind in [Kind::Pod, Kind::Service] {
        let mut env = env();
        let theirs = env.server.put(
            kind,
            json!({"metadata": {"name": "performer-avs"}, "spec": {"mine": true}, "status": {"phase": "Succeeded"}}),
        );
        env.submit("avs", spec("well"));
        env.rest();
        assert_eq!(place(&env), "Failed/Failed True/Conflict", "{kind:?}");
        env.writes_nothing_more();
        assert_eq!(env.server.get(kind, "performer-avs"), Some(theirs));
        assert!(env.events().contains(&"Conflict".to_owned()));
        env.server.remove(kind, "performer-avs");
        env.wait(61);
        assert_eq!(place(&env), "Running/Running False/AsExpected", "{kind:?}");
    }
}

#[test]
fn a_name_that_is_being_freed_is_skipped() {
    let mut env = env();
    env.server.put(Kind::Pod, json!({"metadata": {"name": "performer-avs", "deletionTimestamp": "2027-01-01T00:00:00Z", "finalizers": ["x"]}, "spec": {}}));
    env.submit("avs", spec("well"));
    env.settle();
    assert_eq!(env.status("avs")["candidate"]["incarnation"], 2);
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
        let mut env = TestEnv::with_faults(vec![Fault::Refuse("create", Kind::Pod, u32::MAX, error)]);
        env.add(Kind::Node, host("node-1", json!({}), json!({})));
        env.submit("avs", spec("well"));
        env.wait(2000);
        assert_eq!(place(&env), format!("Failed/Failed True/{reason}"));
        let degraded = crate::value::item(&env.status("avs"), "/conditions", "type", "Degraded").unwrap().clone();
        assert!(degraded["message"].as_str().unwrap().contains(message), "{degraded}");
        // Rights and policies change without a sign, so they are tried each minute.
        let tries = if reason == "QuotaExceeded" { 10..=18 } else { 32..=48 };
        assert!(tries.contains(&env.failures().len()), "{reason}: {} tries", env.failures().len());
        assert_eq!(env.event_count(reason), 1, "it is told once");
        env.server.store().faults.clear();
        env.wait(301);
        assert_eq!(place(&env), "Running/Running False/AsExpected", "{reason}");
        env.writes_nothing_more();
    }
}

#[test]
fn another_spec_is_tried_at_once_after_a_refusal() {
    for error in [refused(422, "Invalid"), refused(403, "Forbidden"), by_admission(403, "no"), quota()] {
        let mut env = TestEnv::with_faults(vec![Fault::Refuse("create", Kind::Pod, u32::MAX, error)]);
        env.add(Kind::Node, host("node-1", json!({}), json!({})));
        env.submit("avs", spec("well"));
        env.wait(1000);
        env.server.store().faults.clear();
        env.change("avs", |spec| spec["image"] = json!("other"));
        env.wait(10);
        assert_eq!(place(&env), "Running/Running False/AsExpected");
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
        let mut env = running(spec("well"));
        env.server.edit(Kind::Pod, "performer-avs", |pod| {
            for (name, value) in status.as_object().unwrap() {
                pod["status"][name] = value.clone();
            }
        });
        env.wait(2);
        assert!(env.events().contains(&reason.to_owned()), "{status}");
        assert_eq!(serves(&env), reason == "Evicted", "{status}");
        env.wait(20);
        assert!(serves(&env), "{status}");
    }
}

#[test]
fn a_server_that_fails_is_left_in_peace_and_then_said_so() {
    let error = refused(500, "InternalError");
    let mut env = TestEnv::with_faults(vec![Fault::Refuse("create", Kind::Pod, u32::MAX, error)]);
    env.add(Kind::Node, host("node-1", json!({}), json!({})));
    env.submit("avs", spec("well"));
    env.wait(1200);
    assert_eq!(place(&env), "Failed/Failed True/RetriesExhausted");
    env.server.store().faults.clear();
    env.wait(700);
    assert_eq!(place(&env), "Running/Running False/AsExpected");
}

#[test]
fn a_pod_that_fails_right_after_the_switch_gives_the_service_back_to_the_one_that_drains() {
    let mut env = running(spec("well"));
    env.change("avs", |spec| spec["image"] = json!("other"));
    env.wait(5);
    assert_eq!((super::selected(&env).as_str(), pods(&env).len()), ("2", 2), "the first drains");
    let last = pods(&env).pop().unwrap();
    env.server.edit(Kind::Pod, &last, |pod| pod["status"]["phase"] = json!("Failed"));
    env.settle();
    assert_eq!((super::selected(&env).as_str(), serves(&env)), ("1", true), "{}", env.status("avs"));
    env.wait(120);
    assert_eq!((super::selected(&env).as_str(), place(&env).as_str()), ("3", "Running/Running False/AsExpected"));
    let left: Vec<Value> = env.server.list(Kind::Revision);
    assert_eq!(left.len(), 1, "only what serves is kept in the end: {left:?}");
}

#[test]
fn a_pod_that_fails_beside_a_candidate_gives_the_service_back_to_the_one_that_drains() {
    let mut env = running(spec("well"));
    env.change("avs", |spec| spec["config"] = json!({"grpcPort": 9002}));
    env.wait(5);
    assert_eq!((super::selected(&env).as_str(), pods(&env).len()), ("2", 2), "the first drains");
    env.images.insert("well".into(), "never");
    env.change("avs", |spec| spec["config"] = json!({"grpcPort": 9003}));
    env.settle();
    let second = env.status("avs")["active"]["podName"].as_str().unwrap().to_owned();
    env.server.edit(Kind::Pod, &second, |pod| pod["status"]["phase"] = json!("Failed"));
    env.settle();
    assert_eq!((super::selected(&env).as_str(), serves(&env)), ("1", true), "{}", env.status("avs"));
    env.wait(200);
    assert_eq!((super::selected(&env).as_str(), serves(&env)), ("1", true), "as long as the candidate is not ready");
    env.images.insert("well".into(), "well");
    env.wait(100);
    let status = env.status("avs");
    assert_eq!((super::selected(&env), pods(&env).len()), (status["active"]["incarnation"].to_string(), 1), "{status}");
    assert_eq!(place(&env), "Running/Running False/AsExpected");
    env.writes_nothing_more();
}

#[test]
fn a_pod_that_stops_being_ready_after_the_switch_is_stood_in_for_by_the_one_that_drains() {
    let mut env = running(spec("well"));
    env.change("avs", |spec| spec["image"] = json!("other"));
    env.wait(5);
    assert_eq!((super::selected(&env).as_str(), pods(&env).len()), ("2", 2), "the first drains");
    env.images.insert("other".into(), "never");
    let last = pods(&env).pop().unwrap();
    env.server
        .edit(Kind::Pod, &last, |pod| pod["status"]["conditions"] = json!([{"type": "Ready", "status": "False"}]));
    env.settle();
    assert_eq!((super::selected(&env).as_str(), serves(&env)), ("1", true), "{}", env.status("avs"));
    assert_eq!(env.condition("avs", "Available"), "False/NotReady", "the pod of the wanted spec is not");
    env.wait(100);
    assert_eq!((super::selected(&env).as_str(), pods(&env).len()), ("1", 2), "as long as nothing else is ready");
    env.images.insert("other".into(), "well");
    env.rest();
    assert_eq!((super::selected(&env).as_str(), serves(&env)), ("2", true));
    env.wait(60);
    assert_eq!((place(&env).as_str(), pods(&env).len()), ("Running/Running False/AsExpected", 1));
    env.writes_nothing_more();
}

#[test]
fn a_candidate_that_cannot_be_made_does_not_keep_the_service_from_what_serves() {
    let mut env = running(spec("well"));
    env.refuse("create", Kind::Revision, 3, refused(500, "InternalError"));
    env.change("avs", |spec| spec["image"] = json!("other"));
    env.settle();
    env.server
        .edit(Kind::Service, "performer-avs", |service| service["spec"]["selector"][super::INCARNATION] = json!("2"));
    env.settle();
    assert_eq!((super::selected(&env).as_str(), serves(&env)), ("1", true));
    env.server.remove(Kind::Service, "performer-avs");
    env.settle();
    assert_eq!(
        (super::selected(&env).as_str(), serves(&env)),
        ("1", true),
        "it is made for what serves, not for what comes"
    );
    env.wait(100);
    assert_eq!((place(&env).as_str(), super::selected(&env).as_str()), ("Running/Running False/AsExpected", "2"));
}

#[test]
fn a_former_pod_goes_in_its_time_also_where_the_next_one_is_refused() {
    let mut env = running(spec("well"));
    another(&env, "second", json!({"minReadySeconds": 0, "drainSeconds": 100}));
    env.rest();
    assert_eq!((selected(&env).as_str(), pods(&env).len()), ("2", 2));
    env.refuse("create", Kind::Pod, u32::MAX, refused(422, "Invalid"));
    another(&env, "third", json!({"minReadySeconds": 0, "drainSeconds": 100}));
    env.settle();
    assert_eq!((place(&env).as_str(), pods(&env).len()), ("Upgrading/PodRecreation True/AdmissionRefused", 2));
    env.wait(110);
    assert_eq!((selected(&env).as_str(), serves(&env), pods(&env).len()), ("2", true, 1));
    assert!(env.failures().len() <= 8, "{:?}", env.failures());
}
