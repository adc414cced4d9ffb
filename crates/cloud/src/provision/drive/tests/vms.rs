//! Virtual machines: with a lease of their own kind, and without any.

use std::time::Duration;

use super::*;
use crate::provision::journal::{Entry, Kind};
use crate::provision::order::Expects;
use crate::testing::openstack::Fault;

/// A virtual machine as an offering.
fn machine(flavor: &str, is_leased: bool) -> Choice {
    Choice {
        reserve: is_leased.then(|| Reserve::Flavor { flavor_id: flavor.to_owned() }),
        hosts: Vec::new(),
        flavor: flavor.to_owned(),
        expects: Some(Expects { threads: 4, ram_gib: 8, gpus: 0 }),
        ..choice(if flavor == "3" { "m1.medium" } else { "m1.xlarge" })
    }
}

/// A deployment of a virtual machine.
pub(super) fn order(is_leased: bool) -> DeploymentOrder {
    DeploymentOrder { choices: vec![machine("3", is_leased), machine("5", is_leased)], ..super::order() }
}

fn world(is_leased: bool) -> World {
    World { order: order(is_leased), ..World::new() }
}

fn states(world: &World) -> Vec<SagaState> {
    let state = |line: crate::provision::journal::Line| match line.entry {
        Entry::Observed { state, .. } => Some(state),
        _ => None,
    };
    world.journal.written().into_iter().filter_map(state).collect()
}

fn asked(world: &World, what: &str) -> usize {
    world.cloud.faults().calls().iter().filter(|call| call.contains(what)).count()
}

#[test]
fn a_leased_virtual_machine_is_of_the_flavor_that_its_reservation_gives() {
    let world = world(true);
    let saga = world.applied();
    assert_eq!(saga.state(), SagaState::Ready, "{:?}\n{}", saga.failure(), world.trace());
    world.assert_one_of_each("ready");
    assert!(
        saga.detail_of(Kind::Lease).is_some_and(|id| id.starts_with("reservation-")),
        "{:?}",
        saga.detail_of(Kind::Lease)
    );
    assert!(states(&world).contains(&SagaState::LeaseWait));
    assert_eq!(world.take_up(Event::Destroy).map(|saga| saga.state()), Some(SagaState::Destroyed));
    world.assert_nothing("destroyed");
}

#[test]
fn without_reservation_lease_states_are_skipped_and_no_lease_is_ever_asked_for() {
    let world = world(false);
    let saga = world.applied();
    assert_eq!(saga.state(), SagaState::Ready, "{:?}\n{}", saga.failure(), world.trace());
    world.assert_one_of_each("ready");
    let of_leases = [SagaState::LeaseIntent, SagaState::LeaseSettle, SagaState::LeaseWait];
    assert!(states(&world).iter().all(|state| !of_leases.contains(state)), "{:?}", states(&world));
    assert_eq!((saga.id_of(Kind::Lease), saga.lease_end()), (None, None));
    assert_eq!(world.take_up(Event::Look).map(|saga| saga.state()), Some(SagaState::Ready));
    assert_eq!(world.take_up(Event::Destroy).map(|saga| saga.state()), Some(SagaState::Destroyed));
    world.assert_nothing("destroyed");
    assert_eq!(asked(&world, "reservation "), 0, "its cloud may not have that service\n{}", world.trace());
}

#[test]
fn room_for_a_machine_without_a_lease_is_waited_for_with_one_try_a_minute() {
    let fault = || Some(("No valid host was found".to_owned(), 3));
    let posts = |world: &World| -> Vec<_> {
        let made = |line: crate::provision::journal::Line| match line.entry {
            Entry::Intent { object: Kind::Server, .. } => Some(line.ts),
            _ => None,
        };
        world.journal.written().into_iter().filter_map(made).collect()
    };
    let mut world = world(false);
    world.order.choices.truncate(1);
    world.order.pace.capacity = Some(Duration::from_secs(1800));
    world.cloud.world().build.fails = fault();
    world.cloud.world().reserves = false;
    let saga = world.applied();
    assert_eq!(saga.state(), SagaState::Ready, "{:?}\n{}", saga.failure(), world.trace());
    let asked = posts(&world);
    assert!(
        asked.len() == 4 && asked.windows(2).all(|two| two[1].since(two[0]) >= Duration::from_secs(60)),
        "{asked:?}"
    );
    // Who does not wait is told that there is no room.
    let mut brief = self::world(false);
    brief.cloud.world().build.fails = fault();
    brief.order.choices.truncate(1);
    let failure = brief.applied().failure().cloned().unwrap();
    assert_eq!((failure.exit.code(), failure.code.as_str()), (11, "capacity"), "{failure:?}");
    brief.assert_nothing("no room");
}

#[test]
fn what_was_taken_and_waited_for_is_not_tried_before_its_minute_however_often_it_is_taken_up() {
    let mut world = world(false);
    world.order.choices.truncate(1);
    world.order.pace.capacity = Some(Duration::from_secs(1800));
    world.cloud.world().build.fails = Some(("No valid host was found".to_owned(), 100));
    world.cloud.faults().on("reservation GET /os-hosts/allocations", Fault::Kill, 1);
    assert!(world.apply().is_none());
    let before = asked(&world, "POST /servers");
    for _ in 0..3 {
        world.cloud.faults().on("reservation GET /os-hosts/allocations", Fault::Kill, 1);
        assert!(world.take_up(Event::Resume).is_none());
    }
    assert_eq!(asked(&world, "POST /servers"), before, "{}", world.trace());
}

