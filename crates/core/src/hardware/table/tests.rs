//! Tests of files laid over the built-in tables. Owns no production code.

use serde_json::json;

use super::{Tables, TablesFile, TeeFamily};
use crate::hardware::gpu::Vendor;
use crate::hardware::{HardwareInput, Resources, Substrate, TeeKind, place, resolve};

fn overlaid(file: serde_json::Value) -> Result<Tables, serde_json::Error> {
    serde_json::from_value::<TablesFile>(file).map(|file| Tables::default().overlaid(file))
}

#[test]
fn an_empty_file_changes_nothing() {
    assert_eq!(overlaid(json!({})).unwrap(), Tables::default());
}

#[test]
fn a_file_is_laid_over_entry_by_entry() {
    let tables = overlaid(json!({
        "gpu": {
            "models": {"b300": {"vendor": "nvidia", "products": [{"name": "B300", "memoryGib": 288, "nvlink": true}]}},
            "vendors": {"nvidia": {"runtimeClass": "nvidia"}, "intel": {"resource": "gpu.intel.com/xe"}},
            "labelFamilies": ["native", "gke"],
            "migStrategy": "single",
        },
        "tee": {"kinds": {"sev": {"labels": {"nfd": ["feature.node.kubernetes.io/cpu-security.sev.enabled"]}, "runtimeClass": "kata-qemu-sev"}}},
        "confidentialGpu": {"maxDevices": 8},
        "docker": {"cdi": true},
        "openstack": {"nodeTypes": {"gpu_h100": {"gpuMemoryGib": 80, "nvlink": true}}},
        "defaults": {"vendor": "amd"},
    }))
    .unwrap();
    assert_eq!(tables.catalogue.parse("b300").unwrap().to_string(), "nvidia-b300-288gb");
    assert_eq!(tables.vendors[&Vendor::Nvidia].runtime_class.as_ref().unwrap().as_str(), "nvidia");
    assert_eq!(tables.vendors[&Vendor::Intel].resource.as_ref().unwrap().as_str(), "gpu.intel.com/xe");
    assert_eq!((tables.families.gpu.len(), tables.confidential.max_devices, tables.docker.cdi), (2, 8, true));
    assert_eq!(tables.tees[&TeeKind::Sev].narrowed_to, None);
    assert_eq!(tables.tees[&TeeKind::SevEs].narrowed_to, Some(TeeKind::SevSnp));
    assert!(tables.node_types["gpu_h100"].nvlink && tables.node_types.contains_key("gpu_v100"));
    assert_eq!(tables.default_vendor, Vendor::Amd);
}

#[test]
fn unknown_keys_and_illegal_names_are_refused() {
    let error = |file| overlaid(file).unwrap_err().to_string();
    insta::assert_snapshot!(error(json!({"gpus": {}})), @"unknown field `gpus`, expected one of `gpu`, `tee`, `confidentialGpu`, `docker`, `openstack`, `defaults`");
    insta::assert_snapshot!(error(json!({"gpu": {"vendors": {"nvidia": {"product": "a/b/c"}}}})), @"label key `a/b/c` is not valid: it has more than one `/`; use `name` or `prefix/name`");
    insta::assert_snapshot!(error(json!({"tee": {"kinds": {"tdx": {"runtimeClass": "Kata_TDX"}}}})), @"class name `Kata_TDX` is not valid: character 'K' at position 1 is not allowed; use lower case letters, digits, `-` and `.`");
    insta::assert_snapshot!(error(json!({"tee": {"kinds": {"sgx": {"resources": {"sgx": "many"}}}}})), @"quantity `many` has no digits; write a number with an optional suffix, for example `500m` or `1.5Gi`");
    insta::assert_snapshot!(error(json!({"gpu": {"migStrategy": "none"}})), @"unknown MIG strategy `none`, allowed are mixed, single (case counts)");
}

