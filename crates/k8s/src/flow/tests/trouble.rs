//! Rows of the table of errors, and Jobs that others touch.

use serde_json::json;

use super::server::{Fault, refused};
use super::test_env::{TestEnv, after, job};
use crate::api::{ApiError, Kind};

fn spec() -> serde_json::Value {
    json!({"steps": [job("a"), after("b", &["a"])]})
}

#[test]
fn trouble_that_passes_delays_the_flow_and_nothing_else() {
    for (verb, kind) in
        [("create", Kind::Job), ("patch", Kind::JobFlow), ("get", Kind::JobFlow), ("create", Kind::Event)]
    {
        for error in [
            refused(429, "TooManyRequests"),
            refused(503, "ServiceUnavailable"),
            refused(500, ""),
            ApiError::no_answer("reset"),
            refused(401, "Unauthorized"),
        ] {
            let mut env = TestEnv::with_fault(Fault::Refuse(verb, kind, 3, error.clone()));
            env.submit("etl", spec());
            env.run();
            assert_eq!(env.status("etl")["phase"], "Succeeded", "{verb} {kind:?} {error}");
            env.check_created_once();
        }
    }
}

#[test]
fn a_full_quota_keeps_the_step_pending_with_its_reason() {
    let quota = ApiError {
        code: Some(403),
        reason: "Forbidden".into(),
        message: "exceeded quota: jobs".into(),
        ..ApiError::default()
    };
    let mut env = TestEnv::with_fault(Fault::Refuse("create", Kind::Job, 2, quota));
    env.submit("etl", spec());
    env.settle();
    // A delay is not urgent: it is written with the next status.
    env.sleep(1);
    let step = &env.status("etl")["steps"][0];
    assert_eq!((&step["phase"], &step["reason"]), (&json!("Pending"), &json!("QuotaExceeded")));
    env.run();
    assert_eq!((&env.status("etl")["phase"], &env.status("etl")["retries"]), (&json!("Succeeded"), &json!(null)));
}

#[test]
fn a_right_that_is_missing_delays_a_flow_until_it_is_given() {
    let mut denied = refused(403, "Forbidden");
    denied.message =
        "jobs.batch is forbidden: User \"system:serviceaccount:orlop-system:orlop-operator\" cannot create resource \
                      \"jobs\" in API group \"batch\" in the namespace \"default\""
            .to_owned();
    let mut env = TestEnv::with_fault(Fault::Refuse("create", Kind::Job, 3, denied));
    env.submit("etl", spec());
    env.settle();
    env.sleep(1);
    let status = env.status("etl");
    let step = &status["steps"][0];
    assert_eq!((&step["phase"], &step["reason"]), (&json!("Pending"), &json!("Forbidden")), "{status}");
    let mut all = status["conditions"].as_array().unwrap().iter();
    assert!(all.any(|known| known["type"] == "Blocked" && known["reason"] == "Forbidden"), "{status}");
    env.run();
    assert_eq!((&env.status("etl")["phase"], &env.status("etl")["retries"]), (&json!("Succeeded"), &json!(null)));
}

#[test]
fn what_can_never_be_created_fails_the_step() {
    for (code, reason, want) in
        [(403, "Forbidden", "Forbidden"), (422, "Invalid", "TemplateInvalid"), (400, "BadRequest", "TemplateInvalid")]
    {
        let mut refusal = refused(code, reason);
        // A policy, and not a right that is missing.
        refusal.message = "policy no-such-pods denies it".to_owned();
        let mut env = TestEnv::with_fault(Fault::Refuse("create", Kind::Job, 99, refusal));
        env.submit("etl", spec());
        env.run();
        let status = env.status("etl");
        assert_eq!((&status["phase"], &status["steps"][0]["reason"]), (&json!("Failed"), &json!(want)));
        assert_eq!(status["steps"][1]["reason"], "DependencyFailed");
    }
}

