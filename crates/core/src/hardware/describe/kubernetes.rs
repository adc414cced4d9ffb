//! GPUs as device plugins, feature discovery, Google's clusters and Karpenter tell of them. Owns their labels and resources.

use std::collections::{BTreeMap, BTreeSet};

use crate::hardware::facts::GpuFacts;
use crate::hardware::gpu::{MigProfile, Product, Vendor};
use crate::hardware::machine::Machine;
use crate::hardware::place::{instances, label};
use crate::hardware::table::{LabelFamily, MigStrategy, VendorWords};
use crate::hardware::vocabulary::Vocabulary;
use crate::quantity::Quantity;
use crate::resource::ResourceName;

/// Who tells, and how.
pub(super) struct LabelContext<'a> {
    pub(super) words: &'a VendorWords,
    pub(super) families: &'a BTreeSet<LabelFamily>,
    pub(super) strategy: MigStrategy,
    pub(super) vocabulary: &'a Vocabulary,
}

/// A little less than nominal: what drivers and error correction leave.
fn usable_mib(gib: u32) -> u64 {
    let nominal = u64::from(gib) * 1024;
    nominal - (nominal / 50).min(512)
}

/// Tells of a vendor's devices, of which there is at least one.
pub(super) fn gpus(machine: &mut Machine, vendor: Vendor, gpus: &[&GpuFacts], context: &LabelContext<'_>) {
    let (mine, others): (Vec<&GpuFacts>, Vec<&GpuFacts>) = gpus.iter().partition(|gpu| gpu.confidential);
    let mut say = |key: &str, value: String| {
        machine.labels.insert(key.to_owned(), value);
    };
    // All of a machine is set aside for confidential work, or none of it counts as ready. Nodes that pass devices through
    // have no labels of products.
    if let Some(words) =
        context.vocabulary.confidential.as_ref().filter(|_| vendor == Vendor::Nvidia && others.is_empty())
    {
        say(words.ready.as_str(), "true".to_owned());
        machine.allocatable = with(machine, words.resource.as_ref(), mine.len() as u64);
        return;
    }
    let alike = gpus.windows(2).all(|pair| match pair {
        [one, other] => one.model == other.model && one.memory_gib == other.memory_gib && one.mig == other.mig,
        _ => true,
    });
    let shared = gpus.iter().any(|gpu| gpu.users != 1);
    let single = single(gpus).filter(|_| context.strategy == MigStrategy::Single && alike);
    if let Some(first) = gpus.first().filter(|_| alike) {
        let text = label::texts(vendor, &first.model).into_iter().next().unwrap_or_default();
        let slice = single.map(|profile| format!("-MIG-{}", profile.resource_name())).unwrap_or_default();
        say(context.words.product.as_str(), format!("{text}{slice}{}", if shared { "-SHARED" } else { "" }));
        if vendor == Vendor::Nvidia {
            let gib = single.map_or(first.memory_gib, |profile| u32::from(profile.memory_gb));
            say(label::MEMORY, usable_mib(gib).to_string());
            if let Some(profile) = single {
                say(label::SLICES, profile.slices.to_string());
            }
        }
    }
    if vendor == Vendor::Nvidia {
        say(label::COUNT, gpus.len().to_string());
        if shared {
            say(label::SHARING, "time-slicing".to_owned());
        }
    }
    let units: u64 = others.iter().filter(|gpu| gpu.mig.is_empty()).map(|gpu| u64::from(gpu.users)).sum();
    let slices = slices(&others);
    match (context.strategy, single) {
        (MigStrategy::Single, Some(_)) => {
            let sum = slices.values().sum();
            machine.allocatable = with(machine, context.words.resource.as_ref(), sum);
        }
        (MigStrategy::Single, None) | (MigStrategy::Mixed, _) => {
            machine.allocatable = with(machine, context.words.resource.as_ref(), units);
            if context.strategy == MigStrategy::Mixed {
                tell_slices(machine, &slices);
            }
        }
    }
    families(machine, vendor, gpus, context);
}

fn with(machine: &Machine, name: Option<&ResourceName>, count: u64) -> crate::resource::ResourceVector {
    let mut all = machine.allocatable.clone();
    if let Some(name) = name {
        all.set(name.clone(), Quantity::from_count(count).round_down(name.step()).unwrap_or(0));
    }
    all
}

/// The one profile into which all devices are cut.
fn single(gpus: &[&GpuFacts]) -> Option<MigProfile> {
    let mut profiles = gpus.iter().map(|gpu| gpu.mig.keys().copied().collect::<Vec<_>>());
    let first = profiles.next()?;
    let [only] = first.as_slice() else { return None };
    profiles.all(|other| other == first).then_some(*only)
}

