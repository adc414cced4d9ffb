//! Two controllers that both take themselves for the leader, request by request in any order, on news of different age. Owns
//! that order, drawn from a seed; what must hold is what holds for one.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use futures::task::noop_waker_ref;
use orlop_core::time::Time;
use serde_json::{Value, json};

use super::super::{Clock, Controller, Key, Next, Options};
use super::server::Server;
use super::test_env::{TestEnv, after, job};
use crate::api::{Api, ApiError, Kind, Request};

/// Lets somebody else go first, before and after every request.
#[derive(Clone)]
struct Polite(Server);

async fn others_first() {
    let mut yielded = false;
    poll_fn(|_| if std::mem::replace(&mut yielded, true) { Poll::Ready(()) } else { Poll::Pending }).await;
}

#[async_trait]
impl Api for Polite {
    async fn send(&self, request: &Request) -> Result<Value, ApiError> {
        others_first().await;
        let answer = self.0.send(request).await;
        others_first().await;
        answer
    }
}

/// Numbers that look random and are always the same (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((z ^ (z >> 31)) % bound as u64).unwrap()
    }
}

type Pass = Pin<Box<dyn Future<Output = (Key, Next)>>>;

/// A clock that is ahead of that of the server.
struct Ahead {
    server: Arc<dyn Clock>,
    by: Duration,
}

impl Clock for Ahead {
    fn now(&self) -> Time {
        self.server.now().plus(self.by)
    }
}

/// A controller with what it has seen and what it is about to do.
struct Leader {
    clock: Arc<dyn Clock>,
    controller: Arc<Controller<Polite>>,
    seen: usize,
    queue: BTreeSet<Key>,
    due: BTreeMap<Key, Time>,
    pass: Option<Pass>,
}

impl Leader {
    fn new(env: &TestEnv, ahead: Duration) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(Ahead { server: env.clock.clone(), by: ahead });
        let controller = Arc::new(Controller::new(Polite(env.server.clone()), clock.clone(), Options::default()));
        drop(controller.prime());
        Self { clock, controller, seen: 0, queue: BTreeSet::new(), due: BTreeMap::new(), pass: None }
    }

    /// One more piece of news.
    fn hear(&mut self, env: &TestEnv) -> bool {
        let Some(change) = env.server.store().log.get(self.seen).cloned() else { return false };
        self.seen += 1;
        let controller = &self.controller;
        match (change.kind, change.gone) {
            (Kind::JobFlow, false) => self.queue.extend(controller.flow_applied(&change.object)),
            (Kind::JobFlow, true) => self.queue.extend(controller.flow_deleted(&change.object)),
            (Kind::Job, false) => self.queue.extend(controller.job_applied(&change.object)),
            (Kind::Job, true) => self.queue.extend(controller.job_deleted(&change.object)),
            _ => {}
        }
        true
    }

    /// The pass goes on until its next request.
    fn go_on(&mut self) -> bool {
        let now = self.clock.now();
        if self.pass.is_none() {
            let Some(key) = self.queue.pop_first() else { return false };
            let controller = Arc::clone(&self.controller);
            self.pass = Some(Box::pin(async move {
                let mut next = controller.reconcile(&key).await;
                next.wake.extend(controller.finish_background().await);
                (key, next)
            }));
        }
        let polled = self.pass.as_mut().map(|pass| pass.as_mut().poll(&mut Context::from_waker(noop_waker_ref())));
        if let Some(Poll::Ready((key, next))) = polled {
            self.pass = None;
            match next.again_at {
                Some(at) if at <= now => drop(self.queue.insert(key)),
                Some(at) => drop(self.due.insert(key, at)),
                None => drop(self.due.remove(&key)),
            }
            self.queue.extend(next.wake);
        }
        true
    }

    /// How long until it wants to look again.
    fn rest(&self) -> Option<Duration> {
        self.due.values().min().map(|at| at.since(self.clock.now()))
    }

    fn wake(&mut self) {
        let now = self.clock.now();
        let due: Vec<Key> = self.due.iter().filter(|(_, at)| **at <= now).map(|(key, _)| key.clone()).collect();
        self.due.retain(|_, at| *at > now);
        self.queue.extend(due);
    }
}

/// Both lead until the flow is over and nothing is left to do.
fn both_lead(seed: u64, spec: &Value, ahead: Duration) -> TestEnv {
    let mut env = TestEnv::new();
    let mut dice = Dice(seed);
    env.submit("etl", spec.clone());
    let mut leaders = [Leader::new(&env, Duration::ZERO), Leader::new(&env, ahead)];
    for step in 0.. {
        assert!(step < 100_000, "seed {seed}: no end");
        let choice = dice.below(7);
        let leader = &mut leaders[choice % 2];
        let moved = match choice {
            0 | 1 => leader.hear(&env),
            2..6 => leader.go_on(),
            // Jobs end at any time.
            _ => dice.below(4) == 0 && env.end_a_job(),
        };
        if moved {
            continue;
        }
        if leaders.iter_mut().any(|leader| leader.hear(&env) || leader.go_on()) || env.end_a_job() {
            continue;
        }
        if env.is_over("etl") {
            break;
        }
        let rest = leaders.iter().filter_map(Leader::rest).min();
        let rest = rest.unwrap_or_else(|| panic!("seed {seed}: nobody does anything: {}", env.status("etl")));
        env.clock.set(env.clock.now().plus(rest));
        leaders.iter_mut().for_each(Leader::wake);
    }
    env
}

#[test]
fn two_leaders_do_no_harm_also_where_the_clock_of_one_is_two_minutes_ahead() {
    let mut flaky = after("flaky", &["a"]);
    flaky["retryPolicy"] = json!({"limit": 2, "backoff": {"type": "Fixed", "duration": "30s"}});
    let mut many = after("many", &["a"]);
    many["withItems"] = json!([1, 2]);
    let spec = json!({"steps": [job("a"), flaky, many, after("last", &["flaky", "many"])], "finally": [job("tidy")],
        "resourceTemplates": {"configMapTemplates": [{"metadata": {"name": "settings"}, "data": {"k": "v"}}]}});
    let mut clean = TestEnv::new();
    clean.submit("etl", spec.clone());
    clean.run();
    let sample = orlop_core::sample!(500, 20);
    let (seeds, mut contended) = (sample.count(), 0);
    for seed in sample {
        let env = both_lead(seed as u64, &spec, Duration::from_secs(120 * (seed as u64 % 2)));
        assert_eq!(env.outcome("etl"), clean.outcome("etl"), "seed {seed}");
        assert_eq!(env.made(), clean.made(), "seed {seed}");
        env.check_created_once();
        contended += usize::from(env.writes().len() > clean.writes().len());
    }
    assert!(contended * 2 > seeds, "only {contended} of {seeds} had two who wrote");
}
