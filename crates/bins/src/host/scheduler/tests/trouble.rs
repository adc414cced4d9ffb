//! What goes wrong between server, workers and store: lost streams, late and repeated results, failed commits.

use std::collections::BTreeMap;
use std::time::Duration;

use orlop_core::error::{Class, Code};
use orlop_core::hardware::gpu::Vendor;
use orlop_core::id::Epoch;
use orlop_core::machine::attempt::AttemptState;
use orlop_core::machine::job::JobState;
use orlop_core::machine::verdict::ReportVerdict;
use orlop_core::machine::worker::WorkerState;
use orlop_core::task::{TaskEnd, TaskRef};
use orlop_scheduler::event::{Capabilities, GpuDevices};
use serde_json::json;

use super::super::{Closing, Status, WorkerOrder};
use super::agent::{Agent, offer};
use super::fixture::{Fixture, batch, until};
use crate::wire::frame::{Directive, DirectiveKind, Judgement, refs};

const REASSIGN: Duration = Duration::from_millis(30_100);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_stays_away_loses_its_attempts_to_others() {
    let fixture = Fixture::new().await;
    let mut one = Agent::join(&fixture.handle(), "w1", 1).await;
    let job = fixture.submit(&[json!({})]).await[0];
    let first = one.given(1).await[0];
    one.start(first).await;
    one.all_acknowledged().await;
    let mut two = Agent::join(&fixture.handle(), "w2", 1).await;
    one.hang_up().await;
    one.stored(WorkerState::Unhealthy).await;
    assert_eq!(fixture.state(job).await, JobState::Running, "nothing restarts before reassign_after");
    two.beat().await;
    assert!(!two.is_given_up().await);
    fixture.pass(Duration::from_secs(10));
    two.beat().await;
    fixture.pass(Duration::from_secs(10));
    two.beat().await;
    fixture.pass(Duration::from_millis(10_100));
    let second = two.given(1).await[0];
    assert_eq!((second.job, second.attempt), (job, 2));
    assert!(one.is_given_up().await, "a sign of life does not bring back what runs elsewhere");
    let welcome = one.rejoin(&fixture.handle()).await.unwrap();
    assert_eq!(welcome.kill, refs([first]), "the older token is stale");
    assert!(!one.is_given_up().await);
    one.end(&[first], TaskEnd::Succeeded).await;
    one.all_acknowledged().await;
    assert_eq!(fixture.state(job).await, JobState::Assigned, "a stale result changes nothing");
    two.end(&[second], TaskEnd::Succeeded).await;
    fixture.handle().ended(job).await.unwrap();
    let finals: Vec<u32> = fixture
        .attempts(job)
        .await
        .iter()
        .filter(|row| row.end.as_ref().is_some_and(|end| end.accepted_final))
        .map(|row| row.attempt.id.attempt)
        .collect();
    assert_eq!(finals, [2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_results_of_the_newest_token_are_adopted() {
    let mut fixture = Fixture::new().await;
    let mut agent = Agent::join(&fixture.handle(), "w1", 1).await;
    let job = fixture.submit(&[json!({})]).await[0];
    let attempt = agent.given(1).await[0];
    agent.start(attempt).await;
    agent.all_acknowledged().await;
    agent.hang_up().await;
    agent.stored(WorkerState::Unhealthy).await;
    fixture.pass(REASSIGN);
    fixture.reaches(job, JobState::Queued).await;
    assert_eq!(fixture.attempts(job).await[0].state, AttemptState::Lost);
    let welcome = agent.rejoin(&fixture.handle()).await.unwrap();
    assert_eq!(welcome.keep, refs([attempt]));
    fixture.reaches(job, JobState::Running).await;
    assert_eq!(fixture.attempts(job).await[0].state, AttemptState::Running, "as a restart has to find it");
    fixture.crash();
    fixture.start().await;
    assert_eq!(agent.rejoin(&fixture.handle()).await.unwrap().keep, refs([attempt]));
    agent.end(&[attempt], TaskEnd::Succeeded).await;
    fixture.handle().ended(job).await.unwrap();
    assert_eq!(fixture.attempts(job).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gang_that_comes_back_whole_is_adopted_also_where_a_member_has_ended_meanwhile() {
    let mut fixture = Fixture::new().await;
    let mut agent = Agent::join(&fixture.handle(), "w1", 2).await;
    let job = fixture.submit(&[json!({"gang": {"size": 2}})]).await[0];
    let given = agent.given(2).await;
    for attempt in &given {
        agent.start(*attempt).await;
    }
    agent.all_acknowledged().await;
    agent.hang_up().await;
    agent.stored(WorkerState::Unhealthy).await;
    fixture.pass(REASSIGN);
    fixture.reaches(job, JobState::Queued).await;
    // One ended while the stream was down: its result is spooled.
    agent.spool.insert(3, agent.result_frame(&given[..1], TaskEnd::Succeeded));
    agent.live.remove(&given[0]);
    let welcome = agent.rejoin(&fixture.handle()).await.unwrap();
    assert_eq!(welcome.keep, refs([given[1]]));
    fixture.reaches(job, JobState::Running).await;
    fixture.crash();
    fixture.start().await;
    assert_eq!(agent.rejoin(&fixture.handle()).await.unwrap().keep, refs([given[1]]));
    agent.end(&given[1..], TaskEnd::Succeeded).await;
    fixture.handle().ended(job).await.unwrap();
    assert_eq!(fixture.state(job).await, JobState::Completed);
    assert_eq!(fixture.attempts(job).await.len(), 2);
}

/// The second job runs on what the first has left free; a restart must not take it for the kind that comes first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_knows_which_kind_of_gpu_an_attempt_holds() {
    let mut fixture = Fixture::new().await;
    let kind = |model: &str| GpuDevices {
        vendor: Vendor::Nvidia,
        model: model.parse().unwrap(),
        memory_bytes: 80 << 30,
        count: 1,
    };
    let machine = Capabilities { gpus: vec![kind("a100"), kind("h100")], ..offer(4) };
    let mut agent = Agent::offering(&fixture.handle(), "w1", "state-1", machine).await.unwrap();
    let asks = |kind: serde_json::Value| {
        let resources = json!({"cpu_m": 1000, "memory_bytes": 0, "gpus": {"count": 1, "any_of": [kind]}});
        json!({ "resources": resources })
    };
    let (any, a100, h100) = (
        json!({"vendor": "nvidia"}),
        json!({"vendor": "nvidia", "model": "a100"}),
        json!({"vendor": "nvidia", "model": "h100"}),
    );
    fixture.submit(&[asks(a100.clone())]).await;
    let first = agent.given(1).await[0];
    agent.start(first).await;
    let flexible = fixture.submit(&[asks(any)]).await[0];
    let second = agent.given(1).await[0];
    let reported = agent.received.iter().flat_map(|frame| &frame.assign).find(|assign| assign.attempt() == second);
    assert_eq!(reported.unwrap().charged_gpu().unwrap().model.as_str(), "h100");
    agent.start(second).await;
    agent.end(&[first], TaskEnd::Succeeded).await;
    agent.all_acknowledged().await;
    assert_eq!(fixture.attempts(flexible).await[0].attempt.gpu.as_ref().unwrap().model.as_str(), "h100");
    fixture.crash();
    fixture.start().await;
    assert_eq!(agent.rejoin(&fixture.handle()).await.unwrap().keep, refs([second]));
    let waits = fixture.submit(&[asks(h100)]).await[0];
    let runs = fixture.submit(&[asks(a100)]).await[0];
    assert_eq!(agent.given(1).await[0].job, runs);
    assert_eq!(fixture.state(waits).await, JobState::Queued);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_missing_after_the_spool_is_lost_and_what_the_spool_tells_is_not() {
    let fixture = Fixture::new().await;
    let mut agent = Agent::join(&fixture.handle(), "w1", 2).await;
    let jobs = fixture.submit(&[json!({}), json!({})]).await;
    let given = agent.given(2).await;
    agent.hang_up().await;
    agent.stored(WorkerState::Unhealthy).await;
    // One ended while the stream was down: its result is spooled. The other is gone without a trace.
    agent.spool.insert(1, agent.result_frame(&given[..1], TaskEnd::Succeeded));
    agent.live.clear();
    agent.rejoin(&fixture.handle()).await.unwrap();
    fixture.handle().ended(jobs[0]).await.unwrap();
    assert_eq!(fixture.state(jobs[0]).await, JobState::Completed);
    let again = agent.given(1).await[0];
    assert_eq!((again.job, again.attempt), (jobs[1], 2));
    assert_eq!(fixture.attempts(jobs[1]).await[0].state, AttemptState::Lost);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_result_is_a_duplicate() {
    let fixture = Fixture::new().await;
    let mut agent = Agent::join(&fixture.handle(), "w1", 1).await;
    let job = fixture.submit(&[json!({})]).await[0];
    let attempt = agent.given(1).await[0];
    agent.end(&[attempt], TaskEnd::Succeeded).await;
    agent.end(&[attempt], TaskEnd::Failed).await;
    agent.all_acknowledged().await;
    let verdicts: Vec<ReportVerdict> =
        agent.received.iter().flat_map(|frame| &frame.verdicts).map(Judgement::report_verdict).collect();
    assert_eq!(verdicts, [ReportVerdict::Duplicate]);
    assert_eq!(fixture.state(job).await, JobState::Completed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_ended_before_a_restart_is_judged_by_what_is_stored() {
    let mut fixture = Fixture::new().await;
    let mut agent = Agent::join(&fixture.handle(), "w1", 1).await;
    let job = fixture.submit(&[json!({})]).await[0];
    let lost = agent.given(1).await[0];
    agent.hang_up().await;
    agent.stored(WorkerState::Unhealthy).await;
    agent.live.clear();
    agent.rejoin(&fixture.handle()).await.unwrap();
    let counted = agent.given(1).await[0];
    agent.end(&[counted], TaskEnd::Succeeded).await;
    fixture.reaches(job, JobState::Completed).await;
    fixture.crash();
    fixture.start().await;
    agent.rejoin(&fixture.handle()).await.unwrap();
    let (never, newer) = (TaskRef { attempt: 9, ..counted }, TaskRef { epoch: Epoch(9), ..counted });
    let given = [counted, lost, never, newer];
    agent.end(&given, TaskEnd::Failed).await;
    let mut verdicts = BTreeMap::new();
    while verdicts.len() < given.len() {
        agent.listen().await;
        let reported = agent.received.iter().flat_map(|frame| &frame.verdicts);
        verdicts.extend(reported.map(|judged| (judged.attempt(), judged.report_verdict())));
    }
    let expected = [ReportVerdict::Duplicate, ReportVerdict::Stale, ReportVerdict::Unknown, ReportVerdict::Unknown];
    assert_eq!(given.map(|attempt| verdicts[&attempt]), expected);
    assert_eq!(fixture.state(job).await, JobState::Completed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_commit_ends_the_term_and_nothing_is_acknowledged() {
    let fixture = Fixture::new().await;
    let mut agent = Agent::join(&fixture.handle(), "w1", 1).await;
    let Status::Leading { epoch } = fixture.handle().status() else { panic!("it leads") };
    fixture.store.fail_commits(1, Class::Transient);
    let refused = fixture.handle().submit(batch(&[json!({})])).await.unwrap_err();
    assert_eq!(refused.code, Code::StoreUnavailable);
    let handle = fixture.handle();
    let next = until("another term", async || match handle.status() {
        Status::Leading { epoch: next } => (next != epoch).then_some(next),
        _ => None,
    })
    .await;
    assert_eq!(next, epoch.next());
    while agent.closed.is_none() {
        agent.listen().await;
    }
    assert_eq!(agent.closed, Some(Closing::Stopped));
    assert_eq!(agent.open(0).await.unwrap_err().code, Code::Unauthenticated, "the session is of another epoch");
    agent.rejoin(&fixture.handle()).await.unwrap();
    let job = fixture.submit(&[json!({})]).await[0];
    assert_eq!(job.epoch(), next);
    agent.work(1).await;
    assert_eq!(fixture.state(job).await, JobState::Completed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_stream_closes_the_first_and_another_directory_is_refused() {
    let fixture = Fixture::new().await;
    let mut agent = Agent::join(&fixture.handle(), "w1", 1).await;
    let refused = Agent::join_from(&fixture.handle(), "w1", "state-2", 1).await.err().unwrap();
    assert_eq!(refused.code, Code::Conflict);
    let first = agent.stream;
    agent.open(0).await.unwrap();
    assert!(agent.stream > first);
    // The end of the first stream is reported late, and means nothing any more.
    let second = std::mem::replace(&mut agent.stream, first);
    agent.hang_up().await;
    agent.stream = second;
    let job = fixture.submit(&[json!({})]).await[0];
    agent.work(1).await;
    assert_eq!(fixture.state(job).await, JobState::Completed);
    agent.hang_up().await;
    agent.stored(WorkerState::Unhealthy).await;
    Agent::join_from(&fixture.handle(), "w1", "state-2", 1).await.unwrap();
    agent.stored(WorkerState::Failed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drained_worker_finishes_and_is_told_to_shut_down() {
    let fixture = Fixture::new().await;
    let mut agent = Agent::join(&fixture.handle(), "w1", 1).await;
    let jobs = fixture.submit(&[json!({}), json!({})]).await;
    let attempt = agent.given(1).await[0];
    let order = WorkerOrder::Drain(orlop_scheduler::event::DrainOrder::default(), String::new());
    fixture.handle().order("w1".parse().unwrap(), order).await.unwrap();
    agent.end(&[attempt], TaskEnd::Succeeded).await;
    while agent.closed.is_none() {
        agent.listen().await;
    }
    assert_eq!(agent.closed, Some(Closing::Gone));
    let directive = agent.received.iter().find_map(|frame| frame.directive.as_ref()).unwrap();
    assert_eq!(directive.kind(), DirectiveKind::Drain);
    assert!(
        agent
            .received
            .iter()
            .filter_map(|frame| frame.directive.as_ref())
            .any(|directive| directive.kind() == DirectiveKind::Shutdown)
    );
    assert_eq!(fixture.state(jobs[0]).await, JobState::Completed);
    assert_eq!(fixture.state(jobs[1]).await, JobState::Queued);
    agent.stored(WorkerState::Terminated).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drained_worker_with_nothing_left_is_told_to_shut_down_at_once() {
    let fixture = Fixture::new().await;
    let mut agent = Agent::join(&fixture.handle(), "w1", 1).await;
    let order = WorkerOrder::Drain(orlop_scheduler::event::DrainOrder::default(), "maintenance".to_owned());
    fixture.handle().order("w1".parse().unwrap(), order).await.unwrap();
    while agent.closed.is_none() {
        agent.listen().await;
    }
    let directives: Vec<_> =
        agent.received.iter().filter_map(|frame| frame.directive.as_ref()).map(Directive::kind).collect();
    assert_eq!(directives, [DirectiveKind::Shutdown], "one that is to drain comes back");
    agent.stored(WorkerState::Terminated).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_see_a_snapshot_that_the_loop_makes() {
    let fixture = Fixture::new().await;
    let mut agent = Agent::join(&fixture.handle(), "w1", 2).await;
    fixture.submit(&[json!({}), json!({}), json!({})]).await;
    agent.given(2).await;
    fixture.pass(Duration::from_millis(200));
    let handle = fixture.handle();
    let snapshot = until("the snapshot", async || Some(handle.snapshot()).filter(|snapshot| snapshot.jobs == 3)).await;
    let id: orlop_core::id::WorkerId = "w1".parse().unwrap();
    let worker = &snapshot.workers[&id];
    assert_eq!((worker.view.state, worker.view.attempts, worker.connected), (WorkerState::Running, 2, true));
    assert_eq!(snapshot.tenants[&super::fixture::tenant()].pending, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn assignments_that_were_on_their_way_when_the_stream_broke_are_sent_again() {
    let fixture = Fixture::new().await;
    let mut agent = Agent::join(&fixture.handle(), "w1", 2).await;
    let job = fixture.submit(&[json!({})]).await[0];
    fixture.reaches(job, JobState::Assigned).await;
    // The agent has not read the frame, and says so in its next hello.
    agent.hang_up().await;
    agent.stored(WorkerState::Unhealthy).await;
    agent.open(0).await.unwrap();
    let attempt = agent.given(1).await[0];
    assert_eq!((attempt.job, attempt.attempt), (job, 1), "the same attempt, not another");
    agent.end(&[attempt], TaskEnd::Succeeded).await;
    fixture.handle().ended(job).await.unwrap();
}
