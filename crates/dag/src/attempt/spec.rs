//! Everything a substrate is told about one attempt. Owns the way from a planned step and the state of its flow to an
//! [`AttemptSpec`] and the reasons why there is none; starts nothing.

use std::sync::Arc;
use std::time::Duration;

use orlop_core::attempt::{Address, AttemptKey, AttemptSpec, StepIndex};
use serde_json::Value;

use super::artifacts::{self, ArtifactError};
use super::bind::Unresolved;
use super::template::{Subject, TemplateError};
use crate::engine::{FlowMeta, State};
use crate::manifest::validate_resources;
use crate::params::{Fault, Scope};
use crate::plan::Plan;

/// Why an attempt can never be created as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {message}")]
pub struct Refusal {
    /// Reason of the step.
    pub reason: String,
    /// A sentence.
    pub message: String,
    /// Whether the step's retry policy applies.
    pub retryable: bool,
}

impl Refusal {
    fn new(reason: &str, message: String, retryable: bool) -> Self {
        Self { reason: reason.to_owned(), message, retryable }
    }
}

impl From<Unresolved> for Refusal {
    fn from(error: Unresolved) -> Self {
        Self::new("ParameterUnresolved", error.to_string(), error.retryable)
    }
}

impl From<TemplateError> for Refusal {
    fn from(error: TemplateError) -> Self {
        match &error {
            TemplateError::Substitute(place) => Self::new(fault_reason(&place.fault), error.to_string(), false),
            TemplateError::NotAJob => Self::new("TemplateInvalid", error.to_string(), false),
        }
    }
}

impl From<ArtifactError> for Refusal {
    fn from(error: ArtifactError) -> Self {
        match &error {
            ArtifactError::Unavailable { .. } => Self::new("ArtifactUnavailable", error.to_string(), true),
            ArtifactError::Parameter { fault, .. } | ArtifactError::Store { fault, .. } => {
                Self::new(fault_reason(fault), error.to_string(), false)
            }
        }
    }
}

fn fault_reason(fault: &Fault) -> &'static str {
    match fault {
        Fault::Unresolved { .. } => "ParameterUnresolved",
        _ => "TemplateInvalid",
    }
}

/// The key of an attempt, as substrates know it.
#[must_use]
pub fn key(plan: &Plan, meta: &FlowMeta, at: Address, attempt: u32) -> AttemptKey {
    let (flow, step) = (Arc::from(meta.uid.as_str()), Arc::from(plan.name(at.step)));
    AttemptKey { flow, step, item: at.item, attempt }
}

/// The time between the request to end and the kill of an attempt: `terminationGracePeriodSeconds` of the template, else 30
/// seconds.
#[must_use]
pub fn grace(plan: &Plan, step: StepIndex) -> Duration {
    let template = plan.step(step).and_then(|step| step.template.as_ref());
    let seconds = template.and_then(|template| template.pointer("/spec/template/spec/terminationGracePeriodSeconds"));
    Duration::from_secs(seconds.and_then(Value::as_u64).unwrap_or(30))
}

/// The address of an attempt in the engine, by its key; none where it is of another flow or of no step of the plan.
#[must_use]
pub fn address(plan: &Plan, meta: &FlowMeta, key: &AttemptKey) -> Option<Address> {
    if *key.flow != *meta.uid {
        return None;
    }
    Some(Address { step: plan.index_of(&key.step)?, item: key.item })
}

/// The specification of an attempt for a substrate to start it. All parameters must be in `scope`: see [`bind`](super::bind).
///
/// # Errors
/// When its Job cannot be built or an artifact it takes is not there.
pub fn start_spec(subject: Subject<'_>, state: &State, scope: &Scope) -> Result<AttemptSpec, Refusal> {
    let mut spec = match subject.is_function() {
        true => function(subject, Some(scope)),
        false => {
            let built = subject.job(scope)?;
            quantities(&built.1)?;
            assemble(subject, built.0, built.1)
        }
    };
    if let Some(step) = subject.step() {
        spec.inputs = artifacts::deliveries(subject.plan, state, step, scope)?;
        artifacts::fill_stores(&mut spec.output_artifacts, scope)?;
    }
    Ok(spec)
}

/// Commands where placeholders stood: only what is filled in shows it.
fn quantities(job: &serde_json::Value) -> Result<(), Refusal> {
    let found = validate_resources(job);
    let first = found.iter().next();
    first.map_or(Ok(()), |wrong| {
        Err(Refusal::new("TemplateInvalid", format!("{}: {}", wrong.path, wrong.message), false))
    })
}

/// The specification of an attempt that runs already, for a substrate to watch it and collect its results. Where its Job cannot be
/// built again, because a ConfigMap is gone, it has the template with its placeholders; it is not started again.
///
/// # Errors
/// When the step has no Job at all.
pub fn adoption_spec(subject: Subject<'_>, scope: Option<&Scope>) -> Result<AttemptSpec, Refusal> {
    if subject.is_function() {
        return Ok(function(subject, scope));
    }
    let filled = scope.and_then(|scope| subject.job(scope).ok());
    let built = filled.map_or_else(|| subject.unfilled_job(), Ok)?;
    Ok(assemble(subject, built.0, built.1))
}

/// An attempt of a step without a template.
fn function(subject: Subject<'_>, scope: Option<&Scope>) -> AttemptSpec {
    let input = scope.map(Scope::plain).unwrap_or_default();
    AttemptSpec { function: Some(input), ..assemble(subject, subject.job_name(&Value::Null), Value::Null) }
}

fn assemble(subject: Subject<'_>, job_name: String, job: serde_json::Value) -> AttemptSpec {
    let (output_files, output_artifacts) = subject.step().map(artifacts::collections).unwrap_or_default();
    AttemptSpec {
        key: key(subject.plan, subject.meta, subject.at, subject.attempt),
        flow_name: subject.meta.name.clone(),
        namespace: subject.meta.namespace.clone(),
        job_name,
        template: Arc::new(job),
        function: None,
        inputs: Vec::new(),
        output_files,
        output_artifacts,
    }
}
