//! Jobs and attempts.

use orlop_core::machine::job::JobState;
use orlop_core::machine::verdict::ReportVerdict;

use super::fixture::{Fixture, id, offer, spec};
use crate::config::Config;
use crate::effect::{CancelReason, Effect, Reason};
use crate::error::EventError;
use crate::event::{Event, Outcome, StartWindow};

#[test]
fn a_job_goes_from_submit_to_its_end() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(4000));
    fixture.submit(1, spec(1000));
    assert_eq!(fixture.state(1), JobState::Queued);
    let sent = fixture.round();
    assert_eq!((sent.len(), sent[0].0.attempt, sent[0].1), (1, 1, worker));
    assert_eq!(fixture.state(1), JobState::Assigned);
    fixture.start(sent[0].0, worker);
    assert_eq!(fixture.state(1), JobState::Running);
    assert_eq!(fixture.result(sent[0].0, worker, Outcome::Succeeded), ReportVerdict::Accepted);
    assert_eq!(fixture.state(1), JobState::Completed);
    assert!(
        fixture.effects.iter().any(|effect| matches!(effect, Effect::Finished { outcome: JobState::Completed, .. }))
    );
    assert_eq!(fixture.scheduler.worker_view(worker).unwrap().attempts, 0);
}

#[test]
fn the_gate_opens_at_not_before() {
    let mut fixture = Fixture::new(Config::default());
    fixture.worker("w1", offer(4000));
    let gate = StartWindow { not_before: Some(5000), queue_timeout: None };
    fixture.must(Event::Submit { job: id(1), spec: spec(100).into(), gate });
    assert_eq!((fixture.state(1), fixture.scheduler.next_deadline()), (JobState::Pending, Some(5000)));
    assert!(fixture.starts().is_empty());
    fixture.now = 5000;
    assert_eq!(fixture.starts(), [1]);
}

#[test]
fn what_never_started_expires() {
    let mut fixture = Fixture::new(Config::default());
    let gate = StartWindow { not_before: None, queue_timeout: Some(1000) };
    fixture.must(Event::Submit { job: id(1), spec: spec(100).into(), gate });
    fixture.wait(999);
    assert_eq!(fixture.state(1), JobState::Queued);
    fixture.wait(1);
    assert_eq!((fixture.state(1), fixture.reason()), (JobState::Failed, Some(Reason::Expired)));
}

#[test]
fn what_comes_back_unstarted_after_its_time_expires() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(4000));
    let gate = StartWindow { not_before: None, queue_timeout: Some(1000) };
    fixture.must(Event::Submit { job: id(1), spec: spec(100).into(), gate });
    let attempt = fixture.round()[0].0;
    fixture.wait(2000);
    assert_eq!(fixture.state(1), JobState::Assigned, "its start may be on the way");
    fixture.must(Event::Revoked { attempt, worker });
    assert_eq!(fixture.starts(), [0_u64; 0]);
    assert_eq!((fixture.state(1), fixture.reason()), (JobState::Failed, Some(Reason::Expired)));
}

#[test]
fn an_assignment_that_nobody_accepts_is_revoked_and_counts_nothing() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(4000));
    fixture.submit(1, spec(1000));
    let attempt = fixture.round()[0].0;
    fixture.wait(10_000);
    assert_eq!(fixture.effects, [Effect::Revoke { attempt, worker }]);
    fixture.must(Event::Revoked { attempt, worker });
    let view = fixture.scheduler.job(id(1), None).unwrap();
    assert_eq!((view.state, view.infra, view.retries), (JobState::Queued, 0, 0));
    assert_eq!(fixture.round()[0].0.attempt, 2);
}

#[test]
fn retries_wait_and_prefer_another_worker() {
    let mut fixture = Fixture::new(Config::default());
    fixture.worker("w1", offer(4000));
    fixture.worker("w2", offer(4000));
    let mut job = spec(1000);
    (job.retries, job.retry.jitter_milli) = (1, 0);
    fixture.submit(1, job);
    let (attempt, worker) = fixture.round()[0];
    fixture.start(attempt, worker);
    fixture.result(attempt, worker, Outcome::Failed { exit_code: Some(3) });
    assert_eq!((fixture.state(1), fixture.reason()), (JobState::Backoff, Some(Reason::Exit(Some(3)))));
    fixture.wait(999);
    assert_eq!(fixture.state(1), JobState::Backoff);
    fixture.now += 1;
    let (second, elsewhere) = fixture.round()[0];
    assert_eq!(second.attempt, 2);
    assert_ne!(elsewhere, worker);
    fixture.result(second, elsewhere, Outcome::Failed { exit_code: Some(3) });
    assert_eq!(fixture.state(1), JobState::Failed);
    // The first result comes once more: its token has its answer.
    assert_eq!(fixture.result(attempt, worker, Outcome::Succeeded), ReportVerdict::Duplicate);
}

#[test]
fn only_listed_exit_codes_are_retried() {
    let mut fixture = Fixture::new(Config::default());
    fixture.worker("w1", offer(4000));
    let mut job = spec(1000);
    (job.retries, job.retry.exit_codes) = (5, Some([7].into()));
    fixture.submit(1, job);
    let (attempt, worker) = fixture.round()[0];
    fixture.result(attempt, worker, Outcome::Failed { exit_code: Some(8) });
    assert_eq!(fixture.state(1), JobState::Failed);
}

