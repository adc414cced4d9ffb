//! Every metric of the contract's table on a real server with a real worker: what counts has counted, what stands is there.

use std::collections::BTreeMap;

use nix::sys::signal::Signal;

use super::programs::{Programs, Scheduler, get, until};

/// Names with their values, the labels of a name added up; of a histogram how many were observed.
fn metrics(scheduler: &Scheduler) -> BTreeMap<String, f64> {
    let text = get(scheduler.rest.trim_start_matches("http://"), "/metrics").expect("an answer");
    let mut all = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((name, value)) = line.rsplit_once(' ') else { continue };
        let name = name.split('{').next().unwrap_or_default().trim_end_matches("_count").to_owned();
        *all.entry(name).or_insert(0.0) += value.parse::<f64>().unwrap_or_default();
    }
    all
}

/// Those that grow: each must have.
const GROW: &[&str] = &[
    "orlop_worker_heartbeats_total",
    "orlop_job_execution_duration",
    "orlop_jobs_submitted_total",
    "orlop_jobs_scheduled_total",
    "orlop_jobs_completed_total",
    "orlop_jobs_failed_total",
    "orlop_jobs_cancelled_total",
    "orlop_jobs_retried_total",
    "orlop_jobs_lost_total",
    "orlop_jobs_preempted_total",
    "orlop_queue_wait_time_seconds",
    "orlop_submit_to_start_seconds",
    "orlop_workers_registered_total",
    "orlop_worker_reconnects_total",
    "orlop_scheduling_latency_seconds",
    "orlop_scheduling_decisions_total",
    "orlop_scheduler_turn_seconds",
    "orlop_quota_denied_total",
    "orlop_result_verdicts_total",
    "orlop_store_commit_seconds",
    "orlop_store_batch_size",
    "orlop_http_requests_total",
    "orlop_http_request_duration_seconds",
    "orlop_grpc_requests_total",
    "orlop_log_bytes_total",
    "orlop_log_dropped_bytes_total",
    "orlop_artifact_bytes_total",
    "orlop_auth_failures_total",
    "process_cpu_seconds_total",
];

/// Those that stand, and are above 0 in this fleet.
const STAND: &[&str] = &[
    "orlop_scheduler_queue_size",
    "orlop_jobs_queued",
    "orlop_jobs_running",
    "orlop_workers_total",
    "orlop_workers_healthy",
    "orlop_worker_memory_usage_bytes",
    "orlop_worker_allocated",
    "orlop_worker_capacity",
    "orlop_worker_utilization_band",
    "orlop_scheduler_classes",
    "orlop_tenant_dominant_share",
    "orlop_quota_used_ratio",
    "orlop_leader",
    "orlop_epoch",
    "orlop_grpc_streams",
    "orlop_build_info",
];

/// Those that may well be 0 here.
const THERE: &[&str] = &[
    "orlop_worker_cpu_usage_percent",
    "orlop_worker_spool_bytes",
    "orlop_scheduler_reservations",
    "orlop_scheduler_prefill_window",
    "orlop_store_errors_total",
    "orlop_outbox_pending",
    "orlop_events_published_total",
    "orlop_event_bus_subscribers",
];

fn submit(programs: &Programs, scheduler: &Scheduler, options: &[&str], command: &[&str]) -> String {
    let shape = if options.contains(&"--cpu") { vec![] } else { vec!["--cpu", "10m", "--memory", "1Mi"] };
    programs.good(&scheduler.rest, &[&["submit"], &shape[..], options, &["--"], command].concat()).trim().to_owned()
}

