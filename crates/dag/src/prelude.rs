//! The names that most programs with the flow engine need: `use orlop_dag::prelude::*;`. It includes the prelude of `orlop_core`.
//!
//! ```
//! use orlop_dag::prelude::*;
//! let plan = Plan::build(FlowSpec::new([Step::new("build"), Step::new("test").after(["build"])]).into())?;
//! let (mut effects, now) = (Vec::new(), Time::from_millis(0));
//! let mut state = init(&plan, &FlowMeta::default(), now, &mut effects);
//! apply(&plan, &mut state, &FlowEvent::Admit, now, &mut effects);
//! assert!(effects.iter().any(|effect| matches!(effect, FlowEffect::StartAttempt { attempt: 1, .. })));
//! # Ok::<(), PlanErrors>(())
//! ```

pub use crate::engine::{Duty, FlowMeta, State, apply, duties, init, next_deadline, view};
pub use crate::manifest::{Limits, Options, Report, checked, read};
pub use crate::plan::{Plan, PlanError, PlanErrors};
pub use orlop_core::prelude::*;
