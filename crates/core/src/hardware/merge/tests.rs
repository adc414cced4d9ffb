//! Tests of merging, rule by rule. Owns no production code.

use serde_json::{Value, json};

use super::{RuntimeClass, UserConstraints, is_gpu, merge};
use crate::hardware::placement::{LabelExpr, Operator, Placement, RuntimeNeed, Toleration};
use crate::hardware::{HardwareInput, Machine, Resources, Substrate, Tables, place, resolve};
use crate::resource::{ResourceVector, Rounding};

fn placement(input: Value) -> Placement {
    let (input, tables): (HardwareInput, _) = (serde_json::from_value(input).unwrap(), Tables::default());
    let need = resolve(&input.requirements(&tables).unwrap(), &tables).unwrap();
    place(&need, &Resources::default(), &tables.vocabulary(Substrate::Kubernetes)).unwrap()
}

fn user(value: Value) -> UserConstraints {
    serde_json::from_value(value).unwrap()
}

fn error(said: Value, input: Value) -> String {
    let error = merge(&user(said), &placement(input)).unwrap_err();
    format!("{error}; {}", error.help())
}

#[test]
fn a_selector_outside_a_generated_set_is_a_conflict() {
    let t4 = json!({"nodeSelector": {"nvidia.com/gpu.product": "Tesla-T4"}});
    insta::assert_snapshot!(error(t4, json!({"gpuType": "a30"})), @"label nvidia.com/gpu.product is asked to be Tesla-T4, but the hardware asks for one of A30, NVIDIA-A30; remove the selector, or make it one of the values the hardware asks for");
    let small = json!({"nodeSelector": {"nvidia.com/gpu.memory": "16000"}});
    insta::assert_snapshot!(error(small, json!({"gpuMemoryGiB": 24})), @"label nvidia.com/gpu.memory is asked to be 16000, but the hardware asks for > 22118; remove the selector, or make it one of the values the hardware asks for");
}

#[test]
fn affinities_that_nothing_can_meet() {
    let none = json!({"required": []});
    insta::assert_snapshot!(error(none, json!({})), @"the node affinity and the hardware contradict each other in every term; remove the affinity term that excludes the hardware");
    let empty = json!({"required": [{}]});
    assert_eq!(error(empty.clone(), json!({})), error(json!({"required": []}), json!({})));
    assert_eq!(error(empty, json!({"gpuMemoryGiB": 24})), error(json!({"required": []}), json!({})));
    let expression = json!({"key": "nvidia.com/gpu.memory", "op": "Lt", "values": ["20000"]});
    let small = json!({"required": [{"expressions": [expression]}]});
    insta::assert_snapshot!(error(small, json!({"gpuMemoryGiB": 24})), @"the node affinity and the hardware contradict each other in every term; remove the affinity term that excludes the hardware");
}

#[test]
fn a_second_kind_of_devices_is_a_conflict() {
    for name in ["nvidia.com/pgpu", "nvidia.com/mig-1g.5gb", "amd.com/gpu", "gpu.intel.com/xe", "habana.ai/gaudi"] {
        let said = json!({"limits": {name: 1}});
        assert!(
            error(said.clone(), json!({"gpuCount": 1})).starts_with(&format!("resource {name} is asked for")),
            "{name}"
        );
        assert!(error(said.clone(), json!({"gpuCount": 1, "allocation": "dra"})).contains("gpu.nvidia.com"), "{name}");
        let _ = merge(&user(said), &placement(json!({"teeType": "sgx"}))).unwrap();
    }
    let two = json!({"limits": {"amd.com/gpu": 1, "nvidia.com/gpu": 1}});
    insta::assert_snapshot!(error(two, json!({})), @"resource nvidia.com/gpu is asked for, but the hardware asks for amd.com/gpu; remove the resource, hardwareRequirements asks for it");
}

#[test]
fn resources_that_stand_for_gpus() {
    for name in "nvidia.com/gpu nvidia.com/pgpu nvidia.com/mig-1g.5gb amd.com/gpu gpu.intel.com/i915 gpu.intel.com/xe habana.ai/gaudi".split(' ') {
        assert!(is_gpu(name), "{name}");
        for (kind, own) in [("nvidia", "nvidia.com/gpu"), ("amd", "amd.com/gpu"), ("intel", "gpu.intel.com/i915")] {
            let merged = merge(&user(json!({"requests": {name: 1}})), &placement(json!({"gpuType": kind})));
            assert_eq!(merged.is_ok(), name == own, "{name} {kind}");
        }
    }
    for name in "cpu memory nvidia.com/hostdev amd.com/fpga intel.com/gpu example.com/gpu sgx.intel.com/epc".split(' ')
    {
        assert!(!is_gpu(name), "{name}");
    }
}

