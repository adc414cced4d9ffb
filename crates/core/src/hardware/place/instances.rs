//! Types of machines that clouds rent out with whole NVIDIA devices, as the kubelet labels nodes with them. On node groups of EKS and
//! on AKS no other label tells the model. Owns these rows; types of which devices are shared or divided have none.

use std::collections::BTreeSet;

use super::label::{exclusive, will_do};
use crate::hardware::ResolvedGpu;
use crate::hardware::device::DeviceClass;
use crate::hardware::gpu::{Catalogue, Product, Vendor};
use crate::hardware::placement::{LabelExpr, Operator};

/// The label of a node's type.
pub(in crate::hardware) const TYPE: &str = "node.kubernetes.io/instance-type";

/// Types with the same devices: names, product, how many.
struct Row {
    types: &'static [&'static str],
    product: &'static str,
    count: usize,
}

const fn row(product: &'static str, count: usize, types: &'static [&'static str]) -> Row {
    Row { types, product, count }
}

/// Amazon EC2: by the EC2 instance type guide, and by the labels of Karpenter, against which a test holds all but the sizes of p3; g4dn,
/// g5, g6 and p3 also by the table of GPU instance types in the AWS Batch user guide (gpu-jobs, read 2026-11-29). Azure: by
/// Azure's pages of sizes; NCas T4 v3, NCads A100 v4, NCads H100 v5 and ND also by the sizes of AKS nodes in Aspire 13.3 and the hardware
/// table of Hugging Face on Azure (both read 2026-11-29), ND H200 v5 by those sizes and by MicrosoftDocs/azure-compute-docs, nd-h200-v5-series
/// (3b74475c, 2025-09-02: 8 devices of 141 GB, 1128 GB together, connected by NVLink).
static ROWS: &[Row] = &[
    row("Tesla T4", 1, &["g4dn.xlarge", "g4dn.2xlarge", "g4dn.4xlarge", "g4dn.8xlarge", "g4dn.16xlarge"]),
    row("Tesla T4", 4, &["g4dn.12xlarge"]),
    row("Tesla T4", 8, &["g4dn.metal"]),
    row("A10G", 1, &["g5.xlarge", "g5.2xlarge", "g5.4xlarge", "g5.8xlarge", "g5.16xlarge"]),
    row("A10G", 4, &["g5.12xlarge", "g5.24xlarge"]),
    row("A10G", 8, &["g5.48xlarge"]),
    row("L4", 1, &["g6.xlarge", "g6.2xlarge", "g6.4xlarge", "g6.8xlarge", "g6.16xlarge", "gr6.4xlarge", "gr6.8xlarge"]),
    row("L4", 4, &["g6.12xlarge", "g6.24xlarge"]),
    row("L4", 8, &["g6.48xlarge"]),
    row("L40S", 1, &["g6e.xlarge", "g6e.2xlarge", "g6e.4xlarge", "g6e.8xlarge", "g6e.16xlarge"]),
    row("L40S", 4, &["g6e.12xlarge", "g6e.24xlarge"]),
    row("L40S", 8, &["g6e.48xlarge"]),
    row("RTX PRO 6000 Blackwell Server Edition", 1, &["g7e.2xlarge", "g7e.4xlarge", "g7e.8xlarge"]),
    row("RTX PRO 6000 Blackwell Server Edition", 2, &["g7e.12xlarge"]),
    row("RTX PRO 6000 Blackwell Server Edition", 4, &["g7e.24xlarge"]),
    row("RTX PRO 6000 Blackwell Server Edition", 8, &["g7e.48xlarge"]),
    row("Tesla V100-SXM2-16GB", 1, &["p3.2xlarge"]),
    row("Tesla V100-SXM2-16GB", 4, &["p3.8xlarge"]),
    row("Tesla V100-SXM2-16GB", 8, &["p3.16xlarge"]),
    row("Tesla V100-SXM2-32GB", 8, &["p3dn.24xlarge", "Standard_ND40rs_v2"]),
    row("A100-SXM4-40GB", 8, &["p4d.24xlarge", "Standard_ND96asr_v4"]),
    row("A100-SXM4-80GB", 8, &["p4de.24xlarge", "Standard_ND96amsr_A100_v4"]),
    row("H100 80GB HBM3", 1, &["p5.4xlarge"]),
    row("H100 80GB HBM3", 8, &["p5.48xlarge", "Standard_ND96isr_H100_v5"]),
    row("H200", 8, &["p5e.48xlarge", "p5en.48xlarge", "Standard_ND96isr_H200_v5"]),
    row("B200", 8, &["p6-b200.48xlarge"]),
    row("B300 SXM6 AC", 8, &["p6-b300.48xlarge"]),
    row("Tesla T4", 1, &["Standard_NC4as_T4_v3", "Standard_NC8as_T4_v3", "Standard_NC16as_T4_v3"]),
    row("Tesla T4", 4, &["Standard_NC64as_T4_v3"]),
    row("Tesla V100-PCIE-16GB", 1, &["Standard_NC6s_v3"]),
    row("Tesla V100-PCIE-16GB", 2, &["Standard_NC12s_v3"]),
    row("Tesla V100-PCIE-16GB", 4, &["Standard_NC24s_v3", "Standard_NC24rs_v3"]),
    row("A100 80GB PCIe", 1, &["Standard_NC24ads_A100_v4"]),
    row("A100 80GB PCIe", 2, &["Standard_NC48ads_A100_v4"]),
    row("A100 80GB PCIe", 4, &["Standard_NC96ads_A100_v4"]),
    row("H100 NVL", 1, &["Standard_NC40ads_H100_v5"]),
    row("H100 NVL", 2, &["Standard_NC80adis_H100_v5"]),
];

/// Whether a type is one of the table.
pub(in crate::hardware) fn is_known(name: &str) -> bool {
    ROWS.iter().any(|row| row.types.contains(&name))
}

/// A type with so many devices of a product.
pub(in crate::hardware) fn with(product: &str, count: usize) -> Option<&'static str> {
    ROWS.iter().find(|row| row.product == product && row.count == count)?.types.first().copied()
}

