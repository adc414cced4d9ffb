//! How long a job waits that could start at once: from its submit to its start, and to its end.

use std::collections::HashMap;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use orlop::wire::grpc::JobClient;
use orlop::wire::job::Submission;
use orlop::wire::query::Watching;
use orlop_core::id::JobId;
use orlop_core::machine::job::JobState;
use serde_json::json;
use tokio::sync::mpsc;

use crate::Options;
use crate::bed::{Bed, ended, job};
use crate::tally::{Tally, times};

/// Submits at a steady pace, whatever becomes of them, and watches all of them from one connection.
async fn open_loop(client: &JobClient, count: u32, every: Duration) -> (Tally, Tally) {
    let mut events = client.watch(Watching::default()).await.expect("events");
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
                    sender.send((taken.jobs[0], at)).expect("somebody measures");
                });
            }
        })
    };
    let (mut started, mut ends) = (HashMap::new(), HashMap::new());
    while ends.len() < count as usize {
        let event = events.next().await.expect("events go on").expect("an event");
        assert!(!event.lagged, "the watcher is too slow for what it measures");
        if matches!(event.job.state, JobState::Running) || event.job.state.is_terminal() {
            started.entry(event.job.job).or_insert_with(Instant::now);
        }
        if event.job.state.is_terminal() {
            ends.insert(event.job.job, Instant::now());
        }
    }
    submitting.await.expect("it goes well");
    let (mut to_start, mut to_end) = (Tally::default(), Tally::default());
    while let Some((id, at)) = submitted.recv().await {
        let (Some(start), Some(end)) = (started.get(&id), ends.get(&id)) else { continue };
        to_start.add(start.duration_since(at).as_secs_f64() * 1e3);
        to_end.add(end.duration_since(at).as_secs_f64() * 1e3);
    }
    (to_start, to_end)
}

/// From submit to start from a connected client, and from submit to end as the command line sees it.
pub(super) async fn start(options: &Options) {
    let bed = Bed::with_workers(1, 2).await;
    let client = bed.client().await;
    let (to_start, to_end) = open_loop(&client, options.part(10_000), Duration::from_millis(20)).await;
    times("submit → started, seen by a connected client", &to_start, "p50 < 2 ms, p99 < 20 ms");
    times("submit → ended, seen by a connected client", &to_end, "");
    let mut waits = Tally::default();
    for _ in 0..options.part(300) {
        let task = job(json!({"command": ["true"], "resources": {"cpu_m": 100, "memory_bytes": 0}}));
        let at = Instant::now();
        let taken = client.submit(Submission { jobs: vec![task], key: None }).await.expect("it is taken");
        ended(&client, taken.jobs[0]).await;
        waits.add(at.elapsed().as_secs_f64() * 1e3);
    }
    times("submit and wait, one after the other", &waits, "p50 < 8 ms");
    command_line(options);
}

/// The same from `orlop submit --wait`, the start of the program included.
fn command_line(options: &Options) {
    let dir = tempfile::tempdir().expect("a directory");
    let orlop = env!("CARGO_BIN_EXE_orlop");
    let mut up = Command::new(orlop);
    up.args(["up", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--data"]).arg(dir.path());
    let mut up = up.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(up.stdout.take().expect("its output")));
    let address = loop {
        let line = lines.next().expect("it says where it listens").expect("a line");
        if let Some(rest) = line.trim().strip_prefix("REST") {
            break rest.trim().trim_end_matches("/api/v1").to_owned();
        }
    };
    let mut waits = Tally::default();
    for _ in 0..options.part(100) {
        let at = Instant::now();
        let mut submit = Command::new(orlop);
        submit.args(["submit", "--server", &address, "--cpu", "100m", "--memory", "1Mi", "--wait", "--", "true"]);
        let output = submit.stdin(Stdio::null()).output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        waits.add(at.elapsed().as_secs_f64() * 1e3);
    }
    drop(up.kill());
    drop(up.wait());
    times("`orlop submit --wait -- true`, program and all", &waits, "p50 < 8 ms (HyperQueue 58.6)");
}
