//! Probes and metrics over HTTP.

use std::sync::Arc;

use axum::Router;
use axum::extract::RawQuery;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::OperatorHealth;
use super::health::Check;
use super::observe::Monitors;
use crate::telemetry::metrics::OperatorMetrics;

/// Routes: those for probes, and where there is something that knows how objects stand, those for people and Prometheus too.
pub(super) fn router(
    metrics: &Arc<OperatorMetrics>,
    health: &OperatorHealth,
    monitors: Option<Arc<Monitors>>,
) -> Router {
    let (alive, ready, counted) = (health.clone(), health.clone(), health.clone());
    let probes = Router::new()
        .route("/healthz", get(async move |RawQuery(query)| answer(&alive.alive(), query.as_deref(), "")))
        .route(
            "/readyz",
            get(async move |RawQuery(query)| {
                let leader = format!("leader: {}\n", ready.leader());
                answer(&ready.ready(), query.as_deref(), &leader)
            }),
        );
    let Some(monitors) = monitors else { return probes };
    let metrics = Arc::clone(metrics);
    probes
        .route("/version", get(async || concat!("orlop-operator ", env!("CARGO_PKG_VERSION"), "\n")))
        .route("/metrics", get(async move || counts(&metrics, &counted, &monitors)))
}

fn counts(metrics: &OperatorMetrics, health: &OperatorHealth, monitors: &Monitors) -> Response {
    monitors.stand();
    metrics.controllers.leader.set(i64::from(health.leads()));
    match metrics.text() {
        Ok(text) => {
            ([(CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

/// The answer to a probe: what does not hold, with `?verbose` also what does.
fn answer(checks: &[Check], query: Option<&str>, more: &str) -> Response {
    let verbose = query.is_some_and(|query| query.split('&').any(|part| part.split('=').next() == Some("verbose")));
    let good = checks.iter().all(|(_, reported)| reported.is_ok());
    let mut text = String::new();
    for (name, reported) in checks {
        match reported {
            Err(why) => text.push_str(&format!("{name}: {why}\n")),
            Ok(()) if verbose => text.push_str(&format!("{name}: ok\n")),
            Ok(()) => {}
        }
    }
    if verbose {
        text.push_str(more);
    }
    if text.is_empty() {
        text.push_str("ok\n");
    }
    (if good { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, text).into_response()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::body::{Body, to_bytes};
    use axum::http::Request;
    use orlop_k8s::flow::{ControllerEvent, Monitor as _};
    use orlop_k8s::shell::LoopEvent;
    use orlop_k8s::shell::lease::Term;
    use tower::ServiceExt as _;

    use super::super::Which;
    use super::*;

    /// An operator that leads, whose loop goes round and has seen all.
    fn leading() -> (OperatorHealth, Monitors, Router) {
        let metrics = Arc::new(OperatorMetrics::new());
        let health = OperatorHealth::new(&[Which::JobFlow], Term::without_end(), false);
        let monitors = Monitors::new(&metrics, &health);
        monitors.flows.record(ControllerEvent::Loop(LoopEvent::Heartbeat { depth: 0 }));
        monitors.flows.record(ControllerEvent::Loop(LoopEvent::Synced));
        health.reached();
        let router = router(&metrics, &health, None);
        (health, monitors, router)
    }

    async fn ask(router: &Router, path: &str) -> (u16, String) {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let answer = router.clone().oneshot(request).await.unwrap();
        let code = answer.status().as_u16();
        let text = to_bytes(answer.into_body(), 10_000).await.unwrap();
        (code, String::from_utf8(text.to_vec()).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_has_not_beaten_for_30_s_is_not_alive() {
        let (_, monitors, router) = leading();
        tokio::time::advance(Duration::from_secs(30)).await;
        assert_eq!(ask(&router, "/healthz").await, (200, "ok\n".to_owned()));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(ask(&router, "/healthz").await, (503, "jobflow: its loop has been stuck for 31 s\n".to_owned()));
        monitors.flows.record(ControllerEvent::Loop(LoopEvent::Heartbeat { depth: 0 }));
        assert_eq!(ask(&router, "/healthz").await.0, 200);
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_the_server_does_not_let_in_makes_the_operator_not_ready() {
        let (_, monitors, router) = leading();
        assert_eq!(ask(&router, "/readyz").await, (200, "ok\n".to_owned()));
        monitors.flows.record(ControllerEvent::Loop(LoopEvent::WatchFailed {
            resource: "jobs",
            code: Some(401),
            message: "m",
        }));
        let reported = "jobflow: the server does not accept the credentials of the service account\n";
        assert_eq!(ask(&router, "/readyz").await, (503, reported.to_owned()));
        monitors.flows.record(ControllerEvent::Loop(LoopEvent::WatchListed { resource: "jobs" }));
        assert_eq!(ask(&router, "/readyz").await.0, 200);
    }
}
