//! The rows that are built in. Owns data only.

use std::collections::{BTreeMap, BTreeSet};

use super::names::{AttributeName, ClassName, KeyName};
use super::words::{ConfidentialWords, DockerWords, NodeType, TeeFamily, TeeWords, VendorWords};
use super::{Families, Tables};
use crate::hardware::TeeKind;
use crate::hardware::gpu::{Catalogue, Vendor};
use crate::resource::{ResourceVector, Rounding};

/// A text that is known to be legal; a test reads all of them.
fn key(text: &str) -> KeyName {
    text.parse().unwrap_or_default()
}

fn class(text: &str) -> ClassName {
    text.parse().unwrap_or_default()
}

fn attribute(text: &str) -> AttributeName {
    text.parse().unwrap_or_default()
}

fn amounts(pairs: &[(&str, &str)]) -> ResourceVector {
    ResourceVector::parse(pairs.iter().copied(), Rounding::Up).unwrap_or_default()
}

fn vendors() -> BTreeMap<Vendor, VendorWords> {
    let nvidia = VendorWords {
        resource: "nvidia.com/gpu".parse().ok(),
        product: key("nvidia.com/gpu.product"),
        runtime_class: None,
        device_class: class("gpu.nvidia.com"),
        slice_class: Some(class("mig.nvidia.com")),
        product_attribute: attribute("productName"),
        whole_type: "gpu".parse().ok(),
    };
    // Attributes of devices: AMD's driver 1.0.0 (docs/driver-attributes.md), Intel's drivers of 2026 (pkg/gpu/device/models.go).
    let amd = VendorWords {
        resource: "amd.com/gpu".parse().ok(),
        product: key("amd.com/gpu.product-name"),
        device_class: class("gpu.amd.com"),
        product_attribute: attribute("productName"),
        whole_type: "amdgpu".parse().ok(),
        ..VendorWords::default()
    };
    let intel = VendorWords {
        resource: "gpu.intel.com/i915".parse().ok(),
        product: key("gpu.intel.com/product"),
        device_class: class("gpu.intel.com"),
        product_attribute: attribute("model"),
        ..VendorWords::default()
    };
    BTreeMap::from([(Vendor::Nvidia, nvidia), (Vendor::Amd, amd), (Vendor::Intel, intel)])
}

/// What virtual machines take for themselves.
fn vm_overhead() -> ResourceVector {
    amounts(&[("cpu", "1"), ("memory", "2Gi")])
}

fn labels(rule: &[&str], nfd: &str) -> BTreeMap<TeeFamily, Vec<KeyName>> {
    let nfd = key(&format!("feature.node.kubernetes.io/cpu-security.{nfd}.enabled"));
    BTreeMap::from([(TeeFamily::Rule, rule.iter().map(|text| key(text)).collect()), (TeeFamily::Nfd, vec![nfd])])
}

fn accepted(names: &[&str]) -> BTreeSet<ClassName> {
    names.iter().map(|name| class(name)).collect()
}

fn tees() -> BTreeMap<TeeKind, TeeWords> {
    let sgx = TeeWords {
        labels: labels(&["intel.feature.node.kubernetes.io/sgx", "sgx.intel.com/capable"], "sgx"),
        resources: amounts(&[("sgx.intel.com/enclave", "1"), ("sgx.intel.com/epc", "64Mi")]),
        tolerations: vec![key("sgx")],
        ..TeeWords::default()
    };
    let tdx = TeeWords {
        labels: labels(&["intel.feature.node.kubernetes.io/tdx"], "tdx"),
        tolerations: vec![key("tdx")],
        runtime_class: Some(class("kata-qemu-tdx")),
        accepted: accepted(&["kata-tdx", "kata-cc"]),
        gpu_runtime_class: Some(class("kata-qemu-nvidia-gpu-tdx")),
        overhead: vm_overhead(),
        ..TeeWords::default()
    };
    let snp = TeeWords {
        labels: labels(&["amd.feature.node.kubernetes.io/snp"], "sev.snp"),
        tolerations: vec![key("sev-snp"), key("sev")],
        runtime_class: Some(class("kata-qemu-snp")),
        accepted: accepted(&["kata-snp", "kata-cc"]),
        gpu_runtime_class: Some(class("kata-qemu-nvidia-gpu-snp")),
        overhead: vm_overhead(),
        ..TeeWords::default()
    };
    // A file that gives them labels and a class of their own gives them virtual machines of this size.
    let weaker = TeeWords { narrowed_to: Some(TeeKind::SevSnp), overhead: vm_overhead(), ..TeeWords::default() };
    let se = TeeWords {
        labels: labels(&["ibm.feature.node.kubernetes.io/se"], "se"),
        tolerations: vec![key("se")],
        runtime_class: Some(class("kata-qemu-se")),
        overhead: vm_overhead(),
        ..TeeWords::default()
    };
    // No label of it is in use yet: a file must name one before work can ask for it.
    let cca = TeeWords {
        tolerations: vec![key("cca")],
        runtime_class: Some(class("kata-qemu-cca")),
        overhead: vm_overhead(),
        ..TeeWords::default()
    };
    BTreeMap::from([
        (TeeKind::Sgx, sgx),
        (TeeKind::Tdx, tdx),
        (TeeKind::Sev, weaker.clone()),
        (TeeKind::SevEs, weaker),
        (TeeKind::SevSnp, snp),
        (TeeKind::Se, se),
        (TeeKind::Cca, cca),
    ])
}

