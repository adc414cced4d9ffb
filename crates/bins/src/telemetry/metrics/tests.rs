//! Tests of the metrics: every name of the contract is there, and every name registered is what `/metrics` shows.

use super::*;

/// Every metric, and those of flows that a server drives.
const CONTRACT: &str = "
orlop_worker_heartbeats_total orlop_job_execution_duration_bucket orlop_worker_cpu_usage_percent orlop_scheduler_queue_size
orlop_jobs_submitted_total orlop_jobs_scheduled_total orlop_jobs_completed_total orlop_jobs_failed_total
orlop_jobs_cancelled_total orlop_jobs_retried_total orlop_jobs_lost_total orlop_jobs_preempted_total orlop_jobs_queued
orlop_jobs_running orlop_queue_wait_time_seconds_bucket orlop_submit_to_start_seconds_bucket
orlop_workers_total orlop_workers_healthy orlop_workers_registered_total orlop_worker_memory_usage_bytes
orlop_worker_allocated orlop_worker_capacity orlop_worker_utilization_band orlop_worker_reconnects_total
orlop_worker_spool_bytes
orlop_scheduling_latency_seconds_bucket orlop_scheduling_decisions_total orlop_scheduler_turn_seconds_bucket
orlop_scheduler_classes orlop_scheduler_reservations orlop_scheduler_prefill_window orlop_tenant_dominant_share
orlop_quota_used_ratio orlop_quota_denied_total orlop_result_verdicts_total
orlop_store_commit_seconds_bucket orlop_store_batch_size_bucket orlop_store_errors_total orlop_outbox_pending
orlop_events_published_total orlop_event_bus_subscribers orlop_leader orlop_epoch orlop_http_requests_total
orlop_http_request_duration_seconds_bucket orlop_grpc_requests_total orlop_grpc_streams orlop_log_bytes_total
orlop_log_dropped_bytes_total orlop_artifact_bytes_total orlop_auth_failures_total orlop_build_info
orlop_flows orlop_steps orlop_ready_steps orlop_live_attempts orlop_approvals_pending
orlop_attempts_waiting orlop_cancels_blocked
orlop_flow_phase_transitions_total orlop_step_phase_transitions_total orlop_flows_finished_total
orlop_flow_duration_seconds_bucket orlop_step_duration_seconds_bucket orlop_step_errors_total orlop_step_retries_total
orlop_step_retry_backoff_seconds_bucket orlop_step_start_latency_seconds_bucket orlop_plan_duration_seconds_bucket
orlop_approval_latency_seconds_bucket orlop_timeouts_total
process_cpu_seconds_total process_resident_memory_bytes process_open_fds process_start_time_seconds";

#[test]
fn every_metric_of_the_contract_has_its_name() {
    let metrics = Metrics::new();
    let missing: Vec<_> = CONTRACT.split_whitespace().filter(|name| !metrics.names().contains_key(*name)).collect();
    assert_eq!(missing, Vec::<&str>::new());
    let stems: Vec<_> =
        metrics.names().keys().filter(|name| !name.ends_with("_sum") && !name.ends_with("_count")).collect();
    assert_eq!(stems.len(), CONTRACT.split_whitespace().count(), "{stems:?}");
}

#[test]
fn what_is_shown_is_what_is_listed() {
    let metrics = Metrics::new();
    metrics.jobs.submitted.of(["physics"]).inc();
    metrics.jobs.failed.of(["physics", "exit"]).inc();
    metrics.workers.allocated.of(["w1", "cpu"]).set(1500.0);
    metrics.scheduler.batch.of(["round"]).observe(0.001);
    let text = metrics.text().unwrap();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap();
        assert!(metrics.names().contains_key(name), "{name} is shown but not listed");
    }
    assert!(text.contains("orlop_jobs_submitted_total{tenant=\"physics\"} 1"), "{text}");
    assert!(text.contains("orlop_worker_allocated{worker=\"w1\",resource=\"cpu\"} 1500"), "{text}");
    assert!(text.contains("orlop_build_info{version="), "{text}");
    assert!(text.contains("process_resident_memory_bytes "), "{text}");
    metrics.forget_tenant("physics");
    metrics.forget_worker("w1");
    let text = metrics.text().unwrap();
    assert!(!text.contains("physics") && !text.contains("w1"), "{text}");
}

#[test]
fn metrics_of_flows_have_their_labels_and_buckets() {
    let metrics = Metrics::new();
    let flows = &metrics.flows;
    flows.duration.of(["Succeeded", ""]).observe(1.0);
    flows.step_duration.of(["success"]).observe(1.0);
    for single in [&flows.step_start_latency, &flows.plan_duration, &flows.retry_backoff, &flows.approval_latency] {
        single.observe(1.0);
    }
    let text = metrics.text().unwrap();
    let shown = |name: &str, labels: &[&str]| {
        let bounds: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with(name))
            .filter_map(|line| line.split_once("le=\"")?.1.split('"').next())
            .collect();
        let buckets = match (bounds.first(), bounds.iter().rev().nth(1)) {
            (Some(first), Some(last)) => format!(" {first} to {last} s"),
            _ => String::new(),
        };
        format!("{name} {}{buckets}", labels.join(", ")).trim_end().to_owned()
    };
    let of_flows = ["orlop_flow", "orlop_step", "orlop_ready_steps", "orlop_live", "orlop_attempts", "orlop_cancels"];
    let others = ["orlop_approval", "orlop_timeouts", "orlop_plan"];
    let ours = |name: &str| of_flows.iter().chain(&others).any(|prefix| name.starts_with(prefix));
    let lines: Vec<String> = metrics
        .names()
        .iter()
        .filter(|(name, _)| ours(name) && !name.ends_with("_sum") && !name.ends_with("_count"))
        .map(|(name, described)| shown(name, &described.labels))
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @"
    orlop_approval_latency_seconds_bucket le 60.0 to 86400.0 s
    orlop_approvals_pending
    orlop_attempts_waiting on
    orlop_cancels_blocked
    orlop_flow_duration_seconds_bucket outcome, reason, le 1.0 to 86400.0 s
    orlop_flow_phase_transitions_total from, to
    orlop_flows phase
    orlop_flows_finished_total outcome, reason
    orlop_live_attempts
    orlop_plan_duration_seconds_bucket le 0.001 to 1.0 s
    orlop_ready_steps
    orlop_step_duration_seconds_bucket result, le 1.0 to 86400.0 s
    orlop_step_errors_total reason
    orlop_step_phase_transitions_total from, to
    orlop_step_retries_total
    orlop_step_retry_backoff_seconds_bucket le 1.0 to 600.0 s
    orlop_step_start_latency_seconds_bucket le 0.001 to 60.0 s
    orlop_steps phase
    orlop_timeouts_total type
    ");
}
