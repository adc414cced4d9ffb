//! The definition of flows against the contract, the types and the API's own types.

use std::collections::BTreeSet;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use orlop_core::machine::Named;
use orlop_core::machine::flow::FlowPhase;
use orlop_core::machine::step::StepPhase;
use orlop_core::spec::flow::FlowSpec;
use orlop_core::spec::status::FlowStatus;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

fn definition() -> Value {
    job_flow()
}

fn root() -> Value {
    definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

/// The schema at a path of members; lists are passed through.
fn at(path: &str) -> Value {
    path.split('.').fold(root(), |schema, name| {
        let schema = if schema["type"] == "array" { schema["items"].clone() } else { schema };
        schema["properties"][name].clone()
    })
}

/// Keywords of structural schemas that every definition of ours may use.
pub(super) const KEYWORDS: [&str; 19] = [
    "type",
    "description",
    "properties",
    "required",
    "items",
    "additionalProperties",
    "enum",
    "format",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
    "default",
    "x-kubernetes-validations",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
];

/// Every node of a schema with its path.
pub(super) fn nodes(schema: &Value, path: &str, found: &mut Vec<(String, Value)>) {
    found.push((path.to_owned(), schema.clone()));
    for (name, member) in schema["properties"].as_object().into_iter().flatten() {
        nodes(member, &format!("{path}.{name}"), found);
    }
    for inner in ["items", "additionalProperties"] {
        if schema[inner].is_object() {
            nodes(&schema[inner], &format!("{path}[]"), found);
        }
    }
}

fn all_nodes() -> Vec<(String, Value)> {
    let mut found = Vec::new();
    nodes(&root(), "", &mut found);
    found
}

#[test]
fn names_columns_and_subresource_are_those_of_the_contract() {
    let spec = definition()["spec"].clone();
    assert_eq!(definition()["metadata"]["name"], "jobflows.workflow.kube-zen.io");
    assert_eq!((&spec["group"], &spec["scope"]), (&json!("workflow.kube-zen.io"), &json!("Namespaced")));
    insta::assert_snapshot!(spec["names"], @r#"{"categories":["all"],"kind":"JobFlow","listKind":"JobFlowList","plural":"jobflows","shortNames":["jf","flow"],"singular":"jobflow"}"#);
    let version = &spec["versions"][0];
    assert_eq!(spec["versions"].as_array().unwrap().len(), 1);
    assert_eq!((&version["served"], &version["storage"]), (&json!(true), &json!(true)));
    assert_eq!((&version["name"], &version["subresources"]), (&json!("v1alpha1"), &json!({"status": {}})));
    let columns = version["additionalPrinterColumns"].as_array().unwrap().iter();
    let columns: Vec<String> = columns.map(|c| format!("{} {} {}", c["name"], c["type"], c["jsonPath"])).collect();
    insta::assert_snapshot!(columns.join("\n"), @r#"
    "Phase" "string" ".status.phase"
    "Progress" "string" ".status.progress.summary"
    "Age" "date" ".metadata.creationTimestamp"
    "Message" "string" ".status.message"
    "#);
}

/// The API's own type reads every member: no keyword is misspelled or at the wrong place.
#[test]
fn the_api_reads_all_of_the_definition() {
    let read: CustomResourceDefinition = serde_json::from_value(definition()).unwrap();
    let mut written = serde_json::to_value(read).unwrap();
    let names = |value: &Value| -> BTreeSet<(String, usize)> {
        let mut found = Vec::new();
        nodes(value, "", &mut found);
        found.into_iter().map(|(path, node)| (path, node.as_object().map_or(0, serde_json::Map::len))).collect()
    };
    let schema = written["spec"]["versions"][0]["schema"]["openAPIV3Schema"].take();
    let (read, made) = (names(&schema), names(&root()));
    assert_eq!(made.difference(&read).collect::<Vec<_>>(), Vec::<&(String, usize)>::new());
}

/// Rules of structural schemas: a type at every node that is not wholly open, nothing but known keywords, keys of list-maps
/// required.
#[test]
fn the_schema_is_structural() {
    for (path, node) in all_nodes() {
        let open = node["x-kubernetes-preserve-unknown-fields"] == true;
        assert!(open || node["type"].is_string(), "{path} has no type");
        assert!(node["properties"].is_null() || node["additionalProperties"].is_null(), "{path}");
        let words = node.as_object().unwrap().keys().filter(|word| !KEYWORDS.contains(&word.as_str()));
        assert_eq!(words.collect::<Vec<_>>(), Vec::<&String>::new(), "{path}");
        for key in node["x-kubernetes-list-map-keys"].as_array().into_iter().flatten() {
            assert!(node["items"]["required"].as_array().unwrap().contains(key), "{path}: {key}");
        }
    }
}

#[test]
fn defaults_list_maps_and_rules_stand_at_these_fields_and_nowhere_else() {
    let with = |word: &str| -> Vec<String> {
        let found = all_nodes().into_iter().filter(|(_, node)| !node[word].is_null());
        found.map(|(path, node)| format!("{path} {}", node[word])).collect()
    };
    insta::assert_snapshot!(with("default").join("\n"), @r#"
    .spec.executionPolicy.backoffLimit 6
    .spec.executionPolicy.concurrencyPolicy "Forbid"
    .spec.executionPolicy.ttlSecondsAfterFinished 86400
    .spec.finally[].type "Job"
    .spec.steps[].type "Job"
    "#);
    insta::assert_snapshot!(with("x-kubernetes-list-map-keys").join("\n"), @r#"
    .spec.finally ["name"]
    .spec.steps ["name"]
    .status.conditions ["type"]
    .status.steps ["name"]
    "#);
    insta::assert_snapshot!(with("x-kubernetes-preserve-unknown-fields").join("\n"), @"
    .spec.finally[].template.metadata true
    .spec.finally[].template.spec true
    .spec.finally[].withItems[] true
    .spec.resourceTemplates.configMapTemplates[] true
    .spec.resourceTemplates.volumeClaimTemplates[] true
    .spec.steps[].template.metadata true
    .spec.steps[].template.spec true
    .spec.steps[].withItems[] true
    ");
    insta::assert_snapshot!(with("x-kubernetes-validations").join("\n"), @r#"
    .spec.finally[] [{"message":"a step of type Job needs a template","rule":"self.type == 'Manual' || has(self.template)"}]
    .spec.steps[] [{"message":"a step of type Job needs a template","rule":"self.type == 'Manual' || has(self.template)"}]
    "#);
}

#[test]
fn every_enum_lists_all_values() {
    let found =
        all_nodes().into_iter().filter(|(path, node)| !node["enum"].is_null() && !path.starts_with(".spec.finally"));
    let found: Vec<String> = found.map(|(path, node)| format!("{path} {}", node["enum"])).collect();
    insta::assert_snapshot!(found.join("\n"), @r#"
    .spec.executionPolicy.concurrencyPolicy ["Forbid","Allow","Replace"]
    .spec.executionPolicy.failurePolicy ["FailFast","CancelRunning","Continue"]
    .spec.executionPolicy.jobRetention ["All","Failed","None"]
    .spec.executionPolicy.podFailurePolicy.rules[].action ["FailJob","Ignore","Count"]
    .spec.executionPolicy.podFailurePolicy.rules[].onExitCodes.operator ["In","NotIn"]
    .spec.executionPolicy.skipPolicy ["Lenient","Strict"]
    .spec.executionPolicy.toleratedOutcome ["Succeeded","Failed"]
    .spec.steps[].inputs.parameters[].valueFrom.flow ["outcome","failures","duration","name","url"]
    .spec.steps[].outputs.artifacts[].archive.compression ["none","gzip"]
    .spec.steps[].outputs.artifacts[].archive.format ["tar","zip"]
    .spec.steps[].rerun ["IfNeeded","Always"]
    .spec.steps[].retryPolicy.backoff.type ["Exponential","Linear","Fixed",""]
    .spec.steps[].template.apiVersion ["batch/v1"]
    .spec.steps[].template.kind ["Job"]
    .spec.steps[].type ["Job","Manual"]
    .spec.stop ["Graceful","Terminate"]
    .spec.suspendMode ["Drain","Suspend"]
    .status.conditions[].status ["True","False","Unknown"]
    .status.phase ["Pending","Running","Paused","Suspended","Succeeded","Failed"]
    .status.steps[].approval.decision ["Approved","Rejected","TimedOut"]
    .status.steps[].outputs.artifacts[].archive.compression ["none","gzip"]
    .status.steps[].outputs.artifacts[].archive.format ["tar","zip"]
    .status.steps[].phase ["Pending","Running","Succeeded","Failed","Skipped","PendingApproval"]
    .status.steps[].waiting.on ["Suspended","FirstPod","Runtime","NextPod"]
    "#);
    let texts = |all: Vec<&'static str>| json!(all);
    assert_eq!(at("status.phase")["enum"], texts(FlowPhase::ALL.iter().map(|phase| phase.as_str()).collect()));
    assert_eq!(at("status.steps.phase")["enum"], texts(StepPhase::ALL.iter().map(|phase| phase.as_str()).collect()));
}

#[test]
fn a_template_declares_what_a_job_must_have() {
    insta::assert_snapshot!(at("spec.steps.template"), @r#"{"description":"The `batch/v1` Job that an attempt runs.","properties":{"apiVersion":{"description":"Always batch/v1.","enum":["batch/v1"],"type":"string"},"kind":{"description":"Always Job.","enum":["Job"],"type":"string"},"metadata":{"description":"Labels and annotations of the Job; its name is that of the attempt.","type":"object","x-kubernetes-preserve-unknown-fields":true},"spec":{"description":"The spec of the Job.","type":"object","x-kubernetes-preserve-unknown-fields":true}},"required":["apiVersion","kind","spec"],"type":"object"}"#);
}

#[test]
fn every_field_is_described_in_sentences() {
    let mut count = 0;
    for (path, node) in all_nodes().iter().filter(|(path, _)| path.starts_with(".spec") || path.starts_with(".status"))
    {
        for (name, member) in node["properties"].as_object().into_iter().flatten() {
            let text = member["description"].as_str().unwrap_or_default();
            let plain = !text.contains(['\n', '[']) && text.ends_with('.');
            assert!(plain, "{path}.{name} is described as {text:?}");
            count += 1;
        }
    }
    assert!(count > 250, "{count} fields were looked at");
}

/// A value with every member that a schema declares.
fn full(schema: &Value) -> Value {
    let first = &schema["enum"][0];
    match schema["type"].as_str() {
        _ if first.is_string() => first.clone(),
        Some("object") if schema["additionalProperties"].is_object() => {
            json!({"k": full(&schema["additionalProperties"])})
        }
        Some("object") => {
            let members = schema["properties"].as_object().into_iter().flatten();
            members.map(|(name, member)| (name.clone(), full(member))).collect()
        }
        Some("array") => json!([full(&schema["items"])]),
        Some("string") if schema["format"] == "date-time" => json!("2026-01-01T00:00:00Z"),
        Some("string") => json!("x"),
        Some("boolean") => json!(true),
        Some("integer") => json!(3),
        Some("number") => json!(1.5),
        _ => json!({"any": [1, null]}),
    }
}

/// Whether a type reads a value, and which of its members are lost when it is written again.
fn lost<T: DeserializeOwned + Serialize>(value: &Value) -> Result<Vec<String>, serde_json::Error> {
    fn compare(value: &Value, written: &Value, path: &str, lost: &mut Vec<String>) {
        match value {
            Value::Array(items) => {
                items.iter().enumerate().for_each(|(at, item)| compare(item, &written[at], path, lost));
            }
            Value::Object(members) => {
                members
                    .iter()
                    .for_each(|(name, value)| compare(value, &written[name], &format!("{path}.{name}"), lost));
            }
            _ if value != written => lost.push(path.to_owned()),
            _ => {}
        }
    }
    let mut found = Vec::new();
    compare(value, &serde_json::to_value(serde_json::from_value::<T>(value.clone())?)?, "", &mut found);
    Ok(found)
}

/// The paths of all members of a value, those of the Job in a template left out.
fn members(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Array(items) => members(&items[0], &format!("{path}/0"), found),
        Value::Object(all) if !path.ends_with("/template") => {
            for (name, member) in all {
                found.push(format!("{path}/{name}"));
                members(member, &format!("{path}/{name}"), found);
            }
        }
        _ => {}
    }
}

/// Each member is left out in turn: the type refuses the rest exactly where the schema requires the member.
fn requires<T: DeserializeOwned + Serialize>(schema: &Value) {
    let whole = full(schema);
    let mut paths = Vec::new();
    members(&whole, "", &mut paths);
    for path in paths {
        let mut value = whole.clone();
        let (parent, name) = path.rsplit_once('/').unwrap();
        let object = value.pointer_mut(parent).and_then(Value::as_object_mut).unwrap();
        object.remove(name);
        let node = parent.split('/').skip(1).fold(schema, |schema, part| match part {
            "0" => &schema["items"],
            _ => schema["properties"].get(part).unwrap_or(schema),
        });
        let required = node["required"].as_array().is_some_and(|list| list.contains(&json!(name)));
        assert_eq!(lost::<T>(&value).is_err(), required, "{path}");
    }
}

#[test]
fn the_types_read_what_the_schema_declares_and_require_what_it_requires() {
    // What a record of outputs shows beyond its own members is not read.
    let status = structural::<FlowStatus>();
    assert_eq!(lost::<FlowSpec>(&full(spec_schema())).unwrap(), Vec::<String>::new());
    assert_eq!(lost::<FlowStatus>(&full(&status)).unwrap(), Vec::<String>::new());
    assert!(lost::<FlowStatus>(&full(&at("status"))).is_ok());
    requires::<FlowSpec>(spec_schema());
    requires::<FlowStatus>(&status);
}
