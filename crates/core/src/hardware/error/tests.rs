//! The words of every error: the field as users write it, what is wrong with which value, and what would be accepted. Owns no
//! production code.

use std::collections::BTreeMap;

use crate::error::Class;
use crate::hardware::gpu::Vendor;
use crate::hardware::placement::LabelExpr;
use crate::hardware::verdict::LabelLack;
use crate::hardware::{Arch, Failure, HardwareError, MachineFit, Substrate, TeeKind};
use crate::id::{label_key, label_value};

/// One of each kind, in the order of their declaration. A kind that is added is a compile error here until
/// it has its place.
fn every_kind() -> Vec<HardwareError> {
    use HardwareError as E;
    let text = str::to_owned;
    let verdict = |machine: &str| MachineFit {
        machine: text(machine),
        failures: vec![Failure::Label(LabelLack::new(LabelExpr::equal("rack", "r7").into(), &BTreeMap::new()))],
    };
    vec![
        E::EmptyGpuType,
        E::GpuTypeTooLong { len: 129, max: 128 },
        E::IllegalCharacter { ch: 'é', at: 3 },
        E::MixedVendors { first: Vendor::Amd, second: Vendor::Nvidia },
        E::BadMigProfile { given: text("1g") },
        E::MigNotSupported { device: text("t4") },
        E::NoSuchMigProfile { device: text("a30"), asked: text("1g.5gb"), known: text("1g.6gb, 2g.12gb, 4g.24gb") },
        E::AmbiguousMemory { first: 40, second: 80 },
        E::MemoryOutOfRange { given: text("4097gb") },
        E::UnknownGpuModel { input: text("a1000"), nearest: vec![text("a100"), text("h100")] },
        E::NoGpu { given: text("none"), instead: "leave gpuType out" },
        E::NameWithMore { name: text("RTX 5880 Ada") },
        E::VendorMismatch { model: text("a100"), made_by: Vendor::Nvidia, asked: Vendor::Amd },
        E::UnknownTee { given: text("sev-snq") },
        E::CountZeroWithType { kind: text("a100") },
        E::CountOutOfRange { given: 1025, max: 1024 },
        E::CountDiffers { said: 8, given: 4 },
        E::NoVariantWithMemory { model: text("a100"), asked: 141, largest: 80 },
        E::NoSuchVariant { model: text("a100"), asked: text("oam") },
        E::TeeTypeMissing,
        E::ArchContradiction { kind: TeeKind::Se, implied: Arch::S390x, asked: Arch::Amd64 },
        E::UnsupportedCombination { what: text("tdx with GPUs takes whole NVIDIA devices: 2 are asked for") },
        E::IllegalLabelKey(label_key("my label").unwrap_err()),
        E::IllegalLabelValue { key: text("rack"), fault: label_value("-7").unwrap_err() },
        E::ReservedLabel { key: text("orlop/arch") },
        E::UnsupportedOnSubstrate { substrate: Substrate::Docker, what: text("cca") },
        E::LabelConflict { key: text("zone"), user: text("a"), generated: text("b") },
        E::TooManyTerms { terms: 65, max: 64 },
        E::UnsatisfiableAffinity,
        E::ResourceConflict { user: text("amd.com/gpu"), generated: text("nvidia.com/gpu") },
        E::RuntimeClassConflict { user: text("gvisor"), accepted: text("kata-qemu-tdx or kata-tdx") },
        E::InventoryRequired { what: text("GPU `nvidia-t4-16gb`") },
        E::NoMatchingHardware { best: vec![verdict("n1"), verdict("n2")] },
    ]
}

