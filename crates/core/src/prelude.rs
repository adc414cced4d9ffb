//! The names that most programs need: `use orlop_core::prelude::*;`.
//!
//! ```
//! use orlop_core::prelude::*;
//! use std::time::Duration;
//! let fetch = Step::new("fetch").output(OutputParameter::file("rows", "/tmp/rows"));
//! let load = Step::new("load").after(["fetch"]).retry(RetryPolicy::fixed(2, Duration::from_secs(1)));
//! let flow = JobFlow::new("nightly", FlowSpec::new([fetch, load]));
//! assert_eq!(flow.spec.steps[1].dependencies, ["fetch"]);
//! ```

pub use crate::attempt::{Address, AttemptEnd, AttemptKey, AttemptSpec, EndResult, StepIndex};
pub use crate::effect::FlowEffect;
pub use crate::error::{Class, Problem};
pub use crate::event::FlowEvent;
#[cfg(feature = "ports")]
pub use crate::ports::{
    clock::Clock,
    journal::FlowJournal,
    substrate::{AttemptReport, Substrate},
};
pub use crate::spec::flow::{FlowSpec, JobFlow};
pub use crate::spec::policy::RetryPolicy;
pub use crate::spec::step::{InputParameter, OutputParameter, Step};
pub use crate::time::Time;
