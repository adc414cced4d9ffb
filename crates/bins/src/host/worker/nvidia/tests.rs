//! Tests of the reader of `nvidia-smi`, with what it prints on machines of several kinds. Owns no production code.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use tempfile::TempDir;

use super::*;
use crate::host::worker::machine::{Offer, capabilities};

/// Two connected H100, as driver 550 lists them.
const H100: &str = "\
GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1b6a62f2-8a54-0c34-9a2e-8f5d2f2b7a01)
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-2b6a62f2-8a54-0c34-9a2e-8f5d2f2b7a02)
";
const H100_DETAILS: &str = "0, 81559, Disabled\n1, 81559, Disabled\n";
const LINKS: &str = "\tGPU0\tGPU1\nGPU0\t X \tNV18\nGPU1\tNV18\t X \n";

/// A divided A100 beside one that is whole and one that is to be divided, as driver 535 lists them.
const A100: &str = "\
GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-5c89852c-d268-c3f3-1b07-005d5ae1dc3f)
  MIG 3g.40gb     Device  0: (UUID: MIG-0a6b1d1f-98b5-5a22-8cf1-6a0c6b0d5e01)
  MIG 1g.10gb     Device  1: (UUID: MIG-1a6b1d1f-98b5-5a22-8cf1-6a0c6b0d5e02)
  MIG 1g.10gb+me  Device  2: (UUID: MIG-2a6b1d1f-98b5-5a22-8cf1-6a0c6b0d5e03)
  MIG 1c.2g.20gb  Device  3: (UUID: MIG-3a6b1d1f-98b5-5a22-8cf1-6a0c6b0d5e04)
GPU 1: NVIDIA A100-SXM4-80GB (UUID: GPU-6c89852c-d268-c3f3-1b07-005d5ae1dc40)
GPU 2: NVIDIA A100-SXM4-80GB (UUID: GPU-7c89852c-d268-c3f3-1b07-005d5ae1dc41)
";
const A100_DETAILS: &str = "0, 81920, Enabled\n1, 81920, Disabled\n2, 81920, Enabled\n";

/// A machine with a fake `nvidia-smi` and no driver.
struct Fake {
    dir: TempDir,
}

impl Fake {
    /// One that runs this script, in which `$1` is the first argument.
    fn running(script: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("nvidia-smi");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
        Self { dir }
    }

    /// One that prints the list, the details and the links.
    fn telling(list: &str, details: &str, links: &str) -> Self {
        let answer = |text: &str| format!("cat <<'END'\n{text}END\n");
        let [list, details, links] = [list, details, links].map(answer);
        Self::running(&format!(
            "case $1 in -L)\n{list};; --query-gpu=*)\n{details};; topo)\n{links};; *) exit 2;; esac"
        ))
    }

    fn driver(&self) -> PathBuf {
        self.dir.path().join("driver")
    }

    /// Adds a device that the driver tells of.
    fn with(self, name: &str, minor: u32, uuid: &str) -> Self {
        let folder = self.driver().join(format!("0000:0{}:00.0", 9 - minor));
        fs::create_dir_all(&folder).unwrap();
        let text = format!("Model: \t\t {name}\nIRQ:   \t\t 1\nGPU UUID: \t {uuid}\nDevice Minor: \t {minor}\n");
        fs::write(folder.join("information"), text).unwrap();
        self
    }

    fn found(&self) -> Vec<Gpu> {
        detect_by(&self.dir.path().join("nvidia-smi"), &self.driver())
    }
}

/// By what each device is given, its model, GiB, UUID and links.
fn said(gpus: &[Gpu]) -> String {
    let mut text = String::new();
    for gpu in gpus {
        let (id, gib, uuid) = (gpu.device.id(), gpu.memory_bytes >> 30, gpu.uuid.as_deref().unwrap_or("none"));
        let links = if gpu.nvlink { ", linked" } else { "" };
        let _ = writeln!(text, "{id}: {} {gib} {uuid}{links}", gpu.model);
    }
    text
}

