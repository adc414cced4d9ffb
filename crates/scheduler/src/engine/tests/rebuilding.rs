//! Restart from the rows of a store.

use std::sync::Arc;

use orlop_core::id::Epoch;
use orlop_core::machine::job::JobState;
use orlop_core::machine::verdict::ReportVerdict;
use orlop_core::machine::worker::WorkerState;
use orlop_core::task::TaskRef;

use super::fixture::{Fixture, id, offer, spec};
use crate::config::Config;
use crate::effect::{Effect, WorkerReason};
use crate::engine::Scheduler;
use crate::error::EventError;
use crate::event::{ArraySpec, DrainOrder, Event, Kept, Outcome, StartWindow};
use crate::job::Demand;
use crate::stored::{ArrayRow, AttemptRow, Body, JobRow, RangeRow, Stored, WorkerRow};
use crate::testing::{Choices, Shape, World};
use crate::token::WorkerKey;

fn job_row(fixture: &Fixture, number: u64, spec: &Demand) -> JobRow {
    let body = Body::One(fixture.scheduler.task_row(id(number), None).unwrap());
    JobRow { job: id(number), spec: Arc::new(spec.clone()), submitted: 0, not_before: None, expires: None, body }
}

fn attempt_row(fixture: &Fixture, attempt: TaskRef, worker: WorkerKey) -> AttemptRow {
    fixture.scheduler.attempt_row(attempt, worker).unwrap()
}

fn worker_row(fixture: &Fixture, worker: WorkerKey) -> WorkerRow {
    fixture.scheduler.worker_row(worker).unwrap()
}

/// A server with another epoch goes on with these rows.
fn restart(fixture: &mut Fixture, stored: Stored) -> Result<(), EventError> {
    let at = (fixture.scheduler.epoch().next(), fixture.now);
    fixture.effects.clear();
    fixture.scheduler = Scheduler::rebuild(Config::default(), 1, at, stored, &mut fixture.effects)?;
    fixture.scheduler.sanity_check().unwrap();
    Ok(())
}

/// One worker with one running and one waiting job, restarted.
fn restarted() -> (Fixture, (TaskRef, WorkerKey)) {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(1000));
    fixture.submit(1, spec(1000));
    fixture.submit(2, spec(1000));
    let placed = fixture.round()[0];
    fixture.start(placed.0, placed.1);
    let stored = Stored {
        workers: vec![worker_row(&fixture, worker)],
        jobs: vec![job_row(&fixture, 2, &spec(1000)), job_row(&fixture, 1, &spec(1000))],
        attempts: vec![attempt_row(&fixture, placed.0, placed.1)],
        ..Stored::default()
    };
    fixture.now = 1_000_000;
    restart(&mut fixture, stored).unwrap();
    let worker = fixture.scheduler.worker_key(&"w1".parse().unwrap()).unwrap();
    (fixture, (placed.0, worker))
}

#[test]
fn after_a_restart_workers_are_unhealthy_and_what_returns_in_time_runs_on() {
    let (mut fixture, (attempt, worker)) = restarted();
    let reported = fixture.effects.iter().any(|effect| {
        matches!(effect, Effect::WorkerChanged { to: WorkerState::Unhealthy, reason, .. } if *reason == WorkerReason::ServerRestarted)
    });
    assert!(reported, "{:?}", fixture.effects);
    assert_eq!((fixture.state(1), fixture.state(2)), (JobState::Running, JobState::Queued));
    assert_eq!(fixture.round(), [], "nothing is placed on a worker that has not returned");
    fixture.wait(29_999);
    assert_eq!(fixture.state(1), JobState::Running);
    fixture.must(Event::Connected { worker, kept: vec![Kept { attempt, started: true }] });
    assert_eq!(fixture.round(), [], "the worker is full as before");
    assert_eq!(fixture.result(attempt, worker, Outcome::Succeeded), ReportVerdict::Accepted);
    let (next, _) = fixture.round()[0];
    assert_eq!((next.job, next.attempt, next.epoch), (id(2), 1, Epoch(2)));
}

#[test]
fn what_has_not_returned_in_reassign_after_is_lost_and_its_next_token_is_greater() {
    let (mut fixture, (attempt, worker)) = restarted();
    fixture.wait(30_000);
    assert_eq!(fixture.state(1), JobState::Queued);
    assert!(fixture.effects.iter().any(|effect| matches!(effect, Effect::Lost { held: true, .. })));
    assert_eq!(fixture.scheduler.worker_view(worker).unwrap().attempts, 1, "its capacity stays held");
    fixture.worker("w2", offer(1000));
    let (next, _) = fixture.round()[0];
    assert_eq!((next.job, next.attempt, next.epoch), (id(1), 2, Epoch(2)));
    fixture.must(Event::Connected { worker, kept: vec![Kept { attempt, started: true }] });
    assert_eq!(fixture.verdict_of(attempt), ReportVerdict::Stale);
}

