//! The table of Kubernetes fields that manifests are checked with equals what `k8s-openapi` declares. With
//! `UPDATE_SCHEMA=1` in the environment the test writes the table instead.

use std::collections::BTreeMap;
use std::path::Path;
use std::{env, fs};

use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;

/// The table, in the crate that reads it.
const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../dag/src/manifest/schema/kubernetes.txt");

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
    let mut types = BTreeMap::new();
    collect::<k8s_openapi::api::batch::v1::Job>("Job", &mut types);
    collect::<k8s_openapi::api::core::v1::PersistentVolumeClaim>("PersistentVolumeClaim", &mut types);
    collect::<k8s_openapi::api::core::v1::ConfigMap>("ConfigMap", &mut types);
    let text = render(&types);
    assert!(!text.contains("no word for"), "a schema has no word in the table: {text}");
    if env::var_os("UPDATE_SCHEMA").is_some() {
        fs::write(TABLE, &text).expect("the table can be written");
    }
    let stored = fs::read_to_string(Path::new(TABLE)).expect("the table can be read");
    assert!(stored == text, "the table is out of date; run this test with UPDATE_SCHEMA=1 and review the difference");
}

/// Adds the fields of a type and of all types it names.
fn collect<T: JsonSchema>(root: &str, types: &mut BTreeMap<String, BTreeMap<String, String>>) {
    let schema = SchemaGenerator::default().root_schema_for::<T>().to_value();
    let definitions = schema["$defs"].as_object().cloned().unwrap_or_default();
    let mut waiting = vec![(root.to_owned(), schema)];
    let mut short_names: BTreeMap<String, String> = BTreeMap::new();
    while let Some((name, schema)) = waiting.pop() {
        let mut fields = BTreeMap::new();
        for (field, member) in schema["properties"].as_object().into_iter().flatten() {
            let opaque = OPAQUE.contains(&field.as_str());
            let kind = if opaque { "any".to_owned() } else { kind(member) };
            let required =
                schema["required"].as_array().is_some_and(|list| list.contains(&Value::from(field.as_str())));
            let mark = if required && !NOT_REQUIRED.contains(&(name.as_str(), field.as_str())) { "!" } else { "" };
            fields.insert(format!("{field}{mark}"), kind);
            for reference in [&member["$ref"], &member["items"]["$ref"], &member["additionalProperties"]["$ref"]] {
                let Some(full) = reference.as_str().map(|text| text.trim_start_matches("#/$defs/")) else { continue };
                let short = short(full);
                let known = short_names.entry(short.to_owned()).or_insert_with(|| full.to_owned());
                assert_eq!(known, full, "two types are called {short}");
                if !opaque && !types.contains_key(short) && !SCALARS.iter().any(|(scalar, _)| *scalar == short) {
                    waiting.push((short.to_owned(), definitions[full].clone()));
                }
            }
        }
        types.insert(name, fields);
    }
}

fn short(full: &str) -> &str {
    full.rsplit('.').next().unwrap_or(full)
}

/// The table's word for a schema: `[]T` for lists, `{}T` for mappings.
fn kind(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = short(reference);
        return SCALARS.iter().find(|(scalar, _)| *scalar == name).map_or(name, |(_, word)| word).to_owned();
    }
    match (schema["type"].as_str(), schema["format"].as_str()) {
        (Some("array"), _) => format!("[]{}", kind(&schema["items"])),
        (Some("object"), _) if schema["additionalProperties"].is_object() => {
            format!("{{}}{}", kind(&schema["additionalProperties"]))
        }
        (Some("string"), _) => "string".to_owned(),
        (Some("boolean"), _) => "bool".to_owned(),
        (Some("integer"), Some(format @ ("int32" | "int64"))) => format.to_owned(),
        other => format!("no word for {other:?}"),
    }
}

fn render(types: &BTreeMap<String, BTreeMap<String, String>>) -> String {
    let mut text = String::new();
    for (name, fields) in types {
        text += &format!("{name}\n");
        for (field, kind) in fields {
            text += &format!(" {field} {kind}\n");
        }
    }
    text
}