#[test]
fn others_who_write_the_object_cost_a_second_try_only() {
    let mut env = TestEnv::new();
    env.submit("etl", spec());
    env.settle();
    for round in 0..4 {
        env.server.edit(Kind::JobFlow, "etl", |flow| flow["metadata"]["labels"] = json!({"round": round.to_string()}));
        let name = env.server.list(Kind::Job).last().unwrap()["metadata"]["name"].as_str().unwrap().to_owned();
        if env.server.get(Kind::Job, &name).unwrap()["status"]["conditions"].is_null() {
            env.end_job(&name, true);
        }
        env.settle();
    }
    env.run();
    assert_eq!(env.status("etl")["phase"], "Succeeded");
    env.check_created_once();
}

#[test]
fn a_status_that_somebody_else_wrote_is_read_again() {
    let mut env = TestEnv::new();
    env.endless = vec!["b"];
    env.submit("etl", spec());
    env.run();
    // Another leader has seen b succeed and is gone again; its Job is gone too.
    let name = env
        .server
        .list(Kind::Job)
        .into_iter()
        .find(|job| job["metadata"]["name"].as_str().unwrap().contains("-b-"))
        .unwrap();
    env.server.edit(Kind::JobFlow, "etl", |flow| {
        flow["status"]["steps"][1]["phase"] = json!("Succeeded");
        flow["status"]["steps"][1]["completionTime"] = json!("2026-11-21T10:00:09Z");
    });
    env.server.remove(Kind::Job, name["metadata"]["name"].as_str().unwrap());
    env.run();
    assert_eq!(env.status("etl")["phase"], "Succeeded", "{}", env.status("etl"));
    env.check_created_once();
}

#[test]
fn a_foreign_job_of_our_name_is_left_alone() {
    let mut env = TestEnv::new();
    env.submit("etl", spec());
    let uid = env.server.get(Kind::JobFlow, "etl").unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
    let name = format!("etl-a-{}", &uid[..8]);
    env.server.put(Kind::Job, json!({"metadata": {"name": name, "ownerReferences": [{"kind": "CronJob", "name": "c", "uid": "x", "controller": true}]}}));
    env.endless = vec!["etl"];
    env.run();
    let step = &env.status("etl")["steps"][0];
    assert_eq!((&step["phase"], &step["reason"]), (&json!("Failed"), &json!("NameConflict")));
    assert!(step["message"].as_str().unwrap().contains("CronJob `c`"), "{step}");
    assert!(env.server.get(Kind::Job, &name).is_some());
}

#[test]
fn a_job_that_somebody_deletes_is_missing_and_may_be_retried() {
    for (limit, phase) in [(0, "Failed"), (1, "Succeeded")] {
        let mut env = TestEnv::new();
        env.endless = vec!["etl"];
        let mut step = job("a");
        step["retryPolicy"] = json!({"limit": limit});
        env.submit("etl", json!({"steps": [step]}));
        env.run();
        let name = env.server.list(Kind::Job).remove(0)["metadata"]["name"].as_str().unwrap().to_owned();
        env.server.remove(Kind::Job, &name);
        env.endless.clear();
        env.run();
        let status = env.status("etl");
        assert_eq!(status["phase"], phase, "{status}");
        if limit == 0 {
            assert_eq!(status["steps"][0]["reason"], "JobMissing");
        }
        env.check_created_once();
    }
}

#[test]
fn an_attempt_that_takes_too_long_is_deleted() {
    let mut env = TestEnv::new();
    env.endless = vec!["slow"];
    let mut step = job("slow");
    step["timeoutSeconds"] = json!(60);
    env.submit("etl", json!({"steps": [step]}));
    env.run();
    let status = env.status("etl");
    assert_eq!((&status["phase"], &status["steps"][0]["reason"]), (&json!("Failed"), &json!("Timeout")), "{status}");
    assert!(env.server.list(Kind::Job).is_empty());
}

