//! What an agent does with what the server sends.

use std::time::Duration;

use orlop_cloud::runtime::worker::GpuDevice;
use orlop_core::attempt::{AttemptEnd, EndResult};
use orlop_core::machine::verdict::ReportVerdict;
use orlop_core::machine::worker::WorkerState;
use orlop_core::spec::job::SecretAs;
use orlop_core::task::{CancelReason, StartMode, TaskEnd};
use serde_json::json;

use super::fixture::{Fixture, attempt, script, shape};
use crate::host::flow::fleet::END;
use crate::host::worker::gpus::Gpu;
use crate::wire::attempt::{AssignJob, CancelJob, SecretValue};
use crate::wire::bound::OnWire as _;
use crate::wire::frame::{Directive, DirectiveKind, Judgement, ServerFrame, refs};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_is_accepted_run_and_reported() {
    let dir = tempfile::tempdir().unwrap();
    let mut fixture = Fixture::new(dir.path()).await;
    fixture.assign(script("echo hello; sleep 0.3; exit 3"), &[1], StartMode::Now).await;
    let result = fixture.result(1).await;
    assert_eq!((result.task_end(), result.exit_code), (TaskEnd::Failed, Some(3)));
    assert!(fixture.accepted(1) || result.started().is_some());
    fixture.until(|fixture| !fixture.logs(1).is_empty()).await;
    assert_eq!(fixture.logs(1)[0].data, "hello\n");
    let registration = fixture.server.registrations.lock().unwrap()[0].clone();
    assert!(registration.capabilities.cpu_m >= 1000 && !registration.boot_id.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn noops_run_through_one_slot_in_order_of_inheritance() {
    let dir = tempfile::tempdir().unwrap();
    let mut fixture = Fixture::new(dir.path()).await;
    let noop = json!({"runtime": "noop", "command": ["x"]});
    fixture.assign(noop.clone(), &[1], StartMode::Now).await;
    let all: Vec<u64> = (2..1000).collect();
    for jobs in all.chunks(300) {
        fixture.assign(noop.clone(), jobs, StartMode::Inherit).await;
    }
    fixture.until(|fixture| fixture.results.len() == 999).await;
    assert!(fixture.results.values().all(|result| result.task_end() == TaskEnd::Succeeded));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_of_a_flow_on_a_worker_that_runs_none_fails_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let mut fixture = Fixture::new(dir.path()).await;
    let step = json!({"attempt": {
        "key": {"flow": "u", "step": "s", "attempt": 1}, "flow_name": "f", "namespace": "default", "job_name": "f-s",
        "template": {}, "inputs": [], "output_files": [], "output_artifacts": [],
    }});
    fixture.assign(json!({"step": step}), &[1], StartMode::Now).await;
    let result = fixture.result(1).await;
    assert_eq!((result.task_end(), result.exit_code), (TaskEnd::Failed, Some(1)));
    let end: AttemptEnd = serde_json::from_str(&result.outputs[END]).unwrap();
    let EndResult::Failed { reason, message } = end.result else { panic!("{end:?}") };
    assert_eq!(reason, "StepsUnsupported");
    insta::assert_snapshot!(message, @"this worker cannot run the step: its runtime runs no steps of flows; run steps on a worker that runs processes under a supervisor");
    fixture.assign(json!({"step": step, "runtime": "noop"}), &[2], StartMode::Now).await;
    assert_eq!(fixture.result(2).await.task_end(), TaskEnd::Succeeded);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_frames_that_come_one_by_one_are_taken_in_and_answered_together() {
    let dir = tempfile::tempdir().unwrap();
    let mut fixture = Fixture::new(dir.path()).await;
    let noop = json!({"runtime": "noop", "command": ["x"]});
    fixture.assign(noop.clone(), &[1], StartMode::Now).await;
    fixture.result(1).await;
    // One of them for each of its own would take as many milliseconds, and the server's would wait in line.
    for job in 2..202 {
        fixture.assign(noop.clone(), &[job], StartMode::Now).await;
    }
    fixture.until(|fixture| fixture.results.len() == 201).await;
    let reported = fixture.frames.iter().filter(|frame| !frame.results.is_empty()).count();
    assert!(reported < 100, "200 ends in {reported} frames");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_inherits_waits_for_an_end_of_its_kind() {
    let dir = tempfile::tempdir().unwrap();
    let mut fixture = Fixture::new(dir.path()).await;
    fixture.assign(script("sleep 600"), &[1], StartMode::Now).await;
    fixture.started(1).await;
    fixture.assign(script("echo next"), &[2, 3, 4], StartMode::Inherit).await;
    fixture.until(|fixture| fixture.accepted(4)).await;
    // One is taken back, one cancelled before it starts: neither ever runs.
    let cancel = vec![CancelJob::new(attempt(3), CancelReason::User, 0)];
    fixture.send(ServerFrame { revoke: refs([attempt(2), attempt(99)]), cancel, ..ServerFrame::default() }).await;
    let cancelled = fixture.result(3).await;
    assert_eq!((cancelled.task_end(), cancelled.started()), (TaskEnd::Cancelled, None));
    fixture.until(|fixture| fixture.revoked(2) && fixture.revoked(99)).await;
    assert!(!fixture.results.contains_key(&attempt(4)), "it waits");
    let cancel = vec![CancelJob::new(attempt(1), CancelReason::Preempted, 5000)];
    fixture.send(ServerFrame { cancel, ..ServerFrame::default() }).await;
    assert_eq!(fixture.result(1).await.task_end(), TaskEnd::Preempted);
    assert_eq!(fixture.result(4).await.task_end(), TaskEnd::Succeeded);
}

/// Else it would be rejected, for all devices are taken while it waits; and a later agent would not know what it has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_inherits_gets_the_devices_of_the_slot() {
    let dir = tempfile::tempdir().unwrap();
    let gpu = |index, model: &str| Gpu {
        device: GpuDevice::numbered("nvidia", index),
        model: model.to_owned(),
        uuid: None,
        memory_bytes: 80 << 30,
        nvlink: false,
    };
    let gpus = vec![gpu(0, "a100"), gpu(1, "h100")];
    let mut fixture = Fixture::with(dir.path(), |options| options.offer.gpus = Some(gpus)).await;
    let go = dir.path().join("go");
    let text = format!("echo $CUDA_VISIBLE_DEVICES; until [ -e {} ]; do sleep 0.05; done", go.display());
    let any = json!({"count": 1, "any_of": [{"vendor": "nvidia"}]});
    let mut job = script(&text);
    job["resources"] = json!({ "gpus": any });
    fixture.assign_charged(job.clone(), &[1], StartMode::Now, Some(shape("h100"))).await;
    fixture.assign_charged(job.clone(), &[2], StartMode::Now, Some(shape("a100"))).await;
    fixture.started(1).await;
    fixture.started(2).await;
    fixture.assign(job.clone(), &[3], StartMode::Inherit).await;
    fixture.until(|fixture| fixture.accepted(3)).await;
    let cancel = vec![CancelJob::new(attempt(1), CancelReason::User, 5000)];
    fixture.send(ServerFrame { cancel, ..ServerFrame::default() }).await;
    assert_eq!(fixture.result(1).await.task_end(), TaskEnd::Cancelled);
    fixture.started(3).await;
    // There is none left for who comes at once.
    fixture.assign_charged(job, &[4], StartMode::Now, Some(shape("h100"))).await;
    fixture.until(|fixture| fixture.rejected(4).is_some()).await;
    std::fs::write(go, "").unwrap();
    let devices = [(1, "1\n"), (2, "0\n"), (3, "1\n")];
    for (number, device) in devices {
        fixture.result(number).await;
        fixture.until(|fixture| !fixture.said(number).is_empty()).await;
        assert_eq!(fixture.said(number), device, "attempt {number}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_see_the_slices_that_they_were_given_by_uuid() {
    let dir = tempfile::tempdir().unwrap();
    let slice = |uuid: &str| Gpu {
        device: GpuDevice { uuid: Some(uuid.to_owned()), ..GpuDevice::numbered("nvidia", 0) },
        model: "a100mig1g10gb".to_owned(),
        uuid: Some(uuid.to_owned()),
        memory_bytes: 10 << 30,
        nvlink: false,
    };
    let gpus = vec![slice("MIG-1a6b1d1f-98b5-5a22"), slice("MIG-2a6b1d1f-98b5-5a22")];
    let mut fixture = Fixture::with(dir.path(), |options| options.offer.gpus = Some(gpus)).await;
    let go = dir.path().join("go");
    let text = format!("echo $CUDA_VISIBLE_DEVICES; until [ -e {} ]; do sleep 0.05; done", go.display());
    let mut job = script(&text);
    job["resources"] = json!({"gpus": {"count": 1, "any_of": [{"vendor": "nvidia", "model": "a100mig1g10gb"}]}});
    fixture.assign(job, &[1, 2], StartMode::Now).await;
    fixture.started(1).await;
    fixture.started(2).await;
    std::fs::write(go, "").unwrap();
    let mut given = Vec::new();
    for number in [1, 2] {
        fixture.result(number).await;
        fixture.until(|fixture| !fixture.said(number).is_empty()).await;
        given.push(fixture.said(number));
    }
    given.sort();
    assert_eq!(given, ["MIG-1a6b1d1f-98b5-5a22\n", "MIG-2a6b1d1f-98b5-5a22\n"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_for_nothing_is_given_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut fixture = Fixture::new(dir.path()).await;
    fixture.assign(script("true"), &[1], StartMode::Inherit).await;
    fixture.until(|fixture| fixture.revoked(1)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_specification_that_is_not_here_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let mut fixture = Fixture::new(dir.path()).await;
    let assign = vec![AssignJob::new(attempt(1), 77, StartMode::Now)];
    fixture.send(ServerFrame { assign, ..ServerFrame::default() }).await;
    fixture.until(|fixture| fixture.frames.iter().any(|frame| frame.need_specs == [77])).await;
    assert!(!fixture.accepted(1));
    let spec = orlop_core::spec::job::JobSpec::from_json(&script("true")).unwrap();
    let specs = vec![crate::wire::frame::Spec::new(77, &spec)];
    fixture.send(ServerFrame { specs, ..ServerFrame::default() }).await;
    assert_eq!(fixture.result(1).await.task_end(), TaskEnd::Succeeded);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_run_here_is_rejected_with_a_word() {
    let dir = tempfile::tempdir().unwrap();
    let mut fixture = Fixture::new(dir.path()).await;
    fixture.assign(json!({"image": "x", "command": ["y"]}), &[1], StartMode::Now).await;
    let gpus = json!({"gpus": {"count": 1, "any_of": [{"vendor": "nvidia"}]}});
    fixture.assign(json!({"command": ["y"], "resources": gpus}), &[2], StartMode::Now).await;
    fixture.until(|fixture| (1..=2).all(|job| fixture.rejected(job).is_some())).await;
    let words: Vec<String> = (1..=2).filter_map(|job| fixture.rejected(job)).collect();
    assert_eq!(words, ["runtime", "gpu"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_reach_the_job_and_neither_disk_nor_server() {
    let dir = tempfile::tempdir().unwrap();
    let mut fixture = Fixture::new(dir.path()).await;
    let spec = orlop_core::spec::job::JobSpec::from_json(&script("echo $TOKEN; test \"$TOKEN\" = hunter22-x")).unwrap();
    let specs = vec![crate::wire::frame::Spec::new(5, &spec)];
    let secret = SecretValue {
        name: "t".to_owned(),
        value: b"hunter22-x".to_vec(),
        r#as: SecretAs::Env.number(),
        problem: String::new(),
        target: "TOKEN".to_owned(),
    };
    let assign = vec![AssignJob { secrets: vec![secret], ..AssignJob::new(attempt(1), 5, StartMode::Now) }];
    fixture.send(ServerFrame { specs, assign, ..ServerFrame::default() }).await;
    assert_eq!(fixture.result(1).await.task_end(), TaskEnd::Succeeded);
    // With the result, or before it where the machine is slow.
    fixture.until(|fixture| !fixture.said(1).is_empty()).await;
    assert_eq!(fixture.said(1), "***\n");
    let found = std::process::Command::new("grep").args(["-rq", "hunter22"]).arg(dir.path()).status().unwrap();
    assert_eq!(found.code(), Some(1), "nothing is found on disk");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_stays_within_the_credit() {
    let dir = tempfile::tempdir().unwrap();
    let mut fixture = Fixture::new(dir.path()).await;
    fixture.assign(script("head -c 3000000 /dev/zero"), &[1], StartMode::Now).await;
    let result = fixture.result(1).await;
    assert_eq!(result.log_summary().bytes, 3_000_000);
    let sent = |fixture: &Fixture| fixture.logs(1).iter().map(|chunk| chunk.data.len()).sum::<usize>();
    fixture.until(|fixture| sent(fixture) > (1 << 20) - (32 << 10)).await;
    fixture.assign(script("true"), &[2], StartMode::Now).await;
    fixture.result(2).await;
    assert!(sent(&fixture) <= 1 << 20, "no more than the credit, and results pass it");
    fixture.send(ServerFrame { log_credit: 1 << 30, ..ServerFrame::default() }).await;
    fixture.until(|fixture| sent(fixture) == 3_000_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stale_attempts_are_killed_and_nothing_more_is_reported_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let mut fixture = Fixture::new(dir.path()).await;
    fixture.assign(script("sleep 600"), &[1], StartMode::Now).await;
    fixture.started(1).await;
    let verdicts = vec![Judgement::new(attempt(1), ReportVerdict::Stale)];
    fixture.send(ServerFrame { verdicts, ..ServerFrame::default() }).await;
    assert_eq!(fixture.result(1).await.task_end(), TaskEnd::Cancelled, "the server hears that its capacity is free");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_is_told_to_end_waits_for_its_attempts() {
    let dir = tempfile::tempdir().unwrap();
    let mut fixture = Fixture::new(dir.path()).await;
    fixture.assign(script("sleep 1; exit 4"), &[1], StartMode::Now).await;
    fixture.started(1).await;
    fixture.agent.drain();
    let draining = |frame: &crate::wire::frame::WorkerFrame| {
        frame.status.as_ref().is_some_and(|status| status.worker_state() == WorkerState::Draining)
    };
    fixture.until(|fixture| fixture.frames.iter().any(draining)).await;
    assert_eq!(fixture.result(1).await.exit_code, Some(4));
    fixture.send(ServerFrame::default()).await;
    fixture.until(|fixture| fixture.frames.last().is_some_and(|frame| frame.goodbye.is_some())).await;
    tokio::time::timeout(Duration::from_secs(30), fixture.agent.ended()).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_cancels_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut fixture = Fixture::new(dir.path()).await;
    fixture.assign(script("sleep 600"), &[1], StartMode::Now).await;
    fixture.started(1).await;
    fixture.agent.drain();
    fixture.agent.cancel();
    assert_eq!(fixture.result(1).await.task_end(), TaskEnd::Preempted);
    fixture.send(ServerFrame::default()).await;
    fixture.until(|fixture| fixture.frames.last().is_some_and(|frame| frame.goodbye.is_some())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_is_shut_down_says_goodbye() {
    let dir = tempfile::tempdir().unwrap();
    let mut fixture = Fixture::new(dir.path()).await;
    let directive = Directive { kind: DirectiveKind::Shutdown.into(), reason: "gone".to_owned(), deadline_ms: 0 };
    fixture.send(ServerFrame { directive: Some(directive), ..ServerFrame::default() }).await;
    fixture
        .until(|fixture| {
            fixture
                .frames
                .last()
                .is_some_and(|frame| frame.goodbye.as_ref().is_some_and(|bye| bye.reason == "shutdown"))
        })
        .await;
    tokio::time::timeout(Duration::from_secs(30), fixture.agent.ended()).await.unwrap().unwrap();
}