#[test]
fn maps_within_a_row_are_laid_entry_by_entry_too() {
    let tables = overlaid(json!({
        "tee": {"kinds": {
            "sgx": {"resources": {"sgx.intel.com/provision": 1, "sgx.intel.com/epc": "128Mi"}},
            "tdx": {"labels": {"rule": ["example.org/tdx"]}, "overhead": {"memory": "4Gi"}},
            "se": {"labels": {"nfd": null}},
        }},
        "confidentialGpu": {"overhead": {"memory": "128Gi"}, "resourceByModel": {"h100": "nvidia.com/pgpu-h100"}},
        "docker": {"runtimes": {"cca": "io.containerd.kata-qemu-cca.v2", "se": null}},
    }))
    .unwrap();
    let tee = |kind| &tables.tees[&kind];
    assert_eq!(
        tee(TeeKind::Sgx).resources.to_string(),
        "sgx.intel.com/enclave 1, sgx.intel.com/epc 134217728, sgx.intel.com/provision 1"
    );
    assert_eq!(tee(TeeKind::Tdx).labels[&TeeFamily::Rule][0], "example.org/tdx");
    assert_eq!(
        tee(TeeKind::Tdx).labels[&TeeFamily::Nfd],
        Tables::default().tees[&TeeKind::Tdx].labels[&TeeFamily::Nfd]
    );
    assert_eq!(tee(TeeKind::Tdx).overhead.to_string(), "cpu 1, memory 4Gi");
    assert_eq!(tee(TeeKind::Se).labels.keys().collect::<Vec<_>>(), [&TeeFamily::Rule]);
    assert_eq!(tables.confidential.overhead.to_string(), "cpu 1, memory 128Gi");
    assert_eq!(tables.confidential.resource_by_model.len(), 1);
    let kinds: Vec<TeeKind> = tables.docker.runtimes.keys().copied().collect();
    assert_eq!(kinds, [TeeKind::Tdx, TeeKind::SevSnp, TeeKind::Cca]);
}

#[test]
fn no_row_of_a_file_weakens_a_need() {
    let error =
        |kind: &str, row: serde_json::Value| overlaid(json!({"tee": {"kinds": {kind: row}}})).unwrap_err().to_string();
    let labels = json!({"nfd": ["feature.node.kubernetes.io/cpu-security.sev.enabled"]});
    insta::assert_snapshot!(error("sev", json!({"labels": labels})), @"tee.kinds.sev: its own labels need a runtimeClass, otherwise its work would not run in a virtual machine; name the class, for example kata-qemu-sev");
    insta::assert_snapshot!(error("sev-es", json!({"labels": labels, "runtimeClass": null})), @"tee.kinds.sev-es: its own labels need a runtimeClass, otherwise its work would not run in a virtual machine; name the class, for example kata-qemu-sev-es");
    insta::assert_snapshot!(error("sev-snp", json!({"narrowedTo": "sev"})), @"tee.kinds.sev-snp: narrowedTo `sev` is not a stronger kind that serves sev-snp; leave it out or name one");
    insta::assert_snapshot!(error("tdx", json!({"narrowedTo": "sgx"})), @"tee.kinds.tdx: narrowedTo `sgx` is not a stronger kind that serves tdx; leave it out or name one");
    insta::assert_snapshot!(error("tdx", json!({"narrowedTo": "tdx"})), @"tee.kinds.tdx: narrowedTo `tdx` is not a stronger kind that serves tdx; leave it out or name one");
    // With both, its work runs in a virtual machine of its size.
    let file = json!({"tee": {"kinds": {"sev": {"labels": labels, "runtimeClass": "kata-qemu-sev"}}}});
    let tables = overlaid(file).unwrap();
    let input: HardwareInput = serde_json::from_value(json!({"teeType": "sev"})).unwrap();
    let need = resolve(&input.requirements(&tables).unwrap(), &tables).unwrap();
    let placement = place(&need, &Resources::default(), &tables.vocabulary(Substrate::Kubernetes)).unwrap();
    assert_eq!(placement.runtime.unwrap().name, "kata-qemu-sev");
    assert_eq!(placement.overhead.to_string(), "cpu 1, memory 2Gi");
}

#[test]
fn a_vendor_is_named_in_any_case_and_once() {
    for defaults in [json!({"vendor": "Amd"}), json!({"defaultVendor": "AMD"}), json!({"vendor": "amd"})] {
        assert_eq!(overlaid(json!({"defaults": defaults})).unwrap().default_vendor, Vendor::Amd, "{defaults}");
    }
    let model = json!({"vendor": "Nvidia", "products": [{"name": "B300", "memoryGib": 288}]});
    let file = json!({"gpu": {"models": {"b300": model}, "vendors": {"Intel": {"resource": "gpu.intel.com/xe"}}}});
    let tables = overlaid(file).unwrap();
    assert_eq!(tables.catalogue.model("b300").unwrap().vendor, Vendor::Nvidia);
    assert_eq!(tables.vendors[&Vendor::Intel].resource.as_ref().unwrap().as_str(), "gpu.intel.com/xe");
    let error = |file| overlaid(file).unwrap_err().to_string();
    insta::assert_snapshot!(error(json!({"defaults": {"vendor": "ati"}})), @"unknown GPU vendor `ati`, allowed are nvidia, amd, intel");
    insta::assert_snapshot!(error(json!({"defaults": {"vendor": "amd", "defaultVendor": "intel"}})), @"duplicate field `vendor`");
    insta::assert_snapshot!(error(json!({"gpu": {"vendors": {"Amd": {}, "amd": {}}}})), @"`amd` appears twice; keep one of them");
}

