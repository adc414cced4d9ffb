//! The edges: sixteen dimensions and no more (2.2), amounts that nobody has, amounts of nothing, fleets of none and one, what
//! comes twice, and time that runs backwards or to its end. Nothing of it may panic (2.1).

use orlop_core::error::Class;
use orlop_core::hardware::gpu::{ModelKey, Vendor};
use orlop_core::machine::job::JobState;
use orlop_core::machine::verdict::ReportVerdict;
use orlop_core::machine::worker::WorkerState;

use super::fixture::{Fixture, id, offer, spec};
use crate::config::{Config, Policy};
use crate::effect::Effect;
use crate::engine::{FleetUse, Misfit, Scheduler};
use crate::event::{ArraySpec, Capabilities, DrainOrder, Event, GpuDevices, Kept, Outcome, Quota, StartWindow};
use crate::job::{Demand, Gang, Prefer, Priority};

const NOTHING: [u64; 0] = [];

/// A worker with counters of these names, one of each.
fn with_extras(names: std::ops::Range<u32>) -> Capabilities {
    Capabilities { extras: names.map(|name| (format!("x{name:02}"), 1)).collect(), ..offer(4000) }
}

fn asking(extra: &str, amount: u64) -> Demand {
    let mut spec = spec(100);
    spec.resources.extras.insert(extra.to_owned(), amount);
    spec
}

fn gpu(name: &str, count: u32) -> GpuDevices {
    GpuDevices { vendor: Vendor::Nvidia, model: ModelKey::new(name).unwrap(), memory_bytes: 1, count }
}

#[test]
fn thirteen_kinds_and_counters_beside_cpu_memory_and_slots() {
    let mut fixture = Fixture::new(Config::default());
    let mut first = with_extras(0..6);
    first.gpus = ["a", "b", "c"].map(|name| gpu(name, 1)).to_vec();
    fixture.worker("w1", first);
    // The same names again take no more columns.
    fixture.worker("w2", with_extras(0..10));
    fixture.submit(1, asking("x09", 1));
    let mut job = asking("x05", 1);
    job.resources.gpus.count = 1;
    fixture.submit(2, job);
    assert_eq!(fixture.starts(), [1, 2], "the sixteenth dimension counts like the others");
    fixture.submit(3, asking("x09", 1));
    assert!(fixture.starts().is_empty());
    let why = fixture.scheduler.explain(id(3)).unwrap();
    let lacking: Vec<String> = why.workers[1].lacking.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(lacking.join("; "), @"x09: needs 1, free 0 of 1");
}

#[test]
fn a_worker_beyond_sixteen_dimensions_is_refused_and_uses_nothing_up() {
    let mut fixture = Fixture::new(Config::default());
    let known = fixture.worker("w1", with_extras(0..12));
    fixture.must(Event::WorkerDeclared { id: "w2".parse().unwrap() });
    let worker = fixture.scheduler.worker_key(&"w2".parse().unwrap()).unwrap();
    let registered = |offer: Capabilities| Event::Registered { worker, capabilities: offer.into() };
    let error = fixture.apply(registered(with_extras(11..14))).unwrap_err();
    insta::assert_snapshot!(error, @"worker `w2`: no column is left for `x13`: the fleet has 13 kinds of GPUs and extras; advertise fewer");
    assert_eq!(error.class(), Class::Capacity);
    assert_eq!(fixture.scheduler.worker_view(worker).unwrap().state, WorkerState::Creating, "it may try again");
    // A worker that has its place may not grow beyond either, and keeps what it had.
    let grown = Event::Updated { worker: known, capabilities: with_extras(0..14).into() };
    assert!(fixture.apply(grown).is_err());
    fixture.submit(1, asking("x11", 1));
    assert_eq!(fixture.starts(), [1]);
    // One column is left, whatever the refused ones asked for.
    fixture.must(registered(with_extras(20..21)));
    fixture.must(Event::Connected { worker, kept: vec![] });
    fixture.submit(2, asking("x20", 1));
    assert_eq!(fixture.starts(), [2]);
}

