//! Rows that are refused, and values of the wrong type: each with the path of its field.

use orlop_core::error::Class;
use serde_json::{Value, json};

use super::{job, pod, read, with};

fn refusal(template: &Value) -> String {
    let error = read(template).unwrap_err();
    assert_eq!((error.class, error.reason), (Class::Invalid, Some("TemplateInvalid")), "{error}");
    error.to_string()
}

fn path(template: &Value) -> String {
    refusal(template).split(' ').next().unwrap().trim_end_matches(':').to_owned()
}

#[test]
fn what_reaches_into_the_machine_is_refused() {
    for (context, field) in
        [(json!({"privileged": true}), "privileged"), (json!({"capabilities": {"add": ["X"]}}), "capabilities.add")]
    {
        let found = path(&job(json!({"securityContext": context})));
        assert_eq!(found, format!("spec.template.spec.containers[0].securityContext.{field}"));
    }
    for field in ["hostNetwork", "hostPID", "hostIPC"] {
        assert_eq!(path(&pod(json!({field: true}))), format!("spec.template.spec.{field}"));
    }
    insta::assert_snapshot!(refusal(&pod(json!({"hostPID": true}))), @"spec.template.spec.hostPID cannot be used off Kubernetes: it reaches into this machine; allow it with --allow-privileged and containers");
}

#[test]
fn what_needs_a_cluster_is_refused() {
    for field in ["resourceClaims", "schedulingGates", "ephemeralContainers"] {
        assert_eq!(path(&pod(json!({field: [{"name": "x"}]}))), format!("spec.template.spec.{field}"));
    }
    let container = |fields| path(&job(fields));
    assert_eq!(container(json!({"volumeDevices": [{}]})), "spec.template.spec.containers[0].volumeDevices");
    assert_eq!(container(json!({"resources": {"claims": [{}]}})), "spec.template.spec.containers[0].resources.claims");
    for kind in ["nfs", "csi", "iscsi", "ephemeral", "image", "gitRepo"] {
        let found = path(&pod(json!({"volumes": [{"name": "v", kind: {"a": 1}}]})));
        assert_eq!(found, format!("spec.template.spec.volumes[0].{kind}"));
    }
    let token = json!({"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]});
    assert_eq!(path(&pod(token)), "spec.template.spec.volumes[0].projected.sources[0].serviceAccountToken");
}

#[test]
fn a_pod_has_one_container_and_no_sidecars() {
    let two = json!({"containers": [{"name": "main"}, {"name": "side"}]});
    assert_eq!(path(&pod(two)), "spec.template.spec.containers[1]");
    assert_eq!(path(&pod(json!({"containers": []}))), "spec.template.spec.containers");
    let sidecar = json!({"initContainers": [{"name": "s", "restartPolicy": "Always"}]});
    assert_eq!(path(&pod(sidecar)), "spec.template.spec.initContainers[0].restartPolicy");
    assert_eq!(path(&pod(json!({"restartPolicy": "Always"}))), "spec.template.spec.restartPolicy");
}

#[test]
fn host_paths_outside_of_what_is_allowed_are_refused() {
    for bad in ["/etc", "/srv/../etc", "relative", "/"] {
        let volumes = json!([{"name": "h", "hostPath": {"path": bad}}]);
        assert_eq!(path(&pod(json!({"volumes": volumes}))), "spec.template.spec.volumes[0].hostPath.path", "{bad}");
    }
}

#[test]
fn paths_that_lead_out_are_refused() {
    let mount = |fields: Value| {
        let mut job = job(json!({"volumeMounts": [fields]}));
        job["spec"]["template"]["spec"]["volumes"] = json!([{"name": "v"}]);
        path(&job)
    };
    let place = "spec.template.spec.containers[0].volumeMounts[0]";
    for bad in ["relative", "/", "/a/../b", "/a\u{0}b", ""] {
        assert_eq!(mount(json!({"name": "v", "mountPath": bad})), format!("{place}.mountPath"), "{bad}");
    }
    for bad in ["..", "a/../../b", "/abs"] {
        assert_eq!(mount(json!({"name": "v", "mountPath": "/m", "subPath": bad})), format!("{place}.subPath"), "{bad}");
    }
    assert_eq!(mount(json!({"name": "other", "mountPath": "/m"})), "spec.template.spec.volumes");
    for bad in ["../x", "/x", ""] {
        let items = json!([{"name": "v", "configMap": {"name": "c", "items": [{"key": "k", "path": bad}]}}]);
        assert_eq!(
            path(&pod(json!({"volumes": items}))),
            "spec.template.spec.volumes[0].configMap.items[0].path",
            "{bad}"
        );
    }
    for bad in ["a/b", "..", ""] {
        assert_eq!(path(&pod(json!({"volumes": [{"name": bad}]}))), "spec.template.spec.volumes[0].name", "{bad}");
    }
}

#[test]
fn two_of_what_must_be_one_are_refused() {
    assert_eq!(path(&pod(json!({"volumes": [{"name": "v"}, {"name": "v"}]}))), "spec.template.spec.volumes[1].name");
    let both = json!({"volumes": [{"name": "v", "emptyDir": {}, "secret": {"secretName": "s"}}]});
    assert_eq!(path(&pod(both)), "spec.template.spec.volumes[0]");
    let mut twice = job(json!({"volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/a/"}]}));
    twice["spec"]["template"]["spec"]["volumes"] = json!([{"name": "v"}]);
    assert_eq!(path(&twice), "spec.template.spec.containers[0].volumeMounts[1].mountPath");
    let env = |var: Value| path(&job(json!({"env": [var]})));
    let place = "spec.template.spec.containers[0].env[0]";
    let field = json!({"fieldRef": {"fieldPath": "metadata.name"}});
    assert_eq!(env(json!({"name": "X", "value": "v", "valueFrom": field})), format!("{place}.valueFrom"));
    assert_eq!(env(json!({"name": "X", "valueFrom": {"other": {}}})), format!("{place}.valueFrom"));
    assert_eq!(env(json!({"name": "A=B", "value": "v"})), format!("{place}.name"));
    let unknown = json!({"fieldRef": {"fieldPath": "spec.secret"}});
    assert_eq!(env(json!({"name": "X", "valueFrom": unknown})), format!("{place}.valueFrom.fieldRef.fieldPath"));
}

