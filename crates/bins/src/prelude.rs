//! The names that most programs need which run flows: `use orlop::prelude::*;`. It includes the preludes of `orlop_core` and
//! `orlop_dag`. `Step` is the step of a manifest; the step of a flow of functions is [`durable::Step`](crate::durable::Step).
//!
//! ```
//! use orlop::prelude::*;
//! let functions = Functions::new();
//! let step = Step::new("build").after(["fetch"]);
//! assert_eq!(step.dependencies, ["fetch"]);
//! # drop(functions);
//! ```

pub use crate::durable::{Durable, Flow, Functions, Running, StepContext, StepError};
pub use crate::host::flow::{FlowCommand, FlowHost, HostParts, Submission};
pub use orlop_dag::prelude::*;
