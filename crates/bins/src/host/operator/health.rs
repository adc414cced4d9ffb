//! Whether the operator works, and why not.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::Request;
use kube::client::Body;
use orlop_k8s::shell::lease::Term;
use tokio::time::{Instant, sleep, timeout};

use super::Which;

/// How old a beat of a loop may be.
const ALIVE: Duration = Duration::from_secs(30);
/// How long ago the API server may have answered last.
const REACHED: Duration = Duration::from_secs(60);
/// How long a refusal counts that is not repeated: a watch that is well again tells nothing until something changes.
const BROKEN: Duration = Duration::from_secs(90);
/// How often it is asked when nothing else is.
const ASK: Duration = Duration::from_secs(20);

/// What is known of a controller.
#[derive(Debug, Default)]
struct Loop {
    beat: Option<Instant>,
    synced: bool,
    /// What cannot be watched, and why.
    broken: BTreeMap<&'static str, (String, Instant)>,
}

#[derive(Debug, Default)]
struct Facts {
    loops: BTreeMap<Which, Loop>,
    reached: Option<Instant>,
    /// Why the webhook cannot be asked; nothing where there is none.
    webhook: Option<Result<(), String>>,
}

/// Facts on an operator. Clones tell the same.
#[derive(Clone, Debug)]
pub struct OperatorHealth {
    facts: Arc<Mutex<Facts>>,
    term: Term,
    elects: bool,
}

/// One thing that must hold: its name, and why it does not.
pub(super) type Check = (String, Result<(), String>);

impl OperatorHealth {
    pub(super) fn new(controllers: &[Which], term: Term, elects: bool) -> Self {
        let loops = controllers.iter().map(|which| (*which, Loop::default())).collect();
        Self { facts: Arc::new(Mutex::new(Facts { loops, ..Facts::default() })), term, elects }
    }

    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, which: Which, change: impl FnOnce(&mut Loop)) {
        if let Some(known) = self.facts().loops.get_mut(&which) {
            change(known);
        }
    }

    /// A loop goes round.
    pub(super) fn beat(&self, which: Which) {
        self.change(which, |known| known.beat = Some(Instant::now()));
    }

    /// A controller has listed all objects.
    pub(super) fn synced(&self, which: Which) {
        self.change(which, |known| {
            known.synced = true;
            known.broken.clear();
        });
    }

    /// Something cannot be watched. Says whether that is new.
    pub(super) fn broken(&self, which: Which, resource: &'static str, why: String) -> bool {
        let mut new = false;
        self.change(which, |known| {
            let before = known.broken.insert(resource, (why.clone(), Instant::now()));
            new = before.is_none_or(|(known, at)| known != why || at.elapsed() > BROKEN);
        });
        new
    }

    /// Something is watched again. Says whether it was not.
    pub(super) fn mended(&self, which: Which, resource: &'static str) -> bool {
        let mut was = false;
        self.change(which, |known| was = known.broken.remove(resource).is_some());
        was
    }

    /// The API server has answered.
    pub(super) fn reached(&self) {
        self.facts().reached = Some(Instant::now());
    }

    /// Whether the webhook can be asked, and why not.
    pub(super) fn webhook(&self, reported: Result<(), String>) {
        self.facts().webhook = Some(reported);
    }

    /// Whether this process leads now.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.term.holds()
    }

    /// Who leads, in words.
    #[must_use]
    pub fn leader(&self) -> String {
        match (self.elects, self.leads(), self.term.leader()) {
            (false, ..) => "this process, without an election".to_owned(),
            (true, true, leader) => format!("this process ({})", leader.unwrap_or_default()),
            (true, false, Some(leader)) => leader,
            (true, false, None) => "no leader yet".to_owned(),
        }
    }

    /// Whether the loops go round: a process in which they do not is to be ended.
    #[must_use]
    pub(super) fn alive(&self) -> Vec<Check> {
        let leads = self.leads();
        let facts = self.facts();
        let late = |known: &Loop| known.beat.map(|beat| beat.elapsed()).filter(|age| leads && *age > ALIVE);
        let check = |(which, known): (&Which, &Loop)| {
            let reported = late(known).map(|age| format!("its loop has been stuck for {} s", age.as_secs()));
            (which.name().to_owned(), reported.map_or(Ok(()), Err))
        };
        facts.loops.iter().map(check).collect()
    }

    /// Whether it works, or would if it led.
    #[must_use]
    pub(super) fn ready(&self) -> Vec<Check> {
        let leads = self.leads();
        let facts = self.facts();
        let reached = match facts.reached {
            Some(at) if at.elapsed() <= REACHED => Ok(()),
            Some(at) => Err(format!("it has not answered for {} s", at.elapsed().as_secs())),
            None => Err("it has not answered yet".to_owned()),
        };
        let mut checks = vec![("API server".to_owned(), reached)];
        checks.extend(facts.webhook.clone().map(|reported| ("webhook".to_owned(), reported)));
        if leads {
            checks.extend(facts.loops.iter().map(|(which, known)| {
                let broken = known.broken.values().filter(|(_, at)| at.elapsed() <= BROKEN);
                let broken: Vec<&str> = broken.map(|(why, _)| why.as_str()).collect();
                let reported = match (broken.is_empty(), known.synced) {
                    (false, _) => Err(broken.join("; ")),
                    (true, false) => Err("it has not listed all objects yet".to_owned()),
                    (true, true) => Ok(()),
                };
                (which.name().to_owned(), reported)
            }));
        }
        checks
    }

    /// Asks the API server for its version whenever nothing else was asked of it for a while. Never ends.
    pub(super) async fn keep_asking(&self, client: &kube::Client) {
        loop {
            sleep(ASK).await;
            if self.facts().reached.is_some_and(|at| at.elapsed() < ASK) {
                continue;
            }
            let Ok(request) = Request::get("/version").body(Body::empty()) else { return std::future::pending().await };
            // The client notes the answer.
            drop(timeout(ASK, client.send(request)).await);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(checks: Vec<Check>) -> Vec<String> {
        checks.into_iter().filter_map(|(name, reported)| Some(format!("{name}: {}", reported.err()?))).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_standby_is_ready_while_the_api_server_answers() {
        let health = OperatorHealth::new(&Which::ALL, Term::default(), true);
        assert_eq!(failed(health.ready()), ["API server: it has not answered yet"]);
        health.reached();
        assert_eq!((failed(health.ready()), health.leads()), (Vec::new(), false));
        sleep(Duration::from_secs(61)).await;
        assert_eq!(failed(health.ready()), ["API server: it has not answered for 61 s"]);
        assert_eq!(failed(health.alive()), Vec::<String>::new());
        assert_eq!(health.leader(), "no leader yet");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_broken_is_reported_once() {
        let health = OperatorHealth::new(&Which::ALL, Term::default(), false);
        let broken = |why: &str| health.broken(Which::JobFlow, "jobs", why.to_owned());
        assert_eq!([broken("a"), broken("a"), broken("b")], [true, false, true]);
        let mended = || health.mended(Which::JobFlow, "jobs");
        assert_eq!([mended(), mended()], [true, false]);
    }
}
