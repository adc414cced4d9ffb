//! Jobs and attempts.

use orlop_core::machine::job::JobState;
use orlop_core::machine::verdict::Verdict;

use super::bed::{Bed, id, offer, spec};
use crate::config::Config;
use crate::effect::{CancelReason, Effect, Reason};
use crate::error::EventError;
use crate::event::{Event, Gate, Outcome};

#[test]
pub(super) fn a_job_goes_from_submit_to_its_end() {
    let mut bed = Bed::new(Config::default());
    let worker = bed.worker("w1", offer(4000));
    bed.submit(1, spec(1000));
    assert_eq!(bed.state(1), JobState::Queued);
    let sent = bed.round();
    assert_eq!((sent.len(), sent[0].0.attempt, sent[0].1), (1, 1, worker));
    assert_eq!(bed.state(1), JobState::Assigned);
    bed.start(sent[0].0, worker);
    assert_eq!(bed.state(1), JobState::Running);
    assert_eq!(bed.result(sent[0].0, worker, Outcome::Succeeded), Verdict::Accepted);
    assert_eq!(bed.state(1), JobState::Completed);
    assert!(bed.effects.iter().any(|effect| matches!(effect, Effect::Finished { outcome: JobState::Completed, .. })));
    assert_eq!(bed.scheduler.worker_view(worker).unwrap().attempts, 0);
}

#[test]
pub(super) fn the_gate_opens_at_not_before() {
    let mut bed = Bed::new(Config::default());
    bed.worker("w1", offer(4000));
    let gate = Gate { not_before: Some(5000), queue_timeout: None };
    bed.must(Event::Submit { job: id(1), spec: spec(100).into(), gate });
    assert_eq!((bed.state(1), bed.scheduler.next_deadline()), (JobState::Pending, Some(5000)));
    assert!(bed.starts().is_empty());
    bed.now = 5000;
    assert_eq!(bed.starts(), [1]);
}

#[test]
pub(super) fn what_never_started_expires() {
    let mut bed = Bed::new(Config::default());
    let gate = Gate { not_before: None, queue_timeout: Some(1000) };
    bed.must(Event::Submit { job: id(1), spec: spec(100).into(), gate });
    bed.wait(999);
    assert_eq!(bed.state(1), JobState::Queued);
    bed.wait(1);
    assert_eq!((bed.state(1), bed.reason()), (JobState::Failed, Some(Reason::Expired)));
}

#[test]
pub(super) fn what_comes_back_unstarted_after_its_time_expires() {
    let mut bed = Bed::new(Config::default());
    let worker = bed.worker("w1", offer(4000));
    let gate = Gate { not_before: None, queue_timeout: Some(1000) };
    bed.must(Event::Submit { job: id(1), spec: spec(100).into(), gate });
    let attempt = bed.round()[0].0;
    bed.wait(2000);
    assert_eq!(bed.state(1), JobState::Assigned, "its start may be on the way");
    bed.must(Event::Revoked { attempt, worker });
    assert_eq!(bed.starts(), [0_u64; 0]);
    assert_eq!((bed.state(1), bed.reason()), (JobState::Failed, Some(Reason::Expired)));
}

#[test]
pub(super) fn an_assignment_that_nobody_accepts_is_revoked_and_counts_nothing() {
    let mut bed = Bed::new(Config::default());
    let worker = bed.worker("w1", offer(4000));
    bed.submit(1, spec(1000));
    let attempt = bed.round()[0].0;
    bed.wait(10_000);
    assert_eq!(bed.effects, [Effect::Revoke { attempt, worker }]);
    bed.must(Event::Revoked { attempt, worker });
    let view = bed.scheduler.job(id(1), None).unwrap();
    assert_eq!((view.state, view.infra, view.retries), (JobState::Queued, 0, 0));
    assert_eq!(bed.round()[0].0.attempt, 2);
}

#[test]
pub(super) fn retries_wait_and_prefer_another_worker() {
    let mut bed = Bed::new(Config::default());
    bed.worker("w1", offer(4000));
    bed.worker("w2", offer(4000));
    let mut job = spec(1000);
    (job.retries, job.retry.jitter_milli) = (1, 0);
    bed.submit(1, job);
    let (attempt, worker) = bed.round()[0];
    bed.start(attempt, worker);
    bed.result(attempt, worker, Outcome::Failed { exit_code: Some(3) });
    assert_eq!((bed.state(1), bed.reason()), (JobState::Backoff, Some(Reason::Exit(Some(3)))));
    bed.wait(999);
    assert_eq!(bed.state(1), JobState::Backoff);
    bed.now += 1;
    let (second, elsewhere) = bed.round()[0];
    assert_eq!(second.attempt, 2);
    assert_ne!(elsewhere, worker);
    bed.result(second, elsewhere, Outcome::Failed { exit_code: Some(3) });
    assert_eq!(bed.state(1), JobState::Failed);
    // The first result comes once more: its token has its answer.
    assert_eq!(bed.result(attempt, worker, Outcome::Succeeded), Verdict::Duplicate);
}

#[test]
pub(super) fn only_listed_exit_codes_are_retried() {
    let mut bed = Bed::new(Config::default());
    bed.worker("w1", offer(4000));
    let mut job = spec(1000);
    (job.retries, job.retry.exit_codes) = (5, Some([7].into()));
    bed.submit(1, job);
    let (attempt, worker) = bed.round()[0];
    bed.result(attempt, worker, Outcome::Failed { exit_code: Some(8) });
    assert_eq!(bed.state(1), JobState::Failed);
}

