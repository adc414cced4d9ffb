//! Prefill.

use std::sync::Arc;

use orlop_core::machine::job::JobState;
use orlop_core::machine::verdict::Verdict;
use orlop_core::machine::worker::WorkerState;
use orlop_core::task::TaskRef;

use super::bed::{Bed, id, offer, spec};
use crate::config::Config;
use crate::effect::{Effect, Start};
use crate::event::{ArraySpec, Capabilities, DrainOrder, Event, Gate, Kept, Outcome, Quota};
use crate::job::{Demand, Priority};
use crate::token::WorkerKey;

type Sent = (TaskRef, WorkerKey);

/// A worker of so many millicores on which four jobs of tenant `t` and 500m have run for 4 to 8 ms; the round trip is
/// known and the horizon at its least, 20 ms: a window of four per slot.
fn fed(config: Config, cpu_m: u64) -> (Bed, WorkerKey) {
    let mut bed = Bed::new(config);
    let worker = bed.worker("w1", offer(cpu_m));
    run_four(&mut bed, worker, 4, &spec(500));
    bed.must(Event::RoundTrip { worker, micros: 100 });
    (bed, worker)
}

/// Four jobs run for so many milliseconds.
fn run_four(bed: &mut Bed, worker: WorkerKey, millis: u64, spec: &Demand) {
    for number in 901..905 {
        bed.submit(number, spec.clone());
        let (attempt, _) = bed.round()[0];
        bed.start(attempt, worker);
        bed.now += millis;
        bed.result(attempt, worker, Outcome::Succeeded);
    }
}

fn submit(bed: &mut Bed, numbers: std::ops::RangeInclusive<u64>, spec: &Demand) {
    numbers.for_each(|number| bed.submit(number, spec.clone()));
}

/// What is among the effects: starts at once and starts ahead.
fn sent(bed: &Bed) -> (Vec<u64>, Vec<u64>) {
    let of = |wanted: Start| {
        let each = bed.effects.iter().filter_map(move |effect| match effect {
            Effect::Assign { attempt, start, .. } if *start == wanted => Some(attempt.job.counter()),
            _ => None,
        });
        each.collect::<Vec<_>>()
    };
    (of(Start::Now), of(Start::Inherit))
}

/// Who got the slot of whom.
fn inherited(bed: &Bed) -> Vec<(u64, Option<u64>)> {
    let each = bed.effects.iter().filter_map(|effect| match effect {
        Effect::Inherited { attempt, from, .. } => Some((attempt.job.counter(), from.map(|from| from.job.counter()))),
        _ => None,
    });
    each.collect()
}

fn revoked(bed: &Bed) -> Vec<u64> {
    let each = bed.effects.iter().filter_map(|effect| match effect {
        Effect::Revoke { attempt, .. } => Some(attempt.job.counter()),
        _ => None,
    });
    each.collect()
}

/// One slot, one job that runs, the next four sent ahead.
fn one_slot() -> (Bed, WorkerKey, Vec<Sent>) {
    let (mut bed, worker) = fed(Config::default(), 500);
    submit(&mut bed, 1..=20, &spec(500));
    let all = bed.round();
    assert_eq!(sent(&bed), (vec![1], vec![2, 3, 4, 5]));
    bed.start(all[0].0, worker);
    (bed, worker, all)
}

#[test]
pub(super) fn a_worker_is_fed_what_its_slots_will_do_within_the_horizon() {
    let (mut bed, worker) = fed(Config::default(), 1000);
    submit(&mut bed, 1..=100, &spec(500));
    bed.round();
    // Two slots × 20 ms ÷ 6 ms, rounded up.
    assert_eq!(sent(&bed), (vec![1, 2], (3..=9).collect()));
    let view = bed.scheduler.worker_view(worker).unwrap();
    assert_eq!((view.attempts, view.waiting, view.cpu), (2, 7, 1.0), "who waits holds nothing");
    assert!(bed.scheduler.job(id(3), None).unwrap().waiting);
    assert_eq!(bed.scheduler.tenant(&"t".parse().unwrap()).unwrap().running, 2);
    assert_eq!(bed.round(), [], "the window is full");
}

