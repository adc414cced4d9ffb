//! Prefill.

use std::sync::Arc;

use orlop_core::machine::job::JobState;
use orlop_core::machine::verdict::ReportVerdict;
use orlop_core::machine::worker::WorkerState;
use orlop_core::task::TaskRef;

use super::fixture::{Fixture, id, offer, spec};
use crate::config::Config;
use crate::effect::{Effect, StartMode};
use crate::event::{ArraySpec, Capabilities, DrainOrder, Event, Kept, Outcome, Quota, StartWindow};
use crate::job::{Demand, Priority};
use crate::token::WorkerKey;

type Sent = (TaskRef, WorkerKey);

/// A worker of so many millicores on which four jobs of tenant `t` and 500m have run for 4 to 8 ms; the round trip is
/// known and the horizon at its least, 20 ms: a window of four per slot.
fn fed(config: Config, cpu_m: u64) -> (Fixture, WorkerKey) {
    let mut fixture = Fixture::new(config);
    let worker = fixture.worker("w1", offer(cpu_m));
    run_four(&mut fixture, worker, 4, &spec(500));
    fixture.must(Event::RoundTrip { worker, micros: 100 });
    (fixture, worker)
}

/// Four jobs run for so many milliseconds.
fn run_four(fixture: &mut Fixture, worker: WorkerKey, millis: u64, spec: &Demand) {
    for number in 901..905 {
        fixture.submit(number, spec.clone());
        let (attempt, _) = fixture.round()[0];
        fixture.start(attempt, worker);
        fixture.now += millis;
        fixture.result(attempt, worker, Outcome::Succeeded);
    }
}

fn submit(fixture: &mut Fixture, numbers: std::ops::RangeInclusive<u64>, spec: &Demand) {
    numbers.for_each(|number| fixture.submit(number, spec.clone()));
}

/// What is among the effects: starts at once and starts ahead.
fn sent(fixture: &Fixture) -> (Vec<u64>, Vec<u64>) {
    let of = |wanted: StartMode| {
        let each = fixture.effects.iter().filter_map(move |effect| match effect {
            Effect::Assign { attempt, start, .. } if *start == wanted => Some(attempt.job.counter()),
            _ => None,
        });
        each.collect::<Vec<_>>()
    };
    (of(StartMode::Now), of(StartMode::Inherit))
}

/// Who got the slot of whom.
fn inherited(fixture: &Fixture) -> Vec<(u64, Option<u64>)> {
    let each = fixture.effects.iter().filter_map(|effect| match effect {
        Effect::Inherited { attempt, from, .. } => Some((attempt.job.counter(), from.map(|from| from.job.counter()))),
        _ => None,
    });
    each.collect()
}

fn revoked(fixture: &Fixture) -> Vec<u64> {
    let each = fixture.effects.iter().filter_map(|effect| match effect {
        Effect::Revoke { attempt, .. } => Some(attempt.job.counter()),
        _ => None,
    });
    each.collect()
}

/// One slot, one job that runs, the next four sent ahead.
fn one_slot() -> (Fixture, WorkerKey, Vec<Sent>) {
    let (mut fixture, worker) = fed(Config::default(), 500);
    submit(&mut fixture, 1..=20, &spec(500));
    let all = fixture.round();
    assert_eq!(sent(&fixture), (vec![1], vec![2, 3, 4, 5]));
    fixture.start(all[0].0, worker);
    (fixture, worker, all)
}

#[test]
fn a_worker_is_fed_what_its_slots_will_do_within_the_horizon() {
    let (mut fixture, worker) = fed(Config::default(), 1000);
    submit(&mut fixture, 1..=100, &spec(500));
    fixture.round();
    // Two slots × 20 ms ÷ 6 ms, rounded up.
    assert_eq!(sent(&fixture), (vec![1, 2], (3..=9).collect()));
    let view = fixture.scheduler.worker_view(worker).unwrap();
    assert_eq!((view.attempts, view.waiting, view.cpu), (2, 7, 1.0), "who waits holds nothing");
    assert!(fixture.scheduler.job(id(3), None).unwrap().waiting);
    assert_eq!(fixture.scheduler.tenant(&"t".parse().unwrap()).unwrap().running, 2);
    assert_eq!(fixture.round(), [], "the window is full");
}

