//! What is done to a Job waits for a stored status that names it, and for nothing that is over by then.

use serde_json::{Value, json};

use super::server::{Fault, refused};
use super::test_env::{TestEnv, job};
use crate::api::Kind;

const JOB: &str = "etl-slow-00000001";

/// A flow whose controller dies when it has made the Job, and which is told to end before the next one comes.
fn told_to_end() -> TestEnv {
    let mut env = TestEnv::new();
    let creation = 2;
    env.endless = vec!["slow"];
    env.server.store().faults.push(Fault::DieAfter(creation));
    env.meanwhile = Some(|server| {
        server.edit(Kind::JobFlow, "etl", |flow| flow["spec"]["stop"] = json!("Terminate"));
    });
    env.submit("etl", json!({"steps": [job("slow")]}));
    while env.writes().len() <= creation {
        assert!(env.step(), "{:?}", env.writes());
    }
    assert_eq!(env.writes().get(creation), Some(&format!("create jobs default/{JOB}")));
    env
}

fn named(status: &Value) -> bool {
    status["steps"][0]["jobRef"]["name"] == JOB
}

#[test]
fn a_job_is_deleted_only_once_a_stored_status_names_it() {
    let mut env = told_to_end();
    env.run();
    let writes = env.writes();
    let first = |what: &str| writes.iter().skip(3).position(|write| write.starts_with(what));
    let (reported, deleted) = (first("patch jobflows/status").unwrap(), first("delete jobs").unwrap());
    assert!(reported < deleted, "{writes:?}");
    let status = env.status("etl");
    assert_eq!((&status["phase"], &status["steps"][0]["reason"]), (&json!("Failed"), &json!("Terminated")), "{status}");
    env.check_created_once();
}

#[test]
fn a_job_that_ends_before_the_status_names_it_is_left_as_it_is() {
    let mut env = told_to_end();
    while !named(&env.status("etl")) {
        assert!(env.step(), "{:?}", env.writes());
    }
    env.end_job(JOB, false);
    env.run();
    assert!(env.server.get(Kind::Job, JOB).is_some(), "{:?}", env.writes());
    assert_eq!(env.status("etl")["phase"], "Failed");
}

/// A flow that is suspended with its Job, for a while.
fn suspended() -> TestEnv {
    let mut env = TestEnv::new();
    env.endless = vec!["slow"];
    env.submit("etl", json!({"suspendMode": "Suspend", "steps": [job("slow")]}));
    env.run();
    env.server.edit(Kind::JobFlow, "etl", |flow| flow["spec"]["suspend"] = json!(true));
    env.run();
    assert_eq!(env.server.get(Kind::Job, JOB).unwrap()["spec"]["suspend"], true);
    env.sleep(10);
    env
}

#[test]
fn a_resumption_that_was_refused_survives_a_restart() {
    let mut env = suspended();
    env.server.store().faults.push(Fault::Refuse("patch", Kind::Job, 1, refused(503, "ServiceUnavailable")));
    env.server.edit(Kind::JobFlow, "etl", |flow| flow["spec"]["suspend"] = json!(false));
    while env.status("etl")["phase"] != "Running" {
        assert!(env.step(), "{}", env.status("etl"));
    }
    assert_eq!(env.server.get(Kind::Job, JOB).unwrap()["spec"]["suspend"], true, "the server has refused it");
    env.restart();
    env.settle();
    assert_eq!(env.server.get(Kind::Job, JOB).unwrap()["spec"]["suspend"], false);
    env.endless.clear();
    env.run();
    assert_eq!(env.status("etl")["phase"], "Succeeded");
}

#[test]
fn a_job_that_is_found_ended_when_it_is_resumed_is_seen() {
    let mut env = suspended();
    // It has been resumed by hand and has ended; the watch tells of that only after the controller has looked.
    env.server.edit(Kind::JobFlow, "etl", |flow| flow["spec"]["suspend"] = json!(false));
    let seen = env.history();
    env.server.edit(Kind::Job, JOB, |job| job["spec"]["suspend"] = json!(false));
    env.end_job(JOB, true);
    env.settle_seeing(seen);
    assert_eq!(env.status("etl")["phase"], "Succeeded");
}
