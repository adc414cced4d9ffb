//! Nothing leaks: every call of a deployment meets every fault, every line of its journal is where a process dies. Afterwards it
//! is ready with exactly one of each, or destroying leaves nothing.

use super::*;
use crate::testing::openstack::Fault;

/// Calls of a whole happy deployment, and lines of its journal.
fn happy(order: &DeploymentOrder) -> (Vec<String>, usize) {
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
            assert_eq!((left.leases.len(), left.servers.len()), (world.leases(), 1), "{what}: {left:?}");
            assert!(left.addresses.len() <= 1, "{what}: {left:?}");
        }
        SagaState::Failed | SagaState::Destroyed => world.assert_nothing(what),
        SagaState::Leftover => assert!(!saga.leftovers().is_empty(), "{what}"),
        SagaState::Kept | SagaState::Unreachable => {}
        state => panic!("{what}: ended {state}\n{}", world.trace()),
    }
    let destroyed = world.take_up(Event::Destroy).unwrap_or_else(|| panic!("{what}: destroy died"));
    assert_eq!(destroyed.state(), SagaState::Destroyed, "{what}: {:?}\n{}", destroyed.failure(), world.trace());
    world.assert_nothing(what);
}

fn rich() -> DeploymentOrder {
    DeploymentOrder { ssh_from: Some("192.0.2.0/24".to_owned()), ..order() }
}

/// A virtual machine with or without a lease, and its own group.
fn machine(is_leased: bool) -> DeploymentOrder {
    DeploymentOrder { ssh_from: Some("192.0.2.0/24".to_owned()), ..vms::order(is_leased) }
}

#[test]
fn every_call_with_every_fault_completes_or_leaves_nothing() {
    every_call_with_every_fault(&rich());
}

#[test]
fn every_call_of_a_leased_virtual_machine_with_every_fault_completes_or_leaves_nothing() {
    every_call_with_every_fault(&machine(true));
}

#[test]
fn every_call_of_a_virtual_machine_without_lease_with_every_fault_completes_or_leaves_nothing() {
    every_call_with_every_fault(&machine(false));
}

