//! Where declared parameters take their values from. Owns the check that there is exactly one
//! source and its parsed form; never resolves it.

use orlop_core::spec::flow::FlowParameter;
use orlop_core::spec::meta::KeyRef;
use orlop_core::spec::step::{FlowFact, InputParameter, OutputParameter};

use super::path::{JsonPathRef, Path, PathError};

/// The warning about an input path that names no step.
pub const NO_STEP_WARNING: &str =
    "the path names no step, so the step will fail with ParameterUnresolved; write `<step>:$.path`";

/// The source of an input parameter of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputSource<'p> {
    /// A text, which may be empty.
    Value(&'p str),
    /// The document of an earlier step; without a step it is never resolved ([`NO_STEP_WARNING`]).
    Path(JsonPathRef),
    /// A key of a ConfigMap.
    ConfigMap(&'p KeyRef),
    /// A key of a Secret.
    Secret(&'p KeyRef),
    /// A fact of the flow itself.
    Flow(FlowFact),
}

/// The source of a parameter of the flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowSource<'p> {
    /// Given at submission.
    Submission,
    /// A text, which may be empty.
    Value(&'p str),
    /// A key of a ConfigMap.
    ConfigMap(&'p KeyRef),
    /// A key of a Secret.
    Secret(&'p KeyRef),
}

/// The source of an output parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputSource<'p> {
    /// The document of the own attempt.
    Path(Path),
    /// A file the step writes.
    File(&'p str),
}

/// Why a parameter has no usable source. Members are named relative to the parameter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SourceFault {
    /// Neither value nor valueFrom.
    #[error("the parameter has no value; give `value` or `valueFrom`")]
    None,
    /// Both value and valueFrom.
    #[error("the parameter has both `value` and `valueFrom`; keep one")]
    Both,
    /// No member or several in valueFrom.
    #[error("`valueFrom` has {found} sources; give exactly one of {allowed}")]
    Sources {
        /// Members present.
        found: usize,
        /// Members there are.
        allowed: &'static str,
    },
    /// A reference without name or key.
    #[error("`valueFrom.{member}` lacks `name` or `key`; give both")]
    EmptyRef {
        /// The member.
        member: &'static str,
    },
    /// A path that does not parse.
    #[error("`valueFrom.jsonPath`: {0}")]
    Path(#[from] PathError),
    /// An output path into another step.
    #[error("`valueFrom.jsonPath` of an output reads the step's own document; remove `{0}:`")]
    ForeignStep(String),
}

/// The source of an input parameter.
///
/// # Errors
/// When there is not exactly one, or it cannot be used.
pub fn input_source(parameter: &InputParameter) -> Result<InputSource<'_>, SourceFault> {
    let from = match (&parameter.value, &parameter.value_from) {
        (Some(text), None) => return Ok(InputSource::Value(text)),
        (None, None) => return Err(SourceFault::None),
        (Some(_), Some(_)) => return Err(SourceFault::Both),
        (None, Some(from)) => from,
    };
    match (&from.json_path, &from.config_map_key_ref, &from.secret_key_ref, from.flow) {
        (Some(path), None, None, None) => Ok(InputSource::Path(JsonPathRef::parse(path)?)),
        (None, Some(key_ref), None, None) => complete(key_ref, "configMapKeyRef").map(InputSource::ConfigMap),
        (None, None, Some(key_ref), None) => complete(key_ref, "secretKeyRef").map(InputSource::Secret),
        (None, None, None, Some(fact)) => Ok(InputSource::Flow(fact)),
        (path, config_map, secret, flow) => Err(SourceFault::Sources {
            found: [path.is_some(), config_map.is_some(), secret.is_some(), flow.is_some()]
                .into_iter()
                .map(usize::from)
                .sum(),
            allowed: "jsonPath, configMapKeyRef, secretKeyRef and flow",
        }),
    }
}

/// The source of a flow parameter (neither value nor valueFrom means submission).
///
/// # Errors
/// When there are several, or one cannot be used.
pub fn flow_source(parameter: &FlowParameter) -> Result<FlowSource<'_>, SourceFault> {
    let from = match (&parameter.value, &parameter.value_from) {
        (Some(text), None) => return Ok(FlowSource::Value(text)),
        (None, None) => return Ok(FlowSource::Submission),
        (Some(_), Some(_)) => return Err(SourceFault::Both),
        (None, Some(from)) => from,
    };
    match (&from.config_map_key_ref, &from.secret_key_ref) {
        (Some(key_ref), None) => complete(key_ref, "configMapKeyRef").map(FlowSource::ConfigMap),
        (None, Some(key_ref)) => complete(key_ref, "secretKeyRef").map(FlowSource::Secret),
        (config_map, secret) => Err(SourceFault::Sources {
            found: usize::from(config_map.is_some()) + usize::from(secret.is_some()),
            allowed: "configMapKeyRef and secretKeyRef",
        }),
    }
}

/// The source of an output parameter. Whether a file's path is usable is not asked here.
///
/// # Errors
/// When there is not exactly one, or it cannot be used.
pub fn output_source(parameter: &OutputParameter) -> Result<OutputSource<'_>, SourceFault> {
    match (&parameter.value_from.json_path, &parameter.value_from.path) {
        (Some(path), None) => match JsonPathRef::parse(path)? {
            JsonPathRef { step: None, path } => Ok(OutputSource::Path(path)),
            JsonPathRef { step: Some(step), .. } => Err(SourceFault::ForeignStep(step.to_string())),
        },
        (None, Some(file)) => Ok(OutputSource::File(file)),
        (path, file) => Err(SourceFault::Sources {
            found: usize::from(path.is_some()) + usize::from(file.is_some()),
            allowed: "jsonPath and path",
        }),
    }
}

fn complete<'p>(key_ref: &'p KeyRef, member: &'static str) -> Result<&'p KeyRef, SourceFault> {
    if key_ref.name.is_empty() || key_ref.key.is_empty() { Err(SourceFault::EmptyRef { member }) } else { Ok(key_ref) }
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    fn read<T: DeserializeOwned>(mut parameter: Value) -> T {
        parameter["name"] = json!("p");
        serde_json::from_value(parameter).unwrap()
    }

    fn input_fault(parameter: Value) -> String {
        input_source(&read(parameter)).unwrap_err().to_string()
    }

    #[test]
    fn an_input_has_exactly_one_source() {
        let key_ref = json!({"name": "n", "key": "k"});
        assert_eq!(input_source(&read(json!({"value": ""}))), Ok(InputSource::Value("")));
        let from = |member: &str, source: Value| read::<InputParameter>(json!({"valueFrom": {member: source}}));
        assert!(
            matches!(input_source(&from("configMapKeyRef", key_ref.clone())), Ok(InputSource::ConfigMap(r)) if r.key == "k")
        );
        assert!(
            matches!(input_source(&from("secretKeyRef", key_ref.clone())), Ok(InputSource::Secret(r)) if r.name == "n")
        );
        insta::assert_snapshot!(input_fault(json!({})), @"the parameter has no value; give `value` or `valueFrom`");
        insta::assert_snapshot!(input_fault(json!({"value": "", "valueFrom": {}})), @"the parameter has both `value` and `valueFrom`; keep one");
        insta::assert_snapshot!(input_fault(json!({"valueFrom": {}})), @"`valueFrom` has 0 sources; give exactly one of jsonPath, configMapKeyRef, secretKeyRef and flow");
        insta::assert_snapshot!(input_fault(json!({"valueFrom": {"jsonPath": "$.a", "secretKeyRef": key_ref}})), @"`valueFrom` has 2 sources; give exactly one of jsonPath, configMapKeyRef, secretKeyRef and flow");
        insta::assert_snapshot!(input_fault(json!({"valueFrom": {"secretKeyRef": {"name": "", "key": "k"}}})), @"`valueFrom.secretKeyRef` lacks `name` or `key`; give both");
        insta::assert_snapshot!(input_fault(json!({"valueFrom": {"configMapKeyRef": {"name": "n", "key": ""}}})), @"`valueFrom.configMapKeyRef` lacks `name` or `key`; give both");
    }

    #[test]
    fn a_flow_parameter_may_come_at_submission() {
        let key_ref = json!({"name": "n", "key": "k"});
        let source = |parameter: Value| {
            flow_source(&read(parameter)).map(|source| format!("{source:?}")).map_err(|fault| fault.to_string())
        };
        assert_eq!(source(json!({})).unwrap(), "Submission");
        assert_eq!(source(json!({"value": ""})).unwrap(), "Value(\"\")");
        assert!(source(json!({"valueFrom": {"configMapKeyRef": key_ref}})).unwrap().starts_with("ConfigMap"));
        assert!(source(json!({"valueFrom": {"secretKeyRef": key_ref}})).unwrap().starts_with("Secret"));
        insta::assert_snapshot!(source(json!({"value": "a", "valueFrom": {"secretKeyRef": key_ref}})).unwrap_err(), @"the parameter has both `value` and `valueFrom`; keep one");
        insta::assert_snapshot!(source(json!({"valueFrom": {}})).unwrap_err(), @"`valueFrom` has 0 sources; give exactly one of configMapKeyRef and secretKeyRef");
        insta::assert_snapshot!(source(json!({"valueFrom": {"secretKeyRef": key_ref, "configMapKeyRef": key_ref}})).unwrap_err(), @"`valueFrom` has 2 sources; give exactly one of configMapKeyRef and secretKeyRef");
    }

    #[test]
    fn input_paths_parse_and_may_lack_a_step() {
        let source = |path: &str| read::<InputParameter>(json!({"valueFrom": {"jsonPath": path}}));
        let with_step = source("build:$.outputs.x");
        assert!(
            matches!(input_source(&with_step), Ok(InputSource::Path(r)) if r.step.as_ref().is_some_and(|s| *s == "build"))
        );
        let without = source("$.outputs.x");
        assert!(matches!(input_source(&without), Ok(InputSource::Path(r)) if r.step.is_none()));
        insta::assert_snapshot!(input_fault(json!({"valueFrom": {"jsonPath": ""}})), @"`valueFrom.jsonPath`: the path is empty; write one like `$.succeeded` or `build:$.outputs.digest`");
        insta::assert_snapshot!(input_fault(json!({"valueFrom": {"jsonPath": "outputs.x"}})), @"`valueFrom.jsonPath`: `outputs.x` does not start with `$`; write `$.member`, or `<step>:$.member` to read another step");
        assert!(NO_STEP_WARNING.contains("ParameterUnresolved"));
    }

    #[test]
    fn an_output_reads_its_own_document_or_a_file() {
        let source = |from: Value| {
            output_source(&read(json!({"valueFrom": from}))).map(|s| format!("{s:?}")).map_err(|f| f.to_string())
        };
        assert!(source(json!({"jsonPath": "$.termination.json.loss"})).unwrap().starts_with("Path("));
        assert_eq!(source(json!({"path": "/out"})).unwrap(), "File(\"/out\")");
        insta::assert_snapshot!(source(json!({"jsonPath": "other:$.outputs.x"})).unwrap_err(), @"`valueFrom.jsonPath` of an output reads the step's own document; remove `other:`");
        insta::assert_snapshot!(source(json!({})).unwrap_err(), @"`valueFrom` has 0 sources; give exactly one of jsonPath and path");
        insta::assert_snapshot!(source(json!({"jsonPath": "$.a", "path": "/a"})).unwrap_err(), @"`valueFrom` has 2 sources; give exactly one of jsonPath and path");
    }
}
