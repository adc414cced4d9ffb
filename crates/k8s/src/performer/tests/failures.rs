//! Servers that do not let things be read, that conflict, that ask for patience; backoff that outlives the controller.

use std::sync::Arc;
use std::time::Duration;

use orlop_core::error::Class;
use serde_json::{Value, json};

use super::{TestEnv, another, env, place, pods, running, serves, spec};
use crate::api::{ApiError, Kind};
use crate::hourglass::Config;
use crate::hourglass::tables::overlaid;
use crate::hourglass::tests::{host, log, quota};
use crate::shell::Clock as _;
use crate::shell::fake::{Fault, refused};

fn with(fault: Fault) -> TestEnv {
    let mut env = TestEnv::with_faults(vec![fault]);
    env.add(Kind::Node, host("node-1", json!({}), json!({})));
    env.submit("avs", spec("well"));
    env
}

#[test]
fn what_may_not_be_read_is_said_and_asked_for_again_less_and_less_often() {
    for (verb, kind) in [("get", Kind::Pod), ("get", Kind::Service), ("list", Kind::Revision)] {
        let mut env = with(Fault::Refuse(verb, kind, u32::MAX, refused(403, "Forbidden")));
        env.wait(1000);
        assert_eq!(place(&env), "Failed/Failed True/Forbidden", "{verb} {kind:?}");
        assert_eq!(env.condition("avs", "Available"), "False/NoReadyPod");
        assert_eq!(env.condition("avs", "HardwareAvailable"), "Unknown/NodesNotReadable");
        assert_eq!(env.events(), ["Forbidden"]);
        assert!((15..=30).contains(&env.failures().len()), "{:?}", env.failures());
        env.server.store().faults.clear();
        env.wait(61);
        assert_eq!(place(&env), "Running/Running False/AsExpected", "{verb} {kind:?}");
        assert_eq!(env.status("avs")["conditions"].as_array().unwrap().len(), 6);
    }
}

#[test]
fn reads_that_fail_too_often_are_said_and_what_serves_goes_on() {
    let mut env = running(spec("well"));
    env.refuse("list", Kind::Revision, 9, refused(500, "InternalError"));
    env.change("avs", |spec| spec["version"] = json!("2"));
    env.wait(100);
    assert_eq!(place(&env), "Running/Running False/AsExpected", "so far it is only tried again");
    env.wait(180);
    assert_eq!(place(&env), "Running/Running True/RetriesExhausted", "it serves all the same");
    assert_eq!(env.failures(), vec![Class::Transient; 9]);
    // Something that happens is a reason to try before the resync.
    env.server.edit(Kind::Pod, "performer-avs", |pod| pod["metadata"]["labels"]["seen"] = json!("1"));
    env.rest();
    assert_eq!((place(&env).as_str(), serves(&env)), ("Running/Running False/AsExpected", true));
    env.writes_nothing_more();
}

#[test]
fn writes_that_failed_too_often_are_tried_again_when_something_happens() {
    let mut env = with(Fault::Refuse("create", Kind::Pod, 9, refused(503, "ServiceUnavailable")));
    while place(&env) != "Failed/Failed True/RetriesExhausted" {
        env.wait(10);
    }
    assert_eq!(env.status("avs")["retry"], Value::Null, "it does not wait for a time");
    env.add(Kind::Node, host("node-2", json!({}), json!({})));
    env.rest();
    assert_eq!(place(&env), "Running/Running False/AsExpected");
}

#[test]
fn conflicts_are_tried_at_once_five_times_and_then_as_errors_are() {
    let mut env = with(Fault::Refuse("create", Kind::Service, 5, refused(409, "Conflict")));
    env.rest();
    assert_eq!(place(&env), "Running/Running False/AsExpected", "without any wait");
    assert_eq!(env.failures(), vec![Class::Conflict; 5]);
    let mut env = running(spec("well"));
    env.refuse("patch", Kind::Service, u32::MAX, refused(409, "Conflict"));
    env.server.edit(Kind::Service, "performer-avs", |service| service["spec"]["ports"][0]["port"] = json!(1));
    env.settle();
    assert_eq!(env.failures(), vec![Class::Conflict; 6], "the sixth waits");
    env.wait(700);
    assert!(env.failures().len() < 30, "{}", env.failures().len());
    assert_eq!(env.condition("avs", "Degraded"), "True/RetriesExhausted");
}

#[test]
fn no_less_is_waited_than_the_server_asks_for() {
    let patience = ApiError { retry_after: Some(Duration::from_secs(77)), ..refused(429, "TooManyRequests") };
    for (verb, kind) in [("create", Kind::Pod), ("get", Kind::Pod)] {
        let mut env = with(Fault::Refuse(verb, kind, 1, patience.clone()));
        env.wait(76);
        assert!(pods(&env).is_empty(), "{verb}");
        env.wait(2);
        assert_eq!(pods(&env).len(), 1, "{verb}");
    }
}

