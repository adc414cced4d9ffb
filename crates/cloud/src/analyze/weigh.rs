//! What the place of a file makes of its facts: at the top they count as they are, in a part at most as wishes, of variants and
//! examples they are hints. What is lowered so is told, never dropped in silence.

use std::collections::BTreeMap;

use orlop_core::hardware::gpu::Vendor;

use super::fact::{Confidence, Fact, Finding, Strength, quoted};
use super::kind::FileKind;
use super::place::{Place, Places};

/// Hints of prose that are told one by one.
const MAX_HINTS: usize = 12;

/// Weighs facts by the places of their files. Returns what variants would ask for, one line a file.
pub(super) fn weigh(facts: &mut [Fact], places: &Places, notes: &mut Vec<String>) -> Vec<String> {
    let mut alternatives: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut hints = 0;
    for fact in facts.iter_mut() {
        fact.place = places.of_path(&fact.file);
        let is_prose = FileKind::of(&fact.file) == Some(FileKind::Readme);
        match fact.place {
            Place::Root => continue,
            // What a part does without says nothing of the whole.
            Place::Part if fact.finding == Finding::CpuOnly => fact.strength = Strength::Weak,
            Place::Part => fact.strength = fact.strength.min(Strength::Target),
            Place::Variant | Place::Aside => {
                let was = fact.strength;
                fact.strength = Strength::Weak;
                fact.confidence = fact.confidence.min(Confidence::Vague);
                let Some(said) = said(&fact.finding).filter(|_| was > Strength::Weak) else { continue };
                if is_prose && is_size(&fact.finding) && hints < MAX_HINTS {
                    hints += 1;
                    notes.push(hint(fact));
                } else if !is_prose && (was == Strength::Hard || fact.place == Place::Variant) {
                    let of = alternatives.entry(fact.file.clone()).or_default();
                    if !of.contains(&said) && of.len() < 6 {
                        of.push(said);
                    }
                }
            }
        }
    }
    alternatives.into_iter().take(20).map(|(file, said)| quoted(&format!("{file}: {}", said.join(", ")))).collect()
}

/// What a sentence says that does not count.
fn hint(fact: &Fact) -> String {
    format!("{}:{}: \u{201c}{}\u{201d} is taken for a hint only", fact.file, fact.line, fact.quote)
}

const fn is_size(finding: &Finding) -> bool {
    matches!(
        finding,
        Finding::Cores(_)
            | Finding::Ram(_)
            | Finding::Disk(_)
            | Finding::Vram(_)
            | Finding::GpuCount(_)
            | Finding::Hours(_)
            | Finding::Feature(_)
    )
}

/// What a fact asks of a machine, in a few words; nothing for what is no demand.
fn said(finding: &Finding) -> Option<String> {
    Some(match finding {
        Finding::Cores(cores) => format!("{cores} cores"),
        Finding::Ram(gib) => format!("{gib} GiB"),
        Finding::Disk(gb) => format!("{gb} GB of disk"),
        Finding::Gpu(Some(vendor)) => format!("cards of {vendor}"),
        Finding::Gpu(None) => "a card".to_owned(),
        Finding::GpuCount(count) => format!("{count} cards"),
        Finding::Vram(gb) => format!("{gb} GB a card"),
        Finding::Cuda(version) => format!("CUDA {version}"),
        Finding::Arch(arch) => arch.to_string(),
        Finding::Hours(hours) => format!("{hours} hours"),
        Finding::Feature(feature) => format!("{feature:?}"),
        Finding::Tpu => "a TPU".to_owned(),
        _ => return None,
    })
}

/// How much a maker's evidence weighs: the best of each file, half of it below the top, in tenths of confidence.
pub(super) fn weight(facts: &[&Fact], vendor: Vendor) -> u32 {
    let mut by_file: BTreeMap<&str, u32> = BTreeMap::new();
    for fact in facts {
        let is_of = fact.finding == Finding::Gpu(Some(vendor))
            || vendor == Vendor::Nvidia && matches!(fact.finding, Finding::Cuda(_));
        if !is_of {
            continue;
        }
        let confidence = (fact.confidence.value() * 20.0).round() as u32;
        let weight = if fact.place == Place::Root { confidence } else { confidence / 2 };
        let best = by_file.entry(&fact.file).or_default();
        *best = weight.max(*best);
    }
    by_file.values().fold(0, |sum: u32, one| sum.saturating_add(*one))
}
