//! What fits, what is relaxed, and what is said when nothing does.

use proptest::prelude::*;

use super::*;
use crate::analyze::{Feature, Version};
use crate::catalog::fit::{Unfit, fits, misfits, relax};

fn all() -> Catalogue {
    embedded()
}

fn types(needs: &Needs) -> Vec<String> {
    let catalogue = all();
    let mut found: Vec<String> = catalogue
        .variants
        .iter()
        .filter(|v| fits(needs, &v.shape))
        .map(|v| format!("{}@{}", v.node_type, v.site))
        .collect();
    found.dedup();
    found
}

fn shape(name: &str, site: &str) -> Shape {
    all().at(site).find(|variant| variant.node_type == name).unwrap().shape.clone()
}

#[test]
fn the_table_has_every_row() {
    let catalogue = all();
    let mut names: Vec<&str> = catalogue.variants.iter().map(|variant| variant.node_type.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    insta::assert_snapshot!(names.join(" "), @"arm_thunder compute_arm64 compute_cascadelake compute_cascadelake_r compute_gigaio compute_haswell compute_haswell_ib compute_icelake_r650 compute_icelake_r750 compute_liqid compute_nvdimm compute_skylake compute_zen3 compute_zen5_grado fpga gpu_a100_nvlink gpu_a100_pcie gpu_h100 gpu_k80 gpu_m40 gpu_mi100 gpu_p100 gpu_p100_nvlink gpu_p100_v100 gpu_pontevecchio gpu_rtx_6000 gpu_v100 storage storage_hierarchy storage_nvme");
    let hosts: usize = catalogue.variants.iter().map(|variant| variant.count).sum();
    assert_eq!(hosts, 500);
    let h100 = shape("gpu_h100", "tacc").cards.unwrap();
    assert_eq!((h100.count, h100.memory_gb, h100.capability, h100.nvlink), (4, 94, Some(Version::new(9, 0)), true));
    assert_eq!(shape("gpu_mi100", "tacc").cards.unwrap().vendor, Vendor::Amd);
    assert_eq!(shape("gpu_pontevecchio", "tacc").cards.unwrap().vendor, Vendor::Intel);
    assert_eq!(shape("compute_arm64", "tacc").arch, Arch::Arm64);
    assert!(shape("storage_nvme", "uc").has(Feature::Nvme) && shape("storage_nvme", "uc").infiniband);
    assert!(catalogue.at("tacc").filter(|v| v.node_type == "compute_gigaio").all(|v| !v.whole_type));
}

#[test]
fn every_part_of_the_filter() {
    let host = shape("gpu_rtx_6000", "uc");
    let lacks = |change: &dyn Fn(&mut Needs)| {
        let mut needs = card(24);
        change(&mut needs);
        misfits(&needs, &host)
    };
    assert_eq!(lacks(&|_| {}), []);
    assert_eq!(lacks(&|n| n.arch = Arch::Arm64), [Unfit::Arch]);
    assert_eq!(lacks(&|n| n.gpu.as_mut().unwrap().vendor = Vendor::Amd), [Unfit::Vendor]);
    assert_eq!(lacks(&|n| n.gpu.as_mut().unwrap().count.wish = 2), [Unfit::Count]);
    assert_eq!(lacks(&|n| n.gpu.as_mut().unwrap().memory_gb = 25), [Unfit::CardMemory]);
    assert_eq!(lacks(&|n| n.gpu.as_mut().unwrap().cuda = Some(Version::new(9, 2))), [], "a minimum");
    assert_eq!(lacks(&|n| n.cores.wish = 49), [Unfit::Cores]);
    assert_eq!(lacks(&|n| n.ram_gib.wish = 193), [Unfit::Ram]);
    assert_eq!(lacks(&|n| n.disk_gb.wish = 241), [Unfit::Disk]);
    assert_eq!(
        lacks(&|n| n.features = vec![Feature::Nvlink, Feature::Fpga]),
        [Unfit::Feature(Feature::Nvlink), Unfit::Feature(Feature::Fpga)]
    );
    assert_eq!(misfits(&card(8), &shape("compute_skylake", "uc")), [Unfit::NoGpu]);
    assert_eq!(misfits(&card(8), &shape("gpu_p100", "tacc")), [Unfit::Legacy]);
    let mut new = card(16);
    new.gpu.as_mut().unwrap().cuda = Some(Version::new(13, 0));
    assert_eq!(misfits(&new, &shape("gpu_v100", "uc")), [Unfit::Cuda]);
    let mut old = card(8);
    old.gpu.as_mut().unwrap().legacy = true;
    assert_eq!(misfits(&old, &shape("gpu_p100", "tacc")), []);
}

#[test]
fn a_disk_need_is_met_by_one_device_and_above_2000_by_all() {
    let storage = shape("storage", "tacc");
    assert_eq!((storage.disk_gb(2000), storage.disk_gb(2001)), (2000, 32_400));
    let mut needs = plain();
    needs.disk_gb = Range::exactly(30_000);
    assert_eq!(types(&needs), ["storage@tacc"]);
}

#[test]
fn special_hardware_is_found() {
    let with = |feature| Needs { features: vec![feature], ..plain() };
    assert_eq!(
        types(&with(Feature::Fpga)),
        ["fpga@uc", "compute_cascadelake_r@uc"].map(str::to_owned).into_iter().rev().collect::<Vec<_>>()
    );
    assert_eq!(types(&with(Feature::Nvdimm)), ["compute_nvdimm@uc"]);
    assert_eq!(types(&with(Feature::Nvme)), ["gpu_a100_pcie@uc", "storage_nvme@uc"]);
    let nvlink = Needs { features: vec![Feature::Nvlink], ..card(40) };
    assert_eq!(types(&nvlink), ["gpu_h100@tacc", "gpu_a100_nvlink@uc"]);
    assert_eq!(types(&Needs { arch: Arch::Arm64, ..plain() }), ["arm_thunder@ncar", "compute_arm64@tacc"]);
}

#[test]
fn wishes_are_relaxed_in_their_order_each_with_a_note() {
    let catalogue = all();
    let uc: Vec<&Variant> = catalogue.at("uc").collect();
    let mut needs = card(40);
    needs.gpu.as_mut().unwrap().count = Range { least: 1, wish: 8 };
    let relaxed = relax(&needs, &uc).unwrap();
    assert_eq!(relaxed.needs.gpu.as_ref().unwrap().count.wish, 4);
    insta::assert_snapshot!(relaxed.notes.join("\n"), @"cards relaxed from 8 to 4: nothing has more together with the other requirements");
    let mut large = plain();
    (large.cores.wish, large.ram_gib.wish) = (1000, 5000);
    let relaxed = relax(&large, &uc).unwrap();
    assert_eq!((relaxed.needs.cores.wish, relaxed.needs.ram_gib.wish), (2, 3840));
    assert_eq!(relaxed.notes.len(), 2);
}

#[test]
fn minimums_are_never_relaxed_and_the_answer_says_what_there_is() {
    let catalogue = all();
    let every: Vec<&Variant> = catalogue.variants.iter().collect();
    let reported = |needs: &Needs| relax(needs, &every).unwrap_err().to_string();
    insta::assert_snapshot!(reported(&card(100)), @"no type has one card of 100 GB (largest 94 at tacc); 2 cards of 94 GB together have as much: --gpu 2 --vram 94; closest: gpu_h100 at tacc with 94 GB a card instead of 100 GB, take it with --accept-closest");
    let mut ram = plain();
    ram.ram_gib = Range::exactly(8000);
    insta::assert_snapshot!(reported(&ram), @"no type has 8000 GiB of memory (largest 3840 at uc); closest: compute_nvdimm at uc with 3840 GiB of memory instead of 8000 GiB, take it with --accept-closest");
    let mut cores = plain();
    cores.cores = Range::exactly(300);
    insta::assert_snapshot!(reported(&cores), @"no type has 300 hardware threads (largest 256 at ncar); closest: compute_gigaio at uc with 256 hardware threads instead of 300, take it with --accept-closest");
    let mut both = card(80);
    both.ram_gib = Range::exactly(2000);
    insta::assert_snapshot!(reported(&both), @"no type has all of it together: 2 threads, 2000 GiB, 20 GB of disk, 1 x 80 GB of nvidia on amd64; closest: gpu_h100 at tacc with 1024 GiB of memory instead of 2000 GiB, take it with --accept-closest");
    let nearest = relax(&both, &every).unwrap_err().nearest;
    assert_eq!(nearest.len(), 3);
    assert_eq!(nearest[0].1, [Unfit::Ram]);
}

proptest! {
    #[test]
    fn relaxing_never_lowers_a_minimum_or_weakens_a_card(
        cores in (1_u32..300, 0_u32..300), ram in (1_u32..5000, 0_u32..5000), disk in (1_u32..9000, 0_u32..9000),
        gpu in proptest::option::of((1_u32..6, 0_u32..6, 1_u32..150)),
    ) {
        let range = |(least, more): (u32, u32)| Range { least, wish: least + more };
        let mut needs = Needs { cores: range(cores), ram_gib: range(ram), disk_gb: range(disk), ..plain() };
        if let Some((least, more, memory_gb)) = gpu {
            needs.gpu = Some(GpuNeed { count: range((least, more)), memory_gb, ..card(1).gpu.unwrap() });
        }
        let catalogue = all();
        let every: Vec<&Variant> = catalogue.variants.iter().collect();
        if let Ok(relaxed) = relax(&needs, &every) {
            prop_assert!(relaxed.needs.cores.wish >= needs.cores.least && relaxed.needs.ram_gib.wish >= needs.ram_gib.least);
            prop_assert!(relaxed.needs.disk_gb.wish >= needs.disk_gb.least);
            for variant in every.iter().filter(|variant| fits(&relaxed.needs, &variant.shape)) {
                let shape = &variant.shape;
                prop_assert!(shape.threads >= needs.cores.least && shape.ram_gib >= needs.ram_gib.least);
                if let Some(gpu) = &needs.gpu {
                    let cards = shape.cards.as_ref().unwrap();
                    prop_assert!(cards.memory_gb >= gpu.memory_gb && cards.count >= gpu.count.least && cards.vendor == gpu.vendor);
                }
            }
        }
    }
}
