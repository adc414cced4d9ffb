//! The life of a job through the server: submitted, assigned, ended, stored at every step.

use std::time::Duration;

use orlop_core::error::Code;
use orlop_core::machine::attempt::AttemptState;
use orlop_core::machine::job::JobState;
use orlop_core::ports::bus::{Delivery, SubjectFilter, Subscription as _};
use orlop_core::ports::fleet_store::IdempotencyKey;
use orlop_core::task::TaskEnd;
use orlop_scheduler::event::Quota;
use serde_json::json;

use super::super::{Cancelled, Once};
use super::agent::Agent;
use super::fixture::{Fixture, batch, tenant};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_goes_from_submit_to_its_committed_end() {
    let mut fixture = Fixture::new().await;
    let mut agent = Agent::join(&fixture.handle(), "w1", 2).await;
    let job = fixture.submit(&[json!({"name": "hello"})]).await[0];
    let attempt = agent.given(1).await[0];
    assert_eq!((attempt.job, attempt.attempt), (job, 1));
    assert_eq!(fixture.state(job).await, JobState::Assigned, "assigned before it was sent");
    agent.start(attempt).await;
    agent.end(&[attempt], TaskEnd::Succeeded).await;
    fixture.handle().ended(job).await.unwrap();
    let row = fixture.row(job).await;
    assert_eq!((row.unit.state, row.unit.exit_code), (JobState::Completed, Some(0)));
    assert_eq!(row.job.name.as_deref(), Some("hello"));
    assert!(row.unit.started_at.is_some() && row.unit.finished_at.is_some());
    let attempts = fixture.attempts(job).await;
    assert_eq!(attempts.len(), 1);
    assert_eq!(attempts[0].state, AttemptState::Succeeded);
    assert!(attempts[0].end.as_ref().unwrap().accepted_final);
    agent.all_acknowledged().await;
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_jobs_run_through() {
    let mut fixture = Fixture::new().await;
    let mut agent = Agent::join(&fixture.handle(), "w1", 4).await;
    let jobs = fixture.submit(&vec![json!({}); 100]).await;
    agent.work(100).await;
    for job in jobs {
        assert_eq!(fixture.state(job).await, JobState::Completed);
    }
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_array_runs_element_by_element_and_ends_as_a_whole() {
    let fixture = Fixture::new().await;
    let mut agent = Agent::join(&fixture.handle(), "w1", 4).await;
    let job = fixture.submit(&[json!({"array": {"count": 10}})]).await[0];
    let first = agent.given(4).await;
    assert_eq!(fixture.state(job).await, JobState::Running);
    agent.end(&first[..1], TaskEnd::Failed).await;
    agent.end(&first[1..], TaskEnd::Succeeded).await;
    agent.work(6).await;
    fixture.handle().ended(job).await.unwrap();
    assert_eq!(fixture.state(job).await, JobState::Failed, "one element failed");
    assert_eq!(fixture.attempts(job).await.len(), 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gang_of_which_a_member_failed_fails_over_a_restart_too() {
    let mut fixture = Fixture::new().await;
    let mut agent = Agent::join(&fixture.handle(), "w1", 2).await;
    let job = fixture.submit(&[json!({"gang": {"size": 2}})]).await[0];
    let members = agent.given(2).await;
    for member in &members {
        agent.start(*member).await;
    }
    agent.end(&members[..1], TaskEnd::Failed).await;
    agent.all_acknowledged().await;
    assert_eq!(fixture.state(job).await, JobState::Running, "it ends with its last member");
    fixture.crash();
    fixture.start().await;
    agent.rejoin(&fixture.handle()).await.unwrap();
    // The other one was asked to end with the first, or is asked now.
    agent.end(&members[1..], TaskEnd::Cancelled).await;
    agent.all_acknowledged().await;
    fixture.reaches(job, JobState::Failed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_ends_in_good_order_says_so() {
    let mut fixture = Fixture::new().await;
    let filter = SubjectFilter::new("orlop.events.leader.>").unwrap();
    let mut heard = fixture.handle().subscribe(filter).unwrap();
    fixture.stop().await;
    let Some(Delivery::Event(event)) = heard.next().await else { panic!("it says nothing") };
    assert_eq!(&*event.subject, "orlop.events.leader.resigned");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gang_starts_together_and_ends_with_its_last_member() {
    let fixture = Fixture::new().await;
    let (mut one, mut two) =
        (Agent::join(&fixture.handle(), "w1", 2).await, Agent::join(&fixture.handle(), "w2", 2).await);
    let job = fixture.submit(&[json!({"gang": {"size": 4}})]).await[0];
    let (left, right) = (one.given(2).await, two.given(2).await);
    one.end(&left, TaskEnd::Succeeded).await;
    two.end(&right, TaskEnd::Succeeded).await;
    fixture.handle().ended(job).await.unwrap();
    assert_eq!(fixture.state(job).await, JobState::Completed);
    let finals =
        fixture.attempts(job).await.into_iter().filter(|row| row.end.as_ref().is_some_and(|end| end.accepted_final));
    assert_eq!(finals.count(), 1, "one final result of the gang");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_is_taken_whole_or_not_at_all() {
    let fixture = Fixture::new().await;
    let quota = Quota { max_active_jobs: Some(3), ..Quota::default() };
    fixture.handle().set_tenant(tenant(), None, Some(quota)).await.unwrap();
    let refused = fixture.handle().submit(batch(&vec![json!({}); 4])).await.unwrap_err();
    assert_eq!(
        (refused.code, refused.details().quota.as_ref().map(|quota| quota.limit)),
        (Code::QuotaExceeded, Some(3))
    );
    let taken = fixture.submit(&vec![json!({}); 3]).await;
    assert_eq!(taken.len(), 3, "the refused batch left nothing behind");
    let mut agent = Agent::join(&fixture.handle(), "w1", 8).await;
    let given = agent.given(3).await;
    assert_eq!(given.iter().map(|attempt| attempt.job).collect::<Vec<_>>(), taken);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_key_takes_effect_once() {
    let mut fixture = Fixture::new().await;
    let key = IdempotencyKey { tenant: tenant(), key: "k".to_owned() };
    let once = Once { key, body_hash: [1; 32] };
    let request = || super::super::Batch { once: Some(once.clone()), ..batch(&[json!({})]) };
    let (first, second) = tokio::join!(async { fixture.handle().submit(request()).await.unwrap() }, async {
        fixture.handle().submit(request()).await.unwrap()
    });
    assert_eq!(first.jobs, second.jobs);
    assert!(first.replay != second.replay);
    let other = super::super::Batch { once: Some(Once { body_hash: [2; 32], ..once.clone() }), ..batch(&[json!({})]) };
    assert_eq!(fixture.handle().submit(other).await.unwrap_err().code, Code::IdempotencyMismatch);
    fixture.stop().await;
    fixture.start().await;
    let third = fixture.handle().submit(request()).await.unwrap();
    assert!(third.replay && third.jobs == first.jobs, "the store remembers it over a restart");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancel_ends_what_waits_at_once_and_what_runs_by_its_worker() {
    let fixture = Fixture::new().await;
    let mut agent = Agent::join(&fixture.handle(), "w1", 1).await;
    let jobs = fixture.submit(&[json!({}), json!({})]).await;
    let attempt = agent.given(1).await[0];
    agent.start(attempt).await;
    assert_eq!(fixture.handle().cancel(jobs[1], vec![]).await.unwrap(), Cancelled::Taken);
    assert_eq!(fixture.state(jobs[1]).await, JobState::Cancelled);
    assert_eq!(fixture.handle().cancel(jobs[0], vec![]).await.unwrap(), Cancelled::Taken);
    while !agent.told_to_end.contains(&attempt) {
        agent.listen().await;
    }
    agent.end(&[attempt], TaskEnd::Cancelled).await;
    fixture.handle().ended(jobs[0]).await.unwrap();
    assert_eq!(fixture.state(jobs[0]).await, JobState::Cancelled);
    assert_eq!(fixture.handle().cancel(jobs[0], vec![]).await.unwrap(), Cancelled::Ended);
    let unknown = orlop_core::id::JobId::from_u64(99);
    assert_eq!(fixture.handle().cancel(unknown, vec![]).await.unwrap_err().code, Code::NotFound);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_is_a_new_job_of_what_was_unsuccessful() {
    let fixture = Fixture::new().await;
    let mut agent = Agent::join(&fixture.handle(), "w1", 4).await;
    let job = fixture.submit(&[json!({"name": "sweep", "array": {"count": 4, "max_parallel": 4}})]).await[0];
    let given = agent.given(4).await;
    assert_eq!(fixture.handle().retry(job, None, None).await.unwrap_err().code, Code::Conflict, "it is live");
    agent.end(&given[1..3], TaskEnd::Failed).await;
    agent.end(&[given[0], given[3]], TaskEnd::Succeeded).await;
    fixture.handle().ended(job).await.unwrap();
    let again = fixture.handle().retry(job, None, Some("k".to_owned())).await.unwrap();
    assert_eq!(fixture.handle().retry(job, None, Some("k".to_owned())).await.unwrap(), again, "once a key");
    let indices: Vec<u32> = agent.given(2).await.iter().map(|attempt| attempt.index).collect();
    assert_eq!(indices, [given[1].index, given[2].index]);
    let row = fixture.row(again).await;
    assert_eq!((row.job.retry_of, row.job.count, row.job.name.as_deref()), (Some(job), 2, Some("sweep")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_come_after_their_commit_in_its_order() {
    use orlop_core::ports::bus::{Delivery, EventBody, SubjectFilter, Subscription as _};
    let fixture = Fixture::new().await;
    let mut events = fixture.handle().subscribe(SubjectFilter::new("orlop.events.job.*").unwrap()).unwrap();
    let mut agent = Agent::join(&fixture.handle(), "w1", 1).await;
    let job = fixture.submit(&[json!({"correlation_id": "c-1"})]).await[0];
    agent.work(1).await;
    let (mut kinds, mut last) = (Vec::new(), 0);
    while kinds.last().is_none_or(|kind: &String| kind != "job.completed") {
        let Some(Delivery::Event(event)) = events.next().await else { panic!("an event") };
        let body: EventBody = serde_json::from_str(&event.body).unwrap();
        assert_eq!((body.job, body.correlation_id), (Some(job.to_string()), Some("c-1".to_owned())));
        assert!(event.id > last);
        last = event.id;
        kinds.push(body.kind);
    }
    assert_eq!(kinds, ["job.created", "job.queued", "job.assigned", "job.completed"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_job_says_why() {
    let fixture = Fixture::new().await;
    let _agent = Agent::join(&fixture.handle(), "w1", 1).await;
    let job = fixture.submit(&[json!({"resources": {"cpu_m": 4000, "memory_bytes": 0}})]).await[0];
    let reported = fixture.handle().explain(job).await.unwrap();
    insta::assert_snapshot!(reported.summary(), @"Queued; 0 of its class before it; it fits nowhere now; never fits: 1 worker");
    assert_eq!(reported.json()["workers"][0]["worker"], "w1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_of_a_state_directory_comes_in_only_once_the_first_agent_is_gone() {
    let mut fixture = Fixture::new().await;
    let handle = fixture.handle();
    let first = Agent::join_at(&handle, "w1", "boot-a 8:1").await.unwrap();
    let again = Agent::join_at(&handle, "w1", "boot-a 8:1").await.unwrap();
    drop(first);
    for copy in ["boot-a 8:2", "boot-b 8:1"] {
        let refused = Agent::join_at(&handle, "w1", copy).await.map(drop).unwrap_err();
        assert_eq!((refused.code, refused.retry_after), (Code::Conflict, Some(Duration::from_secs(10))));
        assert!(refused.message.contains("of which this one is a copy"), "{refused}");
    }
    // Agents of an earlier release do not say where they are.
    let unknown = Agent::join_at(&handle, "w1", "").await.unwrap();
    let moved = Agent::join_at(&handle, "w1", "boot-b 8:2").await.unwrap();
    drop((again, unknown));
    moved.hang_up().await;
    Agent::join_at(&handle, "w1", "boot-a 8:1").await.unwrap();
    fixture.stop().await;
}
