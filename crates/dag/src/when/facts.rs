//! The port through which a condition reads the run: [`Facts`], and the reading of one reference from it. The
//! engine implements it over its state. Never decides anything.

use super::error::{EvalError, Span, excerpt};
use super::reference::{FlowField, Reference, StepField};
use super::value::Value;
use std::borrow::Cow;

/// The state of a flow as conditions read it. Every answer must be a pure function of that state.
///
/// Step names, output names and parameter names are those the condition was compiled with.
pub trait Facts {
    /// The phase of a settled step, such as `Succeeded`; `None` while it is not settled.
    fn step_phase(&self, step: &str) -> Option<&str>;

    /// The reason of a settled step; `None` reads as empty text.
    fn step_reason(&self, step: &str) -> Option<&str>;

    /// The message of a settled step; `None` reads as empty text.
    fn step_message(&self, step: &str) -> Option<&str>;

    /// How often a settled step was retried; `None` while it is not settled.
    fn step_retry_count(&self, step: &str) -> Option<u32>;

    /// A recorded output of a step, of a fan-out step the JSON array over its instances; `None` if none is recorded.
    fn output(&self, step: &str, output: &str) -> Option<Cow<'_, str>>;

    /// The value of a parameter, of `item`, `item.<field>` or `index`; `None` if it cannot be resolved.
    fn parameter(&self, name: &str) -> Option<Cow<'_, str>>;

    /// The name of the flow.
    fn flow_name(&self) -> &str;

    /// The namespace of the flow.
    fn flow_namespace(&self) -> &str;

    /// The UID of the flow.
    fn flow_uid(&self) -> &str;

    /// The phase of the flow, as the API shows it.
    fn flow_phase(&self) -> &str;

    /// `Succeeded` or `Failed` once all main steps are settled; `None` before.
    fn flow_outcome(&self) -> Option<&str>;

    /// A label of the flow; `None` reads as empty text.
    fn flow_label(&self, key: &str) -> Option<&str>;

    /// An annotation of the flow; `None` reads as empty text.
    fn flow_annotation(&self, key: &str) -> Option<&str>;
}

/// Reads one reference; `span` is where an error points.
pub(crate) fn read<'f>(facts: &'f dyn Facts, reference: &Reference, span: Span) -> Result<Value<'f>, EvalError> {
    let borrowed = |text: &'f str| Value::String(Cow::Borrowed(text));
    match reference {
        Reference::Step { step, field } => read_step(facts, step, field, span),
        Reference::Parameter(name) | Reference::Instance(name) => match facts.parameter(name) {
            Some(value) => Ok(Value::String(value)),
            None => Err(EvalError::new(span, format!("parameter {} has no value", excerpt(name)))),
        },
        Reference::Flow(field) => match field {
            FlowField::Name => Ok(borrowed(facts.flow_name())),
            FlowField::Namespace => Ok(borrowed(facts.flow_namespace())),
            FlowField::Uid => Ok(borrowed(facts.flow_uid())),
            FlowField::Phase => Ok(borrowed(facts.flow_phase())),
            FlowField::Outcome => {
                facts.flow_outcome().map(borrowed).ok_or_else(|| EvalError::new(span, "the flow has no outcome yet"))
            }
        },
        Reference::Label(key) => Ok(borrowed(facts.flow_label(key).unwrap_or_default())),
        Reference::Annotation(key) => Ok(borrowed(facts.flow_annotation(key).unwrap_or_default())),
    }
}

fn read_step<'f>(facts: &'f dyn Facts, step: &str, field: &StepField, span: Span) -> Result<Value<'f>, EvalError> {
    let unsettled = || EvalError::new(span, format!("step {} is not settled", excerpt(step)));
    let text = match field {
        StepField::Phase => facts.step_phase(step).ok_or_else(unsettled)?,
        StepField::Reason => facts.step_reason(step).unwrap_or_default(),
        StepField::Message => facts.step_message(step).unwrap_or_default(),
        StepField::RetryCount => {
            return facts.step_retry_count(step).map(|count| Value::Int(i64::from(count))).ok_or_else(unsettled);
        }
        StepField::Output(output) => {
            return facts.output(step, output).map(Value::String).ok_or_else(|| {
                let message = format!("step {} has not recorded output {}", excerpt(step), excerpt(output));
                EvalError::new(span, message)
            });
        }
    };
    Ok(Value::String(Cow::Borrowed(text)))
}

/// `has()`: whether the reference has a value of its own.
pub(crate) fn has(facts: &dyn Facts, reference: &Reference) -> bool {
    match reference {
        Reference::Step { step, field } => match field {
            StepField::Phase => facts.step_phase(step).is_some(),
            StepField::Reason => facts.step_reason(step).is_some_and(|text| !text.is_empty()),
            StepField::Message => facts.step_message(step).is_some_and(|text| !text.is_empty()),
            StepField::RetryCount => facts.step_retry_count(step).is_some(),
            StepField::Output(output) => facts.output(step, output).is_some(),
        },
        Reference::Parameter(name) | Reference::Instance(name) => facts.parameter(name).is_some(),
        Reference::Flow(FlowField::Outcome) => facts.flow_outcome().is_some(),
        Reference::Flow(_) => true,
        Reference::Label(key) => facts.flow_label(key).is_some(),
        Reference::Annotation(key) => facts.flow_annotation(key).is_some(),
    }
}
