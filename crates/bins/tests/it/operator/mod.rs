//! The operator: in this process against the API server double, and as a program against a real control plane where one is.

mod admitted;
mod carried;
mod cluster;
mod command;
mod double;
mod helper;
mod hourglass;
mod http;
mod https;
mod kubelet;
mod messages;
mod pods;
mod program;
mod real;
mod reviewed;
mod suite;
mod webhook;

use serde_json::{Value, json};

/// A step whose pods do what annotations say.
fn step(name: &str, after: &[&str], plays: &Value) -> Value {
    json!({"name": name, "dependencies": after, "template": {"apiVersion": "batch/v1", "kind": "Job", "spec": {"backoffLimit": 0,
        "template": {"metadata": {"annotations": plays}, "spec": {"restartPolicy": "Never",
            "containers": [{"name": "main", "image": "busybox", "command": ["true"]}]}}}}})
}

fn flow(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "workflow.kube-zen.io/v1alpha1", "kind": "JobFlow", "metadata": {"name": name}, "spec": spec})
}