#[test]
fn whole_devices_are_given_by_their_numbers_and_reported_with_their_uuids() {
    let found = Fake::telling(H100, H100_DETAILS, LINKS).found();
    insta::assert_snapshot!(said(&found), @r"
    0: h100 80 GPU-1b6a62f2-8a54-0c34-9a2e-8f5d2f2b7a01, linked
    1: h100 80 GPU-2b6a62f2-8a54-0c34-9a2e-8f5d2f2b7a02, linked
    ");
    let offer = capabilities(&Offer::default(), &found, &BTreeSet::new());
    assert_eq!(offer.labels.get("orlop/gpu-nvlink").map(String::as_str), Some("true"));
    let units: Vec<&str> = offer.gpu_units.iter().map(|unit| unit.uuid.as_str()).collect();
    assert_eq!(units, found.iter().filter_map(|gpu| gpu.uuid.as_deref()).collect::<Vec<_>>());
    let more = Fake::telling(&format!("{H100}{}\n", H100.replace("GPU 0", "GPU 2").lines().next().unwrap()), "", LINKS);
    assert!(more.found().iter().all(|gpu| !gpu.nvlink), "the links are those of two of three");
}

#[test]
fn slices_are_offered_in_place_of_a_divided_device_and_all_are_given_by_uuid_beside_them() {
    let found = Fake::telling(A100, A100_DETAILS, "").found();
    insta::assert_snapshot!(said(&found), @r"
    MIG-0a6b1d1f-98b5-5a22-8cf1-6a0c6b0d5e01: a100mig3g40gb 40 MIG-0a6b1d1f-98b5-5a22-8cf1-6a0c6b0d5e01
    MIG-1a6b1d1f-98b5-5a22-8cf1-6a0c6b0d5e02: a100mig1g10gb 10 MIG-1a6b1d1f-98b5-5a22-8cf1-6a0c6b0d5e02
    MIG-2a6b1d1f-98b5-5a22-8cf1-6a0c6b0d5e03: a100mig1g10gbme 10 MIG-2a6b1d1f-98b5-5a22-8cf1-6a0c6b0d5e03
    GPU-6c89852c-d268-c3f3-1b07-005d5ae1dc40: a100 80 GPU-6c89852c-d268-c3f3-1b07-005d5ae1dc40
    ");
    assert_eq!(found.iter().map(|gpu| gpu.device.is_slice()).collect::<Vec<_>>(), [true, true, true, false]);
    let offer = capabilities(&Offer::default(), &found, &BTreeSet::new());
    let kinds: Vec<String> = offer.gpus.iter().map(|kind| format!("{} {}", kind.count, kind.model)).collect();
    assert_eq!(kinds, ["1 a100", "1 a100mig1g10gb", "1 a100mig1g10gbme", "1 a100mig3g40gb"]);
    assert_eq!(
        (offer.gpu_units.len(), offer.gpu_units[1].index),
        (4, 0),
        "the number of a slice is that of its device"
    );
    assert_eq!(offer.labels.get("orlop/gpu-model"), None, "they are of several models");
}

#[test]
fn slices_of_old_drivers_are_given_by_the_uuid_of_their_device() {
    let old = "GPU 0: A100-SXM4-40GB (UUID: GPU-5c89852c-d268-c3f3-1b07-005d5ae1dc3f)\n  \
               MIG 1g.5gb Device 0: (UUID: MIG-GPU-5c89852c-d268-c3f3-1b07-005d5ae1dc3f/7/0)\n";
    insta::assert_snapshot!(said(&Fake::telling(old, "0, 40537, Enabled\n", "").found()), @"MIG-GPU-5c89852c-d268-c3f3-1b07-005d5ae1dc3f/7/0: a100mig1g5gb 5 MIG-GPU-5c89852c-d268-c3f3-1b07-005d5ae1dc3f/7/0");
}

#[test]
fn devices_of_two_models_have_the_memory_of_their_product_or_what_the_driver_leaves_of_it() {
    let list = "\
GPU 0: Tesla T4 (UUID: GPU-0d8a0f3a-2f43-4e0a-8b70-0f6f3c8a1101)
GPU 1: NVIDIA A40-48Q (UUID: GPU-1d8a0f3a-2f43-4e0a-8b70-0f6f3c8a1102)
GPU 2: NVIDIA H100 (UUID: GPU-2d8a0f3a-2f43-4e0a-8b70-0f6f3c8a1103)
GPU 3: NVIDIA Voodoo 5
";
    let details = "0, 15360, [N/A]\n1, 49152, [Not Supported]\n2, 81559, Disabled\n3, [N/A], N/A\n";
    insta::assert_snapshot!(said(&Fake::telling(list, details, "").found()), @r"
    0: t4 16 GPU-0d8a0f3a-2f43-4e0a-8b70-0f6f3c8a1101
    1: a4048q 48 GPU-1d8a0f3a-2f43-4e0a-8b70-0f6f3c8a1102
    2: h100 80 GPU-2d8a0f3a-2f43-4e0a-8b70-0f6f3c8a1103
    3: voodoo5 0 none
    ");
    // A driver that knows no mode of division answers nothing to a question for it.
    let old = Fake::running(&format!("[ $1 = -L ] || exit 6\ncat <<'END'\n{list}END"));
    assert_eq!(old.found().iter().map(|gpu| gpu.memory_bytes >> 30).collect::<Vec<_>>(), [16, 0, 0, 0]);
}

#[test]
fn a_machine_without_devices_or_driver_or_program_offers_none() {
    let none = Fake::running("echo 'No devices were found'; exit 6");
    let unloaded =
        Fake::running("echo \"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\"; exit 9");
    let quiet = Fake::telling("No devices found.\n", "No devices were found\n", "");
    let lost = Fake::telling("Unable to determine the device handle for GPU 0000:01:00.0: Unknown Error\n", "", "");
    for fake in [none, unloaded, quiet, lost] {
        assert_eq!(fake.found(), []);
    }
    assert_eq!(detect_by(Path::new("/no/such/program"), Path::new("/no/such/folder")), []);
}

#[test]
fn where_the_program_does_not_answer_devices_are_those_of_the_driver() {
    let unknown = "GPU-????????-????-????-????-????????????";
    let fake = Fake::running("exit 9")
        .with("NVIDIA A100-SXM4-40GB", 1, "GPU-0e8a0f3a-2f43-4e0a-8b70-0f6f3c8a1104")
        .with("NVIDIA H100", 0, unknown)
        .with("NVIDIA Voodoo 5", 2, unknown);
    insta::assert_snapshot!(said(&fake.found()), @r"
    0: h100 0 none
    1: a100 40 GPU-0e8a0f3a-2f43-4e0a-8b70-0f6f3c8a1104
    2: voodoo5 0 none
    ");
}