#[test]
fn nothing_is_sent_ahead_of_who_is_not_known_to_be_fast() {
    let (mut fixture, _) = fed(Config { prefill_max: 0, ..Config::default() }, 500);
    submit(&mut fixture, 1..=20, &spec(500));
    fixture.round();
    assert_eq!(sent(&fixture).1, [0_u64; 0], "it is switched off");
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(500));
    run_four(&mut fixture, worker, 4, &spec(500));
    submit(&mut fixture, 1..=20, &spec(500));
    fixture.round();
    assert_eq!(sent(&fixture).1, [0_u64; 0], "the round trip is not known");
    fixture.must(Event::RoundTrip { worker, micros: 100 });
    fixture.round();
    assert_eq!(sent(&fixture).1, [2, 3, 4, 5]);
}

#[test]
fn window_is_zero_above_h() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(500));
    run_four(&mut fixture, worker, 40, &spec(500));
    fixture.must(Event::RoundTrip { worker, micros: 100 });
    submit(&mut fixture, 1..=20, &spec(500));
    fixture.round();
    assert_eq!(sent(&fixture), (vec![1], vec![]), "32 to 64 ms are more than 20 ms");
    fixture.must(Event::TurnTime { micros: 20_000 });
    let (attempt, _) = (fixture.scheduler.job(id(1), None).unwrap(), worker);
    assert_eq!(attempt.attempt, 1);
    // A change at the worker makes it look again: the horizon is 80 ms now.
    fixture.must(Event::Submit { job: id(50), spec: std::sync::Arc::new(spec(500)), gate: StartWindow::default() });
    fixture.round();
    assert_eq!(sent(&fixture).1.len(), 2, "80 ms ÷ 48 ms, rounded up");
}

#[test]
fn a_run_takes_as_long_as_its_worker_says_however_late_that_is_heard() {
    // Gathered news: of some runs start and end come together, of others the end comes later.
    for heard_after in [0, 8, 40] {
        let mut fixture = Fixture::new(Config::default());
        let worker = fixture.worker("w1", offer(500));
        for number in 901..905 {
            fixture.submit(number, spec(500));
            let (attempt, _) = fixture.round()[0];
            if number % 2 == 0 {
                fixture.start(attempt, worker);
            }
            fixture.now += heard_after;
            fixture.must(Event::Result { attempt, worker, outcome: Outcome::Succeeded, ran_ms: Some(4) });
        }
        fixture.must(Event::RoundTrip { worker, micros: 100 });
        submit(&mut fixture, 1..=20, &spec(500));
        fixture.round();
        assert_eq!(
            sent(&fixture),
            (vec![1], vec![2, 3, 4, 5]),
            "20 ms ÷ 6 ms, rounded up, heard after {heard_after} ms"
        );
    }
}

#[test]
fn without_results_the_expected_time_counts() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(500));
    fixture.must(Event::RoundTrip { worker, micros: 100 });
    submit(&mut fixture, 1..=9, &spec(500));
    fixture.round();
    assert_eq!(sent(&fixture), (vec![1], vec![]));
    let quick = Demand { expected_ms: Some(10), ..spec(400) };
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(400));
    fixture.must(Event::RoundTrip { worker, micros: 100 });
    submit(&mut fixture, 1..=9, &quick);
    fixture.round();
    assert_eq!(sent(&fixture), (vec![1], vec![2, 3]));
}