/// The place of a kind in their declaration.
const fn place(error: &HardwareError) -> usize {
    use HardwareError as E;
    match error {
        E::EmptyGpuType => 0,
        E::GpuTypeTooLong { .. } => 1,
        E::IllegalCharacter { .. } => 2,
        E::MixedVendors { .. } => 3,
        E::BadMigProfile { .. } => 4,
        E::MigNotSupported { .. } => 5,
        E::NoSuchMigProfile { .. } => 6,
        E::AmbiguousMemory { .. } => 7,
        E::MemoryOutOfRange { .. } => 8,
        E::UnknownGpuModel { .. } => 9,
        E::NoGpu { .. } => 10,
        E::NameWithMore { .. } => 11,
        E::VendorMismatch { .. } => 12,
        E::UnknownTee { .. } => 13,
        E::CountZeroWithType { .. } => 14,
        E::CountOutOfRange { .. } => 15,
        E::CountDiffers { .. } => 16,
        E::NoVariantWithMemory { .. } => 17,
        E::NoSuchVariant { .. } => 18,
        E::TeeTypeMissing => 19,
        E::ArchContradiction { .. } => 20,
        E::UnsupportedCombination { .. } => 21,
        E::IllegalLabelKey(_) => 22,
        E::IllegalLabelValue { .. } => 23,
        E::ReservedLabel { .. } => 24,
        E::UnsupportedOnSubstrate { .. } => 25,
        E::LabelConflict { .. } => 26,
        E::TooManyTerms { .. } => 27,
        E::UnsatisfiableAffinity => 28,
        E::ResourceConflict { .. } => 29,
        E::RuntimeClassConflict { .. } => 30,
        E::InventoryRequired { .. } => 31,
        E::NoMatchingHardware { .. } => 32,
    }
}

