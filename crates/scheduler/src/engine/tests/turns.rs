//! Turns and what they begin with: runs, what wakes blocked classes (2.5), what bands owe each other (2.6), how
//! many reservations there are (2.7), and when the host is to call again (2.1).

use super::fixture::{Fixture, id, offer, spec};
use crate::config::Config;
use crate::event::{Capabilities, DrainOrder, Event, Quota, StartWindow};
use crate::job::{Demand, Priority};
use crate::token::WorkerKey;

/// A worker so large that only cpu counts.
fn vast(cpu_m: u64) -> Capabilities {
    Capabilities { memory_bytes: 1 << 50, max_jobs: 1 << 30, ..offer(cpu_m) }
}

/// How many jobs of one tenant start before one of the other does, where two tenants have the same to do.
fn runs(config: Config, cpu_m: u64, quota: Option<u64>) -> Vec<usize> {
    let mut fixture = Fixture::new(config);
    fixture.worker("w1", vast(1_024_000));
    let tenant = |number: u64| if number.is_multiple_of(2) { "a" } else { "b" };
    for name in ["a", "b"] {
        let quota = Quota { max_running_jobs: quota, ..Quota::unlimited() };
        fixture.must(Event::QuotaChanged { tenant: name.parse().unwrap(), quota });
    }
    for number in 1..=200 {
        fixture.submit(number, Demand { tenant: tenant(number).parse().unwrap(), ..spec(cpu_m) });
    }
    let order: Vec<&str> = fixture.starts().into_iter().map(tenant).collect();
    order.chunk_by(|one, next| one == next).map(<[_]>::len).collect()
}

#[test]
fn a_run_is_as_long_as_run_max_the_quota_and_a_256th_of_the_fleet_allow() {
    assert_eq!(runs(Config::default(), 100, None), [32, 32, 32, 32, 32, 32, 4, 4], "run_max");
    assert_eq!(runs(Config { run_max: 5, ..Config::default() }, 100, None)[..4], [5; 4]);
    // A fleet of 1,024,000m: a 256th of it is 4000m.
    assert_eq!(runs(Config::default(), 1000, None)[..4], [4; 4]);
    assert_eq!(runs(Config::default(), 1001, None)[..4], [3; 4]);
    assert_eq!(runs(Config::default(), 5000, None)[..4], [1; 4], "one at least");
    assert_eq!(runs(Config::default(), 100, Some(7)), [7, 7], "what the quota has room for");
}

/// A worker that takes nothing, and by which event it does again.
fn closed(fixture: &mut Fixture, how: &str) -> (WorkerKey, Vec<Event>) {
    let worker = fixture.worker("w1", offer(if how == "resize" { 1000 } else { 4000 }));
    let again = match how {
        "resize" => vec![Event::Updated { worker, capabilities: offer(4000).into() }],
        "uncordon" => {
            fixture.must(Event::Cordon { worker });
            vec![Event::Uncordon { worker }]
        }
        "undrain" => {
            // Something runs there, else the drain would be over.
            fixture.submit(100, spec(100));
            let (attempt, _) = fixture.round()[0];
            fixture.start(attempt, worker);
            fixture.must(Event::Drain { worker, order: DrainOrder::default() });
            vec![Event::Undrain { worker }]
        }
        "recovery" => {
            fixture.must(Event::HealthReport { worker, good: false });
            fixture.now += fixture.scheduler.config().probation_min;
            vec![Event::HealthReport { worker, good: true }]
        }
        _ => {
            fixture.must(Event::ConnectionLost { worker });
            vec![Event::Connected { worker, kept: vec![] }]
        }
    };
    (worker, again)
}

#[test]
fn whatever_gives_a_worker_room_wakes_who_fits_there() {
    for how in ["resize", "uncordon", "undrain", "recovery", "reconnect"] {
        let mut fixture = Fixture::new(Config::default());
        let (worker, again) = closed(&mut fixture, how);
        fixture.submit(1, spec(2000));
        assert!(fixture.starts().is_empty(), "{how}");
        again.into_iter().for_each(|event| fixture.must(event));
        let sent = fixture.round();
        assert_eq!(sent.iter().map(|(attempt, on)| (attempt.job, *on)).collect::<Vec<_>>(), [(id(1), worker)], "{how}");
    }
}

