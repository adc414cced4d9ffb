//! From facts to cards: whether a GPU is needed, whose, how many, with how much memory and which CUDA. Hard evidence is never
//! overruled, soft evidence is by a veto, weak evidence is not enough.

use orlop_core::hardware::gpu::Vendor;

use super::decide::{DecisionInput, number};
use super::fact::{Confidence, Fact, Finding, Strength};
use super::kind::FileKind;
use super::requirements::Need;
use super::sizing::Class;
use super::version::Version;
use super::weigh::weight;

/// Memory of a card below which no offer is made, in GB.
pub(super) const LEAST_VRAM: u32 = 8;
/// Memory of a card that work with language models wants, in GB.
const LANGUAGE_VRAM: u32 = 24;

/// What is decided about cards.
pub(super) struct Gpu {
    pub(super) required: Need<bool>,
    pub(super) vendor: Need<Vendor>,
    /// Makers that were not taken.
    pub(super) alternatives: Vec<String>,
}

/// Whether a GPU is needed, and whose.
pub(super) fn gpu(known: &mut DecisionInput<'_>) -> Gpu {
    let of = |strength: Strength| {
        known.which(|f| matches!(f, Finding::Gpu(_))).into_iter().filter(|f| f.strength == strength).collect()
    };
    let (hard, soft): (Vec<&Fact>, Vec<&Fact>) = (of(Strength::Hard), of(Strength::Target));
    let weak: Vec<&Fact> = of(Strength::Weak);
    let mut vetoes = known.which(|finding| matches!(finding, Finding::CpuOnly));
    vetoes.retain(|fact| fact.strength > Strength::Weak);
    let cuda: Vec<&Fact> =
        known.which(|f| matches!(f, Finding::Cuda(_))).into_iter().filter(|f| f.strength == Strength::Hard).collect();
    let by_cuda = hard.is_empty() && !cuda.is_empty();
    if by_cuda {
        known
            .notes
            .push("CUDA is requested and nothing else mentions a GPU: it counts as a requirement for one".to_owned());
    }
    let asked: Vec<&Fact> = hard.iter().chain(&cuda).copied().collect();
    let hard: Vec<&Fact> = if by_cuda { cuda } else { hard };
    // A sentence that asks for a card or recommends one is not overruled by one about doing without.
    let is_asked = soft.iter().any(|fact| fact.rule == "readme-gpu");
    if !vetoes.is_empty() && (!hard.is_empty() || is_asked) {
        known
            .notes
            .push("the repository requires a GPU and also says it runs without: the requirement counts".to_owned());
    }
    let by_rules = !hard.is_empty() || (!soft.is_empty() && (vetoes.is_empty() || is_asked));
    let required = by_rules || known.advised.is_some();
    let makers = if asked.is_empty() { soft.clone() } else { asked };
    let (vendor, alternatives) = vendor(known, &makers, required);
    let evidence: Vec<&Fact> = match (hard.is_empty(), required) {
        (false, _) => hard.iter().chain(&soft).copied().collect(),
        (true, true) if by_rules => soft,
        (true, true) => known.advised.into_iter().chain(soft).chain(weak).collect(),
        (true, false) if !soft.is_empty() => vetoes.into_iter().chain(soft).collect(),
        (true, false) => weak.into_iter().chain(vetoes).collect(),
    };
    let required = Need::of((!hard.is_empty()).then_some(true), Some(required), &evidence);
    Gpu { required, vendor, alternatives }
}

/// Whose cards: the maker with the greater weight of evidence. Within a tenth of each other the one that documents name, else
/// NVIDIA.
fn vendor(known: &mut DecisionInput<'_>, makers: &[&Fact], required: bool) -> (Need<Vendor>, Vec<String>) {
    if !required {
        return (Need::unknown(), Vec::new());
    }
    let of = |vendor: Vendor| -> Vec<&Fact> {
        let is_of = |f: &Fact| {
            f.finding == Finding::Gpu(Some(vendor)) || vendor == Vendor::Nvidia && matches!(f.finding, Finding::Cuda(_))
        };
        makers.iter().copied().filter(|fact| is_of(fact)).collect()
    };
    let (nvidia, amd) = (of(Vendor::Nvidia), of(Vendor::Amd));
    let (for_nvidia, for_amd) = (weight(makers, Vendor::Nvidia), weight(makers, Vendor::Amd));
    let is_close = for_nvidia.abs_diff(for_amd).saturating_mul(10) <= for_nvidia.max(for_amd);
    let chosen = match (is_close, for_amd > for_nvidia) {
        (true, _) if for_amd > 0 && names_only_amd(known) => Vendor::Amd,
        (false, true) => Vendor::Amd,
        _ => Vendor::Nvidia,
    };
    let mut alternatives = Vec::new();
    if !nvidia.is_empty() && !amd.is_empty() {
        let other = if chosen == Vendor::Amd { Vendor::Nvidia } else { Vendor::Amd };
        known.notes.push(format!(
            "the repository names cards of NVIDIA and AMD, with a weight of {for_nvidia} to {for_amd}: {chosen} is taken"
        ));
        alternatives.push(format!("cards of {other}: --gpu-vendor {other}"));
    }
    let evidence = if chosen == Vendor::Amd { amd } else { nvidia };
    let is_hard = evidence.iter().any(|fact| fact.strength == Strength::Hard);
    (Need::of(is_hard.then_some(chosen), Some(chosen), &evidence), alternatives)
}

