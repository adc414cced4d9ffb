//! What people order: stop, suspend, approve, edit; and flows that exclude each other.

use serde_json::json;

use super::bed::{Bed, after, job};
use crate::api::Kind;

#[test]
fn a_manual_step_waits_for_its_annotation() {
    for (word, phase) in [("true", "Succeeded"), ("rejected", "Failed")] {
        let mut bed = Bed::new();
        bed.submit("etl", json!({"steps": [{"name": "gate", "type": "Manual"}, after("b", &["gate"])]}));
        bed.run();
        assert_eq!(bed.status("etl")["phase"], "Paused");
        bed.server.edit(Kind::JobFlow, "etl", |flow| {
            flow["metadata"]["annotations"] = json!({
                "approved.workflow.kube-zen.io/gate": word,
                "approval.workflow.kube-zen.io/gate": "{\"by\": \"ann\", \"at\": \"2026-11-21T10:00:05Z\", \"reason\": \"fine\"}",
            });
        });
        bed.run();
        assert_eq!(bed.status("etl")["phase"], phase);
        let approval = &bed.status("etl")["steps"][0]["approval"];
        assert_eq!(
            (&approval["by"], &approval["verified"], &approval["reason"]),
            (&json!("ann"), &json!(false), &json!("fine"))
        );
    }
}

#[test]
fn suspend_drains_or_suspends_jobs_and_resumes() {
    for mode in ["Drain", "Suspend"] {
        let mut bed = Bed::new();
        bed.endless = vec!["slow"];
        bed.submit("etl", json!({"steps": [job("slow"), after("b", &["slow"])]}));
        bed.run();
        bed.server.edit(Kind::JobFlow, "etl", |flow| {
            flow["spec"]["suspend"] = json!(true);
            flow["spec"]["suspendMode"] = json!(mode);
        });
        bed.run();
        assert_eq!(bed.status("etl")["phase"], "Suspended");
        assert_eq!(bed.server.list(Kind::Job)[0]["spec"]["suspend"] == true, mode == "Suspend");
        let before = bed.writes();
        bed.restart();
        bed.settle();
        assert_eq!(bed.writes(), before, "{mode}: nothing new is to be done after a restart");
        bed.server.edit(Kind::JobFlow, "etl", |flow| flow["spec"]["suspend"] = json!(false));
        bed.endless.clear();
        bed.run();
        assert_eq!(bed.status("etl")["phase"], "Succeeded");
    }
}

#[test]
fn a_flow_may_be_created_suspended() {
    let mut bed = Bed::new();
    bed.submit("etl", json!({"steps": [job("a")], "suspend": true}));
    bed.run();
    assert_eq!((&bed.status("etl")["phase"], bed.server.list(Kind::Job).len()), (&json!("Suspended"), 0));
    assert!(bed.status("etl")["startTime"].is_null());
    bed.server.edit(Kind::JobFlow, "etl", |flow| flow["spec"]["suspend"] = json!(false));
    bed.run();
    assert_eq!(bed.status("etl")["phase"], "Succeeded");
}

#[test]
fn stop_lets_attempts_finish_and_terminate_deletes_their_jobs() {
    for (stop, jobs) in [("Graceful", 2), ("Terminate", 0)] {
        let mut bed = Bed::new();
        bed.endless = vec!["slow"];
        bed.submit("etl", json!({"steps": [job("slow"), after("b", &["slow"])], "finally": [job("tidy")]}));
        bed.run();
        bed.server.edit(Kind::JobFlow, "etl", |flow| flow["spec"]["stop"] = json!(stop));
        bed.endless.clear();
        bed.run();
        let status = bed.status("etl");
        assert_eq!(status["phase"], "Failed", "{status}");
        assert_eq!(bed.server.list(Kind::Job).len(), jobs, "{stop}");
        bed.check_created_once();
    }
}

