//! Tests of requests and their resolution, row by row. Owns no production code.

use serde_json::{Value, json};

use super::{Resolved, resolve};
use crate::hardware::{HardwareInput, Tables};

fn of(input: Value) -> Result<Resolved, String> {
    with(input, json!({}))
}

fn with(input: Value, file: Value) -> Result<Resolved, String> {
    let input: HardwareInput = serde_json::from_value(input).unwrap();
    let tables = Tables::default().overlaid(serde_json::from_value(file).unwrap());
    let resolved = input.requirements(&tables).and_then(|needs| resolve(&needs, &tables));
    resolved.map_err(|error| format!("{error}; {}", error.help()))
}

/// Count, class and canonical text of the devices; environment and architecture.
fn said(input: Value) -> String {
    of(input).map_or_else(
        |error| error,
        |need| {
            let gpu = need.gpu.map(|gpu| format!("{} {} {}", gpu.count, gpu.class, gpu.kind));
            let tee = need.tee.map(|tee| format!("{} {}", tee.level, tee.kind));
            let all = [gpu, tee, need.arch.map(|arch| arch.to_string())];
            all.into_iter().flatten().collect::<Vec<_>>().join(", ")
        },
    )
}

#[test]
fn a_slice_behind_the_name_of_a_product_is_one_of_that_product() {
    let products = |text: &str| {
        let gpu = with(json!({ "gpuType": text }), json!({})).unwrap().gpu.unwrap();
        let names: Vec<String> = gpu.products.unwrap().into_iter().map(|product| product.name).collect();
        (gpu.class.to_string(), names.join(", "))
    };
    for (text, class, of) in [
        ("A100-SXM4-40GB-MIG-1g.5gb", "mig-1g.5gb", "A100-SXM4-40GB"),
        ("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", "mig-1g.10gb", "A100-SXM4-80GB"),
        ("A100 80GB MIG 1g.10gb", "mig-1g.10gb", "A100-SXM4-80GB, A100 80GB PCIe"),
    ] {
        assert_eq!(products(text), (class.to_owned(), of.to_owned()), "{text}");
    }
    // The field is about the slice.
    let asked = json!({"gpuType": "a100-mig-1g.5gb", "gpuMemoryGiB": 40});
    insta::assert_snapshot!(said(asked), @"no slice 1g.5gb has 40 GiB, the largest has 5 GiB; ask for less memory of one device, or for a model that has it, for example `h200`");
}

#[test]
fn count_and_type() {
    insta::assert_snapshot!(said(json!({"gpuType": "a100"})), @"1 whole nvidia-a100");
    insta::assert_snapshot!(said(json!({"gpuType": "a100", "gpuCount": 0})), @"gpuCount is 0, but gpuType is `a100`; leave gpuCount out for one device, or leave both out for none");
    insta::assert_snapshot!(said(json!({"gpuCount": 3})), @"3 unit nvidia");
    insta::assert_snapshot!(said(json!({})), @"");
    insta::assert_snapshot!(said(json!({"gpuCount": 0})), @"");
    insta::assert_snapshot!(said(json!({"gpuMemoryGiB": 8, "gpuCount": 0})), @"gpuCount is 0, but gpuType is `gpu`; leave gpuCount out for one device, or leave both out for none");
    insta::assert_snapshot!(said(json!({"nvlink": true, "gpuCount": 0})), @"gpuCount is 0, but gpuType is `gpu`; leave gpuCount out for one device, or leave both out for none");
    insta::assert_snapshot!(said(json!({"nvlink": false})), @"");
    insta::assert_snapshot!(said(json!({"gpuMemoryGiB": 8})), @"1 whole nvidia-8gb");
    insta::assert_snapshot!(said(json!({"gpuType": "t4", "gpuCount": 1024})), @"1024 whole nvidia-t4-16gb");
    let amd = with(json!({"gpuCount": 3}), json!({"defaults": {"vendor": "amd"}})).unwrap().gpu.unwrap();
    assert_eq!((amd.count, amd.kind.to_string().as_str()), (3, "amd"));
    insta::assert_snapshot!(said(json!({"gpuCount": 1025})), @"gpuCount is 1025, 0 to 1024 are allowed; ask for as many devices as one machine has, for example `gpuCount: 8`");
    insta::assert_snapshot!(said(json!({"gpuCount": -1})), @"gpuCount is -1, 0 to 1024 are allowed; ask for as many devices as one machine has, for example `gpuCount: 8`");
}

