//! Preemption.

use orlop_core::machine::job::JobState;
use orlop_core::task::TaskRef;

use super::fixture::{Fixture, id, offer, spec};
use crate::config::Config;
use crate::effect::{CancelReason, Effect, Reason};
use crate::engine::Scheduler;
use crate::event::{Event, Outcome, Quota};
use crate::job::{Demand, Priority};
use crate::token::WorkerKey;

const NOBODY: [u64; 0] = [];

fn on() -> Config {
    Config { preemption: true, ..Config::default() }
}

fn urgent(cpu_m: u64) -> Demand {
    Demand { priority: Priority(1), ..spec(cpu_m) }
}

fn lowly(cpu_m: u64, priority: u8) -> Demand {
    Demand { priority: Priority(priority), preemptible: true, grace_ms: 7000, ..spec(cpu_m) }
}

/// Submits a job, places it and lets it run.
fn run(fixture: &mut Fixture, number: u64, spec: Demand) -> (TaskRef, WorkerKey) {
    fixture.submit(number, spec);
    let (attempt, worker) = fixture.round()[0];
    fixture.start(attempt, worker);
    fixture.now += 1;
    (attempt, worker)
}

fn run_small(fixture: &mut Fixture, numbers: std::ops::RangeInclusive<u64>) {
    for number in numbers {
        run(fixture, number, lowly(1000, 9));
    }
}

/// An urgent job of a tenant of its own, so that it is the head of its queue.
fn submit_urgent(fixture: &mut Fixture, number: u64, cpu_m: u64) {
    fixture.submit(number, Demand { tenant: format!("t{number}").parse().unwrap(), ..urgent(cpu_m) });
}

/// Jobs whose attempts are told to end for others, among the effects.
fn preempted(fixture: &Fixture) -> Vec<u64> {
    let reported = fixture.effects.iter().filter_map(|effect| match effect {
        Effect::Cancel { attempt, why: CancelReason::Preempted, .. } => Some(attempt.job.counter()),
        _ => None,
    });
    reported.collect()
}

/// A full worker of 4000m whose only attempt makes room for job 2.
fn making_room(config: Config) -> (Fixture, TaskRef, WorkerKey) {
    let mut fixture = Fixture::new(config);
    fixture.worker("w1", offer(4000));
    let (attempt, worker) = run(&mut fixture, 1, lowly(4000, 9));
    fixture.submit(2, urgent(4000));
    assert!(fixture.starts().is_empty());
    assert_eq!(preempted(&fixture), [1]);
    (fixture, attempt, worker)
}

#[test]
fn preemption_is_off_unless_asked_for() {
    let mut fixture = Fixture::new(Config::default());
    fixture.worker("w1", offer(4000));
    run(&mut fixture, 1, lowly(4000, 9));
    fixture.submit(2, urgent(4000));
    fixture.round();
    assert_eq!(preempted(&fixture), NOBODY);
}

#[test]
fn only_preemptible_attempts_at_least_4_worse_that_run_are_ended() {
    for (spec, expected) in
        [(lowly(4000, 5), &[1][..]), (lowly(4000, 4), &[]), (Demand { preemptible: false, ..lowly(4000, 9) }, &[])]
    {
        let mut fixture = Fixture::new(on());
        fixture.worker("w1", offer(4000));
        run(&mut fixture, 1, spec);
        fixture.submit(2, urgent(4000));
        fixture.round();
        assert_eq!(preempted(&fixture), expected);
    }
    let mut fixture = Fixture::new(on());
    fixture.worker("w1", offer(4000));
    fixture.submit(1, lowly(4000, 9));
    let (attempt, worker) = fixture.round()[0];
    fixture.submit(2, urgent(4000));
    fixture.round();
    assert_eq!(preempted(&fixture), NOBODY, "it does not run yet");
    fixture.start(attempt, worker);
    fixture.round();
    assert_eq!(preempted(&fixture), [1]);
}

