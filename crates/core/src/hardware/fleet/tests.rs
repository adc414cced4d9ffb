//! Tests of the predicate on workers and of what a job can say of it, row by row. Owns no production code.

use serde_json::{Value, json};

use super::{check_labels, demand, judge};
use crate::hardware::{
    HardwareFacts, HardwareInput, Resolved, Resources, Substrate, Tables, describe, parse_tee_type, place, resolve,
};

fn need(input: Value) -> Resolved {
    let (input, tables): (HardwareInput, _) = (serde_json::from_value(input).unwrap(), Tables::default());
    resolve(&input.requirements(&tables).unwrap(), &tables).unwrap()
}

fn worker(change: Value) -> HardwareFacts {
    let gpu = |model: &str, gib: u32, group: Value| json!({"vendor": "nvidia", "model": model, "memoryGib": gib, "nvlinkGroup": group});
    let mut sliced = gpu("NVIDIA A100-SXM4-40GB", 40, json!(0));
    sliced["mig"] = json!({"1g.5gb": 3});
    let mut facts = json!({
        "arch": "amd64", "cpuMilli": 8000, "memoryBytes": 1_073_741_824, "diskBytes": 1000,
        "gpus": [gpu("NVIDIA A100-SXM4-40GB", 40, json!(0)), gpu("NVIDIA A100-SXM4-40GB", 40, json!(0)), gpu("NVIDIA A100-SXM4-40GB", 40, json!(1)), sliced],
        "tees": ["sev-snp"], "labels": {"rack": "r7"},
    });
    facts.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    serde_json::from_value(facts).unwrap()
}

fn said(facts: &HardwareFacts, input: Value, resources: Value) -> String {
    let resources: Resources = serde_json::from_value(resources).unwrap();
    let words = Tables::default().vocabulary(Substrate::Fleet);
    judge(facts, &need(input), &resources, &words).map_or_else(|error| error.to_string(), |verdict| verdict.to_string())
}

fn of(input: Value) -> String {
    said(&worker(json!({})), input, json!({}))
}