#[test]
fn a_count_may_stand_in_the_type_and_is_said_once() {
    insta::assert_snapshot!(said(json!({"gpuType": "H100:8"})), @"8 whole nvidia-h100");
    insta::assert_snapshot!(said(json!({"gpuType": "A100-80GB : 2", "gpuCount": 2})), @"2 whole nvidia-a100-80gb");
    insta::assert_snapshot!(said(json!({"gpuType": "A100-80GB:2", "gpuCount": 2})), @"2 whole nvidia-a100-80gb");
    insta::assert_snapshot!(said(json!({"gpuType": "H100:8", "gpuCount": 4})), @"gpuType says 8, but gpuCount is 4; give the count once, for example `gpuType: h100` with `gpuCount: 8`");
    insta::assert_snapshot!(said(json!({"gpuType": "H100:0"})), @"gpuCount is 0, but gpuType is `H100:0`; leave gpuCount out for one device, or leave both out for none");
    insta::assert_snapshot!(said(json!({"gpuType": "H100:2000"})), @"gpuCount is 2000, 0 to 1024 are allowed; ask for as many devices as one machine has, for example `gpuCount: 8`");
    // A colon separates words as well.
    insta::assert_snapshot!(said(json!({"gpuType": "flex:170"})), @"1 whole intel-flex170-16gb");
}

#[test]
fn a_model_that_no_table_knows_is_a_whole_device_of_its_exact_name() {
    for (text, expected) in [
        ("8x A100", "8 whole nvidia-a100"),
        ("8xA100", "8 whole nvidia-a100"),
        ("a100x8", "8 whole nvidia-a100"),
        ("2 x A100", "2 whole nvidia-a100"),
        ("A100-SXM4-80GB x 4", "4 whole nvidia-a100-sxm4-80gb"),
        ("2*T4", "2 whole nvidia-t4-16gb"),
        ("4x MI350X", "4 whole amd-MI350X"),
        ("2x MI250X", "2 whole amd-mi250x-64gb"),
        // Two of one model, or one of none.
        ("MI250X2", "1 whole amd-MI250X2"),
    ] {
        assert_eq!(said(json!({ "gpuType": text })), expected, "{text}");
    }
    assert!(said(json!({"gpuType": "A100:3000000000"})).starts_with("gpuCount is 3000000000, 0 to 1024 are allowed"));
    assert!(said(json!({"gpuType": "99999999999999999999x A100"})).contains("0 to 1024 are allowed"));
    insta::assert_snapshot!(said(json!({"gpuType": "RTX 5880 Ada", "gpuCount": 2})), @"2 whole nvidia-RTX 5880 Ada");
    insta::assert_snapshot!(said(json!({"gpuType": "AMD Instinct MI400X", "gpuMemoryGiB": 192})), @"1 whole amd-Instinct MI400X-192gb");
    let needs = |kind: Value| serde_json::from_value(json!({"gpu": {"count": 1, "kind": kind}})).unwrap();
    let error = resolve(&needs(json!({"name": "Foo 3", "model": "a100"})), &Tables::default()).unwrap_err();
    insta::assert_snapshot!(error, @"GPU name `Foo 3` is given together with a model, form words or a MIG profile");
}

#[test]
fn memory_in_text_and_field() {
    insta::assert_snapshot!(said(json!({"gpuType": "a100-40gb", "gpuMemoryGiB": 80})), @"1 whole nvidia-a100-80gb");
    insta::assert_snapshot!(said(json!({"gpuType": "a100-80gb", "gpuMemoryGiB": 40})), @"1 whole nvidia-a100-80gb");
    insta::assert_snapshot!(said(json!({"gpuType": "a100", "gpuMemoryGiB": 141})), @"no a100 has 141 GiB, the largest has 80 GiB; ask for less memory of one device, or for a model that has it, for example `h200`");
    insta::assert_snapshot!(said(json!({"gpuMemoryGiB": 4096})), @"1 whole nvidia-4096gb");
    insta::assert_snapshot!(said(json!({"gpuMemoryGiB": 4097})), @"GPU memory `4097` is out of range; give the memory of one device as 1gb to 4096gb");
    insta::assert_snapshot!(said(json!({"gpuMemoryGiB": 0})), @"GPU memory `0` is out of range; give the memory of one device as 1gb to 4096gb");
    insta::assert_snapshot!(said(json!({"gpuType": "a100-oam"})), @"1 whole nvidia-a100-oam");
    insta::assert_snapshot!(said(json!({"gpuType": "t4", "nvlink": true})), @"there is no t4 with nvlink; use a product name that exists, for example `A100-SXM4-80GB`");
}

