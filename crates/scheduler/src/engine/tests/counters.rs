//! Counters of workers (1.1, 2.2): amounts of any magnitude are counted as they were given, and what nobody has any more uses
//! nothing up.

use super::fixture::{Fixture, id, offer, spec};
use crate::config::Config;
use crate::engine::{Misfit, Scheduler};
use crate::event::{Capabilities, Departure, Event, GpuDevices, Outcome};
use crate::job::{Demand, Priority};

const TERA: u64 = 1_000_000_000_000;
const GIGA: u64 = 1_000_000_000;

fn having(counter: &str, amount: u64) -> Capabilities {
    Capabilities { extras: [(counter.to_owned(), amount)].into(), ..offer(64_000) }
}

fn asking(counter: &str, amount: u64) -> Demand {
    let mut spec = spec(100);
    spec.resources.extras.insert(counter.to_owned(), amount);
    spec
}

fn lacking(fixture: &Fixture, job: u64) -> String {
    let why = fixture.scheduler.explain(id(job)).unwrap();
    let lacking = why.workers.iter().flat_map(|worker| &worker.lacking);
    lacking.map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[test]
fn a_counter_of_terabytes_is_used_up_as_it_was_given() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", having("disk", 4 * TERA));
    (1..=39).for_each(|number| fixture.submit(number, asking("disk", 100 * GIGA)));
    assert_eq!(fixture.starts().len(), 39);
    fixture.submit(40, asking("disk", 101 * GIGA));
    fixture.submit(41, asking("disk", 99 * GIGA));
    fixture.submit(42, asking("disk", 5 * TERA));
    assert_eq!(fixture.starts(), [41]);
    insta::assert_snapshot!(lacking(&fixture, 42), @"disk: needs 5000000000000, free 999702528 of 4000000000000");
    insta::assert_snapshot!(lacking(&fixture, 40), @"disk: needs 101000000000, free 999702528 of 4000000000000");
    let why = fixture.scheduler.explain(id(42)).unwrap();
    assert_eq!(why.counts.get(&Misfit::NeverFits), Some(&1));
    // In units of 64 Ki a request takes a little more than it asks for.
    let held = fixture.scheduler.worker_view(worker).unwrap().further;
    assert_eq!((held[0].what.as_str(), held[0].total), ("extra:disk", 4 * TERA));
    assert!((3_999 * GIGA..4 * TERA).contains(&held[0].allocated), "{held:?}");
}

#[test]
fn small_and_large_workers_have_the_same_counter() {
    let mut fixture = Fixture::new(Config::default());
    let small = fixture.worker("w1", having("disk", 10));
    let large = fixture.worker("w2", having("disk", 4 * TERA));
    let vast = fixture.worker("w3", having("disk", u64::MAX));
    fixture.submit(1, asking("disk", 11));
    fixture.submit(2, asking("disk", 5 * TERA));
    fixture.submit(3, asking("disk", u64::MAX));
    let sent: Vec<_> = fixture.round().into_iter().map(|(attempt, worker)| (attempt.job.counter(), worker)).collect();
    assert!(sent.contains(&(2, vast)) && !sent.contains(&(1, small)), "{sent:?}");
    assert!(!sent.iter().any(|(job, _)| *job == 3), "what is cut stays what nobody has");
    fixture.must(Event::Cordon { worker: large });
    fixture.must(Event::Cordon { worker: vast });
    fixture.submit(4, asking("disk", 10));
    fixture.submit(5, asking("disk", 1));
    assert_eq!(fixture.starts(), [4], "small amounts are counted one by one");
    // The worker grows beyond what a column counts while its disk is used: what runs stays held.
    fixture.must(Event::Updated { worker: small, capabilities: having("disk", 3 * GIGA).into() });
    fixture.round();
}

