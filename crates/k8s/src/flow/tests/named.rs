//! What is done to a Job waits for a stored status that names it, and for nothing that is over by then.

use serde_json::{Value, json};

use super::bed::{Bed, job};
use super::server::{Fault, refused};
use crate::api::Kind;

const JOB: &str = "etl-slow-00000001";

/// A flow whose controller dies when it has made the Job, and which is told to end before the next one comes.
fn told_to_end() -> Bed {
    let mut bed = Bed::new();
    let creation = 2;
    bed.endless = vec!["slow"];
    bed.server.store().faults.push(Fault::DieAfter(creation));
    bed.meanwhile = Some(|server| {
        server.edit(Kind::JobFlow, "etl", |flow| flow["spec"]["stop"] = json!("Terminate"));
    });
    bed.submit("etl", json!({"steps": [job("slow")]}));
    while bed.writes().len() <= creation {
        assert!(bed.step(), "{:?}", bed.writes());
    }
    assert_eq!(bed.writes().get(creation), Some(&format!("create jobs default/{JOB}")));
    bed
}

fn named(status: &Value) -> bool {
    status["steps"][0]["jobRef"]["name"] == JOB
}

#[test]
fn a_job_is_deleted_only_once_a_stored_status_names_it() {
    let mut bed = told_to_end();
    bed.run();
    let writes = bed.writes();
    let first = |what: &str| writes.iter().skip(3).position(|write| write.starts_with(what));
    let (told, deleted) = (first("patch jobflows/status").unwrap(), first("delete jobs").unwrap());
    assert!(told < deleted, "{writes:?}");
    let status = bed.status("etl");
    assert_eq!((&status["phase"], &status["steps"][0]["reason"]), (&json!("Failed"), &json!("Terminated")), "{status}");
    bed.check_created_once();
}

#[test]
fn a_job_that_ends_before_the_status_names_it_is_left_as_it_is() {
    let mut bed = told_to_end();
    while !named(&bed.status("etl")) {
        assert!(bed.step(), "{:?}", bed.writes());
    }
    bed.end_job(JOB, false);
    bed.run();
    assert!(bed.server.get(Kind::Job, JOB).is_some(), "{:?}", bed.writes());
    assert_eq!(bed.status("etl")["phase"], "Failed");
}

/// A flow that is suspended with its Job, for a while.
fn suspended() -> Bed {
    let mut bed = Bed::new();
    bed.endless = vec!["slow"];
    bed.submit("etl", json!({"suspendMode": "Suspend", "steps": [job("slow")]}));
    bed.run();
    bed.server.edit(Kind::JobFlow, "etl", |flow| flow["spec"]["suspend"] = json!(true));
    bed.run();
    assert_eq!(bed.server.get(Kind::Job, JOB).unwrap()["spec"]["suspend"], true);
    bed.sleep(10);
    bed
}

#[test]
fn a_resumption_that_was_refused_survives_a_restart() {
    let mut bed = suspended();
    bed.server.store().faults.push(Fault::Refuse("patch", Kind::Job, 1, refused(503, "ServiceUnavailable")));
    bed.server.edit(Kind::JobFlow, "etl", |flow| flow["spec"]["suspend"] = json!(false));
    while bed.status("etl")["phase"] != "Running" {
        assert!(bed.step(), "{}", bed.status("etl"));
    }
    assert_eq!(bed.server.get(Kind::Job, JOB).unwrap()["spec"]["suspend"], true, "the server has refused it");
    bed.restart();
    bed.settle();
    assert_eq!(bed.server.get(Kind::Job, JOB).unwrap()["spec"]["suspend"], false);
    bed.endless.clear();
    bed.run();
    assert_eq!(bed.status("etl")["phase"], "Succeeded");
}

#[test]
fn a_job_that_is_found_ended_when_it_is_resumed_is_seen() {
    let mut bed = suspended();
    // It has been resumed by hand and has ended; the watch tells of that only after the controller has looked.
    bed.server.edit(Kind::JobFlow, "etl", |flow| flow["spec"]["suspend"] = json!(false));
    let seen = bed.history();
    bed.server.edit(Kind::Job, JOB, |job| job["spec"]["suspend"] = json!(false));
    bed.end_job(JOB, true);
    bed.settle_seeing(seen);
    assert_eq!(bed.status("etl")["phase"], "Succeeded");
}
