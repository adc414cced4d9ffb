//! Steps that wait for a person: which those are, and what is said where a step that is decided about is none of them.

use orlop_core::error::{Class, Problem};
use orlop_core::spec::flow::FlowSpec;
use orlop_core::spec::step::Step;

/// The step of a flow that a person decides about.
///
/// # Errors
/// When there is no such step, or it is no Manual one.
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
