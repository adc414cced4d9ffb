//! Signals that stop a run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use orlop_cloud::exit::Exit;
use orlop_cloud::provision::saga::Stop;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::failure::Failure;

/// What came so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Heard {
    /// How many.
    count: u8,
    /// How the program ends by the first.
    exit: Option<Exit>,
    /// Whether one of them was a hang-up.
    hang_up: bool,
}

/// Signals that stop a run. Clones share them.
#[derive(Clone)]
pub(super) struct Signals {
    heard: watch::Receiver<Heard>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// Whether a deployment is under way, which takes them itself.
    claimed: AtomicBool,
    /// Whether the first keeps everything.
    keeps: AtomicBool,
    /// How many the deployment took.
    taken: AtomicU8,
}

impl Signals {
    /// Listens from now on.
    ///
    /// # Errors
    /// The system gives no signals.
    pub(super) fn listen() -> Result<Self, Failure> {
        let take =
            |kind| signal(kind).map_err(|error| Failure::internal(format!("cannot install signal handlers: {error}")));
        let (mut interrupt, mut terminate) = (take(SignalKind::interrupt())?, take(SignalKind::terminate())?);
        let mut hang_up = take(SignalKind::hangup())?;
        let (tell, heard) = watch::channel(Heard::default());
        tokio::spawn(async move {
            loop {
                let (exit, is_hang_up) = tokio::select! {
                    _ = interrupt.recv() => (Exit::Interrupted, false),
                    _ = terminate.recv() => (Exit::Terminated, false),
                    _ = hang_up.recv() => (Exit::Interrupted, true),
                };
                tell.send_modify(|heard| {
                    heard.count = heard.count.saturating_add(1);
                    heard.exit.get_or_insert(exit);
                    heard.hang_up |= is_hang_up;
                });
            }
        });
        Ok(Self { heard, shared: Arc::default() })
    }

    /// A deployment is under way from here on: signals are its matter. `--keep-on-interrupt` makes the first one keep everything.
    pub(super) fn claim(&self, keep_on_interrupt: bool) {
        self.shared.keeps.store(keep_on_interrupt, Ordering::Relaxed);
        self.shared.claimed.store(true, Ordering::Release);
    }

    /// The deployment is over: the next signal ends the program.
    pub(super) fn release(&self) {
        self.shared.claimed.store(false, Ordering::Release);
    }

    /// Waits for a signal that no deployment takes.
    pub(super) async fn unclaimed(&self) -> Failure {
        let mut heard = self.heard.clone();
        let mut before = 0;
        loop {
            let now = *heard.borrow_and_update();
            if now.count > before
                && !self.shared.claimed.load(Ordering::Acquire)
                && let Some(exit) = now.exit
            {
                return Failure::interrupted(exit);
            }
            before = now.count;
            if heard.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// How the deployment that is under way is to stop, if it is.
    pub(super) fn stop(&self) -> Option<Stop> {
        let heard = *self.heard.borrow();
        self.shared.taken.store(heard.count, Ordering::Relaxed);
        if !self.shared.claimed.load(Ordering::Acquire) {
            return None;
        }
        let keeps = heard.count > 1 || heard.hang_up || self.shared.keeps.load(Ordering::Relaxed);
        (heard.count > 0).then_some(if keeps { Stop::Keep } else { Stop::RollBack })
    }

    /// Returns when a signal came that `stop` did not tell of yet.
    pub(super) async fn stopped(&self) {
        let mut heard = self.heard.clone();
        loop {
            if heard.borrow_and_update().count > self.shared.taken.load(Ordering::Relaxed) {
                return;
            }
            if heard.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// The exit code of the first signal; nothing if none came.
    pub(super) fn exit(&self) -> Option<Exit> {
        self.heard.borrow().exit
    }
}
