//! Events of the bus: which are reported, to whom they belong, and which only where they are asked for.

use orlop_cloud::logs::{LogOptions, LogStore};
use orlop_core::ports::bus::{Delivery, EventBody, SubjectFilter, Subscription};
use orlop_core::task::LogStream;
use orlop_core::testing::fleet_store::MemoryFleet;
use orlop_scheduler::event::Quota;
use serde_json::json;

use super::super::{Frequent, Options};
use super::agent::Agent;
use super::fixture::{Fixture, tenant};
use crate::wire::attempt::LogChunk;
use crate::wire::frame::WorkerFrame;

/// Events up to one of a kind.
async fn until_kind(events: &mut impl Subscription, last: &str) -> Vec<EventBody> {
    let mut all: Vec<EventBody> = Vec::new();
    while all.last().is_none_or(|body| body.kind != last) {
        let next = tokio::time::timeout(super::fixture::SOON, events.next()).await.expect("an event comes");
        let Some(Delivery::Event(event)) = next else { panic!("{next:?}") };
        all.push(serde_json::from_str(&event.body).unwrap());
    }
    all
}

/// What is heard of a worker that says it is well and writes two lines of a log, up to a change of a quota.
async fn heard(frequent: Frequent) -> Vec<EventBody> {
    let folder = tempfile::tempdir().unwrap();
    let logs = LogStore::open(folder.path(), LogOptions::default()).unwrap();
    let options = Options { logs: Some(logs), frequent, ..Options::default() };
    let fixture = Fixture::with(MemoryFleet::new(), options).await;
    let mut agent = Agent::join(&fixture.handle(), "w1", 8).await;
    let mut events = fixture.handle().subscribe(SubjectFilter::all()).unwrap();
    fixture.submit(&[json!({ "correlation_id": "c-1" })]).await;
    let attempt = agent.given(1).await[0];
    agent.beat().await;
    let chunk = |seq, text: &'static str| LogChunk::new(attempt, LogStream::Stdout, seq, text);
    agent.send(WorkerFrame { logs: vec![chunk(1, "hush\n"), chunk(2, "more\n")], ..WorkerFrame::default() }).await;
    agent.all_acknowledged().await;
    fixture.handle().set_tenant(tenant(), None, Some(Quota::default())).await.unwrap();
    until_kind(&mut events, "quota.changed").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heartbeats_and_chunks_are_reported_only_where_they_are_asked_for() {
    let quiet = heard(Frequent::default()).await;
    assert!(quiet.iter().all(|body| !["worker.heartbeat", "log.chunk"].contains(&body.kind.as_str())), "{quiet:?}");
    let all = heard(Frequent { heartbeats: true, chunks: true }).await;
    let beat = all.iter().find(|body| body.kind == "worker.heartbeat").expect("a heartbeat");
    assert_eq!(beat.worker.as_deref(), Some("w1"));
    let chunk = all.iter().find(|body| body.kind == "log.chunk").expect("a chunk");
    assert_eq!(chunk.data, json!({ "stream": "stdout", "first_seq": 1, "last_seq": 2, "bytes": 10 }));
    assert_eq!((chunk.tenant.as_deref(), chunk.correlation_id.as_deref()), (Some("physics"), Some("c-1")));
    assert!(!format!("{all:?}").contains("hush"), "never the text");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_a_quota_says_whose_it_is() {
    let all = heard(Frequent::default()).await;
    assert_eq!(all.last().unwrap().tenant.as_deref(), Some("physics"));
}
