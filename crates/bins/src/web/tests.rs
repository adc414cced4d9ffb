//! Sessions against a naive table: who is signed in after any order of links, tokens, uses and time.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use orlop_core::error::{Code, Problem};
use orlop_core::ports::fleet_store::{Entry, Kind, Record, Session, SessionGrant, SessionLink};
use orlop_core::time::Time;
use proptest::prelude::*;

use super::session_store::SessionStore;
use super::{Begun, Lives, Sessions};

const LIVES: Lives =
    Lives { session: Duration::from_secs(1000), idle: Duration::from_secs(300), link: Duration::from_secs(60) };

/// Sessions of a process: they end with it.
#[derive(Debug, Default)]
struct MemorySessions(Mutex<BTreeMap<(Kind, String), Entry>>);

impl MemorySessions {
    fn all(&self, kind: Kind) -> Vec<Entry> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.values().filter(|entry| entry.kind == kind).cloned().collect()
    }

    fn one(&self, kind: Kind, key: &str) -> Option<Entry> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&(kind, key.to_owned())).cloned()
    }
}

#[async_trait]
impl SessionStore for MemorySessions {
    fn term(&self) -> Option<u64> {
        Some(0)
    }

    async fn session(&self, id: &str) -> Result<Option<Session>, Problem> {
        self.one(Kind::Session, id).as_ref().map(Entry::read).transpose()
    }

    async fn sessions(&self) -> Result<Vec<Session>, Problem> {
        self.all(Kind::Session).iter().map(Entry::read).collect()
    }

    async fn link(&self, key: &str) -> Result<Option<SessionLink>, Problem> {
        self.one(Kind::SessionLink, key).as_ref().map(Entry::read).transpose()
    }

    async fn links(&self) -> Result<Vec<SessionLink>, Problem> {
        self.all(Kind::SessionLink).iter().map(Entry::read).collect()
    }

