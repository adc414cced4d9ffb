//! Reading logs: what is there, what comes, attempts one after the other, what is missing.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use orlop_cloud::logs::{LogOptions, LogStore};
use orlop_core::error::Code;
use orlop_core::id::JobId;
use orlop_core::machine::job::JobState;
use orlop_core::task::{LogGap, LogStream, TaskEnd, TaskRef};
use orlop_core::testing::fleet_store::MemoryFleet;
use orlop_core::time::Time;
use serde_json::json;

use super::super::{LogNews, LogOrder, LogReader, Options, Stop};
use super::agent::Agent;
use super::fixture::{Fixture, SOON, until};
use crate::wire::attempt::{JobResult, LogChunk, LogSummary};
use crate::wire::bound::OnWire as _;
use crate::wire::frame::WorkerFrame;

struct Logged {
    fixture: Fixture,
    agent: Agent,
    stop: Stop,
    _folder: tempfile::TempDir,
}

/// When all chunks are written.
const WRITTEN: Time = Time::from_millis(1);

fn chunk(attempt: TaskRef, seq: u64, text: &'static str) -> LogChunk {
    LogChunk::new(attempt, LogStream::Stdout, seq, text).with_time_and_gap(Some(WRITTEN), None)
}

fn frame(chunks: &[LogChunk]) -> WorkerFrame {
    WorkerFrame { logs: chunks.to_vec(), ..WorkerFrame::default() }
}

/// A result that says how many chunks there are.
fn result(attempt: TaskRef, ending: TaskEnd, last_seq: u64) -> WorkerFrame {
    let log = Some(LogSummary { last_seq, ..LogSummary::default() });
    let results = vec![JobResult { log, exit_code: Some(1), ..JobResult::new(attempt, ending) }];
    WorkerFrame { results, ..WorkerFrame::default() }
}

impl Logged {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let logs = LogStore::open(folder.path(), LogOptions::default()).unwrap();
        let fixture = Fixture::with(MemoryFleet::new(), Options { logs: Some(logs), ..Options::default() }).await;
        let agent = Agent::join(&fixture.handle(), "w1", 8).await;
        Self { fixture, agent, stop: Stop::default(), _folder: folder }
    }

    async fn job(&self, fields: serde_json::Value) -> JobId {
        self.fixture.submit(&[fields]).await[0]
    }

    async fn read(&self, order: LogOrder) -> LogReader {
        LogReader::open(self.fixture.handle(), self.stop.clone(), order).await.unwrap()
    }

    async fn all(&self, order: LogOrder) -> (String, JobState) {
        rest(&mut self.read(order).await).await
    }
}

async fn next(reader: &mut LogReader) -> LogNews {
    tokio::time::timeout(SOON, reader.next()).await.expect("something comes").unwrap().expect("the server goes on")
}

fn shown(chunks: &[LogChunk]) -> String {
    let one = |chunk: &LogChunk| {
        let gap = chunk.log_gap().map(|gap| format!("[-{}]", gap.chunks)).unwrap_or_default();
        format!("{gap}{}:{}", chunk.attempt().attempt, String::from_utf8_lossy(&chunk.data))
    };
    chunks.iter().map(one).collect::<Vec<_>>().join(" ")
}