#[test]
fn an_end_passes_the_slot_to_the_oldest_that_waits() {
    let (mut fixture, worker, all) = one_slot();
    assert_eq!(fixture.result(all[0].0, worker, Outcome::Succeeded), ReportVerdict::Accepted);
    assert_eq!(inherited(&fixture), [(2, Some(1))]);
    let view = fixture.scheduler.worker_view(worker).unwrap();
    assert_eq!((view.attempts, view.waiting, view.cpu), (1, 3, 1.0));
    assert_eq!(fixture.scheduler.tenant(&"t".parse().unwrap()).unwrap().running, 1, "one charge went over");
    fixture.start(all[1].0, worker);
    assert_eq!(fixture.state(2), JobState::Running);
    assert_eq!(fixture.starts(), [6], "the window has room for one more");
}

#[test]
fn an_end_without_anybody_waiting_frees_the_slot() {
    let (mut fixture, worker) = fed(Config::default(), 500);
    fixture.submit(1, spec(500));
    let (attempt, _) = fixture.round()[0];
    fixture.result(attempt, worker, Outcome::Succeeded);
    assert_eq!((inherited(&fixture), fixture.scheduler.worker_view(worker).unwrap().cpu), (vec![], 0.0));
}

#[test]
fn an_unstarted_end_passes_the_slot_as_well() {
    let (mut fixture, worker) = fed(Config::default(), 500);
    submit(&mut fixture, 1..=20, &spec(500));
    let all = fixture.round();
    fixture.effects.clear();
    fixture.must(Event::Rejected { attempt: all[0].0, worker, permanent: false });
    assert_eq!(inherited(&fixture), [(2, Some(1))]);
    fixture.effects.clear();
    fixture.must(Event::Rejected { attempt: all[2].0, worker, permanent: false });
    assert_eq!(inherited(&fixture), [], "who waited had nothing to pass on");
    assert_eq!(fixture.scheduler.worker_view(worker).unwrap().waiting, 2);
}

#[test]
fn a_start_before_its_inheritance_is_heard_of_is_counted() {
    let (mut fixture, worker, all) = one_slot();
    fixture.effects.clear();
    fixture.must(Event::Started { attempt: all[1].0, worker });
    assert_eq!(inherited(&fixture), [(2, None)]);
    assert_eq!(
        fixture.scheduler.worker_view(worker).unwrap().attempts,
        2,
        "what runs is counted, even above what there is"
    );
    fixture.result(all[0].0, worker, Outcome::Succeeded);
    fixture.result(all[1].0, worker, Outcome::Succeeded);
    assert_eq!(fixture.scheduler.worker_view(worker).unwrap().attempts, 2, "each passed its slot on");
}

#[test]
fn nobody_waits_for_a_slot_where_devices_of_several_kinds_would_do() {
    let wants = |names: &[&str]| {
        let mut spec = spec(500);
        spec.resources.gpus.count = 1;
        spec.resources.gpus.any_of = names.iter().map(|name| super::devices::kind(name)).collect();
        spec
    };
    for (names, ahead) in [(&["a100"][..], 4), (&["a100", "h100"], 0)] {
        let mut fixture = Fixture::new(Config::default());
        let worker = fixture.worker("w1", super::devices::machine(&[("a100", 1), ("h100", 1)]));
        run_four(&mut fixture, worker, 4, &wants(names));
        fixture.must(Event::RoundTrip { worker, micros: 100 });
        submit(&mut fixture, 1..=20, &wants(names));
        fixture.round();
        assert_eq!((sent(&fixture).0.len(), sent(&fixture).1.len()), (names.len(), ahead), "{names:?}");
    }
}

#[test]
fn a_quota_is_neither_exceeded_nor_in_the_way() {
    let (mut fixture, worker) = fed(Config::default(), 2000);
    fixture.must(Event::QuotaChanged {
        tenant: "t".parse().unwrap(),
        quota: Quota { max_running_jobs: Some(1), ..Quota::default() },
    });
    submit(&mut fixture, 1..=20, &spec(500));
    let all = fixture.round();
    assert_eq!(sent(&fixture), (vec![1], vec![2, 3, 4, 5]), "who inherits needs no room of its own");
    fixture.result(all[0].0, worker, Outcome::Succeeded);
    assert_eq!(fixture.scheduler.tenant(&"t".parse().unwrap()).unwrap().running, 1);
}

