//! Flows that quota holds up: what they say, and when they go on.

use serde_json::{Value, json};

use super::bed::{Bed, job};
use super::server::Fault;
use crate::api::{ApiError, Kind};

fn refused(times: u32, kind: Kind) -> Fault {
    let quota = ApiError {
        code: Some(403),
        reason: "Forbidden".into(),
        message: "exceeded quota: jobs".into(),
        ..ApiError::default()
    };
    Fault::Refuse("create", kind, times, quota)
}

/// Another flow of the namespace has a Job under way; then quota refuses so much.
fn full(times: u32, kind: Kind) -> Bed {
    let mut bed = Bed::new();
    bed.endless = vec!["other", "etl"];
    bed.submit("other", json!({"steps": [job("x"), job("y")]}));
    bed.settle();
    bed.server.store().faults.push(refused(times, kind));
    bed
}

/// Names of Jobs of the flow, in order.
fn jobs(bed: &Bed) -> Vec<String> {
    let names = bed.server.list(Kind::Job).into_iter().map(|job| job["metadata"]["name"].as_str().unwrap().to_owned());
    names.filter_map(|name| Some(name.strip_prefix("etl-")?.split('-').next()?.to_owned())).collect()
}

fn other(bed: &Bed, step: &str) -> String {
    let all = bed.server.list(Kind::Job);
    let mut names = all.iter().map(|job| job["metadata"]["name"].as_str().unwrap());
    names.find(|name| name.starts_with(&format!("other-{step}-"))).unwrap().to_owned()
}

fn blocked(bed: &Bed) -> Value {
    let status = bed.status("etl");
    let all = status["conditions"].as_array().unwrap();
    let found = all.iter().find(|condition| condition["type"] == "Blocked").cloned().unwrap_or_default();
    json!([found["status"], found["reason"], found["message"], status["phase"], status["message"]])
}

#[test]
fn what_quota_refused_is_tried_as_soon_as_a_job_of_the_namespace_ends_or_goes() {
    for ends in [true, false] {
        let mut bed = full(3, Kind::Job);
        bed.submit("etl", json!({"steps": [job("a"), job("b"), job("c")]}));
        bed.settle();
        assert!(jobs(&bed).is_empty());
        let name = other(&bed, "x");
        // No time goes by.
        if ends {
            bed.end_job(&name, true);
        } else {
            bed.server.remove(Kind::Job, &name);
        }
        bed.settle();
        assert_eq!(jobs(&bed), ["a", "b", "c"], "ended: {ends}");
    }
}

#[test]
fn where_there_is_still_no_room_one_start_is_tried_for_each_job_that_ends() {
    let mut bed = full(4, Kind::Job);
    bed.submit("etl", json!({"steps": [job("a"), job("b"), job("c")]}));
    bed.settle();
    let name = other(&bed, "x");
    bed.end_job(&name, true);
    bed.settle();
    assert!(jobs(&bed).is_empty());
    let left = |bed: &Bed| match &bed.server.store().faults[0] {
        Fault::Refuse(_, _, times, _) => *times,
        other => panic!("{other:?}"),
    };
    assert_eq!(left(&bed), 0, "a was asked for once more, b and c were not");
    let name = other(&bed, "y");
    bed.end_job(&name, true);
    bed.settle();
    assert_eq!(jobs(&bed), ["a", "b", "c"]);
}

#[test]
fn a_job_of_another_namespace_makes_no_room() {
    let mut bed = full(1, Kind::Job);
    bed.submit("etl", json!({"steps": [job("a")]}));
    bed.settle();
    let mut elsewhere = bed.server.list(Kind::Job).remove(0);
    elsewhere["metadata"]["namespace"] = json!("elsewhere");
    assert!(bed.controller().job_deleted(&elsewhere).iter().all(|key| key.name != "etl"));
    let here = bed.server.list(Kind::Job).remove(0);
    assert!(bed.controller().job_deleted(&here).iter().any(|key| key.name == "etl"));
}

#[test]
fn a_flow_of_which_quota_refuses_all_is_blocked_and_says_so() {
    let mut bed = full(2, Kind::Job);
    bed.submit("etl", json!({"steps": [job("a")]}));
    bed.settle();
    bed.sleep(1);
    assert_eq!(
        blocked(&bed),
        json!([
            "True",
            "QuotaExceeded",
            "creating the Job: exceeded quota: jobs (403)",
            "Pending",
            "creating the Job: exceeded quota: jobs (403)"
        ])
    );
    bed.endless.clear();
    bed.run();
    let shown = blocked(&bed);
    assert_eq!((&shown[0], &shown[3]), (&json!("False"), &json!("Succeeded")), "{shown}");
}

#[test]
fn a_flow_whose_resources_quota_refuses_is_pending_and_says_so_until_there_is_room() {
    let mut bed = full(1, Kind::Claim);
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    bed.submit("etl", json!({"steps": [job("a")], "resourceTemplates": {"volumeClaimTemplates": [claim]}}));
    bed.settle();
    bed.sleep(1);
    let said = "creating the resources of the flow: exceeded quota: jobs (403)";
    assert_eq!(blocked(&bed), json!(["True", "QuotaExceeded", said, "Pending", said]));
    let events = bed.server.list(Kind::Event);
    assert!(events.iter().any(|event| event["reason"] == "QuotaExceeded" && event["type"] == "Warning"));
    let name = other(&bed, "x");
    bed.end_job(&name, true);
    bed.settle();
    assert_eq!(jobs(&bed), ["a"], "no time goes by");
}
