//! Rule R39: a flow that repeats another takes over what succeeded there, before it begins, and whatever crashes.

use serde_json::{Value, json};

use super::bed::{Bed, after, job};
use super::server::Fault;
use crate::api::Kind;

fn spec() -> Value {
    let mut first = job("a");
    first["outputs"] = json!({"parameters": [{"name": "count", "valueFrom": {"jsonPath": "$.succeeded"}}]});
    json!({"steps": [first, after("bad", &["a"]), after("last", &["bad"]), job("other")], "finally": [job("tidy")],
        "executionPolicy": {"failurePolicy": "Continue"}})
}

/// A flow that has failed, and the spec of one that repeats it.
fn failed() -> (Bed, Value) {
    let mut bed = Bed::new();
    bed.submit("etl", spec());
    bed.run();
    assert_eq!(bed.status("etl")["phase"], "Failed");
    let mut again = spec();
    let uid = &bed.server.get(Kind::JobFlow, "etl").unwrap()["metadata"]["uid"];
    again["retryOf"] = json!({"name": "etl", "uid": uid});
    (bed, again)
}

fn jobs_of(bed: &Bed, flow: &str) -> Vec<String> {
    let prefix = format!("jobs {flow}-");
    let made = bed.made().into_iter().filter_map(|name| Some(name.strip_prefix(&prefix)?.to_owned()));
    made.filter_map(|name| Some(name.split_once('-')?.0.to_owned())).collect()
}

#[test]
fn what_failed_runs_again_and_the_rest_is_taken_over_with_its_outputs() {
    let (mut bed, again) = failed();
    bed.submit("again", again);
    bed.run();
    assert_eq!(jobs_of(&bed, "again"), ["bad", "tidy"]);
    insta::assert_snapshot!(bed.outcome("again"), @r#"
    Failed 5/5
    a Succeeded/Reused null {"parameters":[{"name":"count","value":"1"}]}
    bad Failed/BackoffLimitExceeded 1
    last Skipped/DependencyFailed null
    other Succeeded/Reused null
    tidy Succeeded/- 1
    "#);
}

#[test]
fn named_and_changed_steps_run_again_with_all_that_follows() {
    let (mut bed, mut again) = failed();
    again["retryOf"]["steps"] = json!(["other"]);
    again["steps"][0]["timeoutSeconds"] = json!(60);
    bed.submit("again", again);
    bed.run();
    assert_eq!(jobs_of(&bed, "again"), ["a", "bad", "other", "tidy"]);
}

/// Of a fan-out only the instance that failed runs again.
#[test]
fn of_a_fan_out_only_the_instances_that_failed_run_again() {
    let mut bed = Bed::new();
    let mut fan = after("half", &["a"]);
    fan["withItems"] = json!(["x", "y", "z"]);
    let mut again =
        json!({"steps": [job("a"), fan, after("sum", &["half"])], "executionPolicy": {"failurePolicy": "Continue"}});
    bed.submit("etl", again.clone());
    bed.run();
    assert_eq!(bed.status("etl")["phase"], "Failed");
    again["retryOf"] = json!({"name": "etl", "uid": &bed.server.get(Kind::JobFlow, "etl").unwrap()["metadata"]["uid"]});
    bed.submit("again", again);
    bed.run();
    assert_eq!(jobs_of(&bed, "again"), ["half"]);
    let outcome = bed.outcome("again");
    assert!(outcome.contains("half-i0 Succeeded/Reused") && outcome.contains("half-i2 Succeeded/Reused"), "{outcome}");
}

#[test]
fn a_flow_that_succeeded_is_repeated_only_where_its_object_insists() {
    let mut bed = Bed::new();
    let spec = json!({"steps": [job("a")], "finally": [job("tidy")]});
    bed.submit("etl", spec.clone());
    bed.run();
    assert_eq!(bed.status("etl")["phase"], "Succeeded");
    let mut again = spec;
    again["retryOf"] = json!({"name": "etl", "uid": &bed.server.get(Kind::JobFlow, "etl").unwrap()["metadata"]["uid"]});
    bed.submit("again", again.clone());
    bed.settle();
    let message = bed.status("again")["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("retryOf: `etl` Succeeded") && message.contains("retryOf.force"), "{message}");
    again["retryOf"]["force"] = json!(true);
    bed.submit("forced", again);
    bed.run();
    assert_eq!(
        (bed.status("forced")["phase"].as_str(), jobs_of(&bed, "forced")),
        (Some("Succeeded"), vec!["tidy".to_owned()])
    );
}

#[test]
fn a_flow_that_cannot_be_repeated_is_refused_and_says_why() {
    let refused = |bed: &mut Bed, spec: Value| {
        bed.submit("again", spec);
        bed.settle();
        let status = bed.status("again");
        assert_eq!(status["phase"], "Failed", "{status}");
        assert!(jobs_of(bed, "again").is_empty());
        bed.server.remove(Kind::JobFlow, "again");
        bed.settle();
        status["message"].as_str().unwrap().to_owned()
    };
    let (mut bed, again) = failed();
    let mut other = again.clone();
    other["retryOf"]["uid"] = json!("0000");
    insta::assert_snapshot!(refused(&mut bed, other), @"retryOf: flow `etl` is not the one of uid `0000`; name the uid it has now");
    let mut none = again.clone();
    none["retryOf"]["name"] = json!("elt");
    insta::assert_snapshot!(refused(&mut bed, none), @"retryOf: there is no flow `elt` in this namespace (any more)");
    bed.endless = vec!["slow"];
    bed.submit("slow", json!({"steps": [job("slow")]}));
    bed.settle();
    let mut early = again;
    let uid = &bed.server.get(Kind::JobFlow, "slow").unwrap()["metadata"]["uid"];
    early["retryOf"] = json!({"name": "slow", "uid": uid});
    insta::assert_snapshot!(refused(&mut bed, early), @"retryOf: `slow` has not ended: it is Running; retry it when it has");
}

#[test]
fn a_crash_at_any_write_changes_nothing() {
    let (clean, again) = failed();
    let before = clean.writes().len();
    let run = |plan: Option<(Fault, usize)>| {
        let mut bed = failed().0;
        if let Some((fault, behind)) = plan {
            bed.server.store().faults.push(fault);
            bed.stale.push_back(behind);
        }
        bed.submit("again", again.clone());
        bed.run();
        bed
    };
    let clean = run(None);
    let writes = clean.writes().len();
    assert!(writes > before + 5, "{writes} writes, {before} of them before");
    for at in before..writes {
        for behind in [0, 2, 1_000] {
            for fault in [Fault::DieBefore(at), Fault::DieAfter(at), Fault::LoseAnswer(at)] {
                let told = format!("{fault:?}, {behind} behind");
                let bed = run(Some((fault, behind)));
                assert_eq!(bed.outcome("again"), clean.outcome("again"), "{told}");
                assert_eq!(bed.made(), clean.made(), "{told}");
                bed.check_created_once();
            }
        }
    }
}
