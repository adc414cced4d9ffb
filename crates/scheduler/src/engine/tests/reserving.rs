//! Reservations and backfill.

use orlop_core::hardware::placement::{LabelExpr, Operator};
use orlop_core::task::TaskRef;

use super::bed::{Bed, id, offer, spec};
use crate::config::Config;
use crate::effect::Effect;
use crate::event::{Event, Outcome};
use crate::job::Demand;
use crate::token::WorkerKey;

/// A worker of 4000m whose attempts of 1000m end by declared limits, and a job of 4000m that waits for all of it.
fn crowded(timeout_ms: u64) -> (Bed, WorkerKey, Vec<TaskRef>) {
    let mut bed = Bed::new(Config::default());
    let worker = bed.worker("w1", offer(4000));
    for number in 1..=4 {
        bed.submit(number, Demand { timeout_ms, grace_ms: 0, ..spec(1000) });
    }
    let sent: Vec<TaskRef> = bed.round().into_iter().map(|(attempt, _)| attempt).collect();
    sent.iter().for_each(|attempt| bed.start(*attempt, worker));
    bed.submit(10, spec(4000));
    assert!(bed.starts().is_empty());
    bed.now = 10_000;
    bed.must(Event::Heartbeat { worker });
    bed.round();
    (bed, worker, sent)
}

#[test]
fn a_blocked_head_that_waited_reserves_the_worker_that_is_free_first() {
    let (bed, worker, _) = crowded(60_000);
    assert_eq!(bed.scheduler.reservations().collect::<Vec<_>>(), [(id(10), worker, Some(60_000))]);
    assert!(bed.effects.iter().any(|effect| matches!(effect, Effect::ReservationChanged { shadow: Some(60_000), .. })));
}

#[test]
fn a_reserved_job_starts_with_the_last_end_though_others_would_fit_sooner() {
    let (mut bed, worker, sent) = crowded(60_000);
    (20..60).for_each(|number| bed.submit(number, spec(1000)));
    for (at, attempt) in sent.iter().enumerate() {
        bed.result(*attempt, worker, Outcome::Succeeded);
        let expected: &[u64] = if at < 3 { &[] } else { &[10] };
        assert_eq!(bed.starts(), expected, "after {at} ends");
    }
    assert_eq!(bed.scheduler.reservations().count(), 0);
}

#[test]
fn who_leaves_in_time_may_pass() {
    let (mut bed, worker, sent) = crowded(60_000);
    bed.result(sent[0], worker, Outcome::Succeeded);
    bed.submit(20, Demand { timeout_ms: 49_000, grace_ms: 2000, ..spec(1000) });
    bed.submit(21, Demand { timeout_ms: 49_000, grace_ms: 1000, ..spec(999) });
    assert_eq!(bed.starts(), [21]);
}

#[test]
fn a_band_owes_nothing_for_what_passes_a_reservation_while_it_is_not_ready() {
    let (mut bed, worker, sent) = crowded(60_000);
    bed.result(sent[0], worker, Outcome::Succeeded);
    bed.submit(20, Demand { timeout_ms: 1000, grace_ms: 0, ..spec(1000) });
    assert_eq!(bed.starts(), [20]);
    assert_eq!(bed.scheduler.credit, [0.0; 3], "it starts at 0 once it is ready");
}

#[test]
fn who_fits_beside_the_reserved_request_may_pass() {
    let mut bed = Bed::new(Config::default());
    let worker = bed.worker("w1", offer(4000));
    bed.submit(1, spec(2000));
    let (attempt, _) = bed.round()[0];
    bed.start(attempt, worker);
    bed.submit(10, spec(3000));
    bed.now = 10_000;
    bed.must(Event::Heartbeat { worker });
    bed.round();
    assert!(bed.starts().is_empty());
    bed.now = 20_000;
    bed.round();
    assert_eq!(bed.scheduler.reservations().count(), 1, "nobody knows when");
    (20..23).for_each(|number| bed.submit(number, spec(600)));
    // 3000m of 4000m are spoken for: one of 600m fits beside them.
    assert_eq!(bed.starts(), [20]);
    bed.result(attempt, worker, Outcome::Succeeded);
    assert_eq!(bed.starts(), [10]);
}

/// Whether an event that changes the configuration is taken.
fn change(bed: &mut Bed, config: Config) -> bool {
    bed.effects.clear();
    bed.scheduler.apply(bed.now, Event::ConfigChanged { config: config.into() }, &mut bed.effects).is_ok()
}

#[test]
fn a_changed_configuration_counts_from_the_next_round_and_an_invalid_one_changes_nothing() {
    let mut bed = Bed::new(Config { reserve_after: 3_600_000, ..Config::default() });
    let worker = bed.worker("w1", offer(4000));
    bed.submit(1, spec(2000));
    let (attempt, _) = bed.round()[0];
    bed.start(attempt, worker);
    bed.submit(10, spec(3000));
    for now in [10_000, 20_000] {
        bed.now = now;
        bed.must(Event::Heartbeat { worker });
        bed.round();
    }
    assert_eq!(bed.scheduler.reservations().count(), 0);
    assert!(!change(&mut bed, Config { run_max: 0, reserve_after: 10_000, ..Config::default() }));
    bed.round();
    assert_eq!((bed.scheduler.reservations().count(), bed.effects.len()), (0, 0), "nothing of it counts");
    assert!(change(&mut bed, Config { reserve_after: 10_000, ..Config::default() }));
    bed.now = 20_001;
    bed.round();
    assert_eq!(bed.scheduler.reservations().count(), 1);
}

