//! Definitions are structural, take what is right and refuse what is wrong, and lose nothing.

use orlop_k8s::crd::hourglass::{executor, performer};
use orlop_k8s::testing::ApiServer;
use serde_json::{Value, json};

const GROUP: &str = "hourglass.eigenlayer.io";
const ADDRESS: &str = "0x1234567890abcdef1234567890abcdef12345678";

fn server() -> ApiServer {
    let server = ApiServer::new();
    server.install(&performer()).expect("the server takes the definition of performers");
    server.install(&executor()).expect("the server takes the definition of executors");
    server
}

fn performer_with(members: Value) -> Value {
    let mut spec = json!({"avsAddress": ADDRESS, "image": "i"});
    for (name, value) in members.as_object().expect("members") {
        spec[name] = value.clone();
    }
    json!({"apiVersion": format!("{GROUP}/v1alpha1"), "kind": "Performer", "metadata": {"name": "p"}, "spec": spec})
}

fn executor_with(members: Value) -> Value {
    let chain = json!({"name": "c", "rpc": "https://c.example", "chainId": 1, "taskMailboxAddress": ADDRESS});
    let mut config = json!({"aggregatorEndpoint": "a:1", "operatorKeysSecretRef": {"name": "s"}, "chains": [chain]});
    for (name, value) in members.as_object().expect("members") {
        if value.is_null() {
            config.as_object_mut().expect("it is one").remove(name);
        } else {
            config[name] = value.clone();
        }
    }
    json!({"apiVersion": format!("{GROUP}/v1alpha1"), "kind": "HourglassExecutor", "metadata": {"name": "e"},
        "spec": {"image": "i", "config": config}})
}

fn created(object: &Value) -> Result<Value, String> {
    let plural = if object["kind"] == "Performer" { "performers" } else { "hourglassexecutors" };
    server().create(GROUP, plural, "default", object)
}

#[test]
fn defaults_are_filled_in_by_the_server() {
    let spec = created(&performer_with(json!({}))).expect("it is taken")["spec"].clone();
    assert_eq!((&spec["config"]["grpcPort"], &spec["config"]["probe"]), (&json!(9090), &json!("grpc")));
    assert_eq!(
        spec["upgrade"],
        json!({"strategy": "Auto", "progressDeadlineSeconds": 600, "surgeWaitSeconds": 60,
        "minReadySeconds": 5, "drainSeconds": 30, "autoRollback": true})
    );
    assert_eq!(spec["imagePullPolicy"], "IfNotPresent");
    let spec = created(&executor_with(json!({"kubernetes": {}}))).expect("it is taken")["spec"].clone();
    assert_eq!((&spec["replicas"], &spec["serviceAccountName"]), (&json!(1), &json!("hourglass-executor")));
    assert_eq!(
        (&spec["config"]["kubernetes"]["namespace"], &spec["config"]["logLevel"]),
        (&json!("default"), &json!("info"))
    );
    assert_eq!(spec["config"]["performerMode"], "kubernetes");
}

#[test]
fn what_is_wrong_is_refused() {
    for (members, word) in [
        (json!({"avsAddress": "0x12"}), "avsAddress"),
        (json!({"image": "a b"}), "image"),
        (json!({"config": {"grpcPort": 0}}), "grpcPort"),
        (json!({"config": {"probe": "http"}}), "probe"),
        (json!({"config": {"environment": {"1A": "x"}}}), "environment"),
        (json!({"config": {"environmentFrom": [{"name": "A", "valueFrom": {}}]}}), "exactly one"),
        (json!({"hardwareRequirements": {"gpuType": "a100", "gpuCount": 0}}), "gpuCount"),
        (json!({"hardwareRequirements": {"teeRequired": true}}), "teeType"),
        (json!({"hardwareRequirements": {"teeType": "trustzone"}}), "teeType"),
        (json!({"scheduling": {"nodeAffinity": {}, "affinity": {"nodeAffinity": {}}}}), "nodeAffinity"),
        (json!({"upgrade": {"progressDeadlineSeconds": 29}}), "progressDeadlineSeconds"),
    ] {
        let refused = created(&performer_with(members.clone())).expect_err(&members.to_string());
        assert!(refused.contains(word), "{members}: {refused}");
    }
    let twice = json!([{"name": "c", "rpc": "r", "chainId": 1, "taskMailboxAddress": ADDRESS}, {"name": "c", "rpc": "r", "chainId": 2, "taskMailboxAddress": ADDRESS}]);
    for members in [
        json!({"operatorKeys": {"k": "v"}}),
        json!({"operatorKeysSecretRef": null}),
        json!({"chains": []}),
        json!({"chains": twice}),
        json!({"logLevel": "INFO"}),
    ] {
        created(&executor_with(members.clone())).expect_err(&members.to_string());
    }
}

#[test]
fn an_aggregator_is_an_address() {
    let taken = |address: &str| created(&executor_with(json!({"aggregatorEndpoint": address})));
    for address in [
        "aggregator",
        "aggregator.example:9000",
        "https://aggregator.example/tasks/v1",
        "grpc://10.0.0.1:9000",
        "https://[::1]:9000/",
        "[fe80::1]:9000",
        "https://user:word@aggregator.example:9000/path?key=k",
    ] {
        taken(address).unwrap_or_else(|refused| panic!("{address}: {refused}"));
    }
    for address in
        ["", " ", "a b", "https://", "aggregator:port", "aggregator:123456", ":9000", "/path", "a:1:2", "[::1"]
    {
        let refused = taken(address).expect_err(address);
        assert!(refused.contains("aggregatorEndpoint"), "{address}: {refused}");
    }
    assert!(taken(&"a".repeat(2049)).is_err());
}

#[test]
fn nothing_of_core_v1_is_pruned() {
    let members = json!({
        "resources": {"requests": {"cpu": 2, "memory": "1Gi"}, "limits": {"nvidia.com/gpu": "1"}, "claims": [{"name": "gpu"}]},
        "scheduling": {
            "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{
                        "matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}],
                        "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]},
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "preference": {"matchExpressions": [{"key": "k", "operator": "Exists"}]}}],
                },
                "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": {
                    "topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}, "namespaceSelector": {}, "matchLabelKeys": ["x"]}}]},
            },
        },
    });
    let kept = created(&performer_with(members.clone())).expect("it is taken")["spec"].clone();
    for name in ["resources", "scheduling"] {
        assert_eq!(kept[name], members[name]);
    }
}
