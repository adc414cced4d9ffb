//! The rules of the election, and elections among processes whose clocks differ, over a server that loses what it is sent.

use std::collections::BTreeMap;
use std::time::Duration;

use orlop_core::time::Time;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::api::{ApiError, Request, Verb};

/// Leases with versions.
#[derive(Default)]
struct Server {
    leases: BTreeMap<String, Value>,
    version: u64,
}

impl Server {
    fn answer(&mut self, request: &Request) -> Result<Value, ApiError> {
        let refused = |code, reason: &str| ApiError::from_status(code, &json!({"reason": reason}));
        let known = self.leases.get(&request.name);
        match (&request.verb, known) {
            (Verb::Get, known) => return known.cloned().ok_or_else(|| refused(404, "NotFound")),
            (Verb::Create, Some(_)) => return Err(refused(409, "AlreadyExists")),
            (Verb::Update, None) => return Err(refused(404, "NotFound")),
            (Verb::Update, Some(known)) => {
                let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
                assert!(version(&request.body).is_string(), "an update names the version it replaces");
                if version(&request.body) != version(known) {
                    return Err(refused(409, "Conflict"));
                }
            }
            (Verb::Create, None) => {}
            (verb, _) => panic!("{verb:?} is no right of an operator"),
        }
        self.version += 1;
        let mut object = request.body.clone();
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.leases.insert(request.name.clone(), object.clone());
        Ok(object)
    }

