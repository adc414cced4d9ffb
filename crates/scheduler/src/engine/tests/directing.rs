//! Placements beside the order, and what must never overlap.

use orlop_core::machine::job::JobState;
use orlop_core::machine::verdict::ReportVerdict;
use orlop_core::machine::worker::WorkerState;

use super::fixture::{Fixture, id, offer, spec};
use crate::config::Config;
use crate::event::{ArraySpec, Departure, DrainOrder, Event, Kept, Outcome, Quota, StartWindow};
use crate::job::{Demand, Overlap, Priority};
use crate::token::WorkerKey;

fn refusal(fixture: &mut Fixture, number: u64, worker: WorkerKey) -> String {
    fixture.effects.clear();
    let error = fixture.apply(Event::AssignJob { job: id(number), worker }).unwrap_err().to_string();
    assert!(fixture.effects.is_empty(), "a refusal changes nothing");
    error
}

#[test]
fn an_operator_places_a_job_past_policy_and_order() {
    let mut fixture = Fixture::new(Config::default());
    fixture.submit(1, Demand { priority: Priority(0), ..spec(1000) });
    fixture.submit(2, spec(1000));
    let array = ArraySpec { indices: vec![(0, 4)], max_parallel: Some(1), max_failures: None };
    let event = Event::SubmitArray { job: id(3), spec: spec(500).into(), gate: StartWindow::default(), array };
    fixture.must(event);
    let small = fixture.worker("w1", offer(1000));
    let large = fixture.worker("w2", offer(4000));
    fixture.effects.clear();
    fixture.must(Event::AssignJob { job: id(2), worker: large });
    assert_eq!(fixture.assigned().iter().map(|(attempt, on)| (attempt.job, *on)).collect::<Vec<_>>(), [(id(2), large)]);
    fixture.must(Event::AssignJob { job: id(3), worker: large });
    assert_eq!(fixture.assigned()[1].0.index, 0);
    insta::assert_snapshot!(refusal(&mut fixture, 3, large), @"job j0000100000003 cannot be placed on worker w1.0: its array runs as many elements as `max_parallel` allows");
    assert_eq!(fixture.round().iter().map(|(attempt, on)| (attempt.job, *on)).collect::<Vec<_>>(), [(id(1), small)]);
}

#[test]
fn filters_and_limits_hold_for_operators_as_well() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(1000));
    fixture.submit(1, spec(900));
    fixture.submit(2, spec(400));
    fixture.submit(3, spec(4000));
    fixture.must(Event::AssignJob { job: id(1), worker });
    insta::assert_snapshot!(refusal(&mut fixture, 1, worker), @"job j0000100000001 cannot be placed on worker w0.0: it is Assigned, only a queued job can be placed");
    insta::assert_snapshot!(refusal(&mut fixture, 2, worker), @"job j0000100000002 cannot be placed on worker w0.0: capacity; cpu: needs 400m, free 100m of 1000m");
    insta::assert_snapshot!(refusal(&mut fixture, 3, worker), @"job j0000100000003 cannot be placed on worker w0.0: never fits; cpu: needs 4000m, free 100m of 1000m");
    let other = fixture.worker("w2", offer(1000));
    fixture.must(Event::Cordon { worker: other });
    insta::assert_snapshot!(refusal(&mut fixture, 2, other), @"job j0000100000002 cannot be placed on worker w1.0: cordoned");
    fixture.must(Event::Uncordon { worker: other });
    let quota = Quota { max_running_jobs: Some(1), ..Quota::default() };
    fixture.must(Event::QuotaChanged { tenant: "t".parse().unwrap(), quota });
    insta::assert_snapshot!(refusal(&mut fixture, 2, other), @"job j0000100000002 cannot be placed on worker w1.0: quota: it exceeds the limits of its tenant");
}

#[test]
fn an_urgent_job_enters_a_worker_that_drains_if_it_fits_nowhere_else() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(2000));
    fixture.submit(1, spec(1000));
    let (first, _) = fixture.round()[0];
    fixture.start(first, worker);
    fixture.must(Event::Drain { worker, order: DrainOrder::default() });
    fixture.submit(2, spec(500));
    assert_eq!(fixture.starts(), [0_u64; 0], "nothing that is not urgent enters");
    let urgent = Demand { urgent: true, priority: Priority(4), ..spec(500) };
    fixture.submit(3, urgent.clone());
    let (third, _) = fixture.round()[0];
    let view = |fixture: &Fixture| fixture.scheduler.worker_view(worker).unwrap();
    assert_eq!((third.job, view(&fixture).state, view(&fixture).draining), (id(3), WorkerState::Running, true));
    fixture.result(first, worker, Outcome::Succeeded);
    fixture.result(third, worker, Outcome::Succeeded);
    assert_eq!(view(&fixture).state, WorkerState::Terminated, "the drain stayed pending");
    let other = fixture.worker("w2", offer(1000));
    fixture.submit(4, spec(500));
    let all = fixture.round();
    fixture.must(Event::Drain { worker: other, order: DrainOrder { host_shutdown: true, deadline: None } });
    fixture.submit(5, urgent);
    assert_eq!((all.len(), fixture.starts()), (2, vec![]), "a host that shuts down takes nobody");
}