#[test]
fn columns_of_what_nobody_has_are_given_to_others() {
    let mut fixture = Fixture::new(Config::default());
    for number in 0..30_u64 {
        let name = format!("licence-{number}");
        let mut capabilities = having(&name, 1);
        let memory_bytes = (number + 1) << 30;
        let model = orlop_core::hardware::gpu::ModelKey::new("a100").unwrap();
        let vendor = orlop_core::hardware::gpu::Vendor::Nvidia;
        capabilities.gpus = vec![GpuDevices { vendor, model, memory_bytes, count: 1 }];
        let worker = fixture.worker(&format!("w{number}"), capabilities);
        fixture.submit(2 * number + 1, asking(&name, 1));
        fixture.submit(2 * number + 2, asking(&format!("licence-{}", number + 1), 1));
        // Who asked for the counter before anybody had it starts first.
        let (own, early) = (2 * number + 1, 2 * number);
        assert_eq!(fixture.starts(), [if number == 0 { own } else { early }], "{name}");
        if number > 0 {
            fixture.must(Event::Cancel { job: id(own), elements: None });
        }
        for (attempt, on) in fixture.assigned() {
            fixture.start(attempt, on);
            fixture.result(attempt, on, Outcome::Succeeded);
        }
        if number % 7 == 3 {
            let (snapshot, config) = (fixture.scheduler.snapshot(), fixture.scheduler.config().clone());
            fixture.scheduler = Scheduler::restore(snapshot, config).unwrap();
        }
        fixture.must(Event::Remove { worker, why: Departure::Goodbye });
    }
    assert_eq!(fixture.scheduler.fleet_use().workers, 0);
}

#[test]
fn a_column_that_attempts_hold_is_given_to_nobody() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w0", having("licence", 1));
    fixture.submit(1, asking("licence", 1));
    let (attempt, _) = fixture.round()[0];
    // The worker offers it no more, but its attempt goes on.
    fixture.must(Event::Updated { worker, capabilities: having("x00", 1).into() });
    for number in 1..12 {
        fixture.worker(&format!("w{number}"), having(&format!("x{number:02}"), 1));
    }
    fixture.must(Event::WorkerDeclared { id: "late".parse().unwrap() });
    let late = fixture.scheduler.worker_key(&"late".parse().unwrap()).unwrap();
    let capabilities = having("another", 1).into();
    assert!(fixture.apply(Event::Registered { worker: late, capabilities }).is_err());
    fixture.result(attempt, worker, Outcome::Succeeded);
    fixture.must(Event::Registered { worker: late, capabilities: having("another", 1).into() });
}

#[test]
fn shares_of_a_counter_count_small_and_large_workers_together() {
    let mut fixture = Fixture::new(Config::default());
    fixture.worker("w1", having("disk", 1 << 30));
    fixture.worker("w2", having("disk", 3 << 40));
    let name = "t".parse().unwrap();
    let share = |fixture: &Fixture| fixture.scheduler.tenant(&name).unwrap().share;
    fixture.submit(1, asking("disk", 1 << 29));
    assert_eq!(fixture.starts(), [1]);
    // Of slots it holds more than of the disks of the whole fleet.
    assert!((share(&fixture) - 1.0 / 128.0).abs() < 1e-9, "{}", share(&fixture));
    fixture.submit(2, asking("disk", 1 << 40));
    assert_eq!(fixture.starts(), [2]);
    let disks = ((1_u64 << 40) + (1 << 29)) as f64 / ((3_u64 << 40) + (1 << 30)) as f64;
    assert!((share(&fixture) - disks).abs() < 1e-6, "{} {disks}", share(&fixture));
    // Its band is charged for all that it asks, and not only for what the columns of small workers can count.
    fixture.submit(3, Demand { priority: Priority(0), ..asking("disk", 1 << 40) });
    fixture.submit(4, spec(100));
    fixture.effects.clear();
    let _ = fixture.scheduler.round(fixture.now, 1, &mut fixture.effects);
    let owed = fixture.scheduler.band_credit()[0].0;
    let cost = (1_u64 << 40) as f64 / ((3_u64 << 40) + (1 << 30)) as f64;
    assert!((owed + cost / 3.0).abs() < 1e-6, "{owed} {cost}");
}
