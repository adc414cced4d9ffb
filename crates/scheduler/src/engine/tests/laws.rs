//! The laws of section 2.11 over random worlds, checked after every call.

use crate::config::Policy;
use crate::testing::{Choices, Shape, World};

/// How many worlds: a few while writing, 100,000 in the long mode, or as `ORLOP_SCHEDULER_WORLDS` says.
// A test may ask its environment how long to run.
#[allow(clippy::disallowed_methods)]
fn worlds() -> u64 {
    let asked = std::env::var("ORLOP_SCHEDULER_WORLDS").ok().and_then(|number| number.parse().ok());
    let long = std::env::var_os("ORLOP_TEST_LONG").is_some();
    asked.unwrap_or(if long { 100_000 } else { 300 })
}

fn live(shape: Shape, seed: u64, steps: u32) -> u64 {
    let mut world = World::new(shape, Choices::from_seed(seed)).unwrap();
    for step in 0..steps {
        if let Err(broken) = world.step() {
            panic!("seed {seed}, step {step}, {shape:?}: {broken}");
        }
    }
    world.hash
}

#[test]
fn s2_11_laws_hold_in_random_worlds() {
    for seed in 0..worlds() {
        let policy = Policy::ALL[(seed % 6) as usize];
        live(Shape { policy, preemption: seed / 6 % 2 == 1, restarts: seed / 12 % 2 == 1 }, seed, 150);
    }
}

#[test]
fn s2_7_random_worlds_do_preempt() {
    let preempted = (0..60).map(|seed| {
        let shape = Shape { preemption: true, ..Shape::default() };
        let mut world = World::new(shape, Choices::from_seed(seed)).unwrap();
        (0..150).for_each(|_| world.step().unwrap());
        world.preempted()
    });
    let preempted: usize = preempted.sum();
    assert!(preempted >= 30, "the laws of preemption are hardly tested: {preempted} in 60 worlds");
}

#[test]
fn s2_1_equal_worlds_have_equal_effects() {
    for seed in 0..10 {
        let shape = Shape::default();
        assert_eq!(live(shape, seed, 200), live(shape, seed, 200), "seed {seed}");
    }
}

/// One number over the effects of six worlds: it changes when the scheduler decides anything differently, and must be the
/// same on every machine and in every build.
#[test]
fn s2_1_effects_are_the_same_in_every_build() {
    let hashes = (0..6).map(|seed| live(Shape { policy: Policy::ALL[seed as usize], ..Shape::default() }, seed, 300));
    assert_eq!(format!("{:016x}", hashes.fold(0, |sum: u64, hash| sum.rotate_left(7) ^ hash)), "7d809c2523170ec5");
}
