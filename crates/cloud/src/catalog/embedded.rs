//! The hardware of Chameleon as it was in the middle of 2026, used where nothing live is to be
//! had. Owns the data; availability and rates are unknown here.

use orlop_core::hardware::Arch;

use super::host::{Cards, Catalogue, Disk, Origin, Shape, Variant, mark_whole_types};
use crate::analyze::card;

/// A row: type, site, hosts, threads, memory in GiB, disks in GB (`n` after the size: NVMe), cards and marks.
type Row = (&'static str, &'static str, usize, u32, u32, &'static str, &'static str);

/// Cards are `COUNTxMODEL`; marks are `arm`, `ib`, `fpga`, `nvdimm`, `nvlink`.
const ROWS: &[Row] = &[
    ("compute_haswell", "nu", 6, 48, 128, "250", ""),
    ("compute_haswell", "nrp", 3, 48, 128, "250", ""),
    ("compute_haswell_ib", "tacc", 17, 48, 128, "250", "ib"),
    ("compute_skylake", "uc", 23, 48, 192, "240", ""),
    ("compute_skylake", "tacc", 32, 48, 192, "240", ""),
    ("compute_skylake", "nu", 2, 48, 192, "119 119", ""),
    ("compute_cascadelake", "tacc", 24, 64, 192, "240", ""),
    ("compute_cascadelake_r", "uc", 40, 96, 192, "480", ""),
    ("compute_cascadelake_r", "uc", 2, 96, 192, "480", "fpga"),
    ("compute_cascadelake_r", "tacc", 56, 96, 192, "480", ""),
    ("compute_icelake_r650", "tacc", 52, 160, 256, "480", ""),
    ("compute_icelake_r750", "tacc", 20, 160, 256, "480", ""),
    ("compute_zen3", "tacc", 32, 256, 256, "480", ""),
    ("compute_zen5_grado", "ncar", 40, 32, 64, "960", ""),
    ("compute_nvdimm", "uc", 2, 224, 3840, "480 960 960", "nvdimm"),
    ("compute_gigaio", "uc", 7, 256, 512, "480 480", "1xA100@80"),
    ("compute_gigaio", "uc", 1, 256, 512, "480 480", ""),
    ("compute_gigaio", "tacc", 2, 160, 256, "480", "1xA100@40"),
    ("compute_gigaio", "tacc", 2, 160, 256, "480", "1xA30@24"),
    ("compute_gigaio", "tacc", 2, 160, 256, "480", ""),
    ("compute_liqid", "tacc", 4, 256, 256, "3840 3840 480", "1xA100@40"),
    ("compute_liqid", "tacc", 4, 256, 256, "3840 3840 480", "2xA100@40"),
    ("compute_arm64", "tacc", 8, 48, 32, "512", "arm"),
    ("arm_thunder", "ncar", 4, 256, 128, "2000 2000 2000 2000", "arm"),
    ("fpga", "uc", 1, 48, 192, "240", "fpga"),
    ("gpu_rtx_6000", "uc", 37, 48, 192, "240", "1xRTX6000@24"),
    ("gpu_v100", "uc", 4, 80, 128, "240 240", "4xV100@32"),
    ("gpu_a100_pcie", "uc", 4, 160, 512, "1920n", "4xA100@80"),
    ("gpu_a100_nvlink", "uc", 1, 256, 512, "1920", "4xA100@80 nvlink ib"),
    ("gpu_h100", "tacc", 2, 192, 1024, "480 3840", "4xH100@94 nvlink"),
    ("gpu_mi100", "tacc", 8, 256, 256, "480", "2xMI100@32"),
    ("gpu_p100", "tacc", 15, 48, 128, "1000", "2xP100@16"),
    ("gpu_p100_nvlink", "tacc", 3, 56, 128, "1600 200", "4xP100@16 nvlink"),
    ("gpu_p100_nvlink", "tacc", 1, 56, 128, "1600 200", "2xP100@16 nvlink"),
    ("gpu_p100_v100", "tacc", 1, 48, 128, "1000", "2xV100@16"),
    ("gpu_m40", "tacc", 2, 48, 128, "250", "1xM40@12"),
    ("gpu_k80", "tacc", 2, 48, 128, "250", "2xK80@12"),
    ("gpu_pontevecchio", "tacc", 2, 96, 1024, "480 3840", "4xMax1550@128"),
    (
        "storage",
        "tacc",
        20,
        40,
        64,
        "400 2000 2000 2000 2000 2000 2000 2000 2000 2000 2000 2000 2000 2000 2000 2000 2000",
        "",
    ),
    ("storage_hierarchy", "tacc", 2, 48, 512, "400 400 2000 2000 2000 2000 600 600 600 600", ""),
    ("storage_nvme", "uc", 10, 96, 256, "960 7681n 7681n", "ib"),
];

/// The table as a catalogue.
#[must_use]
pub fn embedded() -> Catalogue {
    let mut variants: Vec<Variant> = ROWS.iter().map(variant).collect();
    mark_whole_types(&mut variants);
    Catalogue { origin: Origin::Embedded, variants }
}

fn variant(row: &Row) -> Variant {
    let (node_type, site, count, threads, ram_gib, disks, marks) = *row;
    let has = |mark: &str| marks.split(' ').any(|word| word == mark);
    let disks = disks.split(' ').filter_map(|word| {
        let nvme = word.ends_with('n');
        Some(Disk { gb: word.trim_end_matches('n').parse().ok()?, nvme })
    });
    let cards = marks.split(' ').find_map(|word| {
        let (count, rest) = word.split_once('x').filter(|(count, _)| count.parse::<u32>().is_ok())?;
        let (model, memory) = rest.split_once('@')?;
        let known = card::by_model(model)?;
        Some(Cards {
            model: model.to_owned(),
            vendor: known.vendor,
            memory_gb: memory.parse().ok()?,
            count: count.parse().ok()?,
            capability: known.capability,
            nvlink: has("nvlink"),
        })
    });
    let shape = Shape {
        arch: if has("arm") { Arch::Arm64 } else { Arch::Amd64 },
        threads,
        ram_gib,
        cards,
        disks: disks.collect(),
        infiniband: has("ib"),
        fpga: has("fpga"),
        nvdimm: has("nvdimm"),
    };
    let (site, node_type) = (site.to_owned(), node_type.to_owned());
    Variant {
        site,
        node_type,
        shape,
        ids: Vec::new(),
        uids: Vec::new(),
        count,
        su_milli: None,
        whole_type: true,
        typed: true,
        vm: None,
    }
}
