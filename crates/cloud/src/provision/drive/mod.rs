//! Carries a saga out: effects in order, answers back as events, waits on a clock. Owns no decision; everything it touches comes
//! through ports.

mod orphans;
mod perform;
#[cfg(test)]
#[cfg(feature = "testing")]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::{Either, select};

use super::join::Token;
use super::journal::{Entry, Journal, JournalError, Kind};
use super::mark::DeploymentId;
use super::order::DeploymentOrder;
use super::saga::{Answer, Effect, Elsewhere, Event, FailedOffering, Login, Probe, Saga, Stop, replayed};
use crate::openstack::port::{Cloud, Timer};

pub use orphans::{Orphan, orphans};

/// How long a request that is under way may take once somebody wants it to stop.
const LAST: Duration = Duration::from_secs(5);

/// What stands around a deployment: the machine it makes, the people who watch, the folder it keeps things in.
#[async_trait]
pub trait Surroundings: Send + Sync {
    /// Sees whether the machine answers; with a login also what it has.
    async fn probe(&self, address: &str, login: Option<&Login>) -> Probe;

    /// Whether the worker of a deployment's machine has joined its fleet.
    ///
    /// # Errors
    /// Nobody knows: why, in words.
    async fn joined(&self, deployment: &DeploymentId) -> Result<bool, String> {
        Err(format!("no fleet is known to ask for {deployment}"))
    }

    /// The token of a file, with which a server joins a fleet.
    ///
    /// # Errors
    /// There is none to be had: why, in words that do not show it.
    async fn join_token(&self, file: &str) -> Result<Token, String> {
        Err(format!("the join token in {file} cannot be read here"))
    }

    /// Something was written down.
    fn changed(&self, _saga: &Saga) {}

    /// The end of the console of a server that failed.
    fn console(&self, _text: &str) {}

    /// Where else the deployment could be made at the moment. Asked while there is no room at its own site.
    async fn elsewhere(&self) -> Elsewhere {
        Elsewhere::default()
    }

    /// Something is not available for a while.
    fn remember(&self, _failed: &FailedOffering) {}

    /// Whether somebody wants it to stop.
    fn stop(&self) -> Option<Stop> {
        None
    }

    /// Returns when somebody wants it to stop.
    async fn stopped(&self) {
        std::future::pending::<()>().await;
    }
}

/// Everything a deployment is carried out with.
#[derive(Clone)]
pub struct Hands {
    /// The services.
    pub cloud: Cloud,
    /// Where it is written down.
    pub journal: Arc<dyn Journal>,
    /// The time.
    pub clock: Arc<dyn Timer>,
    /// What stands around it.
    pub around: Arc<dyn Surroundings>,
}

impl std::fmt::Debug for Hands {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hands")
    }
}

/// Begins a deployment: writes its plan down and carries it out.
///
/// # Errors
/// The journal cannot be written; then nothing more was asked for.
pub async fn apply(
    hands: &Hands,
    order: DeploymentOrder,
    nonce: &str,
    failed: Vec<FailedOffering>,
) -> Result<Saga, JournalError> {
    let now = hands.clock.now();
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let mut saga = Saga::new(order.clone(), failed);
    hands.journal.append(now, saga.attempt(), &Entry::Open { version, nonce: nonce.to_owned() }).await?;
    hands.journal.append(now, saga.attempt(), &Entry::Plan(Box::new(order))).await?;
    run(hands, &mut saga, Event::Start).await?;
    Ok(saga)
}

/// Takes a deployment up from its journal, and gives it an event; nothing if no plan was ever written.
///
/// # Errors
/// The journal cannot be read, believed or written.
pub async fn take_up(hands: &Hands, event: Event) -> Result<Option<Saga>, JournalError> {
    let Some(mut saga) = replayed(&hands.journal.lines().await?) else { return Ok(None) };
    run(hands, &mut saga, event).await?;
    Ok(Some(saga))
}

/// Removes everything that bears the mark of a deployment whose journal is lost, or was.
///
/// # Errors
/// The journal cannot be written.
pub async fn remove(hands: &Hands, order: DeploymentOrder) -> Result<Saga, JournalError> {
    let mut saga = Saga::new(order, Vec::new());
    run(hands, &mut saga, Event::Destroy).await?;
    Ok(saga)
}

