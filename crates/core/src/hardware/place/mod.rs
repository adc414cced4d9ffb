//! From a need to a neutral placement in the words of a substrate. Owns labels,
//! architecture, trusted execution and plain resources; devices stand beside.

mod claim;
mod gpu;
pub(super) mod instances;
pub(super) mod label;
#[cfg(test)]
mod tests;

pub use claim::device_class;

use super::device::DeviceClass;
use super::placement::{Alternative, Clause, LabelExpr, Note, Placement, Preference, RuntimeNeed, Toleration};
use super::table::TeeWords;
use super::vocabulary::Vocabulary;
use super::{HardwareError, Resolved, Resources, TeeKind};
use crate::resource::{CPU, EPHEMERAL_STORAGE, MEMORY, ResourceName, ResourceVector};

/// The weight of each label of a trusted execution environment that is only better to have.
const PREFERRED: u8 = 50;

/// Where a need may be met on a substrate, in its words.
///
/// # Errors
/// The substrate has no words for it, or its parts contradict each other.
pub fn place(resolved: &Resolved, resources: &Resources, vocabulary: &Vocabulary) -> Result<Placement, HardwareError> {
    let mut placement = Placement { resources: plain(resources), ..Placement::default() };
    if let Some(arch) = resolved.arch {
        let name = vocabulary.arch_names.get(&arch).ok_or_else(|| unsupported(vocabulary, arch.to_string()))?;
        placement.arch = Some(LabelExpr::equal(&vocabulary.arch_label, name));
    }
    for (key, value) in &resolved.labels {
        placement.required.push(LabelExpr::equal(key, value).into());
    }
    if let Some(need) = resolved.tee {
        match resolved.required_tee() {
            Some(kind) => require_tee(&mut placement, kind, vocabulary)?,
            None => prefer_tee(&mut placement, need.kind, vocabulary),
        }
    }
    if let Some(need) = &resolved.gpu {
        gpu::require(&mut placement, need, vocabulary)?;
        if need.class == DeviceClass::Confidential {
            require_confidential(&mut placement, vocabulary)?;
        }
    }
    finish(placement)
}

/// That a substrate has no words for a need.
pub(super) fn unsupported(vocabulary: &Vocabulary, what: impl Into<String>) -> HardwareError {
    HardwareError::UnsupportedOnSubstrate { substrate: vocabulary.substrate, what: what.into() }
}

fn plain(resources: &Resources) -> ResourceVector {
    let mut all = resources.extended.clone();
    for (name, amount) in
        [(CPU, resources.cpu_milli.0), (MEMORY, resources.memory_bytes.0), (EPHEMERAL_STORAGE, resources.disk_bytes.0)]
    {
        if let Ok(name) = ResourceName::new(name) {
            let amount = amount.max(all.get(name.as_str()));
            all.set(name, amount);
        }
    }
    all
}

fn row(kind: TeeKind, vocabulary: &Vocabulary) -> Result<(TeeKind, &TeeWords), HardwareError> {
    let (serving, words) = vocabulary.tee(kind).ok_or_else(|| unsupported(vocabulary, kind.to_string()))?;
    match vocabulary.tee_labels(words).next() {
        Some(_) => Ok((serving, words)),
        None => Err(unsupported(vocabulary, kind.to_string())),
    }
}

fn require_tee(placement: &mut Placement, kind: TeeKind, vocabulary: &Vocabulary) -> Result<(), HardwareError> {
    let (serving, words) = row(kind, vocabulary)?;
    if serving != kind {
        placement.notes.insert(Note::Narrowed);
    }
    placement.tee = Some(kind);
    let labels = vocabulary.tee_labels(words);
    let any_of = labels.map(|key| Alternative { all_of: vec![LabelExpr::equal(key.as_str(), "true")] });
    placement.required.push(Clause { any_of: any_of.collect() });
    placement.resources = placement.resources.larger_of(&words.resources);
    for (name, _) in words.resources.iter() {
        placement.tolerations.push(Toleration::of_key(name.as_str()));
    }
    placement.tolerations.extend(words.tolerations.iter().map(|key| Toleration::of_key(key.as_str())));
    placement.tolerations.extend(vocabulary.tee_tolerations.iter().cloned());
    placement.runtime = words.runtime_class.as_ref().map(|class| RuntimeNeed {
        name: class.to_string(),
        accepted: words.accepted.iter().map(ToString::to_string).collect(),
        any: false,
    });
    placement.overhead = words.overhead.clone();
    Ok(())
}

/// Labels as preferences; where there is no word for the kind there is none to prefer.
fn prefer_tee(placement: &mut Placement, kind: TeeKind, vocabulary: &Vocabulary) {
    let Some((_, words)) = vocabulary.tee(kind) else { return };
    for key in vocabulary.tee_labels(words) {
        let alternative = Alternative { all_of: vec![LabelExpr::equal(key.as_str(), "true")] };
        placement.preferred.push(Preference { weight: PREFERRED, alternative });
    }
}

/// The runtime that gives a virtual machine a device, in place of the one that gives it none.
fn require_confidential(placement: &mut Placement, vocabulary: &Vocabulary) -> Result<(), HardwareError> {
    let with_gpu = |kind| unsupported(vocabulary, format!("{kind} with GPUs"));
    let Some(kind) = placement.tee else { return Ok(()) };
    let words = vocabulary.confidential.as_ref().ok_or_else(|| with_gpu(kind))?;
    if placement.runtime.is_some() {
        let (_, row) = row(kind, vocabulary)?;
        let class = row.gpu_runtime_class.as_ref().ok_or_else(|| with_gpu(kind))?;
        placement.runtime = Some(RuntimeNeed { name: class.to_string(), accepted: Default::default(), any: false });
    }
    placement.overhead = words.overhead.clone();
    Ok(())
}

/// Sorts what has no order, and finds labels that are asked to have two values.
fn finish(mut placement: Placement) -> Result<Placement, HardwareError> {
    placement.required.sort();
    placement.required.dedup();
    placement.preferred.sort();
    placement.preferred.dedup();
    placement.tolerations.sort();
    placement.tolerations.dedup();
    let mut seen: std::collections::BTreeMap<&str, &str> = std::collections::BTreeMap::new();
    let clauses = placement.required.iter().filter_map(Clause::only);
    for expression in clauses.chain(placement.arch.as_ref()) {
        let Some(value) = expression.equality() else { continue };
        match seen.insert(&expression.key, value) {
            Some(other) if other != value => {
                let (user, generated) = (other.to_owned(), value.to_owned());
                return Err(HardwareError::LabelConflict { key: expression.key.clone(), user, generated });
            }
            _ => {}
        }
    }
    super::merge::one_device(placement.resources.iter().map(|(name, _)| name.as_str()), &placement.claims)?;
    Ok(placement)
}
