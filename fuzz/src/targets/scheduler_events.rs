//! The scheduler: any bytes are a history of events, and every law of its contract holds after each of them.

use orlop_scheduler::config::Policy;
use orlop_scheduler::testing::{Choices, Shape, World};

/// The most events of one history; more only take longer.
const LONGEST: usize = 1000;

/// A policy and the kind of world by the first byte, then a choice a byte.
pub fn scheduler_events(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let policy = Policy::ALL[usize::from(*first) % Policy::ALL.len()];
    let shape = Shape {
        policy,
        preemption: *first >= 128,
        backlog: first & 64 != 0,
        snapshots: first & 32 != 0,
        operators: first & 16 != 0,
        prefill: first & 24 == 8,
        restarts: first & 20 == 4,
        gangs: first & 18 == 2,
    };
    let made = World::new(shape, Choices::from_bytes(rest));
    assert!(made.is_ok(), "the world's configuration is right");
    let Ok(mut world) = made else { return };
    for step in 0..LONGEST {
        if world.is_over() {
            return;
        }
        let after = world.step();
        assert_eq!(after, Ok(()), "step {step} of {shape:?}");
    }
}