#[test]
fn amounts_that_nobody_has_never_fit_and_never_wrap() {
    for policy in Policy::ALL {
        let mut fixture = Fixture::new(Config { policy, ..Config::default() });
        let mut vast = with_extras(0..1);
        (vast.cpu_m, vast.memory_bytes, vast.max_jobs) = (u64::MAX, u64::MAX, u32::MAX);
        vast.extras.insert("x00".to_owned(), u64::MAX);
        // Two entries of one kind add up.
        vast.gpus = vec![gpu("a", u32::MAX), gpu("a", u32::MAX)];
        for name in ["w1", "w2", "w3"] {
            fixture.worker(name, vast.clone());
        }
        let most = u64::MAX;
        let asks: [fn(&mut Demand, u64); 4] = [
            |spec, most| spec.resources.cpu_m = most,
            |spec, most| spec.resources.memory_bytes = most,
            |spec, most| spec.resources.extras.extend([("x00".to_owned(), most)]),
            |spec, _| spec.resources.gpus.count = u32::MAX,
        ];
        for (number, ask) in (1..).zip(asks) {
            let mut job = spec(1);
            ask(&mut job, most);
            fixture.submit(number, job);
        }
        assert_eq!(fixture.starts(), NOTHING, "{policy:?}: what was cut stays what nobody has");
        let why = fixture.scheduler.explain(id(1)).unwrap();
        assert_eq!(why.counts.get(&Misfit::NeverFits), Some(&3));
        // Most of what there is fits, and so does the rest of it.
        let mut large = spec(i32::MAX as u64 - 2);
        large.resources.gpus.count = 1 << 30;
        fixture.submit(10, large);
        fixture.submit(11, spec(1));
        assert_eq!(fixture.starts(), [10, 11]);
        let fleet = fixture.scheduler.fleet_use();
        assert!(fleet.cpu > 0.3 && fleet.cpu < 0.4 && fleet.memory < 0.01, "{fleet:?}");
        assert_eq!(fixture.scheduler.demand().len(), 4);
    }
}

#[test]
fn extreme_limits_and_arrays_saturate() {
    let mut fixture = Fixture::new(Config::default());
    fixture.worker("w1", offer(4000));
    let most = Some(u64::MAX);
    let quota = Quota {
        max_pending_jobs: most,
        max_active_jobs: most,
        submit_per_second: most,
        max_running_jobs: most,
        max_cpu_m: most,
        // A limit rounds down to mebibytes and a request up: not even the greatest limit allows the greatest request.
        max_memory_bytes: None,
        max_gpus: most,
        max_array: most,
        on_exceed: crate::event::OnExceed::Deny,
        ..Quota::default()
    };
    fixture.must(Event::QuotaChanged { tenant: "t".parse().unwrap(), quota });
    let mut huge = spec(u64::MAX);
    huge.resources.memory_bytes = u64::MAX;
    huge.resources.gpus.count = u32::MAX;
    let array =
        ArraySpec { indices: vec![(u32::MAX - 9_999_999, u32::MAX)], max_parallel: Some(1), max_failures: Some(0) };
    for number in 1..=2 {
        let event = Event::SubmitArray {
            job: id(number),
            spec: huge.clone().into(),
            gate: StartWindow::default(),
            array: array.clone(),
        };
        fixture.must(event);
    }
    fixture.submit(3, Demand { gang: Some(Gang { size: 4096, max_per_worker: Some(4096), same_label: None }), ..huge });
    fixture.submit(4, spec(1000));
    assert_eq!(fixture.starts(), [4]);
    let tenant = fixture.scheduler.tenant(&"t".parse().unwrap()).unwrap();
    assert_eq!(tenant.active, 20_000_002);
    (1..=3).for_each(|number| fixture.must(Event::Cancel { job: id(number), elements: None }));
    assert_eq!(fixture.scheduler.tenant(&"t".parse().unwrap()).unwrap().active, 1);
}

