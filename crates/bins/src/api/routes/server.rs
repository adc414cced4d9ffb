//! The server itself: whether it is well, what it counts, what it is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use orlop_core::error::{Code, Problem};
use orlop_core::time::Time;
use orlop_scheduler::engine::{BlockedQueue, TenantQueue};
use orlop_scheduler::job::Band;

use super::super::auth::Caller;
use super::super::call::Call;
use super::super::gauges;
use super::super::openapi;
use super::super::reply::{Answer, Reply};
use super::super::state::Api;
use super::super::view::fleet::{
    Allocation, BandQueue, BlockedView, Health, Stats, TenantQueueView, TotalsView, Version,
};
use super::super::view::tenant::UsageView;
use super::super::view::time;
use crate::host::scheduler::{BANDS, Snapshot, Status};

/// How long metrics wait for what only the store knows.
const STORED: std::time::Duration = std::time::Duration::from_millis(500);

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
    for worker in snapshot.workers.values() {
        *states.entry(worker.view.state.to_string()).or_default() += 1;
    }
    states
}

/// What waits by band.
fn bands(snapshot: &Snapshot) -> Vec<BandQueue> {
    let waiting = &snapshot.waiting;
    let of = |counts: &[u64; 3], band: usize| counts.get(band).copied().unwrap_or_default();
    let row = |(number, band): (usize, &'static str)| BandQueue {
        band,
        ready: of(&waiting.ready, number),
        blocked: of(&waiting.blocked, number),
        quota: of(&waiting.quota, number),
        pending: of(&snapshot.gated, number),
    };
    BANDS.into_iter().enumerate().map(row).collect()
}

fn band(band: Band) -> &'static str {
    BANDS.get(band.index()).copied().unwrap_or_default()
}

/// What waits of the tenants that a caller sees.
pub(in super::super) fn queues(snapshot: &Snapshot, caller: &Caller) -> Vec<TenantQueueView> {
    let seen = snapshot.queues.iter().filter(|queue| caller.sees(&queue.tenant));
    let row = |queue: &TenantQueue| TenantQueueView {
        tenant: queue.tenant.to_string(),
        band: band(queue.band),
        ready: queue.ready,
        blocked: queue.blocked,
        quota: queue.quota,
    };
    seen.map(row).collect()
}

/// What fits nowhere, of the tenants that a caller sees.
pub(in super::super) fn blocked(snapshot: &Snapshot, caller: &Caller) -> Vec<BlockedView> {
    let seen = snapshot.blocked.iter().filter(|(queue, _)| caller.sees(&queue.tenant));
    let row = |(queue, since): &(BlockedQueue, Time)| BlockedView {
        tenant: queue.tenant.to_string(),
        band: band(queue.band),
        jobs: queue.jobs,
        first: queue.first.to_string(),
        since: time(*since),
        cpu_m: queue.resources.cpu_m,
        memory_bytes: queue.resources.memory_bytes,
        gpus: queue.resources.gpus.count,
    };
    seen.map(row).collect()
}

/// GET /stats
pub(in super::super) async fn stats(api: Arc<Api>, call: Call) -> Answer {
    let snapshot = api.handle.leader_snapshot()?;
    let fleet = &snapshot.fleet;
    let stored = api.handle.artifact_bytes().await?;
    call.concern.decide();
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
        tenants: seen.map(|(name, known)| UsageView::of(name, Some(known), &stored)).collect(),
        bands: bands(&snapshot),
        queues: queues(&snapshot, &call.caller),
        blocked: blocked(&snapshot, &call.caller),
        totals: TotalsView {
            submitted: snapshot.totals.submitted,
            started: snapshot.totals.started,
            ended: snapshot.totals.ended,
        },
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
            let text = format!("the server is {}; it is ready once it leads or is on standby", word(&status));
            Err(Problem::coded(Code::StoreUnavailable, text).retry_after(Duration::from_millis(1000)))
        }
    }
}

/// GET /version
pub(in super::super) async fn version(_: Arc<Api>, call: Call) -> Answer {
    // Nobody's object, as the document is.
    call.concern.decide();
    Reply::json(200, &Version { version: env!("CARGO_PKG_VERSION"), api: "v1" })
}

/// GET /openapi.json
pub(in super::super) async fn openapi(_: Arc<Api>, call: Call) -> Answer {
    call.concern.decide();
    Ok(Reply::text("application/json", openapi::text_of(&openapi::document())))
}

/// GET /metrics
pub(in super::super) async fn metrics(api: Arc<Api>, call: Call) -> Answer {
    call.of_the_fleet("metrics name every tenant: reading them")?;
    // What a store that does not answer holds is left out: the metrics say just then what is wrong with it.
    let leads = matches!(api.handle.status(), Status::Leading { .. });
    let stored = async { if leads { api.handle.artifact_bytes().await.unwrap_or_default() } else { BTreeMap::new() } };
    let stored = tokio::time::timeout(STORED, stored).await.unwrap_or_default();
    gauges::look(&api.metrics, &api.handle, &stored);
    api.flows.counts().show(&api.metrics.flows);
    let text = api.metrics.text();
    let text = text.map_err(|error| Problem::coded(Code::Internal, error.to_string()))?;
    Ok(Reply::text("application/openmetrics-text; version=1.0.0; charset=utf-8", text))
}
