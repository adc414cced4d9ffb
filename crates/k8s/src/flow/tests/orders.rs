//! What people order: stop, suspend, approve, edit; and flows that exclude each other.

use serde_json::json;

use super::test_env::{TestEnv, after, job};
use crate::api::Kind;

#[test]
fn a_manual_step_waits_for_its_annotation() {
    for (word, phase) in [("true", "Succeeded"), ("rejected", "Failed")] {
        let mut env = TestEnv::new();
        env.submit("etl", json!({"steps": [{"name": "gate", "type": "Manual"}, after("b", &["gate"])]}));
        env.run();
        assert_eq!(env.status("etl")["phase"], "Paused");
        env.server.edit(Kind::JobFlow, "etl", |flow| {
            flow["metadata"]["annotations"] = json!({
                "approved.workflow.kube-zen.io/gate": word,
                "approval.workflow.kube-zen.io/gate": "{\"by\": \"ann\", \"at\": \"2026-11-21T10:00:05Z\", \"reason\": \"fine\"}",
            });
        });
        env.run();
        assert_eq!(env.status("etl")["phase"], phase);
        let approval = &env.status("etl")["steps"][0]["approval"];
        assert_eq!(
            (&approval["by"], &approval["verified"], &approval["reason"]),
            (&json!("ann"), &json!(false), &json!("fine"))
        );
    }
}

#[test]
fn suspend_drains_or_suspends_jobs_and_resumes() {
    for mode in ["Drain", "Suspend"] {
        let mut env = TestEnv::new();
        env.endless = vec!["slow"];
        env.submit("etl", json!({"steps": [job("slow"), after("b", &["slow"])]}));
        env.run();
        env.server.edit(Kind::JobFlow, "etl", |flow| {
            flow["spec"]["suspend"] = json!(true);
            flow["spec"]["suspendMode"] = json!(mode);
        });
        env.run();
        assert_eq!(env.status("etl")["phase"], "Suspended");
        assert_eq!(env.server.list(Kind::Job)[0]["spec"]["suspend"] == true, mode == "Suspend");
        let before = env.writes();
        env.restart();
        env.settle();
        assert_eq!(env.writes(), before, "{mode}: nothing new is to be done after a restart");
        env.server.edit(Kind::JobFlow, "etl", |flow| flow["spec"]["suspend"] = json!(false));
        env.endless.clear();
        env.run();
        assert_eq!(env.status("etl")["phase"], "Succeeded");
    }
}

#[test]
fn a_flow_may_be_created_suspended() {
    let mut env = TestEnv::new();
    env.submit("etl", json!({"steps": [job("a")], "suspend": true}));
    env.run();
    assert_eq!((&env.status("etl")["phase"], env.server.list(Kind::Job).len()), (&json!("Suspended"), 0));
    assert!(env.status("etl")["startTime"].is_null());
    env.server.edit(Kind::JobFlow, "etl", |flow| flow["spec"]["suspend"] = json!(false));
    env.run();
    assert_eq!(env.status("etl")["phase"], "Succeeded");
}

#[test]
fn stop_lets_attempts_finish_and_terminate_deletes_their_jobs() {
    for (stop, jobs) in [("Graceful", 2), ("Terminate", 0)] {
        let mut env = TestEnv::new();
        env.endless = vec!["slow"];
        env.submit("etl", json!({"steps": [job("slow"), after("b", &["slow"])], "finally": [job("tidy")]}));
        env.run();
        env.server.edit(Kind::JobFlow, "etl", |flow| flow["spec"]["stop"] = json!(stop));
        env.endless.clear();
        env.run();
        let status = env.status("etl");
        assert_eq!(status["phase"], "Failed", "{status}");
        assert_eq!(env.server.list(Kind::Job).len(), jobs, "{stop}");
        env.check_created_once();
    }
}

