//! What hangs on a deployment: joining a fleet, caps on its life, host keys of its console.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;
use crate::openstack::port::Clock as _;
use crate::provision::join::{Join, JoinOrder};

const CONSOLE: &str = "-----BEGIN SSH HOST KEY KEYS-----\r\nssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFFhJ1Zo root@h\r\n-----END SSH HOST KEY KEYS-----\r\n";

fn secret() -> String {
    format!("orlopj.k1.{}.{}", "5e".repeat(32), "cd".repeat(32))
}

fn joining() -> World {
    let mut world = World::new();
    let url = |text: &str| text.parse().unwrap();
    let sum = "ab".repeat(32).parse().unwrap();
    let join = Join::new(url("https://fleet:7071"), url("https://get.example/w"), sum).unwrap();
    world.order.join = Some(JoinOrder { join, token_file: "/somewhere/join.token".to_owned() });
    *world.stage.token.lock().unwrap() = Ok(secret());
    world
}

#[test]
fn the_token_is_in_what_the_server_runs_and_nowhere_else() {
    let world = joining();
    let saga = world.applied();
    assert_eq!(saga.state(), SagaState::Ready, "{}", world.trace());
    let sent = world.cloud.world().user_data.last().cloned().unwrap();
    let text = String::from_utf8(STANDARD.decode(sent).unwrap()).unwrap();
    assert!(text.contains(&STANDARD.encode(secret())), "{text}");
    let written = format!("{:?} {saga:?}", world.journal.written());
    assert!(
        !written.contains("5e5e5e") && written.contains("/somewhere/join.token"),
        "its place is known, and not its text"
    );
}

#[test]
fn a_token_that_cannot_be_read_leaves_nothing() {
    let world = joining();
    *world.stage.token.lock().unwrap() = Err("it is gone".to_owned());
    let saga = world.applied();
    assert_eq!((saga.state(), saga.failure().unwrap().exit.code()), (SagaState::Failed, 2), "{}", world.trace());
    assert!(saga.failure().unwrap().message.contains("it is gone"));
    world.assert_nothing("no token");
}

#[test]
fn a_worker_that_joins_in_time_makes_it_ready() {
    for (looks, why) in [(1, "at once"), (55, "after nine minutes")] {
        let mut world = joining();
        world.order.verify = Verify::Join;
        *world.stage.joins.lock().unwrap() = Ok(Some(looks));
        assert_eq!(world.applied().state(), SagaState::Ready, "{why}: {}", world.trace());
    }
}

#[test]
fn a_worker_that_does_not_join_is_unreachable_and_kept() {
    for joins in [Ok(None), Ok(Some(200)), Err("the fleet is away".to_owned())] {
        let mut world = joining();
        world.order.verify = Verify::Join;
        *world.stage.joins.lock().unwrap() = joins.clone();
        let before = world.clock.now();
        let saga = world.applied();
        let failure = saga.failure().unwrap();
        assert_eq!(
            (saga.state(), failure.exit.code(), failure.code.as_str()),
            (SagaState::Unreachable, 13, "not_joined")
        );
        assert_eq!(failure.message.contains("the fleet is away"), joins.is_err(), "{failure:?}");
        let waited = world.clock.now().since(before).as_secs();
        assert!((900..1000).contains(&waited), "five minutes until it is there, and ten: {waited}");
        world.assert_one_of_each("kept");
        *world.stage.joins.lock().unwrap() = Ok(Some(1));
        assert_eq!(world.take_up(Event::Resume).unwrap().state(), SagaState::Ready, "it joined later");
    }
}

#[test]
fn without_an_address_the_worker_is_waited_for_all_the_same() {
    let mut world = joining();
    (world.order.verify, world.order.external) = (Verify::Join, None);
    *world.stage.probe.lock().unwrap() = Probe::Silent;
    *world.stage.joins.lock().unwrap() = Ok(Some(3));
    assert_eq!(world.applied().state(), SagaState::Degraded, "{}", world.trace());
    let mut world = joining();
    (world.order.verify, world.order.external) = (Verify::Join, None);
    *world.stage.probe.lock().unwrap() = Probe::Silent;
    assert_eq!(world.applied().state(), SagaState::Unreachable, "{}", world.trace());
}

#[test]
fn no_extension_goes_beyond_the_lifetime_whoever_asks_later() {
    let mut world = World::new();
    world.order.max_hours = Some(30);
    let end = world.applied().lease_end().unwrap();
    let hours = |hours: u64| end.plus(Duration::from_secs(hours * 3600));
    for (by, exit) in [(7, Some(6)), (6, None), (7, Some(6))] {
        let saga = world.take_up(Event::Extend { end: hours(by) }).unwrap();
        assert_eq!(saga.failure().map(|failure| failure.exit.code()), exit, "{by} h more: {:?}", saga.failure());
    }
    assert_eq!(world.take_up(Event::Look).unwrap().lease_end(), Some(hours(6)));
}

#[test]
fn who_signs_in_knows_the_keys_of_the_console() {
    let mut world = World::new();
    world.order.verify = Verify::Login;
    world.cloud.world().console = CONSOLE.to_owned();
    assert_eq!(world.applied().state(), SagaState::Ready);
    assert_eq!(*world.stage.keys.lock().unwrap(), [1]);
    // A console that shows none yet holds nothing up.
    let mut world = World::new();
    world.order.verify = Verify::Login;
    assert_eq!(world.applied().state(), SagaState::Ready);
    assert_eq!(*world.stage.keys.lock().unwrap(), [0]);
    // Nobody looks at the console who does not sign in.
    let world = World::new();
    world.cloud.world().console = CONSOLE.to_owned();
    assert_eq!(world.applied().state(), SagaState::Ready);
    assert_eq!(*world.stage.keys.lock().unwrap(), [0]);
}

#[test]
fn a_strange_host_key_is_reported_and_kept() {
    let mut world = World::new();
    world.order.verify = Verify::Login;
    *world.stage.probe.lock().unwrap() = Probe::Stranger("another key".to_owned());
    let saga = world.applied();
    let failure = saga.failure().unwrap();
    assert_eq!((saga.state(), failure.exit.code(), failure.code.as_str()), (SagaState::Mismatch, 13, "host_key"));
    assert_eq!(failure.message, "another key");
    world.assert_one_of_each("kept");
}
