//! Gangs that wait: reservations of sets of workers, backfill around them, and moves to earlier sets.

use orlop_core::task::TaskRef;

use super::fixture::{Fixture, id, offer, spec};
use crate::config::{Config, Policy};
use crate::effect::Effect;
use crate::event::{Capabilities, Event, GpuDevices, Outcome, Quota};
use crate::job::{Demand, Gang, Priority};
use crate::token::WorkerKey;

/// Members of 1000m and 1 Gi.
fn gang(size: u32) -> Demand {
    Demand { gang: Some(Gang { size, max_per_worker: None, same_label: None }), ..spec(1000) }
}

fn limited(cpu_m: u64, timeout_ms: u64) -> Demand {
    Demand { timeout_ms, grace_ms: 0, ..spec(cpu_m) }
}

/// A worker with one job that fills it and ends by its declared limit at the latest; 0 = it has none.
fn busy(fixture: &mut Fixture, name: &str, offer: Capabilities, timeout_ms: u64) -> (TaskRef, WorkerKey) {
    let number = 100 + fixture.scheduler.worker_keys().count() as u64;
    let cpu_m = offer.cpu_m;
    fixture.worker(name, offer);
    // Urgent, so that it comes before what waits.
    fixture.submit(number, Demand { priority: Priority(0), ..limited(cpu_m, timeout_ms) });
    let (attempt, worker) = fixture.round()[0];
    fixture.start(attempt, worker);
    (attempt, worker)
}

fn in_zone(cpu_m: u64, zone: &str) -> Capabilities {
    let mut offer = offer(cpu_m);
    offer.labels.insert("zone".to_owned(), zone.to_owned());
    offer
}

/// Lets time pass, with workers alive, until jobs that wait may reserve.
fn pass(fixture: &mut Fixture, millis: u64) -> Vec<(TaskRef, WorkerKey)> {
    let mut sent = fixture.round();
    let end = fixture.now + millis;
    while fixture.now < end {
        fixture.now = (fixture.now + 10_000).min(end);
        for worker in fixture.scheduler.worker_keys().collect::<Vec<_>>() {
            fixture.must(Event::Heartbeat { worker });
        }
    }
    sent.extend(fixture.round());
    sent
}

fn reserved(fixture: &Fixture) -> Vec<(u64, WorkerKey, Option<u64>)> {
    fixture.scheduler.reservations().map(|(job, worker, shadow)| (job.counter(), worker, shadow)).collect()
}

#[test]
fn a_gang_reserves_the_set_of_workers_that_fits_it_earliest() {
    let mut fixture = Fixture::new(Config::default());
    let (_, late) = busy(&mut fixture, "w1", offer(2000), 90_000);
    let (first, soon) = busy(&mut fixture, "w2", offer(2000), 60_000);
    let (second, sooner) = busy(&mut fixture, "w3", offer(2000), 30_000);
    busy(&mut fixture, "w4", offer(2000), 0);
    fixture.submit(1, gang(4));
    assert!(pass(&mut fixture, 10_000).is_empty());
    let mut set = reserved(&fixture);
    set.sort_unstable_by_key(|(_, worker, _)| *worker);
    let mut expected = [(1, soon, Some(60_000)), (1, sooner, Some(60_000))];
    expected.sort_unstable_by_key(|(_, worker, _)| *worker);
    assert_eq!(set, expected, "{late:?} is free later");
    let reported = fixture.effects.iter().find_map(|effect| match effect {
        Effect::ReservationChanged { workers, shadow, .. } => Some((workers.len(), *shadow)),
        _ => None,
    });
    assert_eq!(reported, Some((2, Some(60_000))), "one change for all workers");
    // Half of the set is free: nobody enters it, and the gang waits for the other half.
    fixture.result(second, sooner, Outcome::Succeeded);
    fixture.submit(20, spec(1000));
    assert!(fixture.starts().is_empty());
    fixture.result(first, soon, Outcome::Succeeded);
    assert_eq!(fixture.starts(), [1, 1, 1, 1]);
    assert!(reserved(&fixture).is_empty());
}

