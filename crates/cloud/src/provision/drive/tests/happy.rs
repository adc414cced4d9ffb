//! The happy way, and what it costs in calls.

use super::*;
use crate::provision::info::{Info, JournalPlace};
use crate::provision::journal::{Kind, encode, replay};
use crate::provision::notes::Notes;

#[test]
fn a_deployment_gets_ready_with_one_of_each() {
    let world = World::new();
    let saga = world.applied();
    assert_eq!(saga.state(), SagaState::Ready, "{:?}\n{}", saga.failure(), world.trace());
    world.assert_one_of_each("ready");
    assert!(saga.detail_of(Kind::Address).is_some_and(|address| address.starts_with("192.5.87.")));
    assert!(saga.warnings().is_empty(), "{:?}", saga.warnings());
    let states: Vec<String> = world
        .journal
        .written()
        .iter()
        .filter_map(|line| match &line.entry {
            Entry::Observed { state, .. } => Some(state.to_string()),
            _ => None,
        })
        .fold(Vec::new(), |mut states, state| {
            if states.last() != Some(&state) {
                states.push(state);
            }
            states
        });
    assert_eq!(
        states.join(" "),
        "KeyIntent KeyReady LeaseIntent LeaseWait ServerIntent ServerWait FipIntent Verifying Ready"
    );
}

#[test]
fn the_state_file_tells_all_and_ends_with_a_command() {
    let world = World::new();
    let saga = world.applied();
    let notes = Notes { key_file: Some("/home/me/my key.pem".to_owned()), ..Default::default() };
    let journal = JournalPlace { path: "journal.jsonl".to_owned(), last_seq: 7 };
    let info = Info::of(&saga, &notes, journal, world.clock.now());
    let document = serde_json::to_value(&info).unwrap();
    assert_eq!(document.as_object().unwrap().len(), 40);
    assert_eq!((info.status, info.degraded, info.key_created), (SagaState::Ready, false, true));
    let lease = info.lease_name.unwrap();
    assert_eq!(Some(1), world.order.id.marks().lease_attempt(&lease));
    assert_eq!(info.ssh_command.unwrap(), format!("ssh -i '/home/me/my key.pem' cc@{}", info.floating_ip.unwrap()));
}

#[test]
fn a_happy_deployment_takes_few_calls_besides_polls() {
    let world = World::new();
    world.applied();
    let calls = world.cloud.faults().calls();
    let polls = |call: &&String| call.contains("GET /leases/") || call.contains("GET /servers/server");
    let others: Vec<&String> = calls.iter().filter(|call| !polls(call)).collect();
    // Signing in and the version of the compute service are asked for once a session.
    assert!(others.len() <= 14, "{}: {others:#?}", others.len());
}

#[test]
fn every_create_was_written_down_before_it_was_asked_for() {
    let world = World::new();
    world.applied();
    let written = world.journal.written();
    for kind in [Kind::Key, Kind::Lease, Kind::Server, Kind::Address] {
        let at = |wanted: &dyn Fn(&Entry) -> bool| written.iter().position(|line| wanted(&line.entry));
        let intent = at(&|entry| matches!(entry, Entry::Intent { object, .. } if *object == kind));
        let done = at(&|entry| matches!(entry, Entry::Done { object, .. } if *object == kind));
        assert!(intent.is_some() && intent < done, "{kind:?}");
    }
}

#[test]
fn no_secret_is_in_the_journal_and_its_lines_are_read_again() {
    let world = World::new();
    world.applied();
    let lines = world.journal.written();
    let text: String = lines.iter().map(|line| encode(line).unwrap() + "\n").collect();
    assert!(!text.contains("secret-of-the-double") && !text.contains("planted-admin-pass") && !text.contains("token-"));
    assert_eq!(replay(text.as_bytes()), Ok((lines, text.len())));
}

#[test]
fn a_journal_tells_the_same_state_at_every_line() {
    let world = World::new();
    let saga = world.applied();
    let again = replayed(&world.journal.written()).unwrap();
    assert_eq!(again.state(), saga.state());
    for kind in Kind::ALL {
        assert_eq!(again.id_of(kind), saga.id_of(kind), "{kind:?}");
        assert_eq!(again.detail_of(kind), saga.detail_of(kind), "{kind:?}");
    }
}

#[test]
fn resume_of_what_is_ready_makes_nothing_and_destroy_takes_everything() {
    let world = World::new();
    world.applied();
    let before = world.cloud.faults().calls().len();
    let saga = world.take_up(Event::Resume).unwrap();
    assert_eq!(saga.state(), SagaState::Ready);
    let is_no_create = |call: &String| !call.contains("POST") || call.contains("/auth/tokens");
    assert!(world.cloud.faults().calls().iter().skip(before).all(is_no_create), "zero creates: {}", world.trace());
    let saga = world.take_up(Event::Destroy).unwrap();
    assert_eq!(saga.state(), SagaState::Destroyed, "{:?}", saga.failure());
    world.assert_nothing("destroyed");
    let again = world.take_up(Event::Destroy).unwrap();
    assert_eq!((again.state(), again.failure()), (SagaState::Destroyed, None));
}

#[test]
fn ssh_from_somewhere_makes_a_group_that_goes_with_the_deployment() {
    let mut world = World::new();
    world.order.ssh_from = Some("192.0.2.0/24".to_owned());
    let saga = world.applied();
    assert_eq!(saga.state(), SagaState::Ready, "{}", world.trace());
    assert_eq!(world.remains().groups.len(), 1);
    world.take_up(Event::Destroy).unwrap();
    world.assert_nothing("destroyed");
}

#[test]
fn tokens_that_end_on_the_way_are_renewed() {
    let world = World::new();
    world.cloud.world().token_lasts = std::time::Duration::from_secs(100);
    let saga = world.applied();
    assert_eq!(saga.state(), SagaState::Ready, "{:?}", saga.failure());
    let signed_in = world.cloud.faults().calls().iter().filter(|call| call.contains("/auth/tokens")).count();
    assert!(signed_in > 1, "{signed_in}");
}