#[test]
fn a_better_claim_that_the_slot_could_serve_goes_first() {
    let (mut fixture, worker) = fed(Config::default(), 500);
    submit(&mut fixture, 2..=20, &spec(500));
    fixture.submit(1, Demand { priority: Priority(4), ..spec(400) });
    let first = fixture.round();
    assert_eq!(sent(&fixture), (vec![1], vec![]), "nobody runs whose slot could be inherited");
    fixture.submit(21, Demand { priority: Priority(4), ..spec(450) });
    fixture.result(first[0].0, worker, Outcome::Succeeded);
    let second = fixture.round();
    assert_eq!(sent(&fixture).0, [21]);
    fixture.result(second[0].0, worker, Outcome::Succeeded);
    let third = fixture.round();
    assert_eq!(sent(&fixture), (vec![2], vec![3, 4, 5, 6]), "without competition");
    fixture.result(third[0].0, worker, Outcome::Succeeded);
    fixture.submit(22, Demand { priority: Priority(4), ..spec(300) });
    fixture.round();
    assert_eq!(sent(&fixture).1, [0_u64; 0], "no more while the other waits");
    let other = Demand { priority: Priority(4), ..spec(501) };
    let (mut fixture, _) = fed(Config::default(), 500);
    submit(&mut fixture, 1..=20, &spec(500));
    fixture.submit(21, other);
    fixture.round();
    assert_eq!(sent(&fixture).1, [2, 3, 4, 5], "the slot could not serve that one");
}

#[test]
fn more_urgent_work_takes_back_what_waits() {
    let (mut fixture, worker, all) = one_slot();
    fixture.submit(30, Demand { priority: Priority(2), ..spec(500) });
    fixture.round();
    assert_eq!(revoked(&fixture), [2, 3, 4, 5]);
    for (attempt, _) in &all[1..] {
        fixture.must(Event::Revoked { attempt: *attempt, worker });
    }
    fixture.result(all[0].0, worker, Outcome::Succeeded);
    assert_eq!(fixture.starts()[0], 30);
}

#[test]
fn an_idle_worker_takes_what_waits_elsewhere_once_the_queue_is_empty() {
    let (mut fixture, worker) = fed(Config::default(), 500);
    submit(&mut fixture, 1..=9, &spec(500));
    let all = fixture.round();
    assert_eq!(sent(&fixture), (vec![1], vec![2, 3, 4, 5]));
    fixture.must(Event::Cancel { job: id(6), elements: None });
    fixture.must(Event::Cancel { job: id(7), elements: None });
    fixture.must(Event::Cancel { job: id(8), elements: None });
    fixture.worker("w2", offer(500));
    fixture.round();
    assert_eq!((sent(&fixture).0, revoked(&fixture)), (vec![9], vec![]));
    fixture.worker("w3", offer(1000));
    fixture.round();
    assert_eq!(revoked(&fixture), [5, 4], "as many as have room there, the youngest first");
    assert!(fixture.round().is_empty() && revoked(&fixture).is_empty(), "once is enough");
    fixture.must(Event::Revoked { attempt: all[4].0, worker });
    fixture.must(Event::Revoked { attempt: all[3].0, worker });
    assert_eq!(fixture.starts(), [4, 5]);
}

#[test]
fn a_drain_and_a_cancel_take_back_what_waits() {
    let (mut fixture, worker, all) = one_slot();
    fixture.effects.clear();
    fixture.must(Event::Cancel { job: id(3), elements: None });
    assert_eq!((revoked(&fixture), fixture.state(3)), (vec![3], JobState::Cancelling));
    fixture.must(Event::Revoked { attempt: all[2].0, worker });
    assert_eq!(fixture.state(3), JobState::Cancelled);
    fixture.effects.clear();
    fixture.must(Event::Drain { worker, order: DrainOrder::default() });
    assert_eq!(revoked(&fixture), [2, 4, 5]);
    fixture.result(all[0].0, worker, Outcome::Succeeded);
    assert_eq!(inherited(&fixture), [(2, Some(1))], "the worker has started it by the time it hears of the revoke");
    for at in [1, 3, 4] {
        fixture.must(Event::Revoked { attempt: all[at].0, worker });
    }
    assert_eq!(fixture.scheduler.worker_view(worker).unwrap().state, WorkerState::Terminated);
    assert_eq!(fixture.state(2), JobState::Queued);
}