const SHARES: [f64; 3] = [0.2, 0.5, 0.3];
/// Of a fleet of 1,000,000m; the largest jobs are those of the band with the largest share.
const COSTS: [f64; 3] = [0.001, 0.003, 0.002];

/// Jobs of all bands, ten of which are placed; then one band has no more. What bands are owed then, and after one more was
/// placed, and of which band that was.
fn leaves(band: usize) -> ([f64; 3], [f64; 3], usize) {
    let mut fixture = Fixture::new(Config { run_max: 1, band_share: SHARES, ..Config::default() });
    fixture.worker("w1", vast(1_000_000));
    let band_of = |number: u64| (number % 3) as usize;
    for number in 1..=90 {
        let cpu_m = [1000, 3000, 2000][band_of(number)];
        fixture.submit(number, Demand { priority: Priority([0, 5, 9][band_of(number)]), ..spec(cpu_m) });
    }
    let _ = fixture.scheduler.round(0, 10, &mut fixture.effects);
    let before = fixture.scheduler.credit;
    for number in (1..=90).filter(|number| band_of(*number) == band) {
        fixture.must(Event::Cancel { job: id(number), elements: None });
    }
    fixture.effects.clear();
    let _ = fixture.scheduler.round(0, 1, &mut fixture.effects);
    (before, fixture.scheduler.credit, band_of(fixture.assigned()[0].0.job.counter()))
}

#[test]
fn a_band_that_stops_being_ready_passes_what_it_is_owed_and_forgets_what_it_owes() {
    let mut signs = [false; 2];
    for band in 0..3 {
        let (before, after, served) = leaves(band);
        signs[usize::from(before[band] > 0.0)] = true;
        let highest = usize::from(band == 0);
        let mut expected = before;
        expected[band] = 0.0;
        expected[highest] += before[band].max(0.0);
        // Then one is placed: the others share its cost, the highest of them with what is left over.
        for other in (0..3).filter(|other| *other != band) {
            let left = if other == highest { SHARES[band] } else { 0.0 };
            expected[other] += (SHARES[other] + left) * COSTS[served];
        }
        expected[served] -= COSTS[served];
        let right = after.iter().zip(expected).all(|(after, expected)| (after - expected).abs() < 1e-12);
        assert!(right, "band {band} leaves {before:?}: {after:?} is not {expected:?}");
    }
    assert_eq!(signs, [true; 2], "one that owes and one that is owed");
}

#[test]
fn there_are_at_most_max_reservations() {
    for (most, expected) in [(0, 0), (3, 3), (16, 16)] {
        let mut fixture = Fixture::new(Config { max_reservations: most, ..Config::default() });
        let workers: Vec<WorkerKey> = (0..20).map(|at| fixture.worker(&format!("w{at}"), offer(4000))).collect();
        (1..=20).for_each(|number| fixture.submit(number, spec(4000)));
        fixture.round().iter().for_each(|(attempt, worker)| fixture.start(*attempt, *worker));
        for number in 101..=120 {
            fixture.submit(number, Demand { tenant: format!("t{number}").parse().unwrap(), ..spec(3000) });
        }
        assert!(fixture.starts().is_empty());
        for millis in [9_999, 1] {
            assert_eq!(fixture.scheduler.reservations().count(), 0, "nobody has waited for 10 s");
            fixture.now += millis;
            workers.iter().for_each(|worker| fixture.must(Event::Heartbeat { worker: *worker }));
            fixture.round();
        }
        assert_eq!(fixture.scheduler.reservations().count(), expected, "at most {most}");
    }
}

#[test]
fn the_next_deadline_is_that_of_the_first_timer_and_none_without_any() {
    let mut fixture = Fixture::new(Config::default());
    assert_eq!(fixture.scheduler.next_deadline(), None);
    let worker = fixture.worker("w1", offer(4000));
    let silence = fixture.scheduler.config().heartbeat_timeout;
    assert_eq!(fixture.scheduler.next_deadline(), Some(silence));
    let gate = StartWindow { not_before: Some(70), queue_timeout: Some(50) };
    fixture.must(Event::Submit { job: id(1), spec: spec(1000).into(), gate });
    assert_eq!(fixture.scheduler.next_deadline(), Some(50));
    fixture.now = 50;
    fixture.must(Event::Tick);
    fixture.must(Event::Heartbeat { worker });
    assert!(fixture.scheduler.next_deadline().is_some_and(|at| at > 50), "what was due is done");
}
