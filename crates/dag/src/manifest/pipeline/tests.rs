//! The table, member by member.

use std::fmt::Write as _;

use orlop_core::spec::policy::{ConcurrencyPolicy, FailurePolicy};
use serde_json::{Value, json};

use super::*;
use crate::manifest::testing::lines;
use crate::manifest::{Form, Options, read};

fn options(limits: Limits) -> Options {
    Options::new(limits)
}

/// The flow of a pipeline off Kubernetes.
fn flow(pipeline: &Value) -> JobFlow {
    match read("p.json", pipeline.to_string(), &options(Limits::elsewhere())) {
        Ok(mut reading) => reading.manifests.remove(0).flow,
        Err(report) => panic!("{report}"),
    }
}

fn errors_under(limits: Limits, pipeline: &Value) -> String {
    match read("p.json", pipeline.to_string(), &options(limits)) {
        Ok(reading) => lines(&reading.warnings.violations),
        Err(report) => lines(&report.violations),
    }
}

fn errors(pipeline: &Value) -> String {
    errors_under(Limits::elsewhere(), pipeline)
}

fn pipeline(job: Value) -> Value {
    let mut spec = json!({"command": ["train"]});
    if let (Value::Object(spec), Value::Object(job)) = (&mut spec, job) {
        spec.extend(job);
    }
    json!({"name": "Nightly ETL", "steps": [{"name": "Train Model", "job_spec": spec}]})
}

