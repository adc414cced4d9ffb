//! Flows from their first status to their end, and that nothing is written without need.

use futures::FutureExt as _;
use serde_json::json;

use super::super::Options;
use super::server::{Fault, refused};
use super::test_env::{TestEnv, after, job};
use crate::api::Kind;

#[test]
fn a_flow_runs_in_order_and_tells_of_it() {
    let mut env = TestEnv::new();
    env.submit("etl", json!({"steps": [job("a"), after("b", &["a"])]}));
    env.run();
    insta::assert_snapshot!(env.outcome("etl"), @"
    Succeeded 2/2
    a Succeeded/- 1
    b Succeeded/- 1
    ");
    let writes = env.writes().into_iter().filter(|write| !write.contains("events")).collect::<Vec<_>>();
    insta::assert_snapshot!(writes.join("\n"), @"
    patch jobflows/status default/etl
    create jobs default/etl-a-00000001
    patch jobflows/status default/etl
    create jobs default/etl-b-00000001
    patch jobflows/status default/etl
    patch jobflows/status default/etl
    ");
    let status = env.status("etl");
    assert_eq!(
        status["conditions"].as_array().unwrap().iter().filter(|c| c["status"] == "True").count(),
        2,
        "{status}"
    );
    let events: Vec<String> =
        env.server.list(Kind::Event).iter().map(|event| event["reason"].as_str().unwrap().to_owned()).collect();
    for reason in ["JobFlowCreated", "JobFlowStarted", "StepCreated", "StepSucceeded", "JobFlowCompleted"] {
        assert!(events.iter().any(|known| known == reason), "{reason} in {events:?}");
    }
    env.check_created_once();
}

#[test]
fn events_name_the_job_they_are_about_and_steps_that_were_skipped() {
    let mut env = TestEnv::new();
    let mut never = job("never");
    never["when"] = json!("false");
    env.submit("etl", json!({"steps": [job("a"), never]}));
    env.run();
    let events = env.server.list(Kind::Event);
    let of = |reason: &str| events.iter().find(|event| event["reason"] == reason).unwrap_or_else(|| panic!("{reason}"));
    let job = env.server.list(Kind::Job).remove(0);
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
fn after_two_hundred_events_people_are_reported_a_count() {
    let mut env = TestEnv::new();
    let mut many = job("many");
    many["withItems"] = json!((0..120).collect::<Vec<_>>());
    env.submit("etl", json!({"steps": [many]}));
    env.run();
    let events = env.server.list(Kind::Event);
    let (series, single): (Vec<_>, Vec<_>) = events.iter().partition(|event| event["series"].is_object());
    assert!(single.len() <= 202, "{} events one by one", single.len());
    let counted: u64 = series.iter().map(|event| event["series"]["count"].as_u64().unwrap()).sum();
    assert!(counted > 30, "{counted} in {} series", series.len());
}

#[test]
fn a_status_is_written_once_a_second_and_once_in_five_where_there_are_many_steps() {
    for (items, pace) in [(20, 1), (1_001, 5)] {
        let mut env = TestEnv::with_options(Options { max_live_jobs_per_flow: 2, ..Options::default() });
        env.endless = vec!["etl"];
        let mut many = job("many");
        many["withItems"] = json!((0..items).collect::<Vec<_>>());
        env.submit("etl", json!({"steps": [many]}));
        env.settle();
        env.sleep(60);
        let end = |env: &mut TestEnv| {
            let live =
                env.server.list(Kind::Job).into_iter().find(|job| job["status"]["conditions"].is_null()).unwrap();
            env.end_job(live["metadata"]["name"].as_str().unwrap(), true);
            env.settle();
        };
        let written =
            |env: &TestEnv| env.writes().iter().filter(|write| write.starts_with("patch jobflows/status")).count();
        end(&mut env);
        let before = written(&env);
        end(&mut env);
        env.sleep(pace - 1);
        assert_eq!(written(&env), before, "{items} items, within {pace} s");
        env.sleep(1);
        assert_eq!(written(&env), before + 1, "{items} items, after {pace} s");
    }
}

#[test]
fn a_job_that_could_not_be_deleted_is_deleted_later_by_this_controller_or_the_next() {
    for restarts in [false, true] {
        let mut env = TestEnv::new();
        env.endless = vec!["-b-"];
        env.server.store().faults.push(Fault::Refuse("delete", Kind::Job, 1, refused(503, "ServiceUnavailable")));
        let steps = json!([job("a"), after("b", &["a"])]);
        env.submit("etl", json!({"steps": steps, "executionPolicy": {"jobRetention": "None"}}));
        env.settle();
        env.end_a_job();
        env.settle();
        assert_eq!(env.server.list(Kind::Job).len(), 2, "the first try had no success");
        if restarts {
            env.restart();
            env.settle();
        } else {
            env.sleep(60);
        }
        assert_eq!(env.server.list(Kind::Job).len(), 1);
    }
}

#[test]
fn jobs_carry_names_labels_annotations_and_owner_of_section_1_1() {
    let mut env = TestEnv::new();
    env.endless = vec!["etl"];
    env.submit("etl", json!({"steps": [job("a")]}));
    env.run();
    let job = env.server.list(Kind::Job).remove(0);
    let uid = env.server.get(Kind::JobFlow, "etl").unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
    assert_eq!(job["metadata"]["name"], format!("etl-a-{}", &uid[..8]));
    assert_eq!(job["metadata"]["labels"]["workflow.kube-zen.io/managed-by"], "zen-flow");
    let owner = &job["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["uid"], &owner["controller"], &owner["blockOwnerDeletion"]),
        (&json!(uid), &json!(true), &json!(true))
    );
    let step = &env.status("etl")["steps"][0];
    assert_eq!((&step["phase"], &step["jobRef"]["uid"]), (&json!("Running"), &job["metadata"]["uid"]));
}

#[test]
fn a_second_pass_with_nothing_to_do_writes_nothing() {
    let mut env = TestEnv::new();
    env.endless = vec!["slow"];
    env.submit("etl", json!({"steps": [job("slow"), job("quick"), {"name": "gate", "type": "Manual"}]}));
    env.run();
    let before = env.writes();
    for _ in 0..3 {
        let key = env.controller().prime().remove(0);
        let _ = env.controller().reconcile(&key).now_or_never().unwrap();
    }
    assert_eq!(env.writes(), before);
    // Nor does the first pass of another controller.
    env.restart();
    env.settle();
    assert_eq!(env.writes(), before);
}

#[test]
fn a_finished_flow_is_never_written_again() {
    let mut env = TestEnv::new();
    env.submit("etl", json!({"steps": [job("a"), job("bad")]}));
    env.run();
    assert_eq!(env.status("etl")["phase"], "Failed");
    let before = env.writes();
    env.restart();
    env.settle();
    let name = env.server.list(Kind::Job).remove(0)["metadata"]["name"].as_str().unwrap().to_owned();
    env.server.remove(Kind::Job, &name);
    env.server.edit(Kind::JobFlow, "etl", |flow| flow["spec"]["stop"] = json!("Terminate"));
    env.run();
    assert_eq!(env.writes(), before);
    env.sleep(86_400);
    assert_eq!(env.writes().len(), before.len() + 1, "{:?}", env.writes());
    assert!(env.server.get(Kind::JobFlow, "etl").is_none() && env.server.list(Kind::Job).is_empty());
}

#[test]
fn a_time_to_live_of_zero_waits_for_the_final_status() {
    let mut env = TestEnv::new();
    env.submit("etl", json!({"steps": [job("a")], "executionPolicy": {"ttlSecondsAfterFinished": 0}}));
    env.run();
    let writes = env.writes();
    assert_eq!(writes.last().unwrap(), "delete jobflows default/etl");
    let last = env
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
    let mut env = TestEnv::new();
    let mut flaky = after("flaky", &["a"]);
    flaky["retryPolicy"] = json!({"limit": 2, "backoff": {"type": "Fixed", "duration": "30s"}});
    let mut many = job("many");
    many["withItems"] = json!(["x", "y", "z"]);
    let mut reader = after("reader", &["many"]);
    reader["inputs"] = json!({"parameters": [{"name": "n", "valueFrom": {"jsonPath": "a:$.succeeded"}}]});
    reader["template"]["spec"]["template"]["spec"]["containers"][0]["args"] = json!(["{{.parameters.n}}"]);
    let mut a = job("a");
    a["outputs"] = json!({"parameters": [{"name": "count", "valueFrom": {"jsonPath": "$.succeeded"}}]});
    env.submit("etl", json!({"steps": [a, flaky, many, reader], "finally": [job("tidy")]}));
    env.run();
    insta::assert_snapshot!(env.outcome("etl"), @r#"
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
    let jobs = env.server.list(Kind::Job);
    let read = jobs.iter().find(|job| job["metadata"]["name"].as_str().unwrap().contains("reader")).unwrap();
    assert_eq!(read["spec"]["template"]["spec"]["containers"][0]["args"], json!(["1"]));
    env.check_created_once();
}

#[test]
fn templates_are_created_once_and_a_foreign_object_ends_the_flow() {
    let templates = json!({
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}],
        "configMapTemplates": [{"metadata": {"name": "settings"}, "data": {"k": "v"}}],
    });
    let mut env = TestEnv::new();
    env.submit("etl", json!({"steps": [job("a")], "resourceTemplates": templates}));
    env.run();
    assert_eq!(env.status("etl")["phase"], "Succeeded");
    let refs: Vec<String> = env.status("etl")["resourceRefs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| format!("{} {}", r["kind"], r["name"]))
        .collect();
    assert_eq!(refs, [r#""PersistentVolumeClaim" "etl-data""#, r#""ConfigMap" "etl-settings""#]);
    env.check_created_once();

    let mut env = TestEnv::new();
    env.server.put(Kind::Claim, json!({"metadata": {"name": "etl-data"}}));
    env.submit("etl", json!({"steps": [job("a")], "resourceTemplates": templates}));
    env.run();
    let status = env.status("etl");
    assert_eq!(
        (&status["phase"], &status["conditions"][0]["reason"]),
        (&json!("Failed"), &json!("ResourceConflict")),
        "{status}"
    );
    assert!(env.server.list(Kind::Job).is_empty());
}

#[test]
fn settled_jobs_go_once_the_status_names_their_end() {
    let mut env = TestEnv::new();
    let mut kept = job("kept");
    kept["template"]["spec"]["ttlSecondsAfterFinished"] = json!(77);
    env.submit("etl", json!({"steps": [job("a"), job("bad"), kept], "executionPolicy": {"jobRetention": "Failed"}}));
    env.run();
    let names: Vec<String> = env
        .server
        .list(Kind::Job)
        .iter()
        .map(|job| job["metadata"]["name"].as_str().unwrap()[..7].to_owned())
        .collect();
    assert_eq!(names, ["etl-bad"]);
    let mut env = TestEnv::new();
    let mut kept = job("kept");
    kept["template"]["spec"]["ttlSecondsAfterFinished"] = json!(77);
    env.submit("etl", json!({"steps": [kept]}));
    env.run();
    assert_eq!(env.server.list(Kind::Job)[0]["spec"]["ttlSecondsAfterFinished"], 77);
}

#[test]
fn a_large_flow_is_packed_and_spilled_and_ends_the_same() {
    for (inline, object) in [(2_000, 1 << 20), (0, 4_600)] {
        let mut env = TestEnv::new();
        env.options.sizes = crate::status::SizeLimits { inline, object };
        env.restart();
        let mut many = job("many");
        many["withItems"] = json!((0..40).collect::<Vec<_>>());
        env.submit("etl", json!({"steps": [many, after("last", &["many"])]}));
        env.run();
        let status = env.status("etl");
        assert_eq!(
            (&status["phase"], &status["progress"]["summary"]),
            (&json!("Succeeded"), &json!("41/41")),
            "{status}"
        );
        let packed = &status["stepsPacked"];
        assert_eq!(packed["count"], 42);
        assert_eq!(packed["refs"].is_null(), inline > 0, "{packed}");
        let state = env.server.list(Kind::ConfigMap).len();
        assert_eq!(state, usize::from(inline == 0), "only pieces that are listed stay");
        env.check_created_once();
    }
}
