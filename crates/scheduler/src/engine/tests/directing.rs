//! Placements beside the order, and what must never overlap.

use orlop_core::machine::job::JobState;
use orlop_core::machine::verdict::Verdict;
use orlop_core::machine::worker::WorkerState;

use super::bed::{Bed, id, offer, spec};
use crate::config::Config;
use crate::event::{ArraySpec, Departure, DrainOrder, Event, Gate, Kept, Outcome, Quota};
use crate::job::{Demand, Overlap, Priority};
use crate::token::WorkerKey;

fn refusal(bed: &mut Bed, number: u64, worker: WorkerKey) -> String {
    bed.effects.clear();
    let error = bed.apply(Event::AssignJob { job: id(number), worker }).unwrap_err().to_string();
    assert!(bed.effects.is_empty(), "a refusal changes nothing");
    error
}

#[test]
pub(super) fn an_operator_places_a_job_past_policy_and_order() {
    let mut bed = Bed::new(Config::default());
    bed.submit(1, Demand { priority: Priority(0), ..spec(1000) });
    bed.submit(2, spec(1000));
    let array = ArraySpec { indices: vec![(0, 4)], max_parallel: Some(1), max_failures: None };
    let event = Event::SubmitArray { job: id(3), spec: spec(500).into(), gate: Gate::default(), array };
    bed.must(event);
    let small = bed.worker("w1", offer(1000));
    let large = bed.worker("w2", offer(4000));
    bed.effects.clear();
    bed.must(Event::AssignJob { job: id(2), worker: large });
    assert_eq!(bed.assigned().iter().map(|(attempt, on)| (attempt.job, *on)).collect::<Vec<_>>(), [(id(2), large)]);
    bed.must(Event::AssignJob { job: id(3), worker: large });
    assert_eq!(bed.assigned()[1].0.index, 0);
    insta::assert_snapshot!(refusal(&mut bed, 3, large), @"job j0000100000003 cannot be placed on worker w1.0: its array runs as many elements as `max_parallel` allows");
    assert_eq!(bed.round().iter().map(|(attempt, on)| (attempt.job, *on)).collect::<Vec<_>>(), [(id(1), small)]);
}

#[test]
pub(super) fn filters_and_limits_hold_for_operators_as_well() {
    let mut bed = Bed::new(Config::default());
    let worker = bed.worker("w1", offer(1000));
    bed.submit(1, spec(900));
    bed.submit(2, spec(400));
    bed.submit(3, spec(4000));
    bed.must(Event::AssignJob { job: id(1), worker });
    insta::assert_snapshot!(refusal(&mut bed, 1, worker), @"job j0000100000001 cannot be placed on worker w0.0: it is Assigned, only a queued job can be placed");
    insta::assert_snapshot!(refusal(&mut bed, 2, worker), @"job j0000100000002 cannot be placed on worker w0.0: capacity; cpu: needs 400m, free 100m of 1000m");
    insta::assert_snapshot!(refusal(&mut bed, 3, worker), @"job j0000100000003 cannot be placed on worker w0.0: never fits; cpu: needs 4000m, free 100m of 1000m");
    let other = bed.worker("w2", offer(1000));
    bed.must(Event::Cordon { worker: other });
    insta::assert_snapshot!(refusal(&mut bed, 2, other), @"job j0000100000002 cannot be placed on worker w1.0: cordoned");
    bed.must(Event::Uncordon { worker: other });
    let quota = Quota { max_running_jobs: Some(1), ..Quota::default() };
    bed.must(Event::QuotaChanged { tenant: "t".parse().unwrap(), quota });
    insta::assert_snapshot!(refusal(&mut bed, 2, other), @"job j0000100000002 cannot be placed on worker w1.0: quota: its tenant's limits have no room for it");
}

#[test]
pub(super) fn an_urgent_job_enters_a_worker_that_drains_if_it_fits_nowhere_else() {
    let mut bed = Bed::new(Config::default());
    let worker = bed.worker("w1", offer(2000));
    bed.submit(1, spec(1000));
    let (first, _) = bed.round()[0];
    bed.start(first, worker);
    bed.must(Event::Drain { worker, order: DrainOrder::default() });
    bed.submit(2, spec(500));
    assert_eq!(bed.starts(), [0_u64; 0], "nothing that is not urgent enters");
    let urgent = Demand { urgent: true, priority: Priority(4), ..spec(500) };
    bed.submit(3, urgent.clone());
    let (third, _) = bed.round()[0];
    let view = |bed: &Bed| bed.scheduler.worker_view(worker).unwrap();
    assert_eq!((third.job, view(&bed).state, view(&bed).draining), (id(3), WorkerState::Running, true));
    bed.result(first, worker, Outcome::Succeeded);
    bed.result(third, worker, Outcome::Succeeded);
    assert_eq!(view(&bed).state, WorkerState::Terminated, "the drain stayed pending");
    let other = bed.worker("w2", offer(1000));
    bed.submit(4, spec(500));
    let all = bed.round();
    bed.must(Event::Drain { worker: other, order: DrainOrder { host_shutdown: true, deadline: None } });
    bed.submit(5, urgent);
    assert_eq!((all.len(), bed.starts()), (2, vec![]), "a host that shuts down takes nobody");
}

