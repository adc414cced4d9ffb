//! Tests of secret placement: what a Job looks like, and what is refused where.

use proptest::prelude::*;

use super::*;
use crate::params::substitute::uses_in;
use crate::params::tree::testing::{nested, trees};

fn key_ref(name: &str, key: &str) -> KeyRef {
    KeyRef { name: name.into(), key: key.into(), optional: None }
}

fn scope() -> Scope {
    let mut scope = Scope::new();
    scope.bind("tag", "v1");
    scope.bind_secret("token", key_ref("api", "token"));
    scope.bind_secret("same", key_ref("api", "token"));
    scope.bind_secret("password", key_ref("db", "password"));
    scope.bind_secret("maybe", KeyRef { optional: Some(true), ..key_ref("api", "maybe") });
    scope
}

fn job(container: &Value) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": {"containers": [container]}}}})
}

/// The first container after substitution.
fn container(container: &Value) -> Value {
    scope().fill_template(&job(container)).unwrap()["spec"]["template"]["spec"]["containers"][0].take()
}

fn refusal(template: &Value) -> String {
    scope().fill_template(template).unwrap_err().to_string()
}

#[test]
fn an_env_value_of_one_placeholder_becomes_a_secret_key_ref() {
    for notation in ["{{.parameters.token}}", "{{parameters.token}}", "${parameters.token}"] {
        let got = container(&json!({"name": "main", "env": [
            {"name": "TAG", "value": "${parameters.tag}"},
            {"name": "TOKEN", "value": notation},
        ]}));
        assert_eq!(
            got,
            json!({"name": "main", "env": [
                {"name": "TAG", "value": "v1"},
                {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "api", "key": "token"}}},
            ]})
        );
    }
}

#[test]
fn elsewhere_a_variable_is_placed_first() {
    let got = container(&json!({
        "name": "main",
        "command": ["run", "--token=${parameters.token}", "${parameters.password}"],
        "args": ["{{.parameters.same}}", "${parameters.tag}"],
        "env": [
            {"name": "URL", "value": "https://u:${parameters.password}@db/${parameters.tag}"},
            {"name": "TOKEN", "value": "${parameters.token}"},
        ],
    }));
    assert_eq!(
        got,
        json!({
            "name": "main",
            "command": ["run", "--token=$(ORLOP_SECRET_0)", "$(ORLOP_SECRET_1)"],
            "args": ["$(ORLOP_SECRET_0)", "v1"],
            "env": [
                {"name": "ORLOP_SECRET_0", "valueFrom": {"secretKeyRef": {"name": "api", "key": "token"}}},
                {"name": "ORLOP_SECRET_1", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}},
                {"name": "URL", "value": "https://u:$(ORLOP_SECRET_1)@db/v1"},
                {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "api", "key": "token"}}},
            ],
        })
    );
}

#[test]
fn a_container_without_env_gets_one() {
    for env in [
        json!({"name": "a", "args": ["${parameters.token}"]}),
        json!({"name": "a", "env": null, "args": ["${parameters.token}"]}),
    ] {
        let got = container(&env);
        assert_eq!(got["args"], json!(["$(ORLOP_SECRET_0)"]));
        assert_eq!(got["env"][0]["name"], "ORLOP_SECRET_0");
    }
}

#[test]
fn init_containers_are_served_and_each_container_has_its_own_variables() {
    let pod = json!({
        "initContainers": [{"name": "i", "args": ["${parameters.password}"]}],
        "containers": [{"name": "a", "args": ["x"]}, {"name": "b", "args": ["${parameters.token}"]}],
    });
    let got = scope().fill_template(&json!({"spec": {"template": {"spec": pod}}})).unwrap();
    let pod = &got["spec"]["template"]["spec"];
    assert_eq!(pod["initContainers"][0]["args"][0], "$(ORLOP_SECRET_0)");
    assert_eq!(pod["initContainers"][0]["env"][0]["valueFrom"]["secretKeyRef"]["name"], "db");
    assert_eq!(pod["containers"][0], json!({"name": "a", "args": ["x"]}));
    assert_eq!(pod["containers"][1]["env"][0]["valueFrom"]["secretKeyRef"]["name"], "api");
}

#[test]
fn a_variable_never_takes_a_name_of_the_container() {
    let got =
        container(&json!({"args": ["${parameters.token}"], "env": [{"name": "ORLOP_SECRET_0", "value": "mine"}]}));
    assert_eq!(got["args"], json!(["$(ORLOP_SECRET_1)"]));
    assert_eq!(got["env"][0]["name"], "ORLOP_SECRET_1");
    assert_eq!(got["env"][1], json!({"name": "ORLOP_SECRET_0", "value": "mine"}));
}

#[test]
fn a_reference_inside_a_shell_substitution_is_still_expanded() {
    let got = container(&json!({"command": ["sh", "-c", "x=$(curl -H ${parameters.token} $${parameters.tag})"]}));
    assert_eq!(got["command"][2], "x=$$(curl -H $(ORLOP_SECRET_0) $v1)");
}

