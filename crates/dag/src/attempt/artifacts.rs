//! Artifacts of an attempt: where its inputs come from and what is collected of it. Owns the reading of
//! `from`; moves no byte.

use orlop_core::attempt::{Address, ArtifactCollection, ArtifactDelivery, ArtifactSource, OutputFile};
use orlop_core::spec::artifact::{ArtifactInput, ArtifactOutput, HttpSource};
use orlop_core::spec::status::{ArtifactLocation, StepStatus};
use orlop_core::spec::step::Step;

use crate::engine::{State, step_status};
use crate::params::{Fault, Scope};
use crate::plan::Plan;

/// Why an input artifact cannot be delivered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArtifactError {
    /// The step it comes from did not store it.
    #[error("artifact `{input}`: step {step} has stored no artifact {artifact}; {phase}")]
    Unavailable {
        /// Name of the input.
        input: String,
        /// The step.
        step: String,
        /// What was looked for.
        artifact: String,
        /// How the step came out.
        phase: String,
    },
    /// A placeholder of the store of an output cannot be substituted.
    #[error("artifact `{output}`: {fault}")]
    Store {
        /// Name of the output.
        output: String,
        /// What is wrong.
        fault: Fault,
    },
    /// A placeholder of its URL or headers cannot be substituted.
    #[error("artifact `{input}`: {fault}")]
    Parameter {
        /// Name of the input.
        input: String,
        /// What is wrong.
        fault: Fault,
    },
}

/// The deliveries of a step's input artifacts. An artifact of a fan-out is delivered as a directory with one entry per
/// instance that stored it, named by its index.
///
/// # Errors
/// The first artifact that cannot be delivered.
pub fn deliveries(
    plan: &Plan,
    state: &State,
    step: &Step,
    scope: &Scope,
) -> Result<Vec<ArtifactDelivery>, ArtifactError> {
    let mut deliveries = Vec::new();
    for input in step.input_artifacts() {
        match &input.http {
            Some(http) => deliveries.push(delivery(input, "", ArtifactSource::Http(download(input, http, scope)?))),
            None => from(plan, state, input, &mut deliveries)?,
        }
    }
    Ok(deliveries)
}

fn delivery(input: &ArtifactInput, below: &str, source: ArtifactSource) -> ArtifactDelivery {
    let path = input.delivery_path();
    let path = if below.is_empty() { path } else { format!("{}/{below}", path.trim_end_matches('/')) };
    ArtifactDelivery { name: input.name.clone(), path, unpack: input.unpack.unwrap_or(true), source }
}

fn download(input: &ArtifactInput, http: &HttpSource, scope: &Scope) -> Result<HttpSource, ArtifactError> {
    let fill = |text: &str| {
        let filled = scope.fill(text).map(std::borrow::Cow::into_owned);
        filled.map_err(|fault| ArtifactError::Parameter { input: input.name.clone(), fault })
    };
    let headers = http.headers.iter().map(|(name, value)| Ok((name.clone(), fill(value)?)));
    Ok(HttpSource { url: fill(&http.url)?, headers: headers.collect::<Result<_, ArtifactError>>()? })
}

fn from(
    plan: &Plan,
    state: &State,
    input: &ArtifactInput,
    deliveries: &mut Vec<ArtifactDelivery>,
) -> Result<(), ArtifactError> {
    let Some((name, artifact)) = input.source() else { return Ok(()) };
    let unavailable = |status: Option<&StepStatus>| {
        let artifact = artifact.map_or_else(|| "at all".to_owned(), |artifact| format!("`{artifact}`"));
        let phase = match status {
            Some(status) if status.reason.is_empty() => format!("it is {}", status.phase),
            Some(status) => format!("it is {}/{}", status.phase, status.reason),
            None => "the step does not exist".to_owned(),
        };
        ArtifactError::Unavailable { input: input.name.clone(), step: name.to_owned(), artifact, phase }
    };
    let source = plan.index_of(name).and_then(|step| Some((step, plan.step(step)?)));
    let Some((index, step)) = source else { return Err(unavailable(None)) };
    let at = Address { step: index, item: None };
    let status = step_status(plan, state, at);
    let declared = match artifact {
        Some(artifact) => step.output_artifacts().iter().find(|output| output.name == artifact),
        None => step.output_artifacts().first(),
    };
    let Some(declared) = declared else { return Err(unavailable(Some(&status))) };
    let stored = |location: ArtifactLocation| ArtifactSource::Stored { location, archive: declared.archive };
    if !step.is_fan_out() {
        let Some(location) = located(&status, &declared.name) else { return Err(unavailable(Some(&status))) };
        deliveries.push(delivery(input, "", stored(location)));
        return Ok(());
    }
    let before = deliveries.len();
    let total = status.instances.map_or(0, |counts| counts.total);
    for item in 0..total {
        let instance = step_status(plan, state, Address { step: index, item: Some(item) });
        if let Some(location) = located(&instance, &declared.name) {
            deliveries.push(delivery(input, &item.to_string(), stored(location)));
        }
    }
    // A fan-out that was taken over from another flow has its instances' artifacts under names of its own.
    for (item, location) in imported(&status, declared) {
        deliveries.push(delivery(input, &item.to_string(), stored(location)));
    }
    let empty = total == 0 && status.reason == "EmptyFanOut";
    if deliveries.len() == before && !empty { Err(unavailable(Some(&status))) } else { Ok(()) }
}

fn located(status: &StepStatus, artifact: &str) -> Option<ArtifactLocation> {
    status.outputs.as_ref()?.artifact(artifact)?.location.clone()
}

/// Name under which the artifact of instance `item` is kept when a whole fan-out is taken over. No declared name has a
/// slash.
#[must_use]
pub fn imported_name(artifact: &str, item: u32) -> String {
    format!("{artifact}/{item}")
}

fn imported<'a>(
    status: &'a StepStatus,
    declared: &'a ArtifactOutput,
) -> impl Iterator<Item = (u32, ArtifactLocation)> + 'a {
    let records = status.outputs.iter().flat_map(|outputs| &outputs.artifacts);
    records.filter_map(|record| {
        let (name, item) = record.name.split_once('/')?;
        Some((item.parse().ok().filter(|_| name == declared.name)?, record.location.clone()?))
    })
}

/// The output files and artifacts to collect when an attempt of a step ends.
#[must_use]
pub fn collections(step: &Step) -> (Vec<OutputFile>, Vec<ArtifactCollection>) {
    let files = step.output_parameters().iter().filter_map(|output| {
        let path = output.value_from.path.clone()?;
        Some(OutputFile { name: output.name.clone(), path })
    });
    let artifacts = step.output_artifacts().iter().map(|output| ArtifactCollection {
        name: output.name.clone(),
        path: output.path.clone(),
        optional: output.optional == Some(true),
        archive: output.archive,
        s3: output.s3.clone(),
    });
    (files.collect(), artifacts.collect())
}

/// Substitutes the placeholders in stores of artifacts.
///
/// # Errors
/// The first artifact with a placeholder that cannot be substituted.
pub(super) fn fill_stores(artifacts: &mut [ArtifactCollection], scope: &Scope) -> Result<(), ArtifactError> {
    for artifact in artifacts {
        let Some(object) = &mut artifact.s3 else { continue };
        for text in [&mut object.bucket, &mut object.key] {
            let filled = scope.fill(text).map(std::borrow::Cow::into_owned);
            *text = filled.map_err(|fault| ArtifactError::Store { output: artifact.name.clone(), fault })?;
        }
    }
    Ok(())
}