async fn rest(reader: &mut LogReader) -> (String, JobState) {
    let mut all = Vec::new();
    loop {
        match next(reader).await {
            LogNews::Chunks(chunks) => all.push(shown(&chunks)),
            LogNews::End(state) => return (all.join(" "), state),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_followed_log_waits_for_the_job_and_goes_over_its_attempts() {
    let mut at = Logged::new().await;
    let job = at.job(json!({"retries": 1, "retry": {"backoff": 1000, "jitter": 0.0}})).await;
    let mut reader = at.read(LogOrder { follow: true, ..LogOrder::of(job) }).await;
    let given = at.agent.given(1).await[0];
    at.agent.start(given).await;
    at.agent.send(frame(&[chunk(given, 1, "one")])).await;
    assert_eq!(next(&mut reader).await, LogNews::Chunks(vec![chunk(given, 1, "one")]));
    at.agent.send(frame(&[chunk(given, 2, "two")])).await;
    assert_eq!(next(&mut reader).await, LogNews::Chunks(vec![chunk(given, 2, "two")]));
    at.agent.live.clear();
    at.agent.send(result(given, TaskEnd::Failed, 2)).await;
    at.fixture.reaches(job, JobState::Backoff).await;
    let waiting = tokio::spawn(async move { rest(&mut reader).await });
    // More than the backoff, and less than what would end the session of a worker that is not heard.
    at.fixture.pass(Duration::from_secs(2));
    at.agent.beat().await;
    let again = at.agent.given(1).await[0];
    at.agent.send(frame(&[chunk(again, 1, "three")])).await;
    at.agent.send(result(again, TaskEnd::Failed, 1)).await;
    assert_eq!(waiting.await.unwrap(), ("2:three".to_owned(), JobState::Failed));
    // Afterwards: the latest attempt, a named one, or from one on.
    let latest = LogOrder::of(job);
    assert_eq!(at.all(latest).await.0, "2:three");
    assert_eq!(at.all(LogOrder { attempt: Some(1), ..latest }).await.0, "1:one 1:two");
    assert_eq!(at.all(LogOrder { from: Some(1), after: 1, ..latest }).await.0, "1:two 2:three");
    for wrong in [LogOrder { attempt: Some(3), ..latest }, LogOrder { index: 1, ..latest }] {
        let refused = LogReader::open(at.fixture.handle(), at.stop.clone(), wrong).await.unwrap_err();
        assert_eq!(refused.code, Code::NotFound);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chunks_that_come_behind_their_result_are_waited_for() {
    let mut at = Logged::new().await;
    let job = at.job(json!({})).await;
    let given = at.agent.given(1).await[0];
    at.agent.send(result(given, TaskEnd::Succeeded, 2)).await;
    at.fixture.reaches(job, JobState::Completed).await;
    let mut reader = at.read(LogOrder::of(job)).await;
    let reading = tokio::spawn(async move { rest(&mut reader).await });
    at.agent.send(frame(&[chunk(given, 1, "a"), chunk(given, 2, "b")])).await;
    assert_eq!(reading.await.unwrap(), ("1:a 1:b".to_owned(), JobState::Completed));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_whose_stream_ends_before_the_loop_has_it_comes_again() {
    let mut at = Logged::new().await;
    let job = at.job(json!({})).await;
    let given = at.agent.given(1).await[0];
    at.agent.start(given).await;
    // Its logs are written first, and the stream ends meanwhile.
    let last = WorkerFrame { logs: vec![chunk(given, 1, "a")], ..result(given, TaskEnd::Succeeded, 1) };
    let (received, number) = at.agent.send_and_break(last).await;
    assert_eq!(received, number - 1, "it was not received");
    at.fixture.reaches(job, JobState::Completed).await;
    assert_eq!(at.all(LogOrder::of(job)).await, ("1:a".to_owned(), JobState::Completed));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_missing_is_reported_and_streams_can_be_chosen() {
    let mut at = Logged::new().await;
    let job = at.job(json!({})).await;
    let given = at.agent.given(1).await[0];
    let gap = Some(LogGap { chunks: 1, bytes: 7 });
    let error = LogChunk { stream: LogStream::Stderr.number(), ..chunk(given, 4, "err") };
    let (first, last) = (chunk(given, 2, "a").with_time_and_gap(Some(WRITTEN), gap), chunk(given, 5, "b"));
    let timeless = LogChunk { time: 0, ..chunk(given, 6, "c") };
    at.agent.send(frame(&[first, error, last, timeless])).await;
    at.agent.live.clear();
    at.agent.send(result(given, TaskEnd::Succeeded, 6)).await;
    at.fixture.reaches(job, JobState::Completed).await;
    let order = LogOrder::of(job);
    assert_eq!(at.all(order).await.0, "[-1]1:a [-1]1:err 1:b 1:c");
    assert_eq!(at.all(LogOrder { stream: Some(LogStream::Stderr), ..order }).await.0, "1:err");
    assert_eq!(at.all(LogOrder { stream: Some(LogStream::Stdout), ..order }).await.0, "[-1]1:a 1:b 1:c");
    let late = WRITTEN.plus(Duration::from_millis(1));
    assert_eq!(at.all(LogOrder { since: Some(late), ..order }).await.0, "1:c", "all that has a time is older");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_workers_drop_is_counted_once_at_the_end_of_a_log_too() {
    let mut at = Logged::new().await;
    let jobs = at.fixture.submit(&[json!({}), json!({})]).await;
    let given = at.agent.given(2).await;
    let metrics = Arc::clone(&at.fixture.handle().options().metrics);
    let dropped = || metrics.transport.log_dropped_bytes.of(["worker"]).get();
    // Ends are counted once they are written, which who reads the store may see before.
    let comes_to = async |bytes| until("the count", async || (dropped() >= bytes).then_some(())).await;
    let gap = |attempt, seq, bytes| {
        chunk(attempt, seq, "x").with_time_and_gap(Some(WRITTEN), Some(LogGap { chunks: 1, bytes }))
    };
    let ended = |attempt, dropped_bytes| {
        let mut frame = result(attempt, TaskEnd::Succeeded, 2);
        frame.results[0].log.as_mut().unwrap().dropped_bytes = dropped_bytes;
        frame
    };
    for _ in 0..2 {
        at.agent.send(frame(&[gap(given[0], 2, 7), gap(given[1], 2, 5)])).await;
        assert_eq!(dropped(), 12, "chunks that are sent again tell nothing new");
    }
    // What no chunk reported is in the end of the attempt, which comes twice; then chunks that were still on their way.
    at.agent.live.remove(&given[0]);
    for _ in 0..2 {
        at.agent.send(ended(given[0], 20)).await;
        at.agent.all_acknowledged().await;
        comes_to(25).await;
        assert_eq!(dropped(), 25);
    }
    at.agent.send(frame(&[gap(given[0], 3, 13), gap(given[0], 4, 2)])).await;
    assert_eq!(dropped(), 27, "all but what was dropped after the end is known");
    at.fixture.reaches(jobs[0], JobState::Completed).await;
    assert_eq!(metrics.transport.log_bytes.get(), 4, "of chunks sent twice one is stored");
    // Another server hears all of it once more.
    at.fixture.crash();
    at.fixture.start().await;
    let spool = [frame(&[gap(given[0], 4, 2), gap(given[1], 2, 5)]), ended(given[0], 20), ended(given[1], 9)];
    at.agent.spool = (1..).zip(spool).collect();
    at.agent.live.clear();
    at.agent.rejoin(&at.fixture.handle()).await.unwrap();
    at.fixture.reaches(jobs[1], JobState::Completed).await;
    comes_to(27 + 4).await;
    assert_eq!(dropped(), 27 + 4, "only what the second attempt lost behind its last chunk is new");
    assert_eq!(metrics.transport.log_bytes.get(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_log_is_the_tail_of_its_result_and_elements_have_logs_of_their_own() {
    let mut at = Logged::new().await;
    let job = at.job(json!({"array": {"count": 3}})).await;
    let given = at.agent.given(3).await;
    let results = given.iter().map(|attempt| {
        let tail = Bytes::from(format!("element {}\n", attempt.index));
        JobResult { tail, exit_code: Some(0), ..JobResult::new(*attempt, TaskEnd::Succeeded) }
    });
    at.agent.live.clear();
    let frame = WorkerFrame { results: results.collect(), ..WorkerFrame::default() };
    at.agent.send(frame).await;
    at.fixture.reaches(job, JobState::Completed).await;
    for index in 0..3 {
        let order = LogOrder { index, follow: index == 1, ..LogOrder::of(job) };
        assert_eq!(at.all(order).await, (format!("1:element {index}\n"), JobState::Completed));
        assert_eq!(at.all(LogOrder { stream: Some(LogStream::Stderr), ..order }).await.0, "");
    }
    let waits = at.job(json!({"resources": {"cpu_m": 100_000}})).await;
    assert_eq!(at.all(LogOrder::of(waits)).await, (String::new(), JobState::Queued), "nothing was written yet");
    let mut following = at.read(LogOrder { follow: true, ..LogOrder::of(waits) }).await;
    at.stop.stop();
    assert_eq!(following.next().await.unwrap(), None, "the server ends");
}
