//! Rows of the table of trusted execution environments, each with the pod it makes. Owns no production code.

use serde_json::json;

use super::{bare, given, pod, with};

#[test]
fn rows_of_sgx() {
    insta::assert_snapshot!(pod(json!({"teeType": "sgx"})), @r#"{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"intel.feature.node.kubernetes.io/sgx","operator":"In","values":["true"]}]},{"matchExpressions":[{"key":"sgx.intel.com/capable","operator":"In","values":["true"]}]},{"matchExpressions":[{"key":"feature.node.kubernetes.io/cpu-security.sgx.enabled","operator":"In","values":["true"]}]}]}}},"containers":[{"name":"performer","resources":{"limits":{"sgx.intel.com/enclave":"1","sgx.intel.com/epc":"64Mi"},"requests":{"sgx.intel.com/enclave":"1","sgx.intel.com/epc":"64Mi"}}}],"nodeSelector":{"kubernetes.io/arch":"amd64"},"tolerations":[{"effect":"NoSchedule","key":"sgx","operator":"Exists"},{"effect":"NoSchedule","key":"sgx.intel.com/enclave","operator":"Exists"},{"effect":"NoSchedule","key":"sgx.intel.com/epc","operator":"Exists"}]}"#);
}

#[test]
fn sgx_with_the_users_memory_and_provision() {
    let user = json!({"containers": [{"name": "performer", "resources": {"limits": {"sgx.intel.com/epc": "128Mi"}}}]});
    let provision = json!({"tee": {"kinds": {"sgx": {"resources": {"sgx.intel.com/enclave": 1, "sgx.intel.com/epc": "64Mi", "sgx.intel.com/provision": 1}}}}});
    insta::assert_snapshot!(given(&user, json!({"teeType": "sgx"}), provision).unwrap().0, @r#"{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"intel.feature.node.kubernetes.io/sgx","operator":"In","values":["true"]}]},{"matchExpressions":[{"key":"sgx.intel.com/capable","operator":"In","values":["true"]}]},{"matchExpressions":[{"key":"feature.node.kubernetes.io/cpu-security.sgx.enabled","operator":"In","values":["true"]}]}]}}},"containers":[{"name":"performer","resources":{"limits":{"sgx.intel.com/enclave":"1","sgx.intel.com/epc":"128Mi","sgx.intel.com/provision":"1"},"requests":{"sgx.intel.com/enclave":"1","sgx.intel.com/epc":"128Mi","sgx.intel.com/provision":"1"}}}],"nodeSelector":{"kubernetes.io/arch":"amd64"},"tolerations":[{"effect":"NoSchedule","key":"sgx","operator":"Exists"},{"effect":"NoSchedule","key":"sgx.intel.com/enclave","operator":"Exists"},{"effect":"NoSchedule","key":"sgx.intel.com/epc","operator":"Exists"},{"effect":"NoSchedule","key":"sgx.intel.com/provision","operator":"Exists"}]}"#);
}

#[test]
fn rows_of_tdx() {
    insta::assert_snapshot!(pod(json!({"teeType": "tdx"})), @r#"{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"intel.feature.node.kubernetes.io/tdx","operator":"In","values":["true"]}]},{"matchExpressions":[{"key":"feature.node.kubernetes.io/cpu-security.tdx.enabled","operator":"In","values":["true"]}]}]}}},"containers":[{"name":"performer"}],"nodeSelector":{"kubernetes.io/arch":"amd64"},"runtimeClassName":"kata-qemu-tdx","tolerations":[{"effect":"NoSchedule","key":"tdx","operator":"Exists"}]}"#);
}

#[test]
fn sev_snp_and_the_weaker_kinds_it_stands_for() {
    insta::assert_snapshot!(pod(json!({"teeType": "sev-snp"})), @r#"{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"amd.feature.node.kubernetes.io/snp","operator":"In","values":["true"]}]},{"matchExpressions":[{"key":"feature.node.kubernetes.io/cpu-security.sev.snp.enabled","operator":"In","values":["true"]}]}]}}},"containers":[{"name":"performer"}],"nodeSelector":{"kubernetes.io/arch":"amd64"},"runtimeClassName":"kata-qemu-snp","tolerations":[{"effect":"NoSchedule","key":"sev","operator":"Exists"},{"effect":"NoSchedule","key":"sev-snp","operator":"Exists"}]}"#);
    assert_eq!(pod(json!({"teeType": "sev"})), format!("{} Narrowed", pod(json!({"teeType": "sev-snp"}))));
    assert_eq!(pod(json!({"teeType": "sev-es"})), pod(json!({"teeType": "sev"})));
}

#[test]
fn a_table_restores_a_weaker_kind() {
    let file = json!({"tee": {"labelFamilies": ["nfd"], "kinds": {"sev": {
        "labels": {"nfd": ["feature.node.kubernetes.io/cpu-security.sev.enabled"]}, "runtimeClass": "kata-qemu-sev", "tolerations": ["sev"],
    }}}});
    insta::assert_snapshot!(with(json!({"teeType": "sev"}), file), @r#"{"containers":[{"name":"performer"}],"nodeSelector":{"feature.node.kubernetes.io/cpu-security.sev.enabled":"true","kubernetes.io/arch":"amd64"},"runtimeClassName":"kata-qemu-sev","tolerations":[{"effect":"NoSchedule","key":"sev","operator":"Exists"}]}"#);
}

#[test]
fn one_label_is_a_selector() {
    let rule = json!({"tee": {"labelFamilies": ["rule"]}});
    insta::assert_snapshot!(with(json!({"teeType": "tdx"}), rule), @r#"{"containers":[{"name":"performer"}],"nodeSelector":{"intel.feature.node.kubernetes.io/tdx":"true","kubernetes.io/arch":"amd64"},"runtimeClassName":"kata-qemu-tdx","tolerations":[{"effect":"NoSchedule","key":"tdx","operator":"Exists"}]}"#);
}

#[test]
fn secure_execution_and_cca() {
    insta::assert_snapshot!(pod(json!({"teeType": "se"})), @r#"{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"ibm.feature.node.kubernetes.io/se","operator":"In","values":["true"]}]},{"matchExpressions":[{"key":"feature.node.kubernetes.io/cpu-security.se.enabled","operator":"In","values":["true"]}]}]}}},"containers":[{"name":"performer"}],"nodeSelector":{"kubernetes.io/arch":"s390x"},"runtimeClassName":"kata-qemu-se","tolerations":[{"effect":"NoSchedule","key":"se","operator":"Exists"}]}"#);
    let error = given(&bare(), json!({"teeType": "cca"}), json!({})).unwrap_err();
    insta::assert_snapshot!(error, @"cca is not available on kubernetes");
    let file = json!({"tee": {"kinds": {"cca": {"labels": {"rule": ["arm.feature.node.kubernetes.io/cca"]}}}}});
    insta::assert_snapshot!(with(json!({"teeType": "cca"}), file), @r#"{"containers":[{"name":"performer"}],"nodeSelector":{"arm.feature.node.kubernetes.io/cca":"true","kubernetes.io/arch":"arm64"},"runtimeClassName":"kata-qemu-cca","tolerations":[{"effect":"NoSchedule","key":"cca","operator":"Exists"}]}"#);
}

#[test]
fn preferred_asks_for_nothing_but_labels() {
    insta::assert_snapshot!(pod(json!({"teeType": "tdx", "teeRequired": false})), @r#"{"affinity":{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"preference":{"matchExpressions":[{"key":"feature.node.kubernetes.io/cpu-security.tdx.enabled","operator":"In","values":["true"]}]},"weight":50},{"preference":{"matchExpressions":[{"key":"intel.feature.node.kubernetes.io/tdx","operator":"In","values":["true"]}]},"weight":50}]}},"containers":[{"name":"performer"}]}"#);
}

#[test]
fn confidential_gpus() {
    insta::assert_snapshot!(pod(json!({"teeType": "tdx", "gpuCount": 1})), @r#"{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"intel.feature.node.kubernetes.io/tdx","operator":"In","values":["true"]}]},{"matchExpressions":[{"key":"feature.node.kubernetes.io/cpu-security.tdx.enabled","operator":"In","values":["true"]}]}]}}},"containers":[{"name":"performer","resources":{"limits":{"nvidia.com/pgpu":"1"},"requests":{"nvidia.com/pgpu":"1"}}}],"nodeSelector":{"kubernetes.io/arch":"amd64","nvidia.com/cc.ready.state":"true"},"runtimeClassName":"kata-qemu-nvidia-gpu-tdx","tolerations":[{"effect":"NoSchedule","key":"nvidia.com/gpu","operator":"Exists"},{"effect":"NoSchedule","key":"nvidia.com/pgpu","operator":"Exists"},{"effect":"NoSchedule","key":"tdx","operator":"Exists"}]}"#);
    for narrow in [
        json!({"gpuType": "h100"}),
        json!({"gpuType": "H100 80GB"}),
        json!({"gpuType": "h100-nvl"}),
        json!({"gpuMemoryGiB": 80}),
    ] {
        let mut input = narrow.clone();
        input["teeType"] = json!("sev-snp");
        let error = given(&bare(), input, json!({})).unwrap_err().to_string();
        assert!(error.contains("in a confidential virtual machine"), "{narrow}: {error}");
    }
    let error = given(&bare(), json!({"teeType": "tdx", "gpuType": "h100"}), json!({})).unwrap_err();
    insta::assert_snapshot!(error, @"nvidia-h100 in a confidential virtual machine (the hardware configuration does not list h100 in `confidentialGpu.resourceByModel` or `confidentialGpu.productLabels`) is not available on kubernetes");
    let error = given(&bare(), json!({"teeType": "tdx", "gpuType": "H100 80GB"}), json!({})).unwrap_err();
    insta::assert_snapshot!(error, @"nvidia-h100-80gb in a confidential virtual machine (the hardware configuration does not list h100 in `confidentialGpu.resourceByModel` or `confidentialGpu.productLabels`) is not available on kubernetes");
    let labelled = json!({"confidentialGpu": {"productLabels": {"h100": {"example.com/gpu": "h100"}}}});
    insta::assert_snapshot!(with(json!({"teeType": "tdx", "gpuType": "h100"}), labelled), @r#"{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"intel.feature.node.kubernetes.io/tdx","operator":"In","values":["true"]}]},{"matchExpressions":[{"key":"feature.node.kubernetes.io/cpu-security.tdx.enabled","operator":"In","values":["true"]}]}]}}},"containers":[{"name":"performer","resources":{"limits":{"nvidia.com/pgpu":"1"},"requests":{"nvidia.com/pgpu":"1"}}}],"nodeSelector":{"example.com/gpu":"h100","kubernetes.io/arch":"amd64","nvidia.com/cc.ready.state":"true"},"runtimeClassName":"kata-qemu-nvidia-gpu-tdx","tolerations":[{"effect":"NoSchedule","key":"nvidia.com/gpu","operator":"Exists"},{"effect":"NoSchedule","key":"nvidia.com/pgpu","operator":"Exists"},{"effect":"NoSchedule","key":"tdx","operator":"Exists"}]}"#);
    let by_model = json!({"confidentialGpu": {"resourceByModel": {"h200": "nvidia.com/GH100_H200_SXM_141GB"}}});
    insta::assert_snapshot!(with(json!({"teeType": "tdx", "gpuType": "h200"}), by_model), @r#"{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"intel.feature.node.kubernetes.io/tdx","operator":"In","values":["true"]}]},{"matchExpressions":[{"key":"feature.node.kubernetes.io/cpu-security.tdx.enabled","operator":"In","values":["true"]}]}]}}},"containers":[{"name":"performer","resources":{"limits":{"nvidia.com/GH100_H200_SXM_141GB":"1"},"requests":{"nvidia.com/GH100_H200_SXM_141GB":"1"}}}],"nodeSelector":{"kubernetes.io/arch":"amd64","nvidia.com/cc.ready.state":"true"},"runtimeClassName":"kata-qemu-nvidia-gpu-tdx","tolerations":[{"effect":"NoSchedule","key":"nvidia.com/GH100_H200_SXM_141GB","operator":"Exists"},{"effect":"NoSchedule","key":"nvidia.com/gpu","operator":"Exists"},{"effect":"NoSchedule","key":"tdx","operator":"Exists"}]}"#);
    let error = given(&bare(), json!({"teeType": "se", "gpuCount": 1}), json!({})).unwrap_err();
    insta::assert_snapshot!(error, @"se with GPUs is not available on kubernetes");
}

#[test]
fn weaker_kinds_with_a_gpu_get_the_machine_of_the_stronger_one() {
    let strong = pod(json!({"teeType": "sev-snp", "gpuCount": 1}));
    assert!(strong.contains("kata-qemu-nvidia-gpu-snp") && strong.contains("nvidia.com/pgpu"), "{strong}");
    for kind in ["sev", "sev-es"] {
        assert_eq!(pod(json!({"teeType": kind, "gpuCount": 1})), format!("{strong} Narrowed"), "{kind}");
        let own = json!({"tee": {"kinds": {kind: {
            "labels": {"rule": ["example.org/tee"]}, "runtimeClass": "kata-own", "gpuRuntimeClass": "kata-own-gpu"}}}});
        let (own, merged) = given(&bare(), json!({"teeType": kind, "gpuCount": 1}), own).unwrap();
        assert_eq!(
            (&own["runtimeClassName"], merged.overhead.to_string().as_str()),
            (&json!("kata-own-gpu"), "cpu 1, memory 96Gi")
        );
        // Without a class that gives it a device there is none.
        let none =
            json!({"tee": {"kinds": {kind: {"labels": {"rule": ["example.org/tee"]}, "runtimeClass": "kata-own"}}}});
        let error = given(&bare(), json!({"teeType": kind, "gpuCount": 1}), none).unwrap_err().to_string();
        assert_eq!(error, format!("{kind} with GPUs is not available on kubernetes"));
    }
}

#[test]
fn sgx_with_gpu_is_the_union_of_both() {
    insta::assert_snapshot!(pod(json!({"teeType": "sgx", "gpuType": "amd"})), @r#"{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"intel.feature.node.kubernetes.io/sgx","operator":"In","values":["true"]}]},{"matchExpressions":[{"key":"sgx.intel.com/capable","operator":"In","values":["true"]}]},{"matchExpressions":[{"key":"feature.node.kubernetes.io/cpu-security.sgx.enabled","operator":"In","values":["true"]}]}]}}},"containers":[{"name":"performer","resources":{"limits":{"amd.com/gpu":"1","sgx.intel.com/enclave":"1","sgx.intel.com/epc":"64Mi"},"requests":{"amd.com/gpu":"1","sgx.intel.com/enclave":"1","sgx.intel.com/epc":"64Mi"}}}],"nodeSelector":{"kubernetes.io/arch":"amd64"},"tolerations":[{"effect":"NoSchedule","key":"amd.com/gpu","operator":"Exists"},{"effect":"NoSchedule","key":"sgx","operator":"Exists"},{"effect":"NoSchedule","key":"sgx.intel.com/enclave","operator":"Exists"},{"effect":"NoSchedule","key":"sgx.intel.com/epc","operator":"Exists"}]}"#);
}

#[test]
fn overhead_counts_for_fit_and_is_not_rendered() {
    let overhead = |input| given(&bare(), input, json!({})).unwrap().1.overhead.to_string();
    assert_eq!(overhead(json!({"teeType": "tdx"})), "cpu 1, memory 2Gi");
    assert_eq!(overhead(json!({"teeType": "tdx", "gpuCount": 1})), "cpu 1, memory 96Gi");
    assert_eq!(overhead(json!({"teeType": "sgx"})), "nothing");
}