#[test]
fn names_that_end_up_in_labels_and_claims_are_legal_or_refused() {
    let model = |member: &str, value: serde_json::Value| {
        let mut product = json!({"name": "OURS", "memoryGib": 8});
        let mut model = json!({"vendor": "nvidia"});
        let of_model = ["gke", "karpenter"].contains(&member);
        *(if of_model { &mut model[member] } else { &mut product[member] }) = value;
        model["products"] = json!([product]);
        overlaid(json!({"gpu": {"models": {"ours": model}}})).map_err(|error| error.to_string())
    };
    let refused = |member, value| model(member, value).unwrap_err();
    insta::assert_snapshot!(refused("name", json!("")), @"product name `` is not valid: it is empty; use letters, digits, `-`, `_` and `.`");
    insta::assert_snapshot!(refused("name", json!("OURS (64GB)")), @"product name `OURS-(64GB)` is not valid: character '(' at position 6 is not allowed; use letters, digits, `-`, `_` and `.`");
    insta::assert_snapshot!(refused("name", json!("OURS ")), @"product name `OURS-` is not valid: '-' at position 5 is at the start or end of the text, where only a letter or digit is allowed");
    insta::assert_snapshot!(refused("name", json!("O".repeat(57))), @"product name `NVIDIA-OOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOO` is not valid: it is 64 bytes long, at most 63 are allowed");
    insta::assert_snapshot!(refused("memoryGib", json!(0)), @"memory of 0 GiB is out of range; use 1 to 4096");
    insta::assert_snapshot!(refused("memoryGib", json!(4097)), @"memory of 4097 GiB is out of range; use 1 to 4096");
    insta::assert_snapshot!(refused("karpenter", json!("")), @"label value `` is not valid: it is empty; use letters, digits, `-`, `_` and `.`");
    insta::assert_snapshot!(refused("karpenter", json!("a b")), @"label value `a b` is not valid: character ' ' at position 2 is not allowed; use letters, digits, `-`, `_` and `.`");
    insta::assert_snapshot!(refused("gke", json!([{"value": "-x", "memoryGib": 8}])), @"label value `-x` is not valid: '-' at position 1 is at the start or end of the text, where only a letter or digit is allowed");
    insta::assert_snapshot!(refused("gke", json!([{"value": "x", "memoryGib": 5000}])), @"memory of 5000 GiB is out of range; use 1 to 4096");
    for (member, value) in [
        ("name", json!("RTX PRO 6000 Blackwell Max-Q Workstation Edition")),
        ("name", json!("O".repeat(56))),
        ("memoryGib", json!(4096)),
        ("karpenter", json!("ours")),
    ] {
        assert!(model(member, value.clone()).is_ok(), "{member} {value}");
    }
    let sliced = |len: usize| {
        let product = json!({"name": "O".repeat(len), "memoryGib": 80, "mig": ["1g.10gb"]});
        let model = json!({"vendor": "nvidia", "products": [product]});
        overlaid(json!({"gpu": {"models": {"ours": model}}})).map_err(|error| error.to_string())
    };
    insta::assert_snapshot!(sliced(38).unwrap_err(), @"product name `OOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOO` is not valid: it is 38 bytes long, at most 37 are allowed with its slices");
    assert!(sliced(37).is_ok());
    let words = |row| overlaid(json!({"gpu": {"vendors": {"nvidia": row}}})).unwrap_err().to_string();
    insta::assert_snapshot!(words(json!({"productAttribute": "product-name"})), @"attribute `product-name` is not valid: character '-' at position 8 is not allowed; use letters, digits and `_`");
    insta::assert_snapshot!(words(json!({"productAttribute": "2nd"})), @"attribute `2nd` is not valid: character '2' at position 1 is not allowed; use a letter or `_` first");
    insta::assert_snapshot!(words(json!({"wholeType": "gpu\n"})), @r"label value `gpu\n` is not valid: character '\n' at position 4 is not allowed; use letters, digits, `-`, `_` and `.`");
    let other = |file| overlaid(file).unwrap_err().to_string();
    insta::assert_snapshot!(other(json!({"openstack": {"nodeTypes": {"gpu a": {}}}})), @"label value `gpu a` is not valid: character ' ' at position 4 is not allowed; use letters, digits, `-`, `_` and `.`");
    insta::assert_snapshot!(other(json!({"openstack": {"nodeTypes": {"gpu_a": {"gpuMemoryGib": 0}}}})), @"memory of 0 GiB is out of range; use 1 to 4096");
    insta::assert_snapshot!(other(json!({"confidentialGpu": {"resourceByModel": {"H 100": "nvidia.com/pgpu"}}})), @"GPU model `H 100` is not valid: character 'H' at position 1 is not allowed; use lower case letters and digits");
}
