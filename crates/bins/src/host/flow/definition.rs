//! Definitions of flows as text, in both forms: read, checked and planned.

use std::sync::Arc;

use orlop_dag::manifest::{Form, Limits, Manifest, Note, Options, Report, Severity, TextLimits, Violations, read};
use orlop_dag::plan::{Plan, PlanError};

/// A flow that was read, and its plan.
pub struct Definition {
    /// The flow as it was written.
    pub manifest: Manifest,
    /// Its plan.
    pub plan: Plan,
}

/// Reads all flows of a text, planned; warnings are in the report.
///
/// # Errors
/// Everything wrong with it.
pub fn definitions(
    name: &str,
    text: &str,
    limits: Limits,
    within: TextLimits,
) -> Result<(Vec<Definition>, Report), Report> {
    let mut options = Options::new(limits);
    options.text = within;
    let reading = read(name, Arc::<str>::from(text), &options)?;
    let mut found = Violations::new();
    let mut loaded = Vec::new();
    for manifest in reading.manifests {
        match Plan::build(Arc::new(manifest.flow.spec.clone())) {
            Ok(plan) => loaded.push(Definition { manifest, plan }),
            Err(errors) => found.append(violations(&manifest, &errors)),
        }
    }
    if found.has_errors() {
        found.append(reading.warnings.violations);
        found.sort_by_place();
        return Err(Report::new(found));
    }
    Ok((loaded, reading.warnings))
}

fn violations(manifest: &Manifest, errors: &[PlanError]) -> Violations {
    let mut found = Violations::new();
    for error in errors {
        let path = || error.path.parse().unwrap_or_default();
        found.add_at((Severity::Error, error.code), path, || Note::new(error.message.clone(), error.help.clone()));
    }
    manifest.place(&mut found);
    found
}

/// Name of the flow: as given, as written, or made where the object asks for that.
#[must_use]
pub fn flow_name(manifest: &Manifest, given: Option<&str>, uid: &str) -> String {
    if let Some(name) = given {
        return name.to_owned();
    }
    let metadata = &manifest.flow.metadata;
    let prefix = metadata.generate_name.as_deref().unwrap_or_default();
    if metadata.name.is_empty() || manifest.form == Form::Pipeline && !prefix.is_empty() {
        let uid8: String = uid.chars().take(8).collect();
        return format!("{prefix}{uid8}");
    }
    metadata.name.clone()
}
