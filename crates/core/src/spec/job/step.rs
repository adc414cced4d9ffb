//! A step of a flow as a job: one attempt with everything that a worker needs to run it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::SpecErrors;
use super::is_default;
use super::read::{Object, Read, deserialize_as_read, read_named};
use crate::attempt::AttemptSpec;
use crate::named::named_enum;
use crate::spec::flow::ResourceTemplates;

/// Characters of a fault that are shown: it may quote a long text.
const FAULT: usize = 300;

named_enum! {
    /// What runs the containers of steps.
    #[derive(Default)]
    pub enum StepBackend("step backend") {
        /// Containers where a step names an image, else processes.
        #[default]
        Docker = "docker",
        /// Processes, whatever image a step names.
        Process = "process",
    }
}

/// An attempt as a worker gets it. Its texts are taken as they are: `{{index}}` is no placeholder in them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StepSpec {
    /// The attempt.
    pub attempt: AttemptSpec,
    /// Claims and ConfigMaps of its flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub templates: Option<Arc<ResourceTemplates>>,
    /// What runs its containers.
    #[serde(skip_serializing_if = "is_default")]
    pub backend: StepBackend,
}

fn by_serde<'de, T: Deserialize<'de>>(value: &'de Value, path: &str, errors: &mut SpecErrors) -> Option<T> {
    let fault = |error: serde_json::Error| error.to_string().chars().take(FAULT).collect::<String>();
    T::deserialize(value).map_err(|error| errors.add(path, fault(error))).ok()
}

read_named!(StepBackend);

impl Read for AttemptSpec {
    fn read(value: &Value, path: &str, errors: &mut SpecErrors) -> Option<Self> {
        by_serde(value, path, errors)
    }
}

impl Read for Arc<ResourceTemplates> {
    fn read(value: &Value, path: &str, errors: &mut SpecErrors) -> Option<Self> {
        by_serde(value, path, errors)
    }
}

impl Read for StepSpec {
    fn read(value: &Value, path: &str, errors: &mut SpecErrors) -> Option<Self> {
        let mut object = Object::new(value, path, errors)?;
        let attempt: Option<AttemptSpec> = object.need("attempt", errors);
        let templates = object.or("templates", None, errors);
        let backend = object.or("backend", StepBackend::default(), errors);
        object.end(errors);
        Some(Self { attempt: attempt?, templates, backend })
    }
}

impl Read for Arc<StepSpec> {
    fn read(value: &Value, path: &str, errors: &mut SpecErrors) -> Option<Self> {
        StepSpec::read(value, path, errors).map(Self::new)
    }
}

deserialize_as_read!(StepSpec);

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::super::{JobSpec, SPEC_MAX};
    use super::*;
    use crate::attempt::AttemptKey;
    use crate::task::Run;

    /// A step with this script.
    pub(in super::super) fn step(script: &str) -> Arc<StepSpec> {
        let key = AttemptKey { flow: "u".into(), step: "s".into(), item: Some(3), attempt: 2 };
        let attempt = AttemptSpec {
            function: None,
            key,
            flow_name: "f".into(),
            namespace: "default".into(),
            job_name: "f-s".into(),
            template: Arc::new(json!({"spec": {"z": {}, "command": [script], "a": 0.1, "b": 1e300, "c": u64::MAX}})),
            inputs: Vec::new(),
            output_files: Vec::new(),
            output_artifacts: Vec::new(),
        };
        let config = json!({"metadata": {"name": "c"}, "data": {"k": script}});
        let templates = ResourceTemplates { config_map_templates: vec![config], ..ResourceTemplates::default() };
        Arc::new(StepSpec { attempt, templates: Some(Arc::new(templates)), backend: StepBackend::Process })
    }

    fn faults(more: Value) -> String {
        let mut value = json!({"step": serde_json::to_value(step("true")).unwrap()});
        value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        JobSpec::from_json(&value).err().map(|errors| errors.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_step_reads_back_with_the_same_hash_and_holds_no_placeholder() {
        for script in
            ["echo {{item}} {{index}} '{{{{' \"}}\"", "\0 \\u0000 \\u007b{ \u{1b} \u{7f}", "ä 漢 🦀 \u{2028} \u{feff}"]
        {
            let spec = JobSpec { step: Some(step(script)), ..JobSpec::default() };
            spec.check().unwrap();
            let again: JobSpec = serde_json::from_slice(&spec.encode()).unwrap();
            assert_eq!((&again, again.content_hash()), (&spec, spec.content_hash()), "{script:?}");
            assert_eq!(again.shared(), spec, "it is a part of what many jobs share");
            let run = serde_json::to_string(&again.run()).unwrap();
            assert_eq!(serde_json::from_str::<Run>(&run).unwrap().step, spec.step, "{script:?}");
        }
    }

    #[test]
    fn a_step_is_a_job_by_itself() {
        assert_eq!(faults(json!({})), "");
        for other in [
            json!({"command": ["true"]}),
            json!({"script": "true"}),
            json!({"env": {"A": "b"}}),
            json!({"working_dir": "x"}),
            json!({"retries": 1}),
            json!({"image": "alpine"}),
            json!({"array": {"count": 2}}),
            json!({"gang": {"size": 2}}),
        ] {
            let field = other.as_object().unwrap().keys().next().unwrap().clone();
            assert_eq!(faults(other), format!("{field}: cannot be combined with `step`; use one of the two"));
        }
    }

    #[test]
    fn names_of_a_step_lead_nowhere() {
        let spec = |change: &dyn Fn(&mut Value)| {
            let mut attempt = serde_json::to_value(&step("true").attempt).unwrap();
            change(&mut attempt);
            faults(json!({"step": {"attempt": attempt}}))
        };
        for (field, pointer) in [("key.step", "/key/step"), ("key.flow", "/key/flow"), ("flow_name", "/flow_name")] {
            for name in ["", "../x", "/x", ".x", "a/b"] {
                let found = spec(&|attempt| *attempt.pointer_mut(pointer).unwrap() = json!(name));
                assert_eq!(found, format!("step.attempt.{field}: {name:?} is not a name; use letters, digits and `-`"));
            }
        }
    }

    #[test]
    fn a_step_that_cannot_be_read_is_refused_at_its_place() {
        let fault = |step: Value| faults(json!({"step": step}));
        let attempt = serde_json::to_value(&step("true").attempt).unwrap();
        insta::assert_snapshot!(fault(json!("x")), @"step: is a text; use an object");
        insta::assert_snapshot!(fault(json!({"backend": "kube", "version": 1})), @"step.attempt: is missing; step.backend: unknown step backend `kube`, allowed are docker, process (case counts); step.version: unknown field; known fields: attempt, backend, templates");
        insta::assert_snapshot!(fault(json!({"attempt": {"key": {}}})), @"step.attempt: missing field `flow`");
        insta::assert_snapshot!(fault(json!({"attempt": attempt, "templates": {"x": []}})), @"step.templates: unknown field `x`, expected `volumeClaimTemplates` or `configMapTemplates`");
    }

    #[test]
    fn a_step_that_is_too_large_says_so() {
        let spec = JobSpec { step: Some(step(&"x".repeat(SPEC_MAX))), ..JobSpec::default() };
        insta::assert_snapshot!(spec.check().unwrap_err(), @"step: has 524685 bytes with its inputs, at most 262144 can be sent to a worker; move data into an artifact");
    }
}
