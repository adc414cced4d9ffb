//! Events of the controller of flows for metrics.

use std::time::Duration;

use orlop_core::event::FlowEvent;
use orlop_core::spec::status::FlowStatus;

use super::Key;
use crate::shell::LoopEvent;
use crate::status::Level;

/// Receives the events of a controller.
pub trait Monitor: Send + Sync {
    /// Time since any fixed moment, by a steady clock. One that stands still measures no durations.
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    /// Something has happened.
    fn record(&self, event: ControllerEvent<'_>);
}

/// Ignores all events.
impl Monitor for () {
    fn record(&self, _event: ControllerEvent<'_>) {}
}

/// Something that has happened in the controller of flows.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum ControllerEvent<'a> {
    /// Something has happened in the loop.
    Loop(LoopEvent<'a>),
    /// A request of a pass failed.
    RequestFailed {
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
    StatusChanged {
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
    StatusStored {
        /// At which level.
        level: Level,
        /// Its size.
        bytes: usize,
        /// Whether it is stored.
        stored: bool,
        /// How long it took.
        took: Duration,
    },
    /// An event was applied to the state of a flow.
    EventApplied {
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
