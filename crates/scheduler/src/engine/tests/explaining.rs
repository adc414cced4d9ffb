//! Explanations and unmet demand.

use std::collections::BTreeMap;

use orlop_core::hardware::placement::{LabelExpr, Operator};

use super::fixture::{Fixture, id, offer, spec};
use crate::config::Config;
use crate::engine::{Explanation, Misfit, Obstacle, ReservedWorkers, TenantQueue};
use crate::event::{ArraySpec, Capabilities, Event, Outcome, Quota, StartWindow, TenantSettings, TenantStatus};
use crate::job::{Band, Priority};

#[test]
fn every_worker_says_its_first_failing_filter_with_numbers() {
    let mut fixture = Fixture::new(Config::default());
    fixture.worker("w1", offer(8000));
    let cordoned = fixture.worker("w2", offer(8000));
    fixture.must(Event::Cordon { worker: cordoned });
    fixture.worker("w3", offer(1000));
    let mut other = offer(8000);
    other.tenants.insert("x".parse().unwrap());
    fixture.worker("w4", other);
    fixture.submit(1, spec(6500));
    assert_eq!(fixture.starts(), [1]);
    fixture.submit(2, spec(4000));
    fixture.submit(3, spec(4000));
    fixture.now = 7;
    fixture.round();
    let why = fixture.scheduler.explain(id(3)).unwrap();
    let misfits: Vec<_> = why.workers.iter().map(|fit| fit.misfit.unwrap().to_string()).collect();
    assert_eq!(misfits, ["capacity", "cordoned", "never fits", "tenant"]);
    let lacking: Vec<String> = why.workers[0].lacking.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(lacking.join("; "), @"cpu: needs 4000m, free 1500m of 8000m");
    assert_eq!((why.position, why.blocked_since, why.nearest), (Some(1), Some(7), Some(why.workers[0].worker)));
    assert_eq!(why.counts[&Misfit::Tenant], 1);
    assert!(!why.is_infeasible());
    fixture.submit(4, spec(9000));
    assert!(fixture.scheduler.explain(id(4)).unwrap().counts.contains_key(&Misfit::NeverFits));
    assert!(fixture.scheduler.explain(id(9)).is_none());
}

/// Each worker fails all filters from one on, in the order, and says that one.
#[test]
fn filters_are_asked_in_their_order() {
    let mut fixture = Fixture::new(Config::default());
    let mut offer = Capabilities { max_jobs: 2, ..offer(8000) };
    offer.labels.insert("zone".to_owned(), "a".to_owned());
    offer.features.insert("cgroup2".to_owned());
    let with_room = fixture.worker("w1", offer.clone());
    // Half of it is taken; where one job is all there may be, that leaves no slot.
    let crowded = fixture.worker("w2", offer.clone());
    let full = fixture.worker("w3", Capabilities { max_jobs: 1, ..offer.clone() });
    for (number, worker) in [(1, crowded), (2, full)] {
        fixture.submit(number, spec(4500));
        fixture.must(Event::AssignJob { job: id(number), worker });
    }
    offer.cpu_m = 3999;
    let small = fixture.worker("w4", offer.clone());
    offer.runtimes.clear();
    let unable = fixture.worker("w5", offer.clone());
    offer.features.clear();
    let plain = fixture.worker("w6", offer.clone());
    offer.labels.clear();
    let elsewhere = fixture.worker("w7", offer.clone());
    offer.tenants.insert("x".parse().unwrap());
    let foreign = fixture.worker("w8", offer.clone());
    let [cordoned, sick] = ["w9", "w10"].map(|name| fixture.worker(name, offer.clone()));
    [cordoned, sick].into_iter().for_each(|worker| fixture.must(Event::Cordon { worker }));
    fixture.must(Event::HealthReport { worker: sick, good: false });
    let mut job = spec(4000);
    let zone = LabelExpr { key: "zone".to_owned(), op: Operator::In, values: ["a".to_owned()].into() };
    job.requires.labels = vec![zone];
    job.requires.features.insert("cgroup2".to_owned());
    fixture.submit(3, job);
    // All are kept for somebody: what says so comes last.
    for worker in fixture.scheduler.worker_keys().collect::<Vec<_>>() {
        fixture.scheduler.workers.get_mut(worker.index).unwrap().reserved = true;
        fixture.scheduler.refresh_open(worker.index);
    }
    let why = fixture.scheduler.explain(id(3)).unwrap();
    let said: Vec<_> = why.workers.iter().map(|fit| (fit.worker, fit.misfit.unwrap())).collect();
    let expected = [
        (with_room, Misfit::Reserved),
        (crowded, Misfit::Capacity),
        (full, Misfit::MaxJobs),
        (small, Misfit::NeverFits),
        (unable, Misfit::Runtime),
        (plain, Misfit::Features),
        (elsewhere, Misfit::Labels),
        (foreign, Misfit::Tenant),
        (cordoned, Misfit::Cordon),
        (sick, Misfit::Health),
    ];
    assert_eq!(said, expected);
}

