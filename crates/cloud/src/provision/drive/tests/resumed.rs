//! Taking up what a process left behind: late, with a clock that differs, with a lease that is no more; and stopping those that only
//! look.

use std::time::Duration;

use super::*;
use crate::testing::openstack::Fault;

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn a_lease_of_a_given_name_is_found_however_late_its_removal_goes_on() {
    for ahead in [0, -300, 300] {
        let mut world = World::new();
        world.order.lease_name = Some("mine".to_owned());
        world.cloud.world().clock_ahead = ahead;
        world.cloud.faults().on("reservation POST /leases", Fault::TimeoutAfter, 1);
        world.cloud.faults().on("reservation GET /leases", Fault::Status(500), 100_000);
        let saga = world.applied();
        assert_eq!((saga.state(), world.remains().leases.len()), (SagaState::Leftover, 1), "{}", world.trace());
        world.cloud.faults().clear();
        world.clock.pass(HOUR);
        let saga = world.take_up(Event::Resume).unwrap();
        assert_eq!(saga.state(), SagaState::Failed, "{ahead}: {}", world.trace());
        world.assert_nothing("a lease of a given name");
    }
}

#[test]
fn a_lease_of_a_given_name_that_was_there_before_is_never_taken_for_it() {
    let mut world = World::new();
    world.order.lease_name = Some("mine".to_owned());
    let other = World {
        order: DeploymentOrder { id: DeploymentId::new("other", "project", "x"), ..world.order.clone() },
        ..World::new()
    };
    let other = World { cloud: world.cloud.clone(), clock: world.clock.clone(), ..other };
    assert_eq!(other.applied().state(), SagaState::Ready);
    world.clock.pass(HOUR);
    world.cloud.faults().on("reservation POST /leases", Fault::TimeoutBefore, 100_000);
    world.applied();
    world.clock.pass(HOUR);
    world.take_up(Event::Destroy).unwrap();
    assert_eq!((world.remains().leases.len(), world.remains().servers.len()), (1, 1), "{}", world.trace());
}

/// Somebody else of the project takes the same name while the answer to ours is on its way.
#[test]
fn a_lease_of_a_given_name_is_distinguished_from_anothers_by_its_length_and_its_filter() {
    let foreign = |change: &dyn Fn(&mut DeploymentOrder)| {
        let mut world = World::new();
        world.order.lease_name = Some("mine".to_owned());
        world.order.choices.truncate(1);
        // It dies before it asks: whether it did nobody knows.
        world.cloud.faults().on("reservation POST /leases", Fault::Kill, 1);
        assert!(world.apply().is_none());
        let mut order = DeploymentOrder { id: DeploymentId::new("other", "project", "x"), ..world.order.clone() };
        change(&mut order);
        let other = World { cloud: world.cloud.clone(), clock: world.clock.clone(), order, ..World::new() };
        assert_eq!(other.applied().state(), SagaState::Ready);
        world.take_up(Event::Destroy).unwrap();
        world.remains().leases.len()
    };
    assert_eq!(foreign(&|order| order.choices.iter_mut().for_each(|choice| choice.hours += 1)), 1, "another length");
    assert_eq!(foreign(&|_| {}), 0, "as ours by everything that can be seen");
    let other_type = |order: &mut DeploymentOrder| order.choices = vec![choice("compute_haswell")];
    assert_eq!(foreign(&other_type), 1, "another filter");
}

/// A deployment that dies before it asks for its server, and another one that made their common key and is destroyed meanwhile.
fn without_key() -> World {
    let one = World::new();
    assert_eq!(one.applied().state(), SagaState::Ready);
    let mut order = DeploymentOrder { id: DeploymentId::new("other", "project", "x"), ..one.order.clone() };
    order.choices.reverse();
    let other = World { cloud: one.cloud.clone(), clock: one.clock.clone(), order, ..World::new() };
    other.cloud.faults().on("compute POST /servers", Fault::Kill, 1);
    assert!(other.apply().is_none());
    assert_eq!(one.take_up(Event::Destroy).unwrap().state(), SagaState::Destroyed);
    assert_eq!(other.remains().keypairs.len(), 0, "it went with the one that made it");
    other
}

