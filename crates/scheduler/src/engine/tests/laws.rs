//! The laws over random worlds, checked after every call.

use std::ops::Range;

use crate::config::Policy;
use crate::testing::{Choices, Shape, World};

/// Seeds of the worlds: a few while writing, 100,000 in the long mode, or what `ORLOP_SCHEDULER_WORLDS` says: how many, or
/// `FIRST..END`, so that a long run can be made in parts and a finding be repeated.
// A test may ask its environment how long to run.
#[allow(clippy::disallowed_methods)]
fn worlds() -> Range<u64> {
    let long = std::env::var_os("ORLOP_TEST_LONG").is_some();
    let Ok(asked) = std::env::var("ORLOP_SCHEDULER_WORLDS") else { return 0..if long { 100_000 } else { 120 } };
    let (first, end) = asked.split_once("..").unwrap_or(("0", &asked));
    first.parse().unwrap()..end.parse().unwrap()
}

fn live(shape: Shape, seed: u64, steps: u32) -> u64 {
    lived(shape, seed, steps).hash
}

/// A world after so many steps, none of which broke a law.
fn lived(shape: Shape, seed: u64, steps: u32) -> World<'static> {
    let mut world = World::new(shape, Choices::from_seed(seed)).unwrap();
    for step in 0..steps {
        if let Err(broken) = world.step() {
            panic!("seed {seed}, step {step}, {shape:?}: {broken}");
        }
    }
    world
}

/// From this seed on operators place jobs and drain workers more than elsewhere.
const OPERATORS: u64 = 1_000_000;

/// From this seed on gangs go out of sight with their workers and come back.
const GANGS: u64 = 2_000_000;

/// Worlds of all policies in turn; every second one preempts, a third is always busy, a third is restarted, most are read
/// back, a third sends jobs ahead.
fn shape(seed: u64) -> Shape {
    let policy = Policy::ALL[(seed % 6) as usize];
    let turn = seed / 6 % 6;
    let (operators, gangs) = ((OPERATORS..GANGS).contains(&seed), seed >= GANGS);
    Shape {
        policy,
        preemption: matches!(turn, 1 | 3 | 5),
        backlog: matches!(turn, 2 | 3),
        snapshots: turn != 0,
        restarts: matches!(turn, 4 | 5) && !operators,
        prefill: seed / 36 % 3 == 2 && !operators && !gangs,
        operators,
        gangs,
    }
}

#[test]
fn laws_hold_in_random_worlds() {
    for seed in worlds() {
        live(shape(seed), seed, 150);
    }
}

#[test]
fn laws_hold_where_operators_place_jobs_in_random_worlds() {
    for seed in worlds().step_by(5) {
        live(shape(OPERATORS + seed), OPERATORS + seed, 150);
    }
}

#[test]
fn laws_hold_where_gangs_come_back_in_random_worlds() {
    for seed in worlds().step_by(5) {
        live(shape(GANGS + seed), GANGS + seed, 150);
    }
}

/// A worker comes that holds a job before the one that is reserved for, while others start; a worker that is forgotten repeats
/// a result: the model once took the first for reservations that were spent, the second for a message without an answer.
#[test]
fn laws_hold_in_worlds_that_the_model_misread() {
    for seed in [334_195, 693_351] {
        live(shape(seed), seed, 150);
    }
}

/// What few worlds bring about: a job that is lost as often as it may be, jobs sent ahead and taken back, operators that place what
/// does not fit, gangs of which a part comes back.
#[test]
fn laws_hold_in_worlds_of_rare_situations() {
    for seed in [204, 609, OPERATORS + 1, OPERATORS + 2, GANGS + 1, GANGS + 44] {
        live(shape(seed), seed, 150);
    }
}

#[test]
fn random_worlds_do_preempt() {
    let preempted = (0..60).map(|seed| {
        let shape = Shape { preemption: true, ..Shape::default() };
        lived(shape, seed, 150).preempted()
    });
    let preempted: usize = preempted.sum();
    assert!(preempted >= 30, "the laws of preemption are hardly tested: {preempted} in 60 worlds");
}

#[test]
fn random_worlds_do_prefill() {
    let inherited = (72..108).map(|seed| lived(shape(seed), seed, 150).inherited());
    let inherited: usize = inherited.sum();
    assert!(inherited >= 400, "the laws of prefill are hardly tested: {inherited} starts inherited in 36 worlds");
}

#[test]
fn random_worlds_do_adopt_gangs() {
    let adopted: usize = (GANGS..GANGS + 36).map(|seed| lived(shape(seed), seed, 150).gangs_adopted()).sum();
    assert!(adopted >= 36, "late adoption of gangs is hardly tested: {adopted} in 36 worlds");
}

/// Whatever a world did, its heads start in bounded time although others keep coming.
#[test]
fn nobody_starves_in_random_worlds() {
    let mut heads = 0;
    for seed in worlds().step_by(7) {
        heads += lived(shape(seed), seed, 150)
            .besiege()
            .unwrap_or_else(|broken| panic!("seed {seed}, {:?}: {broken}", shape(seed)));
    }
    assert!(heads >= 6 || worlds().count() < 100, "only {heads} heads were there to starve");
}

/// Of a tenant whose limits are used up, the first job avoids the only worker with room: it is to be reserved for all the same,
/// and so it is while it lets others pass.
#[test]
fn nobody_starves_who_avoids_a_worker_and_is_stopped_by_limits() {
    for seed in [2490, 2513, 4817] {
        lived(shape(seed), seed, 150).besiege().unwrap();
    }
}

/// The task that waits longest is passed over, or others take what its tenant reserves for it: without reservations it starves.
#[test]
fn nobody_starves_for_whom_only_a_reservation_helps() {
    for seed in [23, 185] {
        lived(shape(seed), seed, 150).besiege().unwrap();
    }
}

/// The laws about order and shares are asked where they could be broken, not only where nobody else waits.
#[test]
fn order_and_shares_are_at_stake_in_random_worlds() {
    let counts = (12..24).map(|seed| lived(shape(seed), seed, 150).law_counts());
    let all = counts.fold([0; 4], |sum, counts| {
        [sum[0] + counts.order, sum[1] + counts.fairness, sum[2] + counts.bands, sum[3] + counts.runs]
    });
    let [order, fairness, bands, runs] = all;
    assert!(order >= 300 && fairness >= 150 && bands >= 1 && runs >= 1, "hardly tested: {all:?}");
}

#[test]
fn equal_worlds_have_equal_effects() {
    for seed in 0..10 {
        let shape = Shape::default();
        assert_eq!(live(shape, seed, 200), live(shape, seed, 200), "seed {seed}");
    }
}

/// One number over the effects of six worlds: it changes when the scheduler decides anything differently, and must be the
/// same on every machine and in every build.
#[test]
fn effects_are_the_same_in_every_build() {
    let hashes = (0..6).map(|seed| live(Shape { policy: Policy::ALL[seed as usize], ..Shape::default() }, seed, 300));
    assert_eq!(format!("{:016x}", hashes.fold(0, |sum: u64, hash| sum.rotate_left(7) ^ hash)), "a1644d8673694517");
}
