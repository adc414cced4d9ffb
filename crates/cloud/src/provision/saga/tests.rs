//! The saga without a cloud: what it does with answers that nobody should give, and that it is the same for the same input.

use proptest::prelude::*;

use super::*;
use crate::exit::Exit;
use crate::openstack::classify::{Meaning, Service};
use crate::openstack::port::{CloudError, Keypair, Limits, Reached};
use crate::provision::journal::Line;
use crate::provision::mark::DeploymentId;
use crate::provision::order::Choice;

fn order() -> DeploymentOrder {
    let mut order = DeploymentOrder::to_remove(DeploymentId::new("server", "project", "nonce"), "project");
    order.choices = vec![Choice {
        site: "s".into(),
        node_type: "t".into(),
        reserve: Some(crate::openstack::port::Reserve::Flavor { flavor_id: "4".into() }),
        hosts: Vec::new(),
        start: None,
        hours: 1,
        images: Vec::new(),
        flavor: "4".into(),
        su_milli: 1000,
        su_known: true,
        expects: None,
        taken: false,
        gpu_model: None,
    }];
    order.max_attempts = 2;
    order.key.name = "k".into();
    order.key.public_key = Some("ssh-ed25519 AAAA".into());
    order.external = Some("public".into());
    order
}

fn error(meaning: Meaning) -> CloudError {
    let mut error = CloudError::own(Service::Compute, "GET /", meaning, "made up");
    error.reached = Reached::Answered;
    error
}

fn answer(number: u8) -> Answer {
    let meanings = [
        Meaning::Gone,
        Meaning::Ambiguous,
        Meaning::Capacity,
        Meaning::Quota,
        Meaning::Auth,
        Meaning::Image,
        Meaning::Clock,
        Meaning::Exhausted,
        Meaning::NextPort,
        Meaning::TrustSuspected,
    ];
    match number % 24 {
        0..=9 => Answer::Failed(error(meanings[usize::from(number % 24)])),
        10 => Answer::Done,
        11 => Answer::Keypair(Keypair {
            name: "k".into(),
            public_key: "ssh-ed25519 AAAA".into(),
            fingerprint: String::new(),
        }),
        12 => Answer::Leases(Vec::new()),
        13 => Answer::Servers(Vec::new()),
        14 => Answer::Addresses(Vec::new()),
        15 => Answer::Inventory(Box::default()),
        16 => Answer::ServerMade("S".into()),
        17 => Answer::Console(Some("text".into())),
        18 => Answer::Ports(Vec::new()),
        19 => Answer::Capacity(AvailableCapacity { here: Here::Known(Vec::new()), elsewhere: Elsewhere::default() }),
        20 => Answer::Probed(Probe::Silent),
        21 => Answer::Groups(Vec::new()),
        22 => Answer::Rechecked(Facts { networks: Vec::new(), limits: Limits::default(), image: true, flavor: true }),
        _ => Answer::Failed(error(Meaning::Transient)),
    }
}

fn event(number: u8) -> Event {
    match number {
        0..=199 => Event::Answered(Box::new(answer(number))),
        200..=229 => Event::Woke,
        230..=234 => Event::Interrupt(Stop::RollBack),
        235..=239 => Event::Interrupt(Stop::Keep),
        240..=244 => Event::Destroy,
        245..=249 => Event::Resume,
        250 | 251 => Event::Start,
        252 | 253 => Event::Look,
        _ => Event::Extend { end: Time::from_millis(9_999_999_999) },
    }
}

proptest! {
    #[test]
    fn no_order_of_events_panics_and_all_of_them_are_deterministic(numbers in prop::collection::vec(any::<u8>(), 0..120)) {
        let run = || {
            let mut saga = Saga::new(order(), Vec::new());
            let mut all = Vec::new();
            let mut now = Time::EPOCH;
            all.push(saga.on(Event::Start, now));
            for number in &numbers {
                now = now.plus(Duration::from_secs(u64::from(*number)));
                let effects = saga.on(event(*number), now);
                let calls = effects.iter().filter(|effect| matches!(effect, Effect::Call { .. })).count();
                assert!(calls <= 1, "one call at a time: {effects:?}");
                // What is to be made is written down before it is asked for.
                for (at, effect) in effects.iter().enumerate() {
                    if let Effect::Call { call, .. } = effect
                        && matches!(**call, Call::CreateLease(_) | Call::CreateServer(..) | Call::CreateAddress(_))
                    {
                        let intent = |effect: &Effect| matches!(effect, Effect::Record(Entry::Intent { .. }));
                        assert!(effects.iter().take(at).any(intent), "{effects:?}");
                    }
                }
                all.push(effects);
            }
            all
        };
        prop_assert_eq!(run(), run());
    }
}

proptest! {
    #[test]
    fn a_journal_tells_state_and_objects_of_its_saga_after_any_events(numbers in prop::collection::vec(any::<u8>(), 0..120)) {
        let mut saga = Saga::new(order(), Vec::new());
        let mut lines = Vec::new();
        let mut now = Time::EPOCH;
        let mut write = |entry: Entry, ts: Time| {
            lines.push(Line { seq: lines.len() as u64 + 1, ts, attempt: 1, entry });
            replayed(&lines).expect("a plan was written")
        };
        let mut replayed_saga = write(Entry::Plan(Box::new(order())), now);
        for event in std::iter::once(Event::Start).chain(numbers.into_iter().map(event)) {
            now = now.plus(Duration::from_secs(20));
            for effect in saga.on(event, now) {
                if let Effect::Record(entry) = effect {
                    replayed_saga = write(entry, now);
                }
            }
            assert_eq!(replayed_saga.state(), saga.state());
            assert_eq!(Kind::ALL.map(|kind| replayed_saga.id_of(kind)), Kind::ALL.map(|kind| saga.id_of(kind)));
        }
    }
}

#[test]
fn failures_are_stored_with_the_name_of_their_exit_code_and_read_with_the_number_of_earlier_versions() {
    let failure = Failure::new(Exit::Leftovers, "leftover", "m", "h");
    let stored = serde_json::to_value(&failure).unwrap();
    assert_eq!(stored["exit"], "leftovers");
    assert_eq!(serde_json::from_value::<Failure>(stored).unwrap(), failure);
    for (number, exit) in [
        (1, Exit::Failed),
        (2, Exit::Usage),
        (3, Exit::Denied),
        (6, Exit::Quota),
        (7, Exit::Quota),
        (8, Exit::Denied),
        (9, Exit::Unreachable),
        (10, Exit::Failed),
        (11, Exit::Leftovers),
        (12, Exit::Unusable),
        (130, Exit::Interrupted),
    ] {
        let stored = serde_json::json!({"exit": number, "code": "c", "message": "m", "hint": "h", "request_id": null});
        assert_eq!(serde_json::from_value::<Failure>(stored).unwrap().exit, exit, "{number}");
    }
}