#[test]
fn what_no_registered_worker_could_hold_is_taken_and_called_hopeless() {
    let mut fixture = Fixture::new(Config::default());
    fixture.worker("w1", offer(1000));
    let mut job = spec(1000);
    job.requires.features.insert("tee:sev-snp".to_owned());
    fixture.submit(1, job);
    fixture.round();
    let why = fixture.scheduler.explain(id(1)).unwrap();
    assert!(why.is_infeasible());
    assert_eq!(why.counts, BTreeMap::from([(Misfit::Features, 1)]));
}

fn why(fixture: &Fixture, number: u64) -> Explanation {
    fixture.scheduler.explain(id(number)).unwrap()
}

#[test]
fn what_stands_before_the_question_of_workers_is_reported_with_numbers() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(8000));
    fixture.must(Event::Submit {
        job: id(1),
        spec: spec(1000).into(),
        gate: StartWindow { not_before: Some(500), queue_timeout: None },
    });
    assert_eq!(why(&fixture, 1).obstacle, Some(Obstacle::NotBefore(500)));
    // A failed attempt waits for its delay.
    let mut again = spec(1000);
    (again.retries, again.retry.jitter_milli) = (1, 0);
    fixture.submit(2, again);
    let sent = fixture.round();
    assert_eq!(why(&fixture, 2).obstacle, None, "it is assigned");
    fixture.result(sent[0].0, worker, Outcome::Failed { exit_code: Some(1) });
    assert_eq!(why(&fixture, 2).obstacle, Some(Obstacle::Backoff(fixture.now + 1000)));
    // An array at its window.
    let array = ArraySpec { indices: vec![(0, 9)], max_parallel: Some(2), ..ArraySpec::default() };
    fixture.must(Event::SubmitArray { job: id(3), spec: spec(100).into(), gate: StartWindow::default(), array });
    assert_eq!(why(&fixture, 3).obstacle, None);
    fixture.round();
    assert_eq!(why(&fixture, 3).obstacle, Some(Obstacle::Window(2)));
    // Limits: each that is in the way, in the units they were given in.
    let quota = Quota { max_cpu_m: Some(700), max_memory_bytes: Some(2 << 30), ..Quota::unlimited() };
    let tenant = spec(1).tenant;
    fixture.must(Event::QuotaChanged { tenant: tenant.clone(), quota });
    fixture.submit(4, spec(600));
    fixture.round();
    let Some(Obstacle::Quota(limits)) = why(&fixture, 4).obstacle else { panic!("{:?}", why(&fixture, 4)) };
    let limits: Vec<_> = limits.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(limits.join("\n"), @r"
    max_cpu_m: needs 600, 200 of 700 are used
    max_memory_bytes: needs 1073741824, 2147483648 of 2147483648 are used
    ");
    fixture.must(Event::TenantChanged {
        tenant,
        settings: TenantSettings { status: TenantStatus::Paused, ..TenantSettings::default() },
    });
    assert_eq!(why(&fixture, 4).obstacle, Some(Obstacle::TenantPaused));
}

#[test]
fn a_reservation_is_reported_with_its_shadow_time() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(4000));
    let mut long = spec(3000);
    (long.timeout_ms, long.grace_ms) = (60_000, 0);
    fixture.submit(1, long);
    let sent = fixture.round();
    fixture.start(sent[0].0, worker);
    let started = fixture.now;
    fixture.submit(2, spec(4000));
    fixture.round();
    assert_eq!(why(&fixture, 2).reservation, None);
    fixture.wait(10_000);
    fixture.round();
    let kept = ReservedWorkers { workers: vec![worker], shadow: Some(started + 60_000) };
    assert_eq!(why(&fixture, 2).reservation, Some(kept));
    assert_eq!(why(&fixture, 1).reservation, None);
}

#[test]
fn unmet_demand_is_counted_by_class() {
    let mut fixture = Fixture::new(Config::default());
    fixture.worker("w1", offer(1000));
    fixture.submit(1, spec(2000));
    let array = ArraySpec { indices: vec![(0, 9)], ..ArraySpec::default() };
    fixture.must(Event::SubmitArray { job: id(2), spec: spec(2000).into(), gate: StartWindow::default(), array });
    fixture.submit(3, spec(500));
    assert_eq!(fixture.starts(), [3]);
    let demand = fixture.scheduler.demand();
    assert_eq!((demand.len(), demand[0].waiting, demand[0].resources.cpu_m), (1, 11, 2000));
}