#[test]
pub(super) fn a_poison_job_ends_after_max_infra() {
    let mut bed = Bed::new(Config::default());
    let workers = ["w1", "w2"].map(|name| bed.worker(name, offer(4000)));
    bed.submit(1, spec(1000));
    for round in 0..=5 {
        let sent = bed.round();
        let (attempt, worker) = sent[0];
        bed.result(attempt, worker, Outcome::StartFailed { permanent: false });
        let expected = if round < 5 { JobState::Backoff } else { JobState::Failed };
        assert_eq!(bed.state(1), expected, "loss {round}");
        if round == 5 {
            break;
        }
        for _ in 0..8 {
            bed.wait(10_000);
            workers.iter().for_each(|worker| bed.must(Event::Heartbeat { worker: *worker }));
        }
    }
    assert_eq!(bed.reason(), Some(Reason::InfraLimit));
}

#[test]
pub(super) fn a_permanent_cause_fails_at_once() {
    let mut bed = Bed::new(Config::default());
    bed.worker("w1", offer(4000));
    bed.submit(1, spec(1000));
    let (attempt, worker) = bed.round()[0];
    bed.effects.clear();
    bed.must(Event::Rejected { attempt, worker, permanent: true });
    assert_eq!((bed.state(1), bed.reason()), (JobState::Failed, Some(Reason::Permanent)));
}

#[test]
pub(super) fn a_cancel_ends_what_waits_and_tells_what_runs() {
    let mut bed = Bed::new(Config::default());
    let worker = bed.worker("w1", offer(1000));
    bed.submit(1, spec(1000));
    bed.submit(2, spec(1000));
    let attempt = bed.round()[0].0;
    bed.start(attempt, worker);
    bed.effects.clear();
    bed.must(Event::Cancel { job: id(2), elements: None });
    bed.must(Event::Cancel { job: id(1), elements: None });
    assert_eq!((bed.state(2), bed.state(1)), (JobState::Cancelled, JobState::Cancelling));
    let (why, grace_ms) = (CancelReason::Request, 10_000);
    assert!(bed.effects.contains(&Effect::Cancel { attempt, worker, why, grace_ms }));
    // Success that came first stands.
    bed.result(attempt, worker, Outcome::Succeeded);
    assert_eq!(bed.state(1), JobState::Completed);
    let again = bed.apply(Event::Cancel { job: id(1), elements: None }).unwrap_err();
    insta::assert_snapshot!(again, @"job j0000100000001: job: Completed does not take `cancel`; it takes: nothing");
}

#[test]
pub(super) fn the_fence_judges_in_order() {
    let mut bed = Bed::new(Config::default());
    let worker = bed.worker("w1", offer(4000));
    bed.submit(1, spec(1000));
    let (attempt, _) = bed.round()[0];
    let unknown = orlop_core::task::TaskRef { job: id(9), ..attempt };
    let never = orlop_core::task::TaskRef { attempt: 2, ..attempt };
    let other = orlop_core::task::TaskRef { epoch: orlop_core::id::Epoch(9), ..attempt };
    for wrong in [unknown, never, other] {
        assert_eq!(bed.result(wrong, worker, Outcome::Succeeded), Verdict::Unknown);
        assert_eq!(bed.state(1), JobState::Assigned);
    }
    assert_eq!(bed.result(attempt, worker, Outcome::Succeeded), Verdict::Accepted);
    assert_eq!(bed.result(attempt, worker, Outcome::Failed { exit_code: None }), Verdict::Duplicate);
    assert_eq!(bed.state(1), JobState::Completed);
}

#[test]
pub(super) fn an_overtaken_attempt_that_runs_is_killed() {
    let mut bed = Bed::new(Config::default());
    let worker = bed.worker("w1", offer(4000));
    bed.submit(1, spec(1000));
    let old = bed.round()[0].0;
    bed.must(Event::Revoked { attempt: old, worker });
    bed.round();
    bed.effects.clear();
    bed.must(Event::Started { attempt: old, worker });
    assert_eq!(bed.verdict(), Verdict::Stale);
    assert!(matches!(bed.effects[0], Effect::Cancel { why: CancelReason::Stale, .. }));
}

/// A token that was given up may return only while something may be left of its attempt.
#[test]
pub(super) fn of_what_nothing_is_left_nothing_returns() {
    for way in 0..4 {
        let mut bed = Bed::new(Config::default());
        let worker = bed.worker("w1", offer(4000));
        bed.submit(1, spec(1000));
        let attempt = bed.round()[0].0;
        bed.wait(60_000);
        assert_eq!(bed.state(1), JobState::Queued, "it was given up");
        bed.must(match way {
            0 => Event::Revoked { attempt, worker },
            1 => Event::Rejected { attempt, worker, permanent: true },
            2 => Event::Result { attempt, worker, outcome: Outcome::Lost, ran_ms: None },
            _ => Event::Connected { worker, kept: vec![] },
        });
        bed.effects.clear();
        bed.must(Event::Started { attempt, worker });
        assert_eq!((bed.verdict(), bed.state(1)), (Verdict::Stale, JobState::Queued), "{way}");
        assert_eq!(bed.scheduler.worker_view(worker).unwrap().attempts, 0, "{way}");
    }
}

#[test]
pub(super) fn ids_are_taken_once_and_time_never_runs_back() {
    let mut bed = Bed::new(Config::default());
    bed.submit(1, spec(1000));
    let again = Event::Submit { job: id(1), spec: spec(1).into(), gate: Gate::default() };
    assert_eq!(bed.apply(again), Err(EventError::DuplicateJob(id(1))));
    bed.wait(1000);
    bed.now = 10;
    bed.must(Event::Tick);
    assert_eq!(bed.scheduler.now(), 1000);
}
