//! What stands of the fleet, taken into the metrics when they are asked for: what is a state and not a count.

use std::collections::BTreeMap;

use orlop_core::id::TenantName;
use orlop_core::machine::worker::WorkerState;
use orlop_core::named::Named as _;
use orlop_scheduler::engine::TenantView;
use orlop_scheduler::event::TenantStatus;

use super::view::worker::band;
use crate::host::scheduler::{BANDS, Handle, Snapshot, Status, WorkerSnapshot};
use crate::telemetry::metrics::Metrics;

fn gauge(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Takes everything that stands into the metrics. `stored` are bytes of artifacts by tenant.
pub(super) fn look(metrics: &Metrics, handle: &Handle, stored: &BTreeMap<TenantName, u64>) {
    let snapshot = handle.snapshot();
    stand(metrics, &snapshot, stored);
    let leads = matches!(handle.status(), Status::Leading { .. });
    metrics.store.leader.set(i64::from(leads));
    metrics.store.epoch.set(gauge(snapshot.epoch.0));
    metrics.store.bus_subscribers.set(gauge(handle.listeners() as u64));
}

/// Takes a snapshot of the fleet into the metrics.
fn stand(metrics: &Metrics, snapshot: &Snapshot, stored: &BTreeMap<TenantName, u64>) {
    let there: Vec<(&str, &TenantView)> = snapshot
        .tenants
        .iter()
        .filter(|(_, known)| is_there(known))
        .map(|(name, known)| (name.as_str(), known))
        .collect();
    let workers_there: BTreeMap<&str, &WorkerSnapshot> = snapshot
        .workers
        .iter()
        .filter(|(_, worker)| !worker.view.state.is_terminal())
        .map(|(id, worker)| (id.as_str(), worker))
        .collect();
    let names = there.iter().map(|(name, _)| (*name).to_owned()).collect();
    metrics.are_there(names, workers_there.keys().map(|id| (*id).to_owned()).collect());
    // One that came and went between two looks was never seen there.
    let gone = snapshot.workers.iter().filter(|(_, worker)| worker.view.state.is_terminal());
    gone.for_each(|(id, _)| metrics.forget_worker(id.as_str()));
    fleet(metrics, snapshot);
    workers(metrics, &workers_there);
    queues(metrics, snapshot);
    tenants(metrics, &there, stored);
}

/// Whether a tenant is more than a name: one that is closed and has nothing left is gone.
fn is_there(known: &TenantView) -> bool {
    known.settings.status != TenantStatus::Closing || known.active > 0
}

fn fleet(metrics: &Metrics, snapshot: &Snapshot) {
    let mut bands = BTreeMap::from([("below", 0), ("in", 0), ("above", 0)]);
    let mut states: BTreeMap<&'static str, u64> = BTreeMap::new();
    let (mut healthy, mut streams, mut ahead) = (0, 0, 0);
    for worker in snapshot.workers.values() {
        let view = &worker.view;
        *states.entry(view.state.as_str()).or_default() += 1;
        healthy += i64::from(view.state.is_schedulable() && !view.cordoned);
        streams += i64::from(worker.connected);
        ahead += u64::from(view.waiting);
        if !view.state.is_terminal() {
            *bands.entry(band(view.cpu, view.memory)).or_default() += 1;
        }
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

/// What a worker has of each resource, and how much of it attempts hold.
fn resources(worker: &WorkerSnapshot) -> Vec<(&str, f64, f64)> {
    let (view, offer) = (&worker.view, &worker.capabilities);
    let (cpu, memory) = (offer.cpu_m as f64, offer.memory_bytes as f64);
    let mut all = vec![
        ("cpu", cpu, cpu * view.cpu),
        ("memory", memory, memory * view.memory),
        ("slots", f64::from(offer.max_jobs), f64::from(view.attempts)),
    ];
    all.extend(view.further.iter().map(|held| (held.what.as_str(), held.total as f64, held.allocated as f64)));
    all
}

fn workers(metrics: &Metrics, there: &BTreeMap<&str, &WorkerSnapshot>) {
    let (mut capacity, mut allocated) = (Vec::new(), Vec::new());
    let (mut cpu, mut memory, mut spool) = (Vec::new(), Vec::new(), Vec::new());
    for (id, worker) in there {
        for (resource, total, held) in resources(worker) {
            capacity.push(([*id, resource], total));
            allocated.push(([*id, resource], held));
        }
        if let Some(status) = &worker.status {
            let measured = status.measured.as_ref().map(|measured| (measured.cpu_percent, measured.memory_bytes));
            let (cpu_percent, memory_bytes) = measured.unwrap_or_default();
            cpu.push(([*id], cpu_percent));
            memory.push(([*id], gauge(memory_bytes)));
            spool.push(([*id], gauge(status.outbox.unwrap_or_default().bytes)));
        }
    }
    // Kinds of GPU that differ in memory alone have one name.
    metrics.workers.capacity.show(&capacity, |left, right| left + right);
    metrics.workers.allocated.show(&allocated, |left, right| left + right);
    // A percentage of several is the greatest.
    metrics.workers.cpu_usage_percent.show(&cpu, f64::max);
    metrics.workers.memory_usage_bytes.show(&memory, i64::saturating_add);
    metrics.workers.spool_bytes.show(&spool, i64::saturating_add);
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

/// What a tenant uses of its limits, 0 to 1, each under the name of the limit.
fn used(known: &TenantView, stored: u64) -> Vec<(String, f64)> {
    let quota = &known.quota;
    let gpus = known.gpus.values().sum();
    let plain = [
        ("max_pending_jobs", known.pending, quota.max_pending_jobs),
        ("max_active_jobs", known.active, quota.max_active_jobs),
        ("max_running_jobs", known.running, quota.max_running_jobs),
        ("max_cpu_m", known.cpu_m, quota.max_cpu_m),
        ("max_memory_bytes", known.memory_mib << 20, quota.max_memory_bytes),
        ("max_gpus", gpus, quota.max_gpus),
        ("max_artifact_bytes", stored, quota.max_artifact_bytes),
    ];
    let plain = plain.into_iter().filter_map(|(limit, used, most)| Some((limit.to_owned(), used, most?)));
    let kinds = quota.max_gpus_by_kind.iter().map(|(model, most)| {
        let used = known.gpus.get(model).copied().unwrap_or_default();
        (format!("max_gpus_by_kind:{model}"), used, *most)
    });
    let ratio = |used: u64, most: u64| if most == 0 { 1.0 } else { used as f64 / most as f64 };
    plain.chain(kinds).map(|(limit, used, most)| (limit, ratio(used, most))).collect()
}

fn tenants(metrics: &Metrics, there: &[(&str, &TenantView)], stored: &BTreeMap<TenantName, u64>) {
    let of = |read: fn(&TenantView) -> i64| -> Vec<([&str; 1], i64)> {
        there.iter().map(|(name, known)| ([*name], read(known))).collect()
    };
    let shares: Vec<_> = there.iter().map(|(name, known)| ([*name], known.share)).collect();
    metrics.scheduler.dominant_share.show(&shares, |left, right| left + right);
    metrics.jobs.queued.show(&of(|known| gauge(known.pending)), i64::saturating_add);
    metrics.jobs.running.show(&of(|known| gauge(known.running)), i64::saturating_add);
    let used: Vec<(&str, Vec<(String, f64)>)> = there
        .iter()
        .map(|(name, known)| (*name, used(known, stored.get(&known.name).copied().unwrap_or_default())))
        .collect();
    let used: Vec<_> = used
        .iter()
        .flat_map(|(name, all)| all.iter().map(|(limit, ratio)| ([*name, limit.as_str()], *ratio)))
        .collect();
    // Of those that share a name the fullest is worth an alert.
    metrics.scheduler.quota_used_ratio.show(&used, f64::max);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use orlop_core::hardware::gpu::ModelKey;
    use orlop_core::time::Time;
    use orlop_scheduler::engine::{ResourceUse, WorkerView};
    use orlop_scheduler::event::{Capabilities, Quota, TenantSettings};

    use super::*;

    fn tenant(name: &str) -> TenantView {
        TenantView {
            name: name.parse().unwrap(),
            settings: TenantSettings::default(),
            quota: Quota::default(),
            pending: 3,
            active: 5,
            running: 2,
            cpu_m: 2000,
            memory_mib: 512,
            gpus: BTreeMap::new(),
            share: 0.25,
            weighted_share: 0.0025,
        }
    }

    fn snapshot(tenants: Vec<TenantView>, workers: Vec<WorkerSnapshot>) -> Snapshot {
        Snapshot {
            tenants: tenants.into_iter().map(|tenant| (tenant.name.clone(), tenant)).collect(),
            workers: workers.into_iter().map(|worker| (worker.view.id.clone(), worker)).collect(),
            ..Snapshot::default()
        }
    }

    fn worker(id: &str) -> WorkerSnapshot {
        let held = |what: &str, allocated, total| ResourceUse { what: what.to_owned(), allocated, total };
        WorkerSnapshot {
            view: WorkerView {
                id: id.parse().unwrap(),
                incarnation: 1,
                state: WorkerState::Running,
                cordoned: false,
                draining: false,
                attempts: 3,
                waiting: 0,
                cpu: 0.5,
                memory: 0.25,
                further: vec![held("gpu:nvidia/a100", 1, 4), held("extra:licence", 2, 10)],
            },
            capabilities: Arc::new(Capabilities {
                cpu_m: 4000,
                memory_bytes: 1 << 30,
                max_jobs: 8,
                ..Capabilities::default()
            }),
            agent_version: String::new(),
            since: Time::from_millis(0),
            reason: String::new(),
            registered_at: None,
            status: None,
            connected: true,
            drain: None,
        }
    }

    fn shown(metrics: &Metrics, line: &str) -> bool {
        metrics.text().unwrap().lines().any(|known| known == line)
    }

    #[test]
    fn every_resource_of_a_worker_is_shown_by_what_it_is_and_what_is_taken() {
        let metrics = Metrics::new();
        stand(&metrics, &snapshot(Vec::new(), vec![worker("w1")]), &BTreeMap::new());
        for (resource, allocated, capacity) in [
            ("cpu", "2000.0", "4000.0"),
            ("memory", "268435456.0", "1073741824.0"),
            ("slots", "3.0", "8.0"),
            ("gpu:nvidia/a100", "1.0", "4.0"),
            ("extra:licence", "2.0", "10.0"),
        ] {
            let of = |what: &str, value: &str| {
                format!("orlop_worker_{what}{{worker=\"w1\",resource=\"{resource}\"}} {value}")
            };
            assert!(shown(&metrics, &of("allocated", allocated)), "{resource}: {}", metrics.text().unwrap());
            assert!(shown(&metrics, &of("capacity", capacity)), "{resource}");
        }
        metrics.workers.heartbeats.of(["w1"]).inc();
        let mut gone = worker("w1");
        gone.view.state = WorkerState::Terminated;
        stand(&metrics, &snapshot(Vec::new(), vec![gone]), &BTreeMap::new());
        assert!(!metrics.text().unwrap().contains("worker=\"w1\""));
    }

    #[test]
    fn the_dominant_share_of_a_tenant_is_the_plain_one() {
        let metrics = Metrics::new();
        stand(&metrics, &snapshot(vec![tenant("a")], Vec::new()), &BTreeMap::new());
        assert!(shown(&metrics, "orlop_tenant_dominant_share{tenant=\"a\"} 0.25"), "{}", metrics.text().unwrap());
    }

    #[test]
    fn every_limit_shows_how_much_of_it_is_used() {
        let metrics = Metrics::new();
        let mut known = tenant("a");
        let model = ModelKey::new("a100").unwrap();
        known.gpus = BTreeMap::from([(model.clone(), 3)]);
        known.quota = Quota {
            max_pending_jobs: Some(30),
            max_active_jobs: Some(10),
            max_running_jobs: Some(4),
            max_cpu_m: Some(8000),
            max_memory_bytes: Some(1 << 30),
            max_gpus: Some(12),
            max_gpus_by_kind: BTreeMap::from([(model, 4)]),
            max_artifact_bytes: Some(1000),
            ..Quota::default()
        };
        let stored = BTreeMap::from([(known.name.clone(), 125)]);
        stand(&metrics, &snapshot(vec![known], Vec::new()), &stored);
        for (quota, ratio) in [
            ("max_pending_jobs", "0.1"),
            ("max_active_jobs", "0.5"),
            ("max_running_jobs", "0.5"),
            ("max_cpu_m", "0.25"),
            ("max_memory_bytes", "0.5"),
            ("max_gpus", "0.25"),
            ("max_gpus_by_kind:a100", "0.75"),
            ("max_artifact_bytes", "0.125"),
        ] {
            let line = format!("orlop_quota_used_ratio{{tenant=\"a\",quota=\"{quota}\"}} {ratio}");
            assert!(shown(&metrics, &line), "{line}: {}", metrics.text().unwrap());
        }
    }

    #[test]
    fn tenants_beyond_the_cap_are_summed_and_those_that_are_gone_leave() {
        let metrics = Metrics::new();
        let many: Vec<TenantView> = (0..203).map(|n| tenant(&format!("t{n:03}"))).collect();
        stand(&metrics, &snapshot(many, Vec::new()), &BTreeMap::new());
        let text = metrics.text().unwrap();
        assert!(shown(&metrics, "orlop_jobs_running{tenant=\"other\"} 6"), "three of two each: {text}");
        assert!(shown(&metrics, "orlop_tenant_dominant_share{tenant=\"other\"} 0.75"), "{text}");
        metrics.jobs.submitted.of(["t000"]).inc();
        // One that was new just now, and that no snapshot shows yet, keeps what was counted.
        metrics.jobs.submitted.of(["new"]).inc();
        let mut closed = tenant("t000");
        (closed.settings.status, closed.active) = (TenantStatus::Closing, 0);
        stand(&metrics, &snapshot(vec![closed, tenant("t001")], Vec::new()), &BTreeMap::new());
        let text = metrics.text().unwrap();
        assert!(!text.contains("t000") && !text.contains("other") && !text.contains("t002"), "{text}");
        assert!(text.contains("t001") && text.contains("orlop_jobs_submitted_total{tenant=\"new\"} 1"), "{text}");
    }
}