#[test]
fn the_deadline_of_a_drain_holds_for_urgent_jobs_as_well() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(2000));
    fixture.submit(1, spec(1000));
    let (first, _) = fixture.round()[0];
    fixture.start(first, worker);
    fixture.must(Event::Drain { worker, order: DrainOrder { deadline: Some(10_000), host_shutdown: false } });
    fixture.submit(2, Demand { urgent: true, ..spec(500) });
    let (second, _) = fixture.round()[0];
    fixture.start(second, worker);
    fixture.wait(10_000);
    let reported =
        fixture.effects.iter().filter(|effect| matches!(effect, crate::effect::Effect::Cancel { .. })).count();
    assert_eq!(reported, 2);
}

/// A worker with a job that must never overlap and one that may; it leaves at 1000.
fn parted() -> (Fixture, WorkerKey, orlop_core::task::TaskRef) {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(2000));
    fixture.submit(1, Demand { overlap: Overlap::Forbid, ..spec(500) });
    fixture.submit(2, spec(600));
    let all = fixture.round();
    for (attempt, _) in &all {
        fixture.start(*attempt, worker);
    }
    fixture.now = 1000;
    fixture.must(Event::Heartbeat { worker });
    fixture.must(Event::Remove { worker, why: Departure::Goodbye });
    fixture.worker("w2", offer(2000));
    let forbidden = all.into_iter().find(|(attempt, _)| attempt.job == id(1)).unwrap().0;
    (fixture, worker, forbidden)
}

#[test]
fn two_attempts_never_overlap_where_that_is_forbidden_whatever_ended_the_worker() {
    let (mut fixture, _, _) = parted();
    assert_eq!((fixture.starts(), fixture.state(1)), (vec![2], JobState::Running));
    let other = fixture.scheduler.worker_key(&"w2".parse().unwrap()).unwrap();
    for millis in [10_000, 10_000, 9_999] {
        fixture.wait(millis);
        fixture.must(Event::Heartbeat { worker: other });
    }
    assert_eq!(fixture.starts(), [0_u64; 0]);
    assert_eq!(fixture.scheduler.next_deadline(), Some(31_000));
    fixture.wait(1);
    assert_eq!(fixture.starts(), [1]);
}

#[test]
fn a_result_that_comes_meanwhile_ends_the_wait() {
    let (mut fixture, worker, attempt) = parted();
    assert_eq!(fixture.result(attempt, worker, Outcome::Succeeded), ReportVerdict::Accepted);
    fixture.wait(30_000);
    assert_eq!(fixture.state(1), JobState::Completed);
}

#[test]
fn live_work_of_an_incarnation_that_left_is_adopted_on_the_next() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(1000));
    fixture.submit(1, spec(1000));
    fixture.submit(2, spec(1000));
    let (attempt, _) = fixture.round()[0];
    fixture.start(attempt, worker);
    fixture.must(Event::Remove { worker, why: Departure::Removed });
    assert_eq!(fixture.state(1), JobState::Queued);
    fixture.must(Event::WorkerDeclared { id: "w1".parse().unwrap() });
    let next = fixture.scheduler.worker_key(&"w1".parse().unwrap()).unwrap();
    fixture.must(Event::Registered { worker: next, capabilities: offer(1000).into() });
    fixture.effects.clear();
    fixture.must(Event::Connected { worker: next, kept: vec![Kept { attempt, started: true }] });
    assert_eq!(fixture.verdict_of(attempt), ReportVerdict::Adopted);
    let view = fixture.scheduler.worker_view(next).unwrap();
    assert_eq!(
        (fixture.state(1), view.attempts, view.cpu, view.state),
        (JobState::Running, 1, 1.0, WorkerState::Running)
    );
    assert_eq!(fixture.starts(), [0_u64; 0], "it holds what it takes");
    assert_eq!(fixture.result(attempt, next, Outcome::Succeeded), ReportVerdict::Accepted);
    assert_eq!(fixture.starts(), [2]);
}