#[test]
pub(super) fn nothing_is_sent_ahead_of_who_is_not_known_to_be_fast() {
    let (mut bed, _) = fed(Config { prefill_max: 0, ..Config::default() }, 500);
    submit(&mut bed, 1..=20, &spec(500));
    bed.round();
    assert_eq!(sent(&bed).1, [0_u64; 0], "it is switched off");
    let mut bed = Bed::new(Config::default());
    let worker = bed.worker("w1", offer(500));
    run_four(&mut bed, worker, 4, &spec(500));
    submit(&mut bed, 1..=20, &spec(500));
    bed.round();
    assert_eq!(sent(&bed).1, [0_u64; 0], "the round trip is not known");
    bed.must(Event::RoundTrip { worker, micros: 100 });
    bed.round();
    assert_eq!(sent(&bed).1, [2, 3, 4, 5]);
}

#[test]
pub(super) fn window_is_zero_above_h() {
    let mut bed = Bed::new(Config::default());
    let worker = bed.worker("w1", offer(500));
    run_four(&mut bed, worker, 40, &spec(500));
    bed.must(Event::RoundTrip { worker, micros: 100 });
    submit(&mut bed, 1..=20, &spec(500));
    bed.round();
    assert_eq!(sent(&bed), (vec![1], vec![]), "32 to 64 ms are more than 20 ms");
    bed.must(Event::TurnTime { micros: 20_000 });
    let (attempt, _) = (bed.scheduler.job(id(1), None).unwrap(), worker);
    assert_eq!(attempt.attempt, 1);
    // A change at the worker makes it look again: the horizon is 80 ms now.
    bed.must(Event::Submit { job: id(50), spec: std::sync::Arc::new(spec(500)), gate: Gate::default() });
    bed.round();
    assert_eq!(sent(&bed).1.len(), 2, "80 ms ÷ 48 ms, rounded up");
}

#[test]
pub(super) fn a_run_takes_as_long_as_its_worker_says_however_late_that_is_heard() {
    // Gathered news: of some runs start and end come together, of others the end comes later.
    for heard_after in [0, 8, 40] {
        let mut bed = Bed::new(Config::default());
        let worker = bed.worker("w1", offer(500));
        for number in 901..905 {
            bed.submit(number, spec(500));
            let (attempt, _) = bed.round()[0];
            if number % 2 == 0 {
                bed.start(attempt, worker);
            }
            bed.now += heard_after;
            bed.must(Event::Result { attempt, worker, outcome: Outcome::Succeeded, ran_ms: Some(4) });
        }
        bed.must(Event::RoundTrip { worker, micros: 100 });
        submit(&mut bed, 1..=20, &spec(500));
        bed.round();
        assert_eq!(sent(&bed), (vec![1], vec![2, 3, 4, 5]), "20 ms ÷ 6 ms, rounded up, heard after {heard_after} ms");
    }
}

#[test]
pub(super) fn without_results_the_expected_time_counts() {
    let mut bed = Bed::new(Config::default());
    let worker = bed.worker("w1", offer(500));
    bed.must(Event::RoundTrip { worker, micros: 100 });
    submit(&mut bed, 1..=9, &spec(500));
    bed.round();
    assert_eq!(sent(&bed), (vec![1], vec![]));
    let quick = Demand { expected_ms: Some(10), ..spec(400) };
    let mut bed = Bed::new(Config::default());
    let worker = bed.worker("w1", offer(400));
    bed.must(Event::RoundTrip { worker, micros: 100 });
    submit(&mut bed, 1..=9, &quick);
    bed.round();
    assert_eq!(sent(&bed), (vec![1], vec![2, 3]));
}

