//! Every rule a flow must keep before it may run, as far as the object alone shows it: types and bounds of
//! fields, and rules between them. Admission, server, controller and command line all call [`validate`]; it needs no file, and
//! places are added to its violations afterwards. Cycles are found where the graph is built.

mod artifacts;
mod containers;
mod context;
mod foreign;
mod object;
mod parameters;
mod placeholders;
mod policy;
mod references;
mod resources;
mod retry;
mod steps;
mod stores;
mod template;
#[cfg(test)]
mod tests;
mod update;

pub use containers::validate_resources;
pub use context::Limits;
pub use update::validate_update;

use orlop_core::spec::flow::JobFlow;

use super::path::Path;
use super::violation::Violations;
use context::{At, Context};
pub(in crate::manifest) use template::{has_placeholder, pod};

/// All violations of a flow, errors and warnings. Cycles are found by [`checked`](super::checked), which also plans the flow.
///
/// ```
/// use orlop_dag::manifest::{Limits, validate};
/// use orlop_dag::prelude::*;
/// let limits = Limits::elsewhere().templates_optional();
/// let flow = JobFlow::new("release", FlowSpec::new([Step::new("build").after(["fetch"])]));
/// let found = validate(&flow, &limits);
/// assert!(found.has_errors());
/// let first = found.iter().next().ok_or("there is one")?;
/// assert_eq!(first.path.to_string(), "spec.steps[0].dependencies[0]");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn validate(flow: &JobFlow, limits: &Limits) -> Violations {
    let mut found = Violations::new();
    let context = Context::new(flow, limits);
    let spec = Path::ROOT.field("spec");
    object::check(&context, &mut found);
    policy::check(&context, &spec, &mut found);
    resources::check(&context, &spec, &mut found);
    stores::check_store(&context, &spec, &mut found);
    parameters::check_flow(&context, &spec, &mut found);
    for (list, steps, finally) in [("steps", &flow.spec.steps, false), ("finally", &flow.spec.finally, true)] {
        let list = spec.field(list);
        for (index, step) in steps.iter().enumerate() {
            let path = list.index(index);
            let at = At { step, path: &path, finally };
            steps::check(&context, at, &mut found);
            retry::check(at, &mut found);
            parameters::check_step(&context, at, &mut found);
            references::check(&context, at, &mut found);
            artifacts::check(&context, at, &mut found);
            template::check(&context, at, &mut found);
            placeholders::check(&context, at, &mut found);
        }
    }
    steps::check_names(&context, &spec, &mut found);
    policy::check_containers(&context, &spec, &mut found);
    found
}
