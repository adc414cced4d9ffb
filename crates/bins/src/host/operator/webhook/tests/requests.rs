//! Requests: what is answered, with which code, and what is not because it costs too much.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use futures::stream;
use http_body_util::BodyExt as _;
use orlop_core::time::Time;
use orlop_k8s::admission::{BODY_MAX, Settings};
use orlop_k8s::shell::Clock;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::super::answer::Desk;
use super::now;
use crate::telemetry::metrics::OperatorMetrics;

struct Stands;

impl Clock for Stands {
    fn now(&self) -> Time {
        now()
    }
}

struct Fixture {
    desk: Arc<Desk>,
    metrics: OperatorMetrics,
}

impl Fixture {
    fn new() -> Self {
        let metrics = OperatorMetrics::new();
        let desk = Desk::new(Settings::default(), Arc::new(Stands), Arc::clone(&metrics.webhook));
        Self { desk: Arc::new(desk), metrics }
    }

    async fn ask(&self, method: &str, path: &str, body: Body) -> (u16, String) {
        let request = Request::builder().method(method).uri(path).body(body).unwrap();
        let answer = self.desk.router().oneshot(request).await.unwrap();
        let code = answer.status().as_u16();
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8(bytes.to_vec()).unwrap())
    }

    async fn post(&self, path: &str, body: impl Into<Body>) -> (u16, String) {
        self.ask("POST", path, body.into()).await
    }

    fn has(&self, line: &str) {
        let text = self.metrics.text().unwrap();
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

fn review(steps: &Value) -> String {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u-1", "operation": "CREATE", "userInfo": {"username": "ann"},
        "kind": {"group": "workflow.kube-zen.io", "version": "v1alpha1", "kind": "JobFlow"},
        "object": {"apiVersion": "workflow.kube-zen.io/v1alpha1", "kind": "JobFlow", "metadata": {"name": "f"},
            "spec": {"steps": steps}}}})
    .to_string()
}

fn gate() -> Value {
    json!([{"name": "gate", "type": "Manual"}])
}

#[tokio::test]
async fn reviews_are_answered_in_200_and_counted_by_what_came_of_them() {
    let fixture = Fixture::new();
    let (code, text) = fixture.post("/validate-jobflow", review(&gate())).await;
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &answer["response"]["allowed"], &answer["response"]["uid"]), (200, &json!(true), &json!("u-1")));
    let (code, text) = fixture.post("/validate-jobflow", review(&json!([]))).await;
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &answer["response"]["status"]["code"]), (200, &json!(422)));
    let (code, text) = fixture.post("/mutate-jobflow", review(&gate())).await;
    assert!(code == 200 && text.contains("JSONPatch"), "{text}");
    for (path, result) in [("validate", "allowed"), ("validate", "refused"), ("mutate", "patched")] {
        fixture.has(&format!("orlop_webhook_requests_total{{path=\"/{path}-jobflow\",result=\"{result}\"}} 1"));
    }
    fixture.has("orlop_webhook_duration_seconds_count{path=\"/validate-jobflow\"} 2");
}

#[tokio::test]
async fn not_post_is_405_and_an_unreadable_body_400() {
    let fixture = Fixture::new();
    for method in ["GET", "PUT", "DELETE", "PATCH"] {
        assert_eq!(fixture.ask(method, "/validate-jobflow", Body::empty()).await.0, 405, "{method}");
    }
    for body in ["", "{", "\u{0}", "{\"apiVersion\":\"v1\",\"kind\":\"Pod\"}"] {
        assert_eq!(fixture.post("/mutate-jobflow", body).await.0, 400, "{body}");
    }
    assert_eq!(fixture.post("/validate-pods", "{}").await.0, 404);
    assert_eq!(fixture.ask("GET", "/healthz", Body::empty()).await, (200, "ok\n".to_owned()));
    insta::assert_snapshot!(fixture.post("/validate-jobflow", "[1]").await.1, @"the body is not an AdmissionReview: invalid type: integer `1`, expected a string at line 1 column 2; POST one of admission.k8s.io/v1");
    fixture.has("orlop_webhook_requests_total{path=\"/mutate-jobflow\",result=\"unreadable\"} 4");
}

/// A body whose length nobody promises.
fn pieces(count: usize, bytes: usize) -> Body {
    Body::from_stream(stream::iter((0..count).map(move |_| Ok::<_, std::io::Error>(vec![b' '; bytes]))))
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_and_not_kept() {
    let fixture = Fixture::new();
    assert_eq!(fixture.post("/validate-jobflow", vec![b' '; BODY_MAX]).await.0, 400, "it is read");
    let (code, text) = fixture.post("/validate-jobflow", vec![b' '; BODY_MAX + 1]).await;
    assert_eq!((code, text.as_str()), (413, "the review has more than 8388608 bytes\n"));
    assert_eq!(fixture.post("/validate-jobflow", pieces(1 << 20, 1 << 20)).await.0, 413);
    let broken = stream::iter([Ok(vec![b'{']), Err(std::io::Error::other("gone"))]);
    assert_eq!(fixture.post("/validate-jobflow", Body::from_stream(broken)).await.0, 400);
    fixture.has("orlop_webhook_requests_total{path=\"/validate-jobflow\",result=\"large\"} 2");
    fixture.has("orlop_webhook_requests_total{path=\"/validate-jobflow\",result=\"broken\"} 1");
}

/// A body that begins with so many bytes and never ends.
fn endless(bytes: usize) -> Body {
    let begin = stream::iter([Ok::<_, std::io::Error>(vec![b' '; bytes])]);
    Body::from_stream(futures::StreamExt::chain(begin, stream::pending()))
}

#[tokio::test(start_paused = true)]
async fn bodies_that_do_not_end_are_given_up_and_hold_a_bounded_amount_meanwhile() {
    let fixture = Arc::new(Fixture::new());
    let held: Vec<_> = (0..8)
        .map(|_| {
            let fixture = Arc::clone(&fixture);
            tokio::spawn(async move { fixture.post("/validate-jobflow", endless(BODY_MAX)).await })
        })
        .collect();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (code, text) = fixture.post("/validate-jobflow", review(&gate())).await;
    assert_eq!((code, text.as_str()), (503, "too many reviews arrive at once\n"));
    for held in held {
        let (code, text) = held.await.unwrap();
        assert_eq!((code, text.as_str()), (408, "the review did not arrive within 5 s\n"));
    }
    assert_eq!(fixture.post("/validate-jobflow", review(&gate())).await.0, 200, "what was held is given back");
    fixture.has("orlop_webhook_requests_total{path=\"/validate-jobflow\",result=\"late\"} 8");
    fixture.has("orlop_webhook_requests_total{path=\"/validate-jobflow\",result=\"busy\"} 1");
}
