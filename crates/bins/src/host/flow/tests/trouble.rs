//! Substrates and journals that fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use orlop_core::error::{Class, Problem};
use orlop_core::spec::status::FlowStatus;
use orlop_core::testing::substrate::{Call, Operation, Play, When};
use orlop_core::time::Time;
use serde_json::{Value, json};

use super::bench::{Bench, TestClock, UID, outcome};
use crate::host::flow::{Admission, AdmissionDecision, Clock, FlowCommand, FlowHost, HostParts, Left};

#[tokio::test(start_paused = true)]
async fn lost_answers_of_the_substrate_start_nothing_twice() {
    let bench = Bench::new();
    bench.substrate.lose_answers(Operation::Start, 2);
    bench.substrate.lose_answers(Operation::EnsureResources, 1);
    let claim = claim();
    let steps = json!([{"name": "a"}, {"name": "b", "dependencies": ["a"]}]);
    let status = bench.run(json!({"resourceTemplates": {"volumeClaimTemplates": [claim]}, "steps": steps})).await;
    insta::assert_snapshot!(outcome(&status), @"
    Succeeded
    a Succeeded 1
    b Succeeded 1
    ");
    assert!(bench.substrate.repeated().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_flow_whose_resources_are_not_to_be_had_says_so_while_they_are_tried_again() {
    let bench = Bench::new();
    bench.substrate.fail_calls(Operation::EnsureResources, 5, Class::Capacity);
    let claim = claim();
    let spec = json!({"resourceTemplates": {"volumeClaimTemplates": [claim]}, "steps": [{"name": "a"}]});
    let mut host = bench.submit(spec).await;
    let mut status = host.handle().status();
    let person = async {
        let blocked = |status: &FlowStatus| {
            let found = status.conditions.iter().find(|known| known.reason == "QuotaExceeded");
            found.map(|known| format!("{} {:?}: {}", known.kind, known.status, known.message))
        };
        let seen = status.wait_for(|view| blocked(&view.status).is_some());
        let seen = tokio::time::timeout(Duration::from_secs(60), seen).await.expect("it is said").unwrap();
        blocked(&seen.status).unwrap()
    };
    let (left, reported) = tokio::join!(host.run(), person);
    left.unwrap();
    insta::assert_snapshot!(reported, @"Blocked True: the test had the substrate fail this call of ensure resources");
    insta::assert_snapshot!(outcome(&host.status()), @"
    Succeeded
    a Succeeded 1
    ");
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_is_repeated_until_it_is_heard() {
    let bench = Bench::new();
    bench.substrate.script(When::step("a"), Play::forever());
    bench.substrate.fail_calls(Operation::Cancel, 3, Class::Transient);
    let status = bench.run(json!({"steps": [{"name": "a", "timeoutSeconds": 1}]})).await;
    insta::assert_snapshot!(outcome(&status), @"
    Failed
    a Failed/Timeout 1
    ");
    insta::assert_snapshot!(bench.calls(), @"
    start a/1
    cancel a/1
    cancel a/1
    cancel a/1
    cancel a/1
    ");
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_does_not_end_blocks_what_comes_after_it_until_a_person_confirms_that_it_is_gone() {
    let bench = Bench::new();
    let template = json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": {
        "terminationGracePeriodSeconds": 5, "containers": [{"name": "main", "image": "busybox", "command": ["true"]}]}}}});
    bench.substrate.script(When::step("a").attempt(1), Play::forever().ignores_cancel());
    bench.substrate.script(When::step("a").attempt(2), Play::success());
    let retry = json!({"limit": 1, "backoff": {"type": "Fixed", "duration": "1s"}});
    let steps = json!([{"name": "a", "template": template, "timeoutSeconds": 10, "retryPolicy": retry}]);
    let mut host = bench.submit(json!({"steps": steps})).await;
    let handle = host.handle();
    let confirm = |step: &str| {
        let (step, reason) = (step.to_owned(), Some("the machine was reinstalled".to_owned()));
        FlowCommand::ConfirmGone { step, by: Some("ann".to_owned()), reason }
    };
    let began = tokio::time::Instant::now();
    let person = async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        let early = handle.order(confirm("a")).await;
        let missing = handle.order(confirm("b")).await;
        insta::assert_snapshot!(format!("{}\n{}", early.unwrap_err(), missing.unwrap_err()), @"
        the cancellation of step `a` of flow `etl` is not blocked; it is a minute after the grace period of an attempt that was cancelled and has not ended
        flow `etl` has no step or instance `b`
        ");
        let mut status = handle.status();
        let blocked = |status: &FlowStatus| {
            let mut conditions = status.conditions.iter();
            conditions.find(|known| known.kind == "CancelBlocked").map(|known| known.message.clone())
        };
        let seen = status.wait_for(|view| blocked(&view.status).is_some()).await.unwrap();
        insta::assert_snapshot!(blocked(&seen.status).unwrap(), @"step a: process etl-a-0123abcd");
        drop(seen);
        assert_eq!(began.elapsed().as_secs(), 10 + 5 + 60);
        tokio::time::sleep(Duration::from_secs(1000)).await;
        handle.order(confirm("a")).await.unwrap();
    };
    let (left, ()) = tokio::join!(host.run(), person);
    left.unwrap();
    insta::assert_snapshot!(outcome(&host.status()), @"
    Succeeded
    a Succeeded 2
    ");
    insta::assert_snapshot!(bench.calls(), @"
    start a/1
    cancel a/1
    start a/2
    ");
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_room_gets_it_as_soon_as_an_attempt_ends() {
    let bench = Bench::new();
    bench.substrate.script(
        When::step("full"),
        Play::success().delayed(1, Class::Capacity, "Queued").retry_after(Duration::from_secs(3000)),
    );
    bench.substrate.script(When::step("quick"), Play::success());
    let status = bench.run(json!({"steps": [{"name": "full"}, {"name": "quick"}]})).await;
    insta::assert_snapshot!(outcome(&status), @"
    Succeeded
    full Succeeded 1
    quick Succeeded 1
    ");
    let took = status.completion_time.unwrap().since(status.start_time.unwrap());
    assert!(took < Duration::from_secs(10), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn an_end_wakes_only_as_many_of_those_that_wait_as_find_room() {
    let bench = Bench::new();
    let full = || Play::success().delayed(1, Class::Capacity, "Queued").retry_after(Duration::from_secs(3000));
    let stuck = || Play::success().delayed(9, Class::Capacity, "Queued").retry_after(Duration::from_secs(3000));
    for (name, play) in [("a", full()), ("b", full()), ("c", stuck()), ("d", stuck()), ("e", stuck())] {
        bench.substrate.script(When::step(name), play);
    }
    bench.substrate.script(When::step("quick"), Play::success().after(Duration::from_secs(1)));
    let steps = ["a", "b", "c", "d", "e", "quick"].map(|name| json!({"name": name}));
    let mut host = bench.submit(json!({"steps": steps})).await;
    let run = tokio::time::timeout(Duration::from_secs(60), host.run()).await;
    assert!(run.is_err(), "three never find room");
    let asked = |step: &str| {
        let calls = bench.substrate.calls();
        calls.iter().filter(|call| matches!(call, Call::Start(key) if &*key.step == step)).count()
    };
    // Let in one after the other; each end asks the next one, and it stands for those behind it.
    assert_eq!(["a", "b"].map(asked), [2, 2]);
    // Three were accepted and three ended: six wake-ups, two of them for those who found room.
    let others = ["c", "d", "e"].map(asked);
    assert!(others.iter().sum::<usize>() <= 3 + 4, "{others:?}");
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_cannot_be_suspended_runs_on() {
    let bench = Bench::new();
    bench.substrate.script(When::step("a"), Play::forever().not_suspendable());
    let mut host = bench.submit(json!({"steps": [{"name": "a", "timeoutSeconds": 9}]})).await;
    let handle = host.handle();
    let mut status = handle.status();
    let person = async {
        status.wait_for(|view| view.status.progress.running_steps == 1).await.unwrap();
        let mode = Some(orlop_core::spec::flow::SuspendMode::Suspend);
        handle.order(crate::host::flow::FlowCommand::Suspend { mode }).await.unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
        handle.order(crate::host::flow::FlowCommand::Resume).await.unwrap();
    };
    let (left, ()) = tokio::join!(host.run(), person);
    left.unwrap();
    insta::assert_snapshot!(outcome(&host.status()), @"
    Failed
    a Failed/Timeout 1
    ");
}

#[tokio::test(start_paused = true)]
async fn a_journal_that_answers_late_is_asked_whether_it_has_written() {
    let bench = Bench::new();
    let mut host = bench.submit(json!({"steps": [{"name": "a"}, {"name": "b", "dependencies": ["a"]}]})).await;
    bench.journal.lose_answers(2);
    bench.journal.fail_writes(2, Class::Transient);
    host.run().await.unwrap();
    insta::assert_snapshot!(outcome(&host.status()), @"
    Succeeded
    a Succeeded 1
    b Succeeded 1
    ");
    assert!(bench.substrate.repeated().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_ends_the_host_and_nothing_was_done_about_what_is_not_written() {
    let bench = Bench::new();
    let mut host = bench.submit(json!({"steps": [{"name": "a"}]})).await;
    bench.journal.fail_writes(1, Class::Capacity);
    let error = host.run().await.unwrap_err();
    assert_eq!(error.class, Class::Capacity);
    insta::assert_snapshot!(error, @"the journal of the flow cannot be used: the test had the journal fail this write");
    assert_eq!(bench.calls(), "");
    let mut next = crate::host::flow::FlowHost::resume(bench.next_parts(), super::bench::UID).await.unwrap();
    next.run().await.unwrap();
    insta::assert_snapshot!(outcome(&next.status()), @"
    Succeeded
    a Succeeded 1
    ");
}

#[tokio::test(start_paused = true)]
async fn reports_of_other_flows_change_nothing() {
    let bench = Bench::new();
    let key = orlop_core::attempt::AttemptKey { flow: "other".into(), step: "a".into(), item: None, attempt: 1 };
    use orlop_core::ports::substrate::Substrate as _;
    bench.substrate.cancel(&key, None).await.unwrap();
    let status = bench.run(json!({"steps": [{"name": "a"}]})).await;
    insta::assert_snapshot!(outcome(&status), @"
    Succeeded
    a Succeeded 1
    ");
}

#[tokio::test(start_paused = true)]
async fn reports_that_come_twice_count_once() {
    let bench = Bench::new();
    bench.substrate.deliver(orlop_core::testing::substrate::Delivery { duplicates: 2, ..Default::default() });
    let mut host = bench.submit(json!({"steps": [{"name": "a"}, {"name": "b", "dependencies": ["a"]}]})).await;
    host.run().await.unwrap();
    insta::assert_snapshot!(outcome(&host.status()), @"
    Succeeded
    a Succeeded 1
    b Succeeded 1
    ");
    assert!(host.state().fenced() > 0);
}

/// A gate that is out of order for a while.
struct Shaky(u32);

#[async_trait]
impl Admission for Shaky {
    async fn next(&mut self) -> Result<AdmissionDecision, Problem> {
        self.0 += 1;
        match self.0 {
            2 => Ok(AdmissionDecision::Wait { message: "waits for b".to_owned() }),
            1 | 3 => Err(Problem::new(Class::Transient, "connection reset by peer")),
            _ => Ok(AdmissionDecision::Begin),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_does_not_answer_for_a_moment_is_asked_again() {
    let bench = Bench::new();
    let mut host = bench.submit(json!({"steps": [{"name": "a"}]})).await;
    host.set_admission(Box::new(Shaky(0)));
    host.run().await.unwrap();
    insta::assert_snapshot!(outcome(&host.status()), @"
    Succeeded
    a Succeeded 1
    ");
}

/// A clock of a machine that was set back by an hour before this host began.
struct SetBack {
    clock: Arc<TestClock>,
    ahead: AtomicI64,
}

impl Clock for SetBack {
    fn now(&self) -> Time {
        Time::from_millis(self.clock.now().millis() + self.ahead.load(Ordering::Relaxed))
    }

    fn no_earlier_than(&self, time: Time) {
        self.ahead.fetch_max(time.millis() - self.clock.now().millis(), Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn timers_go_on_under_the_next_host_where_the_clock_was_set_back_between() {
    let bench = Bench::new();
    bench.substrate.script(When::step("a"), Play::forever());
    let mut host = bench.submit(json!({"steps": [{"name": "a", "timeoutSeconds": 5}]})).await;
    let handle = host.handle();
    let leave = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        handle.detach().await;
    };
    assert_eq!(tokio::join!(host.run(), leave).0.unwrap(), Left::Detached);
    drop(host);
    let clock = SetBack { clock: Arc::clone(&bench.clock), ahead: AtomicI64::new(-3_600_000) };
    let parts = HostParts { clock: Arc::new(clock), ..bench.next_parts() };
    let begun = tokio::time::Instant::now();
    let mut host = FlowHost::resume(parts, UID).await.unwrap();
    host.run().await.unwrap();
    insta::assert_snapshot!(outcome(&host.status()), @"
    Failed
    a Failed/Timeout 1
    ");
    assert!(begun.elapsed() <= Duration::from_secs(5), "{:?}", begun.elapsed());
}

/// A claim that keeps all rules.
fn claim() -> Value {
    json!({"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}},
    }})
}
