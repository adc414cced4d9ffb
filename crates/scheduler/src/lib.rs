//! Where work runs: which job goes to which worker, and when. This crate will hold job classes and queues, the picture of
//! the fleet, filters and scores, quotas and fair shares, reservations, gangs and preemption. It holds offline packing with
//! its bounds: [`packing`].
//!
//! Pure, like `orlop_core` and `orlop_dag`: no async runtime, no I/O, no clock, no randomness, no global state. It knows
//! resources and workers; it never knows flows.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod packing;