#[test]
fn without_limits_a_gang_reserves_the_set_that_lacks_least() {
    let mut fixture = Fixture::new(Config::default());
    let (_, full) = busy(&mut fixture, "w1", offer(4000), 0);
    let mut half = |name: &str, number| {
        let worker = fixture.worker(name, offer(4000));
        fixture.submit(number, spec(2500));
        let (attempt, on) = fixture.round()[0];
        assert_eq!(on, worker);
        fixture.start(attempt, on);
        worker
    };
    let (a, b) = (half("w2", 2), half("w3", 3));
    fixture.submit(1, gang(4));
    pass(&mut fixture, 10_000);
    let mut workers: Vec<_> = reserved(&fixture).into_iter().map(|(_, worker, shadow)| (worker, shadow)).collect();
    workers.sort_unstable();
    let mut expected = [(a, None), (b, None)];
    expected.sort_unstable();
    assert_eq!(workers, expected, "{full:?} lacks more");
}

#[test]
fn members_that_share_a_label_reserve_workers_that_do() {
    let mut fixture = Fixture::new(Config::default());
    busy(&mut fixture, "w1", in_zone(1000, "a"), 20_000);
    let (_, one) = busy(&mut fixture, "w2", in_zone(1000, "b"), 60_000);
    let (_, two) = busy(&mut fixture, "w3", in_zone(1000, "b"), 60_000);
    let mut job = gang(2);
    job.gang.as_mut().unwrap().same_label = Some("zone".to_owned());
    fixture.submit(1, job);
    pass(&mut fixture, 10_000);
    let mut workers: Vec<_> = reserved(&fixture).into_iter().map(|(_, worker, _)| worker).collect();
    workers.sort_unstable();
    assert_eq!(workers, if one < two { [one, two] } else { [two, one] });
}

#[test]
fn a_reserved_gang_takes_fewest_workers_or_one_each_first_under_spread() {
    for (policy, max_per_worker, expected) in
        [(Policy::BestFit, None, 1), (Policy::Spread, None, 3), (Policy::BestFit, Some(2), 2)]
    {
        let mut fixture = Fixture::new(Config { policy, ..Config::default() });
        for name in ["w1", "w2", "w3"] {
            busy(&mut fixture, name, offer(4000), 60_000);
        }
        let mut job = gang(4);
        job.gang.as_mut().unwrap().max_per_worker = max_per_worker;
        fixture.submit(1, job);
        pass(&mut fixture, 10_000);
        assert_eq!(reserved(&fixture).len(), expected, "{policy:?}, {max_per_worker:?}");
    }
}

#[test]
fn who_leaves_in_time_or_fits_beside_may_enter_the_reserved_set_of_a_gang() {
    let mut fixture = Fixture::new(Config::default());
    let (attempt, worker) = busy(&mut fixture, "w1", offer(2000), 60_000);
    busy(&mut fixture, "w2", offer(3000), 90_000);
    fixture.submit(1, gang(4));
    pass(&mut fixture, 10_000);
    assert_eq!(reserved(&fixture).len(), 2, "three members on one worker, one on the other");
    fixture.result(attempt, worker, Outcome::Succeeded);
    // Of the free worker one member takes half: another job fits beside it for good, a third only if it ends by 90 s.
    fixture.submit(20, spec(1000));
    fixture.submit(21, Demand { timeout_ms: 79_000, grace_ms: 1001, ..spec(1000) });
    fixture.submit(22, Demand { timeout_ms: 79_000, grace_ms: 1000, ..spec(999) });
    assert_eq!(fixture.starts(), [20, 22]);
}