#[test]
fn who_starts_elsewhere_keeps_nothing_and_pays_once() {
    let (mut fixture, _, kept) = making_room(on());
    let elsewhere = fixture.worker("w2", offer(4000));
    let sent = fixture.round();
    assert_eq!(
        sent.iter().map(|(attempt, worker)| (attempt.job.counter(), *worker)).collect::<Vec<_>>(),
        [(2, elsewhere)]
    );
    assert_eq!(
        (fixture.scheduler.reservations().count(), fixture.scheduler.preemptions().count()),
        (0, 0),
        "in the same round"
    );
    assert_eq!(fixture.scheduler.tenant(&"t".parse().unwrap()).unwrap().running, 2);
    assert_ne!(kept, elsewhere);
}

#[test]
fn a_victim_gets_its_grace_and_goes_back_to_its_old_place_with_nothing_counted() {
    let (mut fixture, attempt, worker) = making_room(on());
    let reported = Effect::Cancel { attempt, worker, why: CancelReason::Preempted, grace_ms: 7000 };
    assert!(fixture.effects.contains(&reported));
    assert_eq!(fixture.state(1), JobState::Running);
    fixture.submit(3, lowly(4000, 9));
    fixture.result(attempt, worker, Outcome::Failed { exit_code: None });
    assert_eq!((fixture.state(1), fixture.reason()), (JobState::Queued, Some(Reason::Preempted)));
    let view = fixture.scheduler.job(id(1), None).unwrap();
    assert_eq!((view.retries, view.infra), (0, 0));
    let (urgent, _) = fixture.round()[0];
    assert_eq!(urgent.job, id(2));
    fixture.start(urgent, worker);
    fixture.result(urgent, worker, Outcome::Succeeded);
    assert_eq!(fixture.starts(), [1], "before job 3, which was submitted after it");
}

#[test]
fn a_victim_that_succeeds_in_its_grace_is_completed() {
    let (mut fixture, attempt, worker) = making_room(on());
    fixture.result(attempt, worker, Outcome::Succeeded);
    assert_eq!(fixture.state(1), JobState::Completed);
    assert_eq!(fixture.starts(), [2]);
}

#[test]
fn a_victim_that_somebody_cancels_is_cancelled() {
    let (mut fixture, attempt, worker) = making_room(on());
    fixture.must(Event::Cancel { job: id(1), elements: None });
    fixture.result(attempt, worker, Outcome::Cancelled);
    assert_eq!(fixture.state(1), JobState::Cancelled);
    assert_eq!(fixture.starts(), [2]);
}

#[test]
fn the_worker_where_fewest_are_ended_then_the_worst_then_the_youngest() {
    let mut fixture = Fixture::new(on());
    fixture.worker("w1", offer(2000));
    run_small(&mut fixture, 1..=2);
    fixture.worker("w2", offer(2000));
    run(&mut fixture, 3, lowly(2000, 6));
    fixture.worker("w3", offer(2000));
    run(&mut fixture, 4, lowly(2000, 7));
    fixture.worker("w4", offer(2000));
    run(&mut fixture, 5, lowly(2000, 7));
    for (number, expected) in [(10, &[5][..]), (11, &[4]), (12, &[3]), (13, &[2, 1])] {
        submit_urgent(&mut fixture, number, 2000);
        fixture.round();
        let mut ended = preempted(&fixture);
        ended.sort_unstable_by(|a, b| b.cmp(a));
        assert_eq!(ended, expected);
    }
    fixture.round();
    assert_eq!(preempted(&fixture), NOBODY, "nobody is ended twice");
}

