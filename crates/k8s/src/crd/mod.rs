//! Custom resource definitions, generated from the Rust types that read the objects. Owns their names, schemas and printer columns; sends
//! nothing to a cluster.

#[cfg(feature = "client")]
pub mod hourglass;
mod structural;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use orlop_core::spec::flow::{FlowSpec, GROUP, KIND};
use orlop_core::spec::status::FlowStatus;
use serde_json::{Value, json};

use structural::{each, structural};

/// Plural of flows: their name in paths of the API.
pub const FLOWS: &str = "jobflows";
/// The version of flows that is served and stored.
pub(crate) const FLOW_VERSION: &str = "v1alpha1";

/// What the schema of every status says of it.
const STATUS: &str = "What has happened; written by the controller only.";

/// A printer column.
fn column(name: &str, kind: &str, path: &str) -> Value {
    json!({"name": name, "type": kind, "jsonPath": path})
}

/// What differs between the definitions.
struct Definition {
    group: &'static str,
    version: &'static str,
    description: &'static str,
    kind: &'static str,
    plural: &'static str,
    singular: &'static str,
    short: &'static [&'static str],
    subresources: Value,
    columns: Value,
    spec: Value,
    status: Value,
}

impl Definition {
    /// The CustomResourceDefinition.
    fn object(self) -> Value {
        let Self { group, kind, plural, .. } = self;
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {
                    "kind": kind,
                    "listKind": format!("{kind}List"),
                    "plural": plural,
                    "singular": self.singular,
                    "shortNames": self.short,
                    "categories": ["all"],
                },
                "versions": [{
                    "name": self.version,
                    "served": true,
                    "storage": true,
                    "subresources": self.subresources,
                    "additionalPrinterColumns": self.columns,
                    "schema": {"openAPIV3Schema": {
                        "description": self.description,
                        "type": "object",
                        "required": ["spec"],
                        "properties": {
                            "apiVersion": {"type": "string"},
                            "kind": {"type": "string"},
                            "metadata": {"type": "object"},
                            "spec": self.spec,
                            "status": self.status,
                        },
                    }},
                }],
            },
        })
    }
}

/// The CustomResourceDefinition of flows.
///
/// ```
/// let definition = orlop_k8s::crd::job_flow();
/// assert_eq!(definition["metadata"]["name"], "jobflows.workflow.kube-zen.io");
/// ```
#[must_use]
pub fn job_flow() -> Value {
    Definition {
        group: GROUP,
        version: FLOW_VERSION,
        description: "A directed graph of jobs and its single run.",
        kind: KIND,
        plural: FLOWS,
        singular: "jobflow",
        short: &["jf", "flow"],
        subresources: json!({"status": {}}),
        columns: json!([
            column("Phase", "string", ".status.phase"),
            column("Progress", "string", ".status.progress.summary"),
            column("Age", "date", ".metadata.creationTimestamp"),
            column("Message", "string", ".status.message"),
        ]),
        spec: described(spec_schema().clone(), "What to run, and how."),
        status: described(flow_status(), STATUS),
    }
    .object()
}

/// The definitions of all kinds, by the name of their controller.
#[cfg(feature = "client")]
#[must_use]
pub fn all() -> [(&'static str, Value); 3] {
    [("jobflow", job_flow()), ("performer", hourglass::performer()), ("executor", hourglass::executor())]
}

/// The schema of the spec of flows, made once.
pub(crate) fn spec_schema() -> &'static Value {
    static SCHEMA: LazyLock<Value> = LazyLock::new(structural::<FlowSpec>);
    &SCHEMA
}

/// The schema of the status of flows: the server fills in nothing, and the outputs of a step admit all that its spec declares
/// besides what is recorded.
fn flow_status() -> Value {
    let mut status = structural::<FlowStatus>();
    each(&mut status, |members| drop(members.remove("default")));
    let outputs = "/properties/steps/items/properties/outputs";
    if let (Some(recorded), Some(declared)) = (status.pointer_mut(outputs), spec_schema().pointer(outputs)) {
        admit(recorded, declared);
    }
    status
}

/// Adds the members of `more` that `schema` lacks, none of them required.
fn admit(schema: &mut Value, more: &Value) {
    if let (Some(items), Some(more)) = (schema.get_mut("items"), more.get("items")) {
        return admit(items, more);
    }
    let own = schema.get_mut("properties").and_then(Value::as_object_mut);
    if let (Some(own), Some(more)) = (own, more.get("properties").and_then(Value::as_object)) {
        for (name, extra) in more {
            match own.get_mut(name) {
                Some(member) => admit(member, extra),
                None => drop(own.insert(name.clone(), extra.clone())),
            }
        }
    }
}

fn described(mut schema: Value, text: &str) -> Value {
    schema["description"] = json!(text);
    schema
}
