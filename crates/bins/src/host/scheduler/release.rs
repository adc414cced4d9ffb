//! What is done once a batch is committed, and never before. Decides nothing.

use std::fmt;
use std::sync::Arc;

use orlop_cloud::bus::local::LocalBus;
use orlop_core::ports::bus::BusEvent;
use tokio::sync::oneshot;

use super::audit_buffer::PendingEntry;
use super::session::{Batch, Closing, Session};

/// Something that waits for the commit of its batch.
pub(super) enum Release {
    /// An answer to the caller.
    Reply(Box<dyn FnOnce() + Send>),
    /// What goes out to a worker.
    Frame(Arc<Session>, Box<Batch>),
    /// A session or its stream ends.
    Close(Arc<Session>, Closing),
    /// Events of the batch.
    Events(Arc<LocalBus>, Vec<BusEvent>),
    /// Those who waited for the end or a change of a job.
    Waiters(Vec<oneshot::Sender<()>>),
    /// Lines of the audit trail are written.
    Audited(Vec<PendingEntry>),
}

impl fmt::Debug for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reply(_) => "Reply",
            Self::Frame(..) => "Frame",
            Self::Close(..) => "Close",
            Self::Events(..) => "Events",
            Self::Waiters(_) => "Waiters",
            Self::Audited(_) => "Audited",
        })
    }
}

impl Release {
    /// The answer to a question, to be given after the commit. If that fails, the caller sees that nobody answers.
    pub(super) fn reply<T: Send + 'static>(to: oneshot::Sender<T>, answer: T) -> Self {
        // Who has gone away meanwhile needs no answer.
        Self::Reply(Box::new(move || drop(to.send(answer))))
    }

    /// Does it.
    pub(super) fn carry_out(self) {
        match self {
            Self::Reply(reply) => reply(),
            Self::Frame(session, out) => session.send(*out),
            Self::Close(session, closing) => session.close(closing),
            Self::Events(bus, events) => {
                if let Err(error) = bus.publish_now(events) {
                    tracing::error!(target: "orlop::scheduler", error = error.chain(), "events were not published");
                }
            }
            Self::Waiters(waiters) => {
                waiters.into_iter().for_each(|waiter| waiter.send(()).unwrap_or_default());
            }
            Self::Audited(entries) => entries.into_iter().for_each(PendingEntry::written),
        }
    }
}