#[test]
fn job_fields_the_emulation_does_not_have_are_refused() {
    for (field, value) in [
        ("successPolicy", json!({})),
        ("backoffLimitPerIndex", json!(0)),
        ("maxFailedIndexes", json!(1)),
        ("managedBy", json!("x/y")),
    ] {
        assert_eq!(path(&with(json!({field: value}))), format!("spec.{field}"));
    }
    insta::assert_snapshot!(refusal(&with(json!({"managedBy": "x/y"}))), @"spec.managedBy cannot be used off Kubernetes: no other controller runs here");
}

#[test]
fn wrong_types_are_refused_with_what_is_wanted() {
    insta::assert_snapshot!(refusal(&with(json!({"completions": "3"}))), @"spec.completions must be a whole number of 0 or more");
    insta::assert_snapshot!(refusal(&with(json!({"parallelism": -1}))), @"spec.parallelism must be a whole number of 0 or more");
    insta::assert_snapshot!(refusal(&with(json!({"completions": 100_001}))), @"spec.completions must be at most 100000");
    insta::assert_snapshot!(refusal(&job(json!({"command": "ls"}))), @"spec.template.spec.containers[0].command must be a list");
    insta::assert_snapshot!(refusal(&job(json!({"env": [{"name": "X", "value": 1}]}))), @"spec.template.spec.containers[0].env[0].value must be a text");
    insta::assert_snapshot!(refusal(&job(json!({"securityContext": {"readOnlyRootFilesystem": "yes"}}))), @"spec.template.spec.containers[0].securityContext.readOnlyRootFilesystem must be true or false");
    assert_eq!(
        path(&job(json!({"resources": {"limits": {"cpu": "lots"}}}))),
        "spec.template.spec.containers[0].resources.limits[cpu]"
    );
    assert_eq!(
        path(&job(json!({"resources": {"requests": {"cpu": "-1"}}}))),
        "spec.template.spec.containers[0].resources.requests[cpu]"
    );
    assert_eq!(
        path(&pod(json!({"volumes": [{"name": "v", "secret": {"secretName": "s", "defaultMode": 4096}}]}))),
        "spec.template.spec.volumes[0].secret.defaultMode"
    );
    assert_eq!(path(&json!({})), "spec.template.spec.containers");
    assert_eq!(path(&json!(7)), "spec.template.spec.containers");
}
