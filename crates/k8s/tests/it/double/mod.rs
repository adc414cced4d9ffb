//! The API server double, through the real client: what the rest of the tests relies on.

#![allow(clippy::expect_used, clippy::panic, reason = "test support outside of #[test] functions")]

mod apply;
mod faults;
mod jobs;
mod schema;
mod speed;
mod verbs;
mod watch;
mod webhooks;

use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use orlop_k8s::testing::ApiServer;
use serde_json::{Value, json};

/// Objects of any kind in the namespace `default`.
fn api(client: kube::Client, group: &str, version: &str, kind: &str, plural: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
    Api::namespaced_with(client, "default", &resource)
}

fn config_maps(client: kube::Client) -> Api<DynamicObject> {
    api(client, "", "v1", "ConfigMap", "configmaps")
}

fn widgets(client: kube::Client) -> Api<DynamicObject> {
    api(client, "example.org", "v1", "Widget", "widgets")
}

fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).expect("an object")
}

fn config_map(name: &str, value: &str) -> DynamicObject {
    object(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": value}}))
}

fn widget(name: &str, spec: Value) -> DynamicObject {
    object(json!({"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec}))
}

/// The status of a refusal: code, reason, message.
fn refusal<T: std::fmt::Debug>(result: Result<T, kube::Error>) -> (u16, String, String) {
    match result {
        Err(kube::Error::Api(status)) => (status.code, status.reason.clone(), status.message.clone()),
        other => panic!("no refusal: {other:?}"),
    }
}

/// A server with a custom resource that has about everything.
fn with_widgets() -> ApiServer {
    let server = ApiServer::new();
    server.install(&definition()).expect("the definition is right");
    server
}

pub(crate) fn definition() -> Value {
    let schema = json!({"type": "object", "required": ["spec"], "properties": {
        "spec": {"type": "object", "required": ["size"], "properties": {
            "size": {"type": "integer", "format": "int32", "minimum": 0,
                "x-kubernetes-validations": [{"rule": "self != 13", "message": "unlucky"}]},
            "mode": {"type": "string", "enum": ["Fast", "Slow"], "default": "Fast"},
            "name": {"type": "string", "maxLength": 5, "pattern": "^[a-z]+$"},
            "note": {"type": "string", "nullable": true},
            "port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "parts": {"type": "array", "maxItems": 3, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"], "properties": {
                    "name": {"type": "string"}, "count": {"type": "integer", "default": 1}, "kind": {"type": "string"}},
                    "x-kubernetes-validations": [{"rule": "self.count < 10 || has(self.kind)", "message": "many need a kind"}]}}},
            "x-kubernetes-validations": [
                {"rule": "!has(oldSelf.name) || has(self.name) && self.name == oldSelf.name", "message": "the name stays", "fieldPath": ".name"}]},
        "status": {"type": "object", "properties": {"phase": {"type": "string"}, "ready": {"type": "integer"}}}}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.org"},
        "spec": {"group": "example.org", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList", "shortNames": ["w"]},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.ready"}}}]}})
}
