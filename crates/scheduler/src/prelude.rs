//! The names that most programs with a scheduler need: `use orlop_scheduler::prelude::*;`.
//!
//! ```
//! use orlop_scheduler::prelude::*;
//!
//! let scheduler = Scheduler::new(Config::without_timeouts(), 7)?;
//! assert_eq!(scheduler.next_deadline(), None);
//! # Ok::<(), EventError>(())
//! ```

pub use orlop_core::id::{Epoch, JobId, TenantName, WorkerId};
pub use orlop_core::machine::job::JobState;
pub use orlop_core::machine::verdict::ReportVerdict;
pub use orlop_core::task::{StartMode, TaskRef};

pub use crate::config::{Config, Policy};
pub use crate::effect::{Effect, Refusal};
pub use crate::engine::{Admitted, PlacementPolicy, Room, RoundStats, Scheduler, Site};
pub use crate::error::{EventError, SubmitError};
pub use crate::event::{
    ArraySpec, Capabilities, Departure, Event, GpuDevices, Outcome, Quota, StartWindow, Submission, TenantSettings,
};
pub use crate::job::{Demand, Gang, Priority, Runtime};
pub use crate::placement::Placement;
pub use crate::token::WorkerKey;