#[test]
pub(super) fn an_end_passes_the_slot_to_the_oldest_that_waits() {
    let (mut bed, worker, all) = one_slot();
    assert_eq!(bed.result(all[0].0, worker, Outcome::Succeeded), Verdict::Accepted);
    assert_eq!(inherited(&bed), [(2, Some(1))]);
    let view = bed.scheduler.worker_view(worker).unwrap();
    assert_eq!((view.attempts, view.waiting, view.cpu), (1, 3, 1.0));
    assert_eq!(bed.scheduler.tenant(&"t".parse().unwrap()).unwrap().running, 1, "one charge went over");
    bed.start(all[1].0, worker);
    assert_eq!(bed.state(2), JobState::Running);
    assert_eq!(bed.starts(), [6], "the window has room for one more");
}

#[test]
pub(super) fn an_end_without_anybody_waiting_frees_the_slot() {
    let (mut bed, worker) = fed(Config::default(), 500);
    bed.submit(1, spec(500));
    let (attempt, _) = bed.round()[0];
    bed.result(attempt, worker, Outcome::Succeeded);
    assert_eq!((inherited(&bed), bed.scheduler.worker_view(worker).unwrap().cpu), (vec![], 0.0));
}

#[test]
pub(super) fn an_unstarted_end_passes_the_slot_as_well() {
    let (mut bed, worker) = fed(Config::default(), 500);
    submit(&mut bed, 1..=20, &spec(500));
    let all = bed.round();
    bed.effects.clear();
    bed.must(Event::Rejected { attempt: all[0].0, worker, permanent: false });
    assert_eq!(inherited(&bed), [(2, Some(1))]);
    bed.effects.clear();
    bed.must(Event::Rejected { attempt: all[2].0, worker, permanent: false });
    assert_eq!(inherited(&bed), [], "who waited had nothing to pass on");
    assert_eq!(bed.scheduler.worker_view(worker).unwrap().waiting, 2);
}

#[test]
pub(super) fn a_start_before_its_inheritance_is_heard_of_is_counted() {
    let (mut bed, worker, all) = one_slot();
    bed.effects.clear();
    bed.must(Event::Started { attempt: all[1].0, worker });
    assert_eq!(inherited(&bed), [(2, None)]);
    assert_eq!(
        bed.scheduler.worker_view(worker).unwrap().attempts,
        2,
        "what runs is counted, even above what there is"
    );
    bed.result(all[0].0, worker, Outcome::Succeeded);
    bed.result(all[1].0, worker, Outcome::Succeeded);
    assert_eq!(bed.scheduler.worker_view(worker).unwrap().attempts, 2, "each passed its slot on");
}

#[test]
pub(super) fn nobody_waits_for_a_slot_where_devices_of_several_kinds_would_do() {
    let wants = |names: &[&str]| {
        let mut spec = spec(500);
        spec.resources.gpus.count = 1;
        spec.resources.gpus.any_of = names.iter().map(|name| super::devices::kind(name)).collect();
        spec
    };
    for (names, ahead) in [(&["a100"][..], 4), (&["a100", "h100"], 0)] {
        let mut bed = Bed::new(Config::default());
        let worker = bed.worker("w1", super::devices::machine(&[("a100", 1), ("h100", 1)]));
        run_four(&mut bed, worker, 4, &wants(names));
        bed.must(Event::RoundTrip { worker, micros: 100 });
        submit(&mut bed, 1..=20, &wants(names));
        bed.round();
        assert_eq!((sent(&bed).0.len(), sent(&bed).1.len()), (names.len(), ahead), "{names:?}");
    }
}

#[test]
pub(super) fn a_quota_is_neither_exceeded_nor_in_the_way() {
    let (mut bed, worker) = fed(Config::default(), 2000);
    bed.must(Event::QuotaChanged {
        tenant: "t".parse().unwrap(),
        quota: Quota { max_running_jobs: Some(1), ..Quota::default() },
    });
    submit(&mut bed, 1..=20, &spec(500));
    let all = bed.round();
    assert_eq!(sent(&bed), (vec![1], vec![2, 3, 4, 5]), "who inherits needs no room of its own");
    bed.result(all[0].0, worker, Outcome::Succeeded);
    assert_eq!(bed.scheduler.tenant(&"t".parse().unwrap()).unwrap().running, 1);
}

