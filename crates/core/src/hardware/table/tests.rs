//! Tests of files laid over the built-in tables. Owns no production code.

use serde_json::json;

use super::{Tables, TablesFile};
use crate::hardware::TeeKind;
use crate::hardware::gpu::Vendor;

fn overlaid(file: serde_json::Value) -> Result<Tables, serde_json::Error> {
    serde_json::from_value::<TablesFile>(file).map(|file| Tables::default().overlaid(file))
}

#[test]
fn s1_3_an_empty_file_changes_nothing() {
    assert_eq!(overlaid(json!({})).unwrap(), Tables::default());
}

#[test]
fn s1_3_a_file_is_laid_over_entry_by_entry() {
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
    assert_eq!(tables.vendors[&Vendor::Nvidia].present.as_str(), "nvidia.com/gpu.present");
    assert_eq!(tables.vendors[&Vendor::Intel].resource.as_ref().unwrap().as_str(), "gpu.intel.com/xe");
    assert_eq!((tables.families.gpu.len(), tables.confidential.max_devices, tables.docker.cdi), (2, 8, true));
    assert_eq!(tables.tees[&TeeKind::Sev].narrowed_to, None);
    assert_eq!(tables.tees[&TeeKind::SevEs].narrowed_to, Some(TeeKind::SevSnp));
    assert!(tables.node_types["gpu_h100"].nvlink && tables.node_types.contains_key("gpu_v100"));
    assert_eq!(tables.default_vendor, Vendor::Amd);
}

#[test]
fn s1_3_unknown_keys_and_illegal_names_are_refused() {
    let error = |file| overlaid(file).unwrap_err().to_string();
    insta::assert_snapshot!(error(json!({"gpus": {}})), @"unknown field `gpus`, expected one of `gpu`, `tee`, `confidentialGpu`, `docker`, `openstack`, `defaults`");
    insta::assert_snapshot!(error(json!({"gpu": {"vendors": {"nvidia": {"present": "a/b/c"}}}})), @"label key `a/b/c` is not valid: it has more than one `/`; use `name` or `prefix/name`");
    insta::assert_snapshot!(error(json!({"tee": {"kinds": {"tdx": {"runtimeClass": "Kata_TDX"}}}})), @"class name `Kata_TDX` is not valid: character 'K' at position 1 is not allowed; use lower case letters, digits, `-` and `.`");
    insta::assert_snapshot!(error(json!({"tee": {"kinds": {"sgx": {"resources": {"sgx": "many"}}}}})), @"quantity `many` has no digits; write a number with an optional suffix, for example `500m` or `1.5Gi`");
    insta::assert_snapshot!(error(json!({"gpu": {"migStrategy": "none"}})), @"unknown MIG strategy `none`, allowed are mixed, single (case counts)");
}