/// Whether documents name AMD's cards and not NVIDIA's.
fn names_only_amd(known: &DecisionInput<'_>) -> bool {
    let named = |vendor: Vendor| {
        known.facts.iter().any(|fact| {
            fact.strength > Strength::Weak
                && FileKind::of(&fact.file) == Some(FileKind::Readme)
                && fact.finding == Finding::Gpu(Some(vendor))
        })
    };
    named(Vendor::Amd) && !named(Vendor::Nvidia)
}

/// How many cards. Where the memory of a card is asked for, somebody's own run says no more how many there must be.
pub(super) fn count(known: &mut DecisionInput<'_>, required: bool) -> Need<u32> {
    let is_asked = |fact: &Fact| {
        fact.strength == Strength::Hard
            && matches!(fact.finding, Finding::Vram(_))
            && fact.confidence > Confidence::Vague
    };
    let is_stated = known.facts.iter().any(is_asked);
    let own = |fact: &Fact| fact.confidence == Confidence::Vague && matches!(fact.finding, Finding::GpuCount(_));
    let counted = number(known, required.then_some(1), |finding| match finding {
        Finding::GpuCount(count) => Some(*count),
        _ => None,
    });
    let only_own = known.facts.iter().filter(|fact| matches!(fact.finding, Finding::GpuCount(_))).all(own);
    if !required {
        return Need { target: None, ..counted };
    }
    if is_stated && only_own && counted.target > Some(1) {
        known.notes.push(
            "the number of GPUs in an example run is not a requirement: one with the requested memory is planned"
                .to_owned(),
        );
        return Need::default_of(1);
    }
    counted
}

/// Memory of one card in GB.
pub(super) fn vram(known: &DecisionInput<'_>, required: bool) -> Need<u32> {
    let stated = number(known, None, |finding| match finding {
        Finding::Vram(gb) => Some(*gb),
        _ => None,
    });
    if !required {
        return Need { target: None, ..stated };
    }
    let mut language = known.which(|finding| *finding == Finding::Class(Class::LanguageModel));
    language.retain(|fact| fact.strength > Strength::Weak);
    let least = if language.is_empty() { LEAST_VRAM } else { LANGUAGE_VRAM };
    match stated.target {
        // What is written about the memory counts, even if libraries of its kind usually want more.
        Some(written) => Need { target: Some(written.max(LEAST_VRAM)), ..stated },
        None if language.is_empty() => {
            let soft = known.which(|finding| matches!(finding, Finding::Gpu(_)));
            Need { confidence: Confidence::Vague, ..Need::of(None, Some(least), &soft) }
        }
        None => Need { confidence: Confidence::Vague, ..Need::of(None, Some(least), &language) },
    }
}

/// The oldest card that is accepted, by what code is compiled for and what is written.
pub(super) fn capability(known: &DecisionInput<'_>, nvidia: bool) -> Need<Version> {
    let facts = known.which(|finding| matches!(finding, Finding::Capability(_)));
    let most = |least: Strength| {
        let facts = facts.iter().filter(|fact| fact.strength >= least);
        facts
            .filter_map(|fact| match fact.finding {
                Finding::Capability(version) => Some(version),
                _ => None,
            })
            .max()
    };
    let (hard, target) = (most(Strength::Hard).filter(|_| nvidia), most(Strength::Target).filter(|_| nvidia));
    Need::of(hard, target, &facts)
}

/// Which CUDA, at least.
pub(super) fn cuda_version(known: &DecisionInput<'_>, nvidia: bool) -> Need<Version> {
    let facts = known.which(|finding| matches!(finding, Finding::Cuda(_)));
    let value = |fact: &Fact| match fact.finding {
        Finding::Cuda(version) => Some(version),
        _ => None,
    };
    let most = |least: Strength| facts.iter().filter(|f| f.strength >= least).filter_map(|f| value(f)).max();
    let hard = most(Strength::Hard);
    // What frameworks imply counts only where nothing is written.
    let written = facts.iter().filter(|f| f.strength == Strength::Target && f.rule != "cuda-of-framework");
    let written = written.filter_map(|fact| value(fact)).max();
    let target = hard.or(written).or_else(|| most(Strength::Target));
    let set: Vec<&Fact> = facts.iter().copied().filter(|fact| value(fact) == target && target.is_some()).collect();
    Need::of(hard, target.filter(|_| nvidia), &set)
}
