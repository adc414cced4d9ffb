//! How long a job waits that could start at once: from its submit to its start, and to its end.

use std::collections::HashMap;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use orlop::wire::grpc::JobClient;
use orlop::wire::job::Submission;
use orlop::wire::v1::{JobEvent, WatchJobsRequest};
use orlop_core::id::JobId;
use orlop_core::machine::job::JobState;
use serde_json::json;
use tokio::sync::mpsc;

use crate::Options;
use crate::fixture::{Fixture, array, ended, job};
use crate::peer::Peer;
use crate::samples::{Samples, times};

fn seen(event: &JobEvent) -> (JobId, JobState) {
    let job = event.known_job().expect("a job");
    (job.id(), job.known_state().expect("a state"))
}

/// Submits at a steady pace, whatever becomes of them, and watches all of them from one connection.
async fn open_loop(client: &JobClient, count: u32, every: Duration) -> (Samples, Samples) {
    let mut events = client.watch(WatchJobsRequest::default()).await.expect("events");
    let (sender, mut submitted) = mpsc::unbounded_channel::<(JobId, Instant)>();
    let submitting = {
        let client = client.clone();
        tokio::spawn(async move {
            let mut pace = tokio::time::interval(every);
            for _ in 0..count {
                pace.tick().await;
                let (client, sender) = (client.clone(), sender.clone());
                tokio::spawn(async move {
                    let task = job(json!({"command": ["true"], "resources": {"cpu_m": 100, "memory_bytes": 0}}));
                    let at = Instant::now();
                    let taken = client.submit(Submission { jobs: vec![task], key: None }).await.expect("it is taken");
                    sender.send((taken.jobs()[0], at)).expect("somebody measures");
                });
            }
        })
    };
    let (mut started, mut ends) = (HashMap::new(), HashMap::new());
    while ends.len() < count as usize {
        let event = events.next().await.expect("events go on").expect("an event");
        assert!(!event.lagged, "the watcher is too slow for what it measures");
        let (job, state) = seen(&event);
        if state == JobState::Running || state.is_terminal() {
            started.entry(job).or_insert_with(Instant::now);
        }
        if state.is_terminal() {
            ends.insert(job, Instant::now());
        }
    }
    submitting.await.expect("it goes well");
    let (mut to_start, mut to_end) = (Samples::default(), Samples::default());
    while let Some((id, at)) = submitted.recv().await {
        let (Some(start), Some(end)) = (started.get(&id), ends.get(&id)) else { continue };
        to_start.add(start.duration_since(at).as_secs_f64() * 1e3);
        to_end.add(end.duration_since(at).as_secs_f64() * 1e3);
    }
    (to_start, to_end)
}

/// From submit to start from a connected client, and from submit to end as the command line sees it.
pub(super) async fn start(options: &Options) {
    let fixture = Fixture::with_workers(1, 2).await;
    let client = fixture.client().await;
    let (to_start, to_end) = open_loop(&client, options.part(10_000), Duration::from_millis(20)).await;
    times("submit → started, seen by a connected client", &to_start, "p50 < 2 ms, p99 < 20 ms");
    times("submit → ended, seen by a connected client", &to_end, "");
    let mut waits = Samples::default();
    for _ in 0..options.part(300) {
        let task = job(json!({"command": ["true"], "resources": {"cpu_m": 100, "memory_bytes": 0}}));
        let at = Instant::now();
        let taken = client.submit(Submission { jobs: vec![task], key: None }).await.expect("it is taken");
        ended(&client, taken.jobs()[0]).await;
        waits.add(at.elapsed().as_secs_f64() * 1e3);
    }
    times("submit and wait, one after the other", &waits, "p50 < 8 ms");
    command_line(options, &fixture).await;
    drop(fixture);
    if let Some(program) = &options.hyperqueue {
        let (peer, mut waits) = (Peer::new(program, 1, 2), Samples::default());
        for _ in 0..options.part(100) {
            waits.add(peer.run(1, &["true"]) * 1e3);
        }
        times("HyperQueue: submit --wait, program and all", &waits, "");
    } else {
        println!("  HyperQueue: not measured, its program was not given");
    }
    at_load(options).await;
}

/// The same by the command line, the start of the program included: to the start of the job, and to its end with `--wait`.
async fn command_line(options: &Options, fixture: &Fixture) {
    let submit = |wait: Option<&str>| {
        let mut submit = Command::new(env!("CARGO_BIN_EXE_orlop"));
        submit.args(["submit", "--server", fixture.rest(), "--cpu", "100m", "--memory", "1Mi"]).args(wait);
        submit.args(["--", "true"]).stdin(Stdio::null());
        submit
    };
    let client = fixture.client().await;
    let (mut starts, mut waits) = (Samples::default(), Samples::default());
    for _ in 0..options.part(100) {
        let mut events = client.watch(WatchJobsRequest::default()).await.expect("events");
        let at = Instant::now();
        let submitting = tokio::task::spawn_blocking({
            let mut submit = submit(None);
            move || submit.output()
        });
        loop {
            let event = events.next().await.expect("events go on").expect("an event");
            let (_, state) = seen(&event);
            if state == JobState::Running || state.is_terminal() {
                break;
            }
        }
        starts.add(at.elapsed().as_secs_f64() * 1e3);
        let output = submitting.await.expect("it goes well").expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let id = String::from_utf8_lossy(&output.stdout).trim().parse().expect("it prints the id");
        ended(&client, id).await;
        let at = Instant::now();
        let output = submit(Some("--wait")).output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        waits.add(at.elapsed().as_secs_f64() * 1e3);
    }
    times("`orlop submit` → started, program and all", &starts, "p50 < 5 ms (HyperQueue 11.6)");
    times("`orlop submit --wait`, program and all", &waits, "p50 < 8 ms (HyperQueue 58.6)");
}

/// From submit to start where the fleet has to do 70 % of what it can.
async fn at_load(options: &Options) {
    let fixture = Fixture::with_workers(1, 2).await;
    let client = fixture.client().await;
    let count = options.part(5_000);
    let task =
        job(json!({"command": ["true"], "resources": {"cpu_m": 1000, "memory_bytes": 1 << 20}, "expected_ms": 1}));
    let began = Instant::now();
    let all = Submission { jobs: vec![array(&task, count)], key: None };
    let taken = client.submit(all).await.expect("it is taken");
    ended(&client, taken.jobs()[0]).await;
    let most = f64::from(count) / began.elapsed().as_secs_f64();
    let pace = Duration::from_secs_f64(1.0 / (0.7 * most));
    let (to_start, _) = open_loop(&client, count, pace).await;
    times(&format!("submit → started at 70 % of {most:.0} tasks/s"), &to_start, "p99 < 100 ms");
}