#[test]
pub(super) fn a_better_claim_that_the_slot_could_serve_goes_first() {
    let (mut bed, worker) = fed(Config::default(), 500);
    submit(&mut bed, 2..=20, &spec(500));
    bed.submit(1, Demand { priority: Priority(4), ..spec(400) });
    let first = bed.round();
    assert_eq!(sent(&bed), (vec![1], vec![]), "nobody runs whose slot could be inherited");
    bed.submit(21, Demand { priority: Priority(4), ..spec(450) });
    bed.result(first[0].0, worker, Outcome::Succeeded);
    let second = bed.round();
    assert_eq!(sent(&bed).0, [21]);
    bed.result(second[0].0, worker, Outcome::Succeeded);
    let third = bed.round();
    assert_eq!(sent(&bed), (vec![2], vec![3, 4, 5, 6]), "without competition");
    bed.result(third[0].0, worker, Outcome::Succeeded);
    bed.submit(22, Demand { priority: Priority(4), ..spec(300) });
    bed.round();
    assert_eq!(sent(&bed).1, [0_u64; 0], "no more while the other waits");
    let other = Demand { priority: Priority(4), ..spec(501) };
    let (mut bed, _) = fed(Config::default(), 500);
    submit(&mut bed, 1..=20, &spec(500));
    bed.submit(21, other);
    bed.round();
    assert_eq!(sent(&bed).1, [2, 3, 4, 5], "the slot could not serve that one");
}

#[test]
pub(super) fn more_urgent_work_takes_back_what_waits() {
    let (mut bed, worker, all) = one_slot();
    bed.submit(30, Demand { priority: Priority(2), ..spec(500) });
    bed.round();
    assert_eq!(revoked(&bed), [2, 3, 4, 5]);
    for (attempt, _) in &all[1..] {
        bed.must(Event::Revoked { attempt: *attempt, worker });
    }
    bed.result(all[0].0, worker, Outcome::Succeeded);
    assert_eq!(bed.starts()[0], 30);
}

#[test]
pub(super) fn an_idle_worker_takes_what_waits_elsewhere_once_the_queue_is_empty() {
    let (mut bed, worker) = fed(Config::default(), 500);
    submit(&mut bed, 1..=9, &spec(500));
    let all = bed.round();
    assert_eq!(sent(&bed), (vec![1], vec![2, 3, 4, 5]));
    bed.must(Event::Cancel { job: id(6), elements: None });
    bed.must(Event::Cancel { job: id(7), elements: None });
    bed.must(Event::Cancel { job: id(8), elements: None });
    bed.worker("w2", offer(500));
    bed.round();
    assert_eq!((sent(&bed).0, revoked(&bed)), (vec![9], vec![]));
    bed.worker("w3", offer(1000));
    bed.round();
    assert_eq!(revoked(&bed), [5, 4], "as many as have room there, the youngest first");
    assert!(bed.round().is_empty() && revoked(&bed).is_empty(), "once is enough");
    bed.must(Event::Revoked { attempt: all[4].0, worker });
    bed.must(Event::Revoked { attempt: all[3].0, worker });
    assert_eq!(bed.starts(), [4, 5]);
}

#[test]
pub(super) fn a_drain_and_a_cancel_take_back_what_waits() {
    let (mut bed, worker, all) = one_slot();
    bed.effects.clear();
    bed.must(Event::Cancel { job: id(3), elements: None });
    assert_eq!((revoked(&bed), bed.state(3)), (vec![3], JobState::Cancelling));
    bed.must(Event::Revoked { attempt: all[2].0, worker });
    assert_eq!(bed.state(3), JobState::Cancelled);
    bed.effects.clear();
    bed.must(Event::Drain { worker, order: DrainOrder::default() });
    assert_eq!(revoked(&bed), [2, 4, 5]);
    bed.result(all[0].0, worker, Outcome::Succeeded);
    assert_eq!(inherited(&bed), [(2, Some(1))], "the worker has started it by the time it hears of the revoke");
    for at in [1, 3, 4] {
        bed.must(Event::Revoked { attempt: all[at].0, worker });
    }
    assert_eq!(bed.scheduler.worker_view(worker).unwrap().state, WorkerState::Terminated);
    assert_eq!(bed.state(2), JobState::Queued);
}

