//! Names of what a flow creates, and the rewriting of short names to them. Owns which places of a Job name a
//! claim or a ConfigMap; creates nothing.

use orlop_core::name::{Parts, bounded};
use orlop_core::spec::flow::{FlowSpec, template_name};
use serde_json::Value;

/// The longest object name, in characters.
const NAME_MAX: usize = 253;

/// Name of the object that is created from a resource template of a flow: `<flow>-<template>`, shortened with a hash where it is too
/// long.
#[must_use]
pub fn resource_name(flow: &str, template: &str) -> String {
    bounded(Parts { flow, part: template, suffix: "" }, NAME_MAX)
}

/// The ConfigMap template of a flow whose object has this name.
#[must_use]
pub fn config_map_template<'s>(spec: &'s FlowSpec, flow: &str, object: &str) -> Option<&'s Value> {
    let templates = spec.resource_templates.as_ref()?.config_map_templates.iter();
    templates
        .into_iter()
        .find(|template| template_name(template).is_some_and(|name| resource_name(flow, name) == object))
}

/// Rewrites the name of a ConfigMap template to that of its object; any other name stays.
pub fn rewrite_config_map(spec: &FlowSpec, flow: &str, name: &mut String) {
    let templates = spec.resource_templates.as_ref().map(|templates| templates.config_map_templates.as_slice());
    rewrite(templates.unwrap_or_default(), flow, name);
}

/// Rewrites the name of a claim template to that of its object; any other name stays.
pub fn rewrite_claim(spec: &FlowSpec, flow: &str, name: &mut String) {
    let templates = spec.resource_templates.as_ref().map(|templates| templates.volume_claim_templates.as_slice());
    rewrite(templates.unwrap_or_default(), flow, name);
}

fn rewrite(templates: &[Value], flow: &str, name: &mut String) {
    if templates.iter().any(|template| template_name(template) == Some(name)) {
        *name = resource_name(flow, name);
    }
}

/// Rewrites every claim and ConfigMap that a Job names to the objects of the flow's templates.
pub fn rewrite_job(spec: &FlowSpec, flow: &str, job: &mut Value) {
    let Some(templates) = &spec.resource_templates else { return };
    let Some(pod) = job.pointer_mut("/spec/template/spec") else { return };
    let claims = &templates.volume_claim_templates;
    let maps = &templates.config_map_templates;
    let rename = |templates: &[Value], place: Option<&mut Value>| {
        if let Some(Value::String(name)) = place {
            rewrite(templates, flow, name);
        }
    };
    for volume in items(pod.get_mut("volumes")) {
        rename(claims, volume.pointer_mut("/persistentVolumeClaim/claimName"));
        rename(maps, volume.pointer_mut("/configMap/name"));
        for source in items(volume.pointer_mut("/projected/sources")) {
            rename(maps, source.pointer_mut("/configMap/name"));
        }
    }
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in items(pod.get_mut(list)) {
            for entry in items(container.get_mut("env")) {
                rename(maps, entry.pointer_mut("/valueFrom/configMapKeyRef/name"));
            }
            for entry in items(container.get_mut("envFrom")) {
                rename(maps, entry.pointer_mut("/configMapRef/name"));
            }
        }
    }
}

fn items(list: Option<&mut Value>) -> impl Iterator<Item = &mut Value> {
    list.and_then(Value::as_array_mut).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec() -> FlowSpec {
        serde_json::from_value(json!({
            "steps": [],
            "resourceTemplates": {
                "volumeClaimTemplates": [{"metadata": {"name": "data"}}],
                "configMapTemplates": [{"metadata": {"name": "settings"}, "data": {"a": "1"}}],
            },
        }))
        .unwrap()
    }

    #[test]
    fn every_place_that_names_a_template_is_rewritten_and_no_other() {
        let mut job = json!({"spec": {"template": {"spec": {
            "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
                {"name": "other", "persistentVolumeClaim": {"claimName": "settings"}},
                {"name": "settings", "configMap": {"name": "settings"}},
                {"name": "full", "configMap": {"name": "etl-settings"}},
                {"name": "p", "projected": {"sources": [{"configMap": {"name": "settings"}}, {"secret": {"name": "settings"}}]}},
            ],
            "initContainers": [{"name": "i", "envFrom": [{"configMapRef": {"name": "settings"}}, {"secretRef": {"name": "settings"}}]}],
            "containers": [{"name": "settings", "env": [
                {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "settings"}}},
                {"name": "B", "value": "settings"},
            ]}],
        }}}});
        rewrite_job(&spec(), "etl", &mut job);
        insta::assert_snapshot!(job.pointer("/spec/template/spec").unwrap(), @r#"{"containers":[{"env":[{"name":"A","valueFrom":{"configMapKeyRef":{"key":"settings","name":"etl-settings"}}},{"name":"B","value":"settings"}],"name":"settings"}],"initContainers":[{"envFrom":[{"configMapRef":{"name":"etl-settings"}},{"secretRef":{"name":"settings"}}],"name":"i"}],"volumes":[{"name":"data","persistentVolumeClaim":{"claimName":"etl-data"}},{"name":"other","persistentVolumeClaim":{"claimName":"settings"}},{"configMap":{"name":"etl-settings"},"name":"settings"},{"configMap":{"name":"etl-settings"},"name":"full"},{"name":"p","projected":{"sources":[{"configMap":{"name":"etl-settings"}},{"secret":{"name":"settings"}}]}}]}"#);
    }

    #[test]
    fn a_store_on_a_claim_template_is_on_the_claim_of_the_flow() {
        let rewritten = |name: &str| {
            let mut name = name.to_owned();
            rewrite_claim(&spec(), "etl", &mut name);
            name
        };
        assert_eq!(
            [rewritten("data"), rewritten("settings"), rewritten("etl-data")],
            ["etl-data", "settings", "etl-data"]
        );
    }

    #[test]
    fn templates_are_found_by_the_name_of_their_object() {
        assert!(config_map_template(&spec(), "etl", "etl-settings").is_some());
        assert!(config_map_template(&spec(), "etl", "settings").is_none());
    }

    #[test]
    fn long_resource_names_are_bounded() {
        assert_eq!(resource_name(&"f".repeat(200), &"t".repeat(100)).len(), 253);
    }
}