#[test]
fn a_request_of_nothing_takes_a_slot_only() {
    let mut fixture = Fixture::new(Config::default());
    let zero = spec(0);
    let event = Event::Submit { job: id(1), spec: zero.into(), gate: StartWindow::default() };
    insta::assert_snapshot!(fixture.apply(event).unwrap_err(), @"job j0000100000001: resources.cpu_m is 0; use 1 or more");
    let worker = fixture.worker("w1", Capabilities { memory_bytes: 0, max_jobs: 2, ..offer(1) });
    let mut job = asking("nobody-has-it", 0);
    (job.resources.cpu_m, job.resources.memory_bytes) = (1, 0);
    fixture.submit(1, job.clone());
    assert_eq!(fixture.starts(), [1], "no memory is asked for, and none of the counter");
    let view = fixture.scheduler.worker_view(worker).unwrap();
    assert_eq!((view.attempts, view.cpu, view.memory), (1, 1.0, 0.0));
    fixture.worker("w2", Capabilities { max_jobs: 0, ..offer(1000) });
    fixture.submit(2, job);
    assert!(fixture.starts().is_empty(), "one has no cpu, the other takes no jobs");
}

#[test]
fn without_workers_everything_waits_and_everything_answers() {
    for policy in Policy::ALL {
        let mut fixture = Fixture::new(Config { policy, preemption: true, ..Config::default() });
        assert!(fixture.round().is_empty(), "nor jobs");
        assert_eq!(fixture.scheduler.next_deadline(), None);
        assert_eq!(fixture.scheduler.fleet_use(), FleetUse::default());
        fixture.submit(1, Demand { priority: Priority(0), ..spec(1000) });
        fixture.submit(2, Demand { gang: Some(Gang { size: 2, max_per_worker: None, same_label: None }), ..spec(1) });
        let label = orlop_core::hardware::placement::LabelExpr {
            key: "zone".to_owned(),
            op: orlop_core::hardware::placement::Operator::Exists,
            values: [].into(),
        };
        fixture.submit(3, Demand { prefers: vec![Prefer { label, weight: 100 }], ..spec(1000) });
        assert!(fixture.round().is_empty());
        fixture.now = 60_000;
        assert!(fixture.round().is_empty());
        assert_eq!(fixture.scheduler.reservations().count(), 0);
        let why = fixture.scheduler.explain(id(1)).unwrap();
        assert_eq!((why.workers.len(), why.nearest, why.is_infeasible()), (0, None, true));
        assert_eq!(fixture.scheduler.demand().iter().map(|demand| demand.waiting).sum::<u64>(), 4);
        let restored = Scheduler::restore(fixture.scheduler.snapshot(), Config::default()).unwrap();
        assert_eq!(restored.demand(), fixture.scheduler.demand());
        // The first worker takes what fits it.
        fixture.worker("w1", offer(1000));
        assert_eq!(fixture.starts(), [1], "{policy:?}");
    }
}

#[test]
fn one_worker_is_every_policys_choice() {
    for policy in Policy::ALL {
        let mut fixture = Fixture::new(Config { policy, ..Config::default() });
        let worker = fixture.worker("w1", offer(3000));
        (1..=4).for_each(|number| fixture.submit(number, spec(1000)));
        let sent = fixture.round();
        assert_eq!(sent.len(), 3, "{policy:?}");
        assert!(sent.iter().all(|(_, on)| *on == worker));
        fixture.result(sent[2].0, worker, Outcome::Failed { exit_code: None });
        assert_eq!(fixture.starts(), [4]);
    }
}

