//! Restart from the rows of a store.

use std::sync::Arc;

use orlop_core::id::Epoch;
use orlop_core::machine::job::JobState;
use orlop_core::machine::verdict::Verdict;
use orlop_core::machine::worker::WorkerState;
use orlop_core::task::TaskRef;

use super::bed::{Bed, id, offer, spec};
use crate::config::Config;
use crate::effect::{Effect, WorkerReason};
use crate::engine::Scheduler;
use crate::error::EventError;
use crate::event::{ArraySpec, DrainOrder, Event, Gate, Kept, Outcome};
use crate::job::Demand;
use crate::stored::{ArrayRow, AttemptRow, Body, JobRow, RangeRow, Stored, WorkerRow};
use crate::testing::{Choices, Shape, World};
use crate::token::WorkerKey;

fn job_row(bed: &Bed, number: u64, spec: &Demand) -> JobRow {
    let body = Body::One(bed.scheduler.unit_row(id(number), None).unwrap());
    JobRow { job: id(number), spec: Arc::new(spec.clone()), submitted: 0, not_before: None, expires: None, body }
}

fn attempt_row(bed: &Bed, (attempt, worker): (TaskRef, WorkerKey)) -> AttemptRow {
    bed.scheduler.attempt_row(attempt, worker).unwrap()
}

fn worker_row(bed: &Bed, worker: WorkerKey) -> WorkerRow {
    bed.scheduler.worker_row(worker).unwrap()
}

/// A server with another epoch goes on with these rows.
fn restart(bed: &mut Bed, stored: Stored) -> Result<(), EventError> {
    let at = (bed.scheduler.epoch().next(), bed.now);
    bed.effects.clear();
    bed.scheduler = Scheduler::rebuild(Config::default(), 1, at, stored, &mut bed.effects)?;
    bed.scheduler.sanity_check().unwrap();
    Ok(())
}

/// One worker with one running and one waiting job, restarted.
fn restarted() -> (Bed, (TaskRef, WorkerKey)) {
    let mut bed = Bed::new(Config::default());
    let worker = bed.worker("w1", offer(1000));
    bed.submit(1, spec(1000));
    bed.submit(2, spec(1000));
    let placed = bed.round()[0];
    bed.start(placed.0, placed.1);
    let stored = Stored {
        workers: vec![worker_row(&bed, worker)],
        jobs: vec![job_row(&bed, 2, &spec(1000)), job_row(&bed, 1, &spec(1000))],
        attempts: vec![attempt_row(&bed, placed)],
        ..Stored::default()
    };
    bed.now = 1_000_000;
    restart(&mut bed, stored).unwrap();
    let worker = bed.scheduler.worker_key(&"w1".parse().unwrap()).unwrap();
    (bed, (placed.0, worker))
}

#[test]
pub(super) fn after_a_restart_workers_are_unhealthy_and_what_returns_in_time_runs_on() {
    let (mut bed, (attempt, worker)) = restarted();
    let told = bed.effects.iter().any(|effect| {
        matches!(effect, Effect::WorkerChanged { to: WorkerState::Unhealthy, reason, .. } if *reason == WorkerReason::ServerRestarted)
    });
    assert!(told, "{:?}", bed.effects);
    assert_eq!((bed.state(1), bed.state(2)), (JobState::Running, JobState::Queued));
    assert_eq!(bed.round(), [], "nothing is placed on a worker that has not returned");
    bed.wait(29_999);
    assert_eq!(bed.state(1), JobState::Running);
    bed.must(Event::Connected { worker, kept: vec![Kept { attempt, started: true }] });
    assert_eq!(bed.round(), [], "the worker is full as before");
    assert_eq!(bed.result(attempt, worker, Outcome::Succeeded), Verdict::Accepted);
    let (next, _) = bed.round()[0];
    assert_eq!((next.job, next.attempt, next.epoch), (id(2), 1, Epoch(2)));
}

#[test]
pub(super) fn what_has_not_returned_in_reassign_after_is_lost_and_its_next_token_is_greater() {
    let (mut bed, (attempt, worker)) = restarted();
    bed.wait(30_000);
    assert_eq!(bed.state(1), JobState::Queued);
    assert!(bed.effects.iter().any(|effect| matches!(effect, Effect::Lost { held: true, .. })));
    assert_eq!(bed.scheduler.worker_view(worker).unwrap().attempts, 1, "its capacity stays held");
    bed.worker("w2", offer(1000));
    let (next, _) = bed.round()[0];
    assert_eq!((next.job, next.attempt, next.epoch), (id(1), 2, Epoch(2)));
    bed.must(Event::Connected { worker, kept: vec![Kept { attempt, started: true }] });
    assert_eq!(bed.verdict_of(attempt), Verdict::Stale);
}

