//! Whether the job of an attempt waits for a worker. Owns when that is told: the timeout of a step stands still meanwhile.

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
use crate::host::flow::clock::{Clock as _, SystemClock};

/// A shorter wait is not told: most jobs have a worker at once.
const SHORT: Duration = Duration::from_millis(250);

/// What the flow may know of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// It begins now.
    Nothing,
    /// An earlier host may have said that it waits.
    Something,
}

/// The job of an attempt, watched while it lives.
pub(super) struct Queue {
    pub(super) fleet: Arc<dyn StepFleet>,
    pub(super) delays: mpsc::UnboundedSender<AttemptDelay>,
    pub(super) key: AttemptKey,
    pub(super) job: JobId,
}

impl Queue {
    /// Tells whenever the job begins to wait for a worker, and when it has one.
    pub(super) async fn watch(&self, known: Known) -> Infallible {
        let mut told = known == Known::Something;
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
                        self.tell(AttemptDelay { key: self.key.clone(), cause: Some(cause), since });
                        told = true;
                    }
                }
            }
            if next != JobPlace::Nowhere && std::mem::take(&mut told) {
                self.tell(AttemptDelay { key: self.key.clone(), cause: None, since: SystemClock.now() });
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

    fn tell(&self, delay: AttemptDelay) {
        // The substrate may be gone; then nobody waits for it.
        drop(self.delays.send(delay));
    }
}
