//! The definitions of `Performer` and `HourglassExecutor`. Owns names, columns,
//! subresources and rules; fields come from the types in `hourglass::spec`.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use super::structural::{each, structural};
use super::{Definition, STATUS, column, described};
use crate::hourglass::spec::{ExecutorSpec, ExecutorStatus, PerformerSpec, PerformerStatus};
use crate::hourglass::{EXECUTORS, GROUP, PERFORMERS, VERSION};

/// Most items or members where a type does not say it.
const MANY: u64 = 256;
/// Most characters where a type does not say it.
const LONG: u64 = 4096;
/// `[scheme://][user@]host[:port][/path]` as an address may be written: without white space, with a host and a port in digits.
pub(crate) const ENDPOINT: &str =
    r"^([A-Za-z][A-Za-z0-9+.-]*://)?([^\s/@]+@)?(\[[0-9A-Fa-f:.]+\]|[^\s/:@?#\[\]]+)(:[0-9]{1,5})?([/?#]\S*)?$";

/// A rule in CEL with what is said where it does not hold.
fn rule(rule: &str, message: &str) -> Value {
    json!({"rule": rule, "message": message})
}

pub(crate) fn one_node_affinity() -> Value {
    json!([rule(
        "!(has(self.nodeAffinity) && has(self.affinity) && has(self.affinity.nodeAffinity))",
        "nodeAffinity is the short form of affinity.nodeAffinity; set one of them",
    )])
}

pub(crate) fn one_source() -> Value {
    json!([rule(
        "has(self.secretKeyRef) != has(self.configMapKeyRef)",
        "valueFrom needs exactly one of secretKeyRef and configMapKeyRef",
    )])
}

pub(crate) fn one_key_source() -> Value {
    json!([rule(
        "has(self.operatorKeys) != has(self.operatorKeysSecretRef)",
        "config needs exactly one of operatorKeys and operatorKeysSecretRef",
    )])
}

pub(crate) fn environment(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 256,
        "additionalProperties": {"type": "string", "maxLength": 32768},
        "x-kubernetes-validations": [rule(
            "self.all(name, name.matches('^[A-Za-z_.-][A-Za-z0-9_.-]*$'))",
            "names of environment variables consist of letters, digits, `_`, `.` and `-` and do not begin with a digit",
        )],
    })
}

pub(crate) fn operator_keys(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 16,
        "additionalProperties": {"type": "string", "maxLength": 16384},
        "x-kubernetes-validations": [rule(
            "self.all(name, name.matches('^[A-Za-z0-9._-]{1,200}$'))",
            "names of operator keys consist of letters, digits, `.`, `_` and `-`, 200 at most",
        )],
    })
}

/// What `HardwareInput` reads.
pub(crate) fn hardware(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "properties": {
            "gpuType": {"description": "A GPU product in any usual spelling, such as nvidia-a100, a100-80gb, H100:8 or mig-1g.5gb; a model that is in no table by its exact name.", "type": "string", "maxLength": 128},
            "gpuCount": {"description": "How many devices.", "type": "integer", "format": "int32", "minimum": 0, "maximum": 1024},
            "gpuMemoryGiB": {"description": "Nominal memory of one device in GiB, at least this.", "type": "integer", "format": "int32", "minimum": 1},
            "nvlink": {"description": "All devices are connected by NVLink or the vendor's equal.", "type": "boolean"},
            "teeRequired": {"description": "Whether a trusted execution environment is required, or only better.", "type": "boolean"},
            "teeType": {"description": "Which one: sgx, tdx, sev-snp, se or cca.", "type": "string", "maxLength": 128},
            "cpuArch": {"description": "CPU architecture.", "type": "string", "enum": ["amd64", "arm64", "ppc64le", "s390x", "riscv64"]},
            "allocation": {"description": "How devices are asked for.", "type": "string", "enum": ["devicePlugin", "dra", "auto"], "default": "devicePlugin"},
            "customLabels": {"description": "Labels the node must have, with exactly these values.", "type": "object", "maxProperties": 64, "additionalProperties": {"type": "string", "maxLength": 63}},
        },
        "x-kubernetes-validations": [
            rule("!has(self.gpuType) || !has(self.gpuCount) || self.gpuCount > 0", "gpuCount is 0 although gpuType names a device; leave gpuType out or ask for at least 1"),
            rule("!has(self.teeRequired) || !self.teeRequired || has(self.teeType)", "teeRequired needs teeType"),
            rule(
                "!has(self.teeType) || self.teeType.lowerAscii().matches('^((intel|amd|ibm|arm)[-_])?(sgx[12]?|tdx|sev|sev[-_]?es|snp|sev[-_]?snp|se|cca)$')",
                "teeType must be one of sgx, tdx, sev, sev-es, sev-snp, se and cca",
            ),
        ],
    })
}

