//! The server itself: whether it is well, what it counts, what it is. Owns these answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::call::Call;
use super::super::openapi;
use super::super::reply::{Answer, Reply};
use super::super::state::Api;
use super::super::view::fleet::{Allocation, Health, Stats, Version};
use super::super::view::tenant::UsageView;
use super::super::view::time;
use super::super::view::worker::band;
use crate::host::scheduler::{Snapshot, Status};
use crate::telemetry::metrics::Metrics;
use crate::wire::problem::{Code, Problem};

/// What messages about attempts are worth, in the order in which they are counted.
const VERDICTS: [&str; 5] = ["unknown", "duplicate", "accepted", "adopted", "stale"];

fn word(status: &Status) -> &'static str {
    match status {
        Status::Leading { .. } => "leading",
        Status::Standby { .. } => "standby",
        Status::Restoring => "restoring",
        Status::Stopped => "stopped",
    }
}

fn workers(snapshot: &Snapshot) -> BTreeMap<String, u64> {
    let mut states = BTreeMap::new();
    for picture in snapshot.workers.values() {
        *states.entry(picture.view.state.to_string()).or_default() += 1;
    }
    states
}

/// GET /stats
pub(in super::super) async fn stats(api: Arc<Api>, call: Call) -> Answer {
    let snapshot = api.handle.snapshot();
    let fleet = &snapshot.fleet;
    let seen = snapshot.tenants.iter().filter(|(name, _)| call.caller.sees(name));
    let stats = Stats {
        status: word(&api.handle.status()),
        epoch: snapshot.epoch.0,
        at: time(snapshot.at),
        jobs: snapshot.jobs,
        allocation: Allocation {
            workers: fleet.workers,
            cpu: fleet.cpu,
            memory: fleet.memory,
            below: fleet.below,
            within: fleet.within,
            above: fleet.above,
        },
        workers: workers(&snapshot),
        tenants: seen.map(|(name, known)| UsageView::of(name, Some(known))).collect(),
        verdicts: VERDICTS.into_iter().zip(snapshot.verdicts).collect(),
    };
    Reply::json(200, &stats)
}

/// GET /health/live
pub(in super::super) async fn live(_: Arc<Api>, _: Call) -> Answer {
    Reply::json(200, &Health { status: "live" })
}

/// GET /health/ready
pub(in super::super) async fn ready(api: Arc<Api>, _: Call) -> Answer {
    let status = api.handle.status();
    match status {
        Status::Leading { .. } | Status::Standby { .. } => Reply::json(200, &Health { status: word(&status) }),
        Status::Restoring | Status::Stopped => {
            let text = format!("the server is {}; it is ready once it leads or stands by", word(&status));
            Err(Box::new(Problem::new(Code::StoreUnavailable, text).after(1000)))
        }
    }
}

/// GET /version
pub(in super::super) async fn version(_: Arc<Api>, _: Call) -> Answer {
    Reply::json(200, &Version { version: env!("CARGO_PKG_VERSION"), api: "v1" })
}

/// GET /openapi.json
pub(in super::super) async fn openapi(_: Arc<Api>, _: Call) -> Answer {
    Ok(Reply::text("application/json", openapi::text_of(&openapi::document())))
}

/// Takes what stands of the fleet into the metrics: what is a state, not a count, is looked at when it is asked for.
fn look(metrics: &Metrics, snapshot: &Snapshot, leads: bool) {
    use orlop_core::machine::worker::WorkerState;
    use orlop_core::named::Named as _;
    let mut bands = BTreeMap::from([("below", 0), ("in", 0), ("above", 0)]);
    let mut healthy = 0;
    for (id, picture) in &snapshot.workers {
        let view = &picture.view;
        let takes = view.state.is_schedulable() && !view.cordoned;
        healthy += i64::from(takes);
        if view.state.is_terminal() {
            metrics.forget_worker(id.as_str());
            continue;
        }
        *bands.entry(band(view.cpu, view.memory)).or_default() += 1;
        let (cpu, memory) = (picture.capabilities.cpu_m as f64, picture.capabilities.memory_bytes as f64);
        for (resource, total, share) in [("cpu", cpu, view.cpu), ("memory", memory, view.memory)] {
            metrics.workers.capacity.of([id.as_str(), resource]).set(total);
            metrics.workers.allocated.of([id.as_str(), resource]).set(total * share);
        }
    }
    let states = workers(snapshot);
    for state in WorkerState::ALL {
        let count = states.get(state.as_str()).copied().unwrap_or_default();
        metrics.workers.total.of([state.as_str()]).set(i64::try_from(count).unwrap_or(i64::MAX));
    }
    for (band, count) in bands {
        metrics.workers.utilization_band.of([band]).set(count);
    }
    metrics.workers.healthy.set(healthy);
    for (name, known) in &snapshot.tenants {
        metrics.scheduler.dominant_share.of([name.as_str()]).set(known.weighted_share);
    }
    metrics.store.leader.set(i64::from(leads));
    metrics.store.epoch.set(i64::try_from(snapshot.epoch.0).unwrap_or(i64::MAX));
}

/// GET /metrics
pub(in super::super) async fn metrics(api: Arc<Api>, _: Call) -> Answer {
    let leads = matches!(api.handle.status(), Status::Leading { .. });
    look(&api.metrics, &api.handle.snapshot(), leads);
    let text = api.metrics.text();
    let text = text.map_err(|error| Box::new(Problem::new(Code::Internal, error.to_string())))?;
    Ok(Reply::text("application/openmetrics-text; version=1.0.0; charset=utf-8", text))
}
