//! What the place of a file makes of its facts: at the top they count as they are, in a part at most as wishes, of variants and
//! examples they are hints. What is lowered so is reported, never dropped in silence.

use std::collections::{BTreeMap, BTreeSet};

use orlop_core::hardware::gpu::Vendor;

use super::fact::{Confidence, Fact, Finding, Strength, quoted};
use super::kind::FileKind;
use super::place::{FileLocation, Placed, Places};

/// Hints of prose that are reported one by one.
const MAX_HINTS: usize = 12;

/// Weighs facts by the places of their files. Returns what variants would ask for, one line a file.
pub(super) fn weigh(facts: &mut [Fact], files: &[Placed<'_>], places: &Places, notes: &mut Vec<String>) -> Vec<String> {
    let is_foreign = Places::is_foreign(files);
    let mut alternatives: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let (mut hints, mut reported) = (0, Vec::new());
    for fact in facts.iter_mut() {
        fact.place = places.of_path(&fact.file);
        let kind = FileKind::of(&fact.file);
        let is_prose = kind == Some(FileKind::Readme);
        let is_manual = is_prose && !is_readme(&fact.file) && matches!(fact.finding, Finding::Hours(_));
        if is_manual || is_foreign && kind.is_some_and(FileKind::is_source) {
            fact.strength = Strength::Weak;
        }
        match fact.place {
            FileLocation::Root => continue,
            FileLocation::Part => part(fact, is_prose, &mut reported),
            FileLocation::Variant | FileLocation::Aside => {
                let was = fact.strength;
                fact.strength = Strength::Weak;
                fact.confidence = fact.confidence.min(Confidence::Vague);
                let Some(said) = said(&fact.finding).filter(|_| was > Strength::Weak) else { continue };
                if is_prose && is_size(&fact.finding) && hints < MAX_HINTS {
                    hints += 1;
                    let hint = hint(fact);
                    if !notes.contains(&hint) {
                        notes.push(hint);
                    }
                } else if !is_prose && (was == Strength::Hard || fact.place == FileLocation::Variant) {
                    let of = alternatives.entry(fact.file.clone()).or_default();
                    if !of.contains(&said) && of.len() < 6 {
                        of.push(said);
                    }
                }
            }
        }
    }
    reported.truncate(MAX_HINTS);
    notes.append(&mut reported);
    architectures(facts);
    makers(facts, notes);
    alternatives.into_iter().take(20).map(|(file, said)| quoted(&format!("{file}: {}", said.join(", ")))).collect()
}

/// A fact of a part: a preference, reported where it would be a minimum at the top.
fn part(fact: &mut Fact, is_prose: bool, reported: &mut Vec<String>) {
    // What a part does without, and what its document says of cards and times, says nothing of the whole.
    let most = if is_of_part(&fact.finding, is_prose) { Strength::Weak } else { Strength::Target };
    let said = said(&fact.finding).filter(|_| fact.strength == Strength::Hard);
    fact.strength = fact.strength.min(most);
    if let Some(said) = said.filter(|_| reported.len() <= MAX_HINTS) {
        let note = format!("{}:{}: {said}: a preference only, since it is about a part", fact.file, fact.line);
        if !reported.contains(&note) {
            reported.push(note);
        }
    }
}

/// Whether a document is a README: a manual tells how long single steps take.
fn is_readme(path: &str) -> bool {
    path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase().starts_with("readme")
}

/// Whether something that is said of a part says nothing of the whole: that it does without a card, and in words that it has one
/// and how long it runs.
const fn is_of_part(finding: &Finding, is_prose: bool) -> bool {
    matches!(finding, Finding::CpuOnly)
        || is_prose && matches!(finding, Finding::Gpu(_) | Finding::GpuCount(_) | Finding::Hours(_) | Finding::Tpu)
}

/// For which cards to compile says nothing where the build has CUDA only as an option.
fn architectures(facts: &mut [Fact]) {
    let has = |strength: Strength, facts: &[Fact]| {
        facts.iter().any(|fact| fact.rule == "cuda-build-file" && fact.strength == strength)
    };
    if has(Strength::Weak, facts) && !has(Strength::Hard, facts) {
        for fact in facts.iter_mut().filter(|fact| fact.rule == "cuda-architectures") {
            fact.strength = Strength::Weak;
        }
    }
}

/// Documents that name the cards of both makers demand neither: what they say of AMD's is one of two ways.
fn makers(facts: &mut [Fact], notes: &mut Vec<String>) {
    let names_nvidia = facts.iter().any(|fact| {
        fact.place == FileLocation::Root
            && fact.rule.starts_with("readme")
            && fact.finding == Finding::Gpu(Some(Vendor::Nvidia))
    });
    if !names_nvidia {
        return;
    }
    let places: BTreeSet<(String, u32)> =
        facts.iter().filter(|fact| fact.rule == "readme-amd-card").map(|fact| (fact.file.clone(), fact.line)).collect();
    if places.is_empty() {
        return;
    }
    notes.push("documents name the cards of AMD and of NVIDIA: neither is a minimum".to_owned());
    for fact in facts.iter_mut() {
        if fact.rule == "readme-amd-card" {
            fact.finding = Finding::Gpu(None);
            fact.strength = fact.strength.min(Strength::Target);
        } else if fact.rule == "readme-card" && places.contains(&(fact.file.clone(), fact.line)) {
            fact.strength = Strength::Weak;
        }
    }
}

/// What a sentence says that does not count.
fn hint(fact: &Fact) -> String {
    format!("{}:{}: \u{201c}{}\u{201d} is treated as a hint only", fact.file, fact.line, fact.quote)
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
        let weight = if fact.place == FileLocation::Root { confidence } else { confidence / 2 };
        let best = by_file.entry(&fact.file).or_default();
        *best = weight.max(*best);
    }
    by_file.values().fold(0, |sum: u32, one| sum.saturating_add(*one))
}
