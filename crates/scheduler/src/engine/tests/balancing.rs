//! The drawn score of `balanced`, term by term, and strict bands with floors.

use std::collections::{BTreeMap, BTreeSet};

use orlop_core::hardware::placement::{LabelExpr, Operator};

use super::fixture::{Fixture, id, offer, spec};
use crate::config::{Config, Policy};
use crate::engine::tenants::fit;
use crate::event::{Capabilities, Event, StartWindow};
use crate::job::{Demand, Prefer, Priority};
use crate::token::WorkerKey;

fn balanced() -> Fixture {
    Fixture::new(Config { policy: Policy::Balanced, ..Config::default() })
}

/// The worker that a small job gets.
fn choice(fixture: &mut Fixture, number: u64, job: Demand) -> WorkerKey {
    fixture.submit(number, job);
    fixture.round()[0].1
}

/// 1 less a score, in 16-bit fixed point.
fn points(score: f64) -> u32 {
    ((1.0 - score) * 65_536.0) as u32
}

#[test]
fn balanced_likes_a_use_from_60_to_85_percent() {
    for (used, good) in [(0.0, 0.70), (0.3, 0.85), (0.6, 1.0), (0.7, 1.0), (0.85, 1.0), (0.925, 0.55), (1.0, 0.10)] {
        assert!((fit(used) - good).abs() < 1e-9, "fit({used}) is {}", fit(used));
    }
}

#[test]
fn balanced_is_the_drawn_sum() {
    let mut fixture = balanced();
    let worker = fixture.worker("w1", Capabilities { memory_bytes: 8 << 30, max_jobs: 4, ..offer(8000) });
    assert_eq!(choice(&mut fixture, 1, spec(2000)), worker);
    // 3000m of 8000m and 2 of 8 Gi with the job, one attempt of four; heard half a time-out ago, one loss.
    fixture.must(Event::ConnectionLost { worker });
    let kept = vec![crate::event::Kept { attempt: fixture.assigned()[0].0, started: false }];
    fixture.must(Event::Connected { worker, kept });
    fixture.now += fixture.scheduler.config().heartbeat_timeout / 2;
    fixture.must(Event::Tick);
    let mut job = spec(1000);
    let label = LabelExpr { key: "zone".to_owned(), op: Operator::DoesNotExist, values: [].into() };
    let other = LabelExpr { key: "zone".to_owned(), op: Operator::Exists, values: [].into() };
    job.prefers = vec![Prefer { label, weight: 30 }, Prefer { label: other, weight: 70 }];
    fixture.submit(2, job);
    let scheduler = &fixture.scheduler;
    let spec = scheduler.specs.last().unwrap();
    let class = scheduler.classes.get(spec.class).unwrap();
    let uses = 0.6 * (0.70 + 0.30 * 0.375 / 0.60) + 0.4 * (0.70 + 0.30 * 0.25 / 0.60);
    let score = 0.40 * uses + 0.30 * 0.75 + 0.20 * (0.75 * 0.9) + 0.10 * 0.30;
    let measured = scheduler.balance(spec.preferences, class, scheduler.workers.get(worker.index).unwrap().place);
    assert!(measured.abs_diff(points(score)) <= 1, "{measured} is not {}", points(score));
}

#[test]
fn balanced_goes_where_fewer_run_who_was_heard_last_and_what_is_liked() {
    let mut fixture = balanced();
    let first = fixture.worker("w1", offer(8000));
    let second = fixture.worker("w2", offer(8000));
    fixture.now = 10_000;
    fixture.must(Event::Heartbeat { worker: second });
    assert_eq!(choice(&mut fixture, 1, spec(10)), second, "it was heard last");
    fixture.must(Event::Heartbeat { worker: first });
    let mut wide = balanced();
    let small = wide.worker("w1", Capabilities { max_jobs: 4, ..offer(8000) });
    let large = wide.worker("w2", Capabilities { max_jobs: 4, ..offer(8000) });
    let one = choice(&mut wide, 1, spec(10));
    let two = choice(&mut wide, 2, spec(10));
    assert_eq!([one, two].iter().filter(|worker| **worker == small).count(), 1, "one each, {large} as well");
    let mut liked = balanced();
    liked.worker("w1", offer(8000));
    let labels = BTreeMap::from([("zone".to_owned(), "b".to_owned())]);
    let there = liked.worker("w2", Capabilities { labels, ..offer(8000) });
    let label = LabelExpr { key: "zone".to_owned(), op: Operator::In, values: ["b".to_owned()].into() };
    let job = Demand { prefers: vec![Prefer { label, weight: 1 }], ..spec(10) };
    assert_eq!(choice(&mut liked, 1, job), there);
}

