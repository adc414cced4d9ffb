//! What labels say about devices: the texts of products, keys of the families, and whether a family's words can say a need
//! at all. Owns expressions of one family; never weakens a need to what a family can say.

use std::collections::{BTreeMap, BTreeSet};

use super::instances;
use crate::hardware::ResolvedGpu;
use crate::hardware::device::DeviceClass;
use crate::hardware::gpu::{Catalogue, Product, Vendor, Wanted};
use crate::hardware::placement::{LabelExpr, Operator};
use crate::hardware::table::{LabelFamily, MigStrategy, VendorWords};

/// Usable memory of a device in MiB, as NVIDIA's feature discovery tells it (NVIDIA/k8s-device-plugin docs/gpu-feature-discovery,
/// 1b826acc, August 2026); the labels of products stand in the table of vendors.
pub(in crate::hardware) const MEMORY: &str = "nvidia.com/gpu.memory";
/// How many devices a node has.
pub(in crate::hardware) const COUNT: &str = "nvidia.com/gpu.count";
/// How devices are shared, where they are.
pub(in crate::hardware) const SHARING: &str = "nvidia.com/gpu.sharing-strategy";
/// How many compute slices a device has that is itself a slice, where slices are counted as devices.
pub(in crate::hardware) const SLICES: &str = "nvidia.com/gpu.slices.gi";
/// As how many each device is counted; older versions tell of sharing by this alone.
const REPLICAS: &str = "nvidia.com/gpu.replicas";
/// Whether devices are shares of a hypervisor's.
const VIRTUAL: &str = "nvidia.com/vgpu.present";
/// The ways of sharing.
const SHARED: [&str; 2] = ["mps", "time-slicing"];
/// More MiB than any device has: what is above is an amount in bytes, as one version tells it.
const TOO_MANY_MIB: u64 = 4096 * 1024 + 1;

/// Keys of Google's clusters: what the devices are, how they are shared, how they are cut (cloud.google.com/kubernetes-engine, GPUs in
/// Standard node pools, read in November 2026).
pub(in crate::hardware) const GKE: &str = "cloud.google.com/gke-accelerator";
pub(in crate::hardware) const GKE_SHARING: &str = "cloud.google.com/gke-gpu-sharing-strategy";
pub(in crate::hardware) const GKE_SLICES: &str = "cloud.google.com/gke-gpu-partition-size";

/// Keys of those who make nodes on AWS, which differ in what stands before them: the name of a device, who makes it, how many there are,
/// their memory.
pub(in crate::hardware) struct InstanceKeys {
    pub(in crate::hardware) name: &'static str,
    pub(in crate::hardware) maker: &'static str,
    pub(in crate::hardware) count: &'static str,
    pub(in crate::hardware) memory: &'static str,
}

/// Those of Karpenter (aws/karpenter-provider-aws, instance types of the documentation, 1d92708, August 2026).
pub(in crate::hardware) const KARPENTER: InstanceKeys = InstanceKeys {
    name: "karpenter.k8s.aws/instance-gpu-name",
    maker: "karpenter.k8s.aws/instance-gpu-manufacturer",
    count: "karpenter.k8s.aws/instance-gpu-count",
    memory: "karpenter.k8s.aws/instance-gpu-memory",
};

/// Those of EKS Auto Mode, with the same values (Amazon EKS user guide, node pools of Auto Mode, November 2026).
pub(in crate::hardware) const EKS: InstanceKeys = InstanceKeys {
    name: "eks.amazonaws.com/instance-gpu-name",
    maker: "eks.amazonaws.com/instance-gpu-manufacturer",
    count: "eks.amazonaws.com/instance-gpu-count",
    memory: "eks.amazonaws.com/instance-gpu-memory",
};

/// Whether a node's labels are such that a family tells of its devices.
pub(in crate::hardware) fn is_borne(
    family: LabelFamily,
    vendors: &BTreeMap<Vendor, VendorWords>,
    labels: &BTreeMap<String, String>,
) -> bool {
    match family {
        LabelFamily::Native => vendors.values().any(|words| labels.contains_key(words.product.as_str())),
        LabelFamily::Gke => labels.contains_key(GKE),
        LabelFamily::Karpenter => labels.contains_key(KARPENTER.name),
        LabelFamily::Eks => labels.contains_key(EKS.name),
        LabelFamily::InstanceType => labels.get(instances::TYPE).is_some_and(|name| instances::is_known(name)),
    }
}

