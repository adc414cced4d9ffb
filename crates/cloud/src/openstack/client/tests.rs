//! Sessions against answers made up.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use orlop_core::error::Class;
use orlop_core::time::Time;

use super::*;
use crate::openstack::classify::Meaning;
use crate::openstack::credentials::{Settings, resolve};
use crate::openstack::port::Clock;
use crate::openstack::wire::{Lost, Response, Sent, Token};

/// A clock that sleeping moves.
#[derive(Default)]
struct Watch(Mutex<(i64, Vec<Duration>)>);

impl Clock for Watch {
    fn now(&self) -> Time {
        Time::from_millis(1_767_621_607_000 + self.0.lock().unwrap().0)
    }
}

#[async_trait]
impl Timer for Watch {
    async fn sleep_until(&self, time: Time) {
        let wait = time.since(self.now());
        let mut held = self.0.lock().unwrap();
        held.0 += i64::try_from(wait.as_millis()).unwrap();
        held.1.push(wait);
    }
}

/// Answers from a script; signing in always works and gives a new token.
struct Script {
    answers: Mutex<Vec<Result<Response, Lost>>>,
    sent: Mutex<Vec<Sent>>,
    tokens: AtomicUsize,
    lasts: i64,
    /// A token that no service takes.
    refused: Option<&'static str>,
}

fn ok(body: &str) -> Result<Response, Lost> {
    Ok(Response { status: 200, body: body.to_owned(), ..Response::default() })
}

fn status(status: u16) -> Result<Response, Lost> {
    Ok(Response { status, body: "{}".to_owned(), ..Response::default() })
}

#[async_trait]
impl Transport for Script {
    async fn send(&self, sent: &Sent) -> Result<Response, Lost> {
        self.sent.lock().unwrap().push(sent.clone());
        if sent.url.ends_with("/auth/tokens") {
            // Others come meanwhile.
            tokio::task::yield_now().await;
            let number = self.tokens.fetch_add(1, Ordering::Relaxed) + 1;
            let end = Time::from_millis(1_767_621_607_000 + self.lasts).to_string();
            let endpoint = |kind: &str| serde_json::json!({"type": kind, "endpoints": [{"interface": "public", "region": "r", "url": format!("https://{kind}.test")}]});
            let catalog: Vec<_> = ["compute", "image", "network", "reservation"].map(endpoint).into();
            let body = serde_json::json!({"token": {"expires_at": end, "user": {"id": "U"}, "project": {"id": "P"}, "catalog": catalog}});
            let subject_token = Some(Token(format!("planted-token-{number}")));
            return Ok(Response { status: 201, body: body.to_string(), subject_token, ..Response::default() });
        }
        tokio::task::yield_now().await;
        if self.refused.is_some_and(|refused| sent.headers.iter().any(|(_, value)| value == refused)) {
            return status(401);
        }
        let mut answers = self.answers.lock().unwrap();
        if answers.is_empty() { status(500) } else { answers.remove(0) }
    }
}

fn script(lasts: i64, answers: Vec<Result<Response, Lost>>) -> (Arc<Script>, Arc<Watch>, Arc<Session>) {
    with(Script {
        answers: Mutex::new(answers),
        sent: Mutex::default(),
        tokens: AtomicUsize::new(0),
        lasts,
        refused: None,
    })
}

fn with(script: Script) -> (Arc<Script>, Arc<Watch>, Arc<Session>) {
    let (script, watch) = (Arc::new(script), Arc::new(Watch::default()));
    let settings = Settings::of([
        ("OS_AUTH_URL", "https://identity.test/v3"),
        ("OS_USERNAME", "u"),
        ("OS_PASSWORD", "planted-password"),
        ("OS_PROJECT_ID", "P"),
    ]);
    let session = open(resolve(&settings).unwrap(), Arc::clone(&script) as _, Arc::clone(&watch) as _).1;
    (script, watch, session)
}

use crate::openstack::port::{Identity as _, NewLease, Reservations as _, Reserve};

const HOUR: i64 = 3_600_000;

fn new_lease() -> NewLease {
    let end = Time::from_millis(1_767_721_607_000);
    NewLease { name: "n".into(), start: None, end, reserve: Reserve::Flavor { flavor_id: "4".into() } }
}

#[tokio::test]
async fn a_refused_token_is_renewed_once_by_one_while_the_others_wait() {
    let answers = Mutex::new((0..8).map(|_| ok("{\"leases\": []}")).collect());
    let refused = Some("planted-token-1");
    let all = Script { answers, sent: Mutex::default(), tokens: AtomicUsize::new(0), lasts: HOUR, refused };
    let (script, _, session) = with(all);
    session.authenticate().await.unwrap();
    let calls = (0..8).map(|_| session.leases());
    for answer in futures::future::join_all(calls).await {
        assert!(answer.unwrap().is_empty());
    }
    assert_eq!(script.tokens.load(Ordering::Relaxed), 2);
    let sent = script.sent.lock().unwrap().len();
    assert!(sent > 2 + 8 + 1, "several were refused before one signed in: {sent}");
}

#[tokio::test]
async fn a_second_refusal_is_believed() {
    let (script, _, session) = script(HOUR, vec![status(401), status(401)]);
    let error = session.leases().await.unwrap_err();
    assert_eq!((error.meaning, error.status), (Meaning::Auth, Some(401)));
    assert_eq!(script.sent.lock().unwrap().len(), 4, "two sign-ins, two questions");
}

