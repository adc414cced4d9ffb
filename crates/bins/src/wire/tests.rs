//! Messages there and back: nothing is lost, bounds hold, and no bytes panic.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use orlop_core::hardware::gpu::{GpuShape, Vendor};
use orlop_core::id::{Epoch, Incarnation, JobId, SessionId};
use orlop_core::machine::verdict::ReportVerdict;
use orlop_core::machine::worker::WorkerState;
use orlop_core::spec::job::{JobSpec, SecretAs};
use orlop_core::task::{CancelReason, LogGap, LogStream, StartMode, TaskEnd, TaskRef, Usage};
use orlop_core::time::Time;
use orlop_scheduler::event::{Capabilities, GpuDevices, GpuUnit, Outcome};
use orlop_scheduler::job::Runtime;
use proptest::prelude::*;
use prost::Message;

use super::attempt::*;
use super::bound::*;
use super::frame::*;
use super::proto::v1;
use super::status::*;
use super::worker::*;

pub(super) fn attempt(number: u64) -> TaskRef {
    TaskRef { job: JobId::from_u64(number), index: 1, member: 2, attempt: 3, epoch: Epoch(4) }
}

fn time() -> Option<Time> {
    Some(Time::from_millis(1_763_740_000_123))
}

fn result() -> JobResult {
    JobResult {
        exit_code: Some(-1),
        signal: Some(9),
        reason: "oom".into(),
        usage: Some(Usage { cpu_ms: 1, max_rss: 2, io_read: 3, io_write: 4 }.into()),
        outputs: BTreeMap::from([("a".into(), "b".into())]),
        artifacts: vec![Artifact {
            name: "a".into(),
            sha256: "0f".repeat(32),
            bytes: 5,
            path: "out/a".into(),
            executable: true,
        }],
        log: Some(LogSummary { bytes: 1, dropped_bytes: 2, dropped_chunks: 3, last_seq: 4 }),
        tail: Bytes::from_static(b"tail"),
        ..JobResult::new(attempt(1), TaskEnd::Failed).with_times(time(), time())
    }
}

fn status() -> WorkerStatus {
    WorkerStatus {
        worker_id: "w-1".into(),
        state: WorkerState::Running.number(),
        refs: refs([attempt(1)]),
        allocated: Some(Allocated { cpu_m: 1, memory_bytes: 2, gpus: 3, attempts: 4 }),
        measured: Some(Measured {
            cpu_percent: 50.0,
            memory_bytes: 1,
            disk_free: 2,
            disk_io: 3,
            net_io: 4,
            gpu_percent: vec![1.0],
            load: 0.5,
        }),
        health: vec![HealthCheck { check: "space".into(), ok: false, detail: "512 Mi free".into() }],
        outbox: Some(OutboxStatus { bytes: 1, results: 2, dropped: 3 }),
        time: millis(time()),
        in_use: vec![AttemptUse::of(attempt(1), 950, 4096)],
    }
}

fn chunk() -> LogChunk {
    let gap = Some(LogGap { chunks: 1, bytes: 2 });
    LogChunk::new(attempt(1), LogStream::Stderr, 7, Bytes::from_static(b"\xff\0x")).with_time_and_gap(time(), gap)
}

fn worker_frame() -> WorkerFrame {
    let process = |process| JobStarted::new(attempt(2), process, time());
    WorkerFrame {
        seq: 1,
        ack: 2,
        epoch: 3,
        hello: Some(Hello {
            session_id: vec![7; 16],
            highest_epoch: 3,
            last_server_seq: 4,
            live: vec![LiveAttempt::new(attempt(1), AttemptState::Running, time())],
            outbox: Some(OutboxRange { first_seq: 5, count: 6 }),
        }),
        results: vec![result()],
        started: vec![process(None), process(Some(Process::Pid(1))), process(Some(Process::ContainerId("c".into())))],
        accepted: vec![JobAccepted::new(attempt(3))],
        rejected: vec![Rejected::new(attempt(4), "full")],
        revoked: refs([attempt(5)]),
        logs: vec![chunk()],
        status: Some(status()),
        need_specs: vec![9],
        goodbye: Some(Goodbye { reason: "drained".into() }),
    }
}