#[test]
fn what_a_worker_no_longer_has_is_placed_again() {
    let (mut fixture, (_, worker)) = restarted();
    fixture.must(Event::Connected { worker, kept: vec![] });
    assert!(fixture.effects.iter().any(|effect| matches!(effect, Effect::Lost { held: false, .. })));
    assert_eq!(fixture.starts(), [1], "by its original sequence");
}

#[test]
fn gates_time_limits_and_delays_go_on() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(2000));
    let retried = Demand { retries: 1, ..spec(500) };
    fixture.submit(1, retried.clone());
    let (attempt, on) = fixture.round()[0];
    fixture.result(attempt, on, Outcome::Failed { exit_code: Some(1) });
    assert_eq!(fixture.state(1), JobState::Backoff);
    let gate = StartWindow { not_before: Some(5000), queue_timeout: None };
    fixture.must(Event::Submit { job: id(2), spec: Arc::new(spec(500)), gate });
    fixture.submit(3, spec(4000));
    let stored = Stored {
        workers: vec![worker_row(&fixture, worker)],
        jobs: vec![
            job_row(&fixture, 1, &retried),
            JobRow { not_before: gate.not_before, ..job_row(&fixture, 2, &spec(500)) },
            JobRow { expires: Some(7000), ..job_row(&fixture, 3, &spec(4000)) },
        ],
        ..Stored::default()
    };
    restart(&mut fixture, stored).unwrap();
    let worker = fixture.scheduler.worker_key(&"w1".parse().unwrap()).unwrap();
    fixture.must(Event::Connected { worker, kept: vec![] });
    assert_eq!(fixture.starts(), [0_u64; 0]);
    fixture.wait(1200);
    assert_eq!(fixture.starts(), [1]);
    fixture.wait(3800);
    assert_eq!(fixture.starts(), [2]);
    fixture.wait(2000);
    assert_eq!(fixture.state(3), JobState::Failed);
    let again = fixture.result(attempt, worker, Outcome::Failed { exit_code: Some(1) });
    assert_eq!(again, ReportVerdict::Duplicate, "a result that was accepted before the restart still is");
}

#[test]
fn an_array_keeps_its_window_its_ends_and_its_failures() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(8000));
    let array = ArraySpec { indices: vec![(0, 9)], max_parallel: Some(2), max_failures: Some(1) };
    let event = Event::SubmitArray { job: id(1), spec: Arc::new(spec(500)), gate: StartWindow::default(), array };
    fixture.must(event);
    let first = fixture.round();
    fixture.result(first[0].0, worker, Outcome::Failed { exit_code: None });
    let elements = (0..2).map(|index| (index, fixture.scheduler.task_row(id(1), Some(index)).unwrap())).collect();
    let ranges = vec![RangeRow { first: 2, last: 9, state: JobState::Queued }];
    let array = ArrayRow { max_parallel: Some(2), max_failures: Some(1), ranges, elements };
    let row = JobRow { body: Body::Array(array), ..job_row_of(&spec(500)) };
    let stored = Stored {
        workers: vec![worker_row(&fixture, worker)],
        jobs: vec![row],
        attempts: vec![attempt_row(&fixture, first[1].0, first[1].1)],
        ..Stored::default()
    };
    restart(&mut fixture, stored).unwrap();
    let worker = fixture.scheduler.worker_key(&"w1".parse().unwrap()).unwrap();
    fixture.must(Event::Connected { worker, kept: vec![Kept { attempt: first[1].0, started: false }] });
    let next = fixture.round();
    assert_eq!(next.iter().map(|(attempt, _)| attempt.index).collect::<Vec<_>>(), [2], "one more fits the window");
    fixture.result(next[0].0, worker, Outcome::Failed { exit_code: None });
    fixture.must(Event::Revoked { attempt: first[1].0, worker });
    assert_eq!(fixture.state(1), JobState::Failed, "the second failure was one too many");
}

#[test]
fn a_stored_window_of_none_is_one_of_one() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(8000));
    let ranges = vec![RangeRow { first: 0, last: 9, state: JobState::Queued }];
    let array = ArrayRow { max_parallel: Some(0), ranges, ..ArrayRow::default() };
    let row = JobRow { body: Body::Array(array), ..job_row_of(&spec(500)) };
    let stored = Stored { workers: vec![worker_row(&fixture, worker)], jobs: vec![row], ..Stored::default() };
    restart(&mut fixture, stored).unwrap();
    let worker = fixture.scheduler.worker_key(&"w1".parse().unwrap()).unwrap();
    fixture.must(Event::Connected { worker, kept: vec![] });
    assert_eq!(fixture.starts(), [1], "one element at a time");
}

fn job_row_of(spec: &Demand) -> JobRow {
    let body = Body::Array(ArrayRow::default());
    JobRow { job: id(1), spec: Arc::new(spec.clone()), submitted: 0, not_before: None, expires: None, body }
}

