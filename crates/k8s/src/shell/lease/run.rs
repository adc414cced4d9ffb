//! An election over an API server: makes its requests, waits, and lets the work of this process go on only while it leads.
//! Owns that loop and the fence before writes; decides nothing about leases.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use async_trait::async_trait;
use futures::{FutureExt as _, select_biased};
use serde_json::Value;
use tokio::time::{Instant, sleep_until, timeout};

use super::{Action, Election, End, Options};
use crate::api::{Api, ApiError, Request};
use crate::shell::Clock;

/// Whether this process leads now, and who leads as far as it knows. Clones tell the same.
#[derive(Clone, Debug, Default)]
pub struct Term {
    state: Arc<Mutex<TermState>>,
}

#[derive(Debug, Default)]
struct TermState {
    until: Option<Instant>,
    leader: Option<String>,
}

impl Term {
    /// A term without end, of a process that needs no lease.
    #[must_use]
    pub fn without_end() -> Self {
        let term = Self::default();
        term.state().until = Some(far());
        term
    }

    fn state(&self) -> MutexGuard<'_, TermState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this process leads now. A process that was stopped for a while finds that it does not, before it does
    /// anything.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.state().until.is_some_and(|until| Instant::now() < until)
    }

    /// Who leads, as far as this process has seen.
    #[must_use]
    pub fn leader(&self) -> Option<String> {
        self.state().leader.clone()
    }

    fn note(&self, election: &Election, start: Instant) {
        // A term without end is one that needs no lease.
        let until = election.leads_until().map(|until| start.checked_add(until).unwrap_or_else(far));
        let leader = election.leader().map(str::to_owned);
        *self.state() = TermState { until, leader };
    }

    fn end(&self) {
        self.state().until = None;
    }
}

fn far() -> Instant {
    Instant::now() + std::time::Duration::from_secs(30 * 365 * 86_400)
}

/// An API server to which only the leader writes.
#[derive(Clone, Debug)]
pub struct Fenced<A> {
    api: A,
    term: Term,
}

impl<A> Fenced<A> {
    /// Writes pass while the term holds; reads always do.
    #[must_use]
    pub const fn new(api: A, term: Term) -> Self {
        Self { api, term }
    }
}

#[async_trait]
impl<A: Api> Api for Fenced<A> {
    async fn send(&self, request: &Request) -> Result<Value, ApiError> {
        if request.verb.writes() && !self.term.holds() {
            return Err(ApiError::not_sent("this process is not the leader; nothing was sent"));
        }
        self.api.send(request).await
    }
}

/// How it came out for a process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Ended<T> {
    /// It led until its work was done, and gave the leases back.
    Done(T),
    /// It was to stop before it led.
    Stopped,
    /// It led and does not any more, and why. Its work was broken off; the process must end. Leases it still holds run out,
    /// so that requests under way have time to arrive.
    Lost(String),
}

/// Stands for election until `stop` is ready, and does `work` while this process leads; whoever is to stop a leader ends its
/// work. `term` tells others, such as the fence, whether it does.
pub async fn lead<T>(
    api: &impl Api,
    clock: &dyn Clock,
    options: Options,
    term: &Term,
    stop: impl Future<Output = ()>,
    work: impl Future<Output = T>,
) -> Ended<T> {
    let start = Instant::now();
    let (mut stop, mut work) = (pin!(stop), pin!(work));
    let patience = options.timing.deadline / 2;
    let mut election = Election::new(options);
    let driver = ElectionDriver { api, clock, start, patience };
    let ended = loop {
        term.note(&election, start);
        let leads = election.leads_until().is_some();
        let mut step = pin!(driver.step(&mut election).fuse());
        let mut working =
            poll_fn(|context| if leads && term.holds() { work.as_mut().poll(context) } else { Poll::Pending }).fuse();
        let mut stopping = poll_fn(|context| if leads { Poll::Pending } else { stop.as_mut().poll(context) }).fuse();
        select_biased! {
            end = step => match end {
                Some(End::Lost(why)) => {
                    term.end();
                    return Ended::Lost(why);
                }
                Some(End::Left) => break Ended::Stopped,
                None => {}
            },
            done = working => break Ended::Done(done),
            () = stopping => break Ended::Stopped,
        }
    };
    term.end();
    election.leave(start.elapsed());
    while driver.step(&mut election).await.is_none() {}
    ended
}

/// The way to the server.
struct ElectionDriver<'a, A> {
    api: &'a A,
    clock: &'a dyn Clock,
    start: Instant,
    /// How long an answer is waited for.
    patience: std::time::Duration,
}

impl<A: Api> ElectionDriver<'_, A> {
    /// One request, or one wait. Gives how the election ended.
    async fn step(&self, election: &mut Election) -> Option<End> {
        let now = self.start.elapsed();
        match election.act(now, self.clock.now()) {
            Action::End(end) => return Some(end),
            Action::Wait(until) => sleep_until(self.start.checked_add(until).unwrap_or_else(far)).await,
            Action::Send(request) => {
                let left = election.leads_until().map_or(self.patience, |until| until.saturating_sub(now));
                let answer = timeout(self.patience.min(left), self.api.send(&request)).await;
                let answer = answer.unwrap_or_else(|_| Err(ApiError::no_answer("no answer in time")));
                election.handle_response(now, self.start.elapsed(), answer);
            }
        }
        None
    }
}
