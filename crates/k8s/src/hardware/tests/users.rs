//! Pods that ask for something themselves: both hold, and what is not concerned stays word for word. Owns no production
//! code.

use serde_json::{Value, json};

use super::given;

fn of(user: Value, input: Value) -> Result<String, String> {
    let mut pod = json!({"containers": [{"name": "sidecar"}, {"name": "performer"}]});
    pod.as_object_mut().unwrap().extend(user.as_object().unwrap().clone());
    match given(&pod, input, json!({})) {
        Ok((pod, _)) => Ok(pod.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

fn terms(terms: Value) -> Value {
    json!({"affinity": {
        "podAntiAffinity": {"x": 1},
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}},
    }})
}

#[test]
fn generated_clauses_hold_in_every_term() {
    let user = terms(json!([
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b", "a"]}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
    ]));
    insta::assert_snapshot!(of(user, json!({"gpuType": "t4"})).unwrap(), @r#"{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"zone","operator":"In","values":["b","a"]}]},{"matchFields":[{"key":"metadata.name","operator":"In","values":["n1"]}]}]}},"podAntiAffinity":{"x":1}},"containers":[{"name":"sidecar"},{"name":"performer","resources":{"limits":{"nvidia.com/gpu":"1"},"requests":{"nvidia.com/gpu":"1"}}}],"nodeSelector":{"nvidia.com/gpu.product":"Tesla-T4"},"tolerations":[{"effect":"NoSchedule","key":"nvidia.com/gpu","operator":"Exists"}]}"#);
}

#[test]
fn a_clause_of_several_values_is_required_in_each_term_of_the_user() {
    let user = terms(json!([
        {"matchExpressions": [{"key": "zone", "operator": "Exists"}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
    ]));
    let pod: Value = serde_json::from_str(&of(user, json!({"gpuType": "a100-40gb"})).unwrap()).unwrap();
    let required = &pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let terms = required["nodeSelectorTerms"].as_array().unwrap();
    assert_eq!(terms.len(), 2);
    for term in terms {
        let last = term["matchExpressions"].as_array().and_then(|all| all.last()).unwrap();
        assert_eq!((&last["key"], &last["operator"]), (&json!("nvidia.com/gpu.product"), &json!("In")), "{term}");
    }
    assert_eq!(
        (&terms[0]["matchExpressions"][0]["key"], &terms[1]["matchFields"][0]["values"][0]),
        (&json!("zone"), &json!("n1"))
    );
    assert_eq!(pod.get("nodeSelector"), None, "it has more than one value");
}

#[test]
fn alternatives_multiply_the_terms() {
    let user = terms(json!([{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]));
    insta::assert_snapshot!(of(user, json!({"teeType": "tdx"})).unwrap(), @r#"{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"zone","operator":"Exists"},{"key":"intel.feature.node.kubernetes.io/tdx","operator":"In","values":["true"]}]},{"matchExpressions":[{"key":"zone","operator":"Exists"},{"key":"feature.node.kubernetes.io/cpu-security.tdx.enabled","operator":"In","values":["true"]}]}]}},"podAntiAffinity":{"x":1}},"containers":[{"name":"sidecar"},{"name":"performer"}],"nodeSelector":{"kubernetes.io/arch":"amd64"},"runtimeClassName":"kata-qemu-tdx","tolerations":[{"effect":"NoSchedule","key":"tdx","operator":"Exists"}]}"#);
}

#[test]
fn an_empty_term_is_dropped_and_never_filled() {
    let zone = json!({"matchExpressions": [{"key": "zone", "operator": "Exists"}]});
    insta::assert_snapshot!(of(terms(json!([{}, zone])), json!({"gpuType": "t4"})).unwrap(), @r#"{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"zone","operator":"Exists"}]}]}},"podAntiAffinity":{"x":1}},"containers":[{"name":"sidecar"},{"name":"performer","resources":{"limits":{"nvidia.com/gpu":"1"},"requests":{"nvidia.com/gpu":"1"}}}],"nodeSelector":{"nvidia.com/gpu.product":"Tesla-T4"},"tolerations":[{"effect":"NoSchedule","key":"nvidia.com/gpu","operator":"Exists"}]}"#);
    insta::assert_snapshot!(of(terms(json!([{}])), json!({"gpuType": "t4"})).unwrap_err(), @"the node affinity and the hardware contradict each other in every term");
}

#[test]
fn what_is_not_concerned_stays_word_for_word() {
    let user = json!({
        "tolerations": [{"key": "busy", "operator": "Exists", "tolerationSeconds": 7}],
        "nodeSelector": {"zone": "a"},
        "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 3, "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["z", "a"]}]}}]}},
        "priorityClassName": "high",
        "hostAliases": [{"ip": "10.0.0.1"}],
    });
    insta::assert_snapshot!(of(user.clone(), json!({"gpuCount": 1})).unwrap(), @r#"{"affinity":{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"preference":{"matchExpressions":[{"key":"disk","operator":"In","values":["z","a"]}]},"weight":3}]}},"containers":[{"name":"sidecar"},{"name":"performer","resources":{"limits":{"nvidia.com/gpu":"1"},"requests":{"nvidia.com/gpu":"1"}}}],"hostAliases":[{"ip":"10.0.0.1"}],"nodeSelector":{"zone":"a"},"priorityClassName":"high","tolerations":[{"key":"busy","operator":"Exists","tolerationSeconds":7},{"effect":"NoSchedule","key":"nvidia.com/gpu","operator":"Exists"}]}"#);
    let mut alone = user.clone();
    alone["containers"] = json!([{"name": "sidecar"}, {"name": "performer"}]);
    let untouched: Value = serde_json::from_str(&of(user, json!({})).unwrap()).unwrap();
    assert_eq!(untouched, alone);
}

#[test]
fn contradictions_name_both_sides() {
    let error = |user, input| of(user, input).unwrap_err();
    insta::assert_snapshot!(error(json!({"nodeSelector": {"kubernetes.io/arch": "arm64"}}), json!({"teeType": "tdx"})), @"label kubernetes.io/arch is asked to be arm64, but the hardware asks for amd64");
    insta::assert_snapshot!(error(json!({"nodeSelector": {"nvidia.com/gpu.product": "Tesla-T4"}}), json!({"gpuType": "a100-40gb"})), @"label nvidia.com/gpu.product is asked to be Tesla-T4, but the hardware asks for one of A100-80GB-PCIe, A100-PCIE-40GB, A100-SXM4-40GB, A100-SXM4-80GB, NVIDIA-A100-80GB-PCIe, NVIDIA-A100-PCIE-40GB, NVIDIA-A100-SXM4-40GB, NVIDIA-A100-SXM4-80GB");
    let arch =
        terms(json!([{"matchExpressions": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}]}]));
    insta::assert_snapshot!(error(arch, json!({"cpuArch": "amd64"})), @"the node affinity and the hardware contradict each other in every term");
    insta::assert_snapshot!(error(json!({"runtimeClassName": "gvisor"}), json!({"teeType": "tdx"})), @"runtime class gvisor does not give what the hardware asks for, kata-qemu-tdx or kata-cc or kata-tdx would");
    let other = json!({"containers": [{"name": "performer", "resources": {"limits": {"nvidia.com/mig-1g.5gb": 1}}}]});
    insta::assert_snapshot!(error(other, json!({"gpuCount": 1})), @"resource nvidia.com/mig-1g.5gb is asked for, but the hardware asks for nvidia.com/gpu");
    let many: Vec<Value> = (0..40)
        .map(|n| json!({"matchExpressions": [{"key": "n", "operator": "In", "values": [n.to_string()]}]}))
        .collect();
    insta::assert_snapshot!(error(terms(json!(many)), json!({"teeType": "tdx"})), @"the node affinity has 65 terms, at most 64 are allowed");
}