#[test]
fn arrays_stay_within_their_window_and_gangs_are_not_sent_ahead() {
    let (mut fixture, worker) = fed(Config::default(), 500);
    let array = ArraySpec { indices: vec![(0, 99)], max_parallel: Some(3), max_failures: None };
    fixture.must(Event::SubmitArray {
        job: id(1),
        spec: std::sync::Arc::new(spec(500)),
        gate: StartWindow::default(),
        array,
    });
    let all = fixture.round();
    assert_eq!(all.iter().map(|(attempt, _)| attempt.index).collect::<Vec<_>>(), [0, 1, 2]);
    fixture.result(all[0].0, worker, Outcome::Succeeded);
    assert_eq!(fixture.round().iter().map(|(attempt, _)| attempt.index).collect::<Vec<_>>(), [3]);
}

#[test]
fn a_lost_worker_loses_what_waits_and_a_late_start_is_adopted() {
    let (mut fixture, worker, all) = one_slot();
    fixture.must(Event::ConnectionLost { worker });
    fixture.wait(30_000);
    assert_eq!(
        (fixture.state(1), fixture.state(2), fixture.state(5)),
        (JobState::Queued, JobState::Queued, JobState::Queued)
    );
    fixture.effects.clear();
    let kept = |attempt, started| Kept { attempt, started };
    fixture.must(Event::Connected { worker, kept: vec![kept(all[1].0, true), kept(all[2].0, false)] });
    assert_eq!(fixture.verdict_of(all[1].0), ReportVerdict::Adopted, "it inherited of the first, which is gone");
    let view = fixture.scheduler.worker_view(worker).unwrap();
    assert_eq!((fixture.state(2), view.attempts, view.cpu), (JobState::Running, 1, 1.0));
}

#[test]
fn after_a_reconnect_what_has_not_started_is_taken_back() {
    let (mut fixture, worker, all) = one_slot();
    fixture.must(Event::ConnectionLost { worker });
    fixture.effects.clear();
    let kept = all.iter().map(|(attempt, _)| Kept { attempt: *attempt, started: attempt.job == id(1) }).collect();
    fixture.must(Event::Connected { worker, kept });
    assert_eq!(revoked(&fixture), [2, 3, 4, 5]);
    assert_eq!(fixture.state(1), JobState::Running);
}

/// The two sides may not agree on who is the oldest, for example after a restart: the worker tells who inherited.
#[test]
fn after_a_reconnect_the_slot_of_who_is_gone_is_that_of_who_runs() {
    let (mut fixture, worker, all) = one_slot();
    fixture.must(Event::ConnectionLost { worker });
    fixture.effects.clear();
    let kept = |at: usize, started| Kept { attempt: all[at].0, started };
    fixture.must(Event::Connected { worker, kept: vec![kept(1, false), kept(3, true), kept(2, false)] });
    assert_eq!(inherited(&fixture), [(4, Some(1))]);
    let view = fixture.scheduler.worker_view(worker).unwrap();
    assert_eq!((fixture.state(4), view.attempts, view.cpu), (JobState::Running, 1, 1.0));
}

/// A new session brings nothing of what the old one did not deliver.
#[test]
fn a_revoke_is_said_again_over_a_reconnect() {
    let (mut fixture, worker, all) = one_slot();
    let mut other = Fixture::new(Config::default());
    let unaccepted = other.worker("w1", offer(1000));
    other.submit(1, spec(500));
    other.submit(2, spec(500));
    let assigned = other.round();
    other.must(Event::Cancel { job: id(2), elements: None });
    other.wait(10_000);
    for _ in 0..2 {
        for (fixture, worker, all, expected) in
            [(&mut fixture, worker, &all, &[2, 3, 4, 5][..]), (&mut other, unaccepted, &assigned, &[1, 2])]
        {
            fixture.must(Event::ConnectionLost { worker });
            fixture.effects.clear();
            let started = |attempt: &TaskRef| fixture.state(attempt.job.counter()) == JobState::Running;
            let kept = all.iter().map(|(attempt, _)| Kept { attempt: *attempt, started: started(attempt) }).collect();
            fixture.must(Event::Connected { worker, kept });
            assert_eq!(revoked(fixture), expected);
        }
    }
}