#[test]
pub(super) fn what_a_worker_no_longer_has_is_placed_again() {
    let (mut bed, (_, worker)) = restarted();
    bed.must(Event::Connected { worker, kept: vec![] });
    assert!(bed.effects.iter().any(|effect| matches!(effect, Effect::Lost { held: false, .. })));
    assert_eq!(bed.starts(), [1], "by its original sequence");
}

#[test]
pub(super) fn gates_time_limits_and_delays_go_on() {
    let mut bed = Bed::new(Config::default());
    let worker = bed.worker("w1", offer(2000));
    let retried = Demand { retries: 1, ..spec(500) };
    bed.submit(1, retried.clone());
    let (attempt, on) = bed.round()[0];
    bed.result(attempt, on, Outcome::Failed { exit_code: Some(1) });
    assert_eq!(bed.state(1), JobState::Backoff);
    let gate = Gate { not_before: Some(5000), queue_timeout: None };
    bed.must(Event::Submit { job: id(2), spec: Arc::new(spec(500)), gate });
    bed.submit(3, spec(4000));
    let stored = Stored {
        workers: vec![worker_row(&bed, worker)],
        jobs: vec![
            job_row(&bed, 1, &retried),
            JobRow { not_before: gate.not_before, ..job_row(&bed, 2, &spec(500)) },
            JobRow { expires: Some(7000), ..job_row(&bed, 3, &spec(4000)) },
        ],
        ..Stored::default()
    };
    restart(&mut bed, stored).unwrap();
    let worker = bed.scheduler.worker_key(&"w1".parse().unwrap()).unwrap();
    bed.must(Event::Connected { worker, kept: vec![] });
    assert_eq!(bed.starts(), [0_u64; 0]);
    bed.wait(1200);
    assert_eq!(bed.starts(), [1]);
    bed.wait(3800);
    assert_eq!(bed.starts(), [2]);
    bed.wait(2000);
    assert_eq!(bed.state(3), JobState::Failed);
    let again = bed.result(attempt, worker, Outcome::Failed { exit_code: Some(1) });
    assert_eq!(again, Verdict::Duplicate, "a result that was accepted before the restart still is");
}

#[test]
pub(super) fn an_array_keeps_its_window_its_ends_and_its_failures() {
    let mut bed = Bed::new(Config::default());
    let worker = bed.worker("w1", offer(8000));
    let array = ArraySpec { indices: vec![(0, 9)], max_parallel: Some(2), max_failures: Some(1) };
    let event = Event::SubmitArray { job: id(1), spec: Arc::new(spec(500)), gate: Gate::default(), array };
    bed.must(event);
    let first = bed.round();
    bed.result(first[0].0, worker, Outcome::Failed { exit_code: None });
    let elements = (0..2).map(|index| (index, bed.scheduler.unit_row(id(1), Some(index)).unwrap())).collect();
    let ranges = vec![RangeRow { first: 2, last: 9, state: JobState::Queued }];
    let array = ArrayRow { max_parallel: Some(2), max_failures: Some(1), ranges, elements };
    let row = JobRow { body: Body::Array(array), ..job_row_of(&spec(500)) };
    let stored = Stored {
        workers: vec![worker_row(&bed, worker)],
        jobs: vec![row],
        attempts: vec![attempt_row(&bed, first[1])],
        ..Stored::default()
    };
    restart(&mut bed, stored).unwrap();
    let worker = bed.scheduler.worker_key(&"w1".parse().unwrap()).unwrap();
    bed.must(Event::Connected { worker, kept: vec![Kept { attempt: first[1].0, started: false }] });
    let next = bed.round();
    assert_eq!(next.iter().map(|(attempt, _)| attempt.index).collect::<Vec<_>>(), [2], "one more fits the window");
    bed.result(next[0].0, worker, Outcome::Failed { exit_code: None });
    bed.must(Event::Revoked { attempt: first[1].0, worker });
    assert_eq!(bed.state(1), JobState::Failed, "the second failure was one too many");
}

fn job_row_of(spec: &Demand) -> JobRow {
    let body = Body::Array(ArrayRow::default());
    JobRow { job: id(1), spec: Arc::new(spec.clone()), submitted: 0, not_before: None, expires: None, body }
}

