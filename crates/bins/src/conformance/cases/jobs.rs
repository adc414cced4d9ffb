//! Fields of the Job and its pod.

use orlop_core::testing::substrate::{Play, When};
use serde_json::{Value, json};

use super::super::case::job;
use super::{Case, output};

fn shell(script: &str) -> Value {
    json!({"name": "main", "image": "{image}", "command": ["/bin/sh", "-c", script]})
}

/// The cases.
pub(super) fn cases() -> Vec<Case> {
    let mut indexed = job(json!({"containers": [shell("test -n \"$JOB_COMPLETION_INDEX\"")]}));
    indexed["spec"]["completions"] = json!(3);
    indexed["spec"]["parallelism"] = json!(2);
    indexed["spec"]["completionMode"] = json!("Indexed");
    let init = job(json!({
        "initContainers": [{"name": "prepare", "image": "{image}", "command": ["/bin/sh", "-c", "printf ready > /stage/flag"],
                            "volumeMounts": [{"name": "work", "mountPath": "/stage"}]}],
        "containers": [{"name": "main", "image": "{image}", "command": ["/bin/sh", "-c", "cat /stage/flag > /tmp/o"],
                        "volumeMounts": [{"name": "work", "mountPath": "/stage"}]}],
        "volumes": [{"name": "work", "emptyDir": {}}]}));
    let failing = job(json!({
        "initContainers": [{"name": "prepare", "image": "{image}", "command": ["/bin/sh", "-c", "exit 4"]}],
        "containers": [shell("true")]}));
    let claim = |script: &str| {
        job(json!({
            "containers": [{"name": "main", "image": "{image}", "command": ["/bin/sh", "-c", script], "volumeMounts": [{"name": "d", "mountPath": "/data"}]}],
            "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]}))
    };
    let config = job(
        json!({"containers": [{"name": "main", "image": "{image}", "command": ["/bin/sh", "-c", "printf '%s' \"$MODE\" > /tmp/o; cat /etc/app/mode >> /tmp/o"],
        "env": [{"name": "MODE", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "mode"}}}],
        "volumeMounts": [{"name": "c", "mountPath": "/etc/app"}]}],
        "volumes": [{"name": "c", "configMap": {"name": "settings"}}]}),
    );
    let templates = json!({
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}}],
        "configMapTemplates": [{"metadata": {"name": "settings"}, "data": {"mode": "fast"}}]});
    vec![
        Case::new("indexed-job").step("a", "", json!({"template": indexed})).ends(&[("a", "Succeeded")]),
        Case::new("init-container")
            .step("a", "", json!({"template": init, "outputs": output("o", "/tmp/o")}))
            .ends(&[("a", "Succeeded")])
            .gives("a", "o", "ready"),
        Case::new("init-container-fails")
            .step("a", "", json!({"template": failing}))
            .play(When::step("a"), Play::exit(4))
            .ends(&[("a", "Failed/NonZeroExit")])
            .fails("FlowFailed"),
        Case::new("shared-claim")
            .with("resourceTemplates", templates.clone())
            .step("a", "", json!({"template": claim("printf kept > /data/x")}))
            .step("b", "", json!({"template": claim("cp /data/x /tmp/o"), "dependencies": ["a"], "outputs": output("o", "/tmp/o")}))
            .ends(&[("b", "Succeeded")])
            .gives("b", "o", "kept"),
        Case::new("config-map")
            .with("resourceTemplates", templates)
            .step("a", "", json!({"template": config, "outputs": output("o", "/tmp/o")}))
            .ends(&[("a", "Succeeded")])
            .gives("a", "o", "fastfast"),
    ]
}
