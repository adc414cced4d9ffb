//! Lifecycles of flows, steps, jobs, workers and others as data, one state machine a module. Owns states, events and transition
//! tables; never carries out an effect and never reads a clock.
//!
//! Each module has enumerations of its states, events and guards (the conditions of a transition), and a table named `MACHINE`:
//!
//! ```
//! use orlop_core::machine::flow::{Event, FlowPhase, MACHINE};
//! // No guard holds: the flow leaves Pending when its first step starts.
//! assert_eq!(MACHINE.step(FlowPhase::Pending, Event::StepStarted, |_| false).ok(), Some(FlowPhase::Running));
//! // An event that a state does not take is an error, which names the events that it takes.
//! assert!(MACHINE.step(FlowPhase::Running, Event::Admitted, |_| false).is_err());
//! assert!(MACHINE.is_terminal(FlowPhase::Failed));
//! assert!(MACHINE.mermaid().starts_with("stateDiagram-v2"));
//! ```

pub mod attempt;
mod diagram;
pub mod executor;
pub mod flow;
pub mod job;
#[cfg(test)]
mod laws;
pub mod lease;
mod lifecycle;
pub mod performer;
pub mod saga;
pub mod server;
pub mod step;
pub mod tenant;
pub(crate) mod transition;
pub mod verdict;
pub mod worker;

pub use crate::named::{Named, UnknownName};
pub use lifecycle::{Machine, Poll};
pub use transition::{NoGuard, Rejected, Row, Transition};