fn every_call_with_every_fault(order: &DeploymentOrder) {
    let (calls, _) = happy(order);
    let mut ends = std::collections::BTreeMap::<String, usize>::new();
    for (number, call) in calls.iter().enumerate() {
        for fault in Fault::SURVIVED {
            let world = World { order: order.clone(), ..World::new() };
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
fn death_at_every_call_and_every_line_is_taken_up_or_leaves_nothing() {
    death_at_every_call_and_every_line(&rich());
}

#[test]
fn death_at_every_call_and_every_line_of_a_leased_virtual_machine_is_taken_up_or_leaves_nothing() {
    death_at_every_call_and_every_line(&machine(true));
}

#[test]
fn death_at_every_call_and_every_line_of_a_virtual_machine_without_lease_is_taken_up_or_leaves_nothing() {
    death_at_every_call_and_every_line(&machine(false));
}

fn death_at_every_call_and_every_line(order: &DeploymentOrder) {
    let (calls, lines) = happy(order);
    for (number, call) in calls.iter().enumerate() {
        for fault in [Fault::Kill, Fault::KillAfter] {
            for event in [Event::Resume, Event::Destroy] {
                let world = World { order: order.clone(), ..World::new() };
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
                let world = World { order: order.clone(), ..World::new() };
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
fn a_create_that_is_lost_and_a_death_at_any_line_after_it_never_leaves_two() {
    lost_create_and_death(&order());
}

#[test]
fn a_lost_create_of_a_virtual_machine_and_a_death_after_it_never_leave_two() {
    lost_create_and_death(&vms::order(true));
    lost_create_and_death(&vms::order(false));
}

fn lost_create_and_death(order: &DeploymentOrder) {
    let (calls, _) = happy(order);
    let creates = calls.iter().enumerate().filter(|(_, call)| {
        call.contains("POST") && !call.contains("tokens") && !call.contains("action") && !call.contains("rules")
    });
    for (number, call) in creates {
        for fault in [Fault::TimeoutAfter, Fault::Late, Fault::StatusAfter(500), Fault::Truncated] {
            let lines = {
                let world = World { order: order.clone(), ..World::new() };
                world.cloud.faults().at(number, fault);
                world.applied();
                world.journal.written().len()
            };
            for line in 2..lines {
                let world = World { order: order.clone(), ..World::new() };
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

/// Creates of a kind among the calls, and whether each but the first came after a listing of what was made.
fn creates(world: &World, path: &str) -> (usize, bool) {
    let calls = world.cloud.faults().calls();
    let posts: Vec<usize> = (0..calls.len())
        .filter(|at| calls.get(*at).is_some_and(|call| call.ends_with(&format!("POST {path}"))))
        .collect();
    let is_listing = |call: &String| call.contains(&format!("GET {path}"));
    let looked = posts.windows(2).all(|two| match two {
        [one, next] => calls.get(*one..*next).is_some_and(|between| between.iter().any(is_listing)),
        _ => true,
    });
    (posts.len(), looked)
}

#[test]
fn a_create_whose_answer_is_unclear_is_looked_for_before_it_is_repeated() {
    let done = [
        Fault::TimeoutAfter,
        Fault::Reset,
        Fault::StatusAfter(500),
        Fault::Empty,
        Fault::Html,
        Fault::Truncated,
        Fault::Late,
    ];
    let not_done = [
        Fault::Refused,
        Fault::TimeoutBefore,
        Fault::Status(429),
        Fault::Status(500),
        Fault::Status(502),
        Fault::Status(503),
    ];
    let asked = |service: &str, path: &str, fault: Fault| {
        let world = World::new();
        world.cloud.faults().on(&format!("{service} POST {path}"), fault, 1);
        let what = format!("POST {path} with {fault:?}");
        let saga = world.applied();
        assert_eq!((saga.state(), saga.attempt()), (SagaState::Ready, 1), "{what}\n{}", world.trace());
        world.assert_one_of_each(&what);
        (creates(&world, path), what)
    };
    for (service, path) in [("reservation", "/leases"), ("compute", "/servers"), ("network", "/floatingips")] {
        for fault in done {
            let (found, what) = asked(service, path, fault);
            assert_eq!(found, (1, true), "{what}: it was made, so it is found and never asked for again");
        }
        for fault in not_done {
            let (found, what) = asked(service, path, fault);
            assert_eq!(found, (2, true), "{what}: it is asked for again, once it was not found");
        }
    }
}

#[test]
fn a_second_fault_while_everything_is_removed_ends_with_a_list_or_with_nothing() {
    fault_while_removing(&order());
}

#[test]
fn a_second_fault_while_a_virtual_machine_is_removed_ends_with_a_list_or_with_nothing() {
    fault_while_removing(&vms::order(true));
}

#[test]
fn a_second_fault_while_a_virtual_machine_without_lease_is_removed_ends_with_a_list_or_with_nothing() {
    fault_while_removing(&vms::order(false));
}

fn fault_while_removing(order: &DeploymentOrder) {
    let begun = || World { order: order.clone(), ..World::new() };
    let calls = {
        let world = begun();
        world.applied();
        let before = world.cloud.faults().calls().len();
        world.take_up(Event::Destroy).unwrap();
        before..world.cloud.faults().calls().len()
    };
    for number in calls {
        for fault in Fault::SURVIVED.into_iter().chain([Fault::Kill, Fault::KillAfter]) {
            let world = begun();
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
fn a_stop_at_any_line_rolls_back_or_keeps_as_asked() {
    stop_at_any_line(&order());
}

#[test]
fn a_stop_at_any_line_of_a_virtual_machine_rolls_back_or_keeps_as_asked() {
    stop_at_any_line(&vms::order(true));
}

#[test]
fn a_stop_at_any_line_of_a_virtual_machine_without_lease_rolls_back_or_keeps_as_asked() {
    stop_at_any_line(&vms::order(false));
}

fn stop_at_any_line(order: &DeploymentOrder) {
    let (_, lines) = happy(order);
    for line in 0..lines.saturating_sub(3) {
        for stop in [Stop::RollBack, Stop::Keep] {
            let world = World { order: order.clone(), ..World::new() };
            *world.stage.stop.lock().unwrap() = Some((line, stop));
            let what = format!("stopped at line {line} by {stop:?}");
            let saga = world.applied();
            *world.stage.stop.lock().unwrap() = None;
            if !ended_well(&saga) {
                assert_eq!(saga.failure().map(|failure| failure.exit.code()), Some(130), "{what}: {}", saga.state());
            }
            if stop == Stop::RollBack && !ended_well(&saga) {
                assert_eq!(saga.state(), SagaState::Failed, "{what}");
                world.assert_nothing(&what);
            }
            if saga.state() == SagaState::Kept {
                let resumed = world.take_up(Event::Resume).unwrap();
                assert_eq!(resumed.state(), SagaState::Ready, "{what}: {:?}\n{}", resumed.failure(), world.trace());
                world.assert_one_of_each(&what);
            }
            assert_eq!(world.take_up(Event::Destroy).unwrap().state(), SagaState::Destroyed, "{what}");
            world.assert_nothing(&what);
        }
    }
}