#[test]
fn every_error_names_its_field_what_is_wrong_and_what_would_do() {
    let all = every_kind();
    assert_eq!(all.iter().map(place).collect::<Vec<_>>(), (0..all.len()).collect::<Vec<_>>());
    let said = all.iter().map(|error| format!("{}: {error}; {}\n", error.field().unwrap_or("-"), error.help()));
    insta::assert_snapshot!(said.collect::<String>(), @r"
    gpuType: GPU type is empty; name a vendor, a model or both, for example `nvidia-a100` or `A100-SXM4-40GB`
    gpuType: GPU type has 129 bytes, at most 128 are allowed; write the device's product name in printable ASCII, for example `Tesla T4`
    gpuType: GPU type has the character 'é' at position 3; write the device's product name in printable ASCII, for example `Tesla T4`
    gpuType: GPU type names two vendors, amd and nvidia; ask for one vendor, for example `nvidia-a100`, or leave the vendor out
    gpuType: GPU type has no single MIG profile at `1g`; write one profile, for example `mig-1g.5gb` or `a100-mig-3g.20gb`
    gpuType: t4 devices have no MIG profiles; ask for whole devices, or for slices of an NVIDIA device, for example `a100-mig-1g.5gb`
    gpuType: a30 devices have no MIG profile 1g.5gb, they have 1g.6gb, 2g.12gb, 4g.24gb; name a profile that the device has, or leave the model out
    gpuType: GPU type names two memory sizes, 40 GiB and 80 GiB; give the memory of one device once, for example `a100-80gb`
    gpuMemoryGiB: GPU memory `4097gb` is out of range; give the memory of one device as 1gb to 4096gb
    gpuType: unknown GPU model `a1000`, did you mean a100, h100?; use a known model, for example `h100`, `a100`, `l4`, `t4`, `mi300x`
    gpuType: GPU type `none` is not a GPU; leave gpuType out
    gpuType: GPU name `RTX 5880 Ada` is given together with a model, form words or a MIG profile; give the exact name alone, it says all of them
    gpuType: GPU model `a100` is made by nvidia, not by amd; leave the vendor out, or name a model it makes, for example `amd-mi300x`
    teeType: unknown TEE type `sev-snq`; use one of sgx, tdx, sev, sev-es, sev-snp, se, cca
    gpuCount: gpuCount is 0, but gpuType is `a100`; leave gpuCount out for one device, or leave both out for none
    gpuCount: gpuCount is 1025, 0 to 1024 are allowed; ask for as many devices as one machine has, for example `gpuCount: 8`
    gpuCount: gpuType says 8, but gpuCount is 4; give the count once, for example `gpuType: h100` with `gpuCount: 8`
    gpuType: no a100 has 141 GiB, the largest has 80 GiB; ask for less memory of one device, or for a model that has it, for example `h200`
    gpuType: there is no a100 with oam; use a product name that exists, for example `A100-SXM4-80GB`
    teeType: teeRequired is true, but teeType is missing; use one of sgx, tdx, sev, sev-es, sev-snp, se, cca
    cpuArch: se exists on s390x, but amd64 is asked for; leave cpuArch out, it follows from teeType
    teeType: tdx with GPUs takes whole NVIDIA devices: 2 are asked for; ask for one whole NVIDIA device with tdx or sev-snp, for example `gpuType: h100`, or drop one need
    customLabels: label key `my label` is not valid: character ' ' at position 3 is not allowed; use letters, digits, `-`, `_` and `.`; write `name` or `prefix/name`, for example `example.com/rack`
    customLabels: label rack: label value `-7` is not valid: '-' at position 1 is at the start or end of the text, where only a letter or digit is allowed; write at most 63 letters, digits, `-`, `_` and `.`, for example `rack-7`
    customLabels: label orlop/arch is set by the worker itself; use a label outside `orlop/`, for example `example.com/rack`
    -: cca is not available on docker; drop the need, or run on another substrate: kubernetes, openstack or fleet
    -: label zone is asked to be a, but the hardware asks for b; remove the selector, or make it one of the values the hardware asks for
    -: the node affinity has 65 terms, at most 64 are allowed; write fewer nodeSelectorTerms, or use one label family, for example `labelFamilies: [native]`
    -: the node affinity and the hardware contradict each other in every term; remove the affinity term that excludes the hardware
    -: resource amd.com/gpu is asked for, but the hardware asks for nvidia.com/gpu; remove the resource, hardwareRequirements asks for it
    -: runtime class gvisor does not give what the hardware asks for, kata-qemu-tdx or kata-tdx would; remove runtimeClass, it follows from teeType
    -: GPU `nvidia-t4-16gb` can only be chosen with an inventory of the host; give the host's inventory, or ask for a count alone, for example `gpuCount: 1`
    -: no machine fits; n1: needs rack = r7; n2: needs rack = r7; wait for capacity, or ask for less
    ");
}

#[test]
fn only_what_fits_nowhere_now_waits_for_capacity() {
    for error in every_kind() {
        let waits = matches!(error, HardwareError::NoMatchingHardware { .. });
        assert_eq!(error.class(), if waits { Class::Capacity } else { Class::Invalid }, "{error}");
    }
}

#[test]
fn at_most_three_machines_are_named_those_that_lack_least() {
    let verdict = |machine: &str, keys: &[&str]| MachineFit {
        machine: machine.to_owned(),
        failures: keys
            .iter()
            .map(|key| Failure::Label(LabelLack::new(LabelExpr::equal(*key, "x").into(), &BTreeMap::new())))
            .collect(),
    };
    let all = [("d", 1), ("c", 2), ("b", 1), ("fits", 0), ("a", 1), ("e", 3)];
    let nearest = MachineFit::nearest(all.map(|(machine, lacks)| verdict(machine, &["k1", "k2", "k3"][..lacks])));
    let names: Vec<&str> = nearest.iter().map(|verdict| verdict.machine.as_str()).collect();
    assert_eq!(names, ["a", "b", "d"]);
    insta::assert_snapshot!(HardwareError::NoMatchingHardware { best: nearest }, @"no machine fits; a: needs k1 = x; b: needs k1 = x; d: needs k1 = x");
    insta::assert_snapshot!(HardwareError::NoMatchingHardware { best: Vec::new() }, @"no machine fits");
}
