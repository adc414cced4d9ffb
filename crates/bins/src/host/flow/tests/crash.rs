//! Hosts that die at any moment: the next one goes on with the same outcomes, and nothing runs twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use orlop_core::attempt::Address;
use orlop_core::error::{Class, Problem};
use orlop_core::event::FlowEvent;
use orlop_core::ports::journal::{FlowJournal, FlowRecord, FlowRecordSummary, FlowSummary, JournalEntry, StoredFlow};
use orlop_core::spec::status::Decision;
use orlop_core::testing::MemoryJournal;
use orlop_core::testing::substrate::{Call, Operation, Play, When};
use serde_json::{Value, json};

use super::bench::{Bench, UID, flow, outcome};
use crate::host::flow::{FlowHost, HostParts, Submission};

/// A journal whose host dies when it has written so many entries: further writes never return.
struct Mortal {
    inner: MemoryJournal,
    left: AtomicU64,
    /// Whether the last write is still carried out.
    writes_last: bool,
}

impl Mortal {
    async fn breathe(&self, entries: u64) -> Option<()> {
        let left = self.left.load(Ordering::SeqCst);
        if left < entries {
            if self.writes_last {
                return None;
            }
            std::future::pending::<()>().await;
        }
        self.left.store(left - entries, Ordering::SeqCst);
        Some(())
    }
}

#[async_trait]
impl FlowJournal for Mortal {
    async fn create(&self, flow: &FlowRecord) -> Result<(), Problem> {
        self.inner.create(flow).await
    }

    async fn load(&self, uid: &str) -> Result<StoredFlow, Problem> {
        self.inner.load(uid).await
    }

    async fn append(&self, uid: &str, after: u64, entries: &[JournalEntry]) -> Result<(), Problem> {
        let alive = self.breathe(entries.len() as u64).await;
        self.inner.append(uid, after, entries).await?;
        if alive.is_none() {
            std::future::pending::<()>().await;
        }
        Ok(())
    }

    async fn snapshot(&self, uid: &str, through: u64, state: &[u8]) -> Result<(), Problem> {
        self.inner.snapshot(uid, through, state).await
    }

    async fn summarize(&self, uid: &str, summary: &FlowSummary) -> Result<(), Problem> {
        self.inner.summarize(uid, summary).await
    }

    async fn list(&self) -> Result<Vec<FlowRecordSummary>, Problem> {
        self.inner.list().await
    }

    async fn delete(&self, uid: &str) -> Result<(), Problem> {
        self.inner.delete(uid).await
    }
}

fn spec() -> Value {
    let artifact = json!({"artifacts": [{"name": "data", "path": "/d"}], "parameters": [{"name": "n", "valueFrom": {"path": "/n"}}]});
    json!({
        "resourceTemplates": {"configMapTemplates": [{"metadata": {"name": "settings"}, "data": {"k": "[1,2,3]"}}]},
        "executionPolicy": {"failurePolicy": "Continue", "jobRetention": "Failed", "backoffLimit": 20},
        "steps": [
            {"name": "a", "outputs": artifact},
            {"name": "b", "dependencies": ["a"], "retryPolicy": {"limit": 2, "backoff": {"type": "Fixed", "duration": "2s"}}},
            {"name": "lost", "dependencies": ["a"]},
            {"name": "slow", "timeoutSeconds": 30, "continueOnFailure": true},
            {"name": "each", "withParam": "${parameters.list}", "parallelism": 2, "outputs": artifact,
             "inputs": {"parameters": [{"name": "list", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "k"}}}]}},
            {"name": "join", "dependencies": ["each", "b"], "inputs": {"artifacts": [{"name": "x", "from": "each/data"}],
             "parameters": [{"name": "p", "valueFrom": {"jsonPath": "a:$.outputs.n"}}]}},
            {"name": "bad", "dependencies": ["lost"]},
            {"name": "never", "dependencies": ["bad"]},
        ],
        "finally": [{"name": "clean"}],
    })
}