fn spec() -> JobSpec {
    let value = serde_json::json!({
        "name": "n", "labels": {"a": "b"}, "tenant": "t", "correlation_id": "c", "image": "alpine", "pull": "never",
        "command": ["a", "b"], "env": {"A": "1"}, "working_dir": "w",
        "secret_refs": [{"name": "s", "as": "env", "target": "S"}],
        "resources": {"cpu_m": 1, "memory_bytes": 0, "extras": {"l": 1},
            "gpus": {"count": 2, "any_of": [{"vendor": "amd", "model": "mi300x", "memory_min": 5}, {"vendor": "intel"}]}},
        "requires": {"labels": [{"key": "z", "op": "notin", "values": ["a"]}, {"key": "n", "op": "gt", "values": [1]}],
            "features": ["f"]},
        "prefers": [{"label": {"key": "p", "op": "exists"}, "weight": 3}],
        "priority": 0, "timeout_ms": 1, "expected_ms": 2, "grace_ms": 0, "retries": 3,
        "retry": {"on": ["timed_out"], "exit_codes": [1], "backoff": 0, "factor": 1, "max": 5, "jitter": 0},
        "success_codes": [0, 2], "not_before": "2026-01-01T00:00:00Z", "queue_timeout_ms": 1,
        "gang": {"size": 2, "max_per_worker": 1, "same_label": "rack"},
        "preemptible": true, "urgent": true, "overlap": "forbid", "survive_agent": false,
        "artifacts_in": [{"name": "a", "path": "b", "sha256": "00".repeat(32)}],
        "artifacts_out": [{"name": "a", "path": "b", "required": true}], "log": {"limit": 0, "on_full": "fail"},
    });
    JobSpec::from_json(&value).unwrap()
}

fn step() -> JobSpec {
    let step = serde_json::json!({
        "attempt": {
            "key": {"flow": "u", "step": "s", "item": 1, "attempt": 2}, "flow_name": "f", "namespace": "t", "job_name": "f-s-i1",
            "template": {"spec": {"z": 0.1, "command": ["{{index}}", "\u{0}", "ä"], "a": {}}}, "inputs": [],
            "output_files": [{"name": "o", "path": "/o"}], "output_artifacts": [],
        },
        "templates": {"configMapTemplates": [{"metadata": {"name": "c"}}]}, "backend": "process",
    });
    JobSpec::from_json(&serde_json::json!({"step": step})).unwrap()
}

fn server_frame() -> ServerFrame {
    let secret = SecretValue {
        name: "s".into(),
        value: vec![1],
        r#as: SecretAs::Env.number(),
        target: "S".into(),
        problem: String::new(),
    };
    ServerFrame {
        seq: 1,
        ack: 2,
        epoch: 3,
        welcome: Some(Welcome {
            last_worker_seq: 4,
            keep: refs([attempt(1)]),
            kill: refs([attempt(2)]),
            settled: refs([attempt(3)]),
        }),
        specs: vec![Spec::new(5, &spec())],
        assign: vec![AssignJob {
            timeout_ms: 1,
            grace_ms: 2,
            secrets: vec![secret],
            traceparent: "00-a".into(),
            correlation_id: "c".into(),
            device_hint: vec![0, 3],
            gpu: Some(
                GpuShape { vendor: Vendor::Nvidia, model: "a100".parse().unwrap(), memory_bytes: 80 << 30 }.into(),
            ),
            ..AssignJob::new(attempt(4), 5, StartMode::Inherit)
        }],
        cancel: vec![CancelJob::new(attempt(5), CancelReason::Gang, 7)],
        revoke: refs([attempt(6)]),
        verdicts: vec![Judgement::new(attempt(7), ReportVerdict::Adopted)],
        log_credit: 8,
        directive: Some(Directive { kind: DirectiveKind::Drain.into(), reason: "r".into(), deadline_ms: 9 }),
        lease_ms: 10,
        retry_after_ms: 11,
    }
}

