//! Workers, and what becomes of their attempts.

use std::sync::Arc;

use orlop_core::machine::job::JobState;
use orlop_core::machine::verdict::ReportVerdict;
use orlop_core::machine::worker::WorkerState;

use super::fixture::{Fixture, id, offer, spec};
use crate::config::Config;
use crate::effect::{CancelReason, Effect, Reason};
use crate::engine::Scheduler;
use crate::error::EventError;
use crate::event::{Departure, DrainOrder, Event, Kept, Outcome};
use crate::job::Demand;
use crate::token::WorkerKey;

fn state(fixture: &Fixture, worker: WorkerKey) -> WorkerState {
    fixture.scheduler.worker_view(worker).unwrap().state
}

/// An incarnation of an id is never used again, even if nothing else is remembered of it.
#[test]
fn a_worker_that_was_forgotten_comes_as_another_incarnation() {
    let mut fixture = Fixture::new(Config { workers_kept: 0, ..Config::default() });
    for incarnation in 1..4 {
        let worker = fixture.worker("w1", offer(1000));
        assert_eq!(fixture.scheduler.worker_view(worker).unwrap().incarnation, incarnation);
        fixture.must(Event::Remove { worker, why: Departure::Goodbye });
        assert_eq!(fixture.scheduler.worker_keys().count(), 0);
    }
}

#[test]
fn a_worker_that_never_comes_fails() {
    let mut fixture = Fixture::new(Config::default());
    let name = "w1".parse().unwrap();
    fixture.must(Event::WorkerDeclared { id: name });
    let worker = fixture.scheduler.worker_key(&"w1".parse().unwrap()).unwrap();
    fixture.wait(600_000);
    assert_eq!(state(&fixture, worker), WorkerState::Failed);
    // The id may come back as the next incarnation.
    fixture.must(Event::WorkerDeclared { id: "w1".parse().unwrap() });
    let next = fixture.scheduler.worker_key(&"w1".parse().unwrap()).unwrap();
    assert_eq!(fixture.scheduler.worker_view(next).unwrap().incarnation, 2);
    fixture.must(Event::Registered { worker: next, capabilities: Arc::new(offer(1000)) });
    fixture.wait(30_000);
    assert_eq!(state(&fixture, next), WorkerState::Failed);
}

#[test]
fn a_live_worker_id_is_not_declared_again() {
    let mut fixture = Fixture::new(Config::default());
    fixture.worker("w1", offer(1000));
    let again = fixture.apply(Event::WorkerDeclared { id: "w1".parse().unwrap() }).unwrap_err();
    insta::assert_snapshot!(again, @"worker `w1` has a live incarnation; remove that one first");
    assert!(matches!(again, EventError::DuplicateWorker(_)));
}

#[test]
fn silence_makes_suspect_then_lost_then_failed() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(1000));
    fixture.submit(1, spec(1000));
    let attempt = fixture.round()[0].0;
    fixture.start(attempt, worker);
    fixture.wait(14_999);
    assert_eq!(state(&fixture, worker), WorkerState::Running);
    fixture.wait(1);
    assert_eq!((state(&fixture, worker), fixture.state(1)), (WorkerState::Unhealthy, JobState::Running));
    fixture.wait(15_000);
    assert_eq!((fixture.state(1), fixture.reason()), (JobState::Queued, Some(Reason::WorkerLost)));
    // Its capacity stays held: nobody knows that the attempt has ended.
    assert_eq!(fixture.scheduler.worker_view(worker).unwrap().attempts, 1);
    fixture.wait(270_000);
    assert_eq!(state(&fixture, worker), WorkerState::Failed);
    assert_eq!(fixture.scheduler.job(id(1), None).unwrap().infra, 1);
}

#[test]
fn a_heartbeat_keeps_a_worker() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(1000));
    for _ in 0..10 {
        fixture.wait(14_000);
        fixture.must(Event::Heartbeat { worker });
    }
    assert_eq!(state(&fixture, worker), WorkerState::Available);
}

