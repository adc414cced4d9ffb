//! `orlop hardware explain`, from outside: forms of the answer and exit codes.

use serde_json::{Value, json};

use super::bench::Bench;

fn node(name: &str, product: &str, gpus: u32) -> Value {
    json!({
        "kind": "Node",
        "metadata": {"name": name, "labels": {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": product}},
        "spec": {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]},
        "status": {"allocatable": {"nvidia.com/gpu": gpus.to_string()}, "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

#[test]
fn a_need_is_explained_with_nodes_and_exit_codes() {
    let bench = Bench::new();
    let path = |path: std::path::PathBuf| path.display().to_string();
    let need = path(bench.file("need.yaml", "gpuType: tesla-t4\ngpuCount: 2\n"));
    let items = json!({"kind": "List", "items": [node("big", "Tesla-T4", 4), node("small", "Tesla-T4", 1)]});
    let nodes = path(bench.file("nodes.json", &items.to_string()));
    let gave = bench.orlop(&["hardware", "explain", "-f", &need, "--nodes", &nodes]);
    assert_eq!(gave.code, 0, "{gave:?}");
    assert!(gave.out.contains("nodes: 1 of 2 fit") && gave.out.contains("nvidia.com/gpu: needs 2, has 1"), "{gave:?}");
    assert_eq!(bench.orlop(&["hardware", "explain", "-f", &need, "--nodes", &nodes, "-o", "name"]).out, "big\n");
    let gave = bench.orlop(&["hardware", "explain", "-f", &need, "-o", "json"]);
    let reported: Value = serde_json::from_str(&gave.out).expect("it is JSON");
    assert_eq!(reported["kubernetes"]["pod"]["nodeSelector"]["nvidia.com/gpu.product"], "Tesla-T4");
    assert_eq!(reported["resolved"]["gpu"]["count"], 2);

    let few = path(bench.file("few.json", &node("small", "Tesla-T4", 1).to_string()));
    assert_eq!(bench.orlop(&["hardware", "explain", "-f", &need, "--nodes", &few]).code, 1);
    let wrong = path(bench.file("wrong.yaml", "gpuCount: 1\ngpuType: a1000-nvlink\n"));
    let gave = bench.orlop(&["hardware", "explain", "-f", &wrong]);
    assert!(gave.code == 3 && gave.err.contains("wrong.yaml:2:10"), "{gave:?}");
    assert_eq!(bench.orlop(&["hardware", "explain", "-f", "-", "--nodes", "-"]).code, 2);
    assert_eq!(bench.orlop(&["hardware", "explain", "-f", &path(bench.path("none.yaml"))]).code, 4);
    let tables = path(bench.file("tables.yaml", "gpu:\n  migStrategie: single\n"));
    let gave = bench.orlop(&["hardware", "explain", "-f", &need, "--hardware-config", &tables]);
    assert!(gave.code == 3 && gave.err.contains("migStrategie"), "{gave:?}");
    assert!(bench.orlop(&["hardware", "explain", "--help"]).out.contains("kubectl get nodes -o json"));
}
