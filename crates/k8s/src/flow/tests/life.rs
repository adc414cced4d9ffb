//! Flows from their first status to their end, and that nothing is written without need.

use futures::FutureExt as _;
use serde_json::json;

use super::super::Options;
use super::bed::{Bed, after, job};
use super::server::{Fault, refused};
use crate::api::Kind;

#[test]
fn a_flow_runs_in_order_and_tells_of_it() {
    let mut bed = Bed::new();
    bed.submit("etl", json!({"steps": [job("a"), after("b", &["a"])]}));
    bed.run();
    insta::assert_snapshot!(bed.outcome("etl"), @"
    Succeeded 2/2
    a Succeeded/- 1
    b Succeeded/- 1
    ");
    let writes = bed.writes().into_iter().filter(|write| !write.contains("events")).collect::<Vec<_>>();
    insta::assert_snapshot!(writes.join("\n"), @"
    patch jobflows/status default/etl
    create jobs default/etl-a-00000001
    patch jobflows/status default/etl
    create jobs default/etl-b-00000001
    patch jobflows/status default/etl
    patch jobflows/status default/etl
    ");
    let status = bed.status("etl");
    assert_eq!(
        status["conditions"].as_array().unwrap().iter().filter(|c| c["status"] == "True").count(),
        2,
        "{status}"
    );
    let events: Vec<String> =
        bed.server.list(Kind::Event).iter().map(|event| event["reason"].as_str().unwrap().to_owned()).collect();
    for reason in ["JobFlowCreated", "JobFlowStarted", "StepCreated", "StepSucceeded", "JobFlowCompleted"] {
        assert!(events.iter().any(|known| known == reason), "{reason} in {events:?}");
    }
    bed.check_created_once();
}

#[test]
fn events_name_the_job_they_are_about_and_steps_that_were_skipped() {
    let mut bed = Bed::new();
    let mut never = job("never");
    never["when"] = json!("false");
    bed.submit("etl", json!({"steps": [job("a"), never]}));
    bed.run();
    let events = bed.server.list(Kind::Event);
    let of = |reason: &str| events.iter().find(|event| event["reason"] == reason).unwrap_or_else(|| panic!("{reason}"));
    let job = bed.server.list(Kind::Job).remove(0);
    for reason in ["StepCreated", "StepSucceeded"] {
        let related = &of(reason)["related"];
        assert_eq!((&related["kind"], &related["name"]), (&json!("Job"), &job["metadata"]["name"]), "{reason}");
    }
    let skipped = of("StepSkipped");
    assert_eq!(
        (&skipped["type"], &skipped["note"]),
        (&json!("Normal"), &json!("never: ConditionFalse: its `when` is false"))
    );
    assert!(skipped["related"].is_null());
}

#[test]
fn after_two_hundred_events_people_are_told_a_count() {
    let mut bed = Bed::new();
    let mut many = job("many");
    many["withItems"] = json!((0..120).collect::<Vec<_>>());
    bed.submit("etl", json!({"steps": [many]}));
    bed.run();
    let events = bed.server.list(Kind::Event);
    let (series, single): (Vec<_>, Vec<_>) = events.iter().partition(|event| event["series"].is_object());
    assert!(single.len() <= 202, "{} events one by one", single.len());
    let counted: u64 = series.iter().map(|event| event["series"]["count"].as_u64().unwrap()).sum();
    assert!(counted > 30, "{counted} in {} series", series.len());
}

#[test]
fn a_status_is_written_once_a_second_and_once_in_five_where_there_are_many_steps() {
    for (items, pace) in [(20, 1), (1_001, 5)] {
        let mut bed = Bed::with_options(Options { max_live_jobs_per_flow: 2, ..Options::default() });
        bed.endless = vec!["etl"];
        let mut many = job("many");
        many["withItems"] = json!((0..items).collect::<Vec<_>>());
        bed.submit("etl", json!({"steps": [many]}));
        bed.settle();
        bed.sleep(60);
        let end = |bed: &mut Bed| {
            let live =
                bed.server.list(Kind::Job).into_iter().find(|job| job["status"]["conditions"].is_null()).unwrap();
            bed.end_job(live["metadata"]["name"].as_str().unwrap(), true);
            bed.settle();
        };
        let written =
            |bed: &Bed| bed.writes().iter().filter(|write| write.starts_with("patch jobflows/status")).count();
        end(&mut bed);
        let before = written(&bed);
        end(&mut bed);
        bed.sleep(pace - 1);
        assert_eq!(written(&bed), before, "{items} items, within {pace} s");
        bed.sleep(1);
        assert_eq!(written(&bed), before + 1, "{items} items, after {pace} s");
    }
}

#[test]
fn a_job_that_could_not_be_deleted_is_deleted_later_by_this_controller_or_the_next() {
    for restarts in [false, true] {
        let mut bed = Bed::new();
        bed.endless = vec!["-b-"];
        bed.server.store().faults.push(Fault::Refuse("delete", Kind::Job, 1, refused(503, "ServiceUnavailable")));
        let steps = json!([job("a"), after("b", &["a"])]);
        bed.submit("etl", json!({"steps": steps, "executionPolicy": {"jobRetention": "None"}}));
        bed.settle();
        bed.end_a_job();
        bed.settle();
        assert_eq!(bed.server.list(Kind::Job).len(), 2, "the first try had no success");
        if restarts {
            bed.restart();
            bed.settle();
        } else {
            bed.sleep(60);
        }
        assert_eq!(bed.server.list(Kind::Job).len(), 1);
    }
}

#[test]
fn jobs_carry_names_labels_annotations_and_owner_of_section_1_1() {
    let mut bed = Bed::new();
    bed.endless = vec!["etl"];
    bed.submit("etl", json!({"steps": [job("a")]}));
    bed.run();
    let job = bed.server.list(Kind::Job).remove(0);
    let uid = bed.server.get(Kind::JobFlow, "etl").unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
    assert_eq!(job["metadata"]["name"], format!("etl-a-{}", &uid[..8]));
    assert_eq!(job["metadata"]["labels"]["workflow.kube-zen.io/managed-by"], "zen-flow");
    let owner = &job["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["uid"], &owner["controller"], &owner["blockOwnerDeletion"]),
        (&json!(uid), &json!(true), &json!(true))
    );
    let step = &bed.status("etl")["steps"][0];
    assert_eq!((&step["phase"], &step["jobRef"]["uid"]), (&json!("Running"), &job["metadata"]["uid"]));
}

#[test]
fn a_second_pass_with_nothing_to_do_writes_nothing() {
    let mut bed = Bed::new();
    bed.endless = vec!["slow"];
    bed.submit("etl", json!({"steps": [job("slow"), job("quick"), {"name": "gate", "type": "Manual"}]}));
    bed.run();
    let before = bed.writes();
    for _ in 0..3 {
        let key = bed.controller().prime().remove(0);
        let _ = bed.controller().reconcile(&key).now_or_never().unwrap();
    }
    assert_eq!(bed.writes(), before);
    // Nor does the first pass of another controller.
    bed.restart();
    bed.settle();
    assert_eq!(bed.writes(), before);
}

#[test]
fn a_finished_flow_is_never_written_again() {
    let mut bed = Bed::new();
    bed.submit("etl", json!({"steps": [job("a"), job("bad")]}));
    bed.run();
    assert_eq!(bed.status("etl")["phase"], "Failed");
    let before = bed.writes();
    bed.restart();
    bed.settle();
    let name = bed.server.list(Kind::Job).remove(0)["metadata"]["name"].as_str().unwrap().to_owned();
    bed.server.remove(Kind::Job, &name);
    bed.server.edit(Kind::JobFlow, "etl", |flow| flow["spec"]["stop"] = json!("Terminate"));
    bed.run();
    assert_eq!(bed.writes(), before);
    bed.sleep(86_400);
    assert_eq!(bed.writes().len(), before.len() + 1, "{:?}", bed.writes());
    assert!(bed.server.get(Kind::JobFlow, "etl").is_none() && bed.server.list(Kind::Job).is_empty());
}

#[test]
fn a_time_to_live_of_zero_waits_for_the_final_status() {
    let mut bed = Bed::new();
    bed.submit("etl", json!({"steps": [job("a")], "executionPolicy": {"ttlSecondsAfterFinished": 0}}));
    bed.run();
    let writes = bed.writes();
    assert_eq!(writes.last().unwrap(), "delete jobflows default/etl");
    let last = bed
        .server
        .store()
        .log
        .iter()
        .rev()
        .find(|change| change.kind == Kind::JobFlow && !change.gone)
        .cloned()
        .unwrap();
    assert_eq!(last.object["status"]["phase"], "Succeeded");
}

#[test]
fn outputs_retries_fan_out_and_finally_come_together() {
    let mut bed = Bed::new();
    let mut flaky = after("flaky", &["a"]);
    flaky["retryPolicy"] = json!({"limit": 2, "backoff": {"type": "Fixed", "duration": "30s"}});
    let mut many = job("many");
    many["withItems"] = json!(["x", "y", "z"]);
    let mut reader = after("reader", &["many"]);
    reader["inputs"] = json!({"parameters": [{"name": "n", "valueFrom": {"jsonPath": "a:$.succeeded"}}]});
    reader["template"]["spec"]["template"]["spec"]["containers"][0]["args"] = json!(["{{.parameters.n}}"]);
    let mut a = job("a");
    a["outputs"] = json!({"parameters": [{"name": "count", "valueFrom": {"jsonPath": "$.succeeded"}}]});
    bed.submit("etl", json!({"steps": [a, flaky, many, reader], "finally": [job("tidy")]}));
    bed.run();
    insta::assert_snapshot!(bed.outcome("etl"), @r#"
    Succeeded 7/7
    a Succeeded/- 1 {"parameters":[{"name":"count","value":"1"}],"projections":{"$.succeeded":"1"}}
    flaky Succeeded/- 2
    many Succeeded/- null
    many-i0 Succeeded/- 1
    many-i1 Succeeded/- 1
    many-i2 Succeeded/- 1
    reader Succeeded/- 1
    tidy Succeeded/- 1
    "#);
    let jobs = bed.server.list(Kind::Job);
    let read = jobs.iter().find(|job| job["metadata"]["name"].as_str().unwrap().contains("reader")).unwrap();
    assert_eq!(read["spec"]["template"]["spec"]["containers"][0]["args"], json!(["1"]));
    bed.check_created_once();
}

#[test]
fn templates_are_created_once_and_a_foreign_object_ends_the_flow() {
    let templates = json!({
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}],
        "configMapTemplates": [{"metadata": {"name": "settings"}, "data": {"k": "v"}}],
    });
    let mut bed = Bed::new();
    bed.submit("etl", json!({"steps": [job("a")], "resourceTemplates": templates}));
    bed.run();
    assert_eq!(bed.status("etl")["phase"], "Succeeded");
    let refs: Vec<String> = bed.status("etl")["resourceRefs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| format!("{} {}", r["kind"], r["name"]))
        .collect();
    assert_eq!(refs, [r#""PersistentVolumeClaim" "etl-data""#, r#""ConfigMap" "etl-settings""#]);
    bed.check_created_once();

    let mut bed = Bed::new();
    bed.server.put(Kind::Claim, json!({"metadata": {"name": "etl-data"}}));
    bed.submit("etl", json!({"steps": [job("a")], "resourceTemplates": templates}));
    bed.run();
    let status = bed.status("etl");
    assert_eq!(
        (&status["phase"], &status["conditions"][0]["reason"]),
        (&json!("Failed"), &json!("ResourceConflict")),
        "{status}"
    );
    assert!(bed.server.list(Kind::Job).is_empty());
}

#[test]
fn settled_jobs_go_once_the_status_names_their_end() {
    let mut bed = Bed::new();
    let mut kept = job("kept");
    kept["template"]["spec"]["ttlSecondsAfterFinished"] = json!(77);
    bed.submit("etl", json!({"steps": [job("a"), job("bad"), kept], "executionPolicy": {"jobRetention": "Failed"}}));
    bed.run();
    let names: Vec<String> = bed
        .server
        .list(Kind::Job)
        .iter()
        .map(|job| job["metadata"]["name"].as_str().unwrap()[..7].to_owned())
        .collect();
    assert_eq!(names, ["etl-bad"]);
    let mut bed = Bed::new();
    let mut kept = job("kept");
    kept["template"]["spec"]["ttlSecondsAfterFinished"] = json!(77);
    bed.submit("etl", json!({"steps": [kept]}));
    bed.run();
    assert_eq!(bed.server.list(Kind::Job)[0]["spec"]["ttlSecondsAfterFinished"], 77);
}

#[test]
fn a_large_flow_is_packed_and_spilled_and_ends_the_same() {
    for (inline, object) in [(2_000, 1 << 20), (0, 4_600)] {
        let mut bed = Bed::new();
        bed.options.sizes = crate::status::SizeLimits { inline, object };
        bed.restart();
        let mut many = job("many");
        many["withItems"] = json!((0..40).collect::<Vec<_>>());
        bed.submit("etl", json!({"steps": [many, after("last", &["many"])]}));
        bed.run();
        let status = bed.status("etl");
        assert_eq!(
            (&status["phase"], &status["progress"]["summary"]),
            (&json!("Succeeded"), &json!("41/41")),
            "{status}"
        );
        let packed = &status["stepsPacked"];
        assert_eq!(packed["count"], 42);
        assert_eq!(packed["refs"].is_null(), inline > 0, "{packed}");
        let state = bed.server.list(Kind::ConfigMap).len();
        assert_eq!(state, usize::from(inline == 0), "only pieces that are listed stay");
        bed.check_created_once();
    }
}