#[test]
fn a_gang_enters_reserved_workers_by_the_same_two_rules() {
    for (timeout_ms, enters) in [(50_000, true), (50_001, false), (0, false)] {
        let mut fixture = Fixture::new(Config::default());
        let (_, _) = busy(&mut fixture, "w1", offer(2000), 60_000);
        let (attempt, worker) = busy(&mut fixture, "w2", offer(2000), 50_000);
        fixture.submit(1, gang(4));
        pass(&mut fixture, 10_000);
        assert_eq!(reserved(&fixture).len(), 2);
        fixture.result(attempt, worker, Outcome::Succeeded);
        fixture.submit(2, Demand { timeout_ms, grace_ms: 0, ..gang(2) });
        assert_eq!(fixture.starts(), if enters { vec![2, 2] } else { vec![] }, "{timeout_ms}");
    }
    // Three members are to be on one worker and one on the other: there another gang's member fits beside it for good, and
    // its fellow is on a worker that nobody reserved.
    let mut fixture = Fixture::new(Config::default());
    busy(&mut fixture, "w1", offer(3000), 60_000);
    let (attempt, worker) = busy(&mut fixture, "w2", offer(2000), 50_000);
    fixture.submit(1, gang(4));
    pass(&mut fixture, 10_000);
    fixture.submit(2, gang(2));
    fixture.submit(3, gang(2));
    let open = fixture.worker("w3", offer(1000));
    assert!(fixture.starts().is_empty());
    fixture.result(attempt, worker, Outcome::Succeeded);
    let mut sent: Vec<_> = fixture.round().into_iter().map(|(attempt, on)| (attempt.job.counter(), on)).collect();
    sent.sort_unstable();
    assert_eq!(sent, [(2, worker), (2, open)]);
}

#[test]
fn a_reserved_gang_starts_no_later_than_what_ran_on_its_workers_ends() {
    let mut fixture = Fixture::new(Config::default());
    let ends: Vec<_> =
        (0..4).map(|at| busy(&mut fixture, &format!("w{at}"), offer(2000), 60_000 + at * 1000)).collect();
    fixture.submit(1, gang(8));
    pass(&mut fixture, 10_000);
    assert_eq!(reserved(&fixture).len(), 4);
    // A flood of jobs that would fit whatever becomes free.
    (20..60).for_each(|number| fixture.submit(number, spec(1000)));
    for (at, (attempt, worker)) in ends.iter().enumerate() {
        fixture.result(*attempt, *worker, Outcome::Succeeded);
        assert_eq!(fixture.starts(), vec![1; if at < 3 { 0 } else { 8 }], "after {at} ends");
    }
}

#[test]
fn a_reservation_moves_only_to_workers_that_are_free_earlier() {
    let mut fixture = Fixture::new(Config::default());
    let (_, first) = busy(&mut fixture, "w1", offer(4000), 60_000);
    fixture.submit(1, spec(4000));
    pass(&mut fixture, 10_000);
    assert_eq!(reserved(&fixture), [(1, first, Some(60_000))]);
    // Free later: the reservation stays where it is.
    let (_, later) = busy(&mut fixture, "w2", offer(4000), 51_000);
    pass(&mut fixture, 10_000);
    assert_eq!(reserved(&fixture), [(1, first, Some(60_000))], "{later:?} is free at 61 s");
    // Free earlier: it moves, and the worker that it leaves takes others.
    let (attempt, sooner) = busy(&mut fixture, "w3", offer(4000), 30_000);
    pass(&mut fixture, 10_000);
    assert_eq!(reserved(&fixture), [(1, sooner, Some(50_000))]);
    let moved = fixture.effects.iter().filter(|effect| matches!(effect, Effect::ReservationChanged { .. })).count();
    assert_eq!(moved, 1, "it is never given back in between");
    fixture.result(attempt, sooner, Outcome::Succeeded);
    assert_eq!(fixture.starts(), [1]);
}

#[test]
fn a_gang_moves_to_an_earlier_set_as_a_whole() {
    let mut fixture = Fixture::new(Config::default());
    busy(&mut fixture, "w1", offer(1000), 90_000);
    busy(&mut fixture, "w2", offer(1000), 80_000);
    fixture.submit(1, gang(2));
    pass(&mut fixture, 10_000);
    assert_eq!(reserved(&fixture).iter().map(|(.., shadow)| *shadow).collect::<Vec<_>>(), [Some(90_000); 2]);
    let (attempt, worker) = busy(&mut fixture, "w3", offer(2000), 30_000);
    pass(&mut fixture, 10_000);
    assert_eq!(reserved(&fixture), [(1, worker, Some(40_000))]);
    fixture.result(attempt, worker, Outcome::Succeeded);
    assert_eq!(fixture.starts(), [1, 1]);
}