/// A structural schema with a bound for every list, map and text, so that rules in CEL stay within their budget.
fn bounded(mut schema: Value) -> Value {
    each(&mut schema, bound);
    schema
}

fn bound(members: &mut Map<String, Value>) {
    let most = match members.get("type").and_then(Value::as_str) {
        Some("array") => Some(("maxItems", MANY)),
        Some("object") if members.contains_key("additionalProperties") => Some(("maxProperties", MANY)),
        Some("string") if !members.contains_key("enum") && !members.contains_key("format") => Some(("maxLength", LONG)),
        _ => None,
    };
    if let Some((name, most)) = most {
        members.entry(name).or_insert_with(|| json!(most));
    }
}

fn wide(mut column: Value) -> Value {
    column["priority"] = json!(1);
    column
}

/// The CustomResourceDefinition of performers.
///
/// ```
/// assert_eq!(orlop_k8s::crd::hourglass::performer()["metadata"]["name"], "performers.hourglass.eigenlayer.io");
/// ```
#[must_use]
pub fn performer() -> Value {
    Definition {
        group: GROUP,
        version: VERSION,
        description: "A gRPC server that executes tasks for a service, on the hardware it needs.",
        kind: "Performer",
        plural: PERFORMERS,
        singular: "performer",
        short: &["perf"],
        subresources: json!({"status": {}}),
        columns: json!([
            column("AVS", "string", ".spec.avsAddress"),
            column("Image", "string", ".spec.image"),
            column("Version", "string", ".spec.version"),
            column("Phase", "string", ".status.phase"),
            column("Endpoint", "string", ".status.grpcEndpoint"),
            column("Age", "date", ".metadata.creationTimestamp"),
            wide(column("State", "string", ".status.state")),
            wide(column("Ready", "boolean", ".status.ready")),
            wide(column("Node", "string", ".status.nodeName")),
        ]),
        spec: described(bounded(structural::<PerformerSpec>()), "The desired state."),
        status: described(bounded(structural::<PerformerStatus>()), STATUS),
    }
    .object()
}

/// The CustomResourceDefinition of executors.
///
/// ```
/// let definition = orlop_k8s::crd::hourglass::executor();
/// assert_eq!(definition["spec"]["versions"][0]["subresources"]["scale"]["labelSelectorPath"], ".status.selector");
/// ```
#[must_use]
pub fn executor() -> Value {
    Definition {
        group: GROUP,
        version: VERSION,
        description: "Takes tasks from an aggregator, watches chains and calls performers.",
        kind: "HourglassExecutor",
        plural: EXECUTORS,
        singular: "hourglassexecutor",
        short: &["hgx"],
        subresources: json!({"status": {}, "scale": {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        }}),
        columns: json!([
            column("Image", "string", ".spec.image"),
            column("Replicas", "integer", ".spec.replicas"),
            column("Ready", "integer", ".status.readyReplicas"),
            column("Phase", "string", ".status.phase"),
            column("Age", "date", ".metadata.creationTimestamp"),
            wide(column("State", "string", ".status.state")),
            wide(column("Updated", "integer", ".status.updatedReplicas")),
        ]),
        spec: described(bounded(structural::<ExecutorSpec>()), "The desired state."),
        status: described(bounded(structural::<ExecutorStatus>()), STATUS),
    }
    .object()
}

#[cfg(test)]
mod tests;
