//! `orlop hardware explain --kubeconfig`: the nodes of a cluster, over HTTP.

use serde_json::json;

use super::fixture::{Fixture, node};

/// Exit code and what is printed.
fn explain(fixture: &Fixture, more: &[&str]) -> (i32, String) {
    std::fs::write(fixture.dir.path().join("need.yaml"), "gpuType: a100\ngpuCount: 2\n").unwrap();
    let mut command = crate::role::program();
    let words = ["hardware", "explain", "-f", "need.yaml", "--kubeconfig", "kubeconfig"];
    let done = command.current_dir(fixture.dir.path()).args(words).args(more).output().unwrap();
    let text = [done.stdout, done.stderr].concat();
    (done.status.code().unwrap_or(-1), String::from_utf8(text).unwrap())
}

#[test]
fn the_nodes_of_a_cluster_are_explained() {
    let fixture = Fixture::everywhere();
    let (code, text) = explain(&fixture, &[]);
    assert!(code == 1 && text.contains("nodes: 0 of 1 fit") && text.contains("plain"), "{code} {text}");
    let labels = json!({"nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"});
    fixture.create("", "nodes", "", &node("a100", labels, json!({"nvidia.com/gpu": "2"})));
    assert_eq!(explain(&fixture, &["-o", "name"]), (0, "a100\n".to_owned()));
    assert_eq!(explain(&fixture, &["--nodes", "nodes.json"]).0, 2, "one or the other");
    // More nodes than an answer of the server holds.
    for number in 0..orlop::k8s::api::PAGE {
        fixture.create("", "nodes", "", &node(&format!("more-{number}"), json!({}), json!({})));
    }
    let (code, text) = explain(&fixture, &[]);
    assert!(code == 0 && text.contains("nodes: 1 of 502 fit"), "{code} {text}");
    // Nobody who may not read nodes is told that there are none.
    let without = Fixture::new(&[]);
    let (code, text) = explain(&without, &[]);
    assert!(code == 6 && text.contains("listing nodes of the cluster"), "{code} {text}");
}
