//! Names of steps, parameters and artifacts, and the sources of the latter two.

use serde_json::{Value, json};

use crate::manifest::Limits;
use crate::manifest::testing::{says, says_under, step, step_with};

fn inputs(parameters: Value) -> String {
    says([("spec.steps.0.inputs.parameters", parameters)])
}

#[test]
fn step_names_are_dns_names_used_once() {
    insta::assert_snapshot!(says([("spec.steps.0.name", json!(" a")), ("spec.steps.-", step("B_b")), ("spec.steps.-", step("")), ("spec.steps.-", step("a..b"))]), @"
    error[value] spec.steps[0].name: the step name ` a` has blanks around it (write `a`)
    error[value] spec.steps[1].name: step name `B_b` is not valid: character 'B' at position 1 is not allowed (use lower case letters, digits, `-` and `.`)
    error[value] spec.steps[2].name: step name `` is not valid: it is empty (use lower case letters, digits, `-` and `.`)
    error[value] spec.steps[3].name: step name `a..b` is not valid: the part at position 3 is empty (write something between separators)
    ");
    insta::assert_snapshot!(says([("spec.steps.-", step("b")), ("spec.steps.-", step("a")), ("spec.steps.-", step("b"))]), @"
    error[value] spec.steps[2].name: the name `a` is that of spec.steps[0] already (rename one of them)
    error[value] spec.steps[3].name: the name `b` is that of spec.steps[1] already (rename one of them)
    ");
    assert_eq!(says([("spec.steps.0.name", json!(format!("a.{}", "b".repeat(251))))]), "");
}

#[test]
fn no_step_has_the_name_of_a_fan_out_instance() {
    insta::assert_snapshot!(says([("spec.steps.0.withItems", json!([1, 2])), ("spec.steps.-", step("a-i7")), ("spec.steps.-", step("a-ix")), ("spec.steps.-", step("b-i1"))]), @"error[name] spec.steps[1].name: `a-i7` is the name of an instance of the fan-out step `a` (rename this step)");
    assert_eq!(says([("spec.steps.-", step("a-i7"))]), "", "a does not fan out");
}

#[test]
fn shortened_names_do_not_collide() {
    let long = format!("{}-tail", "x".repeat(70));
    let short = orlop_core::name::short63(&long);
    insta::assert_snapshot!(says([("spec.steps.-", step(&long)), ("spec.steps.-", step(&short))]), @"error[name] spec.steps[2].name: the names `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-01f7cb79` and `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…` become the same when they are shortened (rename one of them, best below 45 characters)");
    assert_eq!(
        says([("spec.steps.-", step(&long)), ("spec.steps.-", step(&format!("{long}2")))]),
        "",
        "long names alone are fine"
    );
    let job = orlop_core::name::job("flow", &long, "00000000", 1, None);
    let same = job.strip_prefix("flow-").and_then(|rest| rest.strip_suffix("-00000000")).unwrap();
    insta::assert_snapshot!(says([("spec.steps.-", step(&long)), ("spec.steps.-", step(same))]), @"error[name] spec.steps[2].name: the names `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-a9ad11e5` and `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…` become the same when they are shortened (rename one of them, best below 45 characters)");
}

#[test]
fn names_are_unique_per_list() {
    insta::assert_snapshot!(inputs(json!([{"name": "p", "value": "1"}, {"name": "q", "value": "1"}, {"name": "p", "value": "2"}])), @"error[duplicate] spec.steps[0].inputs.parameters[2].name: the name `p` is that of item 0 of the list already (rename one of them)");
    insta::assert_snapshot!(says([("spec.parameters", json!([{"name": "p"}, {"name": "p"}]))]), @"error[duplicate] spec.parameters[1].name: the name `p` is that of item 0 of the list already (rename one of them)");
    insta::assert_snapshot!(says([("spec.steps.0.outputs", json!({
        "parameters": [{"name": "o", "valueFrom": {"path": "/a"}}, {"name": "o", "valueFrom": {"jsonPath": "$.b"}}],
        "artifacts": [{"name": "f", "path": "/a"}, {"name": "f", "path": "/b"}],
    }))]), @"
    error[duplicate] spec.steps[0].outputs.parameters[1].name: the name `o` is that of item 0 of the list already (rename one of them)
    error[duplicate] spec.steps[0].outputs.artifacts[1].name: the name `f` is that of item 0 of the list already (rename one of them)
    ");
    insta::assert_snapshot!(says([("spec.steps.0.inputs.artifacts", json!([{"name": "f", "http": {"url": "http://h/"}}, {"name": "f", "http": {"url": "http://h/"}}]))]), @"error[duplicate] spec.steps[0].inputs.artifacts[1].name: the name `f` is that of item 0 of the list already (rename one of them)");
}

#[test]
fn underscore_and_blank_are_refused_and_case_is_free() {
    insta::assert_snapshot!(inputs(json!([{"name": "a_b", "value": ""}, {"name": "a b", "value": ""}, {"name": "-a", "value": ""}, {"name": "", "value": ""}, {"name": "x".repeat(254), "value": ""}])), @"
    error[parameter] spec.steps[0].inputs.parameters[0].name: character '_' at position 2 of parameter name `a_b` is not allowed (use letters, digits, `-` and `.`, such as `a-b`)
    error[parameter] spec.steps[0].inputs.parameters[1].name: character ' ' at position 2 of parameter name `a b` is not allowed (use letters, digits, `-` and `.`, such as `a-b`)
    error[parameter] spec.steps[0].inputs.parameters[2].name: parameter name `-a` starts or ends with '-' (start and end with a letter or digit, such as `a`)
    error[parameter] spec.steps[0].inputs.parameters[3].name: the parameter name is empty (use letters, digits, `-` and `.`)
    error[parameter] spec.steps[0].inputs.parameters[4].name: the parameter name is 254 bytes long (use at most 253)
    ");
    assert_eq!(
        inputs(
            json!([{"name": "imageTag", "value": ""}, {"name": "a.b-C9", "value": ""}, {"name": "x".repeat(253), "value": ""}])
        ),
        ""
    );
}

#[test]
fn item_and_index_are_reserved() {
    insta::assert_snapshot!(inputs(json!([{"name": "item", "value": ""}, {"name": "item.x", "value": ""}, {"name": "index", "value": ""}])), @"
    error[parameter] spec.steps[0].inputs.parameters[0].name: parameter name `item` is reserved for fan-out (choose another name)
    error[parameter] spec.steps[0].inputs.parameters[1].name: parameter name `item.x` is reserved for fan-out (choose another name)
    error[parameter] spec.steps[0].inputs.parameters[2].name: parameter name `index` is reserved for fan-out (choose another name)
    ");
    assert_eq!(inputs(json!([{"name": "items", "value": ""}, {"name": "index.x", "value": ""}])), "");
    insta::assert_snapshot!(says([("spec.parameters", json!([{"name": "index"}]))]), @"error[parameter] spec.parameters[0].name: parameter name `index` is reserved for fan-out (choose another name)");
}

#[test]
fn inputs_have_exactly_one_source() {
    insta::assert_snapshot!(inputs(json!([
        {"name": "a"},
        {"name": "b", "value": "", "valueFrom": {"jsonPath": "x:$.y"}},
        {"name": "c", "valueFrom": {}},
        {"name": "d", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}, "secretKeyRef": {"name": "m", "key": "k"}}},
    ])), @"
    error[source] spec.steps[0].inputs.parameters[0]: the parameter has no value (give `value` or `valueFrom`)
    error[source] spec.steps[0].inputs.parameters[1]: the parameter has both `value` and `valueFrom` (keep one)
    error[source] spec.steps[0].inputs.parameters[2].valueFrom: `valueFrom` has 0 sources (give exactly one of jsonPath, configMapKeyRef, secretKeyRef and flow)
    error[source] spec.steps[0].inputs.parameters[3].valueFrom: `valueFrom` has 2 sources (give exactly one of jsonPath, configMapKeyRef, secretKeyRef and flow)
    ");
    insta::assert_snapshot!(says([("spec.steps.0.outputs.parameters", json!([{"name": "a", "valueFrom": {}}, {"name": "b", "valueFrom": {"path": "/x", "jsonPath": "$.x"}}]))]), @"
    error[source] spec.steps[0].outputs.parameters[0].valueFrom: `valueFrom` has 0 sources (give exactly one of jsonPath and path)
    error[source] spec.steps[0].outputs.parameters[1].valueFrom: `valueFrom` has 2 sources (give exactly one of jsonPath and path)
    ");
}

#[test]
fn flow_parameters_have_at_most_one_source_and_a_value_of_their_enum() {
    insta::assert_snapshot!(says([("spec.parameters", json!([
        {"name": "a", "value": "", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        {"name": "b", "valueFrom": {}},
        {"name": "c", "value": "prd", "enum": ["prod", "dev"]},
        {"name": "d", "enum": []},
    ]))]), @"
    error[source] spec.parameters[0]: the parameter has both `value` and `valueFrom` (keep one)
    error[source] spec.parameters[1].valueFrom: `valueFrom` has 0 sources (give exactly one of configMapKeyRef and secretKeyRef)
    error[value] spec.parameters[2].value: the value `prd` is not among those of `enum` (did you mean `prod`?)
    error[value] spec.parameters[3].enum: `enum` allows no value (list the values it may have, or remove it)
    ");
    assert_eq!(
        says([(
            "spec.parameters",
            json!([{"name": "a"}, {"name": "b", "value": "dev", "enum": ["prod", "dev"]}, {"name": "c", "enum": ["x"], "description": "d"}, {"name": "d", "value": ""}])
        )]),
        ""
    );
}

#[test]
fn references_name_object_and_key() {
    insta::assert_snapshot!(inputs(json!([{"name": "a", "valueFrom": {"configMapKeyRef": {"name": "", "key": "k"}}}, {"name": "b", "valueFrom": {"secretKeyRef": {"name": "s", "key": ""}}}])), @"
    error[value] spec.steps[0].inputs.parameters[0].valueFrom.configMapKeyRef: `valueFrom.configMapKeyRef` lacks `name` or `key` (give both)
    error[value] spec.steps[0].inputs.parameters[1].valueFrom.secretKeyRef: `valueFrom.secretKeyRef` lacks `name` or `key` (give both)
    ");
    insta::assert_snapshot!(says([("spec.parameters", json!([{"name": "a", "valueFrom": {"secretKeyRef": {"name": "", "key": ""}}}]))]), @"error[value] spec.parameters[0].valueFrom.secretKeyRef: `valueFrom.secretKeyRef` lacks `name` or `key` (give both)");
}

#[test]
fn artifacts_have_dns_names_and_exactly_one_source() {
    insta::assert_snapshot!(says([("spec.steps.0.inputs.artifacts", json!([
        {"name": "A_b", "http": {"url": "https://h/x"}},
        {"name": "b"},
        {"name": "c", "from": "a/x", "http": {"url": "https://h/x"}},
        {"name": "d", "http": {"url": "ftp://h/x"}},
        {"name": "e", "http": {"url": "https:///x"}},
        {"name": "f", "http": {"url": "https://h/a b"}},
        {"name": "g", "from": "/x"},
    ]))]), @"
    error[artifact] spec.steps[0].inputs.artifacts[0].name: artifact name `A_b` is not valid: character 'A' at position 1 is not allowed (use lower case letters, digits, `-` and `.`)
    error[artifact] spec.steps[0].inputs.artifacts[1]: the artifact has no source (give it `from` or `http`)
    error[artifact] spec.steps[0].inputs.artifacts[2]: the artifact has `from` and `http` (keep one of them)
    error[reference] spec.steps[0].inputs.artifacts[2].from: the step `a` has no output artifact `x` (declare it under outputs.artifacts of `a`)
    error[artifact] spec.steps[0].inputs.artifacts[3].http.url: `ftp://h/x` is not an http or https URL (begin it with https://)
    error[artifact] spec.steps[0].inputs.artifacts[4].http.url: the URL `https:///x` names no host
    error[artifact] spec.steps[0].inputs.artifacts[5].http.url: the URL `https://h/a b` holds blanks or control characters (write them as %20 and so on)
    error[artifact] spec.steps[0].inputs.artifacts[6].from: `from` names no step or no artifact (write it as step/artifact)
    error[cycle] spec.steps[0].dependencies: steps wait for each other in a cycle: a → a (remove one of these dependencies or references)
    ");
    assert_eq!(
        says([
            ("spec.parameters", json!([{"name": "base", "value": "https://h"}])),
            (
                "spec.steps.0.inputs.artifacts",
                json!([
                    {"name": "a", "http": {"url": "HTTPS://h/x?q=1"}},
                    {"name": "b", "http": {"url": "{{.parameters.base}}/x"}},
                ])
            )
        ]),
        ""
    );
}

#[test]
fn the_short_form_needs_a_step_with_one_artifact() {
    let producer = |number: usize| {
        let list: Vec<Value> =
            (0..number).map(|n| json!({"name": format!("f{n}"), "path": format!("/f{n}")})).collect();
        step_with("p", json!({"outputs": {"artifacts": list}}))
    };
    let of = |number: usize| {
        says([
            ("spec.steps.0.inputs.artifacts", json!([{"name": "x", "from": "p"}])),
            ("spec.steps.-", producer(number)),
        ])
    };
    insta::assert_snapshot!(of(0), @"error[artifact] spec.steps[0].inputs.artifacts[0].from: the step `p` has 0 output artifacts, so its name alone is not enough (declare the artifact under outputs.artifacts of `p`)");
    assert_eq!(of(1), "");
    insta::assert_snapshot!(of(2), @"error[artifact] spec.steps[0].inputs.artifacts[0].from: the step `p` has 2 output artifacts, so its name alone is not enough (write p/<artifact>, such as p/f0)");
}

#[test]
fn artifacts_come_from_declared_outputs() {
    let producer = step_with("prepare", json!({"outputs": {"artifacts": [{"name": "data", "path": "/d"}]}}));
    insta::assert_snapshot!(says([
        ("spec.steps.-", producer.clone()),
        ("spec.steps.0.inputs.artifacts", json!([{"name": "a", "from": "prepare/date"}, {"name": "b", "from": "preprae/data"}, {"name": "c", "from": "clean/logs"}])),
        ("spec.finally", json!([step_with("clean", json!({"outputs": {"artifacts": [{"name": "logs", "path": "/l"}]}}))])),
    ]), @"
    error[reference] spec.steps[0].inputs.artifacts[0].from: the step `prepare` has no output artifact `date` (did you mean `prepare/data`?)
    error[reference] spec.steps[0].inputs.artifacts[1].from: there is no step `preprae` (did you mean `prepare`?)
    error[reference] spec.steps[0].inputs.artifacts[2].from: the step `clean` is in `finally`, which runs after this one (take the artifact from a step of `steps`)
    ");
    assert_eq!(
        says([
            ("spec.steps.-", producer),
            ("spec.steps.0.inputs.artifacts", json!([{"name": "a", "from": "prepare/data"}]))
        ]),
        ""
    );
}

#[test]
fn paths_are_absolute_and_stay_inside() {
    insta::assert_snapshot!(says([
        ("spec.steps.0.inputs.artifacts", json!([{"name": "a", "http": {"url": "http://h/"}, "path": "x"}, {"name": "b", "http": {"url": "http://h/"}, "path": "/a/../b"}])),
        ("spec.steps.0.outputs", json!({"parameters": [{"name": "p", "valueFrom": {"path": "out"}}], "artifacts": [{"name": "c", "path": "/a\u{0}"}, {"name": "d", "path": ""}]})),
    ]), @r"
    error[unsafe-path] spec.steps[0].inputs.artifacts[0].path: the path `x` is not absolute (write the absolute path inside the container)
    error[unsafe-path] spec.steps[0].inputs.artifacts[1].path: the path `/a/../b` has a `..` component (write the absolute path inside the container)
    error[unsafe-path] spec.steps[0].outputs.artifacts[0].path: the path `/a\u{0}` holds a NUL byte (write the absolute path inside the container)
    error[value] spec.steps[0].outputs.artifacts[1].path: the artifact has no path (say where the step writes it)
    error[unsafe-path] spec.steps[0].outputs.parameters[0].valueFrom.path: the path `out` is not absolute (write the absolute path inside the container)
    ");
    assert_eq!(says([("spec.steps.0.outputs.artifacts", json!([{"name": "d", "path": "/..a/b.."}]))]), "");
}

#[test]
fn output_artifacts_have_archive_words_and_complete_stores() {
    insta::assert_snapshot!(says([("spec.steps.0.outputs.artifacts", json!([
        {"name": "a", "path": "/a", "archive": {"format": "rar", "compression": "bz2"}},
        {"name": "b", "path": "/b", "s3": {"endpoint": "e", "bucket": "b"}},
    ]))]), @"
    error[value] spec.steps[0].outputs.artifacts[0].archive.compression: expected one of none, gzip, found the text `bz2`
    error[value] spec.steps[0].outputs.artifacts[0].archive.format: expected one of tar, zip, found the text `rar` (did you mean `tar`?)
    error[value] spec.steps[0].outputs.artifacts[1].s3.key: `key` is missing (it must be text)
    ");
    insta::assert_snapshot!(says([("spec.steps.0.outputs.artifacts", json!([{"name": "b", "path": "/b", "s3": {"endpoint": "", "bucket": "", "key": ""}}]))]), @"
    error[value] spec.steps[0].outputs.artifacts[0].s3.endpoint: `endpoint` is empty (give it a value)
    error[value] spec.steps[0].outputs.artifacts[0].s3.bucket: `bucket` is empty (give it a value)
    error[value] spec.steps[0].outputs.artifacts[0].s3.key: `key` is empty (give it a value)
    ");
    assert_eq!(
        says([(
            "spec.steps.0.outputs.artifacts",
            json!([{"name": "a", "path": "/a", "optional": true, "archive": {"format": "zip", "compression": "gzip"}}, {"name": "b", "path": "/b", "archive": {"format": "tar", "compression": "none"}}])
        )]),
        ""
    );
}

#[test]
fn names_are_checked_in_time_for_the_largest_flows() {
    let steps: Vec<Value> =
        (0..20_000).map(|n| json!({"name": format!("{}-{n}", "long".repeat(20)), "type": "Manual"})).collect();
    assert_eq!(says_under(&Limits::elsewhere(), [("spec.steps", json!(steps))]), "");
}
