//! What nobody saw being made is watched for behind a machine that is ready, and not before it.

use std::time::Duration;

use orlop_core::time::Time;

use super::*;
use crate::testing::openstack::Fault;

/// A deployment one of whose creates gets no answer, or none that says what became of it.
fn unclear(call: &str, fault: Fault) -> World {
    let world = World::new();
    world.cloud.faults().on(call, fault, 1);
    world
}

/// When a state was reached first, and when the journal was closed last.
fn times(world: &World) -> (Time, Time, Option<Time>) {
    let lines = world.journal.written();
    let at = |state: SagaState| {
        let is = |entry: &Entry| matches!(entry, Entry::Observed { state: seen, .. } if *seen == state);
        lines.iter().find(|line| is(&line.entry)).map(|line| line.ts)
    };
    let closed = lines.iter().rfind(|line| matches!(line.entry, Entry::Close { .. })).map(|line| line.ts);
    (at(SagaState::Verifying).expect("it came so far"), at(SagaState::Ready).expect("it is ready"), closed)
}

#[test]
fn a_machine_is_ready_before_what_nobody_saw_is_watched_for() {
    for (call, fault) in [
        ("reservation POST /leases", Fault::Status(503)),
        ("reservation POST /leases", Fault::TimeoutBefore),
        ("reservation POST /leases", Fault::Late),
        ("compute POST /servers", Fault::Status(500)),
        ("network POST /floatingips", Fault::TimeoutAfter),
    ] {
        let world = unclear(call, fault);
        let saga = world.applied();
        assert_eq!((saga.state(), saga.failure()), (SagaState::Ready, None), "{call} {fault:?}");
        let (verifying, ready, closed) = times(&world);
        assert!(ready.since(verifying) < Duration::from_secs(5), "{call} {fault:?}: {}", world.trace());
        let watched = closed.expect("it is over").since(ready);
        assert!(watched >= Duration::from_secs(60) || fault == Fault::TimeoutAfter, "{call} {fault:?}: {watched:?}");
        world.assert_one_of_each("nothing else is left");
        // Once is enough.
        let before = world.clock.now();
        assert_eq!(world.take_up(Event::Resume).map(|saga| saga.state()), Some(SagaState::Ready));
        assert!(world.clock.now().since(before) < Duration::from_secs(5), "{call} {fault:?}");
    }
}

#[test]
fn a_watch_that_was_interrupted_leaves_the_machine_and_goes_on_with_resume() {
    let world = unclear("reservation POST /leases", Fault::Late);
    world.applied();
    let lines = world.journal.written();
    let is_ready =
        |line: &crate::provision::journal::Line| matches!(line.entry, Entry::Observed { state: SagaState::Ready, .. });
    let ready = lines.iter().position(is_ready).expect("it is ready");
    let world = unclear("reservation POST /leases", Fault::Late);
    *world.stage.stop.lock().unwrap() = Some((ready - 2, Stop::RollBack));
    let saga = world.applied();
    assert_eq!((saga.state(), saga.failure()), (SagaState::Ready, None), "{}", world.trace());
    assert_eq!(times(&world).2, None, "it is not over: {}", world.trace());
    assert!(
        saga.warnings().iter().any(|warning| warning.contains("not watched for to the end")),
        "{:?}",
        saga.warnings()
    );
    *world.stage.stop.lock().unwrap() = None;
    assert_eq!(world.take_up(Event::Look).map(|saga| saga.state()), Some(SagaState::Ready));
    assert_eq!(times(&world).2, None, "a look ends nothing");
    let before = world.clock.now();
    assert_eq!(world.take_up(Event::Resume).map(|saga| saga.state()), Some(SagaState::Ready));
    assert!(world.clock.now().since(before) >= Duration::from_secs(60));
    assert!(times(&world).2.is_some());
    world.assert_one_of_each("watched to the end");
}
