//! Conversion between the objects that an API server stores and flows. Owns which members are left out on the way, and the hash that
//! tells two specs apart.

use orlop_core::name::sha256_hex;
use orlop_core::spec::flow::JobFlow;
use orlop_core::spec::status::FlowStatus;
use orlop_dag::manifest::{Limits, Violations, read_object};
use serde::Deserialize as _;
use serde_json::{Map, Value};

use crate::crd;

/// Fields of a spec that may change after the start.
const MUTABLE: [&str; 3] = ["suspend", "suspendMode", "stop"];

/// A flow that was read from an object.
#[derive(Clone, Debug)]
pub struct ParsedFlow {
    /// The flow, without its status.
    pub flow: JobFlow,
    /// Warnings of its validation.
    pub warnings: Violations,
    /// Paths of unknown members. An API server with the custom resource definition does not store them.
    pub unknown: Vec<String>,
}

/// Reads the flow of an object. Its status is ignored ([`status`] reads it), and unknown members are reported.
///
/// ```
/// use orlop_dag::manifest::Limits;
/// let object = serde_json::json!({
///     "apiVersion": "workflow.kube-zen.io/v1alpha1", "kind": "JobFlow", "metadata": {"name": "f"},
///     "spec": {"steps": [{"name": "gate", "type": "Manual"}], "stepz": []},
///     "status": "nonsense",
/// });
/// let parsed = orlop_k8s::convert::read(&object, &Limits::kubernetes()).unwrap();
/// assert_eq!((parsed.flow.spec.steps.len(), parsed.unknown), (1, vec!["spec.stepz".to_owned()]));
/// ```
///
/// # Errors
/// Everything wrong with the flow.
pub fn read(object: &Value, limits: &Limits) -> Result<ParsedFlow, Violations> {
    let mut unknown = Vec::new();
    let bare = bare(object, &mut unknown);
    let (flow, warnings) = read_object(&bare, limits)?;
    Ok(ParsedFlow { flow, warnings, unknown })
}

/// Reads the flow of an object without asking whether it keeps the rules of this version: one that has begun is not judged
/// again. None where it has not the form of a flow.
#[must_use]
pub(crate) fn read_unjudged(object: &Value) -> Option<JobFlow> {
    JobFlow::deserialize(bare(object, &mut Vec::new())).ok()
}

/// An object without status, and without members that nobody knows.
fn bare(object: &Value, unknown: &mut Vec<String>) -> Value {
    let mut bare = object.clone();
    if let Some(members) = bare.as_object_mut() {
        members.remove("status");
        if let Some(metadata) = members.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        if let Some(spec) = members.get_mut("spec") {
            prune(spec, crd::spec_schema(), "spec", unknown);
        }
    }
    bare
}

/// Takes out members that a structural schema does not declare. As deep as the schema, never as deep as the value.
fn prune(value: &mut Value, schema: &Value, path: &str, unknown: &mut Vec<String>) {
    if schema.get("x-kubernetes-preserve-unknown-fields").is_some() {
        return;
    }
    match value {
        Value::Array(items) => {
            let Some(inner) = schema.get("items") else { return };
            for (index, item) in items.iter_mut().enumerate() {
                prune(item, inner, &format!("{path}[{index}]"), unknown);
            }
        }
        Value::Object(members) => {
            let Some(known) = schema.get("properties").and_then(Value::as_object) else { return };
            let strangers: Vec<String> = members.keys().filter(|name| !known.contains_key(*name)).cloned().collect();
            for name in strangers {
                unknown.push(format!("{path}.{name}"));
                members.remove(&name);
            }
            for (name, member) in members {
                if let Some(inner) = known.get(name) {
                    prune(member, inner, &format!("{path}.{name}"), unknown);
                }
            }
        }
        _ => {}
    }
}

/// The object of a flow.
#[must_use]
pub fn write(flow: &JobFlow) -> Value {
    serde_json::to_value(flow).unwrap_or_default()
}

/// The status of an object, where it has one.
///
/// # Errors
/// When it is there and cannot be read.
pub fn status(object: &Value) -> Result<Option<FlowStatus>, String> {
    let stored = object.get("status").filter(|status| !is_empty(status));
    stored.map(|status| FlowStatus::deserialize(status).map_err(|error| error.to_string())).transpose()
}

fn is_empty(status: &Value) -> bool {
    status.is_null() || status.as_object().is_some_and(Map::is_empty)
}

/// The hash by which two specs are compared: SHA-256, in hexadecimal, of the members of `spec` in order of their names, without those
/// that may change while a flow runs.
#[must_use]
pub fn spec_hash(object: &Value) -> String {
    let mut text = String::new();
    if let Some(spec) = object.get("spec").and_then(Value::as_object) {
        let kept = spec.iter().filter(|(name, _)| !MUTABLE.contains(&name.as_str()));
        canonical_members(kept.collect(), &mut text);
    }
    sha256_hex(text.as_bytes(), 64)
}