/// What the labels of a vendor call a product.
pub(in crate::hardware) fn texts(vendor: Vendor, product: &str) -> Vec<String> {
    match vendor {
        Vendor::Nvidia => {
            // Drivers name their vendor, catalogues do not.
            let product = product.strip_prefix("NVIDIA ").unwrap_or(product);
            let text = product.replace(' ', "-");
            let bare = ["Tesla", "Quadro"].iter().any(|brand| product.starts_with(brand));
            if bare { vec![text] } else { vec![format!("NVIDIA-{text}"), text] }
        }
        Vendor::Amd | Vendor::Intel => vec![product.replace(' ', "_")],
    }
}

/// A number a label must pass.
fn more_than(key: &str, bound: u64) -> LabelExpr {
    LabelExpr::new(key, Operator::Gt, [bound.to_string()])
}

/// All devices asked for are on one node, and connected there.
fn linked(need: &ResolvedGpu, key: &str) -> Option<LabelExpr> {
    let several = need.kind.nvlink && need.count > 1;
    several.then(|| more_than(key, u64::from(need.count.saturating_sub(1))))
}

/// Devices are neither shared nor slices: the products' texts say so themselves, amounts of memory do not.
pub(super) fn exclusive() -> [LabelExpr; 3] {
    [
        LabelExpr::new(SHARING, Operator::NotIn, SHARED),
        LabelExpr::new(VIRTUAL, Operator::NotIn, ["true"]),
        absent(SLICES),
    ]
}

/// That each device is counted once, where a family's conditions do not say so themselves: nobody tells how often, or it is once
/// at most.
pub(super) fn counted_once(all: &[LabelExpr]) -> Option<[LabelExpr; 2]> {
    let is_open = all.iter().any(|expression| expression.key == SHARING);
    is_open.then(|| [absent(REPLICAS), LabelExpr::new(REPLICAS, Operator::Lt, ["2"])])
}

pub(super) fn absent(key: &str) -> LabelExpr {
    LabelExpr::new(key, Operator::DoesNotExist, Vec::<String>::new())
}

/// What the vendor's own labels must say besides that there are devices. None if there is no product to name.
pub(super) fn native(
    need: &ResolvedGpu,
    words: &VendorWords,
    catalogue: &Catalogue,
    strategy: MigStrategy,
) -> Option<Vec<LabelExpr>> {
    let mut all = Vec::new();
    match need.class {
        DeviceClass::Slice(profile) if strategy == MigStrategy::Single => {
            let wanted = Wanted { partition: Some(profile), ..Wanted::default() };
            let capable = need.products.clone().unwrap_or_else(|| catalogue.products(need.vendor, wanted));
            let suffix = format!("-MIG-{}", profile.resource_name());
            all.push(product(need.vendor, words, &capable, &suffix)?);
        }
        // The resource is one of this profile alone; labels of it name some profiles otherwise.
        DeviceClass::Slice(_) => {
            if let Some(named) = &need.products {
                all.push(product(need.vendor, words, named, "")?);
            }
        }
        DeviceClass::Unit | DeviceClass::Whole => all.extend(whole(need, words, catalogue)?),
        DeviceClass::Confidential => {}
    }
    // Labels of other vendors do not count devices, and the one of NVIDIA counts cards, not what they are divided into.
    let counted = !matches!(need.class, DeviceClass::Slice(_)) || strategy == MigStrategy::Single;
    if need.vendor == Vendor::Nvidia && counted {
        all.extend(linked(need, COUNT));
    }
    Some(all)
}