/// A message that is used as it is, after encoding.
fn arrives<M: Message + Default + Check>(message: &M) -> Result<M, WireError> {
    checked(M::decode(message.encode_to_vec().as_slice()).unwrap())
}

/// What arrives of a message with a form of its own, after encoding.
fn sent<P: Message + Default, T: Into<P> + TryFrom<P>>(message: T) -> Result<T, T::Error> {
    T::try_from(P::decode(message.into().encode_to_vec().as_slice()).unwrap())
}

#[test]
fn frames_arrive_as_they_were_sent() {
    assert_eq!(arrives(&worker_frame()), Ok(worker_frame()));
    assert_eq!(arrives(&server_frame()), Ok(server_frame()));
    assert_eq!(arrives(&WorkerFrame::default()), Ok(WorkerFrame::default()));
    assert_eq!(arrives(&ServerFrame::default()), Ok(ServerFrame::default()));
    assert_eq!((worker_frame().entries(), server_frame().entries()), (9, 5));
}

pub(super) fn registration() -> Registration {
    let gpu = GpuDevices {
        vendor: orlop_core::hardware::gpu::Vendor::Amd,
        model: orlop_core::hardware::gpu::ModelKey::new("mi300x").unwrap(),
        memory_bytes: 1,
        count: 2,
    };
    let unit = GpuUnit { vendor: gpu.vendor, model: gpu.model.clone(), index: 1, uuid: "GPU-1".into() };
    Registration {
        worker: "w-1".parse().unwrap(),
        join_token: "t".into(),
        csr: vec![1],
        protocol: ProtocolRange::OURS,
        features: BTreeSet::from(["f".into()]),
        capabilities: Capabilities {
            cpu_m: 1,
            memory_bytes: 2,
            gpus: vec![gpu],
            gpu_units: vec![unit],
            extras: BTreeMap::from([("l".into(), 1)]),
            labels: BTreeMap::from([("zone".into(), "a".into())]),
            features: BTreeSet::from(["cgroup2".into()]),
            runtimes: BTreeSet::from([Runtime::Process, Runtime::Docker, Runtime::Noop]),
            max_jobs: 8,
            tenants: BTreeSet::from(["t".parse().unwrap()]),
        },
        agent_version: "1".into(),
        boot_id: "b".into(),
        state_id: "s".into(),
        state_place: "8:12".into(),
    }
}

#[test]
fn registration_and_heartbeats_arrive_as_they_were_sent() {
    assert_eq!(sent::<v1::RegisterWorkerRequest, _>(registration()), Ok(registration()));
    let registered = Registered {
        worker: "w-1".parse().unwrap(),
        incarnation: Incarnation::new(2).unwrap(),
        session: SessionId::from_bytes([1; 16]),
        epoch: Epoch(3),
        protocol: 1,
        features: BTreeSet::from(["f".into()]),
        heartbeat_ms: 5000,
        lease_ms: 20_000,
        limits: Limits::OURS,
        certificate: vec![1],
        ca: vec![2],
        status: Some(status()),
    };
    assert_eq!(sent::<v1::RegisterWorkerResponse, _>(registered.clone()), Ok(registered));
    let beat = Heartbeat { session_id: vec![1; 16], epoch: 2, status: Some(status()) };
    assert_eq!(arrives(&beat), Ok(beat));
    let answer = HeartbeatResponse { epoch: 2, lease_ms: 3, directive: server_frame().directive };
    assert_eq!(checked(answer.clone()), Ok(answer));
    let unknown = Directive { kind: 99, ..Directive::default() };
    let wrong = HeartbeatResponse { directive: Some(unknown), ..HeartbeatResponse::default() };
    insta::assert_snapshot!(checked(wrong).unwrap_err(), @"directive.kind is 99, which this version does not know");
}