#[test]
fn what_victims_held_is_kept_for_the_job_they_were_ended_for() {
    let mut fixture = Fixture::new(on());
    let worker = fixture.worker("w1", offer(4000));
    let ended: Vec<_> = (1..=3).map(|number| run(&mut fixture, number, lowly(1000, 9))).collect();
    fixture.submit(10, urgent(3500));
    fixture.round();
    assert_eq!(preempted(&fixture).len(), 3);
    assert_eq!(fixture.scheduler.preemptions().collect::<Vec<_>>(), [(id(10), worker)]);
    fixture.result(ended[0].0, worker, Outcome::Cancelled);
    // More urgent and free for it at once, but kept.
    fixture.submit(11, Demand { priority: Priority(0), ..spec(1500) });
    // This fits beside what is kept.
    fixture.submit(12, Demand { priority: Priority(3), ..spec(500) });
    assert_eq!(fixture.starts(), [12]);
    fixture.result(ended[1].0, worker, Outcome::Cancelled);
    assert!(fixture.starts().is_empty());
    fixture.result(ended[2].0, worker, Outcome::Cancelled);
    assert_eq!(fixture.starts(), [10]);
    assert_eq!(fixture.scheduler.preemptions().count(), 0);
}

#[test]
fn at_most_so_many_attempts_are_preempted_in_a_minute() {
    let mut fixture = Fixture::new(Config { preempt_per_minute: 3, max_reservations: 0, ..on() });
    let worker = fixture.worker("w1", offer(4000));
    run_small(&mut fixture, 1..=4);
    fixture.worker("w2", offer(2000));
    run_small(&mut fixture, 5..=6);
    fixture.worker("w3", offer(2000));
    run_small(&mut fixture, 7..=8);
    submit_urgent(&mut fixture, 10, 2000);
    fixture.round();
    assert_eq!(preempted(&fixture).len(), 2);
    let first = fixture.now;
    submit_urgent(&mut fixture, 11, 2000);
    fixture.round();
    assert_eq!(preempted(&fixture), NOBODY, "one is left, two are needed");
    assert!(fixture.scheduler.next_deadline().is_some_and(|at| at <= first + 60_000));
    submit_urgent(&mut fixture, 12, 1000);
    fixture.round();
    assert_eq!(preempted(&fixture).len(), 1);
    fixture.round();
    while fixture.now < first + 59_999 {
        fixture.now = (fixture.now + 10_000).min(first + 59_999);
        for worker in fixture.scheduler.worker_keys().collect::<Vec<_>>() {
            fixture.must(Event::Heartbeat { worker });
        }
        fixture.round();
        assert_eq!(preempted(&fixture), NOBODY);
    }
    assert_eq!(fixture.scheduler.next_deadline(), Some(first + 60_000), "it asks to be called when it may go on");
    fixture.now = first + 60_000;
    fixture.must(Event::Heartbeat { worker });
    assert_eq!(fixture.scheduler.preemptions().count(), 2);
    fixture.round();
    assert_eq!(preempted(&fixture).len(), 2);
}

#[test]
fn who_may_not_start_by_its_quota_ends_nobody() {
    let mut fixture = Fixture::new(on());
    fixture.worker("w1", offer(4000));
    let quota = Quota { max_cpu_m: Some(3999), ..Quota::default() };
    run(&mut fixture, 1, Demand { tenant: "u".parse().unwrap(), ..lowly(4000, 9) });
    fixture.submit(2, urgent(4000));
    fixture.must(Event::QuotaChanged { tenant: "t".parse().unwrap(), quota });
    fixture.round();
    assert_eq!(preempted(&fixture), NOBODY);
    fixture.must(Event::QuotaChanged { tenant: "t".parse().unwrap(), quota: Quota::default() });
    fixture.round();
    assert_eq!(preempted(&fixture), [1]);
}