fn node_types() -> BTreeMap<String, NodeType> {
    let rows = [
        ("gpu_rtx_6000", 24, false),
        ("gpu_h100", 94, true),
        ("gpu_a100_pcie", 80, false),
        ("gpu_a100_nvlink", 80, true),
        ("gpu_v100", 16, false),
        ("gpu_v100_nvlink", 16, true),
        ("gpu_p100", 16, false),
        ("gpu_p100_nvlink", 16, true),
        ("gpu_k80", 12, false),
        ("gpu_m40", 12, false),
        ("gpu_mi100", 32, false),
    ];
    let row = |(name, gib, nvlink): (&str, u32, bool)| {
        (name.to_owned(), NodeType { gpu_memory_gib: Some(gib), nvlink, ..NodeType::default() })
    };
    rows.into_iter().map(row).collect()
}

fn docker() -> DockerWords {
    let runtime = |kind, name: &str| (kind, class(&format!("io.containerd.kata-qemu-{name}.v2")));
    let runtimes = [runtime(TeeKind::Tdx, "tdx"), runtime(TeeKind::SevSnp, "snp"), runtime(TeeKind::Se, "se")];
    DockerWords { cdi: false, runtimes: runtimes.into_iter().collect(), sgx_provision: false }
}

/// All of it.
pub(super) fn tables() -> Tables {
    Tables {
        catalogue: Catalogue::built_in().clone(),
        vendors: vendors(),
        families: Families::default(),
        tees: tees(),
        confidential: ConfidentialWords {
            max_devices: 1,
            ready: key("nvidia.com/cc.ready.state"),
            resource: "nvidia.com/pgpu".parse().ok(),
            resource_by_model: BTreeMap::new(),
            product_labels: BTreeMap::new(),
            overhead: amounts(&[("cpu", "1"), ("memory", "96Gi")]),
        },
        docker: docker(),
        node_types: node_types(),
        default_vendor: Vendor::Nvidia,
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    #[test]
    fn every_built_in_name_is_legal() {
        let json = serde_json::to_string(&(&tables().vendors, &tables().tees, &tables().confidential)).unwrap();
        // What cannot be read falls back to a key or class of nobody.
        assert!(!json.contains("orlop/none"), "{json}");
        for words in tables().vendors.values() {
            assert!(words.resource.is_some() && words.device_class != ClassName::default());
        }
    }

    /// Each row as a line: labels by family, then what stands in the columns beside them.
    #[test]
    fn the_whole_table_of_trusted_execution() {
        let names = |all: &mut dyn Iterator<Item = String>| all.collect::<Vec<_>>().join(" ");
        let mut all = String::new();
        for (kind, words) in &tables().tees {
            let TeeWords {
                labels,
                resources,
                tolerations,
                runtime_class,
                accepted,
                gpu_runtime_class,
                overhead,
                narrowed_to,
            } = words;
            let _ = writeln!(all, "{kind}");
            for (family, keys) in labels {
                let _ = writeln!(all, "  {family}: {}", names(&mut keys.iter().map(ToString::to_string)));
            }
            let classes = runtime_class.iter().map(|class| format!("class {class}"));
            let others = accepted.iter().map(|class| format!("or {class}"));
            let with_gpu = gpu_runtime_class.iter().map(|class| format!("with GPU {class}"));
            let stronger = narrowed_to.iter().map(|kind| format!("narrowed to {kind}"));
            let classes = names(&mut classes.chain(others).chain(with_gpu).chain(stronger));
            let classes = if classes.is_empty() { "no class" } else { &classes };
            let _ = writeln!(all, "  {classes}");
            let tolerations = names(&mut tolerations.iter().map(ToString::to_string));
            let _ = writeln!(all, "  tolerations [{tolerations}]; resources {resources}; overhead {overhead}");
        }
        insta::assert_snapshot!(all, @r"
        sgx
          rule: intel.feature.node.kubernetes.io/sgx sgx.intel.com/capable
          nfd: feature.node.kubernetes.io/cpu-security.sgx.enabled
          no class
          tolerations [sgx]; resources sgx.intel.com/enclave 1, sgx.intel.com/epc 67108864; overhead nothing
        tdx
          rule: intel.feature.node.kubernetes.io/tdx
          nfd: feature.node.kubernetes.io/cpu-security.tdx.enabled
          class kata-qemu-tdx or kata-cc or kata-tdx with GPU kata-qemu-nvidia-gpu-tdx
          tolerations [tdx]; resources nothing; overhead cpu 1, memory 2Gi
        sev
          narrowed to sev-snp
          tolerations []; resources nothing; overhead cpu 1, memory 2Gi
        sev-es
          narrowed to sev-snp
          tolerations []; resources nothing; overhead cpu 1, memory 2Gi
        sev-snp
          rule: amd.feature.node.kubernetes.io/snp
          nfd: feature.node.kubernetes.io/cpu-security.sev.snp.enabled
          class kata-qemu-snp or kata-cc or kata-snp with GPU kata-qemu-nvidia-gpu-snp
          tolerations [sev-snp sev]; resources nothing; overhead cpu 1, memory 2Gi
        se
          rule: ibm.feature.node.kubernetes.io/se
          nfd: feature.node.kubernetes.io/cpu-security.se.enabled
          class kata-qemu-se
          tolerations [se]; resources nothing; overhead cpu 1, memory 2Gi
        cca
          class kata-qemu-cca
          tolerations [cca]; resources nothing; overhead cpu 1, memory 2Gi
        ");
    }

    #[test]
    fn the_whole_tables_of_vendors_and_of_confidential_devices() {
        let of = |value: serde_json::Result<String>| value.unwrap();
        let vendors: Vec<String> = tables().vendors.values().map(|words| of(serde_json::to_string(words))).collect();
        insta::assert_snapshot!(vendors.join("\n"), @r#"
        {"resource":"nvidia.com/gpu","product":"nvidia.com/gpu.product","runtimeClass":null,"deviceClass":"gpu.nvidia.com","sliceClass":"mig.nvidia.com","productAttribute":"productName","wholeType":"gpu"}
        {"resource":"amd.com/gpu","product":"amd.com/gpu.product-name","runtimeClass":null,"deviceClass":"gpu.amd.com","sliceClass":null,"productAttribute":"productName","wholeType":"amdgpu"}
        {"resource":"gpu.intel.com/i915","product":"gpu.intel.com/product","runtimeClass":null,"deviceClass":"gpu.intel.com","sliceClass":null,"productAttribute":"model","wholeType":null}
        "#);
        insta::assert_snapshot!(of(serde_json::to_string(&tables().confidential)), @r#"{"maxDevices":1,"ready":"nvidia.com/cc.ready.state","resource":"nvidia.com/pgpu","resourceByModel":{},"productLabels":{},"overhead":{"cpu":"1","memory":"96Gi"}}"#);
        insta::assert_snapshot!(of(serde_json::to_string(&tables().docker)), @r#"{"cdi":false,"runtimes":{"tdx":"io.containerd.kata-qemu-tdx.v2","sev-snp":"io.containerd.kata-qemu-snp.v2","se":"io.containerd.kata-qemu-se.v2"},"sgxProvision":false}"#);
        let Families { gpu, auto, tee, mig_strategy } = tables().families;
        insta::assert_snapshot!(format!("{gpu:?} {auto} {tee:?} {mig_strategy}"), @"{Native} true {Rule, Nfd} mixed");
        assert_eq!((tables().default_vendor, tables().node_types.len()), (Vendor::Nvidia, 11));
    }
}