#[test]
fn strict_bands_with_floors_leave_the_lower_ones_their_floors() {
    let mut fixture = Fixture::new(Config { run_max: 1, band_share: [0.0, 0.15, 0.05], ..Config::default() });
    fixture.worker("w1", Capabilities { max_jobs: 1000, memory_bytes: 1 << 40, ..offer(90_000) });
    for number in 1..=600 {
        let priority = Priority([0, 5, 9][number as usize % 3]);
        fixture.submit(number, Demand { priority, ..spec(100) });
    }
    fixture.effects.clear();
    let _ = fixture.scheduler.round(0, 200, &mut fixture.effects);
    let mut counts = [0; 3];
    fixture.assigned().iter().for_each(|(attempt, _)| counts[attempt.job.counter() as usize % 3] += 1);
    // Jobs 3, 6, … are High, 1, 4, … Normal.
    let [high, normal, low] = counts;
    assert!((158..=162).contains(&high) && (28..=32).contains(&normal) && (8..=12).contains(&low), "{counts:?}");
}

#[test]
fn events_place_nothing() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(1000));
    fixture.submit(1, spec(1000));
    let gate = StartWindow { not_before: Some(10), ..StartWindow::default() };
    fixture.must(Event::Submit { job: id(2), spec: spec(100).into(), gate });
    fixture.now = 20;
    fixture.must(Event::Tick);
    fixture.must(Event::Cordon { worker });
    fixture.must(Event::Uncordon { worker });
    assert_eq!(fixture.assigned(), []);
    assert_eq!(fixture.starts(), [1]);
    fixture.effects.clear();
    let sent = fixture.scheduler.job(id(1), None).unwrap();
    assert_eq!(sent.worker, Some(worker));
    fixture.must(Event::Cancel { job: id(1), elements: None });
    fixture.worker("w2", offer(1000));
    assert_eq!(fixture.assigned(), [], "a round places, whatever has room by now");
    assert_eq!(fixture.starts(), [2]);
}

#[test]
fn the_place_in_its_queue_is_exact_to_a_thousand() {
    let mut fixture = Fixture::new(Config::default());
    fixture.must(Event::QuotaChanged { tenant: "t".parse().unwrap(), quota: crate::event::Quota::unlimited() });
    (1..=1100).for_each(|number| {
        let event = Event::Submit { job: id(number), spec: spec(100).into(), gate: StartWindow::default() };
        fixture.scheduler.apply(0, event, &mut fixture.effects).unwrap();
    });
    fixture.submit(2000, Demand { priority: Priority(4), ..spec(100) });
    let place = |number| fixture.scheduler.explain(id(number)).unwrap().position;
    assert_eq!([place(2000), place(1), place(500), place(1000), place(1100)], [0, 1, 500, 1000, 1000].map(Some));
}

#[test]
fn packing_policies_put_equal_jobs_together_and_spread_puts_them_apart() {
    for (policy, expected) in
        [(Policy::BestFit, 1), (Policy::MostAllocated, 1), (Policy::FirstFit, 1), (Policy::Spread, 3)]
    {
        let mut fixture = Fixture::new(Config { policy, ..Config::default() });
        for name in ["w1", "w2", "w3"] {
            fixture.worker(name, offer(4000));
        }
        // As much memory for each core as workers have.
        let mut job = spec(1000);
        job.resources.memory_bytes = 4 << 30;
        (1..=3).for_each(|number| fixture.submit(number, job.clone()));
        let on: BTreeSet<WorkerKey> = fixture.round().into_iter().map(|(_, worker)| worker).collect();
        assert_eq!(on.len(), expected, "{policy:?}");
    }
}

#[test]
fn spread_takes_the_worker_with_fewest_attempts_among_equals() {
    for (more, fewer) in [("w1", "w2"), ("w2", "w1")] {
        let mut fixture = Fixture::new(Config { policy: Policy::Spread, ..Config::default() });
        for name in ["w1", "w2"] {
            fixture.worker(name, Capabilities { features: [name.to_owned()].into(), ..offer(5000) });
        }
        for (number, name, cpu_m) in [(1, more, 500), (2, more, 500), (3, fewer, 1000)] {
            let mut job = spec(cpu_m);
            job.resources.memory_bytes = cpu_m << 20;
            job.requires.features.insert(name.to_owned());
            fixture.submit(number, job);
        }
        assert_eq!(fixture.starts().len(), 3);
        fixture.submit(4, spec(1000));
        let (_, on) = fixture.round()[0];
        assert_eq!(fixture.scheduler.worker_view(on).unwrap().id.to_string(), fewer);
    }
}
