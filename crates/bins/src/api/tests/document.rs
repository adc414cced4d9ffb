//! The OpenAPI document: the committed one is the one that is made.

use orlop_core::schema::components;
use orlop_core::spec::flow::JobFlow;
use orlop_core::spec::job::JobSpec;
use serde_json::{Map, Value};

use crate::api::document;
use crate::api::table::ROUTES;

/// What `orlop schema` prints is committed there.
#[test]
fn the_document_is_the_committed_one() {
    let mut json = document();
    let schemas = json["components"]["schemas"].as_object_mut().unwrap();
    let others = described_at_types();
    schemas.retain(|name, _| !others.contains_key(name));
    insta::assert_snapshot!("openapi", serde_json::to_string_pretty(&json).unwrap());
}

fn described_at_types() -> Map<String, Value> {
    components::<JobSpec>().into_iter().chain(components::<JobFlow>()).collect()
}

#[test]
fn the_document_has_every_route_and_refers_to_nothing_that_is_missing() {
    let json = document();
    assert!(json["openapi"].as_str().unwrap().starts_with("3.1"), "{}", json["openapi"]);
    for route in ROUTES {
        let operation = &json["paths"][format!("/api/v1{}", route.path)][route.method.as_str().to_lowercase()];
        assert_eq!(operation["operationId"], route.name);
    }
    let text = json.to_string();
    for reference in text.split("\"#/components/schemas/").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert_ne!(json["components"]["schemas"][reference], Value::Null, "{reference}");
    }
    let spec = &json["components"]["schemas"]["JobSpec"];
    assert_eq!(spec["properties"]["retry"]["$ref"], "#/components/schemas/Retry");
    for (name, schema) in described_at_types() {
        assert_eq!(json["components"]["schemas"][&name], schema, "{name} is also the name of another schema");
    }
    assert!(!text.contains("$defs"), "a schema refers to where it is not");
}