#[test]
fn an_optional_secret_stays_optional_and_reads_empty_inside_text() {
    let got =
        container(&json!({"args": ["a${parameters.maybe}"], "env": [{"name": "M", "value": "${parameters.maybe}"}]}));
    let source = json!({"secretKeyRef": {"name": "api", "key": "maybe", "optional": true}});
    assert_eq!(
        got["env"],
        json!([
            {"name": "ORLOP_SECRET_0", "value": ""},
            {"name": "ORLOP_SECRET_0", "valueFrom": source},
            {"name": "M", "valueFrom": source},
        ])
    );
}

#[test]
fn secrets_are_refused_everywhere_else_with_the_field() {
    let secret = "${parameters.token}";
    for (refused, field) in [
        (json!({"metadata": {"labels": {"a.b/c": secret}}}), "metadata.labels[\"a.b/c\"]"),
        (job(&json!({"image": secret})), "spec.template.spec.containers[0].image"),
        (job(&json!({"name": secret})), "spec.template.spec.containers[0].name"),
        (job(&json!({"workingDir": secret})), "spec.template.spec.containers[0].workingDir"),
        (job(&json!({"env": [{"name": secret, "value": ""}]})), "spec.template.spec.containers[0].env[0].name"),
        (
            job(&json!({"env": [{"valueFrom": {"fieldRef": {"fieldPath": secret}}}]})),
            "spec.template.spec.containers[0].env[0].valueFrom.fieldRef.fieldPath",
        ),
        (job(&json!({"env": [{"value": [secret]}]})), "spec.template.spec.containers[0].env[0].value[0]"),
        (job(&json!({"command": secret})), "spec.template.spec.containers[0].command"),
        (
            job(&json!({"lifecycle": {"preStop": {"exec": {"command": [secret]}}}})),
            "spec.template.spec.containers[0].lifecycle.preStop.exec.command[0]",
        ),
        (
            json!({"spec": {"template": {"spec": {"ephemeralContainers": [{"args": [secret]}]}}}}),
            "spec.template.spec.ephemeralContainers[0].args[0]",
        ),
        (json!({"containers": [{"args": [secret]}]}), "containers[0].args[0]"),
        (json!(secret), ""),
    ] {
        let error = scope().fill_template(&refused).unwrap_err();
        assert_eq!((error.field.as_str(), error.fault), (field, Fault::Secret { name: "token".into() }));
        let listed = misplaced_secrets(&refused, &|name| name == "token");
        assert_eq!(listed, [Use { name: "token", field: field.to_owned() }]);
        assert_eq!(misplaced_secrets(&refused, &|_| false), []);
    }
    insta::assert_snapshot!(refusal(&job(&json!({"image": "a:${parameters.token}"}))), @"spec.template.spec.containers[0].image: parameter `token` is a secret and is not allowed here; use it in a variable of a container (`env`)");
}

#[test]
fn secrets_in_env_values_command_and_args_are_not_misplaced() {
    let template = job(&json!({
        "command": ["${parameters.token}"], "args": ["x", "-${parameters.token}"],
        "env": [{"name": "A", "value": "x${parameters.token}"}],
    }));
    assert_eq!(misplaced_secrets(&template, &|_| true), []);
}

#[test]
fn malformed_containers_are_refused_with_the_field() {
    insta::assert_snapshot!(refusal(&job(&json!({"args": ["${parameters.token}"], "env": "x"}))), @"spec.template.spec.containers[0].env: it must be a list, because the container uses a secret parameter");
    insta::assert_snapshot!(refusal(&job(&json!({"args": ["${parameters.gone}"]}))), @"spec.template.spec.containers[0].args[0]: parameter `gone` has no value; declare it as a flow parameter or an input of the step");
    insta::assert_snapshot!(refusal(&nested(200, "${parameters.token}")), @"it is deeper than 128 levels; flatten it");
}

#[test]
fn without_parameters_the_template_is_untouched() {
    let template = job(&json!({"args": ["${parameters.token}"]}));
    assert_eq!(Scope::new().fill_template(&template).unwrap(), template);
}

proptest! {
    #[test]
    fn without_secrets_a_template_is_a_plain_tree(tree in trees("(\\$\\{parameters\\.tag\\}|[a-z$({})]{0,3}){0,3}".boxed())) {
        let template = json!({"spec": {"template": {"spec": {"containers": [{"args": [tree.clone()], "env": tree}]}}}});
        prop_assert_eq!(scope().fill_template(&template).unwrap(), scope().fill_tree(&template).unwrap());
    }

    #[test]
    fn any_shape_of_template_is_survived(
        tree in trees("(\\$\\{parameters\\.(token|tag)\\}|value|env|args|x){0,2}".boxed()),
        field in "(env|args|command|containers)",
    ) {
        let template = job(&json!({field: tree}));
        if let Ok(job) = scope().fill_template(&template) {
            prop_assert!(uses_in(&job).is_empty(), "{}", job);
        }
    }
}