fn slices(gpus: &[&GpuFacts]) -> BTreeMap<MigProfile, u64> {
    let mut sums: BTreeMap<MigProfile, u64> = BTreeMap::new();
    for (profile, count) in gpus.iter().flat_map(|gpu| &gpu.mig) {
        *sums.entry(*profile).or_default() += u64::from(*count);
    }
    sums
}

fn tell_slices(machine: &mut Machine, slices: &BTreeMap<MigProfile, u64>) {
    for (profile, count) in slices {
        let name = format!("nvidia.com/mig-{}", profile.resource_name());
        machine.labels.insert(format!("{name}.count"), count.to_string());
        machine.allocatable = with(machine, ResourceName::new(name).ok().as_ref(), *count);
    }
}

/// Labels of the other families, where a machine's devices are all of one known product and whole.
fn families(machine: &mut Machine, vendor: Vendor, gpus: &[&GpuFacts], context: &LabelContext<'_>) {
    let Some(first) = gpus.first().filter(|_| vendor == Vendor::Nvidia) else { return };
    let known = context.vocabulary.catalogue.product_named(&first.model);
    let Some((model, product)) = known.filter(|_| gpus.iter().all(|gpu| gpu.model == first.model)) else { return };
    let mut say = |key: &str, value: String| {
        machine.labels.insert(key.to_owned(), value);
    };
    let shared = gpus.iter().any(|gpu| gpu.users != 1);
    if context.families.contains(&LabelFamily::Gke) {
        let is_of = |product: &Product, gib: u32| product.memory_gib == gib;
        let value = model.gke.iter().find(|value| is_of(product, value.memory_gib));
        if let Some(value) = value {
            say(label::GKE, value.value.clone());
        }
        if shared {
            say(label::GKE_SHARING, "time-sharing".to_owned());
        }
        if let Some(profile) = first.mig.keys().next() {
            say(label::GKE_SLICES, profile.resource_name());
        }
    }
    for (family, keys) in [(LabelFamily::Karpenter, label::KARPENTER), (LabelFamily::Eks, label::EKS)] {
        if let Some(name) = model.karpenter.as_ref().filter(|_| context.families.contains(&family)) {
            say(keys.name, name.clone());
            say(keys.maker, "nvidia".to_owned());
            say(keys.count, gpus.len().to_string());
            say(keys.memory, usable_mib(product.memory_gib).to_string());
        }
    }
    let rented = instances::with(&product.name, gpus.len());
    if let Some(name) = rented.filter(|_| context.families.contains(&LabelFamily::InstanceType)) {
        say(instances::TYPE, name.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use crate::hardware::gpu::Vendor;
    use crate::hardware::{
        Arch, GpuFacts, HardwareFacts, HardwareInput, Resources, Substrate, Tables, describe, place, resolve, satisfies,
    };
    use crate::resource::{Bytes, CpuMilli};

    #[test]
    fn a_product_as_its_driver_names_it_is_one_need_to_every_substrate() {
        let tables = Tables::default();
        for (asked, name, memory) in [
            ("a100", "NVIDIA A100-SXM4-80GB", 80),
            ("a100", "A100-SXM4-80GB", 80),
            ("t4", "Tesla T4", 16),
            ("h100", "NVIDIA H100 80GB HBM3", 80),
        ] {
            let device = GpuFacts::whole(Vendor::Nvidia, name.to_owned(), memory);
            let facts = HardwareFacts {
                gpus: vec![device],
                ..HardwareFacts::new(Arch::Amd64, CpuMilli::cores(8), Bytes(64 << 30))
            };
            let input = HardwareInput { gpu_type: Some(asked.to_owned()), ..HardwareInput::default() };
            let needs = resolve(&input.requirements(&tables).unwrap(), &tables).unwrap();
            assert!(satisfies(&facts, &needs), "{asked} on {name}");
            for substrate in [Substrate::Kubernetes, Substrate::Docker, Substrate::Fleet] {
                let words = tables.vocabulary(substrate);
                let placement = place(&needs, &Resources::default(), &words).unwrap();
                let machine = describe(&facts, &words);
                let fit = placement.check(&machine);
                assert!(fit.fits(), "{asked} on {name} in {substrate}: {fit:?}");
                assert!(machine.labels.values().all(|value| !value.contains("NVIDIA-NVIDIA")), "{:?}", machine.labels);
            }
        }
    }
}