#[test]
fn what_comes_twice_is_answered_twice_and_done_once() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(4000));
    fixture.submit(1, spec(1000));
    let array = ArraySpec { indices: vec![(0, 1)], ..ArraySpec::default() };
    let again = Event::SubmitArray { job: id(1), spec: spec(1).into(), gate: StartWindow::default(), array };
    assert!(fixture.apply(again).is_err(), "an array does not take a job's id either");
    let (attempt, _) = fixture.round()[0];
    for _ in 0..2 {
        fixture.must(Event::Accepted { attempt, worker });
        fixture.effects.clear();
        fixture.must(Event::Started { attempt, worker });
        assert_eq!((fixture.verdict(), fixture.state(1)), (ReportVerdict::Accepted, JobState::Running));
    }
    fixture.must(Event::ConnectionLost { worker });
    let kept = vec![Kept { attempt, started: true }; 3];
    fixture.effects.clear();
    fixture.must(Event::Connected { worker, kept });
    assert_eq!((fixture.state(1), fixture.scheduler.worker_view(worker).unwrap().attempts), (JobState::Running, 1));
    for _ in 0..2 {
        fixture.must(Event::Cordon { worker });
        fixture.must(Event::Drain { worker, order: DrainOrder::default() });
    }
    assert_eq!(fixture.result(attempt, worker, Outcome::Succeeded), ReportVerdict::Accepted);
    assert_eq!(fixture.result(attempt, worker, Outcome::TimedOut), ReportVerdict::Duplicate);
    let finished = |effect: &&Effect| matches!(effect, Effect::Finished { .. });
    assert_eq!(fixture.effects.iter().filter(finished).count(), 0);
    assert_eq!(
        (fixture.state(1), fixture.scheduler.worker_view(worker).unwrap().state),
        (JobState::Completed, WorkerState::Terminated)
    );
}

#[test]
fn time_that_runs_backwards_counts_as_none() {
    let mut fixture = Fixture::new(Config::default());
    fixture.now = 100_000;
    let worker = fixture.worker("w1", offer(1000));
    fixture.submit(1, spec(1000));
    let (attempt, _) = fixture.round()[0];
    fixture.now = 0;
    fixture.start(attempt, worker);
    assert_eq!(fixture.scheduler.now(), 100_000);
    // A gate is a time of the host, and this one is over; a wait counts from the latest time seen.
    let gate = StartWindow { not_before: Some(50_000), queue_timeout: Some(10) };
    fixture.must(Event::Submit { job: id(2), spec: spec(1000).into(), gate });
    assert_eq!((fixture.state(2), fixture.scheduler.job(id(2), None).unwrap().submitted), (JobState::Queued, 100_000));
    assert!(fixture.round().is_empty());
    assert_eq!(fixture.scheduler.now(), 100_000, "rounds do not turn it back either");
    fixture.now = 100_009;
    fixture.must(Event::Tick);
    assert_eq!(fixture.state(2), JobState::Queued);
    fixture.now = 100_010;
    fixture.must(Event::Tick);
    assert_eq!(fixture.state(2), JobState::Failed);
}

#[test]
fn the_end_of_time_overflows_nothing() {
    let mut fixture = Fixture::new(Config { preemption: true, ..Config::default() });
    fixture.now = u64::MAX - 20_000;
    let worker = fixture.worker("w1", offer(2000));
    let job =
        Demand { timeout_ms: u64::MAX, grace_ms: u64::MAX, preemptible: true, priority: Priority(9), ..spec(1000) };
    let gate = StartWindow { not_before: None, queue_timeout: Some(u64::MAX) };
    for number in 1..=3 {
        fixture.must(Event::Submit { job: id(number), spec: job.clone().into(), gate });
    }
    for (attempt, worker) in fixture.round() {
        fixture.start(attempt, worker);
    }
    fixture.must(Event::Submit {
        job: id(4),
        spec: spec(1).into(),
        gate: StartWindow { not_before: Some(u64::MAX), queue_timeout: None },
    });
    for (number, now) in (10..).zip([u64::MAX - 10_000, u64::MAX - 1, u64::MAX, u64::MAX]) {
        fixture.now = now;
        fixture.must(Event::Heartbeat { worker });
        fixture.must(Event::Tick);
        fixture.submit(number, Demand { priority: Priority(0), ..spec(2000) });
        fixture.round();
        let deadline = fixture.scheduler.next_deadline();
        assert!(deadline.is_none_or(|at| at >= u64::MAX - 20_000), "{deadline:?}");
    }
    assert_ne!(fixture.state(4), JobState::Pending, "its time has come");
}
