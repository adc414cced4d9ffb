//! Logs: one job at full speed beside the same program writing to a file, and many jobs with a few lines each.

use std::process::{Command, Stdio};
use std::time::Instant;

use futures::StreamExt as _;
use orlop::wire::job::Submission;
use orlop::wire::v1::LogsRequest;
use orlop_core::id::JobId;
use serde_json::json;

use crate::Options;
use crate::fixture::{Fixture, array, ended, job};
use crate::samples::{Samples, line};

/// Bytes of one job's log.
const MEBIBYTES: u32 = 256;

/// A program that writes so many bytes of lines.
fn script(bytes: u64) -> String {
    format!("yes 'a line of a log that is about as long as lines of logs are, or so' | head -c {bytes}")
}

/// All of the latest log of a job or an element.
fn whole(job: JobId, index: Option<u32>) -> LogsRequest {
    LogsRequest { job_id: job.as_u64(), index, ..LogsRequest::default() }
}

/// See the module.
pub(super) async fn logs(options: &Options) {
    let bytes = u64::from(options.part(MEBIBYTES)) << 20;
    #[expect(clippy::cast_precision_loss, reason = "bytes")]
    let mib = bytes as f64 / 1_048_576.0;
    let (mut ours, mut pipe) = (Samples::default(), Samples::default());
    for _ in 0..options.repeat {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let began = Instant::now();
        let mut bare = Command::new("sh");
        bare.args(["-c", &format!("({}) | cat", script(bytes))]);
        let status = bare.stdout(Stdio::from(file.reopen().expect("the file"))).status().expect("it runs");
        assert!(status.success());
        pipe.add(mib / began.elapsed().as_secs_f64());
        let fixture = Fixture::with_workers(1, 2).await;
        let client = fixture.client().await;
        let log = json!({"limit": bytes * 2, "on_full": "block"});
        let resources = json!({"cpu_m": 1000, "memory_bytes": 1 << 20});
        let task = job(json!({"command": ["sh", "-c", script(bytes)], "resources": resources, "log": log}));
        let began = Instant::now();
        let taken = client.submit(Submission { jobs: vec![task], key: None }).await.expect("it is taken");
        ended(&client, taken.jobs()[0]).await;
        let mut pages = client.logs(whole(taken.jobs()[0], None)).await.expect("its log");
        let mut got = 0_u64;
        while let Some(page) = pages.next().await {
            got += page.expect("a page").chunks.iter().map(|chunk| chunk.data.len() as u64).sum::<u64>();
        }
        ours.add(mib / began.elapsed().as_secs_f64());
        assert_eq!(got, bytes, "every byte of the log is there");
    }
    line("a pipe into a file", &pipe, " MiB/s", "");
    line("a job's log, to its last byte read back", &ours, " MiB/s", "");
    line("orlop ÷ pipe", &ours.over(&pipe), "×", "≥ 0.5");
    many(options).await;
}

/// Jobs that write ten lines a second.
async fn many(options: &Options) {
    let jobs = options.part(1000);
    let fixture = Fixture::with_workers(1, jobs).await;
    let client = fixture.client().await;
    let lines = 50;
    let script = format!("i=0; while [ $i -lt {lines} ]; do i=$((i+1)); echo line $i; sleep 0.1; done");
    let task = job(json!({"command": ["sh", "-c", script], "resources": {"cpu_m": 1000, "memory_bytes": 1 << 20}}));
    let began = Instant::now();
    let taken = client.submit(Submission { jobs: vec![array(&task, jobs)], key: None }).await.expect("it is taken");
    ended(&client, taken.jobs()[0]).await;
    let took = began.elapsed().as_secs_f64();
    let mut read_back = 0;
    for index in (0..jobs).step_by(97) {
        let mut pages = client.logs(whole(taken.jobs()[0], Some(index))).await.expect("its log");
        let mut text = Vec::new();
        while let Some(page) = pages.next().await {
            page.expect("a page").chunks.iter().for_each(|chunk| text.extend_from_slice(&chunk.data));
        }
        assert_eq!(text.iter().filter(|byte| **byte == b'\n').count(), lines, "no line of element {index} is lost");
        read_back += 1;
    }
    println!("  {jobs} jobs of {lines} lines at 10 a second: {took:.1} s, {read_back} logs read back whole");
}