#[test]
fn who_may_not_hold_the_object_says_so() {
    let mut env = with(Fault::Refuse("patch", Kind::Performer, 1, refused(403, "Forbidden")));
    env.settle();
    assert_eq!(place(&env), "Failed/Failed True/Forbidden");
    assert!(env.created().iter().all(|made| made.starts_with("performers ")), "no child before the finalizer");
    env.wait(10);
    assert_eq!(place(&env), "Running/Running False/AsExpected");
}

#[test]
fn a_quota_is_not_asked_again_by_another_controller() {
    let mut env = with(Fault::Refuse("create", Kind::Pod, 6, quota()));
    // The sixth wait is more than 20 s.
    while env.status("avs")["retry"]["count"] != 6 {
        env.wait(1);
    }
    let status = env.status("avs");
    assert_eq!(
        (&status["retry"]["reason"], place(&env).as_str()),
        (&json!("QuotaExceeded"), "Failed/Failed True/QuotaExceeded")
    );
    let until = status["retry"]["nextRetryTime"].clone();
    let before = env.writes().len();
    for _ in 0..3 {
        env.restart();
        env.wait(4);
        assert_eq!((env.status("avs"), env.writes().len()), (status.clone(), before), "it waits, and says the same");
    }
    while env.clock.now() < crate::value::time(&json!({"at": until}), "/at").unwrap() {
        assert!(pods(&env).is_empty());
        env.wait(1);
    }
    env.wait(1);
    assert_eq!(place(&env), "Running/Running False/AsExpected");
}

#[test]
fn what_the_scheduler_says_is_taken_over_once() {
    let mut env = env();
    env.add(Kind::Node, host("node-1", json!({}), json!({"cpu": "1"})));
    let asks = json!({"avsAddress": super::ADDRESS, "image": "i", "resources": {"requests": {"cpu": "1"}}});
    env.submit("one", asks.clone());
    env.rest();
    env.submit("avs", asks);
    env.rest();
    let says = |env: &TestEnv, text: &str| {
        env.server.edit(Kind::Pod, "performer-avs", |pod| {
            pod["status"]["conditions"][0]["message"] = json!(text);
        });
    };
    says(&env, "0/1 nodes are available: 1 Insufficient cpu.");
    env.wait(301);
    let message = |env: &TestEnv| {
        crate::value::item(&env.status("avs"), "/conditions", "type", "Degraded").unwrap()["message"].clone()
    };
    let first = message(&env);
    assert!(first.as_str().unwrap().ends_with("; 0/1 nodes are available: 1 Insufficient cpu."), "{first}");
    let before = env.writes().len();
    for second in 0..120 {
        says(&env, &format!("0/{second} nodes are available"));
        env.wait(1);
    }
    assert_eq!((message(&env), env.writes().len()), (first, before), "its later words change nothing");
}

#[test]
fn whom_the_server_does_not_know_is_denied_like_one_without_rights() {
    for (verb, kind) in [("create", Kind::Pod), ("get", Kind::Pod)] {
        let mut env = with(Fault::Refuse(verb, kind, 1, refused(401, "Unauthorized")));
        env.settle();
        assert_eq!((place(&env).as_str(), pods(&env).len()), ("Failed/Failed True/Forbidden", 0), "{verb}");
        assert_eq!(env.failures(), [Class::Denied]);
        env.wait(10);
        assert_eq!(place(&env), "Running/Running False/AsExpected", "{verb}");
    }
}

#[test]
fn who_may_not_write_the_status_waits_for_the_resync_whatever_happens() {
    for (code, class) in [(401, Class::Denied), (403, Class::Denied), (422, Class::Invalid)] {
        let mut env = running(spec("well"));
        env.refuse("patch", Kind::Performer, 2, refused(code, "No"));
        env.change("avs", |spec| spec["version"] = json!("2"));
        for second in 0..29 {
            env.wait(10);
            env.server.edit(Kind::Pod, "performer-avs", |pod| pod["metadata"]["labels"]["at"] = json!(second));
        }
        assert_eq!(env.failures(), [class], "{code}");
        env.wait(20);
        assert_eq!(env.failures(), [class; 2], "{code}: at the resync");
        env.wait(301);
        assert_eq!(env.status("avs")["version"], "2", "{code}");
        env.writes_nothing_more();
    }
}

#[test]
fn a_read_that_the_server_refuses_is_said_and_tried_again() {
    for code in [400, 422] {
        let mut env = with(Fault::Refuse("get", Kind::Pod, 1, refused(code, "Invalid")));
        env.settle();
        assert_eq!(
            (place(&env).as_str(), env.failures()),
            ("Failed/Failed True/AdmissionRefused", vec![Class::Invalid])
        );
        env.wait(10);
        assert_eq!(place(&env), "Running/Running False/AsExpected", "{code}");
    }
}