#[test]
fn late_adoption_keeps_live_and_finished_work() {
    for finished in [false, true] {
        let mut fixture = Fixture::new(Config::default());
        let worker = fixture.worker("w1", offer(1000));
        fixture.submit(1, spec(1000));
        let attempt = fixture.round()[0].0;
        fixture.start(attempt, worker);
        fixture.wait(15_000);
        fixture.wait(30_000);
        assert_eq!(fixture.state(1), JobState::Queued);
        fixture.effects.clear();
        if finished {
            assert_eq!(fixture.result(attempt, worker, Outcome::Succeeded), ReportVerdict::Adopted);
            assert_eq!(fixture.state(1), JobState::Completed);
        } else {
            fixture.must(Event::Connected { worker, kept: vec![Kept { attempt, started: true }] });
            assert_eq!((fixture.verdict_of(attempt), fixture.state(1)), (ReportVerdict::Adopted, JobState::Running));
            assert_eq!(fixture.scheduler.tenant(&"t".parse().unwrap()).unwrap().running, 1);
        }
    }
}

/// Also of what its worker has left with: only a later incarnation of that worker brings it back, also after a restart.
#[test]
fn nobody_speaks_of_what_another_worker_had() {
    for left in [false, true] {
        let mut fixture = Fixture::new(Config::default());
        let worker = fixture.worker("w1", offer(1000));
        fixture.submit(1, spec(1000));
        let attempt = fixture.round()[0].0;
        fixture.start(attempt, worker);
        if left {
            fixture.must(Event::Remove { worker, why: Departure::Goodbye });
        } else {
            fixture.wait(60_000);
        }
        let other = fixture.worker("w2", offer(500));
        assert_eq!(fixture.scheduler.task_row(id(1), None).unwrap().lost_by, Some("w1".parse().unwrap()));
        assert_eq!(fixture.result(attempt, other, Outcome::Succeeded), ReportVerdict::Stale);
        fixture.effects.clear();
        fixture.must(Event::Started { attempt, worker: other });
        assert_eq!((fixture.verdict(), fixture.state(1)), (ReportVerdict::Stale, JobState::Queued));
        let third = if left { fixture.worker("w1", offer(500)) } else { worker };
        assert_eq!(fixture.result(attempt, third, Outcome::Succeeded), ReportVerdict::Adopted);
        assert_eq!(fixture.state(1), JobState::Completed);
    }
}

/// Under the key of a worker that was forgotten nobody speaks any more; the next incarnation of that worker says again what
/// waits in its spool, and gets the answer.
#[test]
fn a_forgotten_worker_is_not_heard_and_its_next_incarnation_is_answered() {
    let mut fixture = Fixture::new(Config { workers_kept: 0, ..Config::default() });
    let worker = fixture.worker("w1", offer(1000));
    fixture.submit(1, spec(1000));
    let attempt = fixture.round()[0].0;
    fixture.start(attempt, worker);
    assert_eq!(fixture.result(attempt, worker, Outcome::Succeeded), ReportVerdict::Accepted);
    fixture.must(Event::Remove { worker, why: Departure::Goodbye });
    fixture.effects.clear();
    let again = Event::Result { attempt, worker, outcome: Outcome::Succeeded, ran_ms: None };
    assert_eq!(fixture.apply(again), Err(EventError::UnknownWorker(worker)));
    assert!(fixture.effects.is_empty());
    let next = fixture.worker("w1", offer(1000));
    assert_eq!(fixture.result(attempt, next, Outcome::Succeeded), ReportVerdict::Duplicate);
}

/// A worker whose place another one has by now is not taken for it.
#[test]
fn a_worker_in_the_place_of_one_that_failed_is_not_avoided() {
    let mut fixture = Fixture::new(Config { workers_kept: 0, ..Config::default() });
    let worker = fixture.worker("w1", offer(1000));
    fixture.submit(1, spec(1000));
    let attempt = fixture.round()[0].0;
    assert_eq!(fixture.result(attempt, worker, Outcome::StartFailed { permanent: false }), ReportVerdict::Accepted);
    assert!(fixture.scheduler.task_row(id(1), None).unwrap().avoid.is_some());
    fixture.must(Event::Remove { worker, why: Departure::Goodbye });
    fixture.wait(1200);
    let other = fixture.worker("w2", offer(1000));
    assert_eq!((other.index, other == worker), (worker.index, false), "its place is used again");
    assert_eq!(fixture.scheduler.task_row(id(1), None).unwrap().avoid, None);
    assert_eq!(fixture.starts(), [1]);
}

