//! The built-in table of device models and their products. Owns the data in rows; what is
//! made of them, and laid over them, stands in the catalogue.

use super::catalogue::{Catalogue, FamilyValue, Model, Product};
use super::{Form, Vendor};

/// A model: key, alias, maker, products, labels of GKE with the memory they stand for, name Karpenter gives it.
struct Row {
    key: &'static str,
    alias: Option<&'static str>,
    vendor: Vendor,
    products: &'static [(&'static str, u32, bool)],
    gke: &'static [(&'static str, u32)],
    karpenter: Option<&'static str>,
}

const LINKED: bool = true;
const SINGLE: bool = false;

const fn row(vendor: Vendor, key: &'static str, products: &'static [(&'static str, u32, bool)]) -> Row {
    Row { key, alias: None, vendor, products, gke: &[], karpenter: None }
}

const fn nvidia(key: &'static str, products: &'static [(&'static str, u32, bool)]) -> Row {
    row(Vendor::Nvidia, key, products)
}

const fn amd(key: &'static str, products: &'static [(&'static str, u32, bool)]) -> Row {
    row(Vendor::Amd, key, products)
}

const fn intel(key: &'static str, products: &'static [(&'static str, u32, bool)]) -> Row {
    row(Vendor::Intel, key, products)
}

impl Row {
    const fn alias(self, alias: &'static str) -> Self {
        Self { alias: Some(alias), ..self }
    }

    const fn gke(self, gke: &'static [(&'static str, u32)]) -> Self {
        Self { gke, ..self }
    }

    const fn karpenter(self, name: &'static str) -> Self {
        Self { karpenter: Some(name), ..self }
    }
}

/// All built-in models, NVIDIA's first, the newest first.
static ROWS: &[Row] = &[
    nvidia("gb300", &[("GB300", 288, LINKED)]).gke(&[("nvidia-gb300", 288)]),
    nvidia("b300", &[("B300 SXM6 AC", 288, LINKED)]).karpenter("b300"),
    nvidia("gb200", &[("GB200", 186, LINKED)]).gke(&[("nvidia-gb200", 186)]),
    nvidia("b200", &[("B200", 180, LINKED)]).gke(&[("nvidia-b200", 180)]).karpenter("b200"),
    nvidia("h200", &[("H200", 141, LINKED), ("H200 NVL", 141, SINGLE)])
        .gke(&[("nvidia-h200-141gb", 141)])
        .karpenter("h200"),
    nvidia("h20", &[("H20", 96, LINKED)]),
    nvidia("gh200", &[("GH200 480GB", 96, SINGLE), ("GH200 144G HBM3e", 144, SINGLE)]),
    nvidia("h100", &[("H100 80GB HBM3", 80, LINKED), ("H100 PCIe", 80, SINGLE), ("H100 NVL", 94, SINGLE)])
        .gke(&[("nvidia-h100-80gb", 80), ("nvidia-h100-mega-80gb", 80)])
        .karpenter("h100"),
    nvidia(
        "a100",
        &[
            ("A100-SXM4-40GB", 40, LINKED),
            ("A100-PCIE-40GB", 40, SINGLE),
            ("A100-SXM4-80GB", 80, LINKED),
            ("A100 80GB PCIe", 80, SINGLE),
        ],
    )
    .gke(&[("nvidia-tesla-a100", 40), ("nvidia-a100-80gb", 80)])
    .karpenter("a100"),
    nvidia("a800", &[("A800-SXM4-80GB", 80, LINKED), ("A800 80GB PCIe", 80, SINGLE)]),
    nvidia("a30", &[("A30", 24, SINGLE)]),
    nvidia("a10", &[("A10", 24, SINGLE)]),
    nvidia("a10g", &[("A10G", 24, SINGLE)]).karpenter("a10g"),
    nvidia("l4", &[("L4", 24, SINGLE)]).gke(&[("nvidia-l4", 24)]).karpenter("l4"),
    nvidia("l20", &[("L20", 48, SINGLE)]),
    nvidia("l40", &[("L40", 48, SINGLE)]),
    nvidia("l40s", &[("L40S", 48, SINGLE)]).karpenter("l40s"),
    nvidia("a40", &[("A40", 48, SINGLE)]),
    nvidia("a16", &[("A16", 16, SINGLE)]),
    nvidia("a2", &[("A2", 16, SINGLE)]),
    nvidia("t4", &[("Tesla T4", 16, SINGLE)]).gke(&[("nvidia-tesla-t4", 16)]).karpenter("t4"),
    nvidia(
        "v100",
        &[
            ("Tesla V100-SXM2-16GB", 16, LINKED),
            ("Tesla V100-PCIE-16GB", 16, SINGLE),
            ("Tesla V100-SXM2-32GB", 32, LINKED),
            ("Tesla V100-SXM3-32GB", 32, LINKED),
            ("Tesla V100-PCIE-32GB", 32, SINGLE),
        ],
    )
    .gke(&[("nvidia-tesla-v100", 16)])
    .karpenter("v100"),
    nvidia("v100s", &[("Tesla V100S-PCIE-32GB", 32, SINGLE)]),
    nvidia("p4", &[("Tesla P4", 8, SINGLE)]).gke(&[("nvidia-tesla-p4", 8)]),
    nvidia("p40", &[("Tesla P40", 24, SINGLE)]),
    nvidia("p100", &[("Tesla P100-SXM2-16GB", 16, LINKED), ("Tesla P100-PCIE-16GB", 16, SINGLE)])
        .gke(&[("nvidia-tesla-p100", 16)]),
    nvidia("k80", &[("Tesla K80", 12, SINGLE)]).gke(&[("nvidia-tesla-k80", 12)]),
    nvidia("m40", &[("Tesla M40", 12, SINGLE), ("Tesla M40 24GB", 24, SINGLE)]),
    nvidia("rtxpro6000", &[("RTX PRO 6000 Blackwell Server Edition", 96, SINGLE)])
        .gke(&[("nvidia-rtx-pro-6000", 96)])
        .karpenter("rtx-pro-server-6000")
        .alias("rtxpro6000blackwell"),
    nvidia("rtx6000", &[("Quadro RTX 6000", 24, SINGLE)]),
    nvidia("rtx8000", &[("Quadro RTX 8000", 48, SINGLE)]),
    nvidia("rtx5000", &[("Quadro RTX 5000", 16, SINGLE)]),
    nvidia("rtxa6000", &[("RTX A6000", 48, SINGLE)]).alias("a6000"),
    nvidia("rtx6000ada", &[("RTX 6000 Ada Generation", 48, SINGLE)]),
    nvidia("rtxa5000", &[("RTX A5000", 24, SINGLE)]).alias("a5000"),
    nvidia("rtxa4000", &[("RTX A4000", 16, SINGLE)]).alias("a4000"),
    nvidia("rtx5090", &[("GeForce RTX 5090", 32, SINGLE)]).alias("5090"),
    nvidia("rtx4090", &[("GeForce RTX 4090", 24, SINGLE)]).alias("4090"),
    nvidia("rtx4080", &[("GeForce RTX 4080", 16, SINGLE)]).alias("4080"),
    nvidia("rtx3090", &[("GeForce RTX 3090", 24, SINGLE)]).alias("3090"),
    nvidia("rtx3080ti", &[("GeForce RTX 3080 Ti", 12, SINGLE)]).alias("3080ti"),
    nvidia("rtx3080", &[("GeForce RTX 3080", 10, SINGLE)]).alias("3080"),
    nvidia("rtx3070", &[("GeForce RTX 3070", 8, SINGLE)]).alias("3070"),
    nvidia("rtx3060", &[("GeForce RTX 3060", 12, SINGLE)]).alias("3060"),
    nvidia("rtx2080ti", &[("GeForce RTX 2080 Ti", 11, SINGLE)]).alias("2080ti"),
    nvidia("gtx1080ti", &[("GeForce GTX 1080 Ti", 11, SINGLE)]).alias("1080ti"),
    nvidia("titanrtx", &[("TITAN RTX", 24, SINGLE)]),
    nvidia("titanv", &[("TITAN V", 12, SINGLE)]),
    amd("mi355x", &[("AMD Instinct MI355X OAM", 288, LINKED), ("AMD Instinct MI355X", 288, LINKED)]),
    amd(
        "mi325x",
        &[
            ("AMD Instinct MI325X OAM", 256, LINKED),
            ("AMD Instinct MI325X", 256, LINKED),
            ("AMD Instinct MI325 OAM", 256, LINKED),
        ],
    )
    .alias("mi325"),
    amd("mi300a", &[("AMD Instinct MI300A", 128, LINKED)]),
    amd("mi300x", &[("AMD Instinct MI300X OAM", 192, LINKED), ("AMD Instinct MI300X", 192, LINKED)]),
    amd("mi250x", &[("AMD Instinct MI250X", 64, SINGLE)]),
    amd("mi250", &[("AMD Instinct MI250", 64, SINGLE)]),
    amd("mi210", &[("AMD Instinct MI210", 64, SINGLE)]),
    amd("mi100", &[("AMD Instinct MI100", 32, SINGLE)]),
    amd("mi60", &[("AMD Instinct MI60", 32, SINGLE)]),
    amd("mi50", &[("AMD Instinct MI50", 16, SINGLE)]),
    intel("max1550", &[("Max_1550", 128, LINKED)]),
    intel("max1100", &[("Max_1100", 48, SINGLE)]),
    intel("flex170", &[("Flex_170", 16, SINGLE)]),
    intel("flex140", &[("Flex_140", 6, SINGLE)]),
];

/// Profiles by model and nominal memory, by the default configuration of NVIDIA's mig-parted of November 2026.
static PROFILES: &[(&str, u32, &[&str])] = &[
    ("a100", 40, &["1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"]),
    ("a100", 80, &["1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"]),
    ("h100", 80, &["1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"]),
    ("h100", 94, &["1g.12gb", "1g.24gb", "2g.24gb", "3g.47gb", "4g.47gb", "7g.94gb"]),
    ("h200", 141, &["1g.18gb", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb"]),
    ("a30", 24, &["1g.6gb", "2g.12gb", "4g.24gb"]),
    ("a800", 80, &["1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"]),
    ("b200", 180, &["1g.23gb", "1g.45gb", "2g.45gb", "3g.90gb", "4g.90gb", "7g.180gb"]),
    ("gb200", 186, &["1g.24gb", "1g.47gb", "2g.47gb", "3g.95gb", "4g.95gb", "7g.189gb"]),
    ("gh200", 96, &["1g.12gb", "1g.24gb", "2g.24gb", "3g.48gb", "4g.48gb", "7g.96gb"]),
    ("h20", 96, &["1g.12gb", "1g.24gb", "2g.24gb", "3g.48gb", "4g.48gb", "7g.96gb"]),
    ("rtxpro6000", 96, &["1g.24gb", "2g.48gb", "4g.96gb"]),
];

/// What form products have besides what their names say: how they are built in, and their memory. By the data sheets of their makers,
/// read in November 2026.
static FORMS: &[(&str, &[Form])] = &[
    ("GB300", &[Form::Hbm3e]),
    ("B300 SXM6 AC", &[Form::Hbm3e]),
    ("B200", &[Form::Sxm6, Form::Hbm3e]),
    ("GB200", &[Form::Hbm3e]),
    ("H200", &[Form::Sxm5, Form::Hbm3e]),
    ("H200 NVL", &[Form::Pcie, Form::Hbm3e]),
    ("H20", &[Form::Sxm5, Form::Hbm3]),
    ("H100 80GB HBM3", &[Form::Sxm5]),
    ("H100 PCIe", &[Form::Hbm2e]),
    ("H100 NVL", &[Form::Pcie, Form::Hbm3]),
    ("A100-SXM4-40GB", &[Form::Hbm2]),
    ("A100-PCIE-40GB", &[Form::Hbm2]),
    ("A100-SXM4-80GB", &[Form::Hbm2e]),
    ("A100 80GB PCIe", &[Form::Hbm2e]),
    ("A800-SXM4-80GB", &[Form::Hbm2e]),
    ("A800 80GB PCIe", &[Form::Hbm2e]),
    ("A30", &[Form::Pcie, Form::Hbm2]),
    ("A10", &[Form::Pcie]),
    ("A16", &[Form::Pcie]),
    ("A2", &[Form::Pcie]),
    ("A40", &[Form::Pcie]),
    ("L4", &[Form::Pcie]),
    ("L20", &[Form::Pcie]),
    ("L40", &[Form::Pcie]),
    ("L40S", &[Form::Pcie]),
    ("Tesla T4", &[Form::Pcie]),
    ("Tesla P4", &[Form::Pcie]),
    ("Tesla P40", &[Form::Pcie]),
    ("Tesla K80", &[Form::Pcie]),
    ("AMD Instinct MI355X", &[Form::Oam, Form::Hbm3e]),
    ("AMD Instinct MI355X OAM", &[Form::Hbm3e]),
    ("AMD Instinct MI325X", &[Form::Oam, Form::Hbm3e]),
    ("AMD Instinct MI325X OAM", &[Form::Hbm3e]),
    ("AMD Instinct MI325 OAM", &[Form::Hbm3e]),
    ("AMD Instinct MI300X", &[Form::Oam, Form::Hbm3]),
    ("AMD Instinct MI300X OAM", &[Form::Hbm3]),
    ("AMD Instinct MI210", &[Form::Pcie, Form::Hbm2e]),
    ("AMD Instinct MI100", &[Form::Pcie, Form::Hbm2]),
];

/// The rows as a catalogue.
pub(super) fn built_in() -> Catalogue {
    let models = ROWS.iter().filter_map(|row| {
        let product = |&(name, memory_gib, nvlink): &(&str, u32, bool)| {
            let profiles = PROFILES.iter().filter(|(key, gib, _)| *key == row.key && *gib == memory_gib);
            let mig = profiles.flat_map(|(_, _, profiles)| profiles.iter()).filter_map(|text| text.parse().ok());
            let known =
                FORMS.iter().filter(|(product, _)| *product == name).flat_map(|(_, forms)| forms.iter().copied());
            Product { name: name.to_owned(), memory_gib, nvlink, forms: known.collect(), mig: mig.collect() }
        };
        let gke = |&(value, memory_gib): &(&str, u32)| FamilyValue { value: value.to_owned(), memory_gib };
        Some(Model {
            key: row.key.parse().ok()?,
            alias: row.alias.map(str::to_owned),
            vendor: row.vendor,
            products: row.products.iter().map(product).collect(),
            gke: row.gke.iter().map(gke).collect(),
            karpenter: row.karpenter.map(str::to_owned),
        })
    });
    Catalogue { models: models.collect() }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;
    use crate::hardware::place::label::texts;

    /// Each model with its keys in other families of labels, each product with its memory, whether it is connected, its
    /// texts in labels, and the profiles of its slices.
    #[test]
    fn the_whole_catalogue() {
        let mut all = String::new();
        for model in &built_in().models {
            let alias = model.alias.iter().map(|alias| format!(" ({alias})")).collect::<String>();
            let gke = model.gke.iter().map(|label| format!("; gke {} = {}", label.value, label.memory_gib));
            let karpenter = model.karpenter.iter().map(|name| format!("; karpenter {name}"));
            let families: String = gke.chain(karpenter).collect();
            let _ = writeln!(all, "{} {}{alias}{families}", model.vendor, model.key);
            for product in &model.products {
                let linked = if product.nvlink { "‡" } else { "" };
                let texts = texts(model.vendor, &product.name).join(", ");
                let mig: String = product.mig.iter().map(|profile| format!(" {profile}")).collect();
                let mig = if mig.is_empty() { mig } else { format!("; mig{mig}") };
                let _ = writeln!(all, "  {} {}{linked}: {texts}{mig}", product.memory_gib, product.name);
            }
        }
        insta::assert_snapshot!(all);
    }
}