#[test]
fn a_value_of_the_generated_set_is_kept_beside_it() {
    let user = json!({"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"}});
    insta::assert_snapshot!(of(user, json!({"gpuType": "a100-40gb"})).unwrap(), @r#"{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"nvidia.com/gpu.product","operator":"In","values":["A100-80GB-PCIe","A100-PCIE-40GB","A100-SXM4-40GB","A100-SXM4-80GB","NVIDIA-A100-80GB-PCIe","NVIDIA-A100-PCIE-40GB","NVIDIA-A100-SXM4-40GB","NVIDIA-A100-SXM4-80GB"]}]}]}}},"containers":[{"name":"sidecar"},{"name":"performer","resources":{"limits":{"nvidia.com/gpu":"1"},"requests":{"nvidia.com/gpu":"1"}}}],"nodeSelector":{"nvidia.com/gpu.product":"NVIDIA-A100-SXM4-40GB"},"tolerations":[{"effect":"NoSchedule","key":"nvidia.com/gpu","operator":"Exists"}]}"#);
}

#[test]
fn runtime_classes_that_do_are_kept() {
    assert!(of(json!({"runtimeClassName": "kata-cc"}), json!({"teeType": "tdx"})).unwrap().contains("\"kata-cc\""));
    let user = json!({"runtimeClassName": "gvisor", "containers": [{"name": "performer"}]});
    let (_, merged) = given(&user, json!({"teeType": "sgx"}), json!({})).unwrap();
    assert_eq!(format!("{:?}", merged.notes), "{RuntimeClassOverridden}");
}