#[test]
fn a_flow_in_a_namespace_that_goes_is_dropped() {
    let mut env = TestEnv::with_fault(Fault::Refuse("create", Kind::Job, 99, refused(404, "NotFound")));
    env.submit("etl", spec());
    env.settle();
    assert!(env.server.list(Kind::Job).is_empty());
    let left = |env: &TestEnv| match &env.server.store().faults[0] {
        Fault::Refuse(_, _, times, _) => *times,
        other => panic!("{other:?}"),
    };
    let (writes, asked) = (env.writes().len(), left(&env));
    assert_eq!(asked, 98, "it was asked for once");
    env.sleep(599);
    assert_eq!((env.writes().len(), left(&env)), (writes, asked), "and nothing after that");
    env.sleep(1);
    assert_eq!(left(&env), asked - 1, "unless it is still there: then it is asked for again");
    env.server.remove(Kind::JobFlow, "etl");
    for _ in 0..3 {
        env.sleep(600);
    }
    assert_eq!(left(&env), asked - 1, "nothing is done for what is gone");
}

#[test]
fn a_404_that_was_not_true_delays_a_flow_and_does_not_drop_it() {
    let mut env = TestEnv::with_fault(Fault::Refuse("create", Kind::Job, 1, refused(404, "NotFound")));
    env.submit("etl", spec());
    env.run();
    assert_eq!(env.status("etl")["phase"], "Succeeded", "{}", env.status("etl"));
    env.check_created_once();
}

#[test]
fn a_status_that_the_server_finds_too_large_is_written_at_the_next_level() {
    for (times, level) in [(1, 1), (2, 2)] {
        let mut env = TestEnv::new();
        env.endless = vec!["etl"];
        env.submit("etl", spec());
        env.settle();
        env.server.store().faults.push(Fault::Refuse(
            "patch",
            Kind::JobFlow,
            times,
            refused(413, "RequestEntityTooLarge"),
        ));
        env.endless.clear();
        env.run();
        let status = env.status("etl");
        let packed = &status["stepsPacked"];
        let found = if packed.is_null() { 0 } else { 1 + u32::from(!packed["refs"].is_null()) };
        assert_eq!((&status["phase"], found), (&json!("Succeeded"), level), "{status}");
    }
}

#[test]
fn a_quantity_that_only_a_parameter_shows_is_checked_before_the_job_is_made() {
    let mut env = TestEnv::new();
    let mut step = job("a");
    step["inputs"] = json!({"parameters": [{"name": "cpu", "value": "-1"}]});
    step["template"]["spec"]["template"]["spec"]["containers"][0]["resources"] =
        json!({"requests": {"cpu": "{{.parameters.cpu}}"}});
    env.submit("etl", json!({"steps": [step]}));
    env.run();
    let step = &env.status("etl")["steps"][0];
    assert_eq!((&step["phase"], &step["reason"]), (&json!("Failed"), &json!("TemplateInvalid")), "{step}");
    insta::assert_snapshot!(step["message"].as_str().unwrap(), @"spec.template.spec.containers[0].resources.requests.cpu: an amount of -1 is not above 0");
    assert!(env.server.list(Kind::Job).is_empty());
}

