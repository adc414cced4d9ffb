//! What attempts are given: parameters, artifacts, names.

use orlop_core::attempt::{ArtifactSource, AttemptSpec};
use orlop_core::error::{Class, PARAMETERS};
use orlop_core::testing::substrate::{Call, Play, When};
use serde_json::{Value, json};

use super::bench::{Bench, UID, job, outcome};
use crate::host::flow::FlowHost;

fn spec_of(bench: &Bench, name: &str) -> AttemptSpec {
    let calls = bench.substrate.calls();
    let start = calls.iter().filter_map(|call| match call {
        Call::Start(key) if key.instance() == name => Some(key.clone()),
        _ => None,
    });
    let key = start.reduce(|_, later| later).unwrap();
    bench.substrate.spec(&key).unwrap()
}

fn container(spec: &AttemptSpec) -> &Value {
    spec.template.pointer("/spec/template/spec/containers/0").unwrap()
}

#[tokio::test(start_paused = true)]
async fn parameters_arrive_and_secrets_stay_references() {
    let bench = Bench::new();
    bench.substrate.script(When::step("a"), Play::success().file("out", "42"));
    let main = json!({
        "image": "i:${parameters.tag}", "args": ["${parameters.from-a}", "${parameters.mode}", "${parameters.pass}"],
        "env": [{"name": "KEY", "value": "${parameters.key}"}],
    });
    let mut host = bench
        .submit_with(
            json!({
                "parameters": [
                    {"name": "tag", "value": "v1"}, {"name": "mode"},
                    {"name": "key", "valueFrom": {"secretKeyRef": {"name": "vault", "key": "k"}}},
                    {"name": "size", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "size"}}},
                ],
                "resourceTemplates": {"configMapTemplates": [
                    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"size": "9"}},
                ]},
                "steps": [
                    {"name": "a", "outputs": {"parameters": [{"name": "out", "valueFrom": {"path": "/o"}}]}},
                    {"name": "b", "template": job(main), "inputs": {"parameters": [
                        {"name": "from-a", "valueFrom": {"jsonPath": "a:$.outputs.out"}},
                        {"name": "mode", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "size"}}},
                        {"name": "pass", "valueFrom": {"secretKeyRef": {"name": "vault", "key": "p"}}},
                    ]}},
                ],
            }),
            &[("mode", "fast")],
        )
        .await
        .unwrap();
    host.run().await.unwrap();
    insta::assert_snapshot!(outcome(&host.status()), @"
    Succeeded
    a Succeeded 1
    b Succeeded 1
    ");
    assert_eq!(host.state().meta().parameters.get("size").unwrap(), "9");
    assert!(!host.state().meta().parameters.contains_key("key"));
    let spec = spec_of(&bench, "b");
    insta::assert_snapshot!(container(&spec), @r#"{"args":["42","9","$(ORLOP_SECRET_0)"],"command":["true"],"env":[{"name":"ORLOP_SECRET_0","valueFrom":{"secretKeyRef":{"key":"p","name":"vault"}}},{"name":"KEY","valueFrom":{"secretKeyRef":{"key":"k","name":"vault"}}}],"image":"i:v1","name":"main"}"#);
    assert_eq!(spec.job_name, "etl-b-0123abcd");
}

#[tokio::test(start_paused = true)]
async fn presence_names_and_choices_are_checked_at_submission() {
    let spec = json!({
        "parameters": [
            {"name": "env", "enum": ["dev", "prod"], "description": "where to deploy"},
            {"name": "key", "valueFrom": {"secretKeyRef": {"name": "vault", "key": "k"}}},
        ],
        "steps": [{"name": "a"}],
    });
    let refused = async |given: &[(&str, &str)]| match Bench::new().submit_with(spec.clone(), given).await {
        Err(error) => {
            assert_eq!((error.class, error.fields[0].path.as_str()), (Class::Invalid, PARAMETERS));
            error.to_string()
        }
        Ok(_) => "accepted".to_owned(),
    };
    assert_eq!(refused(&[("env", "dev")]).await, "accepted");
    insta::assert_snapshot!(refused(&[]).await, @"parameter `env` needs a value (where to deploy)");
    insta::assert_snapshot!(refused(&[("env", "test")]).await, @"parameter `env` cannot be `test`; give one of dev, prod");
    insta::assert_snapshot!(refused(&[("env", "dev"), ("evn", "x")]).await, @"the flow has no parameter `evn`; it has env, key");
    insta::assert_snapshot!(refused(&[("env", "dev"), ("key", "x")]).await, @"parameter `key` is a secret and cannot be given as text; put it where Secrets are looked up");
}

#[tokio::test(start_paused = true)]
async fn an_unresolved_parameter_fails_the_step_and_nothing_starts() {
    let bench = Bench::new();
    let status = bench
        .run(json!({"steps": [
            {"name": "a", "continueOnFailure": true},
            {"name": "b", "dependencies": ["a"], "retryPolicy": {"limit": 1}, "inputs": {"parameters": [
                {"name": "x", "valueFrom": {"jsonPath": "a:$.nothing"}},
            ]}},
            {"name": "c", "retryPolicy": {"limit": 1}, "continueOnFailure": true, "inputs": {"parameters": [
                {"name": "x", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "k"}}},
            ]}},
        ], "executionPolicy": {"failurePolicy": "Continue"}}))
        .await;
    insta::assert_snapshot!(outcome(&status), @"
    Failed
    a Succeeded 1
    b Failed/ParameterUnresolved 1
    c Failed/ParameterUnresolved 2
    ");
    insta::assert_snapshot!(status.steps[1].message, @"parameter `x`: step a has nothing at `$.nothing`: the path selects nothing");
    insta::assert_snapshot!(status.steps[2].message, @"parameter `x`: ConfigMap `none` does not exist; create it, or mark the reference `optional: true`");
    insta::assert_snapshot!(bench.calls(), @"start a/1");
}

