//! SIGINT and SIGTERM as orders: the first stops the flow, the second terminates it, the third leaves.

use orlop_core::spec::flow::StopMode;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::failure::{Exit, Failure};
use super::output;
use crate::host::flow::{FlowCommand, HostHandle};

/// Runs a verb until it is interrupted: then the verb ends at once, and the server continues with the requests it has.
///
/// # Errors
/// Those of the verb; when the system does not let signals be taken.
pub(super) async fn interruptible(verb: impl Future<Output = Result<Exit, Failure>>) -> Result<Exit, Failure> {
    let mut signals = Signals::take()?;
    tokio::select! {
        done = verb => done,
        exit = signals.next() => Ok(exit),
    }
}

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
        let take = |kind| signal(kind).map_err(|error| Failure::io("cannot install signal handlers", &error));
        // A file at the limit of its size is an error of that write; else the program would end without a word.
        drop(take(SignalKind::from_raw(nix::sys::signal::Signal::SIGXFSZ as i32))?);
        Ok(Self { interrupt: take(SignalKind::interrupt())?, terminate: take(SignalKind::terminate())? })
    }

    /// Waits for the next of either: how the program ends that ends by it.
    pub(super) async fn next(&mut self) -> Exit {
        tokio::select! {
            _ = self.interrupt.recv() => Exit::Interrupted,
            _ = self.terminate.recv() => Exit::Terminated,
        }
    }

    /// Turns signals into orders to a host; returns when the user wants to leave at once, and how the program ends then.
    pub(super) async fn order(&mut self, handle: &HostHandle) -> Exit {
        for (mode, text) in [
            (StopMode::Graceful, "stopping: live attempts finish, nothing more starts; interrupt again to cancel them"),
            (StopMode::Terminate, "terminating: live attempts are cancelled; interrupt again to leave them running"),
        ] {
            let _ = self.next().await;
            output::tell(&format!("\n{text}"));
            // A flow that has ended in this moment needs no order.
            drop(handle.order(FlowCommand::Stop { mode }).await);
        }
        self.next().await
    }
}
