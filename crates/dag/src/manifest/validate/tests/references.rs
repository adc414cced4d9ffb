//! What steps say about other steps and about parameters, and the languages of `when` and `depends`.

use serde_json::{Value, json};

use crate::manifest::Limits;
use crate::manifest::testing::{says, says_under, step, step_with};

/// The small flow with a step `build-image` that gives `digest` and `image.tag`, and these members of its first step.
fn says_of(members: Value) -> String {
    let outputs = json!({"outputs": {"parameters": [{"name": "digest", "valueFrom": {"path": "/d"}}, {"name": "image.tag", "valueFrom": {"jsonPath": "$.succeeded"}}]}});
    says([
        ("spec.steps.0", step_with("a", members)),
        ("spec.steps.-", step_with("build-image", outputs)),
        ("spec.finally", json!([step("clean")])),
    ])
}

fn input(path: &str) -> String {
    says_of(json!({"inputs": {"parameters": [{"name": "p", "valueFrom": {"jsonPath": path}}]}}))
}

#[test]
fn paths_begin_at_the_document_or_a_step() {
    insta::assert_snapshot!(input(""), @"error[path] spec.steps[0].inputs.parameters[0].valueFrom.jsonPath: the path is empty (write one like `$.succeeded` or `build:$.outputs.digest`)");
    insta::assert_snapshot!(input("outputs.x"), @"error[path] spec.steps[0].inputs.parameters[0].valueFrom.jsonPath: `outputs.x` does not start with `$` (write `$.member`, or `<step>:$.member` to read another step)");
    insta::assert_snapshot!(input("Build_Image:$.outputs.digest"), @"error[path] spec.steps[0].inputs.parameters[0].valueFrom.jsonPath: the text before `:` is not the name of a step: step name `Build_Image` is not valid: character 'B' at position 1 is not allowed (use lower case letters, digits, `-` and `.`)");
    insta::assert_snapshot!(input("build-image:$.outputs["), @"error[path] spec.steps[0].inputs.parameters[0].valueFrom.jsonPath: `$.outputs[` is not a JSONPath of RFC 9535: at column 11, found the end, expected a name in quotes, an index, a slice, `*` or `?`");
    assert_eq!(input("build-image:$.outputs.digest"), "");
    assert_eq!(input(" build-image : $.status.succeeded"), "");
    insta::assert_snapshot!(says_of(json!({"outputs": {"parameters": [{"name": "o", "valueFrom": {"jsonPath": "build-image:$.x"}}, {"name": "q", "valueFrom": {"jsonPath": "x"}}]}})), @"
    error[path] spec.steps[0].outputs.parameters[0].valueFrom.jsonPath: `valueFrom.jsonPath` of an output reads the step's own document (remove `build-image:`)
    error[path] spec.steps[0].outputs.parameters[1].valueFrom.jsonPath: `x` does not start with `$` (write `$.member`, or `<step>:$.member` to read another step)
    ");
}

#[test]
fn input_paths_without_step_pass_with_a_warning() {
    insta::assert_snapshot!(input("$.succeeded"), @"warning[path] spec.steps[0].inputs.parameters[0].valueFrom.jsonPath: the path names no step, so the step will fail with ParameterUnresolved (write `<step>:$.path`)");
}

#[test]
fn input_paths_name_steps_and_outputs_that_exist() {
    insta::assert_snapshot!(input("buildimage:$.outputs.digest"), @"error[reference] spec.steps[0].inputs.parameters[0].valueFrom.jsonPath: there is no step `buildimage` (did you mean `build-image`?)");
    insta::assert_snapshot!(input("build-image:$.outputs.digst"), @"error[reference] spec.steps[0].inputs.parameters[0].valueFrom.jsonPath: the step `build-image` has no output parameter `digst` (did you mean `build-image:$.outputs.digest`?)");
    insta::assert_snapshot!(input("build-image:$.outputs['image-tag']"), @"error[reference] spec.steps[0].inputs.parameters[0].valueFrom.jsonPath: the step `build-image` has no output parameter `image-tag` (did you mean `build-image:$.outputs['image.tag']`?)");
    insta::assert_snapshot!(input("a:$.outputs.x"), @"
    error[reference] spec.steps[0].inputs.parameters[0].valueFrom.jsonPath: the step `a` has no output parameter `x` (declare it under outputs.parameters of `a`)
    error[cycle] spec.steps[0].dependencies: steps wait for each other in a cycle: a → a (remove one of these dependencies or references)
    ");
    insta::assert_snapshot!(input("clean:$.phase"), @"error[reference] spec.steps[0].inputs.parameters[0].valueFrom.jsonPath: the step `clean` is in `finally`, which runs after this one (read a step of `steps`)");
    let reader =
        step_with("report", json!({"inputs": {"parameters": [{"name": "p", "valueFrom": {"jsonPath": "a:$.phase"}}]}}));
    assert_eq!(says([("spec.finally", json!([reader]))]), "", "finally reads every step");
}

#[test]
fn a_condition_reads_no_input_that_only_an_attempt_knows() {
    let input = json!({"parameters": [{"name": "mode", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "mode"}}}]});
    insta::assert_snapshot!(says_of(json!({"when": "parameters.mode == 'x'", "inputs": input})), @"error[condition] spec.steps[0].when: parameter `mode` is read from a ConfigMap when the step starts, which is after its conditions (take it as a parameter of the flow, which is read at submission)");
}

