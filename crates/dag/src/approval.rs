//! Manual steps, which wait for the approval of a person: finding one by its name, with an error that names those there are.

use orlop_core::error::{Class, Problem};
use orlop_core::spec::flow::FlowSpec;
use orlop_core::spec::step::Step;

/// The Manual step of a flow with a name. `flow` is the name of the flow, for messages.
///
/// ```
/// use orlop_dag::approval::manual_step;
/// use orlop_dag::prelude::*;
/// let spec = FlowSpec::new([Step::new("build"), Step::manual("approve", "Release it?")]);
/// assert_eq!(manual_step(&spec, "release", "approve")?.name, "approve");
/// let error = manual_step(&spec, "release", "aprove").unwrap_err();
/// assert_eq!(error.to_string(), "flow `release` has no step `aprove`; its Manual steps are approve");
/// # Ok::<(), Problem>(())
/// ```
///
/// # Errors
/// NotFound when there is no such step; Conflict when it is not a Manual step.
pub fn manual_step<'s>(spec: &'s FlowSpec, flow: &str, step: &str) -> Result<&'s Step, Problem> {
    let known = spec.steps.iter().chain(&spec.finally).find(|known| known.name == step);
    match known {
        Some(known) if known.is_manual() => Ok(known),
        Some(_) => {
            let message = format!("step `{step}` runs a Job; only Manual steps wait for a decision");
            Err(Problem::new(Class::Conflict, message))
        }
        None => {
            let manual: Vec<&str> =
                spec.steps.iter().filter(|known| known.is_manual()).map(|known| known.name.as_str()).collect();
            let known = match manual.as_slice() {
                [] => "it has no Manual step".to_owned(),
                _ => format!("its Manual steps are {}", manual.join(", ")),
            };
            Err(Problem::new(Class::NotFound, format!("flow `{flow}` has no step `{step}`; {known}")))
        }
    }
}