#[test]
pub(super) fn the_deadline_of_a_drain_holds_for_urgent_jobs_as_well() {
    let mut bed = Bed::new(Config::default());
    let worker = bed.worker("w1", offer(2000));
    bed.submit(1, spec(1000));
    let (first, _) = bed.round()[0];
    bed.start(first, worker);
    bed.must(Event::Drain { worker, order: DrainOrder { deadline: Some(10_000), host_shutdown: false } });
    bed.submit(2, Demand { urgent: true, ..spec(500) });
    let (second, _) = bed.round()[0];
    bed.start(second, worker);
    bed.wait(10_000);
    let told = bed.effects.iter().filter(|effect| matches!(effect, crate::effect::Effect::Cancel { .. })).count();
    assert_eq!(told, 2);
}

/// A worker with a job that must never overlap and one that may; it leaves at 1000.
fn parted() -> (Bed, WorkerKey, orlop_core::task::TaskRef) {
    let mut bed = Bed::new(Config::default());
    let worker = bed.worker("w1", offer(2000));
    bed.submit(1, Demand { overlap: Overlap::Forbid, ..spec(500) });
    bed.submit(2, spec(600));
    let all = bed.round();
    for (attempt, _) in &all {
        bed.start(*attempt, worker);
    }
    bed.now = 1000;
    bed.must(Event::Heartbeat { worker });
    bed.must(Event::Remove { worker, why: Departure::Goodbye });
    bed.worker("w2", offer(2000));
    let forbidden = all.into_iter().find(|(attempt, _)| attempt.job == id(1)).unwrap().0;
    (bed, worker, forbidden)
}

#[test]
pub(super) fn two_attempts_never_overlap_where_that_is_forbidden_whatever_ended_the_worker() {
    let (mut bed, _, _) = parted();
    assert_eq!((bed.starts(), bed.state(1)), (vec![2], JobState::Running));
    let other = bed.scheduler.worker_key(&"w2".parse().unwrap()).unwrap();
    for millis in [10_000, 10_000, 9_999] {
        bed.wait(millis);
        bed.must(Event::Heartbeat { worker: other });
    }
    assert_eq!(bed.starts(), [0_u64; 0]);
    assert_eq!(bed.scheduler.next_deadline(), Some(31_000));
    bed.wait(1);
    assert_eq!(bed.starts(), [1]);
}

#[test]
pub(super) fn a_result_that_comes_meanwhile_ends_the_wait() {
    let (mut bed, worker, attempt) = parted();
    assert_eq!(bed.result(attempt, worker, Outcome::Succeeded), Verdict::Accepted);
    bed.wait(30_000);
    assert_eq!(bed.state(1), JobState::Completed);
}

#[test]
pub(super) fn live_work_of_an_incarnation_that_left_is_adopted_on_the_next() {
    let mut bed = Bed::new(Config::default());
    let worker = bed.worker("w1", offer(1000));
    bed.submit(1, spec(1000));
    bed.submit(2, spec(1000));
    let (attempt, _) = bed.round()[0];
    bed.start(attempt, worker);
    bed.must(Event::Remove { worker, why: Departure::Removed });
    assert_eq!(bed.state(1), JobState::Queued);
    bed.must(Event::WorkerDeclared { id: "w1".parse().unwrap() });
    let next = bed.scheduler.worker_key(&"w1".parse().unwrap()).unwrap();
    bed.must(Event::Registered { worker: next, capabilities: offer(1000).into() });
    bed.effects.clear();
    bed.must(Event::Connected { worker: next, kept: vec![Kept { attempt, started: true }] });
    assert_eq!(bed.verdict_of(attempt), Verdict::Adopted);
    let view = bed.scheduler.worker_view(next).unwrap();
    assert_eq!((bed.state(1), view.attempts, view.cpu, view.state), (JobState::Running, 1, 1.0, WorkerState::Running));
    assert_eq!(bed.starts(), [0_u64; 0], "it holds what it takes");
    assert_eq!(bed.result(attempt, next, Outcome::Succeeded), Verdict::Accepted);
    assert_eq!(bed.starts(), [2]);
}
