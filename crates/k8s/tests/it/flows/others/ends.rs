//! How flows come to their end: order, times, exit codes, conditions, and what is left of them.

use std::time::Duration;

use super::{apply, ended, jobs, object};
use crate::flows::test_env::TestEnv;

#[tokio::test]
async fn steps_run_in_the_order_of_their_dependencies_and_the_flow_goes_after_its_time_to_live() {
    let mut env = ended("harvest").await;
    insta::assert_snapshot!(env.outcome("harvest"), @"
    Succeeded 4/4
    fields Succeeded/- 1
    barns Succeeded/- 1
    ship Succeeded/- 1
    join Succeeded/- 1
    ");
    let created: Vec<String> =
        env.writes().into_iter().filter(|write| write.resource == "jobs.batch").map(|write| write.name).collect();
    let order: Vec<&str> = created.iter().filter_map(|name| name.split('-').nth(1)).collect();
    assert_eq!(order, ["fields", "barns", "join", "ship"]);
    let labelled = |key: &str| env.jobs().iter().filter(|job| job["metadata"]["labels"][key] == "harvest").count();
    assert_eq!((labelled("jobflow"), labelled("workflow.kube-zen.io/flow")), (4, 4), "as they are looked for");
    let ship = jobs(&env, "ship").remove(0);
    assert_eq!(ship["metadata"]["labels"]["team"], "freight");
    assert_eq!(ship["metadata"]["annotations"]["example.com/pager"], "freight");
    let status = env.status("harvest");
    let progress = &status["progress"];
    assert_eq!(
        (&progress["completedSteps"], &progress["totalSteps"], &progress["successfulSteps"]),
        (&4.into(), &4.into(), &4.into())
    );
    let is = |kind: &str| {
        let conditions = status["conditions"].as_array().expect("conditions");
        conditions.iter().any(|condition| condition["type"] == kind && condition["status"] == "True")
    };
    assert!(is("Ready") && is("Completed") && !is("Failed"), "{status}");
    env.server.clock().advance(Duration::from_secs(3_500));
    env.restart().await;
    env.settle().await;
    assert_eq!(env.status("harvest")["phase"], "Succeeded", "its hour is not over");
    env.server.clock().advance(Duration::from_secs(100));
    env.restart().await;
    env.settle().await;
    assert!(env.server.look_all("jobflows.workflow.kube-zen.io").is_empty() && env.jobs().is_empty());
}

#[tokio::test]
async fn a_step_that_takes_too_long_is_deleted_and_a_flow_that_does_is_ended() {
    let env = ended("limits").await;
    insta::assert_snapshot!(env.outcome("limits"), @"
    Failed 4/4
    optional Failed/Timeout 1
    after Succeeded/- 1
    forever Failed/ActiveDeadlineExceeded 1
    never-reached Skipped/ActiveDeadlineExceeded null
    ");
    assert!(jobs(&env, "optional").is_empty() && jobs(&env, "forever").is_empty(), "what took too long is deleted");
    let status = env.status("limits");
    let time =
        |field: &str| status[field].as_str().and_then(|text| text.parse::<jiff::Timestamp>().ok()).expect("a time");
    assert_eq!((time("completionTime") - time("startTime")).get_seconds(), 300);
    assert_eq!(status["conditions"][0]["reason"], "ActiveDeadlineExceeded");
}

#[tokio::test]
async fn exit_codes_say_what_a_failure_means() {
    let env = ended("codes").await;
    insta::assert_snapshot!(env.outcome("codes"), @"
    Failed 3/3
    expected Succeeded/FailureIgnored 1
    counted Succeeded/FailureCounted 1
    wrong Failed/BackoffLimitExceeded 1
    ");
    assert_eq!(jobs(&env, "wrong").len(), 1, "whoever says FailJob wants no other try");
    assert_eq!(env.status("codes")["retries"], 1, "what is counted is counted");
}

#[tokio::test]
async fn conditions_decide_which_steps_run() {
    let env = ended("conditions").await;
    insta::assert_snapshot!(env.outcome("conditions"), @"
    Succeeded 12/12
    first Succeeded/- 1
    shaky Failed/BackoffLimitExceeded 1
    word-true Succeeded/- 1
    word-never Skipped/ConditionFalse null
    word-false Skipped/ConditionFalse null
    after-never Succeeded/- 1
    phase-is Succeeded/- 1
    phase-failed Succeeded/- 1
    phase-not Skipped/ConditionFalse null
    told-by-template Succeeded/- 1
    told-otherwise Skipped/ConditionFalse null
    by-name Succeeded/- 1
    ");
}

#[tokio::test]
async fn a_time_to_live_of_zero_ends_with_the_flow() {
    let mut manifest = object("harvest");
    manifest["spec"]["executionPolicy"]["ttlSecondsAfterFinished"] = 0.into();
    let mut env = TestEnv::new();
    apply(&env, &manifest).await;
    env.run().await;
    assert!(env.server.look_all("jobflows.workflow.kube-zen.io").is_empty() && env.jobs().is_empty());
}

#[tokio::test]
async fn an_untolerated_failure_stops_the_flow() {
    let mut manifest = object("conditions");
    manifest["spec"]["steps"][1]["continueOnFailure"] = false.into();
    let mut env = TestEnv::new();
    apply(&env, &manifest).await;
    env.run().await;
    let status = env.status("conditions");
    assert_eq!((&status["phase"], &status["conditions"][0]["reason"]), (&"Failed".into(), &"FlowFailed".into()));
    assert!(jobs(&env, "phase-failed").is_empty(), "what comes after it is not begun");
}
