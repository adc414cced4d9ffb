//! Reports whether the job of an attempt waits for a worker: the timeout of the step stands still meanwhile.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use orlop_core::attempt::AttemptKey;
use orlop_core::id::JobId;
use orlop_core::ports::substrate::{AttemptDelay, DelayCause};
use orlop_core::spec::status::WaitsOn;
use orlop_dag::attempt::patience;
use tokio::sync::mpsc;

use super::port::{JobPlace, StepFleet};
use crate::host::flow::{Clock as _, SystemClock};

/// Shorter waits are not reported: most jobs get a worker at once.
const SHORT: Duration = Duration::from_millis(250);

/// How this host came to an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// It was submitted by this host.
    Started,
    /// It was submitted by an earlier host, which may have reported that it waits.
    Adopted,
}

/// The job of an attempt, watched while it lives.
pub(super) struct Queue {
    pub(super) fleet: Arc<dyn StepFleet>,
    pub(super) delays: mpsc::UnboundedSender<AttemptDelay>,
    pub(super) key: AttemptKey,
    pub(super) job: JobId,
}

impl Queue {
    /// Reports whenever the job begins to wait for a worker, and when it has one.
    pub(super) async fn watch(&self, origin: Origin) -> Infallible {
        let mut is_reported = origin == Origin::Adopted;
        let mut place = None;
        loop {
            let since = SystemClock.now();
            let mut next = self.next_place(place.as_ref()).await;
            if next == JobPlace::Nowhere {
                match tokio::time::timeout(SHORT, self.next_place(Some(&next))).await {
                    Ok(soon) => next = soon,
                    Err(_) => {
                        let message = format!(
                            "job {} waits for a worker; `orlop job get {} --explain` says why",
                            self.job, self.job
                        );
                        let cause = DelayCause { on: WaitsOn::Suspended, reason: "Queued".to_owned(), message };
                        self.report(AttemptDelay { key: self.key.clone(), cause: Some(cause), since });
                        is_reported = true;
                    }
                }
            }
            if next != JobPlace::Nowhere && std::mem::take(&mut is_reported) {
                self.report(AttemptDelay { key: self.key.clone(), cause: None, since: SystemClock.now() });
            }
            place = Some(next);
        }
    }

    /// Waits until the job is elsewhere, however long nobody can see it.
    async fn next_place(&self, before: Option<&JobPlace>) -> JobPlace {
        let mut tries = 0;
        loop {
            match self.fleet.next_place(self.job, before).await {
                Ok(place) => return place,
                Err(error) => {
                    tracing::debug!(attempt = %self.key, error = error.chain(), "the place of a job cannot be seen now");
                    tokio::time::sleep(patience(&error, tries)).await;
                    tries = tries.saturating_add(1);
                }
            }
        }
    }

    fn report(&self, delay: AttemptDelay) {
        // The substrate may be gone; then nobody waits for it.
        drop(self.delays.send(delay));
    }
}
