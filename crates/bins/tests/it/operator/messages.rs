//! What `orlop flow … --target kube` tells of a flow that does not go on: nobody has taken it up, it was refused, it waits, its
//! pods fail.

use serde_json::{Value, json};

use super::command::Bench;
use super::double::{plain_server, server};
use super::step;

/// A step whose pods exit with a code, and which says nothing of tries.
fn failing(name: &str, code: u32) -> Value {
    let mut step = step(name, &[], &json!({"fake/exit-code": code.to_string()}));
    step["template"]["spec"].as_object_mut().unwrap().remove("backoffLimit");
    step
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flow_that_no_operator_takes_up_is_reported_with_what_to_do() {
    let bench = Bench::with(server(true)).await;
    bench.write("etl", &json!({"steps": [step("a", &[], &json!({}))]}));
    assert_eq!(bench.good("submit etl.json").await, "etl");
    for verb in ["get etl", "explain etl"] {
        let reported = bench.good(verb).await;
        assert!(
            reported.contains("no operator has picked up flow `etl` yet") && reported.contains("`orlop operator"),
            "{reported}"
        );
        assert!(reported.contains("namespace `other`") && !reported.contains("Pending"), "{reported}");
    }
    assert!(bench.good("list").await.contains("no operator has picked up this flow yet"));
    let (code, reported) = bench.orlop("watch etl --timeout 13s").await;
    assert!(
        code == 8 && reported.matches("no operator has picked up flow `etl` yet").count() == 1,
        "{code} {reported}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_sees_what_the_flow_waits_for() {
    let bench = Bench::new().await;
    let spec = |step: Value| json!({"steps": [step], "executionPolicy": {"concurrencyKey": "k"}});
    bench.write("first", &spec(json!({"name": "gate", "type": "Manual"})));
    bench.write("second", &spec(step("a", &[], &json!({}))));
    assert_eq!(bench.orlop("submit first.json --wait --timeout 3s").await.0, 8);
    for words in [
        "submit second.json --wait --timeout 5s",
        "watch second --timeout 5s",
        "submit second.json --name third --watch --timeout 5s",
    ] {
        let (code, reported) = bench.orlop(words).await;
        assert_eq!(code, 8, "{words}: {reported}");
        assert_eq!(reported.matches(" Pending: ").count(), 1, "{words}: {reported}");
        assert!(reported.contains("first"), "who holds the key is named: {reported}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_is_tried_once_unless_its_template_says_more_and_its_failures_are_reported() {
    let bench = Bench::new().await;
    bench.write("once", &json!({"steps": [failing("a", 3)]}));
    let (code, reported) = bench.orlop("run once.json").await;
    assert_eq!(code, 1, "{reported}");
    let jobs = bench.server.look_all("jobs.batch");
    let rule = json!({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]});
    assert_eq!((&jobs[0]["spec"]["backoffLimit"], &jobs[0]["status"]["failed"]), (&json!(0), &json!(1)));
    assert_eq!(jobs[0]["spec"]["podFailurePolicy"]["rules"], json!([rule]));
    let mut twice = failing("a", 3);
    twice["template"]["spec"]["backoffLimit"] = json!(1);
    bench.write("twice", &json!({"steps": [twice]}));
    let (code, reported) = bench.orlop("run twice.json").await;
    assert!(
        code == 1 && reported.contains("a Running: PodFailed: 1 of 2 pods failed, last: exit 3 of container `main`"),
        "{reported}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_refusal_of_an_operator_is_what_explains_a_flow() {
    let bench = Bench::with(plain_server(true)).await.operated();
    let mut moved = step("a", &[], &json!({}));
    moved["outputs"] = json!({"artifacts": [{"name": "o", "path": "/tmp/o"}]});
    bench.write("moved", &json!({"steps": [moved]}));
    let (code, reported) = bench.orlop("submit moved.json --wait").await;
    assert!(code == 1 && reported.contains("--helper-image"), "{reported}");
    let why = bench.good("explain moved").await;
    assert!(why.starts_with("moved is Failed (ValidationFailed)"), "{why}");
    assert!(why.contains("was started without --helper-image and --artifact-url"), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_is_waited_for_and_a_step_that_never_started_has_no_log_for_a_reason() {
    let bench = Bench::new().await;
    bench.write("bad", &json!({"steps": [failing("a", 3), step("b", &["a"], &json!({}))]}));
    assert_eq!(bench.orlop("run bad.json").await.0, 1);
    let (code, reported) = bench.orlop("retry bad --wait").await;
    assert!(code == 1 && reported.contains("bad-r2") && reported.contains("Failed"), "{reported}");
    let reported = bench.good("logs bad b").await;
    assert!(
        reported.starts_with("no attempt of `b` has started, so it has no log; b is Skipped (DependencyFailed)"),
        "{reported}"
    );
    let (code, reported) = bench.orlop("retry bad --step a[0]").await;
    assert_eq!((code, reported.as_str()), (4, "error: flow `bad` has no step `a[0]`"), "it is no fan-out");
}