#[test]
fn a_key_that_went_with_another_deployment_is_made_again_and_removed_at_the_end() {
    let faults = [
        None,
        Some(Fault::TimeoutBefore),
        Some(Fault::TimeoutAfter),
        Some(Fault::Status(503)),
        Some(Fault::StatusAfter(500)),
        Some(Fault::Kill),
        Some(Fault::KillAfter),
    ];
    for fault in faults {
        let world = without_key();
        if let Some(fault) = fault {
            world.cloud.faults().on("compute POST /os-keypairs", fault, 1);
        }
        let resumed = world.take_up(Event::Resume).or_else(|| world.take_up(Event::Resume));
        let saga = resumed.unwrap();
        assert_eq!(saga.state(), SagaState::Ready, "{fault:?} {:?}\n{}", saga.failure(), world.trace());
        assert!(saga.warnings().iter().any(|words| words.contains("creating it again")), "{:?}", saga.warnings());
        world.assert_one_of_each("with a key of its own");
        assert_eq!(world.take_up(Event::Destroy).unwrap().state(), SagaState::Destroyed);
        world.assert_nothing("its key too");
    }
}

#[test]
fn a_server_that_is_not_shown_yet_is_waited_for_and_never_made_twice() {
    for vm in [false, true] {
        let mut world = World::new();
        if vm {
            world.order = vms::order(false);
        }
        world.cloud.faults().on("compute GET /servers/", Fault::Kill, 1);
        assert!(world.apply().is_none());
        let made = || world.cloud.faults().calls().iter().filter(|call| call.contains("POST /servers")).count();
        assert_eq!((made(), world.remains().servers.len()), (1, 1));
        world.cloud.world().hide_servers(Duration::from_secs(30));
        let saga = world.take_up(Event::Resume).unwrap();
        assert_eq!((saga.state(), made()), (SagaState::Ready, 1), "{vm}: {}", world.trace());
        world.assert_one_of_each("taken up");
    }
}

#[test]
fn a_lease_that_ended_meanwhile_is_a_failure_of_its_own() {
    let mut world = World::new();
    world.order.max_attempts = 1;
    world.cloud.faults().on("compute GET /servers/", Fault::Kill, 1);
    assert!(world.apply().is_none());
    world.cloud.world().degrade();
    let saga = world.take_up(Event::Resume).unwrap();
    let failure = saga.failure().map(|failure| (failure.exit.code(), failure.message.as_str()));
    assert_eq!((saga.state(), failure), (SagaState::Failed, Some((1, "reservation lost its host"))));
    world.assert_nothing("rolled back");
}

#[test]
fn a_lease_that_starts_after_the_deadline_is_waited_for() {
    let mut world = World::new();
    let start = world.clock.now().plus(3 * HOUR);
    world.order.choices.iter_mut().for_each(|choice| choice.start = Some(start));
    assert!(world.order.pace.deadline < 3 * HOUR);
    let saga = world.applied();
    assert_eq!((saga.state(), saga.attempt()), (SagaState::Ready, 1), "{:?}\n{}", saga.failure(), world.trace());
    world.assert_one_of_each("begun later");
    // Once it has started everything is in time again.
    let mut slow = World::new();
    slow.order.choices = world.order.choices.clone();
    slow.order.choices.truncate(1);
    slow.order.pace.deadline = Duration::from_secs(600);
    slow.cloud.world().build.takes = Duration::from_secs(100_000);
    let failure = slow.applied().failure().cloned().unwrap();
    assert_eq!((failure.exit.code(), failure.message.starts_with("server not ready after ")), (1, true), "{failure:?}");
    assert!(slow.clock.now() < start.plus(HOUR), "{}", slow.clock.now());
    slow.assert_nothing("late");
}