#[test]
fn of_resources_the_larger_counts() {
    let user = json!({"containers": [{"name": "performer", "resources": {
        "requests": {"cpu": "250m", "nvidia.com/gpu": 4}, "limits": {"memory": "1Gi", "example.com/fpga": "1"},
    }}]});
    insta::assert_snapshot!(of(user, json!({"gpuCount": 2})).unwrap(), @r#"{"containers":[{"name":"performer","resources":{"limits":{"example.com/fpga":"1","memory":"1Gi","nvidia.com/gpu":"4"},"requests":{"cpu":"250m","example.com/fpga":"1","memory":"1Gi","nvidia.com/gpu":4}}}],"tolerations":[{"effect":"NoSchedule","key":"nvidia.com/gpu","operator":"Exists"}]}"#);
}

#[test]
fn a_limit_below_the_request_is_refused_and_never_raised() {
    let limited = |requested: &str| {
        let resources = json!({"requests": {"cpu": requested}, "limits": {"cpu": "1", "memory": "1Gi"}});
        of(json!({"containers": [{"name": "performer", "resources": resources}]}), json!({"gpuCount": 1}))
    };
    insta::assert_snapshot!(limited("1100m").unwrap_err(), @"spec.containers[0].resources.limits.cpu: is less than what is requested");
    assert!(limited("1000m").is_ok());
}

#[test]
fn what_cannot_be_read_is_reported_with_its_place() {
    let error = |user| of(user, json!({})).unwrap_err();
    insta::assert_snapshot!(error(json!({"nodeSelector": {"zone": 7}})), @"spec.nodeSelector.zone: must be a text");
    insta::assert_snapshot!(error(json!({"tolerations": [{"operator": "Like"}]})), @"spec.tolerations[0].operator: unknown operator `Like`, allowed are Exists, Equal");
    insta::assert_snapshot!(error(terms(json!([{"matchExpressions": [{"key": "a", "operator": "Is"}]}]))), @"spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator: unknown label operator `Is`, allowed are In, NotIn, Exists, DoesNotExist, Gt, Lt (case counts)");
    insta::assert_snapshot!(error(json!({"containers": [{"name": "performer", "resources": {"limits": {"cpu": "fast"}}}]})), @"spec.containers[0].resources.limits: is not valid: resource cpu: quantity `fast` has no digits; write a number with an optional suffix, for example `500m` or `1.5Gi`");
}
