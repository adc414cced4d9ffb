//! The double under its own suite, and what only the double can do.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::*;
use crate::attempt::{ArtifactCollection, AttemptKey, AttemptSpec, EndResult, OutputFile};
use crate::error::Class;
use crate::ports::substrate::{FlowOwner, Substrate};
use crate::spec::flow::ResourceTemplates;
use crate::testing::wait::at_once;
use crate::time::Time;

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn key(step: &str) -> AttemptKey {
    AttemptKey { flow: Arc::from("u"), step: Arc::from(step), item: None, attempt: 1 }
}

fn spec(key: &AttemptKey) -> AttemptSpec {
    AttemptSpec {
        function: None,
        key: key.clone(),
        flow_name: "f".to_owned(),
        namespace: "default".to_owned(),
        job_name: format!("f-{}", key.step),
        template: Arc::new(shell_job("busybox", "", &Behaviour::Exit(0))),
        inputs: Vec::new(),
        output_files: vec![OutputFile { name: "size".to_owned(), path: "/out/size".to_owned() }],
        output_artifacts: vec![ArtifactCollection {
            name: "model".to_owned(),
            path: "/out/model".to_owned(),
            optional: false,
            archive: None,
            s3: None,
        }],
    }
}

/// Keys and results of all reports there are.
async fn reports(substrate: &ScriptedSubstrate) -> Vec<String> {
    let mut all = Vec::new();
    while let Some(report) = at_once(substrate.next()).await {
        all.push(format!("{} {:?} at {}", report.key, report.end.result, report.end.ended_at.millis()));
    }
    all
}

#[tokio::test]
async fn the_double_passes_the_suite() {
    let passed = substrate_suite(&ScriptedWorlds::default()).await.unwrap_or_else(|error| panic!("{error}"));
    assert!(passed.len() >= 40, "{} checks", passed.len());
}

#[tokio::test]
async fn an_unscripted_attempt_succeeds_with_all_its_outputs() {
    let substrate = ScriptedSubstrate::new();
    substrate.start(spec(&key("build"))).await.unwrap();
    let end = substrate.next().await.end;
    assert_eq!(end.result, EndResult::Succeeded);
    assert_eq!(end.files[0].content.as_deref(), Ok("build/size"));
    assert_eq!(end.artifacts[0].location.as_ref().unwrap().sha256.len(), 64);
    substrate.script(When::step("test"), Play::success().file("size", "7").without("model").termination("{\"n\":1}"));
    substrate.start(spec(&key("test"))).await.unwrap();
    let end = substrate.next().await.end;
    assert_eq!(end.files[0].content.as_deref(), Ok("7"));
    assert!(end.artifacts.is_empty());
    assert_eq!(end.document["termination"], json!({ "exitCode": 0, "message": "{\"n\":1}", "json": { "n": 1 } }));
}