#[test]
fn what_is_kept_counts_in_the_quota_until_it_is_given_back() {
    let (mut fixture, attempt, worker) = making_room(on());
    let tenant = "t".parse().unwrap();
    assert_eq!(fixture.scheduler.tenant(&tenant).unwrap().cpu_m, 8000, "what runs and what is kept");
    fixture.worker("w2", offer(1000));
    let limited = |cpu| Quota { max_cpu_m: Some(cpu), ..Quota::default() };
    fixture.must(Event::QuotaChanged { tenant: tenant.clone(), quota: limited(8000) });
    fixture.submit(3, urgent(1000));
    assert!(fixture.starts().is_empty(), "no room beside what is kept");
    fixture.must(Event::QuotaChanged { tenant: tenant.clone(), quota: limited(6000) });
    fixture.round();
    assert_eq!(fixture.scheduler.preemptions().count(), 0, "it could not start: nothing is kept for it");
    assert_eq!(fixture.scheduler.tenant(&tenant).unwrap().cpu_m, 5000);
    fixture.result(attempt, worker, Outcome::Cancelled);
    assert_eq!(fixture.starts(), [2]);
}

#[test]
fn a_cancelled_job_gives_back_what_is_kept_for_it() {
    let (mut fixture, attempt, worker) = making_room(on());
    fixture.must(Event::Cancel { job: id(2), elements: None });
    fixture.submit(3, spec(3000));
    fixture.result(attempt, worker, Outcome::Cancelled);
    assert_eq!(fixture.starts(), [3]);
    assert_eq!(fixture.scheduler.preemptions().count(), 0);
    assert_eq!(fixture.scheduler.tenant(&"t".parse().unwrap()).unwrap().cpu_m, 3000);
}

#[test]
fn a_worker_that_is_lost_is_kept_for_nobody() {
    let (mut fixture, _, worker) = making_room(on());
    fixture.must(Event::ConnectionLost { worker });
    fixture.round();
    assert_eq!(fixture.scheduler.preemptions().count(), 0);
    let (mut fixture, _, worker) = making_room(on());
    fixture.must(Event::Remove { worker, why: crate::event::Departure::Goodbye });
    assert_eq!(fixture.scheduler.preemptions().count(), 0);
    assert_eq!(fixture.scheduler.tenant(&"t".parse().unwrap()).unwrap().cpu_m, 0);
    fixture.worker("w2", offer(4000));
    assert_eq!(fixture.starts(), [2]);
}

#[test]
fn what_is_kept_survives_a_snapshot_and_preemption_switched_off() {
    let (mut fixture, attempt, worker) = making_room(on());
    let text = serde_json::to_string(&fixture.scheduler.snapshot()).unwrap();
    let snapshot = serde_json::from_str(&text).unwrap();
    fixture.scheduler = Scheduler::restore(snapshot, Config::default()).unwrap();
    assert_eq!(fixture.scheduler.preemptions().collect::<Vec<_>>(), [(id(2), worker)]);
    fixture.submit(3, Demand { priority: Priority(0), ..spec(1000) });
    fixture.result(attempt, worker, Outcome::Cancelled);
    assert_eq!(fixture.starts(), [2]);
}

#[test]
fn a_job_that_comes_before_the_kept_one_in_its_queue_takes_its_place() {
    for config in [on(), Config::default()] {
        let mut fixture = Fixture::new(config.clone());
        fixture.worker("w1", offer(4000));
        let (attempt, worker) = run(&mut fixture, 1, lowly(4000, 9));
        fixture.submit(2, urgent(4000));
        fixture.round();
        fixture.now += 10_000;
        fixture.must(Event::Heartbeat { worker });
        fixture.round();
        assert_eq!(fixture.scheduler.reservations().map(|(job, ..)| job).collect::<Vec<_>>(), [id(2)]);
        fixture.submit(3, Demand { priority: Priority(0), ..urgent(4000) });
        fixture.round();
        assert_eq!(fixture.scheduler.reservations().map(|(job, ..)| job).collect::<Vec<_>>(), [id(3)]);
        fixture.result(attempt, worker, Outcome::Cancelled);
        assert_eq!(fixture.starts(), [3], "{:?}", config.preemption);
    }
}