/// What an attempt that was given up still holds must be told from its job: that is known as long as the attempt may run.
#[test]
fn a_final_job_is_known_until_its_lost_attempts_have_ended() {
    for ends in 0..3 {
        let mut fixture = Fixture::new(Config { finished_kept: 0, ..Config::default() });
        let worker = fixture.worker("w1", offer(1000));
        fixture.submit(1, spec(1000));
        let attempt = fixture.round()[0].0;
        fixture.start(attempt, worker);
        fixture.wait(60_000);
        fixture.must(Event::Cancel { job: id(1), elements: None });
        assert_eq!(fixture.state(1), JobState::Cancelled);
        if ends == 2 {
            let text = serde_json::to_string(&fixture.scheduler.snapshot()).unwrap();
            let config = fixture.scheduler.config().clone();
            fixture.scheduler = Scheduler::restore(serde_json::from_str(&text).unwrap(), config).unwrap();
        }
        fixture.submit(2, spec(1000));
        fixture.must(Event::Cancel { job: id(2), elements: None });
        assert!(fixture.scheduler.job(id(2), None).is_none(), "what holds nothing is forgotten");
        assert!(fixture.scheduler.holds(attempt));
        if ends == 0 {
            fixture.must(Event::Connected { worker, kept: vec![] });
        } else {
            assert_eq!(fixture.result(attempt, worker, Outcome::Succeeded), ReportVerdict::Stale);
        }
        assert_eq!(fixture.scheduler.worker_view(worker).unwrap().attempts, 0);
        assert!(fixture.scheduler.job(id(1), None).is_none(), "nothing is left of it");
    }
}

#[test]
fn once_another_token_was_issued_the_old_one_is_stale() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(1000));
    fixture.submit(1, spec(1000));
    let attempt = fixture.round()[0].0;
    fixture.start(attempt, worker);
    fixture.wait(15_000);
    fixture.wait(15_000);
    let other = fixture.worker("w2", offer(1000));
    assert_eq!(fixture.round()[0].1, other);
    assert_eq!(fixture.result(attempt, worker, Outcome::Succeeded), ReportVerdict::Stale);
    assert_eq!(fixture.state(1), JobState::Assigned);
    // But it has ended for sure: its worker's capacity is free again.
    assert_eq!(fixture.scheduler.worker_view(worker).unwrap().attempts, 0);
}

#[test]
fn what_a_worker_lost_over_a_reconnect_is_placed_again() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(4000));
    fixture.submit(1, spec(1000));
    fixture.submit(2, spec(1000));
    let sent = fixture.round();
    sent.iter().for_each(|(attempt, worker)| fixture.start(*attempt, *worker));
    fixture.must(Event::ConnectionLost { worker });
    assert_eq!(state(&fixture, worker), WorkerState::Unhealthy);
    fixture.must(Event::Connected { worker, kept: vec![Kept { attempt: sent[0].0, started: true }] });
    assert_eq!((fixture.state(1), fixture.state(2)), (JobState::Running, JobState::Queued));
    assert_eq!(state(&fixture, worker), WorkerState::Running);
}

#[test]
fn ten_failed_starts_of_different_jobs_bring_probation_that_doubles() {
    let mut fixture = Fixture::new(Config { start_failures: 2, ..Config::default() });
    let worker = fixture.worker("w1", offer(1000));
    let mut number = 0;
    for probation in [30_000, 60_000] {
        for _ in 0..2 {
            number += 1;
            fixture.submit(number, spec(1000));
            let attempt = fixture.round()[0].0;
            fixture.result(attempt, worker, Outcome::StartFailed { permanent: false });
            fixture.must(Event::Cancel { job: id(number), elements: None });
        }
        assert_eq!(state(&fixture, worker), WorkerState::Unhealthy);
        fixture.now += probation - 1;
        fixture.must(Event::Heartbeat { worker });
        assert_eq!(state(&fixture, worker), WorkerState::Unhealthy);
        fixture.now += 1;
        fixture.must(Event::Heartbeat { worker });
        assert_eq!(state(&fixture, worker), WorkerState::Available);
    }
}