#[tokio::test]
async fn the_last_matching_play_counts() {
    let substrate = ScriptedSubstrate::new();
    substrate.script(When::any(), Play::exit(1));
    substrate.script(When::step("a"), Play::lost());
    substrate.script(When::step("a").attempt(2), Play::gone());
    substrate.script(When::step("a").item(4), Play::failed("OOMKilled", "no memory"));
    let second = AttemptKey { attempt: 2, ..key("a") };
    let fourth = AttemptKey { item: Some(4), ..key("a") };
    for key in [key("b"), key("a"), second, fourth] {
        substrate.start(spec(&key)).await.unwrap();
    }
    insta::assert_snapshot!(reports(&substrate).await.join("\n"), @r#"
    u/b/1 Failed { reason: "NonZeroExit", message: "exit code 1" } at 0
    u/a/1 Lost at 0
    u/a/2 Gone at 0
    u/a-i4/1 Failed { reason: "OOMKilled", message: "no memory" } at 0
    "#);
    assert_eq!(substrate.list("u").await.unwrap().len(), 2, "what is lost or gone is not listed");
}

#[tokio::test]
async fn ends_come_in_order_of_virtual_time() {
    let substrate = ScriptedSubstrate::new();
    for (step, after) in [("slow", 30), ("fast", 10), ("middle", 20)] {
        substrate.script(When::step(step), Play::success().after(millis(after)));
        substrate.start(spec(&key(step))).await.unwrap();
    }
    insta::assert_snapshot!(reports(&substrate).await.join("\n"), @"
    u/fast/1 Succeeded at 10
    u/middle/1 Succeeded at 20
    u/slow/1 Succeeded at 30
    ");
    assert_eq!(substrate.now(), Time::from_millis(30));
}

#[tokio::test]
async fn a_manual_clock_moves_only_when_told() {
    let substrate = ScriptedSubstrate::new();
    substrate.use_manual_clock();
    substrate.script(When::any(), Play::success().after(millis(10)));
    substrate.start(spec(&key("a"))).await.unwrap();
    assert!(reports(&substrate).await.is_empty());
    substrate.advance(millis(4));
    substrate.suspend(&key("a")).await.unwrap();
    substrate.advance(millis(100));
    assert!(reports(&substrate).await.is_empty());
    substrate.resume(&key("a")).await.unwrap();
    substrate.advance(millis(5));
    assert!(reports(&substrate).await.is_empty());
    substrate.advance(millis(1));
    assert_eq!(reports(&substrate).await, ["u/a/1 Succeeded at 110"]);
}

#[tokio::test]
async fn a_waiting_host_is_woken() {
    let substrate = ScriptedSubstrate::new();
    substrate.use_manual_clock();
    substrate.script(When::any(), Play::forever());
    substrate.start(spec(&key("a"))).await.unwrap();
    let host = substrate.clone();
    let waiting = tokio::spawn(async move { host.next().await.key });
    tokio::task::yield_now().await;
    substrate.finish_as(&key("a"), EndResult::Lost);
    assert_eq!(waiting.await.unwrap(), key("a"));
}

#[tokio::test]
async fn starts_are_delayed_then_accepted_or_refused_for_ever() {
    let substrate = ScriptedSubstrate::new();
    let delayed = Play::exit(2).delayed(2, Class::Transient, "ApiUnavailable").delayed(1, Class::Capacity, "Throttled");
    substrate.script(When::step("late"), delayed.retry_after(millis(50)));
    substrate.script(When::step("never"), Play::refused(Class::Invalid, "Unschedulable", "no such machine"));
    let mut answers = Vec::new();
    for _ in 0..4 {
        let answer = substrate.start(spec(&key("late"))).await;
        answers
            .push(answer.map_or_else(|error| format!("{} {:?}", error.class, error.retry_after), |_| "yes".to_owned()));
    }
    assert_eq!(answers, ["transient Some(50ms)", "transient Some(50ms)", "capacity Some(50ms)", "yes"]);
    for _ in 0..3 {
        let error = substrate.start(spec(&key("never"))).await.unwrap_err();
        assert_eq!((error.class, error.reason), (Class::Invalid, Some("Unschedulable")));
    }
    assert_eq!((substrate.executions(&key("late")), substrate.executions(&key("never"))), (1, 0));
}

#[tokio::test]
async fn reports_are_duplicated_delayed_and_reordered() {
    let substrate = ScriptedSubstrate::new();
    substrate.deliver(Delivery { duplicates: 2, ..Delivery::default() });
    substrate.start(spec(&key("a"))).await.unwrap();
    assert_eq!(reports(&substrate).await.len(), 3);
    substrate.deliver(Delivery { delay: millis(5), jitter: millis(1000), seed: 7, ..Delivery::default() });
    let steps: Vec<AttemptKey> = (0..20).map(|number| key(&format!("s{number:02}"))).collect();
    for key in &steps {
        substrate.start(spec(key)).await.unwrap();
    }
    let mut order = Vec::new();
    while let Some(report) = at_once(substrate.next()).await {
        order.push(report.key);
    }
    assert_ne!(order, steps);
    order.sort();
    assert_eq!(order, steps);
    substrate.hold_reports();
    substrate.start(spec(&key("held"))).await.unwrap();
    assert!(reports(&substrate).await.is_empty());
    substrate.release_reports();
    assert_eq!(reports(&substrate).await.len(), 1);
}

#[tokio::test]
async fn calls_fail_before_or_after_they_are_carried_out() {
    let substrate = ScriptedSubstrate::new();
    substrate.fail_calls(Operation::Start, 1, Class::Capacity);
    substrate.lose_answers(Operation::Start, 1);
    assert_eq!(substrate.start(spec(&key("a"))).await.unwrap_err().class, Class::Capacity);
    assert_eq!(substrate.executions(&key("a")), 0);
    assert_eq!(substrate.start(spec(&key("a"))).await.unwrap_err().class, Class::Transient);
    assert_eq!(substrate.executions(&key("a")), 1);
    substrate.start(spec(&key("a"))).await.unwrap();
    assert_eq!(substrate.executions(&key("a")), 1);
    assert_eq!(substrate.repeated(), Vec::<AttemptKey>::new());
    substrate.cancel(&key("a"), Some(millis(9))).await.unwrap();
    substrate.list("u").await.unwrap();
    let calls: Vec<String> = substrate.take_calls().iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(calls.join("\n"), @"
    start u/a/1
    start u/a/1
    start u/a/1
    cancel u/a/1 within 9ms
    list u
    ");
    assert!(substrate.calls().is_empty());
}

#[tokio::test]
async fn a_dying_machine_loses_its_attempts() {
    let substrate = ScriptedSubstrate::new();
    substrate.script(When::any(), Play::forever());
    substrate.start(spec(&key("a"))).await.unwrap();
    assert_eq!(substrate.live(), [key("a")]);
    substrate.lose_all();
    assert_eq!(reports(&substrate).await, ["u/a/1 Lost at 0"]);
    substrate.start(spec(&key("a"))).await.unwrap();
    assert_eq!(reports(&substrate).await, ["u/a/1 Lost at 0"], "the key stays used");
}

#[tokio::test]
async fn a_cancelled_attempt_may_take_its_time_or_finish() {
    let substrate = ScriptedSubstrate::new();
    substrate.script(When::step("slow"), Play::forever().cancel_takes(millis(30)));
    substrate.script(When::step("busy"), Play::success().after(millis(10)).ignores_cancel());
    for step in ["slow", "busy"] {
        substrate.start(spec(&key(step))).await.unwrap();
        substrate.cancel(&key(step), None).await.unwrap();
    }
    assert_eq!(reports(&substrate).await, ["u/busy/1 Succeeded at 10", "u/slow/1 Cancelled at 30"]);
}

#[tokio::test]
async fn a_foreign_resource_is_a_conflict() {
    let substrate = ScriptedSubstrate::new();
    substrate.occupy("default", "f-data");
    let owner = FlowOwner { uid: "u".to_owned(), name: "f".to_owned(), namespace: "default".to_owned() };
    let claim = json!({ "metadata": { "name": "data" } });
    let templates = ResourceTemplates { volume_claim_templates: vec![claim], ..ResourceTemplates::default() };
    let error = substrate.ensure_resources(&owner, &templates).await.unwrap_err();
    assert_eq!((error.class, error.reason), (Class::Exists, Some("ResourceConflict")));
    insta::assert_snapshot!(error, @"PersistentVolumeClaim `default/f-data` belongs to somebody else");
}

#[tokio::test]
async fn what_cannot_be_suspended_says_so() {
    let substrate = ScriptedSubstrate::new();
    substrate.script(When::any(), Play::forever().not_suspendable());
    substrate.start(spec(&key("a"))).await.unwrap();
    assert_eq!(substrate.suspend(&key("a")).await.unwrap_err().class, Class::Invalid);
}
