//! The server itself: whether it is well, what it counts, what it is. Owns these answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::call::Call;
use super::super::openapi;
use super::super::reply::{Answer, Reply};
use super::super::standing;
use super::super::state::Api;
use super::super::view::fleet::{Allocation, Health, Stats, Version};
use super::super::view::tenant::UsageView;
use super::super::view::time;
use crate::host::scheduler::{Snapshot, Status};
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

/// GET /metrics
pub(in super::super) async fn metrics(api: Arc<Api>, _: Call) -> Answer {
    standing::look(&api.metrics, &api.handle);
    let text = api.metrics.text();
    let text = text.map_err(|error| Box::new(Problem::new(Code::Internal, error.to_string())))?;
    Ok(Reply::text("application/openmetrics-text; version=1.0.0; charset=utf-8", text))
}
