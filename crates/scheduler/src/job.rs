//! What a job asks of the fleet: [`Demand`] and the types of its fields, which are those of `orlop_core`.
//!
//! ```
//! use orlop_scheduler::job::{Demand, Gang, Priority};
//!
//! // Four members on four GPUs each, all at once, ahead of what has priority 5.
//! let mut demand = Demand::new("physics".parse()?);
//! demand.priority = Priority(2);
//! demand.resources.cpu_m = 16_000;
//! demand.resources.memory_bytes = 64 << 30;
//! demand.resources.gpus.count = 4;
//! demand.gang = Some(Gang { size: 4, max_per_worker: None, same_label: None });
//! assert!(demand.check().is_ok());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use orlop_core::hardware::placement::{LabelExpr, Operator};
pub use orlop_core::spec::job::{
    ELEMENTS_MAX, Gang, GpuKind, Gpus, Overlap, Prefer, Requires, Resources, Retry, RetryOn, Runtime,
};
pub use orlop_core::task::{Band, Demand, DemandError, Priority};