/// JSON with sorted members. Objects from a server are at most 128 levels deep.
fn canonical(value: &Value, text: &mut String) {
    match value {
        Value::Object(members) => canonical_members(members.iter().collect(), text),
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                canonical(item, text);
            }
            text.push(']');
        }
        scalar => text.push_str(&scalar.to_string()),
    }
}

fn canonical_members(mut members: Vec<(&String, &Value)>, text: &mut String) {
    members.sort_by_key(|(name, _)| *name);
    text.push('{');
    for (index, (name, member)) in members.into_iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        text.push_str(&Value::from(name.as_str()).to_string());
        text.push(':');
        canonical(member, text);
    }
    text.push('}');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn object(spec: Value) -> Value {
        json!({"apiVersion": "workflow.kube-zen.io/v1alpha1", "kind": "JobFlow", "metadata": {"name": "f", "namespace": "n", "uid": "u",
               "resourceVersion": "5", "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [{}]}, "spec": spec})
    }

    fn step(name: &str) -> Value {
        json!({"name": name, "type": "Manual", "message": "m"})
    }

    #[test]
    fn unknown_members_are_reported_and_not_fatal() {
        let mut flow = object(json!({"steps": [step("a")], "x": 1, "executionPolicy": {"y": {}}}));
        flow["spec"]["steps"][0]["z"] = json!(null);
        let reading = read(&flow, &Limits::kubernetes()).unwrap();
        assert_eq!(reading.unknown, ["spec.x", "spec.executionPolicy.y", "spec.steps[0].z"]);
        let template = json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": {"newField": 1,
            "containers": [{"name": "main", "image": "i"}]}}}});
        let reading =
            read(&object(json!({"steps": [{"name": "a", "template": template}]})), &Limits::kubernetes()).unwrap();
        assert_eq!((reading.unknown.len(), reading.flow.spec.steps[0].template.as_ref()), (0, Some(&template)));
    }

    #[test]
    fn what_breaks_a_rule_is_refused_with_all_that_is_wrong() {
        let found = read(&object(json!({"steps": [step("a"), step("a")], "stop": "Soon"})), &Limits::kubernetes());
        assert!(found.unwrap_err().has_errors());
    }

    #[test]
    fn a_status_is_read_where_there_is_one() {
        let mut flow = object(json!({"steps": [step("a")]}));
        assert_eq!(status(&flow), Ok(None));
        flow["status"] = json!({});
        assert_eq!(status(&flow), Ok(None));
        flow["status"] = json!({"phase": "Running", "later": true});
        assert_eq!(status(&flow).unwrap().unwrap().phase.to_string(), "Running");
        flow["status"] = json!({"phase": "Walking"});
        assert!(status(&flow).is_err());
    }

    #[test]
    fn the_hash_ignores_order_and_what_may_change() {
        let hash = |spec: Value| spec_hash(&object(spec));
        let base = hash(json!({"steps": [step("a")], "suspend": true, "finally": []}));
        assert_eq!(
            base,
            hash(json!({"finally": [], "stop": "Graceful", "suspendMode": "Drain",
            "steps": [{"message": "m", "type": "Manual", "name": "a"}]}))
        );
        assert_ne!(base, hash(json!({"steps": [step("b")], "finally": []})));
        assert_eq!(base.len(), 64);
    }

    fn text() -> impl Strategy<Value = String> {
        "[a-z]{1,8}"
    }

    proptest! {
        #[test]
        fn objects_and_flows_say_the_same(
            names in prop::collection::btree_set(text(), 1..6),
            labels in prop::collection::btree_map(text(), text(), 0..3),
            (ttl, key, suspend) in (0_i32..100, prop::option::of(text()), prop::option::of(any::<bool>())),
            message in ".{0,20}",
        ) {
            let steps: Vec<Value> = names.iter().map(|name| json!({"name": name, "type": "Manual", "message": message})).collect();
            let mut given = object(json!({"steps": steps, "executionPolicy": {"ttlSecondsAfterFinished": ttl}}));
            given["metadata"].as_object_mut().unwrap().remove("managedFields");
            if !labels.is_empty() {
                given["metadata"]["labels"] = json!(labels);
            }
            if let Some(key) = key {
                given["spec"]["executionPolicy"]["concurrencyKey"] = json!(key);
            }
            if let Some(suspend) = suspend {
                given["spec"]["suspend"] = json!(suspend);
            }
            let reading = read(&given, &Limits::kubernetes()).unwrap();
            prop_assert!(reading.unknown.is_empty());
            let written = write(&reading.flow);
            prop_assert_eq!(&written, &given);
            prop_assert_eq!(read(&written, &Limits::kubernetes()).unwrap().flow, reading.flow);
        }
    }
}