/// Carries a saga out from an event to where nothing follows.
///
/// # Errors
/// The journal cannot be written. Nothing was asked for that is not written down.
pub async fn run(hands: &Hands, saga: &mut Saga, first: Event) -> Result<(), JournalError> {
    // A look asks for nothing that has to be written down before.
    let only_looks = matches!(first, Event::Look);
    let mut event = first;
    let mut stopped = false;
    loop {
        if let Some(ahead) = hands.cloud.identity.clock_ahead() {
            saga.set_clock_ahead(ahead);
        }
        let effects = saga.on(event, hands.clock.now());
        let mut answer = None;
        for effect in effects {
            match effect {
                Effect::Record(entry) => {
                    match hands.journal.append(hands.clock.now(), saga.attempt(), &entry).await {
                        Err(JournalError::Storage { what }) if only_looks => {
                            tracing::warn!(what, "what was seen is not recorded");
                        }
                        written => written.map_err(|error| unrecorded(saga, error))?,
                    }
                    hands.around.changed(saga);
                }
                Effect::Remember(failed) => hands.around.remember(&failed),
                Effect::KeepConsole(text) => hands.around.console(&text),
                Effect::Call { key, call } => {
                    tracing::debug!(key, "asking");
                    answer = within_patience(hands, perform::perform(hands, saga.order(), &call), stopped).await;
                }
                Effect::End => return Ok(()),
            }
        }
        let stop = hands.around.stop().filter(|stop| !stopped || *stop == Stop::Keep);
        let answered = answer.map(|answer| Event::Answered(Box::new(answer)));
        if let Some(stop) = stop {
            stopped = true;
            // What was just answered is taken first: it may be the id of something new. What was not answered in time stays open.
            if let Some(answered) = answered {
                let after = saga.on(answered, hands.clock.now());
                write_only(hands, saga, after).await?;
            }
            event = Event::Interrupt(stop);
            continue;
        }
        event = answered.unwrap_or(Event::Woke);
        if let (Event::Woke, Some(due)) = (&event, saga.next_deadline()) {
            let wait = hands.clock.sleep_until(due);
            if let Either::Right(_) = select(wait, hands.around.stopped()).await
                && !stopped
                && let Some(stop) = hands.around.stop()
            {
                stopped = true;
                event = Event::Interrupt(stop);
            }
        }
    }
}

/// The answer to a request; nothing if somebody wants to stop meanwhile and it takes too long from then on.
async fn within_patience(hands: &Hands, asked: impl Future<Output = Answer>, stopped: bool) -> Option<Answer> {
    if stopped {
        return Some(asked.await);
    }
    let impatient = async {
        hands.around.stopped().await;
        hands.clock.sleep_until(hands.clock.now().plus(LAST)).await;
    };
    match select(std::pin::pin!(asked), std::pin::pin!(impatient)).await {
        Either::Left((answer, _)) => Some(answer),
        Either::Right(_) => None,
    }
}

/// An error of the journal, with what there is of the deployment that goes on to cost something.
fn unrecorded(saga: &Saga, error: JournalError) -> JournalError {
    let JournalError::Storage { what } = error else { return error };
    // A key costs nothing.
    let kinds = Kind::ALL.into_iter().filter(|kind| *kind != Kind::Key);
    let made = kinds.filter_map(|kind| Some(format!("{} {}", kind.as_str(), saga.id_of(kind)?)));
    let made: Vec<String> = made.collect();
    let left = match made.as_slice() {
        [] => return JournalError::Storage { what },
        [one] => format!("is {one}"),
        several => format!("are {}", several.join(", ")),
    };
    JournalError::Unrecorded { what, id: saga.order().id.to_string(), left }
}

/// Writes down what an event brought, without asking for more.
async fn write_only(hands: &Hands, saga: &Saga, effects: Vec<Effect>) -> Result<(), JournalError> {
    for effect in effects {
        if let Effect::Record(entry) = effect {
            let written = hands.journal.append(hands.clock.now(), saga.attempt(), &entry).await;
            written.map_err(|error| unrecorded(saga, error))?;
        }
    }
    Ok(())
}
