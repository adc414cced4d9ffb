//! Leadership: the epoch is taken before anything is decided, prolonged every 2 s where the store has terms, and given up for
//! lost 6.6 s after the last success.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use orlop_core::error::Problem;
use orlop_core::id::Epoch;
use orlop_core::ports::fleet_store::{FENCED, FleetStore};
use tokio::task::JoinHandle;

use super::clock::Clock;

/// Time between two renewals.
const RENEW: Duration = Duration::from_secs(2);
/// How long a leader acts after its last renewal, in milliseconds of its monotonic clock.
const TERM: u64 = 6600;

/// A term of leadership. Dropping it ends the renewals.
#[derive(Debug)]
pub(super) struct Term {
    epoch: Epoch,
    until: Arc<AtomicU64>,
    renewals: Option<JoinHandle<()>>,
}

impl Drop for Term {
    fn drop(&mut self) {
        if let Some(renewals) = &self.renewals {
            renewals.abort();
        }
        self.until.store(0, Ordering::SeqCst);
    }
}

/// What a term needs.
pub(super) struct Ground {
    pub(super) store: Arc<dyn FleetStore>,
    pub(super) clock: Arc<dyn Clock>,
    /// Wakes the loop when the term is lost.
    pub(super) wake: Arc<dyn Fn() + Send + Sync>,
    /// Where everybody sees until when the server may act.
    pub(super) until: Arc<AtomicU64>,
}

impl Term {
    /// Takes leadership.
    ///
    /// # Errors
    /// As of [`FleetStore::acquire`].
    pub(super) async fn take(ground: Ground, holder: &orlop_core::ports::fleet_store::Holder) -> Result<Self, Problem> {
        let begun = ground.clock.monotonic();
        let epoch = ground.store.acquire(holder).await?;
        let limited = ground.store.leader().await?.is_some_and(|leader| leader.remaining.is_some());
        let until = Arc::clone(&ground.until);
        until.store(if limited { begun.saturating_add(TERM) } else { u64::MAX }, Ordering::SeqCst);
        let renewals = limited.then(|| tokio::spawn(renew(ground, epoch, Arc::clone(&until))));
        Ok(Self { epoch, until, renewals })
    }

    pub(super) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Until when this server may act, in monotonic milliseconds.
    pub(super) fn until(&self) -> u64 {
        self.until.load(Ordering::SeqCst)
    }
}

async fn renew(ground: Ground, epoch: Epoch, until: Arc<AtomicU64>) {
    loop {
        tokio::time::sleep(RENEW).await;
        let begun = ground.clock.monotonic();
        match ground.store.renew(epoch).await {
            // A term that is over is not taken up again.
            Ok(()) => drop(until.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |before| {
                (before != 0).then(|| begun.saturating_add(TERM))
            })),
            Err(error) if error.reason == Some(FENCED) => {
                tracing::warn!(target: "orlop::scheduler", %epoch, "another server has taken leadership");
                until.store(0, Ordering::SeqCst);
                (ground.wake)();
                return;
            }
            Err(error) => {
                tracing::warn!(target: "orlop::scheduler", %epoch, error = error.chain(), "leadership was not prolonged");
            }
        }
    }
}