#[test]
fn a_reservation_goes_with_its_job() {
    let (mut bed, worker, sent) = crowded(0);
    bed.must(Event::Cancel { job: id(10), elements: None });
    bed.submit(11, spec(1000));
    bed.result(sent[0], worker, Outcome::Succeeded);
    assert_eq!(bed.starts(), [11]);
    assert_eq!(bed.scheduler.reservations().count(), 0);
}

/// Its record may be forgotten, and be that of another job, before the next round.
#[test]
fn what_is_kept_for_a_job_goes_in_the_call_that_ends_it() {
    let (mut bed, worker, _) = crowded(0);
    bed.must(Event::ConfigChanged { config: Config { finished_kept: 0, ..Config::default() }.into() });
    bed.effects.clear();
    bed.must(Event::Cancel { job: id(10), elements: None });
    let given_back = bed.effects.iter().any(|effect| {
        matches!(effect, Effect::ReservationChanged { job, workers, .. } if *job == id(10) && workers.is_empty())
    });
    assert!(given_back, "{:?}", bed.effects);
    bed.submit(11, spec(4000));
    assert_eq!(bed.scheduler.reservations().count(), 0, "{worker} is nobody's");
}

#[test]
fn a_round_keeps_its_limit_for_those_who_reserved_as_well() {
    let mut bed = Bed::new(Config::default());
    let workers = ["w1", "w2"].map(|name| bed.worker(name, offer(4000)));
    (1..=2).for_each(|number| bed.submit(number, spec(4000)));
    let sent = bed.round();
    sent.iter().for_each(|(attempt, worker)| bed.start(*attempt, *worker));
    bed.submit(10, spec(3000));
    bed.submit(11, spec(3001));
    assert!(bed.starts().is_empty());
    bed.now = 10_000;
    workers.into_iter().for_each(|worker| bed.must(Event::Heartbeat { worker }));
    bed.round();
    assert_eq!(bed.scheduler.reservations().count(), 2);
    for (attempt, worker) in sent {
        bed.result(attempt, worker, Outcome::Succeeded);
    }
    bed.submit(12, Demand { timeout_ms: 1, grace_ms: 0, ..spec(100) });
    for number in [10, 11, 12] {
        bed.effects.clear();
        let stats = bed.scheduler.round(bed.now, 1, &mut bed.effects);
        assert_eq!((stats.placed, stats.limited), (1, true));
        assert_eq!(bed.assigned()[0].0.job, id(number));
    }
}

#[test]
fn a_round_keeps_its_limit_for_those_who_pass_a_reservation_as_well() {
    let (mut bed, worker, sent) = crowded(60_000);
    bed.result(sent[0], worker, Outcome::Succeeded);
    (20..22).for_each(|number| bed.submit(number, Demand { timeout_ms: 1, grace_ms: 0, ..spec(number) }));
    for number in [20, 21] {
        bed.effects.clear();
        let stats = bed.scheduler.round(bed.now, 1, &mut bed.effects);
        assert_eq!((stats.placed, stats.limited), (1, true));
        assert_eq!(bed.assigned()[0].0.job, id(number));
    }
}

/// A tenant that holds much elsewhere is never first in its band while another one keeps coming for the one worker that both
/// need; it has its turn all the same.
#[test]
pub(super) fn whoever_waits_longest_is_not_passed_over_for_ever() {
    let mut bed = Bed::new(Config::default());
    let worker = bed.worker("w1", offer(4000));
    let mut elsewhere = offer(8000);
    elsewhere.labels.insert("zone".to_owned(), "far".to_owned());
    let other = bed.worker("w2", elsewhere);
    let far = |operator| LabelExpr { key: "zone".to_owned(), op: operator, values: ["far".to_owned()].into() };
    let job = |tenant: &str, cpu_m: u64, operator: Operator| {
        let mut job = spec(cpu_m);
        job.tenant = tenant.parse().unwrap();
        job.requires.labels = vec![far(operator)];
        job.timeout_ms = 60_000;
        job
    };
    bed.submit(1, job("a", 8000, Operator::In));
    bed.submit(2, job("b", 4000, Operator::NotIn));
    let mut running = bed.round().into_iter().find(|(attempt, _)| attempt.job == id(2)).unwrap().0;
    bed.submit(3, job("a", 4000, Operator::NotIn));
    // Some of the other's jobs have always waited as long as reservations ask.
    (4..8).for_each(|number| bed.submit(number, job("b", 4000, Operator::NotIn)));
    for number in 8..28 {
        bed.submit(number, job("b", 4000, Operator::NotIn));
        bed.wait(10_000);
        bed.must(Event::Heartbeat { worker });
        bed.must(Event::Heartbeat { worker: other });
        let _ = bed.round();
        bed.result(running, worker, Outcome::Succeeded);
        running = bed.round()[0].0;
        if running.job == id(3) {
            return;
        }
    }
    panic!("twenty others started and the eldest still waits");
}
