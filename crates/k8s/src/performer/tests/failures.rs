//! Servers that do not let things be read, that conflict, that ask for patience; backoff that outlives the controller.

use std::sync::Arc;
use std::time::Duration;

use orlop_core::error::Class;
use serde_json::{Value, json};

use super::{Bed, another, bed, place, pods, running, serves, spec};
use crate::api::{ApiError, Kind};
use crate::hourglass::Config;
use crate::hourglass::tables::overlaid;
use crate::hourglass::tests::{host, log, quota};
use crate::shell::Clock as _;
use crate::shell::fake::{Fault, refused};

fn with(fault: Fault) -> Bed {
    let mut bed = Bed::with_faults(vec![fault]);
    bed.show(Kind::Node, host("node-1", json!({}), json!({})));
    bed.submit("avs", spec("well"));
    bed
}

#[test]
fn what_may_not_be_read_is_said_and_asked_for_again_less_and_less_often() {
    for (verb, kind) in [("get", Kind::Pod), ("get", Kind::Service), ("list", Kind::Revision)] {
        let mut bed = with(Fault::Refuse(verb, kind, u32::MAX, refused(403, "Forbidden")));
        bed.wait(1000);
        assert_eq!(place(&bed), "Failed/Failed True/Forbidden", "{verb} {kind:?}");
        assert_eq!(bed.condition("avs", "Available"), "False/NoReadyPod");
        assert_eq!(bed.condition("avs", "HardwareAvailable"), "Unknown/NodesNotReadable");
        assert_eq!(bed.events(), ["Forbidden"]);
        assert!((15..=30).contains(&bed.failures().len()), "{:?}", bed.failures());
        bed.server.store().faults.clear();
        bed.wait(61);
        assert_eq!(place(&bed), "Running/Running False/AsExpected", "{verb} {kind:?}");
        assert_eq!(bed.status("avs")["conditions"].as_array().unwrap().len(), 6);
    }
}

#[test]
fn reads_that_fail_too_often_are_said_and_what_serves_goes_on() {
    let mut bed = running(spec("well"));
    bed.refuse("list", Kind::Revision, 9, refused(500, "InternalError"));
    bed.change("avs", |spec| spec["version"] = json!("2"));
    bed.wait(100);
    assert_eq!(place(&bed), "Running/Running False/AsExpected", "so far it is only tried again");
    bed.wait(180);
    assert_eq!(place(&bed), "Running/Running True/RetriesExhausted", "it serves all the same");
    assert_eq!(bed.failures(), vec![Class::Transient; 9]);
    // Something that happens is a reason to try before the resync.
    bed.server.edit(Kind::Pod, "performer-avs", |pod| pod["metadata"]["labels"]["seen"] = json!("1"));
    bed.rest();
    assert_eq!((place(&bed).as_str(), serves(&bed)), ("Running/Running False/AsExpected", true));
    bed.writes_nothing_more();
}

#[test]
fn writes_that_failed_too_often_are_tried_again_when_something_happens() {
    let mut bed = with(Fault::Refuse("create", Kind::Pod, 9, refused(503, "ServiceUnavailable")));
    while place(&bed) != "Failed/Failed True/RetriesExhausted" {
        bed.wait(10);
    }
    assert_eq!(bed.status("avs")["retry"], Value::Null, "it does not wait for a time");
    bed.show(Kind::Node, host("node-2", json!({}), json!({})));
    bed.rest();
    assert_eq!(place(&bed), "Running/Running False/AsExpected");
}

#[test]
fn conflicts_are_tried_at_once_five_times_and_then_as_errors_are() {
    let mut bed = with(Fault::Refuse("create", Kind::Service, 5, refused(409, "Conflict")));
    bed.rest();
    assert_eq!(place(&bed), "Running/Running False/AsExpected", "without any wait");
    assert_eq!(bed.failures(), vec![Class::Conflict; 5]);
    let mut bed = running(spec("well"));
    bed.refuse("patch", Kind::Service, u32::MAX, refused(409, "Conflict"));
    bed.server.edit(Kind::Service, "performer-avs", |service| service["spec"]["ports"][0]["port"] = json!(1));
    bed.settle();
    assert_eq!(bed.failures(), vec![Class::Conflict; 6], "the sixth waits");
    bed.wait(700);
    assert!(bed.failures().len() < 30, "{}", bed.failures().len());
    assert_eq!(bed.condition("avs", "Degraded"), "True/RetriesExhausted");
}

#[test]
fn no_less_is_waited_than_the_server_asks_for() {
    let patience = ApiError { retry_after: Some(Duration::from_secs(77)), ..refused(429, "TooManyRequests") };
    for (verb, kind) in [("create", Kind::Pod), ("get", Kind::Pod)] {
        let mut bed = with(Fault::Refuse(verb, kind, 1, patience.clone()));
        bed.wait(76);
        assert!(pods(&bed).is_empty(), "{verb}");
        bed.wait(2);
        assert_eq!(pods(&bed).len(), 1, "{verb}");
    }
}