#[test]
fn a_poison_job_ends_after_max_infra() {
    let mut fixture = Fixture::new(Config::default());
    let workers = ["w1", "w2"].map(|name| fixture.worker(name, offer(4000)));
    fixture.submit(1, spec(1000));
    for round in 0..=5 {
        let sent = fixture.round();
        let (attempt, worker) = sent[0];
        fixture.result(attempt, worker, Outcome::StartFailed { permanent: false });
        let expected = if round < 5 { JobState::Backoff } else { JobState::Failed };
        assert_eq!(fixture.state(1), expected, "loss {round}");
        if round == 5 {
            break;
        }
        for _ in 0..8 {
            fixture.wait(10_000);
            workers.iter().for_each(|worker| fixture.must(Event::Heartbeat { worker: *worker }));
        }
    }
    assert_eq!(fixture.reason(), Some(Reason::InfraLimit));
}

#[test]
fn a_permanent_cause_fails_at_once() {
    let mut fixture = Fixture::new(Config::default());
    fixture.worker("w1", offer(4000));
    fixture.submit(1, spec(1000));
    let (attempt, worker) = fixture.round()[0];
    fixture.effects.clear();
    fixture.must(Event::Rejected { attempt, worker, permanent: true });
    assert_eq!((fixture.state(1), fixture.reason()), (JobState::Failed, Some(Reason::Permanent)));
}

#[test]
fn a_cancel_ends_what_waits_and_tells_what_runs() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(1000));
    fixture.submit(1, spec(1000));
    fixture.submit(2, spec(1000));
    let attempt = fixture.round()[0].0;
    fixture.start(attempt, worker);
    fixture.effects.clear();
    fixture.must(Event::Cancel { job: id(2), elements: None });
    fixture.must(Event::Cancel { job: id(1), elements: None });
    assert_eq!((fixture.state(2), fixture.state(1)), (JobState::Cancelled, JobState::Cancelling));
    let (why, grace_ms) = (CancelReason::User, 10_000);
    assert!(fixture.effects.contains(&Effect::Cancel { attempt, worker, why, grace_ms }));
    // Success that came first stands.
    fixture.result(attempt, worker, Outcome::Succeeded);
    assert_eq!(fixture.state(1), JobState::Completed);
    let again = fixture.apply(Event::Cancel { job: id(1), elements: None }).unwrap_err();
    insta::assert_snapshot!(again, @"job j0000100000001: job: Completed does not take `cancel`; it takes: nothing");
}

#[test]
fn the_fence_judges_in_order() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(4000));
    fixture.submit(1, spec(1000));
    let (attempt, _) = fixture.round()[0];
    let unknown = orlop_core::task::TaskRef { job: id(9), ..attempt };
    let never = orlop_core::task::TaskRef { attempt: 2, ..attempt };
    let other = orlop_core::task::TaskRef { epoch: orlop_core::id::Epoch(9), ..attempt };
    for wrong in [unknown, never, other] {
        assert_eq!(fixture.result(wrong, worker, Outcome::Succeeded), ReportVerdict::Unknown);
        assert_eq!(fixture.state(1), JobState::Assigned);
    }
    assert_eq!(fixture.result(attempt, worker, Outcome::Succeeded), ReportVerdict::Accepted);
    assert_eq!(fixture.result(attempt, worker, Outcome::Failed { exit_code: None }), ReportVerdict::Duplicate);
    assert_eq!(fixture.state(1), JobState::Completed);
}

#[test]
fn an_overtaken_attempt_that_runs_is_killed() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(4000));
    fixture.submit(1, spec(1000));
    let old = fixture.round()[0].0;
    fixture.must(Event::Revoked { attempt: old, worker });
    fixture.round();
    fixture.effects.clear();
    fixture.must(Event::Started { attempt: old, worker });
    assert_eq!(fixture.verdict(), ReportVerdict::Stale);
    assert!(matches!(fixture.effects[0], Effect::Cancel { why: CancelReason::Stale, .. }));
}

/// A token that was given up may return only while something may be left of its attempt.
#[test]
fn of_what_nothing_is_left_nothing_returns() {
    for way in 0..4 {
        let mut fixture = Fixture::new(Config::default());
        let worker = fixture.worker("w1", offer(4000));
        fixture.submit(1, spec(1000));
        let attempt = fixture.round()[0].0;
        fixture.wait(60_000);
        assert_eq!(fixture.state(1), JobState::Queued, "it was given up");
        fixture.must(match way {
            0 => Event::Revoked { attempt, worker },
            1 => Event::Rejected { attempt, worker, permanent: true },
            2 => Event::Result { attempt, worker, outcome: Outcome::Lost, ran_ms: None },
            _ => Event::Connected { worker, kept: vec![] },
        });
        fixture.effects.clear();
        fixture.must(Event::Started { attempt, worker });
        assert_eq!((fixture.verdict(), fixture.state(1)), (ReportVerdict::Stale, JobState::Queued), "{way}");
        assert_eq!(fixture.scheduler.worker_view(worker).unwrap().attempts, 0, "{way}");
    }
}

#[test]
fn ids_are_taken_once_and_time_never_runs_back() {
    let mut fixture = Fixture::new(Config::default());
    fixture.submit(1, spec(1000));
    let again = Event::Submit { job: id(1), spec: spec(1).into(), gate: StartWindow::default() };
    assert_eq!(fixture.apply(again), Err(EventError::DuplicateJob(id(1))));
    fixture.wait(1000);
    fixture.now = 10;
    fixture.must(Event::Tick);
    assert_eq!(fixture.scheduler.now(), 1000);
}

#[test]
fn the_room_of_an_attempt_is_given_on_after_its_end_and_not_when_it_is_asked_to_end() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(1000));
    fixture.submit(1, spec(1000));
    let attempt = fixture.round()[0].0;
    fixture.start(attempt, worker);
    fixture.submit(2, spec(1000));
    fixture.must(Event::Cancel { job: id(1), elements: None });
    assert_eq!(fixture.starts(), [0_u64; 0], "it still runs");
    fixture.result(attempt, worker, Outcome::Cancelled);
    assert_eq!(fixture.starts(), [2]);
}
