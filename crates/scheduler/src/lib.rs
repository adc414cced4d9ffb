//! Where work runs: which job goes to which worker, and when.
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
//! Begin with [`engine::Scheduler`] and the names of the [`prelude`]. [`engine::Scheduler::submit`],
//! [`engine::Scheduler::join`] and [`engine::Scheduler::finish`] are the calls of a program that runs the jobs itself; everything
//! that can happen is an [`event::Event`], and everything that is to be done an [`effect::Effect`].
//! [`engine::Scheduler::explain`] says why a job waits, [`engine::Scheduler::demand`] what the fleet lacks. [`packing`] packs
//! offline, with its bounds. Each of these, and each way to pack, has an example that runs as it stands.
//!
//! Pure, like `orlop_core` and `orlop_dag`: no async runtime, no I/O, no clock, no randomness, no global state. It knows
//! resources and workers; it never knows flows.
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