/// What alerts look for is written as they write it.
fn as_alerts_write_it(scheduler: &Scheduler) {
    let text = get(scheduler.rest.trim_start_matches("http://"), "/metrics").expect("an answer");
    for line in [
        "orlop_workers_total{state=\"Unhealthy\"} ",
        "orlop_scheduler_queue_size{band=\"normal\",state=\"ready\"} ",
        "orlop_scheduling_decisions_total{result=\"placed\"} ",
        "orlop_worker_allocated{worker=\"w1\",resource=\"slots\"} ",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

#[test]
fn each_metric_of_the_table_moves() {
    let programs = Programs::new();
    let args = [
        "--scheduler-lease=3s",
        "--server-heartbeat=1s",
        "--scheduler-heartbeat-timeout=3s",
        "--scheduler-reassign-after=9s",
        "--scheduler-preemption=true",
    ];
    let scheduler = programs.scheduler("s1", &args);
    let worker = programs.worker("w1", &[&scheduler.grpc], &["--cpu-m", "1000"]);
    let rest = scheduler.rest.as_str();
    let waited = |options: &[&str], command: &[&str]| {
        let shape = ["submit", "--cpu", "10m", "--memory", "1Mi", "--wait"];
        programs.orlop(rest, &[&shape, options, &["--"], command].concat());
    };
    waited(&[], &["true"]);
    waited(&[], &["false"]);
    waited(&["--retries", "1"], &["false"]);
    waited(&[], &["sh", "-c", "head -c 50000 /dev/zero | tr '\\0' x; echo"]);
    // A log beyond its limit, an artifact, and somebody with a token that is none.
    let flood = programs.path("flood.yaml");
    let job = "command: [sh, -c, 'head -c 300000 /dev/zero | tr \"\\0\" x; echo x > left']\nlog: {limit: 4096, on_full: drop}\n\
               resources: {cpu_m: 10, memory_bytes: 1048576}\nartifacts_out: [{name: left, path: left, required: true}]\n";
    std::fs::write(&flood, job).expect("a file is written");
    programs.good(rest, &["submit", "-f", &flood.display().to_string(), "--wait"]);
    let stranger = programs.orlop_with(rest, &[("ORLOP_TOKEN", "orlop_x_y")], &["jobs"]);
    assert_eq!(stranger.code, 6, "{stranger:?}");
    let cancelled = submit(&programs, &scheduler, &[], &["sleep", "1000"]);
    programs.good(rest, &["cancel", &cancelled]);
    // Fits nowhere; stopped by a limit; refused by one.
    submit(&programs, &scheduler, &["--cpu", "100000", "--memory", "1Mi"], &["true"]);
    programs.good(rest, &["quota", "set", "small", "pending=1", "running=1"]);
    submit(&programs, &scheduler, &["--tenant", "small"], &["sleep", "1000"]);
    let running = || programs.good(rest, &["jobs", "--tenant", "small", "--state", "Running", "-o", "name"]);
    until("a job of the small tenant to run", || (!running().is_empty()).then_some(()));
    submit(&programs, &scheduler, &["--tenant", "small"], &["true"]);
    let refused =
        programs.orlop(rest, &["submit", "--tenant", "small", "--cpu", "10m", "--memory", "1Mi", "--", "true"]);
    assert_eq!(refused.code, 11, "{refused:?}");
    // More urgent work takes the place of what can be preempted.
    let file = programs.path("weak.yaml");
    let weak = "command: [sleep, '1000']\npreemptible: true\npriority: 9\nresources: {cpu_m: 900, memory_bytes: 0}\n";
    std::fs::write(&file, weak).expect("a file is written");
    let weak = programs.good(rest, &["submit", "-f", &file.display().to_string()]);
    let moved = |name: &str| metrics(&scheduler).get(name).copied().unwrap_or_default();
    until("the weak job to run", || {
        programs.good(rest, &["jobs", "--state", "Running", "-o", "name"]).contains(weak.trim()).then_some(())
    });
    let urgent = ["submit", "--cpu", "900m", "--memory", "1Mi", "--priority", "0", "--wait", "--", "true"];
    assert_eq!(programs.orlop(rest, &urgent).code, 0);
    until("a preemption", || (moved("orlop_jobs_preempted_total") > 0.0).then_some(()));
    // Its agent is gone for longer than is waited for it; then it comes back.
    worker.signal(Signal::SIGKILL);
    drop(worker);
    until("lost attempts", || (moved("orlop_jobs_lost_total") > 0.0).then_some(()));
    let _worker = programs.worker("w1", &[&scheduler.grpc], &["--cpu-m", "1000"]);
    until("the worker to be back", || {
        (moved("orlop_grpc_streams") > 0.0 && moved("orlop_worker_reconnects_total") > 0.0).then_some(())
    });
    until("everything that stands", || {
        let all = metrics(&scheduler);
        STAND.iter().all(|name| all.get(*name).is_some_and(|value| *value > 0.0)).then_some(())
    });
    let all = metrics(&scheduler);
    for name in GROW {
        assert!(all.get(*name).is_some_and(|value| *value > 0.0), "{name}: {:?}\n{all:#?}", all.get(*name));
    }
    as_alerts_write_it(&scheduler);
    for name in THERE {
        assert!(all.contains_key(*name), "{name} is not there");
    }
}