#[test]
fn of_each_resource_the_larger_and_extended_ones_alike() {
    let merged = |said: Value, input: Value| {
        let merged = merge(&user(said), &placement(input)).unwrap();
        format!("{} | {}", merged.requests, merged.limits)
    };
    insta::assert_snapshot!(merged(json!({"requests": {"nvidia.com/gpu": 1}}), json!({"gpuCount": 3})), @"nvidia.com/gpu 3 | nvidia.com/gpu 3");
    insta::assert_snapshot!(merged(json!({"limits": {"nvidia.com/gpu": 4}}), json!({"gpuCount": 3})), @"nvidia.com/gpu 4 | nvidia.com/gpu 4");
    insta::assert_snapshot!(merged(json!({"requests": {"sgx.intel.com/epc": "32Mi"}, "limits": {"sgx.intel.com/epc": "1Gi"}}), json!({"teeType": "sgx"})), @"sgx.intel.com/enclave 1, sgx.intel.com/epc 1073741824 | sgx.intel.com/enclave 1, sgx.intel.com/epc 1073741824");
    insta::assert_snapshot!(merged(json!({"requests": {"cpu": 2}, "limits": {"cpu": 1, "memory": 7}}), json!({})), @"cpu 2, memory 7 | cpu 2, memory 7");
}