/// What runs goes on where its tenant is not wanted any more, but nobody follows it.
#[test]
fn nothing_is_sent_ahead_where_the_class_may_not_be_placed_any_more() {
    let (mut fixture, worker) = fed(Config::default(), 500);
    submit(&mut fixture, 1..=1, &spec(500));
    let (first, _) = fixture.round()[0];
    fixture.start(first, worker);
    let capabilities = Capabilities { tenants: ["u".parse().unwrap()].into(), ..offer(500) };
    fixture.must(Event::Updated { worker, capabilities: Arc::new(capabilities) });
    submit(&mut fixture, 2..=9, &spec(500));
    fixture.round();
    assert_eq!(sent(&fixture), (vec![], vec![]));
}

#[test]
fn failed_jobs_and_paused_tenants_are_not_sent_ahead_to_the_same_worker() {
    let (mut fixture, worker) = fed(Config::default(), 500);
    submit(&mut fixture, 1..=1, &spec(500));
    let (attempt, _) = fixture.round()[0];
    fixture.must(Event::Rejected { attempt, worker, permanent: false });
    submit(&mut fixture, 2..=9, &Demand { priority: Priority(4), ..spec(500) });
    fixture.round();
    assert_eq!(sent(&fixture).0, [2]);
    fixture.must(Event::Cancel { job: id(9), elements: None });
    let paused = crate::event::TenantSettings { status: crate::event::TenantStatus::Paused, ..Default::default() };
    fixture.must(Event::TenantChanged { tenant: "t".parse().unwrap(), settings: paused });
    fixture.effects.clear();
    fixture.round();
    assert_eq!(sent(&fixture), (vec![], vec![]));
}

#[test]
fn inherited_starts_are_charged_to_their_band() {
    let (mut fixture, worker, all) = one_slot();
    fixture.worker("w2", offer(8000));
    submit(&mut fixture, 101..=110, &Demand { priority: Priority(0), ..spec(500) });
    let one = |fixture: &mut Fixture| {
        fixture.effects.clear();
        let _ = fixture.scheduler.round(fixture.now, 1, &mut fixture.effects);
        sent(fixture).0
    };
    assert_eq!(one(&mut fixture), [101]);
    fixture.result(all[0].0, worker, Outcome::Succeeded);
    assert_eq!(inherited(&fixture), [(2, Some(1))]);
    assert_eq!(one(&mut fixture), [102], "the normal band has had its turn by inheritance");
    // Two thirds and one third: of six starts the normal band has two.
    assert_eq!((one(&mut fixture), one(&mut fixture), one(&mut fixture)), (vec![103], vec![6], vec![104]));
}

#[test]
fn a_start_that_inherits_is_owed_to_ready_bands_though_its_own_is_not() {
    let (mut fixture, worker, all) = one_slot();
    fixture.worker("w2", offer(8000));
    (6..=20).for_each(|number| fixture.must(Event::Cancel { job: id(number), elements: None }));
    submit(&mut fixture, 101..=110, &Demand { priority: Priority(0), ..spec(500) });
    assert_eq!(fixture.scheduler.round(fixture.now, 1, &mut fixture.effects).placed, 1);
    assert_eq!(fixture.scheduler.credit, [0.0; 3], "a lone band takes all");
    fixture.result(all[0].0, worker, Outcome::Succeeded);
    assert_eq!(inherited(&fixture), [(2, Some(1))]);
    assert_eq!(fixture.scheduler.credit, [500.0 / 8500.0, 0.0, 0.0]);
}