#[test]
fn a_job_that_a_queue_suspends_leaves_its_step_running_with_a_message() {
    let mut env = TestEnv::new();
    env.endless = vec!["etl"];
    env.submit("etl", spec());
    env.settle();
    let name = env.server.list(Kind::Job)[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let shown = |env: &TestEnv| env.status("etl")["steps"][0].clone();
    assert_eq!((&shown(&env)["phase"], &shown(&env)["message"]), (&json!("Running"), &json!(null)));
    env.server.edit(Kind::Job, &name, |job| job["spec"]["suspend"] = json!(true));
    env.settle();
    env.sleep(1);
    assert_eq!(shown(&env)["phase"], "Running");
    insta::assert_snapshot!(shown(&env)["message"].as_str().unwrap(), @"Suspended: its Job is suspended by another controller, such as a queue, and waits to be resumed");
    let writes = env.writes().len();
    env.restart();
    env.settle();
    assert_eq!(env.writes().len(), writes, "another controller has nothing to add");
    env.server.edit(Kind::Job, &name, |job| job["spec"]["suspend"] = json!(false));
    env.settle();
    env.sleep(1);
    assert_eq!(shown(&env)["waiting"], json!(null));
    assert!(shown(&env)["message"].as_str().unwrap().starts_with("its clock stood still for "), "{}", shown(&env));
}

#[test]
fn a_graceful_stop_deletes_the_job_that_a_queue_suspends_and_lets_the_other_finish() {
    let mut env = TestEnv::new();
    env.endless = vec!["held", "slow"];
    env.submit("etl", json!({"steps": [job("held"), job("slow")]}));
    env.settle();
    let jobs = |env: &TestEnv| -> Vec<String> {
        let names =
            env.server.list(Kind::Job).into_iter().map(|job| job["metadata"]["name"].as_str().unwrap().to_owned());
        names.collect()
    };
    let held = jobs(&env).into_iter().find(|name| name.contains("held")).unwrap();
    env.server.edit(Kind::Job, &held, |job| job["spec"]["suspend"] = json!(true));
    env.settle();
    env.sleep(1);
    env.server.edit(Kind::JobFlow, "etl", |flow| flow["spec"]["stop"] = json!("Graceful"));
    env.settle();
    assert!(jobs(&env).iter().all(|name| name.contains("slow")), "{:?}", jobs(&env));
    env.endless.clear();
    env.run();
    let status = env.status("etl");
    let of = |step: usize| (status["steps"][step]["phase"].clone(), status["steps"][step]["reason"].clone());
    assert_eq!((of(0), of(1).0), ((json!("Failed"), json!("Stopped")), json!("Succeeded")), "{status}");
}

#[test]
fn exit_codes_of_pods_decide_what_a_failure_means() {
    let mut env = TestEnv::new();
    let rules = json!([{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [42]}}]);
    env.submit("etl", json!({"steps": [job("bad")], "executionPolicy": {"podFailurePolicy": {"rules": rules}}}));
    env.settle();
    let name = env.server.list(Kind::Job).remove(0)["metadata"]["name"].as_str().unwrap().to_owned();
    env.server.put(Kind::Pod, json!({
        "metadata": {"name": "p", "labels": {"batch.kubernetes.io/job-name": name}},
        "status": {"phase": "Failed", "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": 42}}}]},
    }));
    env.run();
    let status = env.status("etl");
    assert_eq!((&status["phase"], &status["steps"][0]["reason"]), (&json!("Succeeded"), &json!("FailureIgnored")));
}

/// A step that is given a value of a Secret.
fn with_secret() -> serde_json::Value {
    let mut step = job("a");
    step["inputs"] =
        json!({"parameters": [{"name": "token", "valueFrom": {"secretKeyRef": {"name": "vault", "key": "t"}}}]});
    step["template"]["spec"]["template"]["spec"]["containers"][0]["env"] =
        json!([{"name": "T", "value": "{{.parameters.token}}"}]);
    step
}

#[test]
fn why_an_attempt_is_given_up_is_known_to_the_next_controller() {
    let mut env = TestEnv::new();
    env.endless = vec!["etl"];
    env.submit("etl", json!({"steps": [with_secret()]}));
    env.settle();
    let made = env.server.list(Kind::Job).remove(0);
    let (name, uid) = (made["metadata"]["name"].clone(), made["metadata"]["uid"].clone());
    env.server.edit(Kind::Job, name.as_str().unwrap(), |job| job["status"] = json!({"ready": 0}));
    let labels = json!({"batch.kubernetes.io/job-name": name, "batch.kubernetes.io/controller-uid": uid});
    env.server.put(
        Kind::Pod,
        json!({"metadata": {"name": "etl-a-x", "labels": labels},
            "status": {"startTime": made["metadata"]["creationTimestamp"], "containerStatuses": [{"name": "main", "state":
                {"waiting": {"reason": "CreateContainerConfigError", "message": "secret \"vault\" not found"}}}]}}),
    );
    env.sleep(60);
    assert!(env.server.list(Kind::Job).is_empty(), "its Job is deleted");
    assert_eq!(env.status("etl")["steps"][0]["phase"], "Running", "its pod is not gone yet");
    env.restart();
    env.settle();
    env.server.remove(Kind::Pod, "etl-a-x");
    env.run();
    let reported = &env.status("etl")["steps"][0];
    assert_eq!(
        (&reported["phase"], &reported["reason"]),
        (&json!("Failed"), &json!("ParameterUnresolved")),
        "{reported}"
    );
    assert_eq!(reported["message"], "container `main` has waited for 60 s: secret \"vault\" not found");
}