/// Sends a job of this number to the worker, which cannot start it.
fn fails_to_start(fixture: &mut Fixture, worker: WorkerKey, number: u64) {
    fixture.submit(number, spec(1000));
    let attempt = fixture.round()[0].0;
    fixture.result(attempt, worker, Outcome::StartFailed { permanent: false });
    fixture.must(Event::Cancel { job: id(number), elements: None });
}

#[test]
fn failed_starts_count_for_a_minute_and_until_a_success() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(1000));
    (1..=9).for_each(|number| fails_to_start(&mut fixture, worker, number));
    fixture.now = 60_000;
    fixture.must(Event::Heartbeat { worker });
    (10..=18).for_each(|number| fails_to_start(&mut fixture, worker, number));
    assert_eq!(state(&fixture, worker), WorkerState::Available, "the first nine are a minute old");
    fixture.submit(19, spec(1000));
    let attempt = fixture.round()[0].0;
    fixture.start(attempt, worker);
    fixture.result(attempt, worker, Outcome::Succeeded);
    (20..=28).for_each(|number| fails_to_start(&mut fixture, worker, number));
    assert_eq!(state(&fixture, worker), WorkerState::Available, "a success forgives those before it");
    fails_to_start(&mut fixture, worker, 29);
    assert_eq!(state(&fixture, worker), WorkerState::Unhealthy);
}

#[test]
fn a_task_that_fails_to_start_again_and_again_counts_once() {
    let mut fixture = Fixture::new(Config { start_failures: 2, ..Config::default() });
    let worker = fixture.worker("w1", offer(1000));
    fixture.submit(1, Demand { retries: 5, ..spec(1000) });
    for _ in 0..3 {
        let sent = fixture.round();
        fixture.result(sent[0].0, worker, Outcome::StartFailed { permanent: false });
        assert_eq!(state(&fixture, worker), WorkerState::Available);
        fixture.now += 10_000;
        fixture.must(Event::Heartbeat { worker });
        fixture.wait(0);
    }
}

#[test]
fn probation_grows_to_ten_minutes_at_most() {
    let mut fixture = Fixture::new(Config { start_failures: 1, ..Config::default() });
    let worker = fixture.worker("w1", offer(1000));
    for (number, seconds) in (1..).zip([30, 60, 120, 240, 480, 600, 600]) {
        fails_to_start(&mut fixture, worker, number);
        for now in [fixture.now + seconds * 1000 - 1, fixture.now + seconds * 1000] {
            assert_eq!(state(&fixture, worker), WorkerState::Unhealthy);
            // It is heard of all the while.
            while fixture.now < now {
                fixture.now = now.min(fixture.now + 10_000);
                fixture.must(Event::Heartbeat { worker });
            }
        }
        assert_eq!(state(&fixture, worker), WorkerState::Available, "after {seconds} s");
    }
}

#[test]
fn losses_count_for_ten_minutes() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(1000));
    for _ in 0..9 {
        fixture.must(Event::ConnectionLost { worker });
        fixture.must(Event::Connected { worker, kept: vec![] });
        // The fifth comes when the first is ten minutes old.
        (0..15).for_each(|_| {
            fixture.now += 10_000;
            fixture.must(Event::Heartbeat { worker });
        });
    }
    assert_eq!(state(&fixture, worker), WorkerState::Available);
}

#[test]
fn a_bad_report_stops_new_work_until_a_good_one() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(1000));
    fixture.must(Event::HealthReport { worker, good: false });
    fixture.submit(1, spec(1000));
    assert!(fixture.starts().is_empty());
    fixture.now = 10_000;
    fixture.must(Event::HealthReport { worker, good: true });
    assert!(fixture.starts().is_empty(), "probation is not over");
    fixture.now = 20_000;
    fixture.must(Event::Heartbeat { worker });
    fixture.wait(10_000);
    assert_eq!(fixture.starts(), [1]);
}