#[test]
fn the_predicate_as_a_placement() {
    let words = Tables::default().vocabulary(Substrate::Fleet);
    let text = |input| serde_json::to_string(&place(&need(input), &Resources::default(), &words).unwrap()).unwrap();
    insta::assert_snapshot!(text(json!({"gpuType": "A100-SXM4-40GB", "gpuCount": 2, "nvlink": true, "cpuArch": "amd64"})), @r#"{"arch":{"key":"orlop/arch","op":"In","values":["amd64"]},"tolerations":[{"key":"orlop/gpu"}],"device":{"vendor":"nvidia","class":"whole","count":2,"model":"a100","form":["sxm4"],"products":["A100-SXM4-40GB","A100-SXM4-80GB"],"memoryGib":40,"nvlink":true,"source":"inventory"}}"#);
    insta::assert_snapshot!(text(json!({"teeType": "sev", "customLabels": {"rack": "r7"}})), @r#"{"arch":{"key":"orlop/arch","op":"In","values":["amd64"]},"tee":"sev","required":[{"anyOf":[{"allOf":[{"key":"orlop/tee-sev","op":"In","values":["true"]}]}]},{"anyOf":[{"allOf":[{"key":"rack","op":"In","values":["r7"]}]}]}],"tolerations":[{"key":"orlop/tee"}]}"#);
}

#[test]
fn free_exclusive_devices_of_vendor_model_form_and_memory() {
    assert_eq!(of(json!({"gpuCount": 3})), "machine fits");
    insta::assert_snapshot!(of(json!({"gpuCount": 4})), @"machine: needs 4 nvidia GPUs, has 3");
    assert_eq!(of(json!({"gpuType": "a100-sxm4", "gpuCount": 3, "gpuMemoryGiB": 40})), "machine fits");
    insta::assert_snapshot!(of(json!({"gpuType": "a100-pcie"})), @"machine: needs 1 nvidia a100 pcie GPU, has 0");
    insta::assert_snapshot!(of(json!({"gpuMemoryGiB": 80})), @"machine: needs 1 nvidia GPU, 80 GiB or more, has 0");
    insta::assert_snapshot!(of(json!({"gpuType": "amd"})), @"machine: needs 1 amd GPU, has 0");
}

#[test]
fn nvlink_is_one_group_and_slices_are_free_instances() {
    assert_eq!(of(json!({"gpuType": "a100", "gpuCount": 2, "nvlink": true})), "machine fits");
    insta::assert_snapshot!(of(json!({"gpuType": "a100", "gpuCount": 3, "nvlink": true})), @"machine: needs 3 nvidia a100 GPUs, NVLink, has 2");
    assert_eq!(of(json!({"gpuType": "mig-1g.5gb", "gpuCount": 3})), "machine fits");
    insta::assert_snapshot!(of(json!({"gpuType": "a100-mig-1g.5gb", "gpuCount": 4})), @"machine: needs 4 mig-1g.5gb nvidia a100 slices, has 3");
}

#[test]
fn stronger_kinds_serve_weaker_ones() {
    for kind in ["sev", "sev-es", "sev-snp"] {
        assert_eq!(of(json!({"teeType": kind})), "machine fits", "{kind}");
    }
    insta::assert_snapshot!(of(json!({"teeType": "tdx"})), @"machine: needs orlop/tee-tdx = true");
    let kinds = ["sgx", "tdx", "sev", "sev-es", "sev-snp", "se", "cca"];
    for has in kinds {
        let arch = parse_tee_type(has).unwrap().arch();
        let facts = worker(json!({"tees": [has], "arch": arch}));
        let serves = kinds.iter().filter(|asked| said(&facts, json!({"teeType": asked}), json!({})).ends_with("fits"));
        let expected: &[&str] = match has {
            "sev-snp" => &["sev", "sev-es", "sev-snp"],
            "sev-es" => &["sev", "sev-es"],
            only => &[only],
        };
        assert_eq!(serves.copied().collect::<Vec<_>>(), expected, "{has}");
    }
    insta::assert_snapshot!(said(&worker(json!({"tees": ["sev"]})), json!({"teeType": "sev-es"}), json!({})), @"machine: needs orlop/tee-sev-es = true");
}

#[test]
fn arch_labels_and_amounts() {
    insta::assert_snapshot!(of(json!({"cpuArch": "arm64", "customLabels": {"rack": "r8"}})), @"machine: needs CPU architecture arm64, has amd64, needs rack = r8, has rack = r7");
    insta::assert_snapshot!(said(&worker(json!({})), json!({}), json!({"cpuMilli": 8001, "memoryBytes": 1, "diskBytes": 1001})), @"machine: cpu: needs 8001m, has 8, ephemeral-storage: needs 1001, has 1k");
}

#[test]
fn taints_of_devices_are_tolerated_by_those_who_need_them() {
    let taint = |key: &str, effect: &str| json!({"key": key, "effect": effect});
    let facts = worker(json!({"taints": [taint("orlop/gpu", "NoSchedule"), taint("orlop/tee", "NoExecute")]}));
    assert_eq!(
        said(&facts, json!({"gpuCount": 1, "teeType": "sgx", "teeRequired": false}), json!({})),
        "machine: does not tolerate orlop/tee:NoExecute"
    );
    assert_eq!(said(&facts, json!({"teeType": "sev"}), json!({})), "machine: does not tolerate orlop/gpu:NoSchedule");
    let confidential = json!({"vendor": "nvidia", "model": "H100 PCIe", "memoryGib": 80, "confidential": true});
    let facts = HardwareFacts { gpus: vec![serde_json::from_value(confidential).unwrap()], ..facts };
    assert_eq!(said(&facts, json!({"gpuCount": 1, "teeType": "sev-snp"}), json!({})), "machine fits");
    assert!(!said(&facts, json!({"gpuCount": 1}), json!({})).ends_with("fits"));
}

#[test]
fn every_taint_that_keeps_work_away_must_be_tolerated() {
    let needs =
        [json!({}), json!({"gpuCount": 1}), json!({"teeType": "sev"}), json!({"gpuCount": 1, "teeType": "sgx"})];
    for effect in ["NoSchedule", "PreferNoSchedule", "NoExecute"] {
        let on = |key: &str, input: &Value| {
            let taint = json!([{"key": key, "value": "x", "effect": effect}]);
            let facts = worker(json!({"taints": taint, "tees": ["sgx", "sev"]}));
            said(&facts, input.clone(), json!({})) == "machine fits"
        };
        let harmless = effect == "PreferNoSchedule";
        for (tolerates_gpu, tolerates_tee, input) in
            [(false, false, &needs[0]), (true, false, &needs[1]), (false, true, &needs[2]), (true, true, &needs[3])]
        {
            assert_eq!(on("orlop/gpu", input), harmless || tolerates_gpu, "{effect} {input}");
            assert_eq!(on("orlop/tee", input), harmless || tolerates_tee, "{effect} {input}");
            assert_eq!(on("busy", input), harmless, "{effect} {input}");
        }
    }
}

#[test]
fn devices_that_others_use_or_that_are_set_aside_are_not_free() {
    let gpu = |change: Value| {
        let mut gpu = json!({"vendor": "intel", "model": "Flex_170", "memoryGib": 16});
        gpu.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        gpu
    };
    let facts = worker(json!({"gpus": [gpu(json!({})), gpu(json!({"users": 2})), gpu(json!({"confidential": true}))]}));
    assert_eq!(said(&facts, json!({"gpuType": "intel"}), json!({})), "machine fits");
    insta::assert_snapshot!(said(&facts, json!({"gpuType": "intel", "gpuCount": 2}), json!({})), @"machine: needs 2 intel GPUs, has 1");
    insta::assert_snapshot!(said(&facts, json!({"gpuType": "flex170", "gpuCount": 2}), json!({})), @"machine: needs 2 intel flex170 GPUs, has 1");
    insta::assert_snapshot!(said(&facts, json!({"gpuCount": 1}), json!({})), @"machine: needs 1 nvidia GPU, has 0");
}

#[test]
fn labels_tell_what_all_devices_have_in_common() {
    let derived = |gpus: Value| {
        let labels = crate::hardware::derived(&worker(json!({"gpus": gpus, "tees": [], "arch": "arm64"})));
        labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
    };
    let gpu = |vendor: &str, model: &str, gib: u32, group: Value| json!({"vendor": vendor, "model": model, "memoryGib": gib, "nvlinkGroup": group});
    let a100 = |group: Value| gpu("nvidia", "NVIDIA A100-SXM4-40GB", 40, group);
    insta::assert_snapshot!(derived(json!([])), @"orlop/arch=arm64");
    insta::assert_snapshot!(derived(json!([a100(json!(3)), a100(json!(3))])), @"orlop/arch=arm64 orlop/gpu-count=2 orlop/gpu-memory-gib=40 orlop/gpu-model=a100 orlop/gpu-nvlink=true orlop/gpu-vendor=nvidia");
    insta::assert_snapshot!(derived(json!([a100(json!(0)), a100(json!(1))])), @"orlop/arch=arm64 orlop/gpu-count=2 orlop/gpu-memory-gib=40 orlop/gpu-model=a100 orlop/gpu-vendor=nvidia");
    insta::assert_snapshot!(derived(json!([a100(Value::Null), gpu("nvidia", "Tesla T4", 16, Value::Null)])), @"orlop/arch=arm64 orlop/gpu-count=2 orlop/gpu-memory-gib=16 orlop/gpu-vendor=nvidia");
    insta::assert_snapshot!(derived(json!([a100(json!(0)), gpu("amd", "of no table", 24, Value::Null)])), @"orlop/arch=arm64 orlop/gpu-count=2 orlop/gpu-memory-gib=24");
    let kinds = crate::hardware::derived(&worker(json!({"gpus": [], "tees": ["sgx", "sev-es"]})));
    insta::assert_snapshot!(kinds.into_keys().collect::<Vec<_>>().join(" "), @"orlop/arch orlop/tee-sev orlop/tee-sev-es orlop/tee-sgx");
}

#[test]
fn derived_labels_and_none_of_the_users() {
    let facts = worker(json!({"labels": {"orlop/gpu-count": "99", "rack": "r7"}}));
    let labels = describe(&facts, &Tables::default().vocabulary(Substrate::Fleet)).labels;
    insta::assert_snapshot!(labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" "), @"orlop/arch=amd64 orlop/gpu-count=4 orlop/gpu-memory-gib=40 orlop/gpu-model=a100 orlop/gpu-vendor=nvidia orlop/tee-sev=true orlop/tee-sev-es=true orlop/tee-sev-snp=true rack=r7");
    insta::assert_snapshot!(check_labels(&facts.labels).unwrap_err(), @"label orlop/gpu-count is set by the worker itself");
    assert_eq!(check_labels(&worker(json!({})).labels), Ok(()));
}

#[test]
fn a_need_as_a_job_says_it() {
    let said = |input, resources: Value| {
        let resources: Resources = serde_json::from_value(resources).unwrap();
        match demand(&need(input), &resources) {
            Ok(need) => serde_json::to_string(&need).unwrap(),
            Err(error) => error.to_string(),
        }
    };
    insta::assert_snapshot!(said(json!({}), json!({})), @r#"{"resources":{"cpu_m":1000,"memory_bytes":268435456},"requires":{},"prefer":[]}"#);
    insta::assert_snapshot!(said(json!({"gpuType": "a100-80gb", "gpuCount": 2, "nvlink": true}), json!({"cpuMilli": 500, "memoryBytes": 7, "diskBytes": 9})), @r#"{"resources":{"cpu_m":500,"memory_bytes":7,"gpus":{"count":2,"any_of":[{"vendor":"nvidia","model":"a100","memory_min":85899345920}]},"extras":{"disk":9}},"requires":{"labels":[{"key":"orlop/gpu-nvlink","op":"in","values":["true"]}]},"prefer":[]}"#);
    insta::assert_snapshot!(said(json!({"teeType": "sev", "customLabels": {"rack": "r7"}}), json!({"extended": {"example.com/fpga": 2}})), @r#"{"resources":{"cpu_m":1000,"memory_bytes":268435456,"extras":{"example.com/fpga":2}},"requires":{"labels":[{"key":"orlop/arch","op":"in","values":["amd64"]},{"key":"rack","op":"in","values":["r7"]},{"key":"orlop/tee-sev","op":"in","values":["true"]}]},"prefer":[]}"#);
    insta::assert_snapshot!(said(json!({"teeType": "tdx", "teeRequired": false}), json!({})), @r#"{"resources":{"cpu_m":1000,"memory_bytes":268435456},"requires":{},"prefer":[{"label":{"key":"orlop/tee-tdx","op":"in","values":["true"]},"weight":50}]}"#);
    insta::assert_snapshot!(said(json!({"gpuType": "a100-sxm4"}), json!({})), @"a job of `nvidia-a100-sxm4`: jobs name models only, so it is not available on fleet");
    // Slices of no named model are those of every model that can be cut so.
    insta::assert_snapshot!(said(json!({"gpuType": "mig-1g.5gb"}), json!({})), @r#"{"resources":{"cpu_m":1000,"memory_bytes":268435456,"gpus":{"count":1,"any_of":[{"vendor":"nvidia","model":"a100mig1g5gb"}]}},"requires":{},"prefer":[]}"#);
    insta::assert_snapshot!(said(json!({"gpuType": "mig-1g.10gb"}), json!({})), @r#"{"resources":{"cpu_m":1000,"memory_bytes":268435456,"gpus":{"count":1,"any_of":[{"vendor":"nvidia","model":"h100mig1g10gb"},{"vendor":"nvidia","model":"a100mig1g10gb"},{"vendor":"nvidia","model":"a800mig1g10gb"}]}},"requires":{},"prefer":[]}"#);
    insta::assert_snapshot!(said(json!({"gpuType": "a100-mig-1g.5gb", "gpuCount": 2}), json!({})), @r#"{"resources":{"cpu_m":1000,"memory_bytes":268435456,"gpus":{"count":2,"any_of":[{"vendor":"nvidia","model":"a100mig1g5gb"}]}},"requires":{},"prefer":[]}"#);
    insta::assert_snapshot!(said(json!({"gpuType": "a100-sxm4-mig-1g.5gb"}), json!({})), @"a job of `nvidia-a100-sxm4-mig-1g.5gb`: jobs name models only, so it is not available on fleet");
    insta::assert_snapshot!(said(json!({"gpuType": "h100", "teeType": "tdx"}), json!({})), @"a job of confidential devices is not available on fleet");
    insta::assert_snapshot!(said(json!({}), json!({"extended": {"amd.com/gpu": 2}})), @"resource amd.com/gpu is not available on fleet");
}
