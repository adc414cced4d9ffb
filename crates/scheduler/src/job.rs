//! What a job asks of the fleet, as `orlop_core` has it: everything that a [`Demand`] is made of.

pub use orlop_core::hardware::placement::{LabelExpr, Operator};
pub use orlop_core::spec::job::{
    ELEMENTS_MAX, Gang, GpuKind, Gpus, Overlap, Prefer, Requires, Resources, Retry, RetryOn, Runtime,
};
pub use orlop_core::task::{Band, Demand, DemandError, Priority};