    fn holders(&self) -> Vec<&str> {
        self.leases.values().map(record::holder).collect()
    }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Acts until there is nothing to do at that moment; the server answers at once.
fn settle(election: &mut Election, server: &mut Server, now: Duration) -> Action {
    for _ in 0..50 {
        match election.act(now, Time::EPOCH.plus(now)) {
            Action::Send(request) => election.handle_response(now, now, server.answer(&request)),
            act => return act,
        }
    }
    panic!("requests without end: {election:?}");
}

fn candidate(name: &str) -> Election {
    Election::new(Options::operator(name, "orlop", true))
}

#[test]
fn both_leases_are_taken_and_renewed_and_given_back() {
    let (mut a, mut server) = (candidate("a"), Server::default());
    assert_eq!(settle(&mut a, &mut server, seconds(0)), Action::Wait(seconds(2)));
    assert_eq!((a.leads_until(), server.holders()), (Some(seconds(10)), vec!["a", "a"]));
    insta::assert_snapshot!(server.leases[FLOWS], @r#"{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"zen-flow-controller-leader-election","namespace":"orlop","resourceVersion":"2"},"spec":{"acquireTime":"1970-01-01T00:00:00.000000Z","holderIdentity":"a","leaseDurationSeconds":15,"leaseTransitions":0,"renewTime":"1970-01-01T00:00:00.000000Z"}}"#);
    assert_eq!(settle(&mut a, &mut server, seconds(2)), Action::Wait(seconds(4)));
    assert_eq!((a.leads_until(), a.leader(), server.version), (Some(seconds(12)), Some("a"), 4));
    a.leave(seconds(3));
    assert_eq!(a.leads_until(), None);
    assert_eq!(settle(&mut a, &mut server, seconds(3)), Action::End(End::Left));
    assert_eq!(server.holders(), ["", ""]);
    insta::assert_snapshot!(server.leases[OPERATOR]["spec"], @r#"{"acquireTime":"1970-01-01T00:00:00.000000Z","leaseDurationSeconds":1,"leaseTransitions":0,"renewTime":"1970-01-01T00:00:03.000000Z"}"#);
}

#[test]
fn what_others_wrote_into_a_lease_stays() {
    let (mut a, mut server) = (candidate("a"), Server::default());
    let lease = json!({"metadata": {"name": OPERATOR, "namespace": "orlop", "labels": {"l": "v"}, "resourceVersion": "0"},
        "spec": {"strategy": "OldestEmulationVersion", "leaseTransitions": 7}});
    server.leases.insert(OPERATOR.to_owned(), lease);
    let _ = settle(&mut a, &mut server, seconds(0));
    let lease = &server.leases[OPERATOR];
    assert_eq!(lease["metadata"]["labels"]["l"], "v");
    assert_eq!(
        (&lease["spec"]["strategy"], &lease["spec"]["leaseTransitions"]),
        (&json!("OldestEmulationVersion"), &json!(8))
    );
}

#[test]
fn the_term_of_another_runs_from_when_its_record_was_seen_to_change() {
    let (mut b, mut server) = (candidate("b"), Server::default());
    // Its timestamps are of no account: they may lie far ahead or behind.
    let held = |renewed: &str| {
        json!({"metadata": {"name": OPERATOR, "namespace": "orlop", "resourceVersion": renewed},
        "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": format!("{renewed}-01-01T00:00:00.000000Z")}})
    };
    server.leases.insert(OPERATOR.to_owned(), held("1970"));
    assert_eq!(settle(&mut b, &mut server, seconds(100)), Action::Wait(seconds(102)));
    server.leases.insert(OPERATOR.to_owned(), held("2999"));
    assert_eq!(settle(&mut b, &mut server, seconds(114)), Action::Wait(seconds(116)));
    // Not later than the moment at which it is free.
    assert_eq!(settle(&mut b, &mut server, seconds(128)), Action::Wait(seconds(129)));
    let _ = settle(&mut b, &mut server, seconds(129));
    assert_eq!((b.leads_until(), server.holders()), (Some(seconds(139)), vec!["b", "b"]));
    assert_eq!(server.leases[OPERATOR]["spec"]["leaseTransitions"], 0);
}

#[test]
fn a_lease_that_another_program_keeps_leaves_the_other_lease_alone() {
    let (mut a, mut server) = (candidate("a"), Server::default());
    let zen = json!({"metadata": {"name": FLOWS, "namespace": "orlop", "resourceVersion": "0"}, "spec": {"holderIdentity": "zen"}});
    server.leases.insert(FLOWS.to_owned(), zen);
    for now in 0..14 {
        let _ = settle(&mut a, &mut server, seconds(now));
    }
    assert_eq!((server.version, a.leads_until()), (0, None), "nothing is written");
}

#[test]
fn who_does_not_get_the_second_lease_gives_the_first_back() {
    let (mut a, mut server) = (candidate("a"), Server::default());
    let now = seconds(0);
    for _ in 0..4 {
        let Action::Send(request) = a.act(now, Time::EPOCH) else { panic!("four requests") };
        if request.name == FLOWS && request.verb == Verb::Create {
            let mut zen = request.body.clone();
            zen["metadata"]["resourceVersion"] = json!("0");
            zen["spec"]["holderIdentity"] = json!("zen");
            server.leases.insert(FLOWS.to_owned(), zen);
        }
        a.handle_response(now, now, server.answer(&request));
    }
    assert_eq!(server.holders(), ["a", "zen"]);
    let _ = settle(&mut a, &mut server, seconds(2));
    assert_eq!((server.holders(), a.leads_until()), (vec!["", "zen"], None));
}

#[test]
fn a_leader_that_cannot_renew_is_none_when_its_deadline_is_over() {
    let (mut a, mut server) = (candidate("a"), Server::default());
    let _ = settle(&mut a, &mut server, seconds(0));
    let mut now = seconds(2);
    let end = loop {
        match a.act(now, Time::EPOCH) {
            Action::Send(_) => a.handle_response(now, now, Err(ApiError::no_answer("reset"))),
            Action::Wait(until) => now = until,
            Action::End(end) => break end,
        }
    };
    assert_eq!(now, seconds(10));
    let End::Lost(why) = end else { panic!("{end:?}") };
    insta::assert_snapshot!(why, @"a lease could not be renewed for 10 s: the API server does not answer: reset");
}

#[test]
fn a_renewal_counts_from_when_it_was_sent_and_only_if_it_was_answered() {
    let (mut a, mut server) = (candidate("a"), Server::default());
    let _ = settle(&mut a, &mut server, seconds(0));
    let Action::Send(request) = a.act(seconds(2), Time::EPOCH) else { panic!("a renewal") };
    server.answer(&request).expect("it is carried out");
    a.handle_response(seconds(2), seconds(4), Err(ApiError::no_answer("reset")));
    assert_eq!(a.leads_until(), Some(seconds(10)));
    // It finds its own renewal there and renews that.
    assert_eq!(settle(&mut a, &mut server, seconds(6)), Action::Wait(seconds(8)));
    assert_eq!(a.leads_until(), Some(seconds(16)));
}

#[test]
fn a_lease_in_other_hands_ends_the_term_at_once() {
    let (mut a, mut server) = (candidate("a"), Server::default());
    let _ = settle(&mut a, &mut server, seconds(0));
    let lease = server.leases.get_mut(FLOWS).expect("it is held");
    (lease["metadata"]["resourceVersion"], lease["spec"]["holderIdentity"]) = (json!("99"), json!("zen"));
    let Action::End(End::Lost(why)) = settle(&mut a, &mut server, seconds(2)) else { panic!("it leads on") };
    insta::assert_snapshot!(why, @"lease `zen-flow-controller-leader-election` is held by zen");
    assert_eq!(a.leads_until(), None);
}

#[test]
fn a_deleted_lease_is_made_again_by_its_holder_and_not_by_who_saw_it_held() {
    let (mut a, mut b, mut server) = (candidate("a"), candidate("b"), Server::default());
    let _ = settle(&mut a, &mut server, seconds(0));
    let _ = settle(&mut b, &mut server, seconds(1));
    server.leases.clear();
    let _ = settle(&mut b, &mut server, seconds(3));
    assert_eq!((b.leads_until(), server.leases.len()), (None, 0));
    let _ = settle(&mut a, &mut server, seconds(3));
    assert_eq!((a.leads_until(), server.holders()), (Some(seconds(13)), vec!["a", "a"]));
}

#[test]
fn who_leaves_asks_what_became_of_a_request_without_answer() {
    let (mut a, mut server) = (candidate("a"), Server::default());
    let now = seconds(0);
    for _ in 0..2 {
        let Action::Send(request) = a.act(now, Time::EPOCH) else { panic!("a look at each") };
        a.handle_response(now, now, server.answer(&request));
    }
    let Action::Send(request) = a.act(now, Time::EPOCH) else { panic!("it takes the first") };
    server.answer(&request).expect("it is carried out");
    a.leave(now);
    assert_eq!(settle(&mut a, &mut server, now), Action::End(End::Left));
    assert_eq!(server.holders(), [""]);
}

/// What becomes of a request and its answer.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Done,
    Lost,
    AnswerLost,
    Refused(u16),
    /// Answered after that many ticks.
    Slow(u64),
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        6 => Just(Fate::Done),
        2 => Just(Fate::Lost),
        2 => Just(Fate::AnswerLost),
        1 => prop_oneof![Just(409), Just(429), Just(500), Just(403)].prop_map(Fate::Refused),
        2 => (1_u64..60).prop_map(Fate::Slow),
    ]
}

