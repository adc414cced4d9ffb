//! What most programs name that run flows: `use orlop::prelude::*;`. The types of `orlop_core` and `orlop_dag` are among it;
//! `Step` is the step of a spec, that of functions is [`durable::Step`](crate::durable::Step).

pub use crate::durable::{Durable, Flow, Functions, Running, StepContext, StepError};
pub use crate::host::flow::{FlowCommand, FlowHost, HostParts, Submission};
pub use orlop_dag::prelude::*;
