//! Steps that wait for a person: which those are, and what is said where a step that is decided about is none of them.

use orlop_core::spec::flow::FlowSpec;
use orlop_core::spec::step::Step;

/// Why nobody can decide about a step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApprovalError {
    /// The flow has no such step.
    #[error("flow `{flow}` has no step `{step}`; {}", if .manual.is_empty() { "it has no Manual step".to_owned() } else { format!("its Manual steps are {}", .manual.join(", ")) })]
    NoStep {
        /// Name of the flow.
        flow: String,
        /// Name of the step.
        step: String,
        /// Steps that wait for a person.
        manual: Vec<String>,
    },
    /// The step does not wait for a person.
    #[error("step `{0}` runs a Job; only Manual steps wait for a decision")]
    NotManual(String),
}

/// The step of a flow that a person decides about.
///
/// # Errors
/// When there is no such step, or it is no Manual one.
pub fn manual_step<'s>(spec: &'s FlowSpec, flow: &str, step: &str) -> Result<&'s Step, ApprovalError> {
    let known = spec.steps.iter().chain(&spec.finally).find(|known| known.name == step);
    match known {
        Some(known) if known.is_manual() => Ok(known),
        Some(_) => Err(ApprovalError::NotManual(step.to_owned())),
        None => {
            let manual = spec.steps.iter().filter(|known| known.is_manual()).map(|known| known.name.clone()).collect();
            Err(ApprovalError::NoStep { flow: flow.to_owned(), step: step.to_owned(), manual })
        }
    }
}