fn bench() -> Bench {
    let bench = Bench::new();
    for (when, play) in [
        (When::step("b").attempt(1), Play::exit(1)),
        (When::step("lost").attempt(1), Play::lost()),
        (When::step("slow"), Play::forever().cancel_takes(Duration::from_millis(1))),
        (When::step("bad"), Play::exit(9)),
    ] {
        bench.substrate.script(when, play);
    }
    bench
}

/// A host that lives until its journal lets it die, or the flow has ended.
async fn live(parts: HostParts, first: bool) -> bool {
    let run = async {
        let mut host = if first {
            FlowHost::submit(parts, Submission::new(flow(spec()), UID), Vec::new()).await.unwrap()
        } else {
            FlowHost::resume(parts, UID).await.unwrap()
        };
        host.run().await.unwrap();
    };
    // Virtual time passes only when nothing can be done: a host that is stuck at its journal is dead.
    tokio::time::timeout(Duration::from_secs(3600), run).await.is_ok()
}

#[tokio::test(start_paused = true)]
async fn a_host_that_dies_after_any_entry_is_replaced_without_a_trace() {
    let calm = bench();
    let expected = outcome(&calm.run(spec()).await);
    insta::assert_snapshot!(expected, @"
    Failed
    a Succeeded 1
    b Succeeded 2
    lost Succeeded 2
    slow Failed/Timeout 1
    each Succeeded 0
    each-i0 Succeeded 1
    each-i1 Succeeded 1
    each-i2 Succeeded 1
    join Succeeded 1
    bad Failed/NonZeroExit 1
    never Skipped/DependencyFailed 0
    clean Succeeded 1
    ");
    let entries = calm.journal.load(UID).await.unwrap().last;
    assert!(entries > 20, "{entries}");
    for (length, writes_last) in (0..entries).flat_map(|length| [(length, false), (length, true)]) {
        let bench = bench();
        let journal = Mortal { inner: bench.journal.clone(), left: AtomicU64::new(length), writes_last };
        let parts = HostParts { journal: Arc::new(journal), ..bench.parts() };
        assert!(!live(parts, true).await, "the first host died");
        assert!(live(bench.next_parts(), false).await, "the second host came to the end");
        let host = FlowHost::resume(bench.next_parts(), UID).await.unwrap();
        assert_eq!(outcome(&host.status()), expected, "after {length} entries, {writes_last}");
        assert_eq!(bench.substrate.repeated(), [], "after {length} entries");
        let again = bench
            .substrate
            .calls()
            .iter()
            .filter(|call| matches!(call, Call::Start(key) if &*key.step == "bad"))
            .count();
        assert!(again <= 2, "{again}");
    }
}

#[tokio::test(start_paused = true)]
async fn hosts_that_die_all_the_time_come_to_the_same_end() {
    let expected = outcome(&bench().run(spec()).await);
    for step in 1..4 {
        let bench = bench();
        let mut first = true;
        for life in 0..200_u64 {
            let journal =
                Mortal { inner: bench.journal.clone(), left: AtomicU64::new(step), writes_last: life % 2 == 0 };
            let parts = HostParts { journal: Arc::new(journal), ..bench.next_parts() };
            if live(parts, first).await {
                break;
            }
            first = false;
        }
        let host = FlowHost::resume(bench.next_parts(), UID).await.unwrap();
        assert_eq!(outcome(&host.status()), expected, "{step} entries a life");
        assert_eq!(bench.substrate.repeated(), []);
    }
}

#[tokio::test(start_paused = true)]
async fn a_detached_flow_goes_on_under_the_next_host() {
    let bench = Bench::new();
    bench.substrate.script(When::step("a"), Play::success().after(Duration::from_secs(5)));
    bench.substrate.use_manual_clock();
    let mut host = bench.submit(json!({"steps": [{"name": "a"}, {"name": "b", "dependencies": ["a"]}]})).await;
    let handle = host.handle();
    let mut status = handle.status();
    let person = async {
        status.wait_for(|view| view.status.progress.running_steps == 1).await.unwrap();
        handle.detach().await;
    };
    let (left, ()) = tokio::join!(host.run(), person);
    assert_eq!(left.unwrap(), crate::host::flow::Left::Detached);
    drop(host);
    bench.substrate.advance(Duration::from_secs(9));
    let mut next = FlowHost::resume(bench.next_parts(), UID).await.unwrap();
    next.run().await.unwrap();
    insta::assert_snapshot!(outcome(&next.status()), @"
    Succeeded
    a Succeeded 1
    b Succeeded 1
    ");
    insta::assert_snapshot!(bench.calls(), @"
    start a/1
    adopt a/1
    start b/1
    ");
}

#[tokio::test(start_paused = true)]
async fn first_events_survive_a_host_that_dies_before_it_has_written_any() {
    let bench = Bench::new();
    let steps = json!([
        {"name": "old"}, {"name": "ok", "type": "Manual"}, {"name": "not", "type": "Manual"},
        {"name": "a", "dependencies": ["old", "ok"]},
    ]);
    let mut flow = flow(json!({"steps": steps, "executionPolicy": {"failurePolicy": "Continue"}}));
    flow.metadata.annotations.insert("approved.workflow.kube-zen.io/ok".to_owned(), "true".to_owned());
    let no = FlowEvent::Approval {
        at: Address::step(2),
        decision: Decision::Rejected,
        by: None,
        verified: false,
        decided_at: bench.parts().clock.now(),
        reason: None,
    };
    let first = vec![FlowEvent::Import { at: Address::step(0), outputs: Box::default() }, no];
    drop(FlowHost::submit(bench.parts(), Submission::new(flow, UID), first).await.unwrap());
    assert_eq!(bench.journal.load(UID).await.unwrap().last, 0);
    let mut next = FlowHost::resume(bench.next_parts(), UID).await.unwrap();
    next.run().await.unwrap();
    insta::assert_snapshot!(outcome(&next.status()), @"
    Failed
    old Succeeded/Reused 0
    ok Succeeded 0
    not Failed/Rejected 0
    a Succeeded 1
    ");
    let decision = |step: usize| next.status().steps[step].approval.as_ref().map(|approval| approval.decision);
    assert_eq!((decision(1), decision(2)), (Some(Decision::Approved), Some(Decision::Rejected)));
    assert_eq!(bench.substrate.calls().len(), 1, "only `a` ran");
}

#[tokio::test(start_paused = true)]
async fn a_stop_in_the_object_survives_a_host_that_dies_at_once() {
    let bench = Bench::new();
    let spec = json!({"steps": [{"name": "a"}], "stop": "Terminate"});
    drop(bench.submit(spec).await);
    let mut next = FlowHost::resume(bench.next_parts(), UID).await.unwrap();
    next.run().await.unwrap();
    insta::assert_snapshot!(outcome(&next.status()), @"
    Failed
    a Skipped/Terminated 0
    ");
    assert_eq!(bench.calls(), "");
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_cannot_be_watched_is_ended_and_lost() {
    let bench = Bench::new();
    bench.substrate.script(When::step("a").attempt(1), Play::forever());
    let mut host = bench.submit(json!({"steps": [{"name": "a"}]})).await;
    let handle = host.handle();
    let mut status = handle.status();
    let person = async {
        status.wait_for(|view| view.status.progress.running_steps == 1).await.unwrap();
        handle.detach().await;
    };
    let (left, ()) = tokio::join!(host.run(), person);
    left.unwrap();
    drop(host);
    bench.substrate.fail_calls(Operation::Adopt, 1, Class::Denied);
    let mut next = FlowHost::resume(bench.next_parts(), UID).await.unwrap();
    tokio::time::timeout(Duration::from_secs(3600), next.run()).await.expect("the flow continues").unwrap();
    insta::assert_snapshot!(outcome(&next.status()), @"
    Succeeded
    a Succeeded 2
    ");
    assert_eq!(next.status().steps[0].lost_count, 1);
    assert_eq!(bench.substrate.live(), []);
    insta::assert_snapshot!(bench.calls(), @"
    start a/1
    adopt a/1
    cancel a/1
    start a/2
    ");
}
