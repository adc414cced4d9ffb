//! Random flows in a hostile world against a naive model: the laws of the engine, for tests and fuzzing. Owns the decoder
//! from bytes, the world, the model and the checks; nothing here is part of a running program.
//!
//! [`check`] decodes any bytes into a flow and what happens to it, runs the engine and the [`model`] side by side and
//! compares all they show after every event; beside that it holds the engine to laws that need no model (order,
//! finality, quiescence, snapshots, budgets). Afterwards the world turns fair and the flow must end.
//!
//! The model knows the transition tables of flows and steps and nothing of the engine: it scans everything, after every event,
//! again and again.

mod bytes;
mod case;
mod decode;
mod laws;
pub mod model;
mod rebuild;
mod run;
mod world;

pub use case::{Ask, Case, Condition, Items, Join, Retry, StepCase};
pub use decode::{Op, decode};
pub use laws::Broken;
pub use rebuild::check_rebuild;
pub use run::check;
