//! Probes and metrics over HTTP (flow contract, section 5.3). Owns routes and answers; says nothing a label or a log may not
//! say.

use std::sync::Arc;

use axum::Router;
use axum::extract::RawQuery;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::Standing;
use super::observe::Monitors;
use super::standing::Check;
use crate::telemetry::metrics::OperatorMetrics;

/// Routes: those for probes, and where there is something that knows how objects stand, those for people and Prometheus too.
pub(super) fn router(metrics: &Arc<OperatorMetrics>, standing: &Standing, monitors: Option<Arc<Monitors>>) -> Router {
    let (alive, ready, counted) = (standing.clone(), standing.clone(), standing.clone());
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

fn counts(metrics: &OperatorMetrics, standing: &Standing, monitors: &Monitors) -> Response {
    monitors.stand();
    metrics.controllers.leader.set(i64::from(standing.leads()));
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
    let good = checks.iter().all(|(_, told)| told.is_ok());
    let mut text = String::new();
    for (name, told) in checks {
        match told {
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