    async fn write(&self, records: Vec<Record>) -> Result<(), Problem> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for record in records {
            match record {
                Record::Put(entry) => {
                    entries.insert((entry.kind, entry.key.clone()), *entry);
                }
                Record::Delete(kind, key) => {
                    entries.remove(&(kind, key));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn grant(token: u8) -> SessionGrant {
    SessionGrant {
        token: (token > 0).then(|| format!("t{token}")),
        role: "viewer".to_owned(),
        tenants: vec!["*".to_owned()],
        token_expires_at: None,
    }
}

fn at(seconds: u64) -> Time {
    Time::EPOCH.plus(Duration::from_secs(seconds))
}

fn block<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

#[derive(Clone, Debug)]
enum Act {
    Begin(u8),
    Link(u8),
    Follow(usize),
    Use(usize),
    End(usize),
    Wait(u64),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        (0u8..3).prop_map(Act::Begin),
        (0u8..3).prop_map(Act::Link),
        (0usize..8).prop_map(Act::Follow),
        (0usize..40).prop_map(Act::Use),
        (0usize..40).prop_map(Act::End),
        (1u64..200).prop_map(Act::Wait),
    ]
}

/// What a naive reader of the rules holds of a session.
#[derive(Debug)]
struct Row {
    began: u64,
    used: u64,
    ended: bool,
    halves: Begun,
}

impl Row {
    fn is_live(&self, now: u64) -> bool {
        !self.ended && now < self.began + 1000 && now < self.used + 300
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn who_is_signed_in_is_what_a_table_says(acts in prop::collection::vec(act(), 1..60)) {
        block(async {
            let sessions = Sessions::new(MemorySessions::default(), LIVES);
            let (mut rows, mut links, mut now): (Vec<Row>, BTreeMap<usize, (String, u64)>, u64) = (Vec::new(), BTreeMap::new(), 0);
            let mut made = 0;
            for act in acts {
                match act {
                    Act::Begin(token) => {
                        let halves = sessions.begin(grant(token), at(now)).await.unwrap();
                        rows.push(Row { began: now, used: now, ended: false, halves });
                    }
                    Act::Link(token) => {
                        let (key, _) = sessions.link(grant(token), at(now)).await.unwrap();
                        links.insert(made, (key, now));
                        made += 1;
                    }
                    Act::Follow(number) => {
                        let Some((key, since)) = links.get(&number).cloned() else { continue };
                        let begun = sessions.follow(&key, at(now)).await;
                        prop_assert_eq!(begun.is_ok(), now < since + 60);
                        if let Ok(halves) = begun {
                            rows.push(Row { began: now, used: now, ended: false, halves });
                            prop_assert_eq!(sessions.follow(&key, at(now)).await.unwrap_err().code, Code::Unauthenticated);
                            links.remove(&number);
                        }
                    }
                    Act::Use(number) => {
                        let Some(row) = rows.get_mut(number) else { continue };
                        let found = sessions.find(&row.halves.cookie, &row.halves.proof, at(now)).await.unwrap();
                        prop_assert_eq!(found.is_some(), row.is_live(now));
                        if found.is_some() {
                            row.used = now;
                        }
                    }
                    Act::End(number) => {
                        let Some(row) = rows.get_mut(number) else { continue };
                        sessions.end(&row.halves.session.id).await.unwrap();
                        row.ended = true;
                    }
                    Act::Wait(seconds) => now += seconds,
                }
            }
            for row in &rows {
                let holds = sessions.holds(&row.halves.session.id, at(now)).await.unwrap();
                prop_assert_eq!(holds, row.is_live(now));
            }
            Ok(())
        })?;
    }
}

#[test]
fn a_link_opens_one_session_however_many_take_it() {
    block(async {
        let sessions = Sessions::new(MemorySessions::default(), LIVES);
        let (key, _) = sessions.link(grant(1), at(0)).await.unwrap();
        let all = futures::future::join_all((0..20).map(|_| sessions.follow(&key, at(1)))).await;
        assert_eq!(all.iter().filter(|begun| begun.is_ok()).count(), 1);
    });
}

#[test]
fn each_half_alone_and_halves_of_two_sessions_are_worth_nothing() {
    block(async {
        let sessions = Sessions::new(MemorySessions::default(), LIVES);
        let [a, b] = [sessions.begin(grant(1), at(0)).await.unwrap(), sessions.begin(grant(1), at(0)).await.unwrap()];
        let mut good = Vec::new();
        for cookie in [&a.cookie, &b.cookie, &String::new()] {
            for proof in [&a.proof, &b.proof, &String::new(), &a.cookie] {
                good.push(sessions.find(cookie, proof, at(1)).await.unwrap().is_some());
            }
        }
        let f = false;
        assert_eq!(good, [true, f, f, f, f, true, f, f, f, f, f, f]);
    });
}

#[test]
fn the_longest_idle_session_of_a_token_makes_room_for_the_next() {
    block(async {
        let sessions = Sessions::new(MemorySessions::default(), LIVES);
        let mut begun = Vec::new();
        for number in 0..32 {
            begun.push(sessions.begin(grant(1), at(number)).await.unwrap());
        }
        let other = sessions.begin(grant(2), at(32)).await.unwrap();
        let first = &begun[0];
        assert!(sessions.find(&first.cookie, &first.proof, at(40)).await.unwrap().is_some());
        sessions.begin(grant(1), at(41)).await.unwrap();
        let holds = async |begun: &Begun| sessions.holds(&begun.session.id, at(42)).await.unwrap();
        assert!(holds(first).await && holds(&other).await && holds(&begun[2]).await);
        assert!(!holds(&begun[1]).await, "the one that was used longest ago");
    });
}

#[test]
fn a_caller_has_a_bounded_number_of_open_links_and_those_that_expired_do_not_count() {
    block(async {
        let sessions = Sessions::new(MemorySessions::default(), LIVES);
        for _ in 0..32 {
            sessions.link(grant(1), at(0)).await.unwrap();
        }
        let refused = sessions.link(grant(1), at(59)).await.unwrap_err();
        assert_eq!(refused.code, Code::RateLimited);
        sessions.link(grant(2), at(59)).await.unwrap();
        sessions.link(grant(1), at(60)).await.unwrap();
    });
}

#[test]
fn a_session_ends_with_the_token_it_was_opened_with() {
    block(async {
        let sessions = Sessions::new(MemorySessions::default(), LIVES);
        let until = SessionGrant { token_expires_at: Some(at(100)), ..grant(1) };
        let begun = sessions.begin(until.clone(), at(0)).await.unwrap();
        assert_eq!(begun.session.expires_at, at(100));
        assert!(sessions.find(&begun.cookie, &begun.proof, at(99)).await.unwrap().is_some());
        assert!(sessions.find(&begun.cookie, &begun.proof, at(100)).await.unwrap().is_none());
        assert_eq!(sessions.begin(until, at(100)).await.unwrap_err().code, Code::Unauthenticated);
    });
}

#[test]
fn an_open_stream_keeps_a_session_from_going_idle() {
    block(async {
        let sessions = Sessions::new(MemorySessions::default(), LIVES);
        let begun = sessions.begin(grant(1), at(0)).await.unwrap();
        for time in [200, 400, 600, 800] {
            sessions.keep(&begun.session.id, at(time)).await.unwrap();
        }
        assert!(sessions.holds(&begun.session.id, at(999)).await.unwrap());
        assert!(!sessions.holds(&begun.session.id, at(1000)).await.unwrap(), "its age ends it all the same");
    });
}