/// A process: its clock runs at its own rate from its own beginning, and it is stopped at times.
struct Process {
    election: Election,
    rate: u64,
    begin: u64,
    pauses: Vec<(u64, u64)>,
    /// Sent then, answered at that tick.
    pending: Option<(Duration, u64, Result<Value, ApiError>)>,
}

impl Process {
    fn now(&self, tick: u64) -> Duration {
        Duration::from_millis(self.begin + tick * self.rate)
    }

    fn leads(&self, tick: u64) -> bool {
        self.election.leads_until().is_some_and(|until| self.now(tick) < until)
    }

    /// Gives whether its election is over.
    fn run(&mut self, tick: u64, server: &mut Server, fates: &mut impl FnMut() -> Fate) -> bool {
        if self.pauses.iter().any(|(from, to)| (*from..*to).contains(&tick)) {
            return false;
        }
        let now = self.now(tick);
        for _ in 0..8 {
            match self.pending.take() {
                Some((sent, at, answer)) if at <= tick => self.election.handle_response(sent, now, answer),
                Some(pending) => {
                    self.pending = Some(pending);
                    return false;
                }
                None => {}
            }
            let request = match self.election.act(now, Time::EPOCH.plus(now)) {
                Action::Send(request) => request,
                act => return matches!(act, Action::End(_)),
            };
            let lost = || Err(ApiError::no_answer("reset"));
            let (at, answer) = match fates() {
                Fate::Done => (tick, server.answer(&request)),
                Fate::Lost => (tick + 5, lost()),
                Fate::AnswerLost => (tick + 5, server.answer(&request).and_then(|_| lost())),
                Fate::Refused(code) => (tick, Err(ApiError::from_status(code, &json!({})))),
                Fate::Slow(ticks) => (tick + ticks, server.answer(&request)),
            };
            self.pending = Some((now, at, answer));
        }
        false
    }
}

/// Ticks of 100 ms in which things go wrong, and after that.
const TROUBLE: u64 = 900;
const CALM: u64 = 500;

fn pauses() -> impl Strategy<Value = Vec<(u64, u64)>> {
    prop::collection::vec((0..TROUBLE, 1_u64..300), 0..4)
        .prop_map(|pauses| pauses.into_iter().map(|(from, long)| (from, (from + long).min(TROUBLE))).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever is lost, late or stopped: never two lead at a time, also when clocks run a tenth faster or slower; and when
    /// the trouble is over, one leads who has all leases.
    #[test]
    fn never_two_lead_and_in_the_end_one_does(
        processes in prop::collection::vec((90_u64..=110, 0_u64..1_000_000, pauses()), 2..4),
        fates in prop::collection::vec(fate(), 1..200),
    ) {
        let mut server = Server::default();
        let names = ["a", "b", "c"];
        let mut processes: Vec<Process> = processes.into_iter().zip(names)
            .map(|((rate, begin, pauses), name)| Process { election: candidate(name), rate, begin, pauses, pending: None })
            .collect();
        let mut fates = fates.into_iter().cycle();
        let mut lost = 0;
        for tick in 0..TROUBLE + CALM {
            for process in &mut processes {
                let calm = tick >= TROUBLE;
                let mut fate = || fates.next().filter(|_| !calm).unwrap_or(Fate::Done);
                // Who has lost stands again under another name, as its next process would.
                if process.run(tick, &mut server, &mut fate) {
                    lost += 1;
                    process.election = candidate(&format!("again-{lost}"));
                    process.pending = None;
                }
            }
            let leaders = processes.iter().filter(|process| process.leads(tick)).count();
            prop_assert!(leaders <= 1, "two lead at tick {tick}");
        }
        let leaders: Vec<&Process> = processes.iter().filter(|process| process.leads(TROUBLE + CALM)).collect();
        prop_assert_eq!(leaders.len(), 1);
        let leader = leaders[0].election.leader().unwrap_or_default();
        prop_assert_eq!(server.holders(), vec![leader, leader]);
    }
}
