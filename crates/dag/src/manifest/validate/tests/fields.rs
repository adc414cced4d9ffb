//! Cells of the flow and of steps: presence, types, lengths, ranges.

use serde_json::json;

use crate::manifest::testing::{flow, says, says_under, step, step_with};
use crate::manifest::{Limits, read_object};

#[test]
fn the_small_flow_breaks_no_rule() {
    assert_eq!(says([]), "");
}

#[test]
fn flows_have_steps_and_not_too_many() {
    insta::assert_snapshot!(says([("spec.steps", json!([]))]), @"error[value] spec.steps: the flow has no steps (list at least one step)");
    let many = |number: usize| {
        json!((0..number).map(|n| json!({"name": format!("s{n}"), "type": "Manual"})).collect::<Vec<_>>())
    };
    insta::assert_snapshot!(says([("spec.steps", many(10_000)), ("spec.finally", json!([step("f")]))]), @"error[value] spec.steps: the flow has 10001 steps; at most 10000 are allowed here (write many similar steps as one step with `withItems`)");
    assert_eq!(says([("spec.steps", many(10_000))]), "");
    assert_eq!(says_under(&Limits::elsewhere(), [("spec.steps", many(10_001))]), "");
    insta::assert_snapshot!(says_under(&Limits::elsewhere(), [("spec.steps", many(100_001))]), @"error[value] spec.steps: the flow has 100001 steps; at most 100000 are allowed here (write many similar steps as one step with `withItems`)");
}

