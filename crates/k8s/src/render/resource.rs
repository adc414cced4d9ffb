//! PersistentVolumeClaims and ConfigMaps of a flow, and the ConfigMaps of a large status. Owns their form.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use orlop_core::ports::substrate::FlowOwner;
use orlop_core::spec::flow::template_name;
use orlop_dag::attempt::resource_name;
use serde_json::{Map, Value, json};

use super::{MANAGED_BY, object, own};
use crate::api::Kind;
use crate::status::RecordChunk;

/// The claim of a template. None where the template has no name, which validation refuses.
#[must_use]
pub fn claim(template: &Value, owner: &FlowOwner) -> Option<Value> {
    templated(template, owner, Kind::Claim)
}

/// The ConfigMap of a template. None as of [`claim`].
#[must_use]
pub fn config_map(template: &Value, owner: &FlowOwner) -> Option<Value> {
    templated(template, owner, Kind::ConfigMap)
}

fn templated(template: &Value, owner: &FlowOwner, kind: Kind) -> Option<Value> {
    let name = resource_name(&owner.name, template_name(template)?);
    let mut members = template.as_object()?.clone();
    members.remove("status");
    finish(members, owner, kind, &name)
}

/// The ConfigMap of a piece of a flow's records.
#[must_use]
pub fn state(piece: &RecordChunk, owner: &FlowOwner) -> Option<Value> {
    let mut members = Map::new();
    members.insert("binaryData".to_owned(), piece.binary_data());
    members.insert("immutable".to_owned(), json!(true));
    finish(members, owner, Kind::ConfigMap, &piece.name)
}

/// Where the ConfigMap that keeps values of parameters has them.
const PARAMETERS: &str = "parameters.json";

/// The ConfigMap that keeps the values of parameters with which a flow began.
pub(crate) fn parameters(name: &str, values: &BTreeMap<String, String>, owner: &FlowOwner) -> Option<Value> {
    let mut members = Map::new();
    members.insert("data".to_owned(), json!({PARAMETERS: json!(values).to_string()}));
    members.insert("immutable".to_owned(), json!(true));
    finish(members, owner, Kind::ConfigMap, name)
}

/// What it keeps; none where it is not as it was written.
pub(crate) fn kept_parameters(map: &Value) -> Option<BTreeMap<String, String>> {
    serde_json::from_str(map.get("data")?.get(PARAMETERS)?.as_str()?).ok()
}

/// Label of a ConfigMap that keeps artifacts, and its value.
const KEEPS: (&str, &str) = ("workflow.kube-zen.io/keeps", "artifacts");

/// The ConfigMap that keeps a small artifact of a flow.
pub(crate) fn artifact(name: &str, key: &str, content: &[u8], owner: &FlowOwner) -> Option<Value> {
    let mut members = Map::new();
    members.insert("metadata".to_owned(), json!({"labels": {KEEPS.0: KEEPS.1}}));
    members.insert("binaryData".to_owned(), json!({key: STANDARD.encode(content)}));
    finish(members, owner, Kind::ConfigMap, name)
}

/// Whether a ConfigMap is one that keeps artifacts: others are never written to.
pub(crate) fn keeps_artifacts(map: &Value) -> bool {
    map.pointer("/metadata/labels").and_then(|labels| labels.get(KEEPS.0)).and_then(Value::as_str) == Some(KEEPS.1)
}

fn finish(mut members: Map<String, Value>, owner: &FlowOwner, kind: Kind, name: &str) -> Option<Value> {
    members.insert("apiVersion".to_owned(), json!(kind.api_version()));
    members.insert("kind".to_owned(), json!(kind.name()));
    let metadata = object(&mut members, "metadata")?;
    own(metadata, owner, name);
    if let Some(labels) = object(metadata, "labels") {
        labels.insert(MANAGED_BY.0.to_owned(), json!(MANAGED_BY.1));
    }
    Some(Value::Object(members))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner() -> FlowOwner {
        FlowOwner { uid: "u1".into(), name: "etl".into(), namespace: "default".into() }
    }

    #[test]
    fn templates_become_owned_objects_of_derived_names() {
        let template = json!({"metadata": {"name": "data", "labels": {"a": "b"}, "uid": "x"}, "spec": {"accessModes": ["ReadWriteOnce"]}, "status": {}});
        insta::assert_snapshot!(claim(&template, &owner()).unwrap(), @r#"{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"labels":{"a":"b","workflow.kube-zen.io/managed-by":"zen-flow"},"name":"etl-data","namespace":"default","ownerReferences":[{"apiVersion":"workflow.kube-zen.io/v1alpha1","blockOwnerDeletion":true,"controller":true,"kind":"JobFlow","name":"etl","uid":"u1"}]},"spec":{"accessModes":["ReadWriteOnce"]}}"#);
        let template = json!({"metadata": {"name": "settings"}, "data": {"k": "v"}});
        insta::assert_snapshot!(config_map(&template, &owner()).unwrap(), @r#"{"apiVersion":"v1","data":{"k":"v"},"kind":"ConfigMap","metadata":{"labels":{"workflow.kube-zen.io/managed-by":"zen-flow"},"name":"etl-settings","namespace":"default","ownerReferences":[{"apiVersion":"workflow.kube-zen.io/v1alpha1","blockOwnerDeletion":true,"controller":true,"kind":"JobFlow","name":"etl","uid":"u1"}]}}"#);
        assert_eq!(config_map(&json!({"data": {}}), &owner()), None);
    }

    #[test]
    fn pieces_of_a_status_are_owned_and_never_change() {
        let piece = RecordChunk { name: "etl-state-0123456789abcdef".into(), bytes: b"abc".to_vec() };
        let object = state(&piece, &owner()).unwrap();
        assert_eq!((&object["immutable"], &object["metadata"]["name"]), (&json!(true), &json!(piece.name)));
        assert_eq!(object["binaryData"]["records"], "YWJj");
        assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], "u1");
    }
}