#[test]
fn an_edited_spec_holds_the_flow_until_it_is_restored() {
    for restart in [false, true] {
        let mut bed = Bed::new();
        bed.endless = vec!["slow"];
        bed.submit("etl", json!({"steps": [job("slow"), after("b", &["slow"])]}));
        bed.run();
        bed.server.edit(Kind::JobFlow, "etl", |flow| flow["spec"]["steps"][1]["name"] = json!("c"));
        if restart {
            bed.restart();
        }
        bed.run();
        let status = bed.status("etl");
        assert_eq!(status["phase"], "Suspended", "{status}");
        assert!(
            status["conditions"]
                .as_array()
                .unwrap()
                .iter()
                .any(|c| c["type"] == "SpecChanged" && c["status"] == "True")
        );
        let before = bed.writes();
        bed.settle();
        if restart {
            bed.restart();
            bed.settle();
        }
        assert_eq!(bed.writes(), before);
        bed.server.edit(Kind::JobFlow, "etl", |flow| flow["spec"]["steps"][1]["name"] = json!("b"));
        bed.endless.clear();
        bed.run();
        assert_eq!(bed.status("etl")["phase"], "Succeeded", "{}", bed.status("etl"));
        bed.check_created_once();
    }
}

#[test]
fn a_spec_that_is_edited_before_the_start_begins_again() {
    let mut bed = Bed::new();
    bed.submit("etl", json!({"steps": [job("a")], "suspend": true}));
    bed.run();
    bed.server.edit(Kind::JobFlow, "etl", |flow| {
        flow["spec"]["steps"] = json!([job("x"), job("y")]);
        flow["spec"]["suspend"] = json!(false);
    });
    bed.run();
    assert_eq!((&bed.status("etl")["phase"], bed.server.list(Kind::Job).len()), (&json!("Succeeded"), 2));
}

#[test]
fn an_invalid_flow_fails_at_once_and_is_written_once() {
    for (steps, cause) in [
        (json!([after("a", &["b"]), after("b", &["a"])]), "DAGCycle"),
        (json!([after("a", &["nobody"])]), "ValidationFailed"),
    ] {
        let mut bed = Bed::new();
        bed.submit("etl", json!({"steps": steps}));
        bed.run();
        let status = bed.status("etl");
        assert_eq!(
            (&status["phase"], &status["conditions"][0]["reason"]),
            (&json!("Failed"), &json!(cause)),
            "{status}"
        );
        assert!(status["startTime"].is_string() && status["completionTime"].is_string());
        let writes: Vec<String> = bed.writes().into_iter().filter(|write| !write.contains("events")).collect();
        assert_eq!(writes, ["patch jobflows/status default/etl"]);
    }
}

#[test]
fn forbid_waits_its_turn_and_replace_ends_the_holder() {
    let policy = |policy: &str| json!({"concurrencyKey": "nightly", "concurrencyPolicy": policy});
    for restart in [false, true] {
        let mut bed = Bed::new();
        bed.endless = vec!["first"];
        bed.submit("first", json!({"steps": [job("a")], "executionPolicy": policy("Forbid")}));
        bed.run();
        bed.submit("second", json!({"steps": [job("a")], "executionPolicy": policy("Forbid")}));
        bed.run();
        if restart {
            bed.restart();
            bed.run();
        }
        let status = bed.status("second");
        assert!(status["startTime"].is_null(), "{status}");
        assert!(
            status["conditions"].as_array().unwrap().iter().any(|c| c["reason"] == "ConcurrencyBlocked"),
            "{status}"
        );
        bed.submit("third", json!({"steps": [job("a")], "executionPolicy": policy("Replace")}));
        bed.run();
        let ends = ["first", "second", "third"].map(|flow| bed.status(flow)["phase"].as_str().unwrap().to_owned());
        assert_eq!(ends, ["Failed", "Succeeded", "Succeeded"]);
        assert_eq!(
            bed.status("first")["conditions"].as_array().unwrap().iter().filter(|c| c["reason"] == "Replaced").count(),
            2
        );
    }
}

#[test]
fn a_holder_that_is_deleted_lets_the_next_one_begin() {
    let policy = json!({"concurrencyKey": "nightly"});
    let mut bed = Bed::new();
    bed.endless = vec!["first"];
    for flow in ["first", "second"] {
        bed.submit(flow, json!({"steps": [job("a")], "executionPolicy": policy}));
        bed.run();
    }
    bed.server.remove(Kind::JobFlow, "first");
    bed.run();
    assert_eq!(bed.status("second")["phase"], "Succeeded");
}
