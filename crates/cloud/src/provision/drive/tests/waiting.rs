//! Waiting for a free host: at every type and site that will do, without a lease on speculation, and within its time.

use std::time::Duration;

use orlop_core::time::Time;

use super::*;
use crate::provision::saga::ELSEWHERE;
use crate::testing::openstack::Fault;

const MINUTE: u64 = 60;

/// A deployment that waits an hour, all of whose choices were taken when it was planned: the card until in half an hour, the rest
/// for longer.
fn waiting() -> World {
    let mut world = World::new();
    world.order.pace.capacity = Some(Duration::from_secs(60 * MINUTE));
    for choice in &mut world.order.choices {
        choice.taken = true;
    }
    let now = world.clock.now();
    let mut cloud = world.cloud.world();
    cloud.take_all(now.plus(Duration::from_secs(600 * MINUTE)));
    cloud.taken.insert("3".into(), now.plus(Duration::from_secs(30 * MINUTE)));
    drop(cloud);
    world
}

fn posts(world: &World) -> usize {
    world.cloud.faults().calls().iter().filter(|call| call.starts_with("reservation POST /leases")).count()
}

/// How long it took, in whole minutes.
fn minutes(world: &World) -> u64 {
    world.clock.now().since(World::new().clock.now()).as_secs() / MINUTE
}

#[test]
fn what_was_taken_when_it_was_planned_is_waited_for_whatever_its_type_and_asked_for_once() {
    for (at, node_type) in [(0, "gpu_rtx_6000"), (1, "compute_haswell")] {
        let mut world = waiting();
        world.order.lease_name = Some("mine".to_owned());
        if at == 1 {
            let now = world.clock.now();
            let mut cloud = world.cloud.world();
            cloud.take_all(now.plus(Duration::from_secs(600 * MINUTE)));
            cloud.taken.insert("2".into(), now.plus(Duration::from_secs(30 * MINUTE)));
        }
        let saga = world.applied();
        assert_eq!((saga.state(), saga.failure()), (SagaState::Ready, None), "{}", world.trace());
        assert_eq!(saga.choice().map(|choice| choice.node_type.as_str()), Some(node_type));
        assert_eq!((posts(&world), saga.attempt()), (1, 1), "no lease on speculation");
        assert!((35..50).contains(&minutes(&world)), "half an hour, the margin, and the build: {}", minutes(&world));
        assert!(world.remains().leases.iter().any(|lease| lease.ends_with(" mine")), "it is the first lease");
    }
}

#[test]
fn the_end_of_the_wait_or_of_everything_is_exit_11_and_leaves_nothing() {
    for (wait, deadline, ended) in [(20, 75, 20..22), (600, 25, 25..27)] {
        let mut world = waiting();
        (world.order.pace.capacity, world.order.pace.deadline) =
            (Some(Duration::from_secs(wait * MINUTE)), Duration::from_secs(deadline * MINUTE));
        // That a host is free only in three hours gives nobody more time.
        let start = world.clock.now().plus(Duration::from_secs(180 * MINUTE));
        world.order.choices.iter_mut().for_each(|choice| choice.start = Some(start));
        let saga = world.applied();
        let failure = saga.failure().unwrap();
        assert_eq!((saga.state(), failure.exit.code()), (SagaState::Failed, 11));
        assert_eq!(failure.message, "no free gpu_rtx_6000 at test: every host that fits is taken");
        assert!(ended.contains(&minutes(&world)), "{wait} {deadline}: {}", minutes(&world));
        assert_eq!(posts(&world), 0);
        world.assert_nothing("waited in vain");
    }
}

#[test]
fn where_nobody_knows_what_is_free_one_lease_a_minute_is_asked_for() {
    for hides in [true, false] {
        let mut world = waiting();
        world.order.pace.capacity = Some(Duration::from_secs(10 * MINUTE));
        if hides {
            world.cloud.faults().on("reservation GET /os-hosts/allocations", Fault::Status(403), 100);
        } else {
            world.order.choices.iter_mut().for_each(|choice| choice.hosts.clear());
        }
        let saga = world.applied();
        assert_eq!((saga.state(), saga.failure().map(|failure| failure.exit.code())), (SagaState::Failed, Some(11)));
        assert!((8..=10).contains(&posts(&world)), "in ten minutes: {}", posts(&world));
        let asked = world.journal.written().into_iter().filter_map(|line| match line.entry {
            Entry::Intent { object: crate::provision::journal::Kind::Lease, choice, .. } => Some((line.ts, choice)),
            _ => None,
        });
        let asked: Vec<_> = asked.collect();
        for pair in asked.windows(2) {
            assert!(pair[1].0.since(pair[0].0) >= Duration::from_secs(MINUTE), "{asked:?}");
            assert_ne!(pair[1].1, pair[0].1, "every type in its turn: {asked:?}");
        }
        world.assert_nothing("refused to the end");
    }
}