#[test]
fn specifications_arrive_as_they_were_sent() {
    let sent = |spec: &JobSpec| sent_spec(spec).unwrap();
    for spec in [spec(), step(), JobSpec::default(), JobSpec { command: vec!["a".into()], ..JobSpec::default() }] {
        assert_eq!(sent(&spec), spec);
        assert_eq!(sent(&spec).content_hash(), spec.content_hash());
    }
    let array =
        serde_json::json!({"command": ["a"], "array": {"indices": "0-9", "max_parallel": 2, "max_failures": 0}});
    let array = JobSpec::from_json(&array).unwrap();
    assert_eq!(sent(&array), array);
}

fn sent_spec(spec: &JobSpec) -> Result<JobSpec, WireError> {
    let frame = arrives(&ServerFrame { specs: vec![Spec::new(1, spec)], ..ServerFrame::default() })?;
    frame.specs[0].read()
}

#[test]
fn a_specification_that_the_other_side_reads_as_another_job_is_refused() {
    let refused = |change: fn(&mut Spec)| {
        let mut changed = Spec::new(1, &spec());
        change(&mut changed);
        changed.read().unwrap_err().to_string()
    };
    let errors = [
        refused(|spec| spec.sha256 = Vec::new()),
        refused(|spec| spec.json = br#"{"command": ["true"]}"#.as_slice().into()),
        refused(|spec| spec.json = br#"{"command": ["true"], "later": 1}"#.as_slice().into()),
        refused(|spec| spec.json = b"{".as_slice().into()),
    ];
    insta::assert_snapshot!(errors.join("\n"));
}

#[test]
fn the_scheduler_gets_every_field_that_placement_depends_on() {
    insta::assert_debug_snapshot!(spec().demand(&"other".parse().unwrap()));
    let demand = |spec: JobSpec| JobSpec { gang: None, ..spec }.demand(&"t".parse().unwrap());
    let other = JobSpec { priority: 9, timeout_ms: 77, env: BTreeMap::new(), ..spec() };
    assert!(demand(spec()).inherits_from(&demand(other)));
    assert!(!demand(spec()).inherits_from(&demand(JobSpec { tenant: Some("u".parse().unwrap()), ..spec() })));
    assert!(JobSpec { priority: 10, ..spec() }.demand(&"t".parse().unwrap()).check().is_err());
}

#[test]
fn what_breaks_a_bound_is_refused_with_its_field() {
    let frame = |change: fn(&mut WorkerFrame)| {
        let mut wire = worker_frame();
        change(&mut wire);
        wire.check().unwrap_err().to_string()
    };
    let errors = [
        frame(|wire| wire.results[0].r#ref = None),
        frame(|wire| wire.results[0].r#ref.as_mut().unwrap().attempt = 0),
        frame(|wire| wire.results[0].outcome = 0),
        frame(|wire| wire.results[0].outcome = 99),
        frame(|wire| wire.results[0].tail = vec![0; TAIL_MAX + 1].into()),
        frame(|wire| drop(wire.results[0].outputs.insert("k".into(), "v".repeat(OUTPUTS_MAX)))),
        frame(|wire| wire.results[0].artifacts[0].sha256 = "x".into()),
        frame(|wire| wire.logs[0].data = vec![0; CHUNK_MAX + 1].into()),
        frame(|wire| wire.logs[0].seq = 0),
        frame(|wire| wire.need_specs = vec![0; FRAME_ENTRIES]),
        frame(|wire| wire.hello.as_mut().unwrap().session_id = vec![0; 15]),
        frame(|wire| wire.status.as_mut().unwrap().worker_id = "W".into()),
        frame(|wire| wire.goodbye = Some(v1::Goodbye { reason: "x".repeat(5000) })),
    ];
    insta::assert_snapshot!(errors.join("\n"));
    let mut wire = v1::RegisterWorkerRequest::from(registration());
    wire.labels = (0..65).map(|at| (format!("k{at}"), String::new())).collect();
    insta::assert_snapshot!(Registration::try_from(wire).unwrap_err(), @"labels is 65 long; use at most 64");
    let mut wire = v1::RegisterWorkerRequest::from(registration());
    wire.capabilities.as_mut().unwrap().max_jobs = 0;
    insta::assert_snapshot!(Registration::try_from(wire).unwrap_err(), @"capabilities.max_jobs is 0; use 1 to 65536");
}

#[test]
fn a_runtime_of_a_later_version_is_left_out() {
    let mut wire = v1::RegisterWorkerRequest::from(registration());
    wire.capabilities.as_mut().unwrap().runtimes.push(77);
    assert_eq!(Registration::try_from(wire), Ok(registration()));
}

#[test]
fn protocols_meet_at_the_highest_common_number() {
    let range = |min, max| ProtocolRange { min, max };
    assert_eq!(range(1, 3).common(range(2, 5)), Some(3));
    assert_eq!(range(1, 1).common(range(2, 5)), None);
    assert_eq!(range(0, 0).common(range(0, 5)), None);
    assert_eq!(ProtocolRange::OURS.common(ProtocolRange::OURS), Some(super::PROTOCOL));
}

#[test]
fn a_result_says_how_long_it_ran_unless_its_clock_was_set_back() {
    let at = |millis| Some(Time::from_millis(millis));
    let ran = |started_at, finished_at| {
        JobResult::new(attempt(1), TaskEnd::Succeeded).with_times(started_at, finished_at).ran_ms()
    };
    assert_eq!((ran(at(10), at(13)), ran(at(10), at(10))), (Some(3), Some(0)));
    assert_eq!((ran(at(10), at(9)), ran(None, at(9)), ran(at(10), None)), (None, None, None));
}

#[test]
fn results_in_the_words_of_the_scheduler() {
    let outcome = |ending, reason: &str| {
        JobResult { reason: reason.into(), exit_code: Some(3), ..JobResult::new(attempt(1), ending) }
            .scheduler_outcome()
    };
    assert_eq!(outcome(TaskEnd::Failed, "oom"), Outcome::Failed { exit_code: Some(3) });
    assert_eq!(outcome(TaskEnd::StartFailed, "image"), Outcome::StartFailed { permanent: true });
    assert_eq!(outcome(TaskEnd::StartFailed, "command: `x` was not found"), Outcome::CannotStart { exit_code: 3 });
    assert_eq!(outcome(TaskEnd::StartFailed, "fork"), Outcome::StartFailed { permanent: false });
    assert_eq!((outcome(TaskEnd::Preempted, ""), outcome(TaskEnd::Lost, "")), (Outcome::Cancelled, Outcome::Lost));
}

#[test]
fn credentials_never_show_in_debug_output() {
    let text = format!("{:?} {:?} {:?}", registration(), server_frame(), worker_frame());
    assert!(!text.contains("join_token") && !text.contains("0707070707"), "{text}");
    assert!(!text.contains("value: ["), "{text}");
}

#[test]
fn sizes_of_entries_are_never_below_what_they_take() {
    let result = result();
    assert!(result.encoded_len() <= result.size());
    let chunk = LogChunk { data: vec![0; CHUNK_MAX].into(), seq: u64::MAX, ..chunk() };
    assert!(chunk.encoded_len() <= chunk.size());
}

proptest! {
    #[test]
    fn no_bytes_panic_and_what_is_taken_is_sent_alike(mut bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0..400_usize) {
        // Half of them are damaged frames rather than noise.
        if at % 2 == 0 {
            let mut frame = worker_frame().encode_to_vec();
            let from = at.min(frame.len());
            let until = (from + bytes.len()).min(frame.len());
            frame.splice(from..until, bytes.drain(..));
            bytes = frame;
        }
        if let Some(frame) = WorkerFrame::decode(bytes.as_slice()).ok().and_then(|frame| checked(frame).ok()) {
            prop_assert_eq!(arrives(&frame), Ok(frame));
        }
        if let Some(frame) = ServerFrame::decode(bytes.as_slice()).ok().and_then(|frame| checked(frame).ok()) {
            prop_assert_eq!(arrives(&frame), Ok(frame));
        }
    }
}
