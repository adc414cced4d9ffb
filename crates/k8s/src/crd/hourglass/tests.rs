//! The definitions of performers and executors against the contract and the API's own types.

use std::collections::BTreeSet;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use super::*;
use crate::crd::tests::{KEYWORDS, nodes};

fn schema(definition: &Value) -> Value {
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

fn all_nodes(definition: &Value) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    nodes(&schema(definition), "", &mut found);
    found
}

/// Name, type, path, and whether only wide tables show it.
fn columns(definition: &Value) -> String {
    let columns = definition["spec"]["versions"][0]["additionalPrinterColumns"].as_array().unwrap().iter();
    let line = |c: &Value| {
        let wide = if c["priority"] == 1 { " wide" } else { "" };
        let word = |name: &str| c[name].as_str().unwrap().to_owned();
        format!("{} {} {}{wide}", word("name"), word("type"), word("jsonPath"))
    };
    columns.map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn columns_of_both_kinds() {
    insta::assert_snapshot!(columns(&performer()), @"
    AVS string .spec.avsAddress
    Image string .spec.image
    Version string .spec.version
    Phase string .status.phase
    Endpoint string .status.grpcEndpoint
    Age date .metadata.creationTimestamp
    State string .status.state wide
    Ready boolean .status.ready wide
    Node string .status.nodeName wide
    ");
    insta::assert_snapshot!(columns(&executor()), @"
    Image string .spec.image
    Replicas integer .spec.replicas
    Ready integer .status.readyReplicas
    Phase string .status.phase
    Age date .metadata.creationTimestamp
    State string .status.state wide
    Updated integer .status.updatedReplicas wide
    ");
}

#[test]
fn names_versions_and_subresources() {
    let scale = json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector"});
    for (definition, plural, short, subresources) in [
        (performer(), "performers", "perf", json!({"status": {}})),
        (executor(), "hourglassexecutors", "hgx", json!({"status": {}, "scale": scale})),
    ] {
        let spec = &definition["spec"];
        assert_eq!(definition["metadata"]["name"], format!("{plural}.hourglass.eigenlayer.io"));
        assert_eq!((&spec["group"], &spec["scope"]), (&json!("hourglass.eigenlayer.io"), &json!("Namespaced")));
        assert_eq!((&spec["names"]["plural"], &spec["names"]["shortNames"]), (&json!(plural), &json!([short])));
        let [version] = spec["versions"].as_array().unwrap().as_slice() else { panic!("{plural}: one version") };
        assert_eq!(
            (&version["name"], &version["served"], &version["storage"]),
            (&json!("v1alpha1"), &json!(true), &json!(true))
        );
        assert_eq!(version["subresources"], subresources, "{plural}");
        // What columns and scale read is there.
        let paths = columns(&definition);
        let paths = paths.split_whitespace().filter(|word| word.starts_with('.') && !word.starts_with(".metadata"));
        let scaled = subresources["scale"].as_object().into_iter().flatten().map(|(_, path)| path.as_str().unwrap());
        for path in paths.chain(scaled) {
            let pointer = path.replace('.', "/properties/");
            assert!(schema(&definition).pointer(&pointer).is_some(), "{plural}: {path}");
        }
    }
}

/// The API's own type reads every member: no keyword is misspelled or at the wrong place.
#[test]
fn the_api_reads_all_of_both_definitions() {
    let sizes = |schema: &Value| -> BTreeSet<(String, usize)> {
        let mut found = Vec::new();
        nodes(schema, "", &mut found);
        found.into_iter().map(|(path, node)| (path, node.as_object().map_or(0, serde_json::Map::len))).collect()
    };
    for definition in [performer(), executor()] {
        let read: CustomResourceDefinition = serde_json::from_value(definition.clone()).unwrap();
        let (read, made) = (sizes(&schema(&serde_json::to_value(read).unwrap())), sizes(&schema(&definition)));
        assert_eq!(made.difference(&read).collect::<Vec<_>>(), Vec::<&(String, usize)>::new());
    }
}

#[test]
fn both_schemas_are_structural_and_every_list_map_and_text_of_a_spec_is_bounded() {
    for definition in [performer(), executor()] {
        for (path, node) in all_nodes(&definition) {
            let either = node["x-kubernetes-int-or-string"] == true;
            assert!(either || node["type"].is_string(), "{path} has no type");
            assert!(node["x-kubernetes-preserve-unknown-fields"].is_null(), "{path} is open");
            assert!(node["properties"].is_null() || node["additionalProperties"].is_null(), "{path}");
            let more = [
                "pattern",
                "maxProperties",
                "x-kubernetes-int-or-string",
                "x-kubernetes-map-type",
                "minProperties",
                "anyOf",
            ];
            let known = |word: &&String| KEYWORDS.contains(&word.as_str()) || more.contains(&word.as_str());
            let strange: Vec<_> = node.as_object().unwrap().keys().filter(|word| !known(word)).collect();
            assert_eq!(strange, Vec::<&String>::new(), "{path}");
            for key in node["x-kubernetes-list-map-keys"].as_array().into_iter().flatten() {
                assert!(node["items"]["required"].as_array().unwrap().contains(key), "{path}: {key}");
            }
            if !path.starts_with(".spec") {
                continue;
            }
            let bounded = match node["type"].as_str() {
                Some("array") => node["maxItems"].is_u64(),
                Some("object") if node["additionalProperties"].is_object() => node["maxProperties"].is_u64(),
                Some("string") => node["maxLength"].is_u64() || node["enum"].is_array(),
                _ => true,
            };
            assert!(bounded, "{path} has no bound: {node}");
        }
    }
}
