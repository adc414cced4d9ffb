//! The tables of fields that manifests are checked with equal what `k8s-openapi` and the types of flows and pipelines declare.
//! With `UPDATE_SCHEMA=1` in the environment the tests write the tables instead.

use std::collections::BTreeMap;
use std::path::Path;
use std::{env, fs};

use orlop_core::schema;
use orlop_core::spec::flow::JobFlow;
use orlop_dag::manifest::pipeline;
use serde_json::{Map, Value};

/// The folder of the tables, in the crate that reads them.
const TABLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../dag/src/manifest/schema");

/// Fields by type, each with its mark and the table's word for it.
type Types = BTreeMap<String, BTreeMap<String, String>>;

/// Members the schema requires although the API server accepts objects without them: the zero value is valid, or a
/// default is filled in.
const NOT_REQUIRED: &[(&str, &str)] = &[
    ("HTTPHeader", "value"),
    ("ISCSIVolumeSource", "lun"),
    ("Job", "metadata"),
    ("LocalObjectReference", "name"),
    ("PersistentVolumeClaim", "metadata"),
    ("ConfigMap", "metadata"),
    ("PodFailurePolicyOnPodConditionsPattern", "status"),
    ("Sysctl", "value"),
];

/// Members whose content is not ours to check: the API server writes them.
const OPAQUE: &[&str] = &["status", "managedFields"];

/// Schemas that are scalars.
const SCALARS: &[(&str, &str)] =
    &[("Time", "time"), ("Quantity", "quantity"), ("IntOrString", "intorstring"), ("FieldsV1", "any")];

#[test]
fn the_field_table_is_that_of_k8s_openapi() {
    compare("kubernetes.txt", &kubernetes());
}

#[test]
fn the_field_table_of_flows_and_pipelines_is_that_of_their_types() {
    let known = kubernetes();
    let mut types = Types::new();
    collect("JobFlow", schema::of::<JobFlow>(), &known, &mut types);
    collect("Pipeline", pipeline::schema(), &known, &mut types);
    compare("flow.txt", &types);
}

fn kubernetes() -> Types {
    let mut types = Types::new();
    for (name, schema) in [
        ("Job", schema::of::<k8s_openapi::api::batch::v1::Job>()),
        ("PersistentVolumeClaim", schema::of::<k8s_openapi::api::core::v1::PersistentVolumeClaim>()),
        ("ConfigMap", schema::of::<k8s_openapi::api::core::v1::ConfigMap>()),
    ] {
        collect(name, schema, &Types::new(), &mut types);
    }
    types
}

fn compare(name: &str, types: &Types) {
    let (file, text) = (Path::new(TABLES).join(name), render(types));
    assert!(!text.contains("no word for"), "a schema has no word in the table: {text}");
    if env::var_os("UPDATE_SCHEMA").is_some() {
        fs::write(&file, &text).expect("the table can be written");
    }
    let stored = fs::read_to_string(&file).expect("the table can be read");
    assert!(stored == text, "{name} is out of date; run this test with UPDATE_SCHEMA=1 and review the difference");
}

/// Adds the fields of a type and of all types it names but those that are known.
fn collect(root: &str, schema: Value, known: &Types, types: &mut Types) {
    let definitions = schema["$defs"].as_object().cloned().unwrap_or_default();
    let mut waiting = vec![(root.to_owned(), schema)];
    let mut short_names: BTreeMap<String, String> = BTreeMap::new();
    while let Some((name, schema)) = waiting.pop() {
        let mut fields = BTreeMap::new();
        for (field, member) in schema["properties"].as_object().into_iter().flatten() {
            let opaque = OPAQUE.contains(&field.as_str());
            let kind = if opaque { "any".to_owned() } else { kind(member, &definitions) };
            let required =
                schema["required"].as_array().is_some_and(|list| list.contains(&Value::from(field.as_str())));
            let mark = if required && !NOT_REQUIRED.contains(&(name.as_str(), field.as_str())) { "!" } else { "" };
            fields.insert(format!("{field}{mark}"), kind);
            for reference in [&member["$ref"], &member["items"]["$ref"], &member["additionalProperties"]["$ref"]] {
                let Some(full) = reference.as_str().map(|text| text.trim_start_matches("#/$defs/")) else { continue };
                let short = short(full);
                let named = short_names.entry(short.to_owned()).or_insert_with(|| full.to_owned());
                assert_eq!(named, full, "two types are called {short}");
                let is_object = definitions[full]["properties"].is_object() && !known.contains_key(short);
                if !opaque && is_object && !types.contains_key(short) {
                    waiting.push((short.to_owned(), definitions[full].clone()));
                }
            }
        }
        for pattern in schema["patternProperties"].as_object().into_iter().flat_map(|patterns| patterns.keys()) {
            fields.insert(format!("{}*", pattern.trim_start_matches('^')), "any".to_owned());
        }
        assert!(!fields.is_empty(), "{name} has no fields");
        types.insert(name, fields);
    }
}

fn short(full: &str) -> &str {
    full.rsplit(['.', '/']).next().unwrap_or(full)
}

/// The table's word for a schema: `[]T` for lists, `{}T` for mappings, `A|B` for one of several texts.
fn kind(schema: &Value, definitions: &Map<String, Value>) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = short(reference);
        let scalar = SCALARS.iter().find(|(scalar, _)| *scalar == name).map(|(_, word)| *word);
        let texts = definitions.get(name).and_then(|named| named["oneOf"].as_array());
        let texts = texts.map(|all| all.iter().filter_map(|one| one["const"].as_str()).collect::<Vec<_>>().join("|"));
        return texts.unwrap_or_else(|| scalar.unwrap_or(name).to_owned());
    }
    match (schema["type"].as_str(), schema["format"].as_str()) {
        (None, _) if *schema == Value::Bool(true) => "any".to_owned(),
        (Some("array"), _) => format!("[]{}", kind(&schema["items"], definitions)),
        (Some("object"), _) if schema["additionalProperties"].is_object() => {
            format!("{{}}{}", kind(&schema["additionalProperties"], definitions))
        }
        (Some("object"), _) => "any".to_owned(),
        (Some("string"), Some("go-duration")) => "duration".to_owned(),
        (Some("string"), _) => "string".to_owned(),
        (Some("boolean"), _) => "bool".to_owned(),
        (Some("number"), _) => "number".to_owned(),
        (Some("integer"), Some(format @ ("int32" | "int64"))) => format.to_owned(),
        other => format!("no word for {other:?}"),
    }
}

fn render(types: &Types) -> String {
    let mut text = String::new();
    for (name, fields) in types {
        text += &format!("{name}\n");
        for (field, kind) in fields {
            text += &format!(" {field} {kind}\n");
        }
    }
    text
}