#[test]
fn an_output_is_text_and_has_no_members() {
    insta::assert_snapshot!(input("build-image:$.outputs.digest.sha"), @"error[path] spec.steps[0].inputs.parameters[0].valueFrom.jsonPath: the output `digest` of the step `build-image` is text, which has no members (read it whole, or give the part its own output in `build-image`, such as `jsonPath: $.termination.json.NAME`)");
    for path in ["$.outputs['digest'][0]", "$.outputs.digest[*]", "$.outputs.digest..x"] {
        assert!(input(&format!("build-image:{path}")).contains("is text, which has no members"), "{path}");
    }
    assert_eq!(input("build-image:$.outputs['image.tag']"), "");
    let digests = json!({"withItems": [1, 2], "outputs": {"parameters": [{"name": "d", "valueFrom": {"path": "/d"}}]}});
    let read = json!({"inputs": {"parameters": [{"name": "p", "valueFrom": {"jsonPath": "many:$.outputs.d[0]"}}]}});
    let steps = [("spec.steps.0", step_with("a", read)), ("spec.steps.-", step_with("many", digests))];
    assert_eq!(says(steps), "", "of a fan-out it is a list");
}

#[test]
fn conditions_are_compiled() {
    let when = |text: &str| says_of(json!({"when": text}));
    insta::assert_snapshot!(when("steps.build-image.phase == 'Succeeded' &&"), @"error[condition] spec.steps[0].when: the condition ends where a value is needed");
    insta::assert_snapshot!(when("steps.build-imag.phase == 'Succeeded'"), @"error[condition] spec.steps[0].when: unknown step `build-imag` (did you mean `build-image`?)");
    insta::assert_snapshot!(when("steps.build-image.outputs.digst == ''"), @"error[condition] spec.steps[0].when: step `build-image` has no output `digst` (did you mean `digest`?)");
    insta::assert_snapshot!(when("steps.clean.phase == 'Succeeded'"), @"error[condition] spec.steps[0].when: unknown step `clean` (conditions name steps of the same flow)");
    insta::assert_snapshot!(when("flow.outcome == 'Failed'"), @"error[condition] spec.steps[0].when: `flow.outcome` exists only in finally (move the step to spec.finally, or ask for the phases of its dependencies)");
    insta::assert_snapshot!(when("parameters.env == 'prod'"), @"error[condition] spec.steps[0].when: unknown parameter `env` (declare it in spec.parameters or in inputs.parameters of the step)");
    assert_eq!(when("steps.build-image.outputs.image.tag != ''"), "");
    let last = step_with("f", json!({"when": "flow.outcome == 'Failed' && steps.a.phase == 'Failed'"}));
    assert_eq!(says([("spec.finally", json!([last]))]), "");
}