#[test]
fn what_waits_is_reported_by_tenant_band_and_class() {
    let mut fixture = Fixture::new(Config::default());
    fixture.worker("w1", offer(1000));
    let of = |tenant: &str, cpu: u64, priority: u8| {
        let mut spec = spec(cpu);
        spec.tenant = tenant.parse().unwrap();
        spec.priority = Priority(priority);
        spec
    };
    assert!(fixture.scheduler.queues().is_empty() && fixture.scheduler.blocked(9).is_empty());
    fixture.submit(1, of("physics", 1000, 5));
    fixture.submit(2, of("physics", 2000, 5));
    fixture.submit(3, of("physics", 2000, 5));
    fixture.submit(4, of("art", 3000, 0));
    assert_eq!(fixture.starts(), [1]);
    let reported =
        |queue: &TenantQueue| (queue.tenant.to_string(), queue.band, queue.ready, queue.blocked, queue.quota);
    let queues: Vec<_> = fixture.scheduler.queues().iter().map(reported).collect();
    let expected = [("art".to_owned(), Band::High, 0, 1, 0), ("physics".to_owned(), Band::Normal, 0, 2, 0)];
    assert_eq!(queues, expected);
    let rows = fixture.scheduler.blocked(9);
    let reported: Vec<_> = rows.iter().map(|row| (row.first, row.jobs, row.resources.cpu_m)).collect();
    assert_eq!(reported, [(id(4), 1, 3000), (id(2), 2, 2000)], "the more urgent band first, where both wait as long");
    assert_eq!(fixture.scheduler.blocked(1).len(), 1);
}

/// What a worker says that it lacks, in words.
fn lacks(why: &Explanation, worker: usize) -> String {
    why.workers[worker].lacks().collect::<Vec<_>>().join("; ")
}

#[test]
fn an_explanation_names_devices_counters_labels_and_runtimes_that_are_missing() {
    let mut fixture = Fixture::new(Config::default());
    let mut machine = offer(2000);
    machine.labels.insert("zone".to_owned(), "b".to_owned());
    fixture.worker("w1", machine);
    let mut devices = spec(1000);
    devices.resources.gpus.count = 2;
    devices.resources.extras.insert("licence".to_owned(), 3);
    fixture.submit(1, devices.clone());
    let why = fixture.scheduler.explain(id(1)).unwrap();
    assert_eq!((why.workers[0].misfit, why.is_infeasible()), (Some(Misfit::NeverFits), true));
    insta::assert_snapshot!(lacks(&why, 0), @"licence: needs 3, free 0 of 0; gpu: needs 2, free 0 of 0");
    // Others have some of it by now, this one has not.
    let mut rich = offer(2000);
    rich.extras.insert("licence".to_owned(), 1);
    fixture.worker("w2", rich);
    let why = fixture.scheduler.explain(id(1)).unwrap();
    insta::assert_snapshot!(lacks(&why, 1), @"licence: needs 3, free 1 of 1; gpu: needs 2, free 0 of 0");
    let mut placed = spec(1000);
    placed.runtime = crate::job::Runtime::Docker;
    placed.requires.features.insert("tpm".to_owned());
    for (key, values) in [("zone", vec!["a"]), ("rack", vec!["7"])] {
        let values = values.into_iter().map(str::to_owned).collect();
        placed.requires.labels.push(LabelExpr { key: key.to_owned(), op: Operator::In, values });
    }
    fixture.submit(2, placed);
    let why = fixture.scheduler.explain(id(2)).unwrap();
    assert_eq!(why.workers[0].misfit, Some(Misfit::Labels), "the first filter");
    insta::assert_snapshot!(lacks(&why, 0), @"label: needs zone = a, it is `b`; label: needs rack = 7, it is not set; feature: needs `tpm`; runtime: needs `docker`, it has process");
}

#[test]
fn a_gang_that_no_workers_could_hold_together_is_hopeless() {
    let mut fixture = Fixture::new(Config::default());
    for name in ["w1", "w2"] {
        fixture.worker(name, offer(2000));
    }
    fixture.submit(1, spec(1000));
    fixture.round();
    for (number, size, hopeless) in [(2, 4, false), (3, 5, true)] {
        let mut gang = spec(1000);
        gang.gang = Some(crate::job::Gang { size, max_per_worker: None, same_label: None });
        fixture.submit(number, gang);
        let why = fixture.scheduler.explain(id(number)).unwrap();
        assert_eq!(why.is_infeasible(), hopeless, "{:?}", why.gang);
        let said = why.gang.unwrap().to_string();
        assert_eq!(said, format!("gang: needs {size} members at once, 3 fit now, 4 fit the whole fleet"));
    }
    let mut pair = spec(1000);
    pair.gang = Some(crate::job::Gang { size: 2, max_per_worker: Some(1), same_label: Some("rack".to_owned()) });
    fixture.submit(4, pair);
    assert!(fixture.scheduler.explain(id(4)).unwrap().is_infeasible(), "no worker has the label");
    fixture.must(Event::WorkerDeclared { id: "w3".parse().unwrap() });
    assert!(!fixture.scheduler.explain(id(3)).unwrap().is_infeasible(), "nobody knows yet what it has");
}
