//! What a controller tells whoever measures it. Owns the words; counts nothing and changes nothing.

use std::time::Duration;

use orlop_core::event::FlowEvent;
use orlop_core::spec::status::FlowStatus;

use super::Key;
use crate::status::Level;

/// Who measures a controller.
pub trait Monitor: Send + Sync {
    /// Time since any fixed moment, by a steady clock. One that stands still measures no durations.
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    /// Something has happened.
    fn note(&self, note: Note<'_>);
}

/// Nobody measures.
impl Monitor for () {
    fn note(&self, _note: Note<'_>) {}
}

/// What has happened.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Note<'a> {
    /// The loop is alive; so many flows could be looked at now.
    Beat {
        /// Keys that nobody works on yet.
        depth: usize,
    },
    /// All that exists was listed once.
    Synced,
    /// A watch has ended and is begun again.
    Restarted {
        /// What is watched, as in paths.
        resource: &'static str,
    },
    /// A watch has listed what exists.
    Watched {
        /// What is watched, as in paths.
        resource: &'static str,
    },
    /// A watch has failed, and is begun again after a while.
    Broken {
        /// What is watched, as in paths.
        resource: &'static str,
        /// HTTP status; none when no answer came.
        code: Option<u16>,
        /// A sentence, with nothing the server said.
        message: &'a str,
    },
    /// A pass is over.
    Passed {
        /// How long it took.
        took: Duration,
        /// Whether something it needed had no success.
        failed: bool,
    },
    /// Something a pass needed had no success.
    Failed {
        /// Of which kind, in one word.
        class: &'static str,
    },
    /// An artifact of a step is stored, or goes to one that begins.
    Artifact {
        /// Whether it is stored; else it goes to a step.
        stored: bool,
        /// Kind of its store.
        store: &'a str,
        /// Its size.
        bytes: u64,
    },
    /// An event about a flow was not published.
    EventLost,
    /// A flow was planned.
    Planned {
        /// Where the flow is.
        namespace: &'a str,
        /// How long it took.
        took: Duration,
    },
    /// A flow was opened, with this status.
    Opened {
        /// Which flow.
        flow: &'a Key,
        /// All of it.
        status: &'a FlowStatus,
    },
    /// A status is about to be stored.
    Shown {
        /// Which flow.
        flow: &'a Key,
        /// All of it.
        status: &'a FlowStatus,
    },
    /// Nothing is kept of a flow any more.
    Forgotten {
        /// Which flow.
        flow: &'a Key,
    },
    /// A status was stored, or not.
    Stored {
        /// At which level.
        level: Level,
        /// Its size.
        bytes: usize,
        /// Whether it is stored.
        stored: bool,
        /// How long it took.
        took: Duration,
    },
    /// The engine was told something.
    Told {
        /// What.
        event: &'a FlowEvent,
        /// How long it took.
        took: Duration,
        /// Whether it was of an attempt that is not the current one.
        fenced: bool,
    },
    /// A first attempt was accepted.
    Started {
        /// Where the flow is.
        namespace: &'a str,
        /// How long after the last of its dependencies had settled.
        waited: Duration,
    },
}