#[test]
fn a_full_pipeline_becomes_this_flow() {
    let pipeline = json!({
        "name": "Nightly ETL",
        "description": "moves data",
        "x-team": "data",
        "variables": {"env": "prod", "day": "1"},
        "steps": [
            {"name": "Load", "job_spec": {"image": "etl:1", "command": ["load", "${parameters.day}"], "resources": {"cpu_m": 500, "memory_mb": 0, "gpu": 1},
                "timeout_ms": 1500, "retries": 2, "env": {"B": "x", "A": "{{.parameters.env}}"}, "secret_refs": ["db", "api/access-key", "TOKEN=api/token"]}},
            {"name": "Train Model", "depends_on": ["Load"], "job_spec": {"command": ["train"], "x-note": 1}},
        ],
    });
    let JobFlow { metadata, mut spec, .. } = flow(&pipeline);
    let steps = std::mem::take(&mut spec.steps);
    insta::assert_snapshot!(serde_json::to_string(&metadata).unwrap(), @r#"{"generateName":"nightly-etl-","annotations":{"workflow.kube-zen.io/description":"moves data","workflow.kube-zen.io/original-name":"Nightly ETL"}}"#);
    insta::assert_snapshot!(serde_json::to_string(&spec).unwrap(), @r#"{"steps":[],"executionPolicy":{"concurrencyPolicy":"Allow","backoffLimit":6,"failurePolicy":"FailFast"},"parameters":[{"name":"day","value":"1"},{"name":"env","value":"prod"}]}"#);
    insta::assert_snapshot!(serde_json::to_string(&steps[0]).unwrap(), @r#"{"name":"load","retryPolicy":{"limit":2},"timeoutSeconds":2,"template":{"apiVersion":"batch/v1","kind":"Job","spec":{"backoffLimit":0,"template":{"spec":{"containers":[{"command":["load","${parameters.day}"],"env":[{"name":"A","value":"{{.parameters.env}}"},{"name":"B","value":"x"},{"name":"ACCESS_KEY","valueFrom":{"secretKeyRef":{"key":"access-key","name":"api"}}},{"name":"TOKEN","valueFrom":{"secretKeyRef":{"key":"token","name":"api"}}}],"envFrom":[{"secretRef":{"name":"db"}}],"image":"etl:1","name":"main","resources":{"limits":{"cpu":"500m","nvidia.com/gpu":"1"},"requests":{"cpu":"500m","nvidia.com/gpu":"1"}}}],"restartPolicy":"Never"}}}}}"#);
    insta::assert_snapshot!(serde_json::to_string(&steps[1]).unwrap(), @r#"{"name":"train-model","dependencies":["load"],"timeoutSeconds":300,"template":{"apiVersion":"batch/v1","kind":"Job","spec":{"backoffLimit":0,"template":{"spec":{"containers":[{"command":["train"],"name":"main"}],"restartPolicy":"Never"}}}}}"#);
}

#[test]
fn names_are_slugs() {
    assert_eq!(slug("  Train/Model_v2  "), "train-model-v2");
    assert_eq!(slug("Größe"), "gr--e");
    assert_eq!(slug("!!!"), "");
    assert_eq!(
        flow_name(&"ab ".repeat(40), "12345678-90ab"),
        format!("{}-12345678", "ab-".repeat(17).get(..50).unwrap())
    );
    let mut steps = pipeline(json!({}));
    steps["steps"] = json!([{"name": "a b", "job_spec": {"command": ["x"]}}, {"name": "A_B", "job_spec": {"command": ["x"]}}, {"name": "a b", "job_spec": {"command": ["x"]}}, {"name": "?", "job_spec": {"command": ["x"]}}]);
    insta::assert_snapshot!(errors(&steps), @"
    error[pipeline] steps[1].name: the steps `a b` and `A_B` are both called `a-b` in the flow (rename one of them; case and signs do not count)
    error[pipeline] steps[2].name: the steps `A_B` and `a b` are both called `a-b` in the flow (rename one of them; case and signs do not count)
    error[pipeline] steps[3].name: the step name `?` has no letter a–z and no digit (use at least one)
    ");
    let mut unnamed = pipeline(json!({}));
    unnamed["name"] = json!("**");
    insta::assert_snapshot!(errors(&unnamed), @"error[pipeline] name: the name `**` has no letter a–z and no digit (use at least one)");
}

#[test]
fn answers_use_the_original_names() {
    let reading = read("p.json", pipeline(json!({})).to_string(), &options(Limits::elsewhere())).unwrap();
    let manifest = reading.manifests.first().unwrap();
    assert_eq!(
        (manifest.form, manifest.step_name("train-model"), manifest.step_name("other")),
        (Form::Pipeline, "Train Model", "other")
    );
}

#[test]
fn dependencies_name_steps_in_their_original_spelling() {
    let mut steps = pipeline(json!({}));
    steps["steps"][0]["depends_on"] = json!(["train model", "Lode"]);
    steps["steps"].as_array_mut().unwrap().push(json!({"name": "Load", "job_spec": {"command": ["x"]}}));
    insta::assert_snapshot!(errors(&steps), @"
    error[pipeline] steps[0].depends_on[0]: there is no step `train model` (did you mean `Train Model`?)
    error[pipeline] steps[0].depends_on[1]: there is no step `Lode`
    ");
}

#[test]
fn fixed_members() {
    let policy = |retries: &[i32]| {
        let steps: Vec<Value> = retries
            .iter()
            .enumerate()
            .map(|(n, retries)| json!({"name": format!("s{n}"), "job_spec": {"command": ["x"], "retries": retries}}))
            .collect();
        flow(&json!({"name": "p", "steps": steps})).spec.execution_policy.unwrap()
    };
    let small = policy(&[0, 2]);
    assert_eq!(
        (small.concurrency_policy, small.failure_policy, small.backoff_limit),
        (Some(ConcurrencyPolicy::Allow), Some(FailurePolicy::FailFast), Some(6))
    );
    assert_eq!(policy(&[5, 4]).backoff_limit, Some(9));
    assert_eq!(policy(&[i32::MAX, i32::MAX]).backoff_limit, Some(i32::MAX));
}

#[test]
fn timeouts_are_exact_and_rounded_up() {
    let of = |job: Value| {
        let step = flow(&pipeline(job)).spec.steps.remove(0);
        (step.timeout_millis, step.timeout_seconds)
    };
    assert_eq!(of(json!({})), (Some(300_000), Some(300)));
    assert_eq!(of(json!({"timeout_ms": 0})), (Some(300_000), Some(300)));
    assert_eq!(of(json!({"timeout_ms": 1})), (Some(1), Some(1)));
    assert_eq!(of(json!({"timeout_ms": 1001})), (Some(1001), Some(2)));
    insta::assert_snapshot!(errors(&pipeline(json!({"timeout_ms": 2_592_000_001_i64}))), @"error[value] steps[0].job_spec.timeout_ms: a timeout of 2592001 seconds (use 1 to 2592000 (30 days), or leave it out for none)");
}

#[test]
fn retries_have_no_backoff_block_and_zero_is_none() {
    let of = |job: Value| flow(&pipeline(job)).spec.steps.remove(0).retry_policy;
    assert_eq!((of(json!({})), of(json!({"retries": 0}))), (None, None));
    let policy = of(json!({"retries": 3})).unwrap();
    assert_eq!((policy.limit, policy.backoff), (Some(3), None));
}

#[test]
fn wrong_members_are_refused_with_their_own_names() {
    insta::assert_snapshot!(errors(&json!({"name": "p", "owner": "me", "steps": [{"name": "a", "dependencies": [], "job_spec": {"command": "x", "timeout": 5}}]})), @"
    error[unknown-field] owner: unknown field `owner` (known fields are description, name, steps, variables, x-*)
    error[unknown-field] steps[0].dependencies: unknown field `dependencies` (did you mean `depends_on`?)
    error[pipeline] steps[0].job_spec.command: expected a list of texts, found the text `x` (write a list: one item per line, each after `- `, or [a, b])
    error[unknown-field] steps[0].job_spec.timeout: unknown field `timeout` (did you mean `timeout_ms`?)
    ");
    let actions =
        json!({"name": "p", "steps": [{"name": "a", "run": "make", "retry": 2, "job_spec": {"command": ["x"]}}]});
    insta::assert_snapshot!(errors(&actions), @"
    error[unknown-field] steps[0].retry: unknown field `retry` (write it as job_spec: {retries: N})
    error[unknown-field] steps[0].run: unknown field `run` (write it as job_spec: {command: [sh, -c, '...']})
    ");
    insta::assert_snapshot!(errors(&json!({"steps": [{"job_spec": {}}]})), @"
    error[pipeline] name: `name` is missing (it must be text)
    error[pipeline] steps[0].job_spec.command: `command` is missing (it must be a list of texts)
    error[pipeline] steps[0].name: `name` is missing (it must be text)
    ");
    insta::assert_snapshot!(errors(&pipeline(json!({"command": [], "timeout_ms": -1, "retries": -2, "resources": {"cpu_m": -1, "memory_mb": 1.5}, "env": {"A": 1}}))), @r#"
    error[pipeline] steps[0].job_spec.command: the command is empty (list the program and its arguments; there is no shell around them)
    error[pipeline] steps[0].job_spec.env.A: expected text, found the number 1 (put it in quotes: "1")
    error[pipeline] steps[0].job_spec.resources.cpu_m: -1 is negative (use 0 or more; 0 means the default)
    error[pipeline] steps[0].job_spec.resources.memory_mb: expected a whole number of 64 bits, found the number 1.5
    error[pipeline] steps[0].job_spec.retries: -2 is negative (use 0 or more; 0 means the default)
    error[pipeline] steps[0].job_spec.timeout_ms: -1 is negative (use 0 or more; 0 means the default)
    "#);
    insta::assert_snapshot!(errors(&pipeline(json!({"command": [], "timeout_ms": -1, "retries": -2, "resources": {"cpu_m": -1, "gpu": -1}, "env": {"A=B": "x", "": "y"}}))), @r#"
    error[pipeline] steps[0].job_spec.command: the command is empty (list the program and its arguments; there is no shell around them)
    error[pipeline] steps[0].job_spec.env[""]: `` is not a valid variable name (use letters, digits and `_`)
    error[pipeline] steps[0].job_spec.env["A=B"]: `A=B` is not a valid variable name (use letters, digits and `_`)
    error[pipeline] steps[0].job_spec.resources.cpu_m: -1 is negative (use 0 or more; 0 means the default)
    error[pipeline] steps[0].job_spec.resources.gpu: -1 is negative (use 0 or more; 0 means the default)
    error[pipeline] steps[0].job_spec.retries: -2 is negative (use 0 or more; 0 means the default)
    error[pipeline] steps[0].job_spec.timeout_ms: -1 is negative (use 0 or more; 0 means the default)
    "#);
    insta::assert_snapshot!(errors(&pipeline(json!({"secret_refs": ["", "a/", "/b", "X=y", "=a/b", "a/key", "KEY=a/c"]}))), @"
    error[pipeline] steps[0].job_spec.secret_refs[0]: `` names no secret (write `secret` for all its keys, `secret/key`, or `ENV=secret/key`)
    error[pipeline] steps[0].job_spec.secret_refs[1]: `a/` names no secret (write `secret` for all its keys, `secret/key`, or `ENV=secret/key`)
    error[pipeline] steps[0].job_spec.secret_refs[2]: `/b` names no secret (write `secret` for all its keys, `secret/key`, or `ENV=secret/key`)
    error[pipeline] steps[0].job_spec.secret_refs[3]: `X=y` names no secret (write `secret` for all its keys, `secret/key`, or `ENV=secret/key`)
    error[pipeline] steps[0].job_spec.secret_refs[4]: `` is not a valid variable name (use letters, digits and `_`)
    error[pipeline] steps[0].job_spec.secret_refs[6]: the variable `KEY` is set twice (write OTHER_NAME=secret/key)
    ");
    insta::assert_snapshot!(errors(&json!({"name": "p", "steps": []})), @"error[value] steps: the flow has no steps (list at least one step)");
}

#[test]
fn rules_of_flows_speak_of_the_pipeline() {
    let mut bad =
        pipeline(json!({"env": {"B": "${parameters.dya}", "A": "x"}, "secret_refs": ["s", "s/k"], "image": ""}));
    bad["variables"] = json!({"my_var": "x", "day": "1"});
    insta::assert_snapshot!(errors(&bad), @"
    error[placeholder] steps[0].job_spec.env.B: there is no parameter `dya` (did you mean `day`?)
    error[container] steps[0].job_spec.image: the container has no image (name one, such as busybox:1.36)
    error[parameter] variables.my_var: character '_' at position 3 of parameter name `my_var` is not allowed (use letters, digits, `-` and `.`, such as `my-var`)
    ");
    let mut long = pipeline(json!({}));
    long["steps"][0]["name"] = json!("x".repeat(300));
    insta::assert_snapshot!(errors(&long), @"error[value] steps[0].name: step name `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…` is not valid: it is 300 bytes long, at most 253 are allowed");
}

#[test]
fn images_are_optional_off_kubernetes() {
    assert_eq!(errors(&pipeline(json!({}))), "");
    insta::assert_snapshot!(errors_under(Limits::kubernetes(), &pipeline(json!({}))), @"error[container] steps[0].job_spec.image: the container has no image (name one, such as busybox:1.36)");
    let mut with_default = Limits::kubernetes();
    with_default.image_optional = true;
    assert_eq!(errors_under(with_default, &pipeline(json!({}))), "");
}

#[test]
fn places_are_those_of_the_file() {
    let text = "name: p\nvariables:\n  a_b: x\nsteps:\n- name: one\n  job_spec:\n    command: [x]\n    env:\n      A: ${parameters.nothing}\n";
    let report = read("p.yaml", text, &options(Limits::elsewhere())).unwrap_err();
    let mut places = String::new();
    for violation in &report.violations {
        let at = violation.at.as_ref().unwrap();
        writeln!(places, "{}:{} {}", at.line, at.column, violation.path).unwrap();
    }
    insta::assert_snapshot!(places, @"
    3:8 variables.a_b
    9:10 steps[0].job_spec.env.A
    ");
}