#[test]
pub(super) fn arrays_stay_within_their_window_and_gangs_are_not_sent_ahead() {
    let (mut bed, worker) = fed(Config::default(), 500);
    let array = ArraySpec { indices: vec![(0, 99)], max_parallel: Some(3), max_failures: None };
    bed.must(Event::SubmitArray { job: id(1), spec: std::sync::Arc::new(spec(500)), gate: Gate::default(), array });
    let all = bed.round();
    assert_eq!(all.iter().map(|(attempt, _)| attempt.index).collect::<Vec<_>>(), [0, 1, 2]);
    bed.result(all[0].0, worker, Outcome::Succeeded);
    assert_eq!(bed.round().iter().map(|(attempt, _)| attempt.index).collect::<Vec<_>>(), [3]);
}

#[test]
pub(super) fn a_lost_worker_loses_what_waits_and_a_late_start_is_adopted() {
    let (mut bed, worker, all) = one_slot();
    bed.must(Event::ConnectionLost { worker });
    bed.wait(30_000);
    assert_eq!((bed.state(1), bed.state(2), bed.state(5)), (JobState::Queued, JobState::Queued, JobState::Queued));
    bed.effects.clear();
    let kept = |attempt, started| Kept { attempt, started };
    bed.must(Event::Connected { worker, kept: vec![kept(all[1].0, true), kept(all[2].0, false)] });
    assert_eq!(bed.verdict_of(all[1].0), Verdict::Adopted, "it inherited of the first, which is gone");
    let view = bed.scheduler.worker_view(worker).unwrap();
    assert_eq!((bed.state(2), view.attempts, view.cpu), (JobState::Running, 1, 1.0));
}

#[test]
pub(super) fn after_a_reconnect_what_has_not_started_is_taken_back() {
    let (mut bed, worker, all) = one_slot();
    bed.must(Event::ConnectionLost { worker });
    bed.effects.clear();
    let kept = all.iter().map(|(attempt, _)| Kept { attempt: *attempt, started: attempt.job == id(1) }).collect();
    bed.must(Event::Connected { worker, kept });
    assert_eq!(revoked(&bed), [2, 3, 4, 5]);
    assert_eq!(bed.state(1), JobState::Running);
}

/// The two sides may not agree on who is the oldest, for example after a restart: the worker tells who inherited.
#[test]
pub(super) fn after_a_reconnect_the_slot_of_who_is_gone_is_that_of_who_runs() {
    let (mut bed, worker, all) = one_slot();
    bed.must(Event::ConnectionLost { worker });
    bed.effects.clear();
    let kept = |at: usize, started| Kept { attempt: all[at].0, started };
    bed.must(Event::Connected { worker, kept: vec![kept(1, false), kept(3, true), kept(2, false)] });
    assert_eq!(inherited(&bed), [(4, Some(1))]);
    let view = bed.scheduler.worker_view(worker).unwrap();
    assert_eq!((bed.state(4), view.attempts, view.cpu), (JobState::Running, 1, 1.0));
}

