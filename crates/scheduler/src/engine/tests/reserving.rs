//! Reservations and backfill.

use orlop_core::hardware::placement::{LabelExpr, Operator};
use orlop_core::task::TaskRef;

use super::fixture::{Fixture, id, offer, spec};
use crate::config::Config;
use crate::effect::Effect;
use crate::event::{Event, Outcome};
use crate::job::Demand;
use crate::token::WorkerKey;

/// A worker of 4000m whose attempts of 1000m end by declared limits, and a job of 4000m that waits for all of it.
fn crowded(timeout_ms: u64) -> (Fixture, WorkerKey, Vec<TaskRef>) {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(4000));
    for number in 1..=4 {
        fixture.submit(number, Demand { timeout_ms, grace_ms: 0, ..spec(1000) });
    }
    let sent: Vec<TaskRef> = fixture.round().into_iter().map(|(attempt, _)| attempt).collect();
    sent.iter().for_each(|attempt| fixture.start(*attempt, worker));
    fixture.submit(10, spec(4000));
    assert!(fixture.starts().is_empty());
    fixture.now = 10_000;
    fixture.must(Event::Heartbeat { worker });
    fixture.round();
    (fixture, worker, sent)
}

#[test]
fn a_blocked_head_that_waited_reserves_the_worker_that_is_free_first() {
    let (fixture, worker, _) = crowded(60_000);
    assert_eq!(fixture.scheduler.reservations().collect::<Vec<_>>(), [(id(10), worker, Some(60_000))]);
    assert!(
        fixture.effects.iter().any(|effect| matches!(effect, Effect::ReservationChanged { shadow: Some(60_000), .. }))
    );
}

#[test]
fn a_reserved_job_starts_with_the_last_end_though_others_would_fit_sooner() {
    let (mut fixture, worker, sent) = crowded(60_000);
    (20..60).for_each(|number| fixture.submit(number, spec(1000)));
    for (at, attempt) in sent.iter().enumerate() {
        fixture.result(*attempt, worker, Outcome::Succeeded);
        let expected: &[u64] = if at < 3 { &[] } else { &[10] };
        assert_eq!(fixture.starts(), expected, "after {at} ends");
    }
    assert_eq!(fixture.scheduler.reservations().count(), 0);
}

#[test]
fn who_leaves_in_time_may_pass() {
    let (mut fixture, worker, sent) = crowded(60_000);
    fixture.result(sent[0], worker, Outcome::Succeeded);
    fixture.submit(20, Demand { timeout_ms: 49_000, grace_ms: 2000, ..spec(1000) });
    fixture.submit(21, Demand { timeout_ms: 49_000, grace_ms: 1000, ..spec(999) });
    assert_eq!(fixture.starts(), [21]);
}

#[test]
fn a_band_owes_nothing_for_what_passes_a_reservation_while_it_is_not_ready() {
    let (mut fixture, worker, sent) = crowded(60_000);
    fixture.result(sent[0], worker, Outcome::Succeeded);
    fixture.submit(20, Demand { timeout_ms: 1000, grace_ms: 0, ..spec(1000) });
    assert_eq!(fixture.starts(), [20]);
    assert_eq!(fixture.scheduler.credit, [0.0; 3], "it starts at 0 once it is ready");
}

#[test]
fn who_fits_beside_the_reserved_request_may_pass() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(4000));
    fixture.submit(1, spec(2000));
    let (attempt, _) = fixture.round()[0];
    fixture.start(attempt, worker);
    fixture.submit(10, spec(3000));
    fixture.now = 10_000;
    fixture.must(Event::Heartbeat { worker });
    fixture.round();
    assert!(fixture.starts().is_empty());
    fixture.now = 20_000;
    fixture.round();
    assert_eq!(fixture.scheduler.reservations().count(), 1, "nobody knows when");
    (20..23).for_each(|number| fixture.submit(number, spec(600)));
    // 3000m of 4000m are spoken for: one of 600m fits beside them.
    assert_eq!(fixture.starts(), [20]);
    fixture.result(attempt, worker, Outcome::Succeeded);
    assert_eq!(fixture.starts(), [10]);
}

/// Whether an event that changes the configuration is taken.
fn change(fixture: &mut Fixture, config: Config) -> bool {
    fixture.effects.clear();
    fixture.scheduler.apply(fixture.now, Event::ConfigChanged { config: config.into() }, &mut fixture.effects).is_ok()
}

#[test]
fn a_changed_configuration_counts_from_the_next_round_and_an_invalid_one_changes_nothing() {
    let mut fixture = Fixture::new(Config { reserve_after: 3_600_000, ..Config::default() });
    let worker = fixture.worker("w1", offer(4000));
    fixture.submit(1, spec(2000));
    let (attempt, _) = fixture.round()[0];
    fixture.start(attempt, worker);
    fixture.submit(10, spec(3000));
    for now in [10_000, 20_000] {
        fixture.now = now;
        fixture.must(Event::Heartbeat { worker });
        fixture.round();
    }
    assert_eq!(fixture.scheduler.reservations().count(), 0);
    assert!(!change(&mut fixture, Config { run_max: 0, reserve_after: 10_000, ..Config::default() }));
    fixture.round();
    assert_eq!((fixture.scheduler.reservations().count(), fixture.effects.len()), (0, 0), "nothing of it counts");
    assert!(change(&mut fixture, Config { reserve_after: 10_000, ..Config::default() }));
    fixture.now = 20_001;
    fixture.round();
    assert_eq!(fixture.scheduler.reservations().count(), 1);
}