#[test]
fn what_is_said_to_be_free_and_refused_is_asked_for_once_a_minute_too() {
    let mut world = waiting();
    world.order.pace.capacity = Some(Duration::from_secs(10 * MINUTE));
    for choice in &mut world.order.choices {
        (choice.taken, choice.hosts) = (false, vec!["nobody's".to_owned()]);
    }
    assert_eq!(world.applied().failure().map(|failure| failure.exit.code()), Some(11));
    assert!((9..=12).contains(&posts(&world)), "two as planned, then one a minute: {}", posts(&world));
}

#[test]
fn room_at_another_site_ends_the_wait_here_unless_there_is_room_here() {
    let outcome = |elsewhere: Elsewhere, hides: bool| {
        let world = waiting();
        *world.stage.elsewhere.lock().unwrap() = elsewhere;
        if hides {
            world.cloud.faults().on("reservation GET /os-hosts/allocations", Fault::Status(403), 100);
            world.cloud.world().taken.clear();
        }
        let saga = world.applied();
        let ended = saga.failure().map(|failure| (failure.exit.code(), failure.code.clone()));
        (saga.state(), ended, posts(&world))
    };
    let other = Some("other".to_owned());
    let left = (SagaState::Failed, Some((11, ELSEWHERE.to_owned())), 0);
    assert_eq!(outcome(Elsewhere { free: other.clone(), unknown: None }, false), left);
    assert_eq!(
        outcome(Elsewhere { free: None, unknown: other.clone() }, false),
        left,
        "better than none that is known"
    );
    assert_eq!(
        outcome(Elsewhere { free: other.clone(), unknown: None }, true),
        left,
        "better than one that may be free"
    );
    assert_eq!(
        outcome(Elsewhere { free: None, unknown: other }, true),
        (SagaState::Ready, None, 1),
        "no better than here"
    );
}

#[test]
fn killed_while_it_waits_it_waits_on_and_asks_for_nothing_before() {
    let world = waiting();
    world.cloud.faults().on("reservation GET /os-hosts/allocations", Fault::Kill, 1);
    assert!(world.apply().is_none());
    let saga = world.take_up(Event::Resume).unwrap();
    assert_eq!((saga.state(), posts(&world)), (SagaState::Ready, 1), "{}", world.trace());
    // The same where a lease was asked for and refused before.
    let mut world = waiting();
    world.order.choices.iter_mut().for_each(|choice| choice.taken = false);
    world.cloud.faults().on("reservation GET /os-hosts/allocations", Fault::Kill, 1);
    assert!(world.apply().is_none());
    let before = posts(&world);
    assert_eq!(world.take_up(Event::Resume).unwrap().state(), SagaState::Ready, "{}", world.trace());
    assert_eq!((before, posts(&world)), (2, 3), "nothing until a host was free");
}

#[test]
fn dates_of_a_lease_are_those_of_the_cloud_where_its_clock_differs_by_more_than_a_minute() {
    for (ahead, differs) in [(3600, true), (-3600, true), (61, true), (60, false), (-60, false)] {
        let world = World::new();
        world.cloud.world().clock_ahead = ahead;
        let saga = world.applied();
        assert_eq!((saga.state(), saga.attempt()), (SagaState::Ready, 1), "{ahead}: {}", world.trace());
        let is_warned = saga.warnings().iter().any(|text| *text == format!("local clock is {} s off", ahead.abs()));
        assert_eq!(is_warned, differs, "{ahead}: {:?}", saga.warnings());
        let began = World::new().clock.now().millis() + if differs { ahead * 1000 } else { 0 };
        let end = began.div_euclid(60_000) * 60_000 + 24 * 3_600_000;
        assert_eq!(saga.lease_end().map(Time::millis), Some(end), "{ahead}");
    }
}

#[test]
fn a_start_that_passed_is_computed_once_more_from_the_date_of_the_refusal() {
    let world = World::new();
    let late = (400, "Start date must be later than current date".to_owned());
    world.cloud.world().refuse_leases.push(late);
    let (cloud, session) = world.cloud.open();
    let hands = Hands { cloud, ..world.hands() };
    // What was believed at first is wrong since somebody set the clock.
    for _ in 0..15 {
        session.hear_date(world.clock.now().millis(), false);
    }
    world.cloud.world().clock_ahead = 600;
    let saga = apply(&hands, world.order.clone(), "nonce", Vec::new()).now_or_never().unwrap().unwrap();
    assert_eq!((saga.state(), saga.attempt()), (SagaState::Ready, 1), "{}", world.trace());
    assert!(saga.warnings().contains(&"local clock is 600 s off".to_owned()), "{:?}", saga.warnings());
}

#[test]
fn a_rate_that_nobody_knows_is_never_told_as_known() {
    let mut world = World::new();
    world.order.choices.iter_mut().for_each(|choice| choice.su_known = false);
    let saga = world.applied();
    assert_eq!(saga.cost().unwrap().text(), "at least 24 SU (rate unknown)");
    let warning = "the site does not publish the cost of an hour: at least 24 SU (rate unknown)".to_owned();
    assert!(saga.warnings().contains(&warning), "{:?}", saga.warnings());
    world.cloud.faults().on("reservation DELETE", Fault::Status(500), 100_000);
    let left = world.take_up(Event::Destroy).unwrap().failure().unwrap().message.clone();
    assert!(left.ends_with("at least 1 SU (rate unknown)/h)"), "{left}");
}