/// A new session brings nothing of what the old one did not deliver.
#[test]
pub(super) fn a_revoke_is_said_again_over_a_reconnect() {
    let (mut bed, worker, all) = one_slot();
    let mut other = Bed::new(Config::default());
    let unaccepted = other.worker("w1", offer(1000));
    other.submit(1, spec(500));
    other.submit(2, spec(500));
    let assigned = other.round();
    other.must(Event::Cancel { job: id(2), elements: None });
    other.wait(10_000);
    for _ in 0..2 {
        for (bed, worker, all, expected) in
            [(&mut bed, worker, &all, &[2, 3, 4, 5][..]), (&mut other, unaccepted, &assigned, &[1, 2])]
        {
            bed.must(Event::ConnectionLost { worker });
            bed.effects.clear();
            let started = |attempt: &TaskRef| bed.state(attempt.job.counter()) == JobState::Running;
            let kept = all.iter().map(|(attempt, _)| Kept { attempt: *attempt, started: started(attempt) }).collect();
            bed.must(Event::Connected { worker, kept });
            assert_eq!(revoked(bed), expected);
        }
    }
}

/// What runs goes on where its tenant is not wanted any more, but nobody follows it.
#[test]
pub(super) fn nothing_is_sent_ahead_where_the_class_may_not_be_placed_any_more() {
    let (mut bed, worker) = fed(Config::default(), 500);
    submit(&mut bed, 1..=1, &spec(500));
    let (first, _) = bed.round()[0];
    bed.start(first, worker);
    let capabilities = Capabilities { tenants: ["u".parse().unwrap()].into(), ..offer(500) };
    bed.must(Event::Updated { worker, capabilities: Arc::new(capabilities) });
    submit(&mut bed, 2..=9, &spec(500));
    bed.round();
    assert_eq!(sent(&bed), (vec![], vec![]));
}

#[test]
pub(super) fn failed_jobs_and_paused_tenants_are_not_sent_ahead_to_the_same_worker() {
    let (mut bed, worker) = fed(Config::default(), 500);
    submit(&mut bed, 1..=1, &spec(500));
    let (attempt, _) = bed.round()[0];
    bed.must(Event::Rejected { attempt, worker, permanent: false });
    submit(&mut bed, 2..=9, &Demand { priority: Priority(4), ..spec(500) });
    bed.round();
    assert_eq!(sent(&bed).0, [2]);
    bed.must(Event::Cancel { job: id(9), elements: None });
    let paused = crate::event::TenantSettings { status: crate::event::TenantStatus::Paused, ..Default::default() };
    bed.must(Event::TenantChanged { tenant: "t".parse().unwrap(), settings: paused });
    bed.effects.clear();
    bed.round();
    assert_eq!(sent(&bed), (vec![], vec![]));
}

#[test]
pub(super) fn inherited_starts_are_charged_to_their_band() {
    let (mut bed, worker, all) = one_slot();
    bed.worker("w2", offer(8000));
    submit(&mut bed, 101..=110, &Demand { priority: Priority(0), ..spec(500) });
    let one = |bed: &mut Bed| {
        bed.effects.clear();
        let _ = bed.scheduler.round(bed.now, 1, &mut bed.effects);
        sent(bed).0
    };
    assert_eq!(one(&mut bed), [101]);
    bed.result(all[0].0, worker, Outcome::Succeeded);
    assert_eq!(inherited(&bed), [(2, Some(1))]);
    assert_eq!(one(&mut bed), [102], "the normal band has had its turn by inheritance");
    // Two thirds and one third: of six starts the normal band has two.
    assert_eq!((one(&mut bed), one(&mut bed), one(&mut bed)), (vec![103], vec![6], vec![104]));
}

#[test]
fn a_start_that_inherits_is_owed_to_ready_bands_though_its_own_is_not() {
    let (mut bed, worker, all) = one_slot();
    bed.worker("w2", offer(8000));
    (6..=20).for_each(|number| bed.must(Event::Cancel { job: id(number), elements: None }));
    submit(&mut bed, 101..=110, &Demand { priority: Priority(0), ..spec(500) });
    assert_eq!(bed.scheduler.round(bed.now, 1, &mut bed.effects).placed, 1);
    assert_eq!(bed.scheduler.credit, [0.0; 3], "a lone band takes all");
    bed.result(all[0].0, worker, Outcome::Succeeded);
    assert_eq!(inherited(&bed), [(2, Some(1))]);
    assert_eq!(bed.scheduler.credit, [500.0 / 8500.0, 0.0, 0.0]);
}
