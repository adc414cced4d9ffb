//! What stands of the fleet, taken into the metrics when they are asked for: what is a state and not a count. Owns which
//! gauge shows what.

use std::collections::BTreeMap;

use orlop_core::machine::flow::FlowPhase;
use orlop_core::machine::step::StepPhase;
use orlop_core::machine::worker::WorkerState;
use orlop_core::named::Named as _;
use orlop_scheduler::engine::TenantView;

use super::view::worker::band;
use crate::host::scheduler::flows::Flows;
use crate::host::scheduler::{BANDS, Handle, Snapshot, Status, WorkerPicture};
use crate::telemetry::metrics::{FlowMetrics, Metrics};

fn gauge(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Takes everything that stands into the metrics.
pub(super) fn look(metrics: &Metrics, handle: &Handle) {
    let snapshot = handle.snapshot();
    workers(metrics, &snapshot);
    queues(metrics, &snapshot);
    for (name, known) in &snapshot.tenants {
        tenant(metrics, name.as_str(), known);
    }
    let leads = matches!(handle.status(), Status::Leading { .. });
    metrics.store.leader.set(i64::from(leads));
    metrics.store.epoch.set(gauge(snapshot.epoch.0));
    metrics.store.bus_subscribers.set(gauge(handle.listeners() as u64));
}

/// Takes what stands of flows into the metrics.
pub(super) fn flows(metrics: &FlowMetrics, flows: &Flows) {
    let standing = flows.standing();
    for phase in FlowPhase::ALL.iter().filter(|phase| !phase.is_terminal()) {
        metrics.flows.of([phase.as_str()]).set(standing.flows.get(phase).copied().unwrap_or_default());
    }
    let steps = |phase: StepPhase| standing.steps.get(&phase).copied().unwrap_or_default();
    for phase in StepPhase::ALL {
        metrics.steps.of([phase.as_str()]).set(steps(*phase));
    }
    metrics.live_attempts.set(steps(StepPhase::Running));
    metrics.approvals_pending.set(steps(StepPhase::PendingApproval));
    metrics.ready.set(standing.ready);
}

fn workers(metrics: &Metrics, snapshot: &Snapshot) {
    let mut bands = BTreeMap::from([("below", 0), ("in", 0), ("above", 0)]);
    let mut states: BTreeMap<&'static str, u64> = BTreeMap::new();
    let (mut healthy, mut streams, mut ahead) = (0, 0, 0);
    for (id, picture) in &snapshot.workers {
        let view = &picture.view;
        *states.entry(view.state.as_str()).or_default() += 1;
        healthy += i64::from(view.state.is_schedulable() && !view.cordoned);
        streams += i64::from(picture.connected);
        ahead += u64::from(view.waiting);
        if view.state.is_terminal() {
            metrics.forget_worker(id.as_str());
            continue;
        }
        *bands.entry(band(view.cpu, view.memory)).or_default() += 1;
        worker(metrics, id.as_str(), picture);
    }
    for state in WorkerState::ALL {
        let count = states.get(state.as_str()).copied().unwrap_or_default();
        metrics.workers.total.of([state.as_str()]).set(gauge(count));
    }
    for (band, count) in bands {
        metrics.workers.utilization_band.of([band]).set(count);
    }
    metrics.workers.healthy.set(healthy);
    metrics.transport.grpc_streams.set(streams);
    metrics.scheduler.prefill_window.set(gauge(ahead));
}

fn worker(metrics: &Metrics, id: &str, picture: &WorkerPicture) {
    let view = &picture.view;
    let (cpu, memory) = (picture.capabilities.cpu_m as f64, picture.capabilities.memory_bytes as f64);
    for (resource, total, share) in [("cpu", cpu, view.cpu), ("memory", memory, view.memory)] {
        metrics.workers.capacity.of([id, resource]).set(total);
        metrics.workers.allocated.of([id, resource]).set(total * share);
    }
    if let Some(status) = &picture.status {
        metrics.workers.cpu_usage_percent.of([id]).set(status.measured.cpu_percent);
        metrics.workers.memory_usage_bytes.of([id]).set(gauge(status.measured.memory_bytes));
        metrics.workers.spool_bytes.of([id]).set(gauge(status.spool.bytes));
    }
}

fn queues(metrics: &Metrics, snapshot: &Snapshot) {
    let waiting = &snapshot.waiting;
    for (state, counts) in
        [("ready", waiting.ready), ("blocked", waiting.blocked), ("quota", waiting.quota), ("pending", snapshot.gated)]
    {
        for (band, count) in BANDS.into_iter().zip(counts) {
            metrics.scheduler.queue_size.of([band, state]).set(gauge(count));
        }
    }
    metrics.scheduler.classes.of(["ready"]).set(gauge(waiting.classes_ready));
    metrics.scheduler.classes.of(["blocked"]).set(gauge(waiting.classes_blocked));
    metrics.scheduler.reservations.set(gauge(waiting.reservations));
}

fn tenant(metrics: &Metrics, name: &str, known: &TenantView) {
    metrics.scheduler.dominant_share.of([name]).set(known.weighted_share);
    metrics.jobs.queued.of([name]).set(gauge(known.pending));
    metrics.jobs.running.of([name]).set(gauge(known.running));
    let quota = &known.quota;
    let memory = known.memory_mib << 20;
    for (limit, used, most) in [
        ("max_pending_jobs", known.pending, quota.max_pending_jobs),
        ("max_active_jobs", known.active, quota.max_active_jobs),
        ("max_running_jobs", known.running, quota.max_running_jobs),
        ("max_cpu_m", known.cpu_m, quota.max_cpu_m),
        ("max_memory_bytes", memory, quota.max_memory_bytes),
    ] {
        if let Some(most) = most {
            let ratio = if most == 0 { 1.0 } else { used as f64 / most as f64 };
            metrics.scheduler.quota_used_ratio.of([name, limit]).set(ratio);
        }
    }
}