#[test]
fn another_object_of_the_name_does_not_inherit_what_was_wrong() {
    for (verb, kind) in [("create", Kind::Pod), ("get", Kind::Pod), ("patch", Kind::Performer)] {
        let mut env = with(Fault::Refuse(verb, kind, 1, refused(422, "Invalid")));
        env.settle();
        assert_eq!(place(&env), "Failed/Failed True/AdmissionRefused", "{verb}");
        env.server.remove(Kind::Performer, "avs");
        env.submit("avs", spec("well"));
        env.rest();
        assert_eq!(place(&env), "Running/Running False/AsExpected", "{verb}");
    }
}

#[test]
fn a_failure_during_an_upgrade_in_place_comes_back_to_where_it_was() {
    for (verb, kind) in [("list", Kind::Revision), ("create", Kind::Pod)] {
        for (times, error, reason) in
            [(4, refused(403, "Forbidden"), "Forbidden"), (9, refused(500, "InternalError"), "RetriesExhausted")]
        {
            let mut env = running(spec("well"));
            env.images.insert("slow".into(), "pulls");
            if verb == "create" {
                env.refuse(verb, kind, times, error.clone());
            }
            another(&env, "slow", json!({"strategy": "Recreate"}));
            env.rest();
            if verb != "create" {
                assert_eq!(place(&env), "Upgrading/PodRecreation False/AsExpected");
                env.refuse(verb, kind, times, error);
                env.add(Kind::Node, host("node-2", json!({}), json!({})));
            }
            while place(&env) == "Upgrading/PodRecreation False/AsExpected" {
                env.wait(5);
            }
            assert_eq!(place(&env), format!("Upgrading/PodRecreation True/{reason}"), "{verb} {kind:?}");
            env.wait(301);
            assert_eq!(place(&env), "Upgrading/PodRecreation False/AsExpected", "{verb} {kind:?} {reason}");
            assert_eq!(env.status("avs")["candidate"]["incarnation"], 2);
        }
    }
}

#[test]
fn what_is_invalid_is_logged_once() {
    let wrong = json!({"avsAddress": super::ADDRESS, "image": "i", "hardwareRequirements": {"gpuType": "ours-nvlink"}});
    let mut env = TestEnv::new();
    env.submit("avs", wrong);
    let logged = |env: &mut TestEnv| {
        log::lines(|| {
            env.wait(2000);
            env.add(Kind::Node, host(&format!("node-{}", env.passes), json!({}), json!({})));
            env.wait(400);
        })
    };
    let first = logged(&mut env);
    assert_eq!(first.len(), 1, "{first:?}");
    assert!(["avs", "performer", "InvalidSpec"].iter().all(|word| first[0].contains(word)), "{first:?}");
    assert_eq!(logged(&mut env), [] as [String; 0]);
}

#[test]
fn what_no_table_knows_is_tried_again_with_another_table() {
    let mut env = TestEnv::new();
    env.add(Kind::Node, super::gpu_host("gpu-1", 1));
    env.submit(
        "avs",
        json!({"avsAddress": super::ADDRESS, "image": "i", "hardwareRequirements": {"gpuType": "ours-nvlink"}}),
    );
    env.wait(700);
    assert_eq!(place(&env), "Failed/Failed True/InvalidSpec");
    let reported =
        "gpu:\n  models:\n    ours: {vendor: nvidia, products: [{name: OURS, memoryGib: 8, nvlink: true}]}\n";
    env.config = Arc::new(Config::with_tables(overlaid(reported).unwrap()));
    env.restart();
    env.rest();
    assert_ne!(env.condition("avs", "Degraded"), "True/InvalidSpec", "{}", env.status("avs"));
}

#[test]
fn tries_are_twice_as_far_apart_each_time_a_fifth_more_or_less_and_eight_at_most() {
    let mut env = with(Fault::Refuse("create", Kind::Pod, u32::MAX, refused(503, "ServiceUnavailable")));
    let (mut tried, mut second) = (Vec::new(), 0.0);
    while second < 1000.0 {
        env.wait(1);
        second += 1.0;
        tried.resize(env.failures().len(), second);
    }
    let gaps: Vec<f64> = tried.windows(2).map(|pair| pair[1] - pair[0]).collect();
    for (number, gap) in gaps.iter().take(8).enumerate() {
        let wanted = f64::from(1 << number);
        // Time goes by in seconds here.
        assert!((wanted * 0.8 - 1.0..=wanted * 1.2 + 1.0).contains(gap), "{number}: {gaps:?}");
    }
    assert_eq!(place(&env), "Failed/Failed True/RetriesExhausted");
    assert!(gaps[8..].iter().all(|gap| (299.0..=301.0).contains(gap)), "then at the resync: {gaps:?}");
}