#[tokio::test(start_paused = true)]
async fn artifacts_are_delivered_from_steps_and_from_every_instance() {
    let bench = Bench::new();
    let data = json!({"artifacts": [{"name": "data", "path": "/out"}]});
    bench.substrate.script(When::step("many").item(1), Play::exit(1));
    let status = bench
        .run(json!({"executionPolicy": {"failurePolicy": "Continue"}, "parameters": [{"name": "v", "value": "7"}], "steps": [
            {"name": "one", "outputs": data},
            {"name": "many", "withItems": [1, 2, 3], "continueOnFailure": true, "outputs": data},
            {"name": "use", "inputs": {"artifacts": [
                {"name": "x", "from": "one"},
                {"name": "y", "from": "many/data", "path": "/in/", "unpack": false},
                {"name": "z", "http": {"url": "https://h/${parameters.v}", "headers": {"A": "${parameters.v}"}}},
            ]}},
            {"name": "broken", "continueOnFailure": true},
            {"name": "late", "inputs": {"artifacts": [{"name": "x", "from": "skipped"}]}},
            {"name": "skipped", "when": "false", "outputs": data},
        ]}))
        .await;
    insta::assert_snapshot!(outcome(&status), @"
    Failed
    one Succeeded 1
    many Failed/NonZeroExit 0
    many-i0 Succeeded 1
    many-i1 Failed/NonZeroExit 1
    many-i2 Succeeded 1
    use Succeeded 1
    broken Succeeded 1
    late Failed/ArtifactUnavailable 1
    skipped Skipped/ConditionFalse 0
    ");
    insta::assert_snapshot!(status.steps.iter().find(|step| step.name == "late").unwrap().message, @"artifact `x`: step skipped has stored no artifact at all; it is Skipped/ConditionFalse");
    let spec = spec_of(&bench, "use");
    let shown = |source: &ArtifactSource| match source {
        ArtifactSource::Stored { location, .. } => location.kind.clone(),
        ArtifactSource::Http(http) => format!("{} {:?}", http.url, http.headers),
    };
    let lines: Vec<String> = spec
        .inputs
        .iter()
        .map(|input| format!("{} {} {} {}", input.name, input.path, input.unpack, shown(&input.source)))
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    x /tmp/artifacts/x true memory
    y /in/0 false memory
    y /in/2 false memory
    z /tmp/artifacts/z true https://h/7 {"A": "7"}
    "#);
}

#[tokio::test(start_paused = true)]
async fn a_resource_of_somebody_else_ends_the_flow() {
    let bench = Bench::new();
    bench.substrate.occupy("default", "etl-settings");
    let status = bench
        .run(json!({
            "resourceTemplates": {"configMapTemplates": [{"metadata": {"name": "settings"}}]},
            "steps": [{"name": "a"}],
        }))
        .await;
    insta::assert_snapshot!(outcome(&status), @"
    Failed
    a Skipped/FlowFailed 0
    ");
    assert_eq!(status.conditions.iter().find(|c| c.kind == "Failed").unwrap().reason, "ResourceConflict");
}

#[tokio::test(start_paused = true)]
async fn annotations_of_the_object_decide_from_the_first_moment() {
    let bench = Bench::new();
    let mut flow = super::bench::flow(json!({"steps": [
        {"name": "new", "type": "Manual"}, {"name": "old", "type": "Manual", "dependencies": ["new"]},
    ]}));
    flow.metadata.annotations.insert("approved.workflow.kube-zen.io/new".into(), "true".into());
    flow.metadata.annotations.insert("workflow.kube-zen.io/approved/old".into(), "rejected".into());
    let submission = crate::host::flow::Submission::new(flow, UID);
    let mut host = FlowHost::submit(bench.parts(), submission, Vec::new()).await.unwrap();
    host.run().await.unwrap();
    insta::assert_snapshot!(outcome(&host.status()), @"
    Failed
    new Succeeded 0
    old Failed/Rejected 0
    ");
}
