//! A scheduler as a library: it decides which job runs on which worker, and when.
//!
//! ```
//! use orlop_scheduler::prelude::*;
//!
//! let mut scheduler = Scheduler::new(Config::without_timeouts(), 7)?;
//! let mut effects = Vec::new();
//! for name in ["w1", "w2"] {
//!     scheduler.join(0, name.parse()?, Capabilities::new(4000, 8 << 30), &mut effects)?;
//! }
//! for number in 1..=12 {
//!     let mut demand = Demand::new("physics".parse()?);
//!     demand.resources.cpu_m = 1000;
//!     scheduler.submit(0, Submission::new(JobId::from_u64(number), demand), &mut effects)?;
//! }
//! // Eight of the jobs fit at once. Each takes ten seconds; then come the others.
//! let mut ends = Vec::new();
//! for now in [0, 10_000, 20_000] {
//!     effects.clear();
//!     let _ = scheduler.round(now, u32::MAX, &mut effects);
//!     let placed: Vec<Placement> = effects.iter().filter_map(Effect::placement).collect();
//!     for placement in &placed {
//!         scheduler.finish(now + 10_000, *placement, Outcome::Succeeded, &mut effects)?;
//!     }
//!     ends.push(placed.len());
//! }
//! assert_eq!(ends, [8, 4, 0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Begin with [`engine::Scheduler`] and the names of the [`prelude`]:
//!
//! | to do this | call |
//! |---|---|
//! | add a worker, submit a job | [`join`](engine::Scheduler::join), [`submit`](engine::Scheduler::submit) |
//! | place the jobs that wait | [`round`](engine::Scheduler::round), then read [`effect::Effect::placement`] of its effects |
//! | tell that a job has ended | [`finish`](engine::Scheduler::finish) |
//! | tell anything else that happened | [`apply`](engine::Scheduler::apply) with an [`event::Event`] |
//! | know when to call again if nothing happens | [`next_deadline`](engine::Scheduler::next_deadline) |
//! | learn why a job waits, what the fleet lacks | [`explain`](engine::Scheduler::explain), [`demand`](engine::Scheduler::demand) |
//! | store the state, and go on after a restart | [`snapshot`](engine::Scheduler::snapshot), or row by row with [`stored`] |
//! | pack items into bins, without a scheduler | [`packing`] |
//!
//! Units: CPU in millicores (1000 are one core), memory in bytes, times in monotonic milliseconds of the caller, priorities from 0
//! (most urgent) to 9. A *fleet* is all workers, a *tenant* is a user or team with limits of its own, an *array* is a job of many equal
//! elements, a *gang* is a job whose members start together, and a *class* is all jobs with equal demands.
//!
//! Pure, like `orlop_core` and `orlop_dag`: no async runtime, no I/O, no clock, no randomness, no global state. It does not know
//! flows and their steps.
//!
#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod class;
pub mod config;
pub mod effect;
pub mod engine;
pub mod error;
pub mod event;
mod fleet;
pub mod job;
mod offer;
pub mod packing;
mod placement;
pub mod prelude;
mod queue;
mod quota;
mod score;
mod starvation;
pub mod stored;
mod submission;
mod table;
mod tenant;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod token;
