//! The labels, resources and devices that a substrate would report of a machine with given hardware. Workers label themselves by
//! it, and the translations are tested with it.

mod kubernetes;

use std::collections::BTreeMap;

use super::TeeKind;
use super::facts::{GpuFacts, HardwareFacts};
use super::gpu::{Catalogue, Vendor};
use super::machine::{Device, Machine};
use super::vocabulary::{FLEET, GpuWords, Substrate, Vocabulary, tee_label};
use crate::named::Named as _;
use crate::resource::{CPU, EPHEMERAL_STORAGE, MEMORY, ResourceName, ResourceVector};

/// A machine as a substrate would report it.
#[must_use]
pub fn describe(facts: &HardwareFacts, vocabulary: &Vocabulary) -> Machine {
    let mut machine = Machine {
        name: "machine".to_owned(),
        labels: facts.labels.clone(),
        taints: facts.taints.clone(),
        allocatable: plain(facts),
        devices: devices(facts, &vocabulary.catalogue),
    };
    // What the substrate says itself nobody else can say.
    machine.labels.retain(|key, _| !key.starts_with(FLEET));
    if let Some(name) = vocabulary.arch_names.get(&facts.arch) {
        machine.labels.insert(vocabulary.arch_label.clone(), name.clone());
    }
    for (kind, words) in &vocabulary.tees {
        let is_served = facts.tees.iter().any(|has| has.serves(*kind));
        if words.narrowed_to.is_some() || !is_served {
            continue;
        }
        machine.labels.extend(vocabulary.tee_labels(words).map(|key| (key.to_string(), "true".to_owned())));
        machine.allocatable = machine.allocatable.saturating_add(&words.resources.saturating_mul(16));
    }
    match &vocabulary.gpu {
        GpuWords::Labels { vendors, families, mig_strategy, .. } => {
            for (vendor, words) in vendors {
                let gpus: Vec<&GpuFacts> = facts.gpus.iter().filter(|gpu| gpu.vendor == *vendor).collect();
                if !gpus.is_empty() {
                    let reported = kubernetes::LabelContext { words, families, strategy: *mig_strategy, vocabulary };
                    kubernetes::gpus(&mut machine, *vendor, &gpus, &reported);
                }
            }
        }
        GpuWords::Inventory if vocabulary.substrate == Substrate::Fleet => machine.labels.extend(derived(facts)),
        GpuWords::Inventory => {}
    }
    machine
}

fn plain(facts: &HardwareFacts) -> ResourceVector {
    let mut all = ResourceVector::new();
    let amounts = [(CPU, facts.cpu_milli.0), (MEMORY, facts.memory_bytes.0), (EPHEMERAL_STORAGE, facts.disk_bytes.0)];
    for (name, amount) in amounts {
        if let Ok(name) = ResourceName::new(name) {
            all.set(name, amount);
        }
    }
    all
}

fn devices(facts: &HardwareFacts, catalogue: &Catalogue) -> Vec<Device> {
    let device = |(index, gpu): (usize, &GpuFacts)| Device {
        id: index.to_string(),
        memory_gib: Some(gpu.memory_gib),
        nvlink_group: gpu.nvlink_group,
        slices: gpu
            .mig
            .iter()
            .map(|(profile, count)| (*profile, (0..*count).map(|slice| format!("{index}:{profile}:{slice}")).collect()))
            .collect(),
        confidential: gpu.confidential,
        shared: gpu.users != 1,
        ..Device::named(catalogue, gpu.vendor, &gpu.model)
    };
    facts.gpus.iter().enumerate().map(device).collect()
}

/// Labels that a worker of the fleet derives from its hardware: what all its devices have in common, and the trusted execution
/// environments it satisfies.
#[must_use]
pub fn derived(facts: &HardwareFacts) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::from([(format!("{FLEET}arch"), facts.arch.to_string())]);
    for kind in TeeKind::ALL.iter().filter(|kind| facts.tees.iter().any(|has| has.serves(**kind))) {
        labels.insert(tee_label(*kind), "true".to_owned());
    }
    let mut put = |name: &str, value: Option<String>| {
        labels.extend(value.map(|value| (format!("{FLEET}gpu-{name}"), value)));
    };
    if !facts.gpus.is_empty() {
        let model = |gpu: &GpuFacts| Catalogue::built_in().parse(&gpu.model).ok().and_then(|read| read.model);
        let linked = |gpu: &GpuFacts| gpu.nvlink_group;
        put("count", Some(facts.gpus.len().to_string()));
        put("vendor", in_common(facts, |gpu| Some(gpu.vendor)).map(|vendor: Vendor| vendor.to_string()));
        put("model", in_common(facts, model).map(|model| model.to_string()));
        put("memory-gib", facts.gpus.iter().map(|gpu| gpu.memory_gib).min().map(|gib| gib.to_string()));
        put("nvlink", in_common(facts, linked).map(|_| "true".to_owned()));
    }
    labels
}

/// What all devices say alike.
fn in_common<T: PartialEq>(facts: &HardwareFacts, say: impl Fn(&GpuFacts) -> Option<T>) -> Option<T> {
    let first = say(facts.gpus.first()?)?;
    facts.gpus.iter().all(|gpu| say(gpu).as_ref() == Some(&first)).then_some(first)
}
