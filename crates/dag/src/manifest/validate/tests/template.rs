//! Templates: types of their fields, rules on Jobs and pods, unknown fields.

use serde_json::{Value, json};

use crate::manifest::testing::{says, says_under};
use crate::manifest::{Limits, validate_resources};

const POD: &str = "spec.steps.0.template.spec.template.spec";

fn pod(field: &str, value: Value) -> String {
    says([(&format!("{POD}.{field}"), value)])
}

fn job(field: &str, value: Value) -> String {
    says([(&format!("spec.steps.0.template.spec.{field}"), value)])
}

#[test]
fn unknown_template_fields_pass_with_a_warning_and_not_under_strict() {
    insta::assert_snapshot!(pod("containers.0.comand", json!(["x"])), @"warning[unknown-field] spec.steps[0].template.spec.template.spec.containers[0].comand: unknown field `comand` (did you mean `command`?)");
    insta::assert_snapshot!(says_under(&Limits::kubernetes().strict(), [(&format!("{POD}.newField"), json!(1))]), @"error[unknown-field] spec.steps[0].template.spec.template.spec.newField: unknown field `newField` (remove it, or check where it belongs)");
}

#[test]
fn a_value_that_becomes_part_of_a_shells_program_is_warned_of() {
    let warnings = |command: Value, args: Value| {
        let container = json!([{"name": "main", "image": "busybox", "command": command, "args": args}]);
        says([("spec.parameters", json!([{"name": "who"}])), (&format!("{POD}.containers"), container)])
    };
    insta::assert_snapshot!(warnings(json!(["/bin/bash", "-euc", "echo ${parameters.who}"]), json!([])), @r#"warning[shell] spec.steps[0].template.spec.template.spec.containers[0].command[2]: the value of parameter `who` becomes part of the program that `bash` runs (pass it by `env`, as {name: VALUE, value: "${parameters.who}"}, and write "$VALUE")"#);
    let by_args = warnings(json!(["sh"]), json!(["-c", "echo {{parameters.who}}"]));
    assert!(
        by_args.starts_with("warning[shell] spec.steps[0].template.spec.template.spec.containers[0].args[1]:"),
        "{by_args}"
    );
    for (command, args) in [
        (json!(["sh", "-c", "echo $WHO"]), json!([])),
        (json!(["sh", "-c", "echo \"$1\"", "sh", "${parameters.who}"]), json!([])),
        (json!(["echo", "-c", "${parameters.who}"]), json!([])),
        (json!(["sh", "/script", "${parameters.who}"]), json!([])),
    ] {
        assert_eq!(warnings(command.clone(), args), "", "{command}");
    }
}

#[test]
fn the_process_id_of_a_shell_is_written_so_that_the_shell_sees_it() {
    let warned = |program: &str| {
        let container = json!([{"name": "main", "image": "busybox", "command": ["sh", "-c", program]}]);
        says([(&*format!("{POD}.containers"), container)])
    };
    insta::assert_snapshot!(warned("echo $$ > pid"), @"warning[shell] spec.steps[0].template.spec.template.spec.containers[0].command[2]: `$$` is one `$` before `sh` sees it, on every target: Kubernetes reads it so (write `$$$$` for the process id of the shell)");
    for good in ["echo $$$$", "echo $$(HOME)", "echo $HOME ${X} $(date) $"] {
        assert_eq!(warned(good), "", "{good}");
    }
}

#[test]
fn a_template_is_a_job() {
    insta::assert_snapshot!(says([("spec.steps.0.template", json!("x"))]), @"error[template] spec.steps[0].template: the template is not a Job (write a mapping with apiVersion, kind and spec)");
    insta::assert_snapshot!(says([("spec.steps.0.template", json!({}))]), @"
    error[template] spec.steps[0].template.apiVersion: the template has no `apiVersion` (write apiVersion: batch/v1)
    error[template] spec.steps[0].template.kind: the template has no `kind` (write kind: Job)
    error[template] spec.steps[0].template.spec: the template has no `spec` (write the Job's spec, with its own pod template)
    ");
    insta::assert_snapshot!(says([("spec.steps.0.template.apiVersion", json!("v1")), ("spec.steps.0.template.kind", json!("Pod"))]), @"
    error[template] spec.steps[0].template.apiVersion: `apiVersion` of the template is `v1` (write apiVersion: batch/v1)
    error[template] spec.steps[0].template.kind: `kind` of the template is `Pod` (write kind: Job)
    ");
    insta::assert_snapshot!(says([("spec.steps.0.template.spec", json!({}))]), @"error[template] spec.steps[0].template.spec.template: `template` is missing (it must be a mapping)");
    insta::assert_snapshot!(says([("spec.steps.0.template.spec", json!({"template": {}}))]), @"error[container] spec.steps[0].template.spec.template.spec: the pod template has no `spec`, so no container (add spec.containers)");
}

#[test]
fn fields_have_their_types_placeholder_or_not() {
    insta::assert_snapshot!(job("backoffLimit", json!("3")), @"error[template] spec.steps[0].template.spec.backoffLimit: expected a whole number of 32 bits, found the text `3` (remove the quotes: 3)");
    insta::assert_snapshot!(job("parallelism", json!("{{.parameters.n}}")), @"error[template] spec.steps[0].template.spec.parallelism: expected a whole number of 32 bits, found the text `{{.parameters.n}}` (placeholders are allowed inside texts only; write the number itself)");
    insta::assert_snapshot!(job("parallelism", json!(3_000_000_000_i64)), @"error[template] spec.steps[0].template.spec.parallelism: expected a whole number of 32 bits, found the number 3000000000 (the largest is 2147483647)");
    insta::assert_snapshot!(job("activeDeadlineSeconds", json!(1.5)), @"error[template] spec.steps[0].template.spec.activeDeadlineSeconds: expected a whole number of 64 bits, found the number 1.5");
    insta::assert_snapshot!(pod("containers.0.command", json!("echo hi")), @"error[template] spec.steps[0].template.spec.template.spec.containers[0].command: expected a list of texts, found the text `echo hi` (write a list: one item per line, each after `- `, or [a, b])");
    insta::assert_snapshot!(pod("containers.0.args", json!(["-n", 5, true])), @r#"
    error[template] spec.steps[0].template.spec.template.spec.containers[0].args[1]: expected text, found the number 5 (put it in quotes: "5")
    error[template] spec.steps[0].template.spec.template.spec.containers[0].args[2]: expected text, found the truth value true (put it in quotes: "true")
    "#);
    insta::assert_snapshot!(pod("containers.0.env", json!({"A": "b"})), @"error[template] spec.steps[0].template.spec.template.spec.containers[0].env: expected a list of mappings, found a mapping (begin every item with `- `)");
    insta::assert_snapshot!(pod("containers.0.env", json!([{"name": "A", "value": 5}, {"value": "x"}])), @r#"
    error[template] spec.steps[0].template.spec.template.spec.containers[0].env[0].value: expected text, found the number 5 (put it in quotes: "5")
    error[template] spec.steps[0].template.spec.template.spec.containers[0].env[1].name: `name` is missing (it must be text)
    "#);
    insta::assert_snapshot!(pod("containers", json!({"name": "main"})), @"error[template] spec.steps[0].template.spec.template.spec.containers: expected a list of mappings, found a mapping (begin every item with `- `)");
    insta::assert_snapshot!(pod("volumes", json!([{"name": "v", "configMap": {"defaultMode": "0644"}}, {"emptyDir": []}])), @"
    error[template] spec.steps[0].template.spec.template.spec.volumes[0].configMap.defaultMode: expected a whole number of 32 bits, found the text `0644` (remove the quotes: 0644)
    error[template] spec.steps[0].template.spec.template.spec.volumes[0].configMap.name: `name` is missing (it must be text)
    error[template] spec.steps[0].template.spec.template.spec.volumes[1].emptyDir: expected a mapping, found a list (remove the `- `: the fields belong directly below this one)
    error[template] spec.steps[0].template.spec.template.spec.volumes[1].name: `name` is missing (it must be text)
    ");
    insta::assert_snapshot!(says([("spec.steps.0.template.metadata", json!({"creationTimestamp": "yesterday", "labels": ["a"]}))]), @"
    error[template] spec.steps[0].template.metadata.creationTimestamp: expected a time such as 2024-05-01T12:00:00Z, found the text `yesterday`
    error[template] spec.steps[0].template.metadata.labels: expected a mapping of texts, found a list (remove the `- `: the fields belong directly below this one)
    ");
    for (field, value) in [
        ("containers.0.livenessProbe", json!({"httpGet": {"port": "web", "httpHeaders": [{"name": "X"}]}})),
        ("containers.0.livenessProbe", json!({"httpGet": {"port": 80}})),
        ("containers.0.resources", json!({"requests": {"cpu": 1, "memory": "1Gi", "x.y/z": 0.5}})),
        ("containers.0.command", json!(null)),
        ("nodeSelector", json!({"a": "b"})),
    ] {
        assert_eq!(pod(field, value), "", "{field}");
    }
    assert_eq!(
        says([
            ("spec.steps.0.template.metadata", json!({"creationTimestamp": null, "name": "x"})),
            ("spec.steps.0.template.status", json!({"odd": 1}))
        ]),
        ""
    );
}

#[test]
fn containers_have_names_and_images() {
    insta::assert_snapshot!(pod("containers", json!([])), @"error[container] spec.steps[0].template.spec.template.spec.containers: the pod has no container (list at least one, with name and image)");
    insta::assert_snapshot!(pod("containers.0", json!({"name": "", "image": ""})), @"
    error[container] spec.steps[0].template.spec.template.spec.containers[0].name: the container's name is empty (name it, such as `main`)
    error[container] spec.steps[0].template.spec.template.spec.containers[0].image: the container has no image (name one, such as busybox:1.36)
    ");
    insta::assert_snapshot!(pod("initContainers", json!([{}])), @"
    error[template] spec.steps[0].template.spec.template.spec.initContainers[0].name: `name` is missing (it must be text)
    error[container] spec.steps[0].template.spec.template.spec.initContainers[0].image: the container has no image (name one, such as busybox:1.36)
    ");
    let mut pipeline = Limits::elsewhere();
    pipeline.image_optional = true;
    assert_eq!(
        says_under(&pipeline, [(&format!("{POD}.containers.0"), json!({"name": "main", "command": ["x"]}))]),
        ""
    );
}

#[test]
fn quantities_parse_are_above_zero_and_limits_hold_requests() {
    let of = |resources| pod("containers.0.resources", resources);
    insta::assert_snapshot!(of(json!({"requests": {"cpu": "1 core", "memory": "0"}, "limits": {"cpu": -1}})), @"
    error[amount] spec.steps[0].template.spec.template.spec.containers[0].resources.requests.cpu: quantity `1 core` ends in ` core`, which is not a valid suffix (allowed are n u m k M G T P E, Ki Mi Gi Ti Pi Ei, or an exponent such as e3 (remove the blanks))
    error[amount] spec.steps[0].template.spec.template.spec.containers[0].resources.requests.memory: an amount of 0 is not above 0 (remove it, or ask for something)
    error[amount] spec.steps[0].template.spec.template.spec.containers[0].resources.limits.cpu: an amount of -1 is not above 0 (remove it, or ask for something)
    ");
    insta::assert_snapshot!(of(json!({"requests": {"cpu": "1500m", "memory": "1Gi"}, "limits": {"cpu": 1, "memory": "1024Mi"}})), @"error[amount] spec.steps[0].template.spec.template.spec.containers[0].resources.limits.cpu: the limit 1 of `cpu` is below its request 1500m (raise the limit or lower the request)");
    insta::assert_snapshot!(of(json!({"requests": {"cpu": true}})), @"error[template] spec.steps[0].template.spec.template.spec.containers[0].resources.requests.cpu: expected a quantity such as 500m or 2Gi, found the truth value true");
    insta::assert_snapshot!(pod("initContainers", json!([{"name": "i", "image": "b", "resources": {"limits": {"cpu": "x"}}}])), @"error[amount] spec.steps[0].template.spec.template.spec.initContainers[0].resources.limits.cpu: quantity `x` has no digits (write a number with an optional suffix, for example `500m` or `1.5Gi`)");
    insta::assert_snapshot!(pod("resources", json!({"limits": {"cpu": "0.5"}, "requests": {"cpu": "501m"}})), @"error[amount] spec.steps[0].template.spec.template.spec.resources.limits.cpu: the limit 500m of `cpu` is below its request 501m (raise the limit or lower the request)");
    assert_eq!(
        of(
            json!({"requests": {"cpu": "0.1", "memory": "1e3"}, "limits": {"cpu": "100m", "memory": "1k", "nvidia.com/gpu": 1}})
        ),
        ""
    );
}

#[test]
fn placeholders_are_checked_after_substitution() {
    let parameter = ("spec.parameters", json!([{"name": "cpu", "value": "2"}]));
    let resources = json!({"requests": {"cpu": "${parameters.cpu}"}, "limits": {"cpu": "1"}});
    assert_eq!(says([parameter, (&format!("{POD}.containers.0.resources"), resources)]), "");
    let filled = |cpu: &str| {
        let resources = json!({"requests": {"cpu": cpu}, "limits": {"cpu": "1"}});
        let template = json!({"spec": {"template": {"spec": {"containers": [{"resources": resources}]}}}});
        crate::manifest::testing::lines(&validate_resources(&template))
    };
    insta::assert_snapshot!(filled("2"), @"error[amount] spec.template.spec.containers[0].resources.limits.cpu: the limit 1 of `cpu` is below its request 2 (raise the limit or lower the request)");
    insta::assert_snapshot!(filled("two"), @"error[amount] spec.template.spec.containers[0].resources.requests.cpu: quantity `two` has no digits (write a number with an optional suffix, for example `500m` or `1.5Gi`)");
    insta::assert_snapshot!(filled("${parameters.cpu}"), @"error[amount] spec.template.spec.containers[0].resources.requests.cpu: quantity `${parameters.cpu}` has no digits (write a number with an optional suffix, for example `500m` or `1.5Gi`)");
    assert_eq!(filled("1"), "");
}

#[test]
fn job_limits_have_their_least_values() {
    insta::assert_snapshot!(job("backoffLimit", json!(-1)), @"error[job] spec.steps[0].template.spec.backoffLimit: -1 retries (use 0 or more)");
    insta::assert_snapshot!(job("activeDeadlineSeconds", json!(0)), @"error[job] spec.steps[0].template.spec.activeDeadlineSeconds: a deadline of 0 seconds (use 1 or more, or leave it out for none)");
    assert_eq!(job("backoffLimit", json!(0)), "");
    assert_eq!(job("activeDeadlineSeconds", json!(1)), "");
}

#[test]
fn restart_policies_are_those_of_jobs() {
    insta::assert_snapshot!(pod("restartPolicy", json!("Always")), @"error[job] spec.steps[0].template.spec.template.spec.restartPolicy: restartPolicy `Always` is not possible in a Job (use Never or OnFailure; absent means Never)");
    for policy in [json!("Never"), json!("OnFailure"), json!(null)] {
        assert_eq!(pod("restartPolicy", policy), "");
    }
}

#[test]
fn selectors_are_refused() {
    insta::assert_snapshot!(job("selector", json!({"matchLabels": {"a": "b"}})), @"error[job] spec.steps[0].template.spec.selector: `selector` is set: attempts would fight over pods (remove it; every Job selects its own pods by itself)");
    insta::assert_snapshot!(job("manualSelector", json!(true)), @"error[job] spec.steps[0].template.spec.manualSelector: `manualSelector` is set: attempts would fight over pods (remove it; every Job selects its own pods by itself)");
}

#[test]
fn our_own_keys_are_refused() {
    let metadata = json!({"labels": {"workflow.kube-zen.io/flow": "x", "fine": "y"}, "annotations": {"workflow.kube-zen.io/step-name": "x"}});
    insta::assert_snapshot!(says([("spec.steps.0.template.metadata", metadata.clone())]), @r#"
    error[reserved] spec.steps[0].template.metadata.labels["workflow.kube-zen.io/flow"]: the key `workflow.kube-zen.io/flow` is written by the controller (use a key without the prefix workflow.kube-zen.io/)
    error[reserved] spec.steps[0].template.metadata.annotations["workflow.kube-zen.io/step-name"]: the key `workflow.kube-zen.io/step-name` is written by the controller (use a key without the prefix workflow.kube-zen.io/)
    "#);
    insta::assert_snapshot!(job("template.metadata", metadata), @r#"
    error[reserved] spec.steps[0].template.spec.template.metadata.labels["workflow.kube-zen.io/flow"]: the key `workflow.kube-zen.io/flow` is written by the controller (use a key without the prefix workflow.kube-zen.io/)
    error[reserved] spec.steps[0].template.spec.template.metadata.annotations["workflow.kube-zen.io/step-name"]: the key `workflow.kube-zen.io/step-name` is written by the controller (use a key without the prefix workflow.kube-zen.io/)
    "#);
}

#[test]
fn steps_with_artifacts_or_several_output_files_say_their_command() {
    let silent = json!({"name": "main", "image": "busybox"});
    let container = format!("{POD}.containers.0");
    let of = |field: &str, value: Value| says([(container.as_str(), silent.clone()), (field, value)]);
    insta::assert_snapshot!(of("spec.steps.0.outputs.artifacts", json!([{"name": "f", "path": "/f"}])), @"error[command] spec.steps[0].template.spec.template.spec.containers[0].command: a step with artifacts must say its command: the helper that moves them runs it (write `command`; the image's entry point is not known before it is pulled)");
    insta::assert_snapshot!(of("spec.steps.0.inputs.artifacts", json!([{"name": "f", "http": {"url": "http://h/f"}}])), @"error[command] spec.steps[0].template.spec.template.spec.containers[0].command: a step with artifacts must say its command: the helper that moves them runs it (write `command`; the image's entry point is not known before it is pulled)");
    let file = |name: &str| json!({"name": name, "valueFrom": {"path": "/f"}});
    insta::assert_snapshot!(of("spec.steps.0.outputs.parameters", json!([file("a"), file("b")])), @"error[command] spec.steps[0].template.spec.template.spec.containers[0].command: a step with several output files must say its command: the helper that moves them runs it (write `command`; the image's entry point is not known before it is pulled)");
    assert_eq!(
        of("spec.steps.0.outputs.parameters", json!([file("a"), {"name": "b", "valueFrom": {"jsonPath": "$.x"}}])),
        ""
    );
    assert_eq!(says([("spec.steps.0.outputs.artifacts", json!([{"name": "f", "path": "/f"}]))]), "");
}