#[test]
fn who_may_not_hold_the_object_says_so() {
    let mut bed = with(Fault::Refuse("patch", Kind::Performer, 1, refused(403, "Forbidden")));
    bed.settle();
    assert_eq!(place(&bed), "Failed/Failed True/Forbidden");
    assert!(bed.created().iter().all(|made| made.starts_with("performers ")), "no child before the finalizer");
    bed.wait(10);
    assert_eq!(place(&bed), "Running/Running False/AsExpected");
}

#[test]
fn a_quota_is_not_asked_again_by_another_controller() {
    let mut bed = with(Fault::Refuse("create", Kind::Pod, 6, quota()));
    // The sixth wait is more than 20 s.
    while bed.status("avs")["retry"]["count"] != 6 {
        bed.wait(1);
    }
    let status = bed.status("avs");
    assert_eq!(
        (&status["retry"]["reason"], place(&bed).as_str()),
        (&json!("QuotaExceeded"), "Failed/Failed True/QuotaExceeded")
    );
    let until = status["retry"]["nextRetryTime"].clone();
    let before = bed.writes().len();
    for _ in 0..3 {
        bed.restart();
        bed.wait(4);
        assert_eq!((bed.status("avs"), bed.writes().len()), (status.clone(), before), "it waits, and says the same");
    }
    while bed.clock.now() < crate::value::time(&json!({"at": until}), "/at").unwrap() {
        assert!(pods(&bed).is_empty());
        bed.wait(1);
    }
    bed.wait(1);
    assert_eq!(place(&bed), "Running/Running False/AsExpected");
}

#[test]
fn what_the_scheduler_says_is_taken_over_once() {
    let mut bed = bed();
    bed.show(Kind::Node, host("node-1", json!({}), json!({"cpu": "1"})));
    let asks = json!({"avsAddress": super::ADDRESS, "image": "i", "resources": {"requests": {"cpu": "1"}}});
    bed.submit("one", asks.clone());
    bed.rest();
    bed.submit("avs", asks);
    bed.rest();
    let says = |bed: &Bed, text: &str| {
        bed.server.edit(Kind::Pod, "performer-avs", |pod| {
            pod["status"]["conditions"][0]["message"] = json!(text);
        });
    };
    says(&bed, "0/1 nodes are available: 1 Insufficient cpu.");
    bed.wait(301);
    let message = |bed: &Bed| {
        crate::value::item(&bed.status("avs"), "/conditions", "type", "Degraded").unwrap()["message"].clone()
    };
    let first = message(&bed);
    assert!(first.as_str().unwrap().ends_with("; 0/1 nodes are available: 1 Insufficient cpu."), "{first}");
    let before = bed.writes().len();
    for second in 0..120 {
        says(&bed, &format!("0/{second} nodes are available"));
        bed.wait(1);
    }
    assert_eq!((message(&bed), bed.writes().len()), (first, before), "its later words change nothing");
}

#[test]
fn whom_the_server_does_not_know_is_denied_like_one_without_rights() {
    for (verb, kind) in [("create", Kind::Pod), ("get", Kind::Pod)] {
        let mut bed = with(Fault::Refuse(verb, kind, 1, refused(401, "Unauthorized")));
        bed.settle();
        assert_eq!((place(&bed).as_str(), pods(&bed).len()), ("Failed/Failed True/Forbidden", 0), "{verb}");
        assert_eq!(bed.failures(), [Class::Denied]);
        bed.wait(10);
        assert_eq!(place(&bed), "Running/Running False/AsExpected", "{verb}");
    }
}

#[test]
fn who_may_not_write_the_status_waits_for_the_resync_whatever_happens() {
    for (code, class) in [(401, Class::Denied), (403, Class::Denied), (422, Class::Invalid)] {
        let mut bed = running(spec("well"));
        bed.refuse("patch", Kind::Performer, 2, refused(code, "No"));
        bed.change("avs", |spec| spec["version"] = json!("2"));
        for second in 0..29 {
            bed.wait(10);
            bed.server.edit(Kind::Pod, "performer-avs", |pod| pod["metadata"]["labels"]["at"] = json!(second));
        }
        assert_eq!(bed.failures(), [class], "{code}");
        bed.wait(20);
        assert_eq!(bed.failures(), [class; 2], "{code}: at the resync");
        bed.wait(301);
        assert_eq!(bed.status("avs")["version"], "2", "{code}");
        bed.writes_nothing_more();
    }
}

#[test]
fn a_read_that_the_server_refuses_is_said_and_tried_again() {
    for code in [400, 422] {
        let mut bed = with(Fault::Refuse("get", Kind::Pod, 1, refused(code, "Invalid")));
        bed.settle();
        assert_eq!(
            (place(&bed).as_str(), bed.failures()),
            ("Failed/Failed True/AdmissionRefused", vec![Class::Invalid])
        );
        bed.wait(10);
        assert_eq!(place(&bed), "Running/Running False/AsExpected", "{code}");
    }
}

