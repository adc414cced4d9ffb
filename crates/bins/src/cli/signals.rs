//! SIGINT and SIGTERM as orders: the first stops the flow, the second terminates it, the third leaves. Owns the counting.

use orlop_core::spec::flow::StopMode;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::failure::Failure;
use super::output;
use crate::host::flow::{HostHandle, Order};

/// Both signals.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Takes both signals from now on.
    ///
    /// # Errors
    /// When the system does not let them be taken.
    pub(super) fn take() -> Result<Self, Failure> {
        let take = |kind| signal(kind).map_err(|error| Failure::io("signals cannot be taken", &error));
        Ok(Self { interrupt: take(SignalKind::interrupt())?, terminate: take(SignalKind::terminate())? })
    }

    /// Waits for the next of either.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    /// Turns signals into orders to a host; returns when the user wants to leave at once.
    pub(super) async fn order(&mut self, handle: &HostHandle) {
        for (mode, text) in [
            (StopMode::Graceful, "stopping: live attempts finish, nothing more starts; interrupt again to cancel them"),
            (StopMode::Terminate, "terminating: live attempts are cancelled; interrupt again to leave them behind"),
        ] {
            self.next().await;
            output::tell(&format!("\n{text}"));
            // A flow that has ended in this moment needs no order.
            drop(handle.order(Order::Stop { mode }).await);
        }
        self.next().await;
    }
}
