//! Resource templates.

use serde_json::{Value, json};

use crate::manifest::Limits;
use crate::manifest::testing::{says, says_under};

fn claims(list: Value) -> String {
    says([("spec.resourceTemplates.volumeClaimTemplates", list)])
}

fn claim(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}})
}

#[test]
fn resource_templates_have_names_used_once() {
    let unnamed = json!({"spec": claim("x")["spec"]});
    insta::assert_snapshot!(claims(json!([claim(""), unnamed, claim("a"), claim("a"), claim("A")])), @"
    error[value] spec.resourceTemplates.volumeClaimTemplates[0].metadata.name: the template has no name (give it a `metadata.name`; the object will be called <flow>-<name>)
    error[value] spec.resourceTemplates.volumeClaimTemplates[1].metadata.name: the template has no name (give it a `metadata.name`; the object will be called <flow>-<name>)
    error[value] spec.resourceTemplates.volumeClaimTemplates[3].metadata.name: the name `a` is that of template 2 already
    error[value] spec.resourceTemplates.volumeClaimTemplates[4].metadata.name: template name `A` is not valid: character 'A' at position 1 is not allowed (use lower case letters, digits, `-` and `.`)
    ");
    insta::assert_snapshot!(says([("spec.resourceTemplates.configMapTemplates", json!([{"data": {}}, {"metadata": {"name": "m"}}, {"metadata": {"name": "m"}}]))]), @"
    error[value] spec.resourceTemplates.configMapTemplates[0].metadata.name: the template has no name (give it a `metadata.name`; the object will be called <flow>-<name>)
    error[value] spec.resourceTemplates.configMapTemplates[2].metadata.name: the name `m` is that of template 1 already
    ");
    assert_eq!(
        says([(
            "spec.resourceTemplates",
            json!({"volumeClaimTemplates": [claim("a")], "configMapTemplates": [{"metadata": {"name": "a"}, "data": {"k": "v"}}]})
        )]),
        ""
    );
}

#[test]
fn claims_say_how_large_they_are_and_who_may_mount_them() {
    let with = |spec: Value| claims(json!([{"metadata": {"name": "a"}, "spec": spec}]));
    insta::assert_snapshot!(with(json!({})), @"
    error[value] spec.resourceTemplates.volumeClaimTemplates[0].spec.accessModes: the claim has no access mode (list one, such as ReadWriteOnce)
    error[value] spec.resourceTemplates.volumeClaimTemplates[0].spec.resources.requests.storage: the claim does not say how large it is (add resources.requests.storage, such as 1Gi)
    ");
    insta::assert_snapshot!(with(json!({"accessModes": [], "resources": {"requests": {}}})), @"
    error[value] spec.resourceTemplates.volumeClaimTemplates[0].spec.accessModes: the claim has no access mode (list one, such as ReadWriteOnce)
    error[value] spec.resourceTemplates.volumeClaimTemplates[0].spec.resources.requests.storage: the claim does not say how large it is (add resources.requests.storage, such as 1Gi)
    ");
    insta::assert_snapshot!(with(json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "0"}}})), @"error[value] spec.resourceTemplates.volumeClaimTemplates[0].spec.resources.requests.storage: a claim of 0 holds nothing (ask for more than 0)");
    insta::assert_snapshot!(with(json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1 GB"}}})), @"error[amount] spec.resourceTemplates.volumeClaimTemplates[0].spec.resources.requests.storage: quantity `1 GB` ends in ` GB`, which is not a valid suffix (allowed are n u m k M G T P E, Ki Mi Gi Ti Pi Ei, or an exponent such as e3 (use `G` or `Gi`))");
    insta::assert_snapshot!(claims(json!([{"metadata": {"name": "a"}}])), @"
    error[value] spec.resourceTemplates.volumeClaimTemplates[0].spec.accessModes: the claim has no access mode (list one, such as ReadWriteOnce)
    error[value] spec.resourceTemplates.volumeClaimTemplates[0].spec.resources.requests.storage: the claim does not say how large it is (add resources.requests.storage, such as 1Gi)
    ");
}

#[test]
fn resource_templates_keep_unknown_fields() {
    let mut odd = claim("a");
    odd["spec"]["newField"] = json!(1);
    odd["apiVersion"] = json!("v1");
    odd["kind"] = json!("PersistentVolumeClaim");
    insta::assert_snapshot!(claims(json!([odd])), @"warning[unknown-field] spec.resourceTemplates.volumeClaimTemplates[0].spec.newField: unknown field `newField` (known fields are accessModes, dataSource, dataSourceRef, resources, selector, storageClassName, volumeAttributesClassName, volumeMode, volumeName)");
    insta::assert_snapshot!(says_under(&Limits::kubernetes().strict(), [("spec.resourceTemplates.volumeClaimTemplates", json!([odd]))]), @"error[unknown-field] spec.resourceTemplates.volumeClaimTemplates[0].spec.newField: unknown field `newField` (known fields are accessModes, dataSource, dataSourceRef, resources, selector, storageClassName, volumeAttributesClassName, volumeMode, volumeName)");
    insta::assert_snapshot!(says([("spec.resourceTemplates.configMapTemplates", json!([{"kind": "Secret", "apiVersion": "v2", "metadata": {"name": "m", "labels": {"a": 1}}, "data": []}, "x"]))]), @r#"
    error[value] spec.resourceTemplates.configMapTemplates[0].data: expected a mapping of texts, found a list (remove the `- `: the fields belong directly below this one)
    error[value] spec.resourceTemplates.configMapTemplates[0].metadata.labels.a: expected text, found the number 1 (put it in quotes: "1")
    error[value] spec.resourceTemplates.configMapTemplates[0].apiVersion: `apiVersion` is `v2` (write apiVersion: v1, or leave it out)
    error[value] spec.resourceTemplates.configMapTemplates[0].kind: `kind` is `Secret` (write kind: ConfigMap, or leave it out)
    error[value] spec.resourceTemplates.configMapTemplates[1]: expected a mapping, found the text `x`
    error[value] spec.resourceTemplates.configMapTemplates[1].metadata.name: the template has no name (give it a `metadata.name`; the object will be called <flow>-<name>)
    "#);
}