#[test]
fn group_kind_and_metadata_are_checked() {
    insta::assert_snapshot!(says([("apiVersion", json!("v1")), ("kind", json!("Jobflow"))]), @"
    error[object] apiVersion: `apiVersion` is `v1` (write apiVersion: workflow.kube-zen.io/v1alpha1)
    error[object] kind: `kind` is `Jobflow` (write kind: JobFlow)
    ");
    insta::assert_snapshot!(says([("metadata", json!({}))]), @"error[object] metadata.name: the flow has no name (give it a `name`, or a `generateName` that a name is made from)");
    insta::assert_snapshot!(says([("metadata", json!({"generateName": "_x"}))]), @"error[object] metadata.generateName: prefix of names `_x0` is not valid: character '_' at position 1 is not allowed (use lower case letters, digits, `-` and `.`)");
    insta::assert_snapshot!(says([("metadata", json!({"name": "My_Flow", "namespace": "a.b", "labels": {"a b": "c"}, "annotations": {"/": ""}}))]), @r#"
    error[object] metadata.name: flow name `My_Flow` is not valid: character 'M' at position 1 is not allowed (use lower case letters, digits, `-` and `.`)
    error[object] metadata.namespace: namespace `a.b` is not valid: character '.' at position 2 is not allowed (use lower case letters, digits and `-`)
    error[object] metadata.labels["a b"]: label key `a b` is not valid: character ' ' at position 2 is not allowed (use letters, digits, `-`, `_` and `.`)
    error[object] metadata.annotations["/"]: annotation key `` is not valid: it is empty (use lower case letters, digits, `-` and `.`)
    "#);
    assert_eq!(
        says([(
            "metadata",
            json!({"generateName": "x-", "labels": {"a/b": "c"}, "annotations": {"a": "any text: ✓"}})
        )]),
        ""
    );
    let approval = ("metadata.annotations", json!({"workflow.kube-zen.io/approved/gate": "true"}));
    insta::assert_snapshot!(says([approval.clone()]), @r#"error[object] metadata.annotations["workflow.kube-zen.io/approved/gate"]: annotation key `workflow.kube-zen.io/approved/gate` is not valid: it has more than one `/` (use `name` or `prefix/name`)"#);
    assert_eq!(
        says_under(&Limits::elsewhere(), [approval]),
        "",
        "stores other than Kubernetes take the documented form"
    );
}

#[test]
fn unknown_fields_outside_templates_are_refused() {
    insta::assert_snapshot!(says([("spec.step", json!([])), ("spec.steps.0.dependecies", json!([])), ("spec.steps.0.image", json!("x")), ("metadat", json!({}))]), @"
    error[unknown-field] metadat: unknown field `metadat` (did you mean `metadata`?)
    error[unknown-field] spec.step: unknown field `step` (did you mean `steps`?)
    error[unknown-field] spec.steps[0].dependecies: unknown field `dependecies` (did you mean `dependencies`?)
    error[unknown-field] spec.steps[0].image: unknown field `image` (did you mean `template.spec.template.spec.containers[].image`?)
    ");
    insta::assert_snapshot!(says([("metadata.lables", json!({}))]), @"error[unknown-field] metadata.lables: unknown field `lables` (did you mean `labels`?)");
}

#[test]
fn fields_of_other_products_lead_to_those_that_are_here() {
    let reported = |field: &str| says([(&*format!("spec.steps.0.{field}"), json!("x"))]);
    insta::assert_snapshot!(reported("container"), @"error[unknown-field] spec.steps[0].container: unknown field `container` (did you mean `template.spec.template.spec.containers`?)");
    for (field, way) in [
        ("matrix", "`withItems`"),
        ("withSequence", "[0, 1, 2]"),
        ("script", "[sh, -c, PROGRAM]"),
        ("onFailure", "flow.outcome == 'Failed'"),
        ("schedule", "CronJob"),
    ] {
        let reported = reported(field);
        assert!(
            reported.starts_with(&format!("error[unknown-field] spec.steps[0].{field}: unknown field"))
                && reported.contains(way),
            "{reported}"
        );
    }
}

#[test]
fn wrong_types_say_what_is_expected() {
    insta::assert_snapshot!(says([
        ("spec.suspend", json!("yes")),
        ("spec.parameters", json!({"name": "a"})),
        ("spec.executionPolicy", json!([])),
        ("spec.steps.0.dependencies", json!("a")),
        ("spec.steps.0.timeoutSeconds", json!("5")),
        ("spec.steps.0.when", json!(true)),
        ("spec.steps.0.continueOnFailure", json!(1)),
        ("spec.steps.0.parallelism", json!(2_147_483_648_i64)),
        ("spec.steps.0.retryPolicy", json!({"limit": 2.0, "backoff": {"factor": "2"}})),
        ("spec.steps.0.metadata", json!({"labels": {"a": 1, "b": null}})),
        ("spec.steps.0.inputs", json!({"parameters": [{"value": 5}, "x"]})),
    ]), @r#"
    error[value] spec.executionPolicy: expected a mapping, found a list (remove the `- `: the fields belong directly below this one)
    error[value] spec.parameters: expected a list of mappings, found a mapping (begin every item with `- `)
    error[value] spec.steps[0].continueOnFailure: expected true or false, found the number 1
    error[value] spec.steps[0].dependencies: expected a list of texts, found the text `a` (write a list: one item per line, each after `- `, or [a, b])
    error[value] spec.steps[0].inputs.parameters[0].value: expected text, found the number 5 (put it in quotes: "5")
    error[value] spec.steps[0].inputs.parameters[0].name: `name` is missing (it must be text)
    error[value] spec.steps[0].inputs.parameters[1]: expected a mapping, found the text `x`
    error[value] spec.steps[0].metadata.labels.a: expected text, found the number 1 (put it in quotes: "1")
    error[value] spec.steps[0].metadata.labels.b: expected text, found nothing (null)
    error[value] spec.steps[0].parallelism: expected a whole number of 32 bits, found the number 2147483648 (the largest is 2147483647)
    error[value] spec.steps[0].retryPolicy.backoff.factor: expected a number, found the text `2` (remove the quotes: 2)
    error[value] spec.steps[0].retryPolicy.limit: expected a whole number of 32 bits, found the number 2 (write it without a fraction: 2)
    error[value] spec.steps[0].timeoutSeconds: expected a whole number of 64 bits, found the text `5` (remove the quotes: 5)
    error[value] spec.steps[0].when: expected text, found the truth value true (put it in quotes: "true")
    error[value] spec.suspend: expected true or false, found the text `yes` (write true, without quotes)
    "#);
}

#[test]
fn null_is_absence_and_empty_text_is_not() {
    assert_eq!(
        says([
            ("spec.finally", json!(null)),
            ("spec.steps.0.when", json!(null)),
            ("spec.steps.0.dependencies", json!(null))
        ]),
        ""
    );
    insta::assert_snapshot!(says([("spec.steps.0.name", json!(null)), ("spec.steps.0.inputs", json!({"parameters": [{"name": "p", "value": null}]}))]), @"error[value] spec.steps[0].name: `name` has no value (it must be text)");
    insta::assert_snapshot!(says([("spec.steps.0.inputs", json!({"parameters": [{"name": "p", "value": null}]}))]), @"error[source] spec.steps[0].inputs.parameters[0]: the parameter has no value (give `value` or `valueFrom`)");
    assert_eq!(says([("spec.steps.0.inputs", json!({"parameters": [{"name": "p", "value": ""}]}))]), "");
}

#[test]
fn step_types() {
    insta::assert_snapshot!(says([("spec.steps.-", json!({"name": "b"})), ("spec.steps.-", json!({"name": "c", "type": "Job"}))]), @"
    error[value] spec.steps[1].template: the step has no template, so there is nothing to run (add a template; a step that waits for a person needs `type: Manual`)
    error[value] spec.steps[2].template: the step has no template, so there is nothing to run (add a template)
    ");
    insta::assert_snapshot!(says([("spec.steps.-", json!({"name": "b", "type": "manual"}))]), @"error[value] spec.steps[1].type: expected one of Job, Manual, found the text `manual` (did you mean `Manual`?)");
    insta::assert_snapshot!(says([("spec.steps.0.type", json!("Manual"))]), @"warning[value] spec.steps[0].template: a Manual step runs nothing: its template is ignored (remove the template, or `type: Manual`)");
    assert_eq!(says([("spec.steps.-", json!({"name": "b", "type": "Manual"}))]), "");
}

#[test]
fn messages_and_timeouts_have_bounds() {
    insta::assert_snapshot!(says([("spec.steps.0.message", json!("é".repeat(1025))), ("spec.steps.0.timeoutSeconds", json!(0))]), @"
    error[value] spec.steps[0].message: the message has 1025 characters (use at most 1024)
    error[value] spec.steps[0].timeoutSeconds: a timeout of 0 seconds (use 1 to 2592000 (30 days), or leave it out for none)
    ");
    insta::assert_snapshot!(says([("spec.steps.0.timeoutSeconds", json!(2_592_001))]), @"error[value] spec.steps[0].timeoutSeconds: a timeout of 2592001 seconds (use 1 to 2592000 (30 days), or leave it out for none)");
    assert_eq!(
        says([("spec.steps.0.message", json!("é".repeat(1024))), ("spec.steps.0.timeoutSeconds", json!(2_592_000))]),
        ""
    );
}

#[test]
fn step_metadata_has_valid_keys_that_are_not_ours() {
    let metadata = json!({
        "labels": {"a b": "x", "ok": "not ok!", "workflow.kube-zen.io/step": "x"},
        "annotations": {"/x": "y", "workflow.kube-zen.io/flow-name": "x", "fine.example/x": "any text"},
    });
    insta::assert_snapshot!(says([("spec.steps.0.metadata", metadata)]), @r#"
    error[value] spec.steps[0].metadata.labels["a b"]: label key `a b` is not valid: character ' ' at position 2 is not allowed (use letters, digits, `-`, `_` and `.`)
    error[value] spec.steps[0].metadata.labels.ok: label value `not ok!` is not valid: character ' ' at position 4 is not allowed (use letters, digits, `-`, `_` and `.`)
    error[value] spec.steps[0].metadata.annotations["/x"]: annotation key `` is not valid: it is empty (use lower case letters, digits, `-` and `.`)
    error[value] spec.steps[0].metadata.labels["workflow.kube-zen.io/step"]: the key `workflow.kube-zen.io/step` is written by the controller (use a key without the prefix workflow.kube-zen.io/)
    error[value] spec.steps[0].metadata.annotations["workflow.kube-zen.io/flow-name"]: the key `workflow.kube-zen.io/flow-name` is written by the controller (use a key without the prefix workflow.kube-zen.io/)
    "#);
    assert_eq!(
        says([(
            "spec.steps.0.metadata",
            json!({"labels": {"kueue.x-k8s.io/queue-name": "q"}, "annotations": {"a": ""}})
        )]),
        ""
    );
}

#[test]
fn dependencies_name_steps_of_the_same_list() {
    insta::assert_snapshot!(says([("spec.steps.0.dependencies", json!(["", "bild", "f"])), ("spec.steps.-", step("build")), ("spec.finally", json!([step_with("f", json!({"dependencies": ["a"]}))]))]), @"
    error[dependency] spec.steps[0].dependencies[0]: the dependency has no name (name a step, or remove it)
    error[dependency] spec.steps[0].dependencies[1]: there is no step `bild` (did you mean `build`?)
    error[dependency] spec.steps[0].dependencies[2]: the step `f` is in `finally`, which runs after all others (depend on a step of `steps`, or move this step to `finally`)
    error[dependency] spec.finally[0].dependencies[0]: the step `a` is not in `finally` (remove it: `finally` runs after all other steps anyway; its `when` may read them)
    ");
    assert_eq!(
        says([("spec.steps.0.dependencies", json!(["b", "b"])), ("spec.steps.-", step("b"))]),
        "",
        "forward references and duplicates are fine"
    );
    assert_eq!(says([("spec.finally", json!([step("f"), step_with("g", json!({"dependencies": ["f"]}))]))]), "");
}

#[test]
fn depends_excludes_dependencies() {
    insta::assert_snapshot!(says([("spec.steps.0.dependencies", json!(["b"])), ("spec.steps.0.depends", json!("b")), ("spec.steps.-", step("b"))]), @"error[value] spec.steps[0].depends: the step has `dependencies` and `depends` (keep one: `dependencies: [a, b]` is `depends: a && b`)");
}

#[test]
fn finally_has_no_manual_steps_and_names_of_its_own() {
    insta::assert_snapshot!(says([("spec.finally", json!([{"name": "f", "type": "Manual"}, step("a")]))]), @"
    error[value] spec.finally[0].type: a Manual step is not allowed in `finally` (move it to `steps`: cleaning up does not wait for people)
    error[value] spec.finally[1].name: the name `a` is that of spec.steps[0] already (rename one of them)
    ");
}

#[test]
fn fan_out_has_one_source_and_parallelism_of_its_own() {
    insta::assert_snapshot!(says([("spec.steps.0.withItems", json!([1])), ("spec.steps.0.withParam", json!("b:$.outputs.x")), ("spec.steps.-", step_with("b", json!({"outputs": {"parameters": [{"name": "x", "valueFrom": {"path": "/x"}}]}})))]), @"error[value] spec.steps[0].withParam: the step has `withItems` and `withParam` (keep one: items known now, or a list an earlier step gives)");
    insta::assert_snapshot!(says([("spec.steps.-", json!({"name": "b", "type": "Manual", "withItems": [1]}))]), @"error[value] spec.steps[1].withItems: a Manual step does not fan out (remove withItems)");
    insta::assert_snapshot!(says([("spec.steps.0.parallelism", json!(2))]), @"error[value] spec.steps[0].parallelism: `parallelism` of a step limits fan-out instances, and this step does not fan out (remove it; the Job's own parallelism belongs in template.spec, the flow's in executionPolicy)");
    insta::assert_snapshot!(says([("spec.steps.0.withItems", json!([1])), ("spec.steps.0.parallelism", json!(0))]), @"error[value] spec.steps[0].parallelism: 0 is too small (use 1 or more)");
    insta::assert_snapshot!(says([("spec.steps.0.withItems", json!(vec![0; 10_001]))]), @"error[value] spec.steps[0].withItems: 10001 items; at most 10000 are allowed here (split them over several steps)");
    assert_eq!(says_under(&Limits::elsewhere(), [("spec.steps.0.withItems", json!(vec![0; 100_000]))]), "");
    insta::assert_snapshot!(says_under(&Limits::elsewhere(), [("spec.steps.0.withItems", json!(vec![0; 100_001]))]), @"error[value] spec.steps[0].withItems: 100001 items; at most 100000 are allowed here (split them over several steps)");
    assert_eq!(
        says([("spec.steps.0.withItems", json!([])), ("spec.steps.0.parallelism", json!(1))]),
        "",
        "an empty list is EmptyFanOut"
    );
}

#[test]
fn suspend_stop_and_rerun_words() {
    insta::assert_snapshot!(says([("spec.suspendMode", json!("drain")), ("spec.stop", json!("Now")), ("spec.steps.0.rerun", json!("Never"))]), @"
    error[value] spec.steps[0].rerun: expected one of IfNeeded, Always, found the text `Never`
    error[value] spec.stop: expected one of Graceful, Terminate, found the text `Now`
    error[value] spec.suspendMode: expected one of Drain, Suspend, found the text `drain` (did you mean `Drain`?)
    ");
    assert_eq!(
        says([
            ("spec.suspend", json!(true)),
            ("spec.suspendMode", json!("Suspend")),
            ("spec.stop", json!("Terminate")),
            ("spec.steps.0.rerun", json!("Always"))
        ]),
        ""
    );
}

#[test]
fn the_artifact_store_is_exactly_one() {
    insta::assert_snapshot!(says([("spec.artifactStore", json!({}))]), @"error[value] spec.artifactStore: the artifact store names no store (give exactly one of persistentVolumeClaim and s3, or leave it out)");
    insta::assert_snapshot!(says([("spec.artifactStore", json!({"persistentVolumeClaim": {"claimName": "", "subPath": "../x"}, "s3": {"endpoint": "", "bucket": "", "accessKeyIDSecretRef": {"name": "", "key": ""}}}))]), @"
    error[value] spec.artifactStore: the artifact store names two stores (give exactly one of persistentVolumeClaim and s3)
    error[value] spec.artifactStore.persistentVolumeClaim.claimName: `claimName` is empty (give it a value)
    error[unsafe-path] spec.artifactStore.persistentVolumeClaim.subPath: the folder leaves the claim (write it relative to the claim's root, without `..`)
    error[value] spec.artifactStore.s3.endpoint: `endpoint` is empty (give it a value)
    error[value] spec.artifactStore.s3.bucket: `bucket` is empty (give it a value)
    error[value] spec.artifactStore.s3.accessKeyIDSecretRef.name: `name` is empty (give it a value)
    error[value] spec.artifactStore.s3.accessKeyIDSecretRef.key: `key` is empty (give it a value)
    warning[value] spec.artifactStore.s3: only one half of the credentials is given (give both accessKeyIDSecretRef and secretAccessKeySecretRef, or neither)
    ");
    let keys = json!({"name": "s", "key": "k"});
    assert_eq!(
        says([(
            "spec.artifactStore",
            json!({"s3": {"endpoint": "https://s3", "bucket": "b", "accessKeyIDSecretRef": keys, "secretAccessKeySecretRef": keys}})
        )]),
        ""
    );
    assert_eq!(
        says([("spec.artifactStore", json!({"persistentVolumeClaim": {"claimName": "c", "subPath": "a/b"}}))]),
        ""
    );
}

#[test]
fn the_parent_of_a_repeated_flow_is_named() {
    insta::assert_snapshot!(says([("spec.retryOf", json!({"name": "", "uid": "", "steps": ["b"]}))]), @"
    error[value] spec.retryOf.name: `name` of the flow to repeat is empty
    error[value] spec.retryOf.uid: `uid` of the flow to repeat is empty
    error[value] spec.retryOf.steps[0]: there is no step `b`
    ");
    assert_eq!(says([("spec.retryOf", json!({"name": "p", "uid": "u", "steps": ["a"]}))]), "");
}

#[test]
fn stored_manifests_have_at_most_768_kib_on_kubernetes() {
    let big = json!("x".repeat(800 * 1024));
    insta::assert_snapshot!(says([("metadata.annotations", json!({"a": big}))]), @"error[too-large] : the flow takes 819411 bytes as stored JSON; at most 786432 fit into the cluster's store (write many similar steps as one step with `withItems`, and move long scripts into ConfigMaps)");
    assert_eq!(says_under(&Limits::elsewhere(), [("metadata.annotations", json!({"a": big}))]), "");
}

#[test]
fn the_status_of_an_object_from_the_wire_is_kept() {
    let mut object = flow();
    object["status"] = json!({"phase": "Running"});
    assert!(read_object(&object, &Limits::kubernetes()).unwrap().0.status.is_some());
}
