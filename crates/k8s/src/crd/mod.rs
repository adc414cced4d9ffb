//! Custom resource definitions, made from the Rust types that read the objects. Owns their names, schemas and columns;
//! applies nothing.

mod fields;
#[cfg(feature = "client")]
pub mod hourglass;
mod schema;
#[cfg(feature = "client")]
mod structural;
#[cfg(test)]
mod tests;
mod trace;

use std::sync::LazyLock;

use orlop_core::spec::flow::{GROUP, KIND};
use serde_json::{Value, json};

/// Plural of flows: their name in paths of the API.
pub const FLOWS: &str = "jobflows";
/// The version of flows that is served and stored.
pub const FLOW_VERSION: &str = "v1alpha1";

/// Why a definition cannot be made: the table of fields does not fit the types.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the schema cannot be made from its types: {0}")]
pub struct SchemaError(String);

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
/// let definition = orlop_k8s::crd::job_flow().unwrap();
/// assert_eq!(definition["metadata"]["name"], "jobflows.workflow.kube-zen.io");
/// ```
///
/// # Errors
/// When a field of the types is of a form the table of fields does not know. A test holds that there is none.
pub fn job_flow() -> Result<Value, SchemaError> {
    let made = |error: trace::TraceError| SchemaError(error.to_string());
    let mut spec = schema::schema(&schema::spec_shape().map_err(made)?);
    let mut status = schema::schema(&schema::status_shape().map_err(made)?);
    describe(&mut spec, "What to run, and how.");
    describe(&mut status, STATUS);
    let definition = Definition {
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
        spec,
        status,
    };
    Ok(definition.object())
}

/// The definitions of all kinds, by the name of their controller.
///
/// # Errors
/// As of [`job_flow`].
#[cfg(feature = "client")]
pub fn all() -> Result<[(&'static str, Value); 3], SchemaError> {
    Ok([("jobflow", job_flow()?), ("performer", hourglass::performer()), ("executor", hourglass::executor())])
}

/// The schema of the spec of flows, made once.
///
/// # Errors
/// As of [`job_flow`].
pub(crate) fn spec_schema() -> Result<&'static Value, &'static SchemaError> {
    static SCHEMA: LazyLock<Result<Value, SchemaError>> = LazyLock::new(|| {
        schema::spec_shape().map(|shape| schema::schema(&shape)).map_err(|error| SchemaError(error.to_string()))
    });
    SCHEMA.as_ref()
}

fn describe(schema: &mut Value, text: &str) {
    if let Some(members) = schema.as_object_mut() {
        members.shift_insert(0, "description".to_owned(), json!(text));
    }
}