#[test]
fn first_heads_that_need_workers_others_reserved_are_next_to_get_them() {
    let mut fixture = Fixture::new(Config::default());
    let ends: Vec<_> = (0..2).map(|at| busy(&mut fixture, &format!("w{at}"), offer(2000), 0)).collect();
    // Two jobs reserve both workers; the gang needs both at once.
    fixture.submit(1, Demand { priority: Priority(4), ..spec(2000) });
    fixture.submit(2, Demand { tenant: "u".parse().unwrap(), ..spec(2000) });
    pass(&mut fixture, 10_000);
    assert_eq!(reserved(&fixture).len(), 2);
    fixture.submit(3, Demand { priority: Priority(9), ..gang(4) });
    fixture.now += 1;
    (4..40).for_each(|number| {
        fixture.submit(number, Demand { tenant: format!("t{number}").parse().unwrap(), ..spec(2000) });
    });
    pass(&mut fixture, 10_000);
    let mut running = ends;
    for turn in 0..4 {
        let (attempt, worker) = running.remove(0);
        fixture.result(attempt, worker, Outcome::Succeeded);
        let sent = fixture.round();
        sent.iter().for_each(|(attempt, worker)| fixture.start(*attempt, *worker));
        if sent.iter().any(|(attempt, _)| attempt.job == id(3)) {
            assert_eq!((sent.len(), turn), (4, 3), "after the two that had reserved before");
            return;
        }
        running.extend(sent);
        pass(&mut fixture, 10_000);
    }
    panic!("the gang starves");
}

#[test]
fn a_gang_gives_its_set_back_with_its_job_and_with_any_of_its_workers() {
    for cancel in [true, false] {
        let mut fixture = Fixture::new(Config::default());
        let (one, on_one) = busy(&mut fixture, "w1", offer(2000), 60_000);
        let (_, on_two) = busy(&mut fixture, "w2", offer(2000), 60_000);
        fixture.submit(1, gang(4));
        pass(&mut fixture, 10_000);
        assert_eq!(reserved(&fixture).len(), 2);
        if cancel {
            fixture.must(Event::Cancel { job: id(1), elements: None });
        } else {
            fixture.must(Event::Cordon { worker: on_two });
        }
        fixture.submit(20, spec(2000));
        fixture.result(one, on_one, Outcome::Succeeded);
        assert_eq!(fixture.starts(), [20]);
        assert!(reserved(&fixture).is_empty());
    }
}

#[test]
fn a_reserved_gang_beyond_its_tenants_limits_waits_and_goes_on() {
    let mut fixture = Fixture::new(Config::default());
    let (attempt, worker) = busy(&mut fixture, "w1", offer(2000), 60_000);
    fixture.submit(1, gang(2));
    pass(&mut fixture, 10_000);
    let quota = |max_running_jobs| Quota { max_running_jobs, ..Quota::default() };
    fixture.must(Event::QuotaChanged { tenant: "t".parse().unwrap(), quota: quota(Some(1)) });
    fixture.result(attempt, worker, Outcome::Succeeded);
    assert!(fixture.starts().is_empty());
    fixture.must(Event::QuotaChanged { tenant: "t".parse().unwrap(), quota: quota(Some(2)) });
    assert_eq!(fixture.starts(), [1, 1]);
}

#[test]
fn a_member_takes_the_kind_of_gpu_by_which_most_members_fit() {
    let mut machine = offer(8000);
    let devices = |model: &str, count| GpuDevices {
        vendor: orlop_core::hardware::gpu::Vendor::Nvidia,
        model: orlop_core::hardware::gpu::ModelKey::new(model).unwrap(),
        memory_bytes: 40 << 30,
        count,
    };
    machine.gpus = vec![devices("a100", 1), devices("h100", 4)];
    let mut fixture = Fixture::new(Config::default());
    fixture.worker("w1", machine);
    let mut job = gang(3);
    job.resources.gpus.count = 1;
    fixture.submit(1, job);
    assert_eq!(fixture.starts(), [1, 1, 1]);
}