#[test]
fn partitions() {
    insta::assert_snapshot!(said(json!({"gpuType": "a100-mig-1g.5gb", "gpuCount": 2})), @"2 mig-1g.5gb nvidia-a100-mig-1g.5gb");
    insta::assert_snapshot!(said(json!({"gpuType": "t4-mig-1g.5gb"})), @"t4 devices have no MIG profiles; ask for whole devices, or for slices of an NVIDIA device, for example `a100-mig-1g.5gb`");
    insta::assert_snapshot!(said(json!({"gpuType": "a100-mig-1g.6gb"})), @"a100 devices have no MIG profile 1g.6gb, they have 1g.5gb, 1g.10gb, 1g.20gb, 2g.10gb, 2g.20gb, 3g.20gb, 3g.40gb, 4g.20gb, 4g.40gb, 7g.40gb, 7g.80gb; name a profile that the device has, or leave the model out");
    insta::assert_snapshot!(said(json!({"gpuType": "amd-mig-1g.6gb"})), @"amd devices have no MIG profiles; ask for whole devices, or for slices of an NVIDIA device, for example `a100-mig-1g.5gb`");
    insta::assert_snapshot!(said(json!({"gpuType": "intel-mig-1g.6gb"})), @"intel devices have no MIG profiles; ask for whole devices, or for slices of an NVIDIA device, for example `a100-mig-1g.5gb`");
    insta::assert_snapshot!(said(json!({"gpuType": "h100-mig-1g.10gb+me"})), @"1 mig-1g.10gb+me nvidia-h100-mig-1g.10gb+me");
    insta::assert_snapshot!(said(json!({"gpuType": "mig-1g.6gb", "gpuMemoryGiB": 8})), @"no slice 1g.6gb has 8 GiB, the largest has 6 GiB; ask for less memory of one device, or for a model that has it, for example `h200`");
    insta::assert_snapshot!(said(json!({"gpuType": "mig-1g.6gb", "gpuMemoryGiB": 6})), @"1 mig-1g.6gb nvidia-6gb-mig-1g.6gb");
}

#[test]
fn trusted_execution() {
    insta::assert_snapshot!(said(json!({"teeRequired": true})), @"teeRequired is true, but teeType is missing; use one of sgx, tdx, sev, sev-es, sev-snp, se, cca");
    insta::assert_snapshot!(said(json!({"teeRequired": false})), @"");
    insta::assert_snapshot!(said(json!({"teeType": "intel_tdx"})), @"required tdx, amd64");
    insta::assert_snapshot!(said(json!({"teeType": "tdx", "teeRequired": true})), @"required tdx, amd64");
    insta::assert_snapshot!(said(json!({"teeType": "tdx", "teeRequired": false})), @"preferred tdx");
    insta::assert_snapshot!(said(json!({"teeType": "se", "cpuArch": "amd64"})), @"se exists on s390x, but amd64 is asked for; leave cpuArch out, it follows from teeType");
    insta::assert_snapshot!(said(json!({"teeType": "tdx", "teeRequired": false, "cpuArch": "arm64"})), @"tdx exists on amd64, but arm64 is asked for; leave cpuArch out, it follows from teeType");
    let archs = ["amd64", "arm64", "ppc64le", "s390x", "riscv64"];
    for (kind, implied) in [
        ("sgx", "amd64"),
        ("tdx", "amd64"),
        ("sev", "amd64"),
        ("sev-es", "amd64"),
        ("sev-snp", "amd64"),
        ("se", "s390x"),
        ("cca", "arm64"),
    ] {
        assert_eq!(said(json!({"teeType": kind})), format!("required {kind}, {implied}"));
        for arch in archs {
            let asked = said(json!({"teeType": kind, "cpuArch": arch}));
            let expected = if arch == implied {
                format!("required {kind}, {arch}")
            } else {
                format!("{kind} exists on {implied}, but {arch} is asked for; ")
            };
            assert!(asked.starts_with(&expected), "{asked}");
        }
    }
}

