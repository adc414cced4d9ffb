//! Carries a saga out: effects in order, answers back as events, waits on a clock. Owns no decision; everything it touches comes
//! through ports.

mod orphans;
mod perform;
#[cfg(test)]
#[cfg(feature = "testing")]
mod tests;

use std::sync::Arc;

use async_trait::async_trait;
use futures::future::{Either, select};

use super::journal::{Entry, Journal, JournalError};
use super::order::Order;
use super::saga::{Effect, Event, FailedOffering, Probe, Saga, Stop, replayed};
use crate::openstack::port::{Clock, Cloud};

pub use orphans::{Orphan, orphans};

/// What stands around a deployment: the machine it makes, the people who watch, the folder it keeps things in.
#[async_trait]
pub trait Surroundings: Send + Sync {
    /// Sees whether the machine answers; with a user also what it has.
    async fn probe(&self, address: &str, user: Option<&str>) -> Probe;

    /// Something was written down.
    fn changed(&self, _saga: &Saga) {}

    /// The end of the console of a server that failed.
    fn console(&self, _text: &str) {}

    /// Something cannot be had for a while.
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
    pub clock: Arc<dyn Clock>,
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
    order: Order,
    nonce: &str,
    failed: Vec<FailedOffering>,
) -> Result<Saga, JournalError> {
    let now = hands.clock.now();
    let version = env!("CARGO_PKG_VERSION").to_owned();
    hands.journal.append(now, 1, &Entry::Open { version, nonce: nonce.to_owned() }).await?;
    hands.journal.append(now, 1, &Entry::Plan(Box::new(order.clone()))).await?;
    let mut saga = Saga::new(order, failed);
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
pub async fn remove(hands: &Hands, order: Order) -> Result<Saga, JournalError> {
    let mut saga = Saga::new(order, Vec::new());
    run(hands, &mut saga, Event::Destroy).await?;
    Ok(saga)
}

/// Carries a saga out from an event to where nothing follows.
///
/// # Errors
/// The journal cannot be written. Nothing was asked for that is not written down.
pub async fn run(hands: &Hands, saga: &mut Saga, first: Event) -> Result<(), JournalError> {
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
                    hands.journal.append(hands.clock.now(), saga.attempt(), &entry).await?;
                    hands.around.changed(saga);
                }
                Effect::Remember(failed) => hands.around.remember(&failed),
                Effect::KeepConsole(text) => hands.around.console(&text),
                Effect::Call { key, call } => {
                    tracing::debug!(key, "asking");
                    answer = Some(perform::perform(hands, saga.order(), &call).await);
                }
                Effect::End => return Ok(()),
            }
        }
        event = match answer {
            Some(answer) => Event::Answered(Box::new(answer)),
            None => Event::Woke,
        };
        let stop = hands.around.stop().filter(|stop| !stopped || *stop == Stop::Keep);
        if let Some(stop) = stop {
            // What was just answered is taken first: it may be the id of something new.
            stopped = true;
            let after = saga.on(event, hands.clock.now());
            write_only(hands, saga, after).await?;
            event = Event::Interrupt(stop);
            continue;
        }
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

/// Writes down what an event brought, without asking for more.
async fn write_only(hands: &Hands, saga: &Saga, effects: Vec<Effect>) -> Result<(), JournalError> {
    for effect in effects {
        if let Effect::Record(entry) = effect {
            hands.journal.append(hands.clock.now(), saga.attempt(), &entry).await?;
        }
    }
    Ok(())
}