/// What happens to a deployment, in words and to its cloud.
type Happening = (&'static str, fn(&World));

/// What a journal tells of a deployment that ended well was so when it was written.
#[test]
fn a_deployment_that_ended_well_is_believed_only_after_a_look_at_the_cloud() {
    let happenings: [Happening; 3] = [
        ("its lease ended", |world| world.clock.pass(25 * HOUR)),
        ("its lease was deleted", |world| world.cloud.world().lose_leases()),
        ("its server was deleted", |world| world.cloud.world().lose_servers()),
    ];
    for pool in [4, 0] {
        for (what, happens) in happenings {
            let world = World::new();
            world.cloud.world().pool = pool;
            assert!(ended_well(&world.applied()));
            happens(&world);
            let saga = world.take_up(Event::Resume).unwrap();
            assert_eq!((saga.state(), saga.failure()), (SagaState::Expired, None), "{what}, {pool}: {}", world.trace());
            assert_eq!(world.take_up(Event::Destroy).unwrap().state(), SagaState::Destroyed);
            world.assert_nothing(what);
        }
    }
}

#[test]
fn a_deployment_that_cannot_be_looked_at_is_not_called_ready() {
    let world = World::new();
    world.applied();
    let before = world.journal.written().len();
    for service in ["reservation GET /leases", "compute GET /servers"] {
        world.cloud.faults().on(service, Fault::Status(503), 100_000);
        let saga = world.take_up(Event::Resume).unwrap();
        let exit = saga.failure().map(|failure| failure.exit.code());
        assert_eq!((saga.state(), exit), (SagaState::Ready, Some(7)), "{service}: {}", world.trace());
        *world.stage.stop.lock().unwrap() = Some((0, Stop::RollBack));
        let saga = world.take_up(Event::Resume).unwrap();
        let exit = saga.failure().map(|failure| failure.exit.code());
        assert_eq!((saga.state(), exit), (SagaState::Ready, Some(130)), "{service}: {}", world.trace());
        *world.stage.stop.lock().unwrap() = None;
        world.cloud.faults().clear();
        let saga = world.take_up(Event::Resume).unwrap();
        assert_eq!((saga.state(), saga.failure()), (SagaState::Ready, None), "{service}");
    }
    assert_eq!(world.journal.written().len(), before, "nothing changed: {}", world.trace());
    world.assert_one_of_each("left as it is");
}

#[test]
fn who_looks_and_is_stopped_removes_nothing_and_who_extends_says_what_is_unclear() {
    let world = World::new();
    world.cloud.faults().on("compute GET /servers/", Fault::Kill, 1);
    assert!(world.apply().is_none());
    *world.stage.stop.lock().unwrap() = Some((0, Stop::RollBack));
    let saga = world.take_up(Event::Look).unwrap();
    assert_eq!((saga.state(), saga.failure()), (SagaState::ServerWait, None), "{}", world.trace());
    assert_eq!((world.remains().leases.len(), world.remains().servers.len()), (1, 1));
    *world.stage.stop.lock().unwrap() = None;
    let ready = world.take_up(Event::Resume).unwrap();
    let end = ready.lease_end().unwrap();
    *world.stage.stop.lock().unwrap() = Some((0, Stop::RollBack));
    let saga = world.take_up(Event::Extend { end: end.plus(HOUR) }).unwrap();
    let failure = saga.failure().cloned().unwrap();
    assert_eq!((saga.state(), failure.exit.code()), (SagaState::Ready, 130), "{failure:?}");
    assert_eq!(failure.message, "interrupted; whether the lease has its new end was not seen");
    world.assert_one_of_each("interrupted");
}

#[test]
fn after_an_interruption_that_rolled_back_nothing_is_left_to_go_on_with() {
    for (stop, words) in [(Stop::RollBack, "apply again"), (Stop::Keep, "continue with resume")] {
        let world = World::new();
        *world.stage.stop.lock().unwrap() = Some((8, stop));
        let saga = world.applied();
        let hint = saga.failure().map(|failure| failure.hint.as_str()).unwrap_or_default();
        assert!(hint.contains(words) && hint.contains("resume") == (stop == Stop::Keep), "{stop:?}: {hint}");
    }
}