#[test]
fn conditions_compare_with_words_that_there_are_and_hold_no_stray_text() {
    let when = |text: &str| says_of(json!({"when": text}));
    insta::assert_snapshot!(when("steps.build-image.phase == 'Sucess'"), @"error[condition] spec.steps[0].when: there is no phase `Sucess` (use one of Succeeded, Failed, Skipped, Pending, Running, PendingApproval)");
    insta::assert_snapshot!(when("'Faild' != steps.build-image.phase"), @"error[condition] spec.steps[0].when: there is no phase `Faild` (did you mean `Failed`?)");
    insta::assert_snapshot!(when("steps.build-image.phase in ['Succeeded', 'skipped']"), @"error[condition] spec.steps[0].when: there is no phase `skipped` (did you mean `Skipped`?)");
    insta::assert_snapshot!(when(r#"{{eq .StepStatus.build-image.Phase "Failure"}}"#), @"error[condition] spec.steps[0].when: there is no phase `Failure` (use one of Succeeded, Failed, Skipped, Pending, Running, PendingApproval)");
    insta::assert_snapshot!(when(r#"steps.build-image.outputs.digest.contains("{{true}}")"#), @r#"error[condition] spec.steps[0].when: the text "steps.build-image.outputs.digest.contain"… outside the braces is neither true nor false (write a comparison without braces, or {{if VALUE}}true{{else}}false{{end}})"#);
    insta::assert_snapshot!(when("{{if true}}yes{{else}}no{{end}}"), @r#"error[condition] spec.steps[0].when: the text "no" outside the braces is neither true nor false (write a comparison without braces, or {{if VALUE}}true{{else}}false{{end}})"#);
    for good in [
        "steps.build-image.phase != 'Skipped' && steps.build-image.reason == 'Sucess'",
        "steps.build-image.phase in ['Succeeded', 'Failed']",
        "  {{if eq .StepStatus.build-image.Phase \"Failed\"}} True {{else}} 0 {{end}}",
    ] {
        assert_eq!(when(good), "", "{good}");
    }
}

#[test]
fn what_is_known_at_the_end_is_read_in_finally() {
    let step =
        |fact: &str| step_with("f", json!({"inputs": {"parameters": [{"name": "x", "valueFrom": {"flow": fact}}]}}));
    insta::assert_snapshot!(says([("spec.steps", json!([step("outcome")]))]), @"error[source] spec.steps[0].inputs.parameters[0].valueFrom.flow: it is known only when all steps are settled (read it in a step of `finally`; elsewhere there are name and url)");
    insta::assert_snapshot!(says([("spec.steps", json!([step("outcom")]))]), @"error[value] spec.steps[0].inputs.parameters[0].valueFrom.flow: expected one of outcome, failures, duration, name, url, found the text `outcom` (did you mean `outcome`?)");
    assert_eq!(says([("spec.steps", json!([step("name")]))]), "");
    for fact in ["outcome", "failures", "duration", "name", "url"] {
        assert_eq!(says([("spec.finally", json!([step(fact)]))]), "", "{fact}");
    }
}

#[test]
fn placeholders_of_other_products_are_warned_of_and_left_alone() {
    let command = "spec.steps.0.template.spec.template.spec.containers.0.command";
    insta::assert_snapshot!(says([(command, json!(["echo", "{{inputs.parameters.x}} $(params.x)", "{{item}}"]))]), @"
    warning[placeholder] spec.steps[0].template.spec.template.spec.containers[0].command[1]: `{{inputs.parameters.x}}` is not a placeholder here; the text is kept as it is (a parameter is `{{parameters.NAME}}`, declared by the flow or as an input of the step)
    warning[placeholder] spec.steps[0].template.spec.template.spec.containers[0].command[1]: `$(params.x)` is not a placeholder here; the text is kept as it is (a parameter is `{{parameters.NAME}}`, declared by the flow or as an input of the step)
    warning[placeholder] spec.steps[0].template.spec.template.spec.containers[0].command[2]: `{{item}}` is not a placeholder here; the text is kept as it is (an item is `{{parameters.item}}`, a field of it `{{parameters.item.NAME}}`)
    ");
    assert_eq!(says([(command, json!(["sh", "-c", "echo $(date) ${HOME} '{{.Names}}'"]))]), "");
}

#[test]
fn joins_are_compiled() {
    let depends = |text: &str| says_of(json!({"depends": text}));
    insta::assert_snapshot!(depends("build-image.Succeded"), @"error[depends] spec.steps[0].depends: step `build-image` cannot be asked for `Succeded` (did you mean `Succeeded`?)");
    insta::assert_snapshot!(depends("bild-image && x"), @"error[depends] spec.steps[0].depends: unknown step `bild-image` (did you mean `build-image`?)");
    insta::assert_snapshot!(depends("clean"), @"error[depends] spec.steps[0].depends: unknown step `clean` (conditions name steps of the same flow)");
    assert_eq!(depends("build-image.Failed || build-image"), "");
    let last = |text: &str| says([("spec.finally", json!([step("f"), step_with("g", json!({"depends": text}))]))]);
    assert_eq!(last("f.Failed"), "");
    insta::assert_snapshot!(last("a"), @"error[depends] spec.finally[1].depends: unknown step `a` (did you mean `f`?)");
}

#[test]
fn with_param_is_a_path_into_a_step_or_one_placeholder() {
    let of = |text: &str| says_of(json!({"withParam": text}));
    insta::assert_snapshot!(of("[1,2]"), @"error[path] spec.steps[0].withParam: withParam is neither one placeholder such as `${parameters.list}` nor `<step>:$.path`: `[1,2]` does not start with `$` (write `$.member`, or `<step>:$.member` to read another step)");
    insta::assert_snapshot!(of("$.outputs.digest"), @"error[reference] spec.steps[0].withParam: withParam `$.outputs.digest` names no step (write `<step>:$.outputs.digest`)");
    insta::assert_snapshot!(of("build-image:$.outputs.list"), @"error[reference] spec.steps[0].withParam: the step `build-image` has no output parameter `list` (declare it under outputs.parameters of `build-image`)");
    insta::assert_snapshot!(of("${parameters.list}"), @"error[placeholder] spec.steps[0].withParam: there is no parameter `list` (declare it under the flow's parameters or the step's inputs.parameters)");
    assert_eq!(of("build-image:$.outputs.digest"), "");
    let list = ("spec.parameters", json!([{"name": "list", "value": "[1]"}]));
    assert_eq!(says([list, ("spec.steps.0.withParam", json!("{{.parameters.list}}"))]), "");
}

const POD: &str = "spec.steps.0.template.spec.template.spec";

#[test]
fn placeholders_name_declared_parameters_once_any_is_in_scope() {
    let container = json!({"name": "main", "image": "b:${parameters.tga}", "command": ["{{.parameters.tag}}", "${HOME} {{other}} $(X)"], "env": [{"name": "A", "value": "{{parameters.item}}"}]});
    let at = format!("{POD}.containers.0");
    assert_eq!(says([(&at, container.clone())]), "", "without parameters all braces are text");
    let tag = ("spec.parameters", json!([{"name": "tag", "value": "1"}]));
    insta::assert_snapshot!(says([(&at, container.clone()), tag]), @"
    error[placeholder] spec.steps[0].template.spec.template.spec.containers[0].env[0].value: there is no parameter `item` (declare it under the flow's parameters or the step's inputs.parameters)
    error[placeholder] spec.steps[0].template.spec.template.spec.containers[0].image: there is no parameter `tga` (did you mean `tag`?)
    ");
    let own = ("spec.steps.0.inputs.parameters", json!([{"name": "tag", "value": "1"}]));
    insta::assert_snapshot!(says([(&at, container.clone()), own]), @"
    error[placeholder] spec.steps[0].template.spec.template.spec.containers[0].env[0].value: there is no parameter `item` (declare it under the flow's parameters or the step's inputs.parameters)
    error[placeholder] spec.steps[0].template.spec.template.spec.containers[0].image: there is no parameter `tga` (did you mean `tag`?)
    ");
    insta::assert_snapshot!(says([
        ("spec.parameters", json!([{"name": "tag", "value": "1"}])),
        ("spec.steps.0.message", json!("${parameters.who}")),
        ("spec.steps.0.inputs.artifacts", json!([{"name": "f", "http": {"url": "https://h/${parameters.p}", "headers": {"X-A": "${parameters.q}"}}}])),
        ("spec.steps.0.outputs.artifacts", json!([{"name": "f", "path": "/f", "s3": {"endpoint": "e", "bucket": "${parameters.r}", "key": "${parameters.s}"}}])),
    ]), @"
    error[placeholder] spec.steps[0].message: there is no parameter `who` (declare it under the flow's parameters or the step's inputs.parameters)
    error[placeholder] spec.steps[0].inputs.artifacts[0].http.url: there is no parameter `p` (declare it under the flow's parameters or the step's inputs.parameters)
    error[placeholder] spec.steps[0].inputs.artifacts[0].http.headers.X-A: there is no parameter `q` (declare it under the flow's parameters or the step's inputs.parameters)
    error[placeholder] spec.steps[0].outputs.artifacts[0].s3.bucket: there is no parameter `r` (declare it under the flow's parameters or the step's inputs.parameters)
    error[placeholder] spec.steps[0].outputs.artifacts[0].s3.key: there is no parameter `s` (declare it under the flow's parameters or the step's inputs.parameters)
    ");
}

#[test]
fn item_and_index_are_in_scope_of_a_fan_out() {
    let command = json!(["${parameters.item} ${parameters.index} ${parameters.item.lr}"]);
    let at = format!("{POD}.containers.0.command");
    let of = |items: Value| says([(&at, command.clone()), ("spec.steps.0.withItems", items)]);
    assert_eq!(of(json!([{"lr": 1}, {"lr": null}])), "");
    insta::assert_snapshot!(of(json!([{"lr": 1}, {"rl": 2}])), @"error[placeholder] spec.steps[0].template.spec.template.spec.containers[0].command[0]: the item 1 of `withItems` has no field `lr` (give every item the field, or use `item`)");
    insta::assert_snapshot!(of(json!(["x"])), @"error[placeholder] spec.steps[0].template.spec.template.spec.containers[0].command[0]: the item 0 of `withItems` has no field `lr` (give every item the field, or use `item`)");
    let list = ("spec.parameters", json!([{"name": "list"}]));
    assert_eq!(
        says([(&at, command.clone()), list.clone(), ("spec.steps.0.withParam", json!("${parameters.list}"))]),
        ""
    );
    insta::assert_snapshot!(says([(&at, command.clone()), list]), @"
    error[placeholder] spec.steps[0].template.spec.template.spec.containers[0].command[0]: there is no parameter `item` (declare it under the flow's parameters or the step's inputs.parameters)
    error[placeholder] spec.steps[0].template.spec.template.spec.containers[0].command[0]: there is no parameter `index` (declare it under the flow's parameters or the step's inputs.parameters)
    error[placeholder] spec.steps[0].template.spec.template.spec.containers[0].command[0]: there is no parameter `item.lr` (declare it under the flow's parameters or the step's inputs.parameters)
    ");
}

fn with_secret<const N: usize>(limits: &Limits, changes: [(&str, Value); N]) -> String {
    let mut all =
        vec![("spec.parameters", json!([{"name": "key", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]))];
    all.extend(changes);
    let all: [(&str, Value); 8] =
        std::array::from_fn(|n| all.get(n).cloned().unwrap_or(("spec.suspend", json!(false))));
    says_under(limits, all)
}

#[test]
fn secrets_stand_in_environment_command_and_args_only() {
    let kubernetes = Limits::kubernetes();
    let container = json!({"name": "main", "image": "b", "command": ["${parameters.key}"], "args": ["x${parameters.key}"], "env": [{"name": "A", "value": "${parameters.key}"}]});
    insta::assert_snapshot!(with_secret(&kubernetes, [(&format!("{POD}.containers.0"), container)]), @"
    warning[placeholder] spec.steps[0].template.spec.template.spec.containers[0].args[0]: the secret parameter `key` is used in a command line, which other users of its machine can read (use it in env values, and name the variable in the command)
    warning[placeholder] spec.steps[0].template.spec.template.spec.containers[0].command[0]: the secret parameter `key` is used in a command line, which other users of its machine can read (use it in env values, and name the variable in the command)
    ");
    let places = [
        (&*format!("{POD}.containers.0.image"), json!("b:${parameters.key}")),
        (&*format!("{POD}.containers.0.workingDir"), json!("/${parameters.key}")),
        ("spec.steps.0.template.metadata", json!({"annotations": {"a": "${parameters.key}"}})),
        ("spec.steps.0.template.spec.template.metadata", json!({"labels": {"a": "${parameters.key}"}})),
        ("spec.steps.0.message", json!("${parameters.key}")),
        ("spec.steps.0.when", json!("parameters.key == ''")),
        (
            "spec.steps.0.inputs.artifacts",
            json!([{"name": "f", "http": {"url": "https://h/", "headers": {"Authorization": "${parameters.key}"}}}]),
        ),
    ];
    insta::assert_snapshot!(with_secret(&kubernetes, places.clone()), @"
    error[condition] spec.steps[0].when: parameter `key` is a secret, which no condition may read (decide on a parameter that is not from a Secret)
    error[placeholder] spec.steps[0].template.metadata.annotations.a: the parameter `key` is a secret and is not allowed here (use it in env values of a container)
    error[placeholder] spec.steps[0].template.spec.template.metadata.labels.a: the parameter `key` is a secret and is not allowed here (use it in env values of a container)
    error[placeholder] spec.steps[0].template.spec.template.spec.containers[0].image: the parameter `key` is a secret and is not allowed here (use it in env values of a container)
    error[placeholder] spec.steps[0].template.spec.template.spec.containers[0].workingDir: the parameter `key` is a secret and is not allowed here (use it in env values of a container)
    error[placeholder] spec.steps[0].message: the parameter `key` is a secret and is not allowed here (use it in env values of a container)
    error[placeholder] spec.steps[0].inputs.artifacts[0].http.headers.Authorization: the parameter `key` is a secret and is not allowed here (use it in env values of a container)
    ");
    let mut clear = Limits::kubernetes();
    clear.secrets_as_text = true;
    insta::assert_snapshot!(with_secret(&clear, places), @"
    error[condition] spec.steps[0].when: parameter `key` is a secret, which no condition may read (decide on a parameter that is not from a Secret)
    error[placeholder] spec.steps[0].template.metadata.annotations.a: the parameter `key` is a secret and is not allowed here (use it in env values of a container)
    error[placeholder] spec.steps[0].template.spec.template.metadata.labels.a: the parameter `key` is a secret and is not allowed here (use it in env values of a container)
    error[placeholder] spec.steps[0].template.spec.template.spec.containers[0].image: the parameter `key` is a secret and is not allowed here (use it in env values of a container)
    error[placeholder] spec.steps[0].message: the parameter `key` is a secret and is not allowed here (use it in env values of a container)
    ");
    insta::assert_snapshot!(with_secret(&kubernetes, [("spec.steps.0.withParam", json!("${parameters.key}"))]), @"error[placeholder] spec.steps[0].withParam: the parameter `key` is a secret and is not allowed here (use it in env values of a container)");
    let open = ("spec.steps.0.inputs.parameters", json!([{"name": "key", "value": "open"}]));
    assert_eq!(
        with_secret(&kubernetes, [open, ("spec.steps.0.message", json!("${parameters.key}"))]),
        "",
        "the step's input wins"
    );
}

#[test]
fn files_that_nothing_there_can_move_are_refused() {
    let mut bare = Limits::kubernetes();
    bare.artifacts = false;
    let file = |name: &str| json!({"name": name, "valueFrom": {"path": format!("/{name}")}});
    let outputs = "spec.steps.0.outputs.parameters";
    let one = json!([file("x"), {"name": "d", "valueFrom": {"jsonPath": "$.succeeded"}}]);
    assert_eq!(says_under(&bare, [(outputs, one.clone())]), "", "one file is the termination message");
    let own = (&*format!("{POD}.containers.0.terminationMessagePath"), json!("/own"));
    insta::assert_snapshot!(says_under(&bare, [(outputs, one), own]), @"error[unsupported] spec.steps[0].outputs: the step `a` has an output file together with its own `terminationMessagePath`, and this operator was started without --helper-image and --artifact-url, so nothing moves them (set both: the image of the helper, and the URL under which pods reach the operator; in the chart set artifacts.helperImage)");
    let two = (outputs, json!([file("x"), file("y")]));
    insta::assert_snapshot!(says_under(&bare, [two.clone()]), @"error[unsupported] spec.steps[0].outputs: the step `a` has several output files, and this operator was started without --helper-image and --artifact-url, so nothing moves them (set both: the image of the helper, and the URL under which pods reach the operator; in the chart set artifacts.helperImage)");
    let made = ("spec.steps.0.outputs.artifacts", json!([{"name": "a", "path": "/a"}]));
    insta::assert_snapshot!(says_under(&bare, [made.clone()]), @"error[unsupported] spec.steps[0].outputs: the step `a` has artifacts, and this operator was started without --helper-image and --artifact-url, so nothing moves them (set both: the image of the helper, and the URL under which pods reach the operator; in the chart set artifacts.helperImage)");
    let taken = ("spec.steps.0.inputs.artifacts", json!([{"name": "a", "http": {"url": "https://example.org/a"}}]));
    insta::assert_snapshot!(says_under(&bare, [taken.clone()]), @"error[unsupported] spec.steps[0].inputs: the step `a` has artifacts, and this operator was started without --helper-image and --artifact-url, so nothing moves them (set both: the image of the helper, and the URL under which pods reach the operator; in the chart set artifacts.helperImage)");
    assert_eq!(says_under(&Limits::kubernetes(), [two, made, taken]), "");
}