#[test]
fn an_edited_spec_holds_the_flow_until_it_is_restored() {
    for restart in [false, true] {
        let mut env = TestEnv::new();
        env.endless = vec!["slow"];
        env.submit("etl", json!({"steps": [job("slow"), after("b", &["slow"])]}));
        env.run();
        env.server.edit(Kind::JobFlow, "etl", |flow| flow["spec"]["steps"][1]["name"] = json!("c"));
        if restart {
            env.restart();
        }
        env.run();
        let status = env.status("etl");
        assert_eq!(status["phase"], "Suspended", "{status}");
        assert!(
            status["conditions"]
                .as_array()
                .unwrap()
                .iter()
                .any(|c| c["type"] == "SpecChanged" && c["status"] == "True")
        );
        let before = env.writes();
        env.settle();
        if restart {
            env.restart();
            env.settle();
        }
        assert_eq!(env.writes(), before);
        env.server.edit(Kind::JobFlow, "etl", |flow| flow["spec"]["steps"][1]["name"] = json!("b"));
        env.endless.clear();
        env.run();
        assert_eq!(env.status("etl")["phase"], "Succeeded", "{}", env.status("etl"));
        env.check_created_once();
    }
}

#[test]
fn a_spec_that_is_edited_before_the_start_begins_again() {
    let mut env = TestEnv::new();
    env.submit("etl", json!({"steps": [job("a")], "suspend": true}));
    env.run();
    env.server.edit(Kind::JobFlow, "etl", |flow| {
        flow["spec"]["steps"] = json!([job("x"), job("y")]);
        flow["spec"]["suspend"] = json!(false);
    });
    env.run();
    assert_eq!((&env.status("etl")["phase"], env.server.list(Kind::Job).len()), (&json!("Succeeded"), 2));
}

#[test]
fn an_invalid_flow_fails_at_once_and_is_written_once() {
    for (steps, cause) in [
        (json!([after("a", &["b"]), after("b", &["a"])]), "DAGCycle"),
        (json!([after("a", &["nobody"])]), "ValidationFailed"),
    ] {
        let mut env = TestEnv::new();
        env.submit("etl", json!({"steps": steps}));
        env.run();
        let status = env.status("etl");
        assert_eq!(
            (&status["phase"], &status["conditions"][0]["reason"]),
            (&json!("Failed"), &json!(cause)),
            "{status}"
        );
        assert!(status["startTime"].is_string() && status["completionTime"].is_string());
        let writes: Vec<String> = env.writes().into_iter().filter(|write| !write.contains("events")).collect();
        assert_eq!(writes, ["patch jobflows/status default/etl"]);
    }
}

#[test]
fn forbid_waits_its_turn_and_replace_ends_the_holder() {
    let policy = |policy: &str| json!({"concurrencyKey": "nightly", "concurrencyPolicy": policy});
    for restart in [false, true] {
        let mut env = TestEnv::new();
        env.endless = vec!["first"];
        env.submit("first", json!({"steps": [job("a")], "executionPolicy": policy("Forbid")}));
        env.run();
        env.submit("second", json!({"steps": [job("a")], "executionPolicy": policy("Forbid")}));
        env.run();
        if restart {
            env.restart();
            env.run();
        }
        let status = env.status("second");
        assert!(status["startTime"].is_null(), "{status}");
        assert!(
            status["conditions"].as_array().unwrap().iter().any(|c| c["reason"] == "ConcurrencyBlocked"),
            "{status}"
        );
        env.submit("third", json!({"steps": [job("a")], "executionPolicy": policy("Replace")}));
        env.run();
        let ends = ["first", "second", "third"].map(|flow| env.status(flow)["phase"].as_str().unwrap().to_owned());
        assert_eq!(ends, ["Failed", "Succeeded", "Succeeded"]);
        assert_eq!(
            env.status("first")["conditions"].as_array().unwrap().iter().filter(|c| c["reason"] == "Replaced").count(),
            2
        );
    }
}

#[test]
fn a_holder_that_is_deleted_lets_the_next_one_begin() {
    let policy = json!({"concurrencyKey": "nightly"});
    let mut env = TestEnv::new();
    env.endless = vec!["first"];
    for flow in ["first", "second"] {
        env.submit(flow, json!({"steps": [job("a")], "executionPolicy": policy}));
        env.run();
    }
    env.server.remove(Kind::JobFlow, "first");
    env.run();
    assert_eq!(env.status("second")["phase"], "Succeeded");
}