/// The types of nodes for the whole need. None where they cannot say it: other vendors, slices, devices by an exact name, products of
/// which there is no type.
pub(super) fn types(need: &ResolvedGpu, catalogue: &Catalogue) -> Option<Vec<LabelExpr>> {
    if need.vendor != Vendor::Nvidia || need.kind.name.is_some() {
        return None;
    }
    match need.class {
        // The resource says it all.
        DeviceClass::Unit => return Some(Vec::new()),
        DeviceClass::Whole => {}
        DeviceClass::Slice(_) | DeviceClass::Confidential => return None,
    }
    let will_do = |name: &str| {
        let product: Option<&Product> =
            catalogue.of(need.vendor).map(|(_, product)| product).find(|one| one.name == name);
        product.is_some_and(|product| will_do(need, product))
    };
    let enough = |row: &&Row| u32::try_from(row.count).is_ok_and(|count| count >= need.count) && will_do(row.product);
    let names: BTreeSet<&str> = ROWS.iter().filter(enough).flat_map(|row| row.types.iter().copied()).collect();
    let which = LabelExpr::new(TYPE, Operator::In, names.iter().copied());
    (!names.is_empty()).then(|| std::iter::once(which).chain(exclusive()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::label_value;

    /// What Karpenter labels nodes of EC2 with: name, MiB and count of devices, and which sizes of a family have them
    /// (aws/karpenter-provider-aws website/content/en/docs/reference/instance-types.md, 1d92708, 2026-08-21).
    const KARPENTER: &[(&str, u64, usize, &str)] = &[
        ("t4", 16384, 1, "g4dn x 2x 4x 8x 16x"),
        ("t4", 16384, 4, "g4dn 12x"),
        ("t4", 16384, 8, "g4dn metal"),
        ("a10g", 22888, 1, "g5 x 2x 4x 8x 16x"),
        ("a10g", 22888, 4, "g5 12x 24x"),
        ("a10g", 22888, 8, "g5 48x"),
        ("l4", 22888, 1, "g6 x 2x 4x 8x 16x"),
        ("l4", 22888, 1, "gr6 4x 8x"),
        ("l4", 22888, 4, "g6 12x 24x"),
        ("l4", 22888, 8, "g6 48x"),
        ("l40s", 45776, 1, "g6e x 2x 4x 8x 16x"),
        ("l40s", 45776, 4, "g6e 12x 24x"),
        ("l40s", 45776, 8, "g6e 48x"),
        ("rtx-pro-server-6000", 98304, 1, "g7e 2x 4x 8x"),
        ("rtx-pro-server-6000", 98304, 2, "g7e 12x"),
        ("rtx-pro-server-6000", 98304, 4, "g7e 24x"),
        ("rtx-pro-server-6000", 98304, 8, "g7e 48x"),
        ("v100", 32768, 8, "p3dn 24x"),
        ("a100", 40960, 8, "p4d 24x"),
        ("a100", 81920, 8, "p4de 24x"),
        ("h100", 81920, 1, "p5 4x"),
        ("h100", 81920, 8, "p5 48x"),
        ("h200", 144_384, 8, "p5e 48x"),
        ("h200", 144_384, 8, "p5en 48x"),
        ("b200", 183_359, 8, "p6-b200 48x"),
        ("b300", 275_040, 8, "p6-b300 48x"),
    ];

    #[test]
    fn types_of_ec2_have_the_devices_that_karpenter_labels_their_nodes_with() {
        let catalogue = Catalogue::built_in();
        let mut checked = BTreeSet::new();
        for (name, mib, count, sizes) in KARPENTER {
            let mut words = sizes.split(' ');
            let family = words.next().unwrap();
            for size in words {
                let size = size.strip_suffix('x').map_or(size.to_owned(), |times| format!("{times}xlarge"));
                let kind = format!("{family}.{size}");
                let row = ROWS.iter().find(|row| row.types.contains(&kind.as_str())).expect(&kind);
                let (model, product) = catalogue.product_named(row.product).unwrap();
                let nominal = u64::from(product.memory_gib) * 1024;
                assert_eq!((row.count, model.karpenter.as_deref()), (*count, Some(*name)), "{kind}");
                assert!(*mib <= nominal && *mib > catalogue.threshold_mib(model.vendor, product.memory_gib), "{kind}");
                checked.insert(kind);
            }
        }
        let ec2 = ROWS.iter().flat_map(|row| row.types).filter(|name| name.contains('.'));
        let unchecked: Vec<&&str> = ec2.filter(|name| !checked.contains(**name)).collect();
        assert_eq!(unchecked, [&"p3.2xlarge", &"p3.8xlarge", &"p3.16xlarge"], "Karpenter lists them no more");
    }

    #[test]
    fn every_row_is_of_a_product_that_is_known_and_no_type_has_two() {
        let mut seen = BTreeSet::new();
        for row in ROWS {
            let known = Catalogue::built_in().of(Vendor::Nvidia).any(|(_, product)| product.name == row.product);
            assert!(known && row.count > 0, "{}", row.product);
            for name in row.types {
                assert!(seen.insert(*name) && label_value(name).is_ok() && is_known(name), "{name}");
            }
        }
        assert!(!is_known("g6f.large"), "its devices are parts of one");
    }
}