fn whole(need: &ResolvedGpu, words: &VendorWords, catalogue: &Catalogue) -> Option<Vec<LabelExpr>> {
    let enough = |gib: u32| {
        let enough = more_than(MEMORY, catalogue.threshold_mib(need.vendor, gib));
        [enough, LabelExpr::new(MEMORY, Operator::Lt, [TOO_MANY_MIB.to_string()])]
    };
    if let Some(name) = &need.kind.name {
        let memory = need.kind.memory_gib;
        let values = name.label_values(need.vendor);
        let not_in_labels = need.kind.nvlink || (memory.is_some() && need.vendor != Vendor::Nvidia);
        if values.is_empty() || not_in_labels {
            return None;
        }
        let mut all = vec![LabelExpr::new(words.product.as_str(), Operator::In, values)];
        all.extend(memory.into_iter().flat_map(enough));
        // A name that nobody knows may be that of a share.
        all.extend(exclusive().into_iter().filter(|_| need.vendor == Vendor::Nvidia));
        return Some(all);
    }
    match (&need.products, need.kind.memory_gib) {
        (Some(named), _) => Some(vec![product(need.vendor, words, named, "")?]),
        (None, None) => Some(Vec::new()),
        (None, Some(gib)) if need.vendor == Vendor::Nvidia => {
            Some(enough(gib).into_iter().chain(exclusive()).collect())
        }
        (None, Some(gib)) => {
            let large = catalogue.products(need.vendor, Wanted { memory_gib: Some(gib), ..Wanted::default() });
            Some(vec![product(need.vendor, words, &large, "")?])
        }
    }
}

fn product(vendor: Vendor, words: &VendorWords, products: &[Product], suffix: &str) -> Option<LabelExpr> {
    let texts = products.iter().flat_map(|product| texts(vendor, &product.name));
    let texts: Vec<String> = texts.map(|text| format!("{text}{suffix}")).collect();
    (!texts.is_empty()).then(|| LabelExpr::new(words.product.as_str(), Operator::In, texts))
}

/// Whether one product is as asked for.
pub(super) fn will_do(need: &ResolvedGpu, product: &Product) -> bool {
    match &need.products {
        Some(named) => named.contains(product),
        None => need.kind.memory_gib.is_none_or(|gib| product.memory_gib >= gib),
    }
}

/// Whether families that name products from lists of their own can say a need at all: NVIDIA's devices as a whole, by no exact name.
fn is_listed(need: &ResolvedGpu) -> bool {
    let whole = matches!(need.class, DeviceClass::Unit | DeviceClass::Whole);
    need.vendor == Vendor::Nvidia && whole && need.kind.name.is_none()
}

/// Google's labels for the whole need. None where they cannot say it: other vendors, slices, confidential devices, and
/// accelerators whose label stands for products that will not do as well.
pub(super) fn gke(need: &ResolvedGpu, catalogue: &Catalogue) -> Option<Vec<LabelExpr>> {
    if !is_listed(need) {
        return None;
    }
    if need.class == DeviceClass::Unit {
        return Some(vec![LabelExpr::new(GKE, Operator::Exists, Vec::<String>::new())]);
    }
    let mut values = BTreeSet::new();
    for model in catalogue.models.iter().filter(|model| model.vendor == need.vendor) {
        for label in &model.gke {
            let mut meant = model.products.iter().filter(|product| product.memory_gib == label.memory_gib).peekable();
            if meant.peek().is_some() && meant.all(|product| will_do(need, product)) {
                values.insert(label.value.clone());
            }
        }
    }
    let which = |values| LabelExpr::new(GKE, Operator::In, values);
    (!values.is_empty()).then(|| vec![which(values), absent(GKE_SHARING), absent(GKE_SLICES)])
}

/// The labels of who makes nodes on AWS for the whole need. None where they cannot say it, as of [`gke`].
pub(super) fn instance(keys: &InstanceKeys, need: &ResolvedGpu, catalogue: &Catalogue) -> Option<Vec<LabelExpr>> {
    if !is_listed(need) {
        return None;
    }
    let maker = LabelExpr::equal(keys.maker, "nvidia");
    if need.class == DeviceClass::Unit {
        return Some(vec![maker]);
    }
    let mut all = vec![maker];
    if need.products.is_some() {
        let large = |product: &&Product| need.kind.memory_gib.is_none_or(|gib| product.memory_gib >= gib);
        let says = |model: &&crate::hardware::gpu::Model| {
            let mut meant = model.products.iter().filter(large).peekable();
            meant.peek().is_some() && meant.all(|product| will_do(need, product))
        };
        let models = catalogue.models.iter().filter(|model| model.vendor == need.vendor).filter(says);
        let names: BTreeSet<String> = models.filter_map(|model| model.karpenter.clone()).collect();
        if names.is_empty() {
            return None;
        }
        all.push(LabelExpr::new(keys.name, Operator::In, names));
    }
    if let Some(gib) = need.kind.memory_gib {
        all.push(more_than(keys.memory, catalogue.threshold_mib(need.vendor, gib)));
    }
    all.extend(linked(need, keys.count));
    all.extend(exclusive());
    Some(all)
}
