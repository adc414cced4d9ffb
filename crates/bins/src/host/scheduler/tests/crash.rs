//! A commit fails at every point of a life, written or not, or at a sample of them: nothing that was acknowledged is lost, no
//! result counts twice.

use orlop_core::error::Class;
use orlop_core::id::JobId;
use orlop_core::machine::job::JobState;
use orlop_core::ports::fleet_store::{FleetReads, IdempotencyKey, JobFilter, Page};
use orlop_core::task::TaskEnd;
use serde_json::json;

use super::super::{Batch, Once};
use super::agent::Agent;
use super::fixture::{Fixture, batch, tenant, until};

/// How many jobs a life has.
const JOBS: usize = 3;

/// A life whose `at`-th step is preceded by a failure. Returns how many steps it took.
async fn live(at: usize, written: bool) -> usize {
    let fixture = Fixture::new().await;
    let mut agent = Agent::join(&fixture.handle(), "w1", 2).await;
    let mut step = 0;
    let fail = |step: &mut usize| {
        if *step == at {
            match written {
                true => fixture.store.lose_answers(1),
                false => fixture.store.fail_commits(1, Class::Transient),
            }
        }
        *step += 1;
    };
    let mut jobs = Vec::new();
    for number in 0..JOBS {
        fail(&mut step);
        jobs.push(submit_until_taken(&fixture, number).await);
    }
    let mut ended = 0;
    while ended < JOBS {
        fail(&mut step);
        let given = listen_until_given(&fixture, &mut agent).await;
        fail(&mut step);
        for attempt in given {
            agent.start(attempt).await;
            fail(&mut step);
            agent.end(&[attempt], TaskEnd::Succeeded).await;
        }
        ended = 0;
        for job in &jobs {
            ended += usize::from(fixture.state(*job).await == JobState::Completed);
        }
    }
    check(&fixture, &jobs).await;
    step
}

/// Submits under a key and repeats until it is acknowledged.
async fn submit_until_taken(fixture: &Fixture, number: usize) -> JobId {
    let key = IdempotencyKey { tenant: tenant(), key: format!("k{number}") };
    let once = Once { key, body_hash: [7; 32] };
    until("an acknowledged submit", async || {
        let request = Batch { once: Some(once.clone()), ..batch(&[json!({})]) };
        fixture.handle().submit(request).await.ok().map(|taken| taken.jobs[0])
    })
    .await
}

/// Listens; where the server has stopped the session, comes back as an agent does. Gives what is to be run.
async fn listen_until_given(fixture: &Fixture, agent: &mut Agent) -> Vec<orlop_core::task::TaskRef> {
    if agent.closed.is_some() {
        fixture.leads().await;
        if agent.rejoin(&fixture.handle()).await.is_err() {
            agent.closed = Some(super::super::Closing::Stopped);
            return Vec::new();
        }
    }
    let waits = tokio::time::timeout(std::time::Duration::from_millis(50), agent.listen()).await;
    drop(waits);
    agent.live.keys().copied().collect()
}

async fn check(fixture: &Fixture, jobs: &[JobId]) {
    let stored = fixture.store.jobs(&JobFilter::default(), &Page::first(100)).await.unwrap().items;
    assert_eq!(stored.len(), jobs.len(), "one job a key");
    for job in jobs {
        assert_eq!(fixture.state(*job).await, JobState::Completed);
        let attempts = fixture.attempts(*job).await;
        let finals = attempts.iter().filter(|row| row.end.as_ref().is_some_and(|end| end.accepted_final));
        assert_eq!(finals.count(), 1, "{attempts:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_at_any_commit_loses_nothing_and_counts_nothing_twice() {
    let steps = live(usize::MAX, false).await;
    assert!(steps > 2 * JOBS, "{steps} steps");
    for number in orlop_core::sample!(steps * 2, 6) {
        live(number / 2, number % 2 == 1).await;
    }
}