#[test]
fn a_reservation_goes_with_its_job() {
    let (mut fixture, worker, sent) = crowded(0);
    fixture.must(Event::Cancel { job: id(10), elements: None });
    fixture.submit(11, spec(1000));
    fixture.result(sent[0], worker, Outcome::Succeeded);
    assert_eq!(fixture.starts(), [11]);
    assert_eq!(fixture.scheduler.reservations().count(), 0);
}

/// Its record may be forgotten, and be that of another job, before the next round.
#[test]
fn what_is_kept_for_a_job_goes_in_the_call_that_ends_it() {
    let (mut fixture, worker, _) = crowded(0);
    fixture.must(Event::ConfigChanged { config: Config { finished_kept: 0, ..Config::default() }.into() });
    fixture.effects.clear();
    fixture.must(Event::Cancel { job: id(10), elements: None });
    let given_back = fixture.effects.iter().any(|effect| {
        matches!(effect, Effect::ReservationChanged { job, workers, .. } if *job == id(10) && workers.is_empty())
    });
    assert!(given_back, "{:?}", fixture.effects);
    fixture.submit(11, spec(4000));
    assert_eq!(fixture.scheduler.reservations().count(), 0, "{worker} is nobody's");
}

#[test]
fn a_round_keeps_its_limit_for_those_who_reserved_as_well() {
    let mut fixture = Fixture::new(Config::default());
    let workers = ["w1", "w2"].map(|name| fixture.worker(name, offer(4000)));
    (1..=2).for_each(|number| fixture.submit(number, spec(4000)));
    let sent = fixture.round();
    sent.iter().for_each(|(attempt, worker)| fixture.start(*attempt, *worker));
    fixture.submit(10, spec(3000));
    fixture.submit(11, spec(3001));
    assert!(fixture.starts().is_empty());
    fixture.now = 10_000;
    workers.into_iter().for_each(|worker| fixture.must(Event::Heartbeat { worker }));
    fixture.round();
    assert_eq!(fixture.scheduler.reservations().count(), 2);
    for (attempt, worker) in sent {
        fixture.result(attempt, worker, Outcome::Succeeded);
    }
    fixture.submit(12, Demand { timeout_ms: 1, grace_ms: 0, ..spec(100) });
    for number in [10, 11, 12] {
        fixture.effects.clear();
        let stats = fixture.scheduler.round(fixture.now, 1, &mut fixture.effects);
        assert_eq!((stats.placed, stats.limited), (1, true));
        assert_eq!(fixture.assigned()[0].0.job, id(number));
    }
}

#[test]
fn a_round_keeps_its_limit_for_those_who_pass_a_reservation_as_well() {
    let (mut fixture, worker, sent) = crowded(60_000);
    fixture.result(sent[0], worker, Outcome::Succeeded);
    (20..22).for_each(|number| fixture.submit(number, Demand { timeout_ms: 1, grace_ms: 0, ..spec(number) }));
    for number in [20, 21] {
        fixture.effects.clear();
        let stats = fixture.scheduler.round(fixture.now, 1, &mut fixture.effects);
        assert_eq!((stats.placed, stats.limited), (1, true));
        assert_eq!(fixture.assigned()[0].0.job, id(number));
    }
}

/// A tenant that holds much elsewhere is never first in its band while another one keeps coming for the one worker that both
/// need; it has its turn all the same.
#[test]
fn whoever_waits_longest_is_not_passed_over_for_ever() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(4000));
    let mut elsewhere = offer(8000);
    elsewhere.labels.insert("zone".to_owned(), "far".to_owned());
    let other = fixture.worker("w2", elsewhere);
    let far = |operator| LabelExpr { key: "zone".to_owned(), op: operator, values: ["far".to_owned()].into() };
    let job = |tenant: &str, cpu_m: u64, operator: Operator| {
        let mut job = spec(cpu_m);
        job.tenant = tenant.parse().unwrap();
        job.requires.labels = vec![far(operator)];
        job.timeout_ms = 60_000;
        job
    };
    fixture.submit(1, job("a", 8000, Operator::In));
    fixture.submit(2, job("b", 4000, Operator::NotIn));
    let mut running = fixture.round().into_iter().find(|(attempt, _)| attempt.job == id(2)).unwrap().0;
    fixture.submit(3, job("a", 4000, Operator::NotIn));
    // Some of the other's jobs have always waited as long as reservations ask.
    (4..8).for_each(|number| fixture.submit(number, job("b", 4000, Operator::NotIn)));
    for number in 8..28 {
        fixture.submit(number, job("b", 4000, Operator::NotIn));
        fixture.wait(10_000);
        fixture.must(Event::Heartbeat { worker });
        fixture.must(Event::Heartbeat { worker: other });
        let _ = fixture.round();
        fixture.result(running, worker, Outcome::Succeeded);
        running = fixture.round()[0].0;
        if running.job == id(3) {
            return;
        }
    }
    panic!("twenty others started and the eldest still waits");
}
