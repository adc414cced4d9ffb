//! The definition of flows against the contract, the types, the table of manifest fields and the API's own types.

use std::collections::BTreeSet;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use orlop_core::machine::Named;
use orlop_core::machine::flow::FlowPhase;
use orlop_core::machine::step::StepPhase;
use orlop_core::spec::flow::FlowSpec;
use orlop_core::spec::status::FlowStatus;
use serde_json::{Value, json};

use super::fields::fields;
use super::schema::{spec_shape, status_shape};
use super::trace::Shape;
use super::*;

/// Fields of manifests as the reader of manifests knows them.
const MANIFEST: &str = include_str!("../../../dag/src/manifest/schema/flow.txt");

fn definition() -> Value {
    job_flow().unwrap()
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
fn names_columns_and_subresource_are_those_of_section_1_1() {
    let spec = definition()["spec"].clone();
    assert_eq!(definition()["metadata"]["name"], "jobflows.workflow.kube-zen.io");
    assert_eq!((&spec["group"], &spec["scope"]), (&json!("workflow.kube-zen.io"), &json!("Namespaced")));
    insta::assert_snapshot!(spec["names"], @r#"{"kind":"JobFlow","listKind":"JobFlowList","plural":"jobflows","singular":"jobflow","shortNames":["jf","flow"],"categories":["all"]}"#);
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
fn defaults_and_list_maps_stand_where_section_1_1_says_and_nowhere_else() {
    let with = |word: &str| -> Vec<String> {
        let found = all_nodes().into_iter().filter(|(_, node)| !node[word].is_null());
        found.map(|(path, node)| format!("{path} {}", node[word])).collect()
    };
    insta::assert_snapshot!(with("default").join("\n"), @r#"
    .spec.steps[].type "Job"
    .spec.executionPolicy.concurrencyPolicy "Forbid"
    .spec.executionPolicy.ttlSecondsAfterFinished 86400
    .spec.executionPolicy.backoffLimit 6
    .spec.finally[].type "Job"
    "#);
    insta::assert_snapshot!(with("x-kubernetes-list-map-keys").join("\n"), @r#"
    .spec.steps ["name"]
    .spec.finally ["name"]
    .status.conditions ["type"]
    .status.steps ["name"]
    "#);
    insta::assert_snapshot!(with("x-kubernetes-preserve-unknown-fields").join("\n"), @"
    .spec.steps[].template.metadata true
    .spec.steps[].template.spec true
    .spec.steps[].withItems[] true
    .spec.resourceTemplates.volumeClaimTemplates[] true
    .spec.resourceTemplates.configMapTemplates[] true
    .spec.finally[].template.metadata true
    .spec.finally[].template.spec true
    .spec.finally[].withItems[] true
    ");
    insta::assert_snapshot!(with("x-kubernetes-validations").join("\n"), @r#"
    .spec.steps[] [{"rule":"self.type == 'Manual' || has(self.template)","message":"a step of type Job needs a template"}]
    .spec.finally[] [{"rule":"self.type == 'Manual' || has(self.template)","message":"a step of type Job needs a template"}]
    "#);
}

#[test]
fn every_enum_lists_all_values() {
    let found =
        all_nodes().into_iter().filter(|(path, node)| !node["enum"].is_null() && !path.starts_with(".spec.finally"));
    let found: Vec<String> = found.map(|(path, node)| format!("{path} {}", node["enum"])).collect();
    insta::assert_snapshot!(found.join("\n"), @r#"
    .spec.steps[].type ["Job","Manual"]
    .spec.steps[].retryPolicy.backoff.type ["Exponential","Linear","Fixed",""]
    .spec.steps[].template.apiVersion ["batch/v1"]
    .spec.steps[].template.kind ["Job"]
    .spec.steps[].inputs.parameters[].valueFrom.flow ["outcome","failures","duration","name","url"]
    .spec.steps[].outputs.artifacts[].archive.format ["tar","zip"]
    .spec.steps[].outputs.artifacts[].archive.compression ["none","gzip"]
    .spec.steps[].rerun ["IfNeeded","Always"]
    .spec.executionPolicy.concurrencyPolicy ["Forbid","Allow","Replace"]
    .spec.executionPolicy.podFailurePolicy.rules[].action ["FailJob","Ignore","Count"]
    .spec.executionPolicy.podFailurePolicy.rules[].onExitCodes.operator ["In","NotIn"]
    .spec.executionPolicy.failurePolicy ["FailFast","CancelRunning","Continue"]
    .spec.executionPolicy.skipPolicy ["Lenient","Strict"]
    .spec.executionPolicy.toleratedOutcome ["Succeeded","Failed"]
    .spec.executionPolicy.jobRetention ["All","Failed","None"]
    .spec.suspendMode ["Drain","Suspend"]
    .spec.stop ["Graceful","Terminate"]
    .status.phase ["Pending","Running","Paused","Suspended","Succeeded","Failed"]
    .status.conditions[].status ["True","False","Unknown"]
    .status.steps[].phase ["Pending","Running","Succeeded","Failed","Skipped","PendingApproval"]
    .status.steps[].outputs.artifacts[].archive.format ["tar","zip"]
    .status.steps[].outputs.artifacts[].archive.compression ["none","gzip"]
    .status.steps[].approval.decision ["Approved","Rejected","TimedOut"]
    .status.steps[].waiting.on ["Suspended","FirstPod","Runtime","NextPod"]
    "#);
    let texts = |all: Vec<&'static str>| json!(all);
    assert_eq!(at("status.phase")["enum"], texts(FlowPhase::ALL.iter().map(|phase| phase.as_str()).collect()));
    assert_eq!(at("status.steps.phase")["enum"], texts(StepPhase::ALL.iter().map(|phase| phase.as_str()).collect()));
}

#[test]
fn a_template_declares_what_a_job_must_have() {
    insta::assert_snapshot!(at("spec.steps.template"), @r#"{"description":"The batch/v1 Job that an attempt runs.","type":"object","properties":{"apiVersion":{"description":"Always batch/v1.","type":"string","enum":["batch/v1"]},"kind":{"description":"Always Job.","type":"string","enum":["Job"]},"metadata":{"description":"Labels and annotations of the Job; its name is that of the attempt.","type":"object","x-kubernetes-preserve-unknown-fields":true},"spec":{"description":"The spec of the Job.","type":"object","x-kubernetes-preserve-unknown-fields":true}},"required":["apiVersion","kind","spec"]}"#);
}

/// Every field the types read is in the schema, and every line of the table of notes is a field of a type.
#[test]
fn every_field_of_every_type_is_declared_and_described() {
    let mut walked = BTreeSet::new();
    for (name, shape) in [("spec", spec_shape().unwrap()), ("status", status_shape().unwrap())] {
        walk(&shape, &root()["properties"][name], &mut walked);
    }
    assert_eq!(walked, fields().keys().copied().collect::<BTreeSet<_>>());
}

fn walk(shape: &Shape, schema: &Value, walked: &mut BTreeSet<(&'static str, &'static str)>) {
    match shape {
        Shape::List(inner) => walk(inner, &schema["items"], walked),
        Shape::Map(inner) => walk(inner, &schema["additionalProperties"], walked),
        Shape::Object(object) => {
            assert_eq!(schema["properties"].as_object().unwrap().len(), object.fields.len(), "{}", object.name);
            for field in &object.fields {
                let member = &schema["properties"][field.name];
                let described = member["description"].as_str().is_some_and(|text| !text.is_empty());
                assert!(described, "{}.{} has no description", field.owner, field.name);
                let required = schema["required"].as_array().is_some_and(|list| list.contains(&json!(field.name)));
                assert_eq!(required, field.required, "{}.{}", field.owner, field.name);
                walked.insert((field.owner, field.name));
                walk(&field.shape, member, walked);
            }
        }
        _ => {}
    }
}

/// The reader of manifests has a table of its own: both must know the same fields, and which must be there.
#[test]
fn the_reader_of_manifests_knows_the_same_fields() {
    let table = |name: &str| -> Vec<(String, String)> {
        let lines = MANIFEST.lines().skip_while(|line| *line != name).skip(1).take_while(|line| line.starts_with(' '));
        let split = |line: &str| line.trim().split_once(' ').map(|(field, kind)| (field.to_owned(), kind.to_owned()));
        lines.map(|line| split(line).unwrap()).collect()
    };
    let mut waiting = vec![("FlowSpec".to_owned(), root()["properties"]["spec"].clone())];
    let mut compared = 0;
    while let Some((name, schema)) = waiting.pop() {
        let fields = table(&name);
        let known: BTreeSet<&str> = fields.iter().map(|(field, _)| field.trim_end_matches('!')).collect();
        let declared: BTreeSet<&str> = schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(known, declared, "{name}");
        for (field, kind) in &fields {
            let (bare, required) = (field.trim_end_matches('!'), field.ends_with('!'));
            let listed = schema["required"].as_array().is_some_and(|list| list.contains(&json!(bare)));
            assert_eq!(listed, required, "{name}.{bare}");
            let member = &schema["properties"][bare];
            let inner = if member["type"] == "array" { &member["items"] } else { member };
            let kind = kind.trim_start_matches("[]");
            if bare != "template" && inner["properties"].is_object() {
                waiting.push((kind.to_owned(), inner.clone()));
            }
            compared += 1;
        }
    }
    assert!(compared > 90, "{compared} fields were compared");
}

/// An object with every field survives the schema: what a type writes is declared.
#[test]
fn nothing_that_the_types_write_is_pruned() {
    fn full(shape: &Shape, field: Option<(&'static str, &'static str)>) -> Value {
        let notes = field.and_then(|field| fields().get(&field));
        match shape {
            Shape::Any => json!({"any": [1, null]}),
            Shape::Bool => json!(true),
            Shape::Integer { .. } => json!(3),
            Shape::Number => json!(1.5),
            Shape::Text(texts) => match notes {
                Some(notes) if notes.form == super::fields::Form::Time => json!("2026-01-01T00:00:00Z"),
                Some(notes) if notes.choices.is_some() => json!(notes.choices.as_ref().unwrap()[0]),
                _ => json!(texts.first().copied().unwrap_or("x")),
            },
            Shape::List(inner) => json!([full(inner, field)]),
            Shape::Map(inner) => json!({"k": full(inner, field)}),
            Shape::Object(object) => {
                let members = object.fields.iter();
                members.map(|f| (f.name.to_owned(), full(&f.shape, Some((f.owner, f.name))))).collect()
            }
        }
    }
    let spec: FlowSpec = serde_json::from_value(full(&spec_shape().unwrap(), None)).unwrap();
    let status: FlowStatus = serde_json::from_value(full(&status_shape().unwrap(), None)).unwrap();
    for (name, written) in
        [("spec", serde_json::to_value(spec).unwrap()), ("status", serde_json::to_value(status).unwrap())]
    {
        declared(&written, &root()["properties"][name], name);
    }
}

fn declared(value: &Value, schema: &Value, path: &str) {
    if schema["x-kubernetes-preserve-unknown-fields"] == true {
        return;
    }
    match value {
        Value::Array(items) => items.iter().for_each(|item| declared(item, &schema["items"], path)),
        Value::Object(members) => {
            for (name, member) in members {
                let path = format!("{path}.{name}");
                let own = schema["properties"].get(name).or_else(|| schema.get("additionalProperties"));
                // The sample template is no Job.
                if !path.contains(".template.") {
                    declared(member, own.unwrap_or_else(|| panic!("{path} would be pruned")), &path);
                }
            }
        }
        _ => {}
    }
}