#[test]
fn virtual_machines_with_gpus() {
    insta::assert_snapshot!(said(json!({"teeType": "tdx", "gpuType": "h100"})), @"1 confidential nvidia-h100, required tdx, amd64");
    insta::assert_snapshot!(said(json!({"teeType": "tdx", "gpuCount": 2})), @"tdx with GPUs takes whole NVIDIA devices, at most 1, by the device plugin: 2 are asked for; ask for one whole NVIDIA device with tdx or sev-snp, for example `gpuType: h100`, or drop one need");
    insta::assert_snapshot!(said(json!({"teeType": "tdx", "gpuType": "amd"})), @"tdx with GPUs takes whole NVIDIA devices, at most 1, by the device plugin: amd devices are asked for; ask for one whole NVIDIA device with tdx or sev-snp, for example `gpuType: h100`, or drop one need");
    insta::assert_snapshot!(said(json!({"teeType": "sev-es", "gpuType": "intel"})), @"sev-es with GPUs takes whole NVIDIA devices, at most 1, by the device plugin: intel devices are asked for; ask for one whole NVIDIA device with tdx or sev-snp, for example `gpuType: h100`, or drop one need");
    let eight =
        |count: u32| with(json!({"teeType": "tdx", "gpuCount": count}), json!({"confidentialGpu": {"maxDevices": 8}}));
    assert!(eight(8).is_ok());
    assert!(eight(9).unwrap_err().starts_with("tdx with GPUs takes whole NVIDIA devices, at most 8"));
    insta::assert_snapshot!(said(json!({"teeType": "snp", "gpuType": "mig-1g.5gb"})), @"sev-snp with GPUs takes whole NVIDIA devices, at most 1, by the device plugin: slices 1g.5gb are asked for; ask for one whole NVIDIA device with tdx or sev-snp, for example `gpuType: h100`, or drop one need");
    insta::assert_snapshot!(said(json!({"teeType": "snp", "gpuCount": 1, "allocation": "dra"})), @"sev-snp with GPUs takes whole NVIDIA devices, at most 1, by the device plugin: claims are asked for; ask for one whole NVIDIA device with tdx or sev-snp, for example `gpuType: h100`, or drop one need");
    insta::assert_snapshot!(said(json!({"teeType": "sgx", "gpuType": "amd", "gpuCount": 4})), @"4 unit amd, required sgx, amd64");
    insta::assert_snapshot!(said(json!({"teeType": "tdx", "teeRequired": false, "gpuCount": 4})), @"4 unit nvidia, preferred tdx");
}

#[test]
fn labels_are_reported_and_never_repaired() {
    insta::assert_snapshot!(said(json!({"customLabels": {"my label": "x"}})), @"label key `my label` is not valid: character ' ' at position 3 is not allowed; use letters, digits, `-`, `_` and `.`; write `name` or `prefix/name`, for example `example.com/rack`");
    insta::assert_snapshot!(said(json!({"customLabels": {"rack": "-7"}})), @"label rack: label value `-7` is not valid: '-' at position 1 is at the start or end of the text, where only a letter or digit is allowed; write at most 63 letters, digits, `-`, `_` and `.`, for example `rack-7`");
    assert_eq!(of(json!({"customLabels": {"rack": ""}})).unwrap().labels["rack"], "");
}

#[test]
fn requirements_of_other_programs_are_checked_too() {
    let tables = Tables::default();
    let needs = |gpu: Value| serde_json::from_value(json!({"gpu": gpu})).unwrap();
    let error = |gpu: Value| resolve(&needs(gpu), &tables).unwrap_err();
    insta::assert_snapshot!(error(json!({"count": 0})), @"gpuCount is 0, 0 to 1024 are allowed");
    insta::assert_snapshot!(error(json!({"count": 1, "kind": {"model": "x1"}})), @"unknown GPU model `x1`");
    insta::assert_snapshot!(error(json!({"count": 1, "kind": {"model": "a100", "vendor": "amd"}})), @"GPU model `a100` is made by nvidia, not by amd");
    let labelled = serde_json::from_value(json!({"labels": {"my label": "x"}})).unwrap();
    assert!(resolve(&labelled, &tables).unwrap_err().to_string().starts_with("label key `my label` is not valid"));
    let amd = Tables { default_vendor: crate::hardware::gpu::Vendor::Amd, ..Tables::default() };
    assert_eq!(resolve(&needs(json!({"count": 1})), &amd).unwrap().gpu.unwrap().vendor.to_string(), "amd");
}
