//! Manifests of both forms: what is accepted is accepted again after a trip through JSON and can be planned or is refused
//! with reasons; what is refused is refused at a place of the file.

use std::sync::Arc;

use orlop_dag::manifest::substrate::{Runtime, Target};
use orlop_dag::manifest::{Form, Limits, Options, read, read_object};
use orlop_dag::plan::Plan;

use super::text;

/// A file with JobFlow objects, checked as Kubernetes and as this machine would.
pub fn jobflow_yaml(bytes: &[u8]) {
    let mut local = Limits::elsewhere();
    local.image_optional = true;
    local.target = Some(Target::local(Runtime::Process));
    for limits in [Limits::kubernetes(), local] {
        manifest(bytes, &limits);
    }
}

/// A file with pipelines.
pub fn pipeline(bytes: &[u8]) {
    let mut limits = Limits::elsewhere();
    limits.image_optional = true;
    for flow in manifest(bytes, &limits) {
        assert!(flow == Form::Pipeline || flow == Form::JobFlow);
    }
}

fn manifest(bytes: &[u8], limits: &Limits) -> Vec<Form> {
    let Some(text) = text(bytes) else { return Vec::new() };
    let reading = match read("fuzz.yaml", text, &Options::new(limits.clone())) {
        Ok(reading) => reading,
        Err(report) => {
            assert!(report.violations.has_errors(), "refused without a reason");
            let lines = text.split('\n').count() + 1;
            for violation in &report.violations {
                let line = violation.at.as_ref().map_or(0, |at| at.line as usize);
                assert!(line <= lines, "line {line} of {lines}: {}", violation.message);
                assert!(!violation.message.is_empty());
            }
            assert!(report.to_string().len() > 1 && report.json().is_object());
            return Vec::new();
        }
    };
    assert!(!reading.manifests.is_empty() && !reading.warnings.violations.has_errors());
    let _: String = reading.warnings.to_string();
    for manifest in &reading.manifests {
        let written = serde_json::to_value(&manifest.flow);
        assert!(written.is_ok(), "{written:?}");
        let again = written.ok().map(|written| read_object(&written, limits).map(|(flow, _)| flow));
        if let Some(Err(violations)) = &again {
            assert!(violations.is_empty(), "accepted, refused after a trip through JSON: {violations:?}");
        }
        // Milliseconds of a pipeline's time limits are no part of the object.
        let mut flow = manifest.flow.clone();
        flow.spec.steps.iter_mut().for_each(|step| step.timeout_millis = None);
        assert_eq!(again.and_then(Result::ok), Some(flow), "changed by a trip through JSON");
        match Plan::build(Arc::new(manifest.flow.spec.clone())) {
            Ok(plan) => assert_eq!(plan.order().len(), plan.len()),
            Err(errors) => assert!(!errors.is_empty(), "no plan, and no reason"),
        }
    }
    reading.manifests.iter().map(|manifest| manifest.form).collect()
}