#[test]
fn another_object_of_the_name_does_not_inherit_what_was_wrong() {
    for (verb, kind) in [("create", Kind::Pod), ("get", Kind::Pod), ("patch", Kind::Performer)] {
        let mut bed = with(Fault::Refuse(verb, kind, 1, refused(422, "Invalid")));
        bed.settle();
        assert_eq!(place(&bed), "Failed/Failed True/AdmissionRefused", "{verb}");
        bed.server.remove(Kind::Performer, "avs");
        bed.submit("avs", spec("well"));
        bed.rest();
        assert_eq!(place(&bed), "Running/Running False/AsExpected", "{verb}");
    }
}

#[test]
fn a_failure_during_an_upgrade_in_place_comes_back_to_where_it_was() {
    for (verb, kind) in [("list", Kind::Revision), ("create", Kind::Pod)] {
        for (times, error, reason) in
            [(4, refused(403, "Forbidden"), "Forbidden"), (9, refused(500, "InternalError"), "RetriesExhausted")]
        {
            let mut bed = running(spec("well"));
            bed.images.insert("slow".into(), "pulls");
            if verb == "create" {
                bed.refuse(verb, kind, times, error.clone());
            }
            another(&bed, "slow", json!({"strategy": "Recreate"}));
            bed.rest();
            if verb != "create" {
                assert_eq!(place(&bed), "Upgrading/PodRecreation False/AsExpected");
                bed.refuse(verb, kind, times, error);
                bed.show(Kind::Node, host("node-2", json!({}), json!({})));
            }
            while place(&bed) == "Upgrading/PodRecreation False/AsExpected" {
                bed.wait(5);
            }
            assert_eq!(place(&bed), format!("Upgrading/PodRecreation True/{reason}"), "{verb} {kind:?}");
            bed.wait(301);
            assert_eq!(place(&bed), "Upgrading/PodRecreation False/AsExpected", "{verb} {kind:?} {reason}");
            assert_eq!(bed.status("avs")["candidate"]["incarnation"], 2);
        }
    }
}

#[test]
fn what_is_invalid_is_logged_once() {
    let wrong = json!({"avsAddress": super::ADDRESS, "image": "i", "hardwareRequirements": {"gpuType": "ours-nvlink"}});
    let mut bed = Bed::new();
    bed.submit("avs", wrong);
    let logged = |bed: &mut Bed| {
        log::lines(|| {
            bed.wait(2000);
            bed.show(Kind::Node, host(&format!("node-{}", bed.passes), json!({}), json!({})));
            bed.wait(400);
        })
    };
    let first = logged(&mut bed);
    assert_eq!(first.len(), 1, "{first:?}");
    assert!(["avs", "performer", "InvalidSpec"].iter().all(|word| first[0].contains(word)), "{first:?}");
    assert_eq!(logged(&mut bed), [] as [String; 0]);
}

#[test]
fn what_no_table_knows_is_tried_again_with_another_table() {
    let mut bed = Bed::new();
    bed.show(Kind::Node, super::gpu_host("gpu-1", 1));
    bed.submit(
        "avs",
        json!({"avsAddress": super::ADDRESS, "image": "i", "hardwareRequirements": {"gpuType": "ours-nvlink"}}),
    );
    bed.wait(700);
    assert_eq!(place(&bed), "Failed/Failed True/InvalidSpec");
    let told = "gpu:\n  models:\n    ours: {vendor: nvidia, products: [{name: OURS, memoryGib: 8, nvlink: true}]}\n";
    bed.config = Arc::new(Config::with_tables(overlaid(told).unwrap()));
    bed.restart();
    bed.rest();
    assert_ne!(bed.condition("avs", "Degraded"), "True/InvalidSpec", "{}", bed.status("avs"));
}

#[test]
fn tries_are_twice_as_far_apart_each_time_a_fifth_more_or_less_and_eight_at_most() {
    let mut bed = with(Fault::Refuse("create", Kind::Pod, u32::MAX, refused(503, "ServiceUnavailable")));
    let (mut tried, mut second) = (Vec::new(), 0.0);
    while second < 1000.0 {
        bed.wait(1);
        second += 1.0;
        tried.resize(bed.failures().len(), second);
    }
    let gaps: Vec<f64> = tried.windows(2).map(|pair| pair[1] - pair[0]).collect();
    for (number, gap) in gaps.iter().take(8).enumerate() {
        let wanted = f64::from(1 << number);
        // Time goes by in seconds here.
        assert!((wanted * 0.8 - 1.0..=wanted * 1.2 + 1.0).contains(gap), "{number}: {gaps:?}");
    }
    assert_eq!(place(&bed), "Failed/Failed True/RetriesExhausted");
    assert!(gaps[8..].iter().all(|gap| (299.0..=301.0).contains(gap)), "then at the resync: {gaps:?}");
}
