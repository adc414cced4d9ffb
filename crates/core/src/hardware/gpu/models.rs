//! The built-in table of device models and their products (Hourglass contract, section 1.3). Owns the data; the labels
//! that clusters put on them belong to the translations.

use super::Vendor;

/// A device model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Model {
    /// Its key.
    pub key: &'static str,
    /// Another name for it.
    pub alias: Option<&'static str>,
    /// Who makes it.
    pub vendor: Vendor,
    /// The products of this model.
    pub products: &'static [Product],
}

/// A product: one device one can buy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Product {
    /// Its name, without the vendor's where the device itself leaves it out.
    pub name: &'static str,
    /// Nominal memory in GiB.
    pub memory_gib: u32,
    /// Whether several of them are connected by NVLink or the vendor's equal.
    pub nvlink: bool,
}

/// The model with this key or alias.
#[must_use]
pub fn model(name: &str) -> Option<&'static Model> {
    MODELS.iter().find(|model| model.key == name || model.alias == Some(name))
}

const fn linked(name: &'static str, memory_gib: u32) -> Product {
    Product { name, memory_gib, nvlink: true }
}

const fn single(name: &'static str, memory_gib: u32) -> Product {
    Product { name, memory_gib, nvlink: false }
}

const fn nvidia(key: &'static str, products: &'static [Product]) -> Model {
    Model { key, alias: None, vendor: Vendor::Nvidia, products }
}

const fn alias(model: Model, alias: &'static str) -> Model {
    Model { alias: Some(alias), ..model }
}

const fn amd(key: &'static str, products: &'static [Product]) -> Model {
    Model { key, alias: None, vendor: Vendor::Amd, products }
}

const fn intel(key: &'static str, products: &'static [Product]) -> Model {
    Model { key, alias: None, vendor: Vendor::Intel, products }
}

/// All built-in models, NVIDIA's first, the newest first.
pub static MODELS: &[Model] = &[
    nvidia("b200", &[linked("B200", 180)]),
    nvidia("h200", &[linked("H200", 141), single("H200 NVL", 141)]),
    nvidia("gh200", &[single("GH200 480GB", 96)]),
    nvidia("h100", &[linked("H100 80GB HBM3", 80), single("H100 PCIe", 80), single("H100 NVL", 94)]),
    nvidia(
        "a100",
        &[
            linked("A100-SXM4-40GB", 40),
            single("A100-PCIE-40GB", 40),
            linked("A100-SXM4-80GB", 80),
            single("A100 80GB PCIe", 80),
        ],
    ),
    nvidia("a30", &[single("A30", 24)]),
    nvidia("a10", &[single("A10", 24)]),
    nvidia("a10g", &[single("A10G", 24)]),
    nvidia("l4", &[single("L4", 24)]),
    nvidia("l40", &[single("L40", 48)]),
    nvidia("l40s", &[single("L40S", 48)]),
    nvidia("a40", &[single("A40", 48)]),
    nvidia("a16", &[single("A16", 16)]),
    nvidia("a2", &[single("A2", 16)]),
    nvidia("t4", &[single("Tesla T4", 16)]),
    nvidia(
        "v100",
        &[
            linked("Tesla V100-SXM2-16GB", 16),
            single("Tesla V100-PCIE-16GB", 16),
            linked("Tesla V100-SXM2-32GB", 32),
            linked("Tesla V100-SXM3-32GB", 32),
            single("Tesla V100-PCIE-32GB", 32),
        ],
    ),
    nvidia("p100", &[single("Tesla P100-SXM2-16GB", 16), single("Tesla P100-PCIE-16GB", 16)]),
    nvidia("k80", &[single("Tesla K80", 12)]),
    nvidia("m40", &[single("Tesla M40", 12), single("Tesla M40 24GB", 24)]),
    nvidia("rtx6000", &[single("Quadro RTX 6000", 24)]),
    nvidia("rtx5000", &[single("Quadro RTX 5000", 16)]),
    alias(nvidia("rtxa6000", &[single("RTX A6000", 48)]), "a6000"),
    nvidia("rtx6000ada", &[single("RTX 6000 Ada Generation", 48)]),
    alias(nvidia("rtx4090", &[single("GeForce RTX 4090", 24)]), "4090"),
    alias(nvidia("rtx3090", &[single("GeForce RTX 3090", 24)]), "3090"),
    amd("mi325x", &[linked("AMD Instinct MI325X OAM", 256), linked("AMD Instinct MI325X", 256)]),
    amd("mi300x", &[linked("AMD Instinct MI300X OAM", 192), linked("AMD Instinct MI300X", 192)]),
    amd("mi250x", &[single("AMD Instinct MI250X", 64)]),
    amd("mi210", &[single("AMD Instinct MI210", 64)]),
    amd("mi100", &[single("AMD Instinct MI100", 32)]),
    intel("max1550", &[linked("Max_1550", 128)]),
    intel("max1100", &[single("Max_1100", 48)]),
    intel("flex170", &[single("Flex_170", 16)]),
    intel("flex140", &[single("Flex_140", 6)]),
];