#[test]
fn the_lease_of_a_virtual_machine_cannot_be_changed_and_nobody_asks_for_it() {
    let leased = world(true);
    let end = leased.applied().lease_end().unwrap();
    let failure = leased.take_up(Event::Extend { end: end.plus(Duration::from_secs(3600)) }).unwrap();
    let failure = failure.failure().cloned().unwrap();
    assert_eq!((failure.exit.code(), failure.message.as_str()), (6, "leases of virtual machines cannot be changed"));
    assert_eq!(asked(&leased, "PUT /leases"), 0);
    let without = world(false);
    without.applied();
    let saga = without.take_up(Event::Extend { end }).unwrap();
    assert_eq!(saga.failure().map(|failure| failure.exit.code()), Some(5), "there is no lease");
}

#[test]
fn without_room_the_next_flavor_is_tried_and_then_a_host_gives_way_to_a_machine() {
    let world = world(true);
    world.cloud.world().slots = 0;
    let saga = world.applied();
    assert_eq!(saga.state(), SagaState::Failed);
    assert_eq!(saga.failure().map(|failure| failure.exit.code()), Some(11), "{:?}", saga.failure());
    world.assert_nothing("no room");
    // Hosts first, and one machine in their place.
    for is_leased in [true, false] {
        let mut world = World::new();
        world.order.choices = vec![choice("gpu_rtx_6000"), machine("3", is_leased)];
        world.cloud.world().hosts.clear();
        let saga = world.applied();
        assert_eq!((saga.state(), saga.attempt()), (SagaState::Ready, 2), "{:?}\n{}", saga.failure(), world.trace());
        let left = world.remains();
        assert_eq!((left.leases.len(), left.servers.len()), (usize::from(is_leased), 1));
        assert_eq!(world.take_up(Event::Destroy).map(|saga| saga.state()), Some(SagaState::Destroyed));
        world.assert_nothing("destroyed");
    }
}

#[test]
fn a_machine_without_lease_that_fails_is_made_anew_once_and_then_another_is_tried() {
    let world = world(false);
    world.cloud.world().build.fails = Some(("Build of instance aborted: disk not found".to_owned(), 1));
    let saga = world.applied();
    assert_eq!((saga.state(), saga.attempt()), (SagaState::Ready, 1), "{}", world.trace());
    assert!(saga.warnings().iter().all(|warning| !warning.contains("lease")), "{:?}", saga.warnings());
    world.assert_one_of_each("made anew");
    let world = self::world(false);
    world.cloud.world().build.fails = Some(("Build of instance aborted: disk not found".to_owned(), 2));
    let saga = world.applied();
    assert_eq!((saga.state(), saga.attempt()), (SagaState::Ready, 2), "{}", world.trace());
    assert_eq!(saga.choice().map(|choice| choice.flavor.as_str()), Some("5"));
    world.assert_one_of_each("another flavor");
}

#[test]
fn a_machine_without_lease_that_vanished_is_seen_and_its_loss_is_no_second_server() {
    let world = world(false);
    world.cloud.faults().on("compute POST /servers", Fault::KillAfter, 1);
    assert!(world.apply().is_none(), "it died");
    let saga = world.take_up(Event::Resume).unwrap();
    assert_eq!(saga.state(), SagaState::Ready, "{:?}\n{}", saga.failure(), world.trace());
    world.assert_one_of_each("adopted");
    assert_eq!(asked(&world, "POST /servers"), 1, "it was found by its mark");
    world.cloud.world().lose_servers();
    assert_eq!(world.take_up(Event::Look).map(|saga| saga.state()), Some(SagaState::Expired));
    assert_eq!(world.take_up(Event::Destroy).map(|saga| saga.state()), Some(SagaState::Destroyed));
    world.assert_nothing("swept");
}

#[test]
fn groups_are_for_machines_and_never_for_hosts() {
    let mut world = world(true);
    world.order.ssh_from = Some("192.0.2.0/24".to_owned());
    assert_eq!(world.applied().state(), SagaState::Ready, "{}", world.trace());
    assert_eq!(world.remains().groups.len(), 1);
    world.take_up(Event::Destroy).unwrap();
    world.assert_nothing("destroyed");
    let mut host = World::new();
    host.order.groups = vec!["default".to_owned()];
    assert_eq!(host.applied().state(), SagaState::Ready, "a host is never sent any\n{}", host.trace());
}

#[test]
fn quota_of_threads_stops_a_machine_before_anything_is_made() {
    let mut world = world(true);
    for choice in &mut world.order.choices {
        choice.expects = Some(Expects { threads: 5000, ram_gib: 8, gpus: 0 });
    }
    world.cloud.world().most_cores = Some(4000);
    let saga = world.applied();
    assert_eq!(saga.failure().map(|failure| failure.exit.code()), Some(11), "{:?}", saga.failure());
    assert_eq!(asked(&world, "POST /leases") + asked(&world, "POST /servers"), 0);
}