#[tokio::test]
async fn a_token_is_renewed_before_it_ends_and_a_short_one_not_for_ever() {
    let (script_, watch, session) = script(HOUR, vec![ok("{\"leases\": []}"), ok("{\"leases\": []}")]);
    session.leases().await.unwrap();
    watch.sleep_until(watch.now().plus(Duration::from_secs(3600 - 299))).await;
    session.leases().await.unwrap();
    assert_eq!(script_.tokens.load(Ordering::Relaxed), 2);
    let (short, _, session) = script(10_000, vec![ok("{\"leases\": []}"), ok("{\"leases\": []}")]);
    session.leases().await.unwrap();
    session.leases().await.unwrap();
    assert_eq!(short.tokens.load(Ordering::Relaxed), 1, "it lasts ten seconds, and half of them are not gone");
}

#[tokio::test]
async fn reading_is_repeated_with_growing_waits_and_the_services_own() {
    let busy = Ok(Response { status: 429, retry_after: Some(40), ..Response::default() });
    let answers = vec![status(503), Err(Lost::Timeout), busy, ok("<html>"), ok("{\"leases\": []}")];
    let (_, watch, session) = script(HOUR, answers);
    session.leases().await.unwrap();
    let waits = watch.0.lock().unwrap().1.clone();
    assert_eq!(waits.len(), 4);
    assert!(waits[0] >= Duration::from_secs(1) && waits[0] <= Duration::from_millis(1300), "{waits:?}");
    assert!(waits[1] > waits[0] && waits[2] == Duration::from_secs(40), "{waits:?}");
    let (script, watch, session) = self::script(HOUR, Vec::new());
    let error = session.leases().await.unwrap_err();
    assert_eq!((error.meaning, watch.0.lock().unwrap().1.len()), (Meaning::Transient, 5));
    assert_eq!(script.sent.lock().unwrap().len(), 7);
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_is_tried_three_times_and_is_fatal() {
    let untrusted = || Err(Lost::Tls);
    let (script, watch, session) = script(HOUR, vec![untrusted(), untrusted(), ok("{\"leases\": []}")]);
    session.leases().await.unwrap();
    assert_eq!(
        (script.sent.lock().unwrap().len(), watch.0.lock().unwrap().1.len()),
        (4, 2),
        "one sign-in, three tries"
    );
    let (script, _, session) = self::script(HOUR, vec![untrusted(), untrusted(), untrusted(), ok("{\"leases\": []}")]);
    let error = session.create_lease(&new_lease()).await.unwrap_err();
    assert_eq!((error.meaning, error.class(), error.is_surely_unmade()), (Meaning::Untrusted, Class::Fatal, true));
    assert!(error.to_string().contains("--ca-cert"), "{error}");
    assert_eq!(script.sent.lock().unwrap().len(), 4, "nothing was ever sent, so a create is tried again too");
}

#[tokio::test]
async fn a_create_is_sent_once_whatever_comes() {
    for (answer, meaning, unmade) in [
        (Err(Lost::Timeout), Meaning::Ambiguous, false),
        (Err(Lost::Broken), Meaning::Ambiguous, false),
        (status(500), Meaning::Ambiguous, false),
        (status(503), Meaning::Ambiguous, true),
        (status(429), Meaning::Ambiguous, true),
        (Err(Lost::Refused("nobody listens".to_owned())), Meaning::Transient, true),
        (ok("{\"lease\": {}}"), Meaning::Ambiguous, false),
        (ok("{\"lea"), Meaning::Ambiguous, false),
        (ok(""), Meaning::Ambiguous, false),
    ] {
        let what = format!("{answer:?}");
        let (script, _, session) = script(HOUR, vec![answer]);
        let error = session.create_lease(&new_lease()).await.unwrap_err();
        assert_eq!((error.meaning, error.is_surely_unmade()), (meaning, unmade), "{what}");
        assert_eq!(script.sent.lock().unwrap().len(), 2, "{what}: one sign-in, one create");
    }
}

#[tokio::test]
async fn pages_that_go_round_in_a_circle_are_refused() {
    let page =
        |marker: &str| ok(&format!("{{\"images\": [{{\"id\": \"1\"}}], \"next\": \"/v2/images?marker={marker}\"}}"));
    let (_, _, session) = script(HOUR, vec![page("a"), page("b"), page("a"), page("b")]);
    let error = crate::openstack::port::Images::images(&*session).await.unwrap_err();
    assert!(error.message.contains("form a cycle"), "{error}");
}

#[tokio::test]
async fn no_secret_is_in_any_debug_form_or_message() {
    let (script, _, session) = script(HOUR, vec![status(403)]);
    let error = session.create_lease(&new_lease()).await.unwrap_err();
    let account = session.authenticate().await.unwrap();
    let sent = format!("{:?}", script.sent.lock().unwrap());
    for text in [
        format!("{error} {error:?}"),
        format!("{session:?}"),
        sent,
        format!("{account:?}"),
        format!("{:?}", session.credentials),
    ] {
        assert!(!text.contains("planted"), "{text}");
    }
}

#[test]
fn the_offset_to_the_cloud_is_the_median_of_the_first_answers() {
    use crate::testing::openstack::{MemoryCloud, VirtualClock};
    let clock = VirtualClock::default();
    let now = crate::openstack::port::Clock::now(&clock).millis();
    let (_, session) = MemoryCloud::new(clock).open();
    assert_eq!(session.ahead(), None);
    for seconds in [90, 100_000, 91, 89, -5000] {
        session.hear_date(now + seconds * 1000, false);
    }
    assert_eq!(session.ahead(), Some(90), "neither the answer that was late nor the one that was wrong counts");
    for _ in 0..100 {
        session.hear_date(now, false);
    }
    assert_eq!(session.ahead(), Some(0), "ten more were heard");
    session.hear_date(now + 70_000, true);
    assert_eq!(session.ahead(), Some(70), "a refused date tells that what was believed is wrong");
}
