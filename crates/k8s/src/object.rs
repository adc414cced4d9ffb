//! Flows as a client reads them: metadata typed, spec and status as they are, so that one object nobody can read does not
//! stop a watch of all. Owns that form; reads no more than it must.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use orlop_core::spec::flow::{API_VERSION, GROUP, KIND};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::crd::{FLOW_VERSION, FLOWS};

/// A flow as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobFlowObject {
    /// Always that of flows; lists leave it out.
    #[serde(default = "api_version")]
    pub api_version: String,
    /// Always that of flows; lists leave it out.
    #[serde(default = "kind")]
    pub kind: String,
    /// Who it is.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What to run, whatever it holds.
    #[serde(default)]
    pub spec: Value,
    /// What has happened, whatever it holds.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub status: Value,
}

fn api_version() -> String {
    API_VERSION.to_owned()
}

fn kind() -> String {
    KIND.to_owned()
}

impl JobFlowObject {
    /// A flow of a name and a spec.
    #[must_use]
    pub fn new(name: &str, spec: Value) -> Self {
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        Self { api_version: api_version(), kind: kind(), metadata, spec, status: Value::Null }
    }

    /// The object as the rest of this crate reads it.
    #[must_use]
    pub fn to_value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

impl kube::Resource for JobFlowObject {
    type DynamicType = ();
    type Scope = kube::core::NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        KIND.into()
    }

    fn group((): &()) -> Cow<'_, str> {
        GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        FLOW_VERSION.into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        FLOWS.into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_nobody_can_run_is_read_and_written_as_it_is() {
        let object = json!({"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "f", "uid": "u"},
                            "spec": {"steps": 5}, "status": "nonsense"});
        let read: JobFlowObject = serde_json::from_value(object.clone()).unwrap();
        assert_eq!((read.metadata.name.as_deref(), read.to_value()), (Some("f"), object));
        let bare: JobFlowObject = serde_json::from_value(json!({"metadata": {"name": "f"}})).unwrap();
        assert_eq!((bare.kind.as_str(), bare.spec), (KIND, Value::Null));
        assert_eq!(JobFlowObject::new("f", json!({})).to_value()["metadata"], json!({"name": "f"}));
    }
}