#[test]
pub(super) fn a_drain_survives_and_a_deadline_that_passed_meanwhile_counts() {
    let mut bed = Bed::new(Config::default());
    let worker = bed.worker("w1", offer(1000));
    bed.submit(1, spec(1000));
    let placed = bed.round()[0];
    bed.start(placed.0, placed.1);
    bed.must(Event::Drain { worker, order: DrainOrder { deadline: Some(60_000), host_shutdown: false } });
    let stored = Stored {
        workers: vec![worker_row(&bed, worker)],
        jobs: vec![job_row(&bed, 1, &spec(1000))],
        attempts: vec![attempt_row(&bed, placed)],
        ..Stored::default()
    };
    bed.now = 70_000;
    restart(&mut bed, stored).unwrap();
    let worker = bed.scheduler.worker_key(&"w1".parse().unwrap()).unwrap();
    bed.must(Event::Connected { worker, kept: vec![Kept { attempt: placed.0, started: true }] });
    assert!(bed.effects.iter().any(|effect| matches!(effect, Effect::Cancel { .. })), "{:?}", bed.effects);
    bed.result(placed.0, worker, Outcome::Cancelled);
    assert_eq!(bed.state(1), JobState::Queued);
    assert_eq!(bed.scheduler.worker_view(worker).unwrap().state, WorkerState::Terminated);
}

#[test]
pub(super) fn a_worker_that_left_is_remembered_for_its_incarnation() {
    let mut bed = Bed::new(Config::default());
    let worker = bed.worker("w1", offer(1000));
    bed.must(Event::Remove { worker, why: crate::event::Departure::Goodbye });
    let stored = Stored { workers: vec![worker_row(&bed, worker)], ..Stored::default() };
    restart(&mut bed, stored).unwrap();
    let worker = bed.worker("w1", offer(1000));
    assert_eq!(bed.scheduler.worker_view(worker).unwrap().incarnation, 2);
}

#[test]
pub(super) fn rows_that_contradict_each_other_start_nothing() {
    let mut bed = Bed::new(Config::default());
    let worker = bed.worker("w1", offer(1000));
    bed.submit(1, spec(1000));
    let placed = bed.round()[0];
    let good = Stored {
        workers: vec![worker_row(&bed, worker)],
        jobs: vec![job_row(&bed, 1, &spec(1000))],
        attempts: vec![attempt_row(&bed, placed)],
        ..Stored::default()
    };
    let mut error = |change: &dyn Fn(&mut Stored)| {
        let mut stored = good.clone();
        change(&mut stored);
        restart(&mut bed, stored).unwrap_err().to_string()
    };
    insta::assert_snapshot!(error(&|stored| stored.workers.clear()), @"the store contradicts itself: attempt j0000100000001.0.0.1.1 is on a worker that is not there; nothing was started, restore the store from a backup");
    insta::assert_snapshot!(error(&|stored| stored.jobs.clear()), @"the store contradicts itself: attempt j0000100000001.0.0.1.1 belongs to no job; nothing was started, restore the store from a backup");
    insta::assert_snapshot!(error(&|stored| stored.attempts.clear()), @"the store contradicts itself: as a whole, a unit holds capacity without an attempt, or not with one; nothing was started, restore the store from a backup");
    insta::assert_snapshot!(error(&|stored| stored.jobs.extend(good.jobs.clone())), @"the store contradicts itself: job j0000100000001 is stored twice; nothing was started, restore the store from a backup");
    insta::assert_snapshot!(error(&|stored| stored.attempts.extend(good.attempts.clone())), @"the store contradicts itself: attempt j0000100000001.0.0.1.1 is stored twice; nothing was started, restore the store from a backup");
    insta::assert_snapshot!(error(&|stored| stored.workers.extend(good.workers.clone())), @"the store contradicts itself: worker `w1` 1 comes after an incarnation that has not left; nothing was started, restore the store from a backup");
    insta::assert_snapshot!(error(&|stored| stored.attempts[0].attempt.attempt = 2), @"the store contradicts itself: attempt j0000100000001.0.0.2.1 is newer than its job knows; nothing was started, restore the store from a backup");
    insta::assert_snapshot!(error(&|stored| stored.attempts[0].attempt.epoch = Epoch(9)), @"the store contradicts itself: epoch 2 is not above those that attempts were issued under; nothing was started, restore the store from a backup");
}

#[test]
pub(super) fn after_a_restart_every_job_still_comes_to_the_same_end() {
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
