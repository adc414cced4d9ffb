//! Machines for every example of `deploy/examples`, and what the cluster must know besides. Facts only.

use serde_json::{Value, json};

use super::fixture::node;

/// The node that has nothing special.
pub(super) fn plain() -> Value {
    node("plain", json!({}), json!({}))
}

/// A node with two whole A100.
pub(super) fn a100() -> Value {
    node("a100", labels(&nvidia("NVIDIA-A100-SXM4-80GB")), json!({"nvidia.com/gpu": "2"}))
}

fn labels(names: &[(&str, &str)]) -> Value {
    names.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect::<serde_json::Map<_, _>>().into()
}

fn nvidia(product: &str) -> [(&str, &str); 2] {
    [("nvidia.com/gpu.present", "true"), ("nvidia.com/gpu.product", product)]
}

/// Every other node that an example asks for.
pub(super) fn special() -> Vec<Value> {
    let mut sliced = nvidia("NVIDIA-A100-SXM4-40GB").to_vec();
    sliced.push(("nvidia.com/mig-1g.5gb.count", "7"));
    let mut hidden = nvidia("NVIDIA-H100-80GB-HBM3").to_vec();
    hidden.extend([("nvidia.com/cc.ready.state", "true"), ("intel.feature.node.kubernetes.io/tdx", "true")]);
    let amd = [("feature.node.kubernetes.io/amd-gpu", "true"), ("amd.com/gpu.product-name", "AMD_Instinct_MI300X_OAM")];
    let sgx = [("intel.feature.node.kubernetes.io/sgx", "true"), ("sgx.intel.com/capable", "true")];
    vec![
        node("mig", labels(&sliced), json!({"nvidia.com/mig-1g.5gb": "7"})),
        node("amd", labels(&amd), json!({"amd.com/gpu": "8"})),
        node("sgx", labels(&sgx), json!({"sgx.intel.com/enclave": "10", "sgx.intel.com/epc": "512Mi"})),
        node("tdx", labels(&[("intel.feature.node.kubernetes.io/tdx", "true")]), json!({})),
        node("hidden", labels(&hidden), json!({"nvidia.com/pgpu": "1"})),
        node("pool", labels(&[("node-pool", "performers")]), json!({})),
    ]
}

/// Runtime classes, and the device class of dynamic allocation with one device on the plain node.
pub(super) fn classes() -> [Value; 4] {
    let runtime = |name| json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}, "handler": name});
    [
        runtime("kata-qemu-tdx"),
        runtime("kata-qemu-nvidia-gpu-tdx"),
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu.nvidia.com"}, "spec": {}}),
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "plain"}, "spec": {
            "nodeName": "plain", "driver": "gpu.nvidia.com", "pool": {"name": "plain", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0", "attributes": {"productName": {"string": "NVIDIA H100 80GB HBM3"}, "type": {"string": "gpu"}},
                "capacity": {"memory": {"value": "80Gi"}}}]}}),
    ]
}