#[test]
fn the_users_preferences_and_tolerations_come_first_and_none_twice() {
    let zone = json!({"expressions": [{"key": "zone", "op": "Exists"}]});
    let said = json!({"preferred": [[7, zone]], "tolerations": [{"key": "busy"}, {"key": "nvidia.com/gpu", "effect": "NoSchedule"}]});
    let merged =
        merge(&user(said), &placement(json!({"gpuCount": 1, "teeType": "tdx", "teeRequired": false}))).unwrap();
    insta::assert_snapshot!(serde_json::to_string(&(&merged.preferred, &merged.tolerations)).unwrap(), @r#"[[[7,{"expressions":[{"key":"zone","op":"Exists"}]}],[50,{"expressions":[{"key":"feature.node.kubernetes.io/cpu-security.tdx.enabled","op":"In","values":["true"]}]}],[50,{"expressions":[{"key":"intel.feature.node.kubernetes.io/tdx","op":"In","values":["true"]}]}]],[{"key":"busy"},{"key":"nvidia.com/gpu","effect":"NoSchedule"}]]"#);
    assert_eq!((merged.runtime_class, merged.overhead.is_zero()), (None, true));
}

#[test]
fn a_class_of_the_accepted_ones_does_and_no_other() {
    let classes = |input: Value, class: &str| {
        merge(&user(json!({"runtimeClass": class})), &placement(input)).map(|merged| merged.notes.len())
    };
    for (kind, own, accepted) in [
        ("tdx", "kata-qemu-tdx", "kata-tdx kata-cc"),
        ("sev-snp", "kata-qemu-snp", "kata-snp kata-cc"),
        ("sev", "kata-qemu-snp", "kata-snp kata-cc"),
        ("se", "kata-qemu-se", ""),
    ] {
        assert_eq!(classes(json!({"teeType": kind}), own), Ok(usize::from(kind == "sev")), "{kind}");
        for class in "kata-tdx kata-snp kata-cc kata-qemu gvisor".split(' ') {
            let fits = accepted.split(' ').any(|one| one == class);
            assert_eq!(classes(json!({"teeType": kind}), class).is_ok(), fits, "{kind} {class}");
        }
    }
    insta::assert_snapshot!(error(json!({"runtimeClass": "kata-qemu-tdx"}), json!({"teeType": "tdx", "gpuCount": 1})), @"runtime class kata-qemu-tdx does not give what the hardware asks for, kata-qemu-nvidia-gpu-tdx would; remove runtimeClass, it follows from teeType");
    // An enclave needs no class, so any will do, and the user hears of it.
    assert_eq!(classes(json!({"teeType": "sgx"}), "gvisor"), Ok(1));
    assert_eq!(classes(json!({"gpuCount": 1}), "gvisor"), Ok(0));
}

#[test]
fn labels_that_the_need_itself_contradicts() {
    let tables = Tables::default();
    let input: HardwareInput =
        serde_json::from_value(json!({"cpuArch": "amd64", "customLabels": {"kubernetes.io/arch": "arm64"}})).unwrap();
    let need = resolve(&input.requirements(&tables).unwrap(), &tables).unwrap();
    let error = place(&need, &Resources::default(), &tables.vocabulary(Substrate::Kubernetes)).unwrap_err();
    insta::assert_snapshot!(error, @"label kubernetes.io/arch is asked to be arm64, but the hardware asks for amd64");
}

#[test]
fn a_class_of_the_vendors_gives_way_to_the_users() {
    let runtime = RuntimeNeed { name: "nvidia".into(), accepted: Default::default(), any: true };
    let placement = Placement { runtime: Some(runtime), ..Placement::default() };
    let merged = merge(&user(json!({"runtimeClass": "mine"})), &placement).unwrap();
    assert_eq!((merged.runtime_class.as_deref(), merged.notes.len()), (Some("mine"), 1));
    let merged = merge(&UserConstraints::default(), &placement).unwrap();
    assert_eq!((merged.runtime_class.as_deref(), merged.notes.len()), (Some("nvidia"), 0));
}

#[test]
fn check_lists_every_failing_dimension() {
    let merged =
        merge(&UserConstraints::default(), &placement(json!({"gpuType": "t4", "gpuCount": 2, "cpuArch": "arm64"})))
            .unwrap();
    let machine = Machine {
        name: "n1".into(),
        labels: [("kubernetes.io/arch".to_owned(), "amd64".to_owned())].into(),
        taints: serde_json::from_value(json!([{"key": "busy", "value": "yes", "effect": "NoExecute"}])).unwrap(),
        allocatable: ResourceVector::parse([("nvidia.com/gpu", "1")], Rounding::Down).unwrap(),
        devices: Vec::new(),
    };
    let verdict = merged.check(&machine);
    let dimensions: Vec<&str> = verdict.failures.iter().map(crate::hardware::Failure::dimension).collect();
    assert_eq!(dimensions, ["Arch", "Label", "Taint", "Resource"]);
    insta::assert_snapshot!(verdict, @"n1: needs CPU architecture arm64, has amd64, needs nvidia.com/gpu.product = Tesla-T4, does not tolerate busy=yes:NoExecute, nvidia.com/gpu: needs 2, has 1");
}

#[test]
fn a_runtime_class_adds_its_labels_and_tolerations() {
    let merged = merge(&UserConstraints::default(), &placement(json!({"cpuArch": "amd64"}))).unwrap();
    let class = RuntimeClass {
        node_selector: [("kata".to_owned(), "true".to_owned())].into(),
        tolerations: vec![Toleration::of_key("kata")],
    };
    let under = merged.clone().under(&class).unwrap();
    assert_eq!((under.node_selector.len(), under.tolerations.len()), (2, 1));
    let other = RuntimeClass { node_selector: [("kubernetes.io/arch".to_owned(), "arm64".to_owned())].into(), ..class };
    insta::assert_snapshot!(merged.under(&other).unwrap_err(), @"label kubernetes.io/arch is asked to be amd64, but the hardware asks for arm64");
}

#[test]
fn contradictions_are_found_and_nothing_else() {
    let is = |op, values: &[&str]| LabelExpr::new("k", op, values.iter().copied());
    let contradicts = |all: &[LabelExpr]| super::contradiction::contradicts(all);
    let both = |one: LabelExpr, other: LabelExpr| contradicts(&[one, other]);
    assert!(both(is(Operator::In, &["a"]), is(Operator::In, &["b"])));
    assert!(both(is(Operator::In, &["a"]), is(Operator::NotIn, &["a", "b"])));
    assert!(both(is(Operator::Exists, &[]), is(Operator::DoesNotExist, &[])));
    assert!(both(is(Operator::Gt, &["5"]), is(Operator::Lt, &["6"])));
    assert!(both(is(Operator::In, &["5"]), is(Operator::Gt, &["5"])));
    assert!(contradicts(&[is(Operator::Gt, &["much"])]) && contradicts(&[is(Operator::In, &[])]));
    assert!(!both(is(Operator::Gt, &["5"]), is(Operator::Lt, &["7"])));
    assert!(!both(is(Operator::NotIn, &["a"]), is(Operator::DoesNotExist, &[])));
    assert!(!both(is(Operator::In, &["a", "b"]), is(Operator::In, &["b"])));
}