#[test]
fn a_drain_survives_and_a_deadline_that_passed_meanwhile_counts() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(1000));
    fixture.submit(1, spec(1000));
    let placed = fixture.round()[0];
    fixture.start(placed.0, placed.1);
    fixture.must(Event::Drain { worker, order: DrainOrder { deadline: Some(60_000), host_shutdown: false } });
    let stored = Stored {
        workers: vec![worker_row(&fixture, worker)],
        jobs: vec![job_row(&fixture, 1, &spec(1000))],
        attempts: vec![attempt_row(&fixture, placed.0, placed.1)],
        ..Stored::default()
    };
    fixture.now = 70_000;
    restart(&mut fixture, stored).unwrap();
    let worker = fixture.scheduler.worker_key(&"w1".parse().unwrap()).unwrap();
    fixture.must(Event::Connected { worker, kept: vec![Kept { attempt: placed.0, started: true }] });
    assert!(fixture.effects.iter().any(|effect| matches!(effect, Effect::Cancel { .. })), "{:?}", fixture.effects);
    fixture.result(placed.0, worker, Outcome::Cancelled);
    assert_eq!(fixture.state(1), JobState::Queued);
    assert_eq!(fixture.scheduler.worker_view(worker).unwrap().state, WorkerState::Terminated);
}

#[test]
fn a_worker_that_left_is_remembered_for_its_incarnation() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(1000));
    fixture.must(Event::Remove { worker, why: crate::event::Departure::Goodbye });
    let stored = Stored { workers: vec![worker_row(&fixture, worker)], ..Stored::default() };
    restart(&mut fixture, stored).unwrap();
    let worker = fixture.worker("w1", offer(1000));
    assert_eq!(fixture.scheduler.worker_view(worker).unwrap().incarnation, 2);
}

#[test]
fn rows_that_contradict_each_other_start_nothing() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(1000));
    fixture.submit(1, spec(1000));
    let placed = fixture.round()[0];
    let good = Stored {
        workers: vec![worker_row(&fixture, worker)],
        jobs: vec![job_row(&fixture, 1, &spec(1000))],
        attempts: vec![attempt_row(&fixture, placed.0, placed.1)],
        ..Stored::default()
    };
    let mut error = |change: &dyn Fn(&mut Stored)| {
        let mut stored = good.clone();
        change(&mut stored);
        restart(&mut fixture, stored).unwrap_err().to_string()
    };
    insta::assert_snapshot!(error(&|stored| stored.workers.clear()), @"the store contradicts itself: attempt j0000100000001.0.0.1.1 is on a worker that is not there; nothing was started, restore the store from a backup");
    insta::assert_snapshot!(error(&|stored| stored.jobs.clear()), @"the store contradicts itself: attempt j0000100000001.0.0.1.1 belongs to no job; nothing was started, restore the store from a backup");
    insta::assert_snapshot!(error(&|stored| stored.attempts.clear()), @"the store contradicts itself: as a whole, a task holds capacity without an attempt, or not with one; nothing was started, restore the store from a backup");
    insta::assert_snapshot!(error(&|stored| stored.jobs.extend(good.jobs.clone())), @"the store contradicts itself: job j0000100000001 is stored twice; nothing was started, restore the store from a backup");
    insta::assert_snapshot!(error(&|stored| stored.attempts.extend(good.attempts.clone())), @"the store contradicts itself: attempt j0000100000001.0.0.1.1 is stored twice; nothing was started, restore the store from a backup");
    insta::assert_snapshot!(error(&|stored| stored.workers.extend(good.workers.clone())), @"the store contradicts itself: worker `w1` 1 comes after an incarnation that has not left; nothing was started, restore the store from a backup");
    insta::assert_snapshot!(error(&|stored| stored.attempts[0].attempt.attempt = 2), @"the store contradicts itself: attempt j0000100000001.0.0.2.1 is newer than its job knows; nothing was started, restore the store from a backup");
    insta::assert_snapshot!(error(&|stored| stored.attempts[0].attempt.epoch = Epoch(9)), @"the store contradicts itself: epoch 2 is not above those that attempts were issued under; nothing was started, restore the store from a backup");
}

#[test]
fn after_a_restart_every_job_still_comes_to_the_same_end() {
    let mut compared = 0;
    for seed in 0..60 {
        let shape = Shape { preemption: seed % 3 == 2, restarts: seed % 2 == 1, ..Shape::default() };
        let mut world = World::new(shape, Choices::from_seed(seed)).unwrap();
        (0..100).for_each(|_| world.step().unwrap());
        let mut other = world.clone();
        other.rebuild().unwrap();
        let (one, two) = (world.finish().unwrap(), other.finish().unwrap());
        assert_eq!(one, two, "seed {seed}");
        compared += one.values().filter(|state| state.is_terminal()).count();
    }
    assert!(compared > 1000, "only {compared} units came to an end");
}
