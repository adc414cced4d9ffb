//! Turns and what they begin with: runs, what wakes blocked classes (2.5), what bands owe each other (2.6), how
//! many reservations there are (2.7), and when the host is to call again (2.1).

use super::bed::{Bed, id, offer, spec};
use crate::config::Config;
use crate::event::{Capabilities, DrainOrder, Event, Gate, Quota};
use crate::job::{Demand, Priority};
use crate::token::WorkerKey;

/// A worker so large that only cpu counts.
fn vast(cpu_m: u64) -> Capabilities {
    Capabilities { memory_bytes: 1 << 50, max_jobs: 1 << 30, ..offer(cpu_m) }
}

/// How many jobs of one tenant start before one of the other does, where two tenants have the same to do.
fn runs(config: Config, cpu_m: u64, quota: Option<u64>) -> Vec<usize> {
    let mut bed = Bed::new(config);
    bed.worker("w1", vast(1_024_000));
    let tenant = |number: u64| if number.is_multiple_of(2) { "a" } else { "b" };
    for name in ["a", "b"] {
        let quota = Quota { max_running_jobs: quota, ..Quota::unlimited() };
        bed.must(Event::QuotaChanged { tenant: name.parse().unwrap(), quota });
    }
    for number in 1..=200 {
        bed.submit(number, Demand { tenant: tenant(number).parse().unwrap(), ..spec(cpu_m) });
    }
    let order: Vec<&str> = bed.starts().into_iter().map(tenant).collect();
    order.chunk_by(|one, next| one == next).map(<[_]>::len).collect()
}

#[test]
pub(super) fn a_run_is_as_long_as_run_max_the_quota_and_a_256th_of_the_fleet_allow() {
    assert_eq!(runs(Config::default(), 100, None), [32, 32, 32, 32, 32, 32, 4, 4], "run_max");
    assert_eq!(runs(Config { run_max: 5, ..Config::default() }, 100, None)[..4], [5; 4]);
    // A fleet of 1,024,000m: a 256th of it is 4000m.
    assert_eq!(runs(Config::default(), 1000, None)[..4], [4; 4]);
    assert_eq!(runs(Config::default(), 1001, None)[..4], [3; 4]);
    assert_eq!(runs(Config::default(), 5000, None)[..4], [1; 4], "one at least");
    assert_eq!(runs(Config::default(), 100, Some(7)), [7, 7], "what the quota has room for");
}

/// A worker that takes nothing, and by which event it does again.
fn closed(bed: &mut Bed, how: &str) -> (WorkerKey, Vec<Event>) {
    let worker = bed.worker("w1", offer(if how == "resize" { 1000 } else { 4000 }));
    let again = match how {
        "resize" => vec![Event::Updated { worker, capabilities: offer(4000).into() }],
        "uncordon" => {
            bed.must(Event::Cordon { worker });
            vec![Event::Uncordon { worker }]
        }
        "undrain" => {
            // Something runs there, else the drain would be over.
            bed.submit(100, spec(100));
            let (attempt, _) = bed.round()[0];
            bed.start(attempt, worker);
            bed.must(Event::Drain { worker, order: DrainOrder::default() });
            vec![Event::Undrain { worker }]
        }
        "recovery" => {
            bed.must(Event::HealthReport { worker, good: false });
            bed.now += bed.scheduler.config().probation_min;
            vec![Event::HealthReport { worker, good: true }]
        }
        _ => {
            bed.must(Event::ConnectionLost { worker });
            vec![Event::Connected { worker, kept: vec![] }]
        }
    };
    (worker, again)
}

#[test]
pub(super) fn whatever_gives_a_worker_room_wakes_who_fits_there() {
    for how in ["resize", "uncordon", "undrain", "recovery", "reconnect"] {
        let mut bed = Bed::new(Config::default());
        let (worker, again) = closed(&mut bed, how);
        bed.submit(1, spec(2000));
        assert!(bed.starts().is_empty(), "{how}");
        again.into_iter().for_each(|event| bed.must(event));
        let sent = bed.round();
        assert_eq!(sent.iter().map(|(attempt, on)| (attempt.job, *on)).collect::<Vec<_>>(), [(id(1), worker)], "{how}");
    }
}

const SHARES: [f64; 3] = [0.2, 0.5, 0.3];
/// Of a fleet of 1,000,000m; the largest jobs are those of the band with the largest share.
const COSTS: [f64; 3] = [0.001, 0.003, 0.002];

/// Jobs of all bands, ten of which are placed; then one band has no more. What bands are owed then, and after one more was
/// placed, and of which band that was.
fn leaves(band: usize) -> ([f64; 3], [f64; 3], usize) {
    let mut bed = Bed::new(Config { run_max: 1, band_share: SHARES, ..Config::default() });
    bed.worker("w1", vast(1_000_000));
    let band_of = |number: u64| (number % 3) as usize;
    for number in 1..=90 {
        let cpu_m = [1000, 3000, 2000][band_of(number)];
        bed.submit(number, Demand { priority: Priority([0, 5, 9][band_of(number)]), ..spec(cpu_m) });
    }
    let _ = bed.scheduler.round(0, 10, &mut bed.effects);
    let before = bed.scheduler.credit;
    for number in (1..=90).filter(|number| band_of(*number) == band) {
        bed.must(Event::Cancel { job: id(number), elements: None });
    }
    bed.effects.clear();
    let _ = bed.scheduler.round(0, 1, &mut bed.effects);
    (before, bed.scheduler.credit, band_of(bed.assigned()[0].0.job.counter()))
}

#[test]
pub(super) fn a_band_that_stops_being_ready_passes_what_it_is_owed_and_forgets_what_it_owes() {
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
pub(super) fn there_are_at_most_max_reservations() {
    for (most, expected) in [(0, 0), (3, 3), (16, 16)] {
        let mut bed = Bed::new(Config { max_reservations: most, ..Config::default() });
        let workers: Vec<WorkerKey> = (0..20).map(|at| bed.worker(&format!("w{at}"), offer(4000))).collect();
        (1..=20).for_each(|number| bed.submit(number, spec(4000)));
        bed.round().iter().for_each(|(attempt, worker)| bed.start(*attempt, *worker));
        for number in 101..=120 {
            bed.submit(number, Demand { tenant: format!("t{number}").parse().unwrap(), ..spec(3000) });
        }
        assert!(bed.starts().is_empty());
        for millis in [9_999, 1] {
            assert_eq!(bed.scheduler.reservations().count(), 0, "nobody has waited for 10 s");
            bed.now += millis;
            workers.iter().for_each(|worker| bed.must(Event::Heartbeat { worker: *worker }));
            bed.round();
        }
        assert_eq!(bed.scheduler.reservations().count(), expected, "at most {most}");
    }
}

#[test]
pub(super) fn the_next_deadline_is_that_of_the_first_timer_and_none_without_any() {
    let mut bed = Bed::new(Config::default());
    assert_eq!(bed.scheduler.next_deadline(), None);
    let worker = bed.worker("w1", offer(4000));
    let silence = bed.scheduler.config().heartbeat_timeout;
    assert_eq!(bed.scheduler.next_deadline(), Some(silence));
    let gate = Gate { not_before: Some(70), queue_timeout: Some(50) };
    bed.must(Event::Submit { job: id(1), spec: spec(1000).into(), gate });
    assert_eq!(bed.scheduler.next_deadline(), Some(50));
    bed.now = 50;
    bed.must(Event::Tick);
    bed.must(Event::Heartbeat { worker });
    assert!(bed.scheduler.next_deadline().is_some_and(|at| at > 50), "what was due is done");
}