#[test]
fn pods_that_failed_are_reported_while_their_job_tries_others() {
    let mut env = TestEnv::new();
    env.endless = vec!["etl"];
    let mut step = job("a");
    step["template"]["spec"]["backoffLimit"] = json!(2);
    env.submit("etl", json!({"steps": [step]}));
    env.settle();
    let name = env.server.list(Kind::Job)[0]["metadata"]["name"].as_str().unwrap().to_owned();
    for (failed, code) in [(1, 3), (2, 1)] {
        env.server.put(
            Kind::Pod,
            json!({
                "metadata": {"name": format!("p{failed}"), "labels": {"batch.kubernetes.io/job-name": name}},
                "status": {"phase": "Failed", "containerStatuses": [{"name": "main", "state":
                    {"terminated": {"exitCode": code, "finishedAt": format!("2026-11-21T10:00:0{failed}Z")}}}]},
            }),
        );
        env.server.edit(Kind::Job, &name, |job| job["status"] = json!({"ready": 1, "failed": failed}));
        env.settle();
        env.sleep(1);
        let reported = env.status("etl")["steps"][0].clone();
        let message = format!("PodFailed: {failed} of 3 pods failed, last: exit {code} of container `main`");
        assert_eq!((&reported["phase"], &reported["message"]), (&json!("Running"), &json!(message)), "{reported}");
        assert_eq!(reported["waiting"]["on"], "NextPod");
    }
    let writes = env.writes().len();
    env.restart();
    env.settle();
    env.sleep(1);
    assert_eq!(env.writes().len(), writes, "another controller has nothing to add");
}

#[test]
fn a_pod_that_waits_a_minute_for_its_secret_fails_the_step() {
    let step = with_secret();
    for restarts in [false, true] {
        let mut env = TestEnv::new();
        env.endless = vec!["etl"];
        env.submit("etl", json!({"steps": [step]}));
        env.settle();
        let name = env.server.list(Kind::Job)[0]["metadata"]["name"].clone();
        let started = env.server.list(Kind::Job)[0]["metadata"]["creationTimestamp"].clone();
        env.server.edit(Kind::Job, name.as_str().unwrap(), |job| job["status"] = json!({"ready": 0}));
        env.server.put(
            Kind::Pod,
            json!({"metadata": {"name": "etl-a-x", "labels": {"batch.kubernetes.io/job-name": name}},
            "status": {"startTime": started, "containerStatuses": [{"name": "main", "state": {"waiting":
                {"reason": "CreateContainerConfigError", "message": "secret \"vault\" not found"}}}]}}),
        );
        env.sleep(30);
        if restarts {
            env.restart();
            env.settle();
        }
        assert_eq!(env.status("etl")["phase"], "Running");
        env.sleep(30);
        let status = env.status("etl");
        let reported = &status["steps"][0];
        assert_eq!(
            (&reported["phase"], &reported["reason"]),
            (&json!("Failed"), &json!("ParameterUnresolved")),
            "{status}"
        );
        assert_eq!(reported["message"], "container `main` has waited for 60 s: secret \"vault\" not found");
        assert!(env.server.list(Kind::Job).is_empty());
        env.check_created_once();
    }
}