#[test]
fn five_losses_in_ten_minutes_end_the_incarnation() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(1000));
    for loss in 1..=5 {
        fixture.must(Event::ConnectionLost { worker });
        if loss < 5 {
            fixture.must(Event::Connected { worker, kept: vec![] });
        }
    }
    assert_eq!(state(&fixture, worker), WorkerState::Failed);
}

#[test]
fn a_drain_lets_work_finish_and_then_shuts_down() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(2000));
    fixture.submit(1, spec(1000));
    let attempt = fixture.round()[0].0;
    fixture.start(attempt, worker);
    fixture.must(Event::Drain { worker, order: DrainOrder { deadline: Some(5000), host_shutdown: false } });
    fixture.submit(2, spec(1000));
    assert!(fixture.starts().is_empty(), "no new work");
    fixture.wait(5000);
    let cancel = Effect::Cancel { attempt, worker, why: CancelReason::Drain, grace_ms: 10_000 };
    assert_eq!(fixture.effects, [cancel]);
    fixture.result(attempt, worker, Outcome::Failed { exit_code: None });
    let view = fixture.scheduler.job(id(1), None).unwrap();
    assert_eq!((view.state, view.retries, view.infra), (JobState::Queued, 0, 0));
    assert_eq!(state(&fixture, worker), WorkerState::Terminated);
    assert!(fixture.effects.contains(&Effect::Shutdown { worker }));
}

#[test]
fn a_drain_is_withdrawn_unless_the_host_shuts_down() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(2000));
    fixture.submit(1, spec(1000));
    fixture.round();
    fixture.must(Event::Drain { worker, order: DrainOrder::default() });
    fixture.must(Event::Undrain { worker });
    assert_eq!(state(&fixture, worker), WorkerState::Running);
    fixture.must(Event::Drain { worker, order: DrainOrder { deadline: None, host_shutdown: true } });
    assert!(fixture.apply(Event::Undrain { worker }).is_err());
}

#[test]
fn a_cordon_refuses_placements_and_nothing_else() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(2000));
    fixture.must(Event::Cordon { worker });
    fixture.submit(1, spec(1000));
    assert!(fixture.starts().is_empty());
    assert_eq!(state(&fixture, worker), WorkerState::Available);
    fixture.must(Event::Uncordon { worker });
    assert_eq!(fixture.starts(), [1]);
}

#[test]
fn a_smaller_worker_keeps_its_work_and_gets_none_until_it_fits_again() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(2000));
    (1..=2).for_each(|number| fixture.submit(number, spec(1000)));
    let sent = fixture.round();
    fixture.must(Event::Updated { worker, capabilities: Arc::new(offer(1000)) });
    assert_eq!((fixture.state(1), fixture.state(2)), (JobState::Assigned, JobState::Assigned));
    let mut tiny = spec(1);
    tiny.resources.memory_bytes = 0;
    fixture.submit(3, tiny);
    assert!(fixture.starts().is_empty());
    fixture.result(sent[0].0, worker, Outcome::Succeeded);
    assert!(fixture.starts().is_empty(), "1000m of 1000m are taken");
    fixture.result(sent[1].0, worker, Outcome::Succeeded);
    assert_eq!(fixture.starts(), [3]);
}

#[test]
fn goodbye_loses_what_ran_and_a_refused_one_fails() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(2000));
    fixture.submit(1, spec(1000));
    let attempt = fixture.round()[0].0;
    fixture.start(attempt, worker);
    fixture.must(Event::Remove { worker, why: Departure::Goodbye });
    assert_eq!((state(&fixture, worker), fixture.state(1)), (WorkerState::Terminated, JobState::Queued));
    // Its result may still come from the next incarnation.
    let next = fixture.worker("w1", offer(2000));
    assert_eq!(fixture.result(attempt, next, Outcome::Succeeded), ReportVerdict::Adopted);
    assert_eq!(fixture.state(1), JobState::Completed);
}
