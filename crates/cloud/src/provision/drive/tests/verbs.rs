//! Extending, looking, finding what is left.

use std::time::Duration;

use super::*;
use crate::provision::info::{Info, JournalPlace};
use crate::provision::journal::Kind;
use crate::provision::notes::Notes;

#[test]
fn extend_asks_the_rules_first_and_then_the_cloud() {
    let world = World::new();
    let end = world.applied().lease_end().unwrap();
    let asked = |hours: u64| world.take_up(Event::Extend { end: end.plus(Duration::from_secs(hours * 3600)) }).unwrap();
    let saga = asked(24);
    assert_eq!((saga.state(), saga.failure()), (SagaState::Ready, None));
    assert_eq!(saga.lease_end(), Some(end.plus(Duration::from_secs(24 * 3600))));
    let again = replayed(&world.journal.written()).unwrap();
    assert_eq!(again.lease_end(), saga.lease_end(), "it is written down");
    assert_eq!(asked(1).failure().map(|failure| failure.exit.code()), Some(2), "not a later end");
    assert_eq!(asked(24 + 200).failure().map(|failure| failure.exit.code()), Some(6), "too long");
}

#[test]
fn the_estimate_of_the_state_file_grows_with_every_extension() {
    let mut world = World::new();
    for choice in &mut world.order.choices {
        choice.hours = 10;
        choice.su_milli = 10_500;
    }
    let estimate_of = |saga: &Saga| {
        let place = JournalPlace { path: "journal.jsonl".to_owned(), last_seq: 1 };
        Info::of(saga, &Notes::default(), place, world.clock.now()).su_estimate
    };
    let saga = world.applied();
    assert_eq!(estimate_of(&saga).as_deref(), Some("10.5 SU"));
    let end = saga.lease_end().unwrap();
    for (hours, estimate) in [(10, "21 SU"), (12, "23.1 SU")] {
        let saga = world.take_up(Event::Extend { end: end.plus(Duration::from_secs(hours * 3600)) }).unwrap();
        assert_eq!((saga.failure(), estimate_of(&saga).as_deref()), (None, Some(estimate)));
    }
    let again = replayed(&world.journal.written()).unwrap();
    assert_eq!(estimate_of(&again).as_deref(), Some("23.1 SU"), "it is in the journal");
    let refused = world.take_up(Event::Extend { end: end.plus(Duration::from_secs(400 * 3600)) }).unwrap();
    assert_eq!((refused.failure().is_some(), estimate_of(&refused).as_deref()), (true, Some("23.1 SU")));
}

#[test]
fn extension_opens_as_early_as_a_cloud_allows_that_is_none_of_chameleon() {
    let mut world = World::new();
    world.order.choices.iter_mut().for_each(|choice| choice.hours = 120);
    let end = world.applied().lease_end().unwrap().plus(Duration::from_secs(5 * 3600));
    let saga = world.take_up(Event::Extend { end }).unwrap();
    assert_eq!((saga.failure(), saga.lease_end()), (None, Some(end)));
    world.cloud.faults().on("reservation PUT /leases", crate::testing::openstack::Fault::Status(400), 1);
    let saga = world.take_up(Event::Extend { end: end.plus(Duration::from_secs(3600)) }).unwrap();
    assert!(saga.failure().is_some(), "what the cloud refuses is told");
    assert_eq!(saga.state(), SagaState::Ready);
}

#[test]
fn extension_opens_48_hours_before_the_end_and_keeps_the_budget() {
    let mut world = World::new();
    for choice in &mut world.order.choices {
        choice.site = "uc".to_owned();
        choice.hours = 120;
        choice.su_milli = 120_000;
    }
    world.order.max_su = Some(130);
    let end = world.applied().lease_end().unwrap();
    let asked = |hours: u64| world.take_up(Event::Extend { end: end.plus(Duration::from_secs(hours * 3600)) }).unwrap();
    let failure = asked(5).failure().cloned().unwrap();
    assert!(failure.exit.code() == 6 && failure.message.starts_with("extension opens at "), "{failure:?}");
    world.clock.pass(Duration::from_secs(80 * 3600));
    assert_eq!(asked(5).failure(), None);
    let failure = asked(20).failure().cloned().unwrap();
    assert_eq!((failure.exit.code(), failure.message.as_str()), (11, "estimate 140 SU over --max-su 130"));
}

#[test]
fn a_server_that_vanished_is_seen_and_an_address_that_vanished_is_drift() {
    let world = World::new();
    world.applied();
    assert_eq!(world.take_up(Event::Look).unwrap().state(), SagaState::Ready);
    world.cloud.world().lose_servers();
    let saga = world.take_up(Event::Look).unwrap();
    assert_eq!(saga.state(), SagaState::Expired);
    assert_eq!(world.take_up(Event::Destroy).unwrap().state(), SagaState::Destroyed);
    world.assert_nothing("swept");
}

/// `status --watch` looks twice a minute, for days.
#[test]
fn a_look_that_finds_all_as_it_was_writes_nothing() {
    let world = World::new();
    world.applied();
    let lines = || world.journal.written().len();
    let before = lines();
    for _ in 0..3 {
        world.take_up(Event::Look).unwrap();
        assert_eq!(lines(), before, "{}", world.trace());
    }
    world.cloud.world().lose_servers();
    world.take_up(Event::Look).unwrap();
    let after = lines();
    assert!(after > before, "what changed is written down");
    world.take_up(Event::Look).unwrap();
    assert_eq!(lines(), after, "once");
}

#[test]
fn what_a_lost_journal_left_is_found_by_its_marks_and_removed() {
    let world = World::new();
    world.applied();
    let foreign = world.cloud.world().add_address("somebody's", &[]);
    let found = orphans(&world.cloud.open().0, "project").now_or_never().unwrap().unwrap();
    let kinds: Vec<Kind> = found.iter().map(|orphan| orphan.kind).collect();
    assert_eq!(kinds, [Kind::Address, Kind::Server, Kind::Lease], "its key has a name of the user");
    assert!(found.iter().all(|orphan| orphan.deployment == world.order.id));
    let lost = World { journal: MemoryJournal::default(), ..World::new() };
    let lost = World { cloud: world.cloud.clone(), clock: world.clock.clone(), ..lost };
    let saga = remove(&lost.hands(), DeploymentOrder::to_remove(world.order.id.clone(), "project"))
        .now_or_never()
        .unwrap()
        .unwrap();
    assert_eq!(saga.state(), SagaState::Destroyed);
    let left = world.remains();
    assert_eq!((left.leases.len(), left.servers.len()), (0, 0));
    assert_eq!(left.addresses, [format!("{foreign} somebody's")]);
}

#[test]
fn two_deployments_never_touch_each_other() {
    let one = World::new();
    one.applied();
    let other = World { cloud: one.cloud.clone(), clock: one.clock.clone(), ..World::new() };
    let id = DeploymentId::new("orlop-demo", "project", "another nonce");
    let mut order = DeploymentOrder { id, ..order() };
    order.choices.reverse();
    let other = World { order, ..other };
    assert_eq!(other.applied().state(), SagaState::Ready, "{}", other.trace());
    assert_eq!(one.remains().servers.len(), 2);
    other.take_up(Event::Destroy).unwrap();
    let left = one.remains();
    assert_eq!((left.leases.len(), left.servers.len(), left.addresses.len()), (1, 1, 1));
    assert_eq!(one.take_up(Event::Look).unwrap().state(), SagaState::Ready);
}
