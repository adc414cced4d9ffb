//! Nothing leaks: every call of a deployment meets every fault, every line of its journal is where a process dies. Afterwards it
//! is ready with exactly one of each, or destroying leaves nothing.

use super::*;
use crate::testing::openstack::Fault;

/// Calls of a whole happy deployment, and lines of its journal.
fn happy(order: &Order) -> (Vec<String>, usize) {
    let world = World { order: order.clone(), ..World::new() };
    assert_eq!(world.applied().state(), SagaState::Ready);
    (world.cloud.faults().calls(), world.journal.written().len())
}

/// What has to hold after whatever happened: one of each, or nothing; and after destroying nothing.
fn settle(world: &World, what: &str, first: Option<Saga>) {
    let saga = match first {
        Some(saga) => saga,
        None => match world.take_up(Event::Resume) {
            Some(saga) => saga,
            // No plan was written: nothing was ever asked for.
            None => return world.assert_nothing(what),
        },
    };
    match saga.state() {
        SagaState::Ready => world.assert_one_of_each(what),
        SagaState::Degraded => {
            let left = world.remains();
            assert_eq!((left.leases.len(), left.servers.len()), (1, 1), "{what}: {left:?}");
            assert!(left.addresses.len() <= 1, "{what}: {left:?}");
        }
        SagaState::Failed | SagaState::Destroyed => world.assert_nothing(what),
        SagaState::Leftover => assert!(!saga.leftovers().is_empty(), "{what}"),
        SagaState::Kept | SagaState::Unreachable => {}
        state => panic!("{what}: ended {state}\n{}", world.told()),
    }
    let destroyed = world.take_up(Event::Destroy).unwrap_or_else(|| panic!("{what}: destroy died"));
    assert_eq!(destroyed.state(), SagaState::Destroyed, "{what}: {:?}\n{}", destroyed.failure(), world.told());
    world.assert_nothing(what);
}

fn rich() -> Order {
    Order { ssh_from: Some("192.0.2.0/24".to_owned()), ..order() }
}

#[test]
fn s7_every_call_with_every_fault_completes_or_leaves_nothing() {
    let (calls, _) = happy(&rich());
    let mut ends = std::collections::BTreeMap::<String, usize>::new();
    for (number, call) in calls.iter().enumerate() {
        for fault in Fault::SURVIVED {
            let world = World { order: rich(), ..World::new() };
            world.cloud.faults().at(number, fault);
            let what = format!("call {number} ({call}) with {fault:?}");
            let saga = world.apply().unwrap_or_else(|| panic!("{what}: died")).unwrap();
            *ends.entry(saga.state().to_string()).or_default() += 1;
            settle(&world, &what, Some(saga));
        }
    }
    println!("{} calls x {} faults: {ends:?}", calls.len(), Fault::SURVIVED.len());
    // One fault that passes is survived: only what a service refuses for good ends a deployment.
    assert!(ends.get("Ready").copied().unwrap_or(0) * 10 > calls.len() * Fault::SURVIVED.len() * 7, "{ends:?}");
}

#[test]
fn s7_death_at_every_call_and_every_line_is_taken_up_or_leaves_nothing() {
    let (calls, lines) = happy(&rich());
    for (number, call) in calls.iter().enumerate() {
        for fault in [Fault::Kill, Fault::KillAfter] {
            for event in [Event::Resume, Event::Destroy] {
                let world = World { order: rich(), ..World::new() };
                world.cloud.faults().at(number, fault);
                let what = format!("call {number} ({call}) with {fault:?}, then {event:?}");
                assert!(world.apply().is_none(), "{what}: survived");
                let saga = world.take_up(event);
                settle(&world, &what, saga);
            }
        }
    }
    for line in 0..lines {
        for after in [false, true] {
            for event in [Event::Resume, Event::Destroy] {
                let world = World { order: rich(), ..World::new() };
                if after {
                    world.journal.kill_after(line);
                } else {
                    world.journal.kill_before(line);
                }
                let what = format!("line {line}, after {after}, then {event:?}");
                assert!(world.apply().is_none(), "{what}: survived");
                let saga = world.take_up(event);
                settle(&world, &what, saga);
            }
        }
    }
}

#[test]
fn s7_a_create_that_is_lost_and_a_death_at_any_line_after_it_never_leaves_two() {
    let (calls, _) = happy(&order());
    let creates = calls.iter().enumerate().filter(|(_, call)| {
        call.contains("POST") && !call.contains("tokens") && !call.contains("action") && !call.contains("rules")
    });
    for (number, call) in creates {
        for fault in [Fault::TimeoutAfter, Fault::Late, Fault::StatusAfter(500), Fault::Truncated] {
            let lines = {
                let world = World::new();
                world.cloud.faults().at(number, fault);
                world.applied();
                world.journal.written().len()
            };
            for line in 2..lines {
                let world = World::new();
                world.cloud.faults().at(number, fault);
                world.journal.kill_after(line);
                let what = format!("call {number} ({call}) with {fault:?}, death after line {line}");
                let saga = world.apply().map(Result::unwrap);
                let died = saga.is_none();
                let saga = if died { world.take_up(Event::Resume) } else { saga };
                settle(&world, &what, saga);
            }
        }
    }
}

#[test]
fn s7_a_second_fault_while_everything_is_removed_ends_with_a_list_or_with_nothing() {
    let calls = {
        let world = World::new();
        world.applied();
        let before = world.cloud.faults().calls().len();
        world.take_up(Event::Destroy).unwrap();
        before..world.cloud.faults().calls().len()
    };
    for number in calls {
        for fault in Fault::SURVIVED.into_iter().chain([Fault::Kill, Fault::KillAfter]) {
            let world = World::new();
            world.applied();
            world.cloud.faults().at(number, fault);
            let what = format!("destroy, call {number} with {fault:?}");
            match world.take_up(Event::Destroy) {
                Some(saga) if saga.state() == SagaState::Destroyed => world.assert_nothing(&what),
                Some(saga) => {
                    assert_eq!((saga.state(), saga.leftovers().is_empty()), (SagaState::Leftover, false), "{what}");
                }
                None => {}
            }
            let saga = world.take_up(Event::Destroy).unwrap_or_else(|| panic!("{what}: died again"));
            assert_eq!(saga.state(), SagaState::Destroyed, "{what}");
            world.assert_nothing(&what);
        }
    }
}

#[test]
fn s7_a_stop_at_any_line_rolls_back_or_keeps_as_asked() {
    let (_, lines) = happy(&order());
    for line in 0..lines.saturating_sub(3) {
        for stop in [Stop::RollBack, Stop::Keep] {
            let world = World::new();
            *world.stage.stop.lock().unwrap() = Some((line, stop));
            let what = format!("stopped at line {line} by {stop:?}");
            let saga = world.applied();
            *world.stage.stop.lock().unwrap() = None;
            if !ended_well(&saga) {
                assert_eq!(saga.failure().map(|failure| failure.exit), Some(130), "{what}: {}", saga.state());
            }
            if stop == Stop::RollBack && !ended_well(&saga) {
                assert_eq!(saga.state(), SagaState::Failed, "{what}");
                world.assert_nothing(&what);
            }
            if saga.state() == SagaState::Kept {
                let resumed = world.take_up(Event::Resume).unwrap();
                assert_eq!(resumed.state(), SagaState::Ready, "{what}: {:?}\n{}", resumed.failure(), world.told());
                world.assert_one_of_each(&what);
            }
            assert_eq!(world.take_up(Event::Destroy).unwrap().state(), SagaState::Destroyed, "{what}");
            world.assert_nothing(&what);
        }
    }
}
