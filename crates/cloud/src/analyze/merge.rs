//! What the advice of a model may change in requirements: raise an ideal value within bounds, ask for a GPU with evidence, name an
//! operating system where nothing else does, and pick from a list. It never lowers a value, never drops a GPU, and never changes
//! vendor, architecture and features.
//! Pure: the same arguments give the same bytes.

use super::advice::{Advised, Pick, Quoted, is_tainted};
use super::decide::{DecisionInput, decide};
use super::fact::{Confidence, Fact, Finding, Strength, quoted};
use super::injection;
use super::kind::FileKind;
use super::os::{Os, OsType};
use super::place::FileLocation;
use super::requirements::{Evidence, Need, Requirements};
use super::rules::Analysis;
use super::sizing;
use super::version::Version;
use crate::catalog::cost::MAX_HOURS;
use crate::catalog::image::Image;
use crate::repository::Scan;

/// How many times a value of the rules advice may reach.
const TIMES: u32 = 4;
/// Hardware threads that advice may reach.
pub const MAX_CORES: u32 = 256;
/// Memory in GiB that advice may reach.
pub const MAX_RAM: u32 = 1024;
/// Disk in GB that advice may reach.
pub const MAX_DISK: u32 = 8192;
/// Memory of a card in GB that advice may reach.
pub const MAX_VRAM: u32 = 80;
/// Cards that advice may reach.
pub const MAX_CARDS: u32 = 8;
/// Hours that are taken where advice gives none.
pub(crate) const USUAL_HOURS: u32 = 24;
/// Versions of Python that advice may name.
const PYTHONS: std::ops::RangeInclusive<Version> = Version::new(3, 8)..=Version::new(3, 14);
/// Images that may come into question.
const CANDIDATES: usize = 5;
/// The rule behind what advice changed.
const RULE: &str = "advice";

/// Requirements after advice.
#[derive(Debug, Clone, PartialEq)]
pub struct Merged {
    /// The requirements.
    pub requirements: Requirements,
    /// What was decided between rules and advice, for people.
    pub notes: Vec<String>,
    /// Names of the fields that advice changed.
    pub used: Vec<&'static str>,
}

/// Joins what the rules found and what advice says. Where the repository tries to give instructions, the rules alone count.
#[must_use]
pub fn merge(scan: &Scan, analysis: &Analysis, advice: &Advised) -> Merged {
    let rules = &analysis.requirements;
    let mut merged = Merged { requirements: rules.clone(), notes: analysis.notes.clone(), used: Vec::new() };
    if is_tainted(rules) {
        return merged;
    }
    gpu(scan, analysis, advice, &mut merged);
    numbers(rules, advice, &mut merged);
    system(advice, &mut merged);
    for text in &advice.special {
        let words = merged.requirements.special_requirements.target.get_or_insert_default();
        let said = format!("advised: \u{201c}{text}\u{201d}");
        if words.len() < 10 && !words.contains(&said) {
            words.push(said);
            merged.mark("special_requirements");
        }
    }
    merged
}

impl Merged {
    fn mark(&mut self, field: &'static str) {
        if !self.used.contains(&field) {
            self.used.push(field);
        }
    }
}

/// No becomes yes only where the rules hold evidence outside documents, and the advice quotes a line that stands there.
fn gpu(scan: &Scan, analysis: &Analysis, advice: &Advised, merged: &mut Merged) {
    if analysis.requirements.wants_gpu() || !advice.gpu {
        return;
    }
    let beside_prose = |fact: &&Fact| {
        matches!(fact.finding, Finding::Gpu(_)) && FileKind::of(&fact.file).is_none_or(|kind| kind != FileKind::Readme)
    };
    let quote = advice.evidence.iter().find(|quote| stands(scan, quote));
    let (Some(_), Some(quote)) = (analysis.facts.iter().find(beside_prose), quote) else {
        merged.notes.push("advice asks for a GPU without evidence in the repository: no GPU is planned".to_owned());
        return;
    };
    let fact = Fact {
        finding: Finding::Gpu(None),
        strength: Strength::Target,
        confidence: Confidence::Vague,
        file: quote.file.clone(),
        line: quote.line,
        rule: RULE,
        quote: quoted(&quote.quote),
        place: FileLocation::Root,
    };
    let mut notes = Vec::new();
    let known = DecisionInput { facts: &analysis.facts, bytes: scan.bytes, notes: &mut notes, advised: Some(&fact) };
    let flags = analysis.requirements.flags.clone();
    let alternatives = analysis.requirements.alternatives.clone();
    let requirements = Requirements { flags, alternatives, ..decide(known, Vec::new()) };
    merged.requirements = requirements;
    merged.notes.extend(notes.into_iter().filter(|note| !analysis.notes.contains(note)));
    merged.notes.push(format!("a GPU is taken on advice, with {}:{} as evidence", quote.file, quote.line));
    merged.mark("gpu_required");
}

/// Whether a quote is what stands at its file and line, as far as rules may read it: the whole line, or the beginning of one
/// that is too long to quote.
fn stands(scan: &Scan, quote: &Quoted) -> bool {
    let Some(file) = scan.files.iter().find(|file| file.path == quote.file) else { return false };
    let (cleared, _) = injection::cleared(file);
    let line = quote.line.checked_sub(1).and_then(|index| cleared.lines().nth(index as usize));
    let said = quote.quote.trim();
    line.map(str::trim)
        .is_some_and(|line| !said.is_empty() && (line == said || said.chars().count() >= 100 && line.starts_with(said)))
}

fn numbers(rules: &Requirements, advice: &Advised, merged: &mut Merged) {
    let mut used = Vec::new();
    let needs = &mut merged.requirements;
    let mut raised =
        |name: &'static str, need: &mut Need<u32>, rule: &Need<u32>, value, most, round: fn(u32) -> u32| {
            let limit = rule.target.or(need.target).unwrap_or(0).saturating_mul(TIMES).min(most);
            if raise(need, value, limit, round, advice) {
                used.push(name);
            }
        };
    raised("cpu_cores", &mut needs.cpu_cores, &rules.cpu_cores, advice.cores, MAX_CORES, sizing::even);
    raised("ram_gb", &mut needs.ram_gb, &rules.ram_gb, advice.ram_gib, MAX_RAM, sizing::usual_ram);
    raised("disk_gb", &mut needs.disk_gb, &rules.disk_gb, advice.disk_gb, MAX_DISK, sizing::usual_disk);
    if needs.wants_gpu() {
        raised("gpu_memory_gb", &mut needs.gpu_memory_gb, &rules.gpu_memory_gb, advice.gpu_memory_gb, MAX_VRAM, |gb| {
            gb
        });
        raised("gpu_count", &mut needs.gpu_count, &rules.gpu_count, advice.gpu_count, MAX_CARDS, |count| count);
        // More cards want more memory beside them, as the rules have it.
        let cards = needs.gpu_memory_gb.target.unwrap_or(0).saturating_mul(needs.gpu_count.target.unwrap_or(1));
        let beside = sizing::usual_ram(sizing::ram_for_cards(cards));
        if needs.ram_gb.target.is_some_and(|ram| ram < beside) {
            needs.ram_gb.target = Some(beside);
        }
    }
    for name in used {
        merged.mark(name);
    }
}

/// Raises a wish towards what is advised, up to a limit. Whether it changed.
fn raise(need: &mut Need<u32>, value: Option<u32>, limit: u32, round: fn(u32) -> u32, advice: &Advised) -> bool {
    let before = need.target.unwrap_or(0).max(need.hard.unwrap_or(0));
    let Some(value) = value.map(|value| round(value.min(limit)).min(limit)).filter(|value| *value > before) else {
        return false;
    };
    need.target = Some(value);
    need.confidence = Confidence::Vague;
    need.evidence.insert(0, said(advice));
    need.evidence.truncate(10);
    true
}

/// The advice itself as evidence.
fn said(advice: &Advised) -> Evidence {
    Evidence { file: String::new(), line: 0, rule: RULE, quote: quoted(&advice.reasoning) }
}

/// The system and Python, where the rules are not sure and code offers what is advised.
fn system(advice: &Advised, merged: &mut Merged) {
    let needs = &mut merged.requirements;
    let unsure = needs.os_type.confidence < Confidence::Implied && needs.os_version.confidence < Confidence::Implied;
    let before = present(needs);
    let cuda = needs.cuda_version.target.map(|version| version.major);
    let fits = |os: &Os| cuda != Some(11) || os.kind != OsType::Ubuntu || os.version <= Version::new(22, 4);
    let os = offered(advice, needs).filter(|os| unsure && fits(os) && Some((os.kind, os.version_text())) != before);
    let mut used = Vec::new();
    if let Some(os) = os {
        let change = |confidence: &mut Confidence, evidence: &mut Vec<Evidence>| {
            *confidence = Confidence::Vague;
            *evidence = vec![said(advice)];
        };
        needs.os_type.target = Some(os.kind);
        needs.os_version.target = Some(os.version_text());
        change(&mut needs.os_type.confidence, &mut needs.os_type.evidence);
        change(&mut needs.os_version.confidence, &mut needs.os_version.evidence);
        used.push("os");
        if needs.python_version.evidence.is_empty() {
            needs.python_version.target = Some(os.python());
        }
    }
    let python = advice.python.as_deref().and_then(Version::read).filter(|version| PYTHONS.contains(version));
    if needs.python_version.confidence < Confidence::Implied
        && let Some(python) = python.filter(|python| Some(*python) != needs.python_version.target)
    {
        needs.python_version = Need {
            target: Some(python),
            confidence: Confidence::Vague,
            evidence: vec![said(advice)],
            ..needs.python_version.clone()
        };
        used.push("python_version");
    }
    for name in used {
        merged.mark(name);
    }
}

fn present(needs: &Requirements) -> Option<(OsType, String)> {
    needs.os_type.target.zip(needs.os_version.target.clone())
}

/// The system that is advised, if it is one that code offers: a release under its own name that is still supported.
fn offered(advice: &Advised, needs: &Requirements) -> Option<Os> {
    let kind = match &advice.os_type {
        Some(name) => name.as_str(),
        None => needs.os_type.target?.name(),
    };
    let os = Os::of(kind, advice.os_version.as_deref()?)?;
    (["ubuntu", "centos"].contains(&kind) && !os.mapped && !os.is_end_of_life()).then_some(os)
}

/// The images that come into question: those picked that were offered, each once, at most five; without any the first five.
#[must_use]
pub fn candidates(offered: &[&Image], picks: &[Pick]) -> Vec<usize> {
    let mut chosen: Vec<usize> = Vec::new();
    for index in picks.iter().filter_map(|pick| place(offered, pick)) {
        if !chosen.contains(&index) && chosen.len() < CANDIDATES {
            chosen.push(index);
        }
    }
    if chosen.is_empty() { (0..offered.len().min(CANDIDATES)).collect() } else { chosen }
}

/// The image that is taken: the one picked if it was offered, else the first.
#[must_use]
pub fn final_image(offered: &[&Image], pick: Option<&Pick>) -> Option<usize> {
    pick.and_then(|pick| place(offered, pick)).or((!offered.is_empty()).then_some(0))
}

fn place(offered: &[&Image], pick: &Pick) -> Option<usize> {
    match pick {
        Pick::Index(index) => (*index < offered.len()).then_some(*index),
        Pick::Name(name) => offered.iter().position(|image| image.name.to_lowercase() == *name),
    }
}

/// How long, after advice: within 1 to 168, 24 without any, and never less than a run time that the repository gives.
#[must_use]
pub fn hours(requirements: &Requirements, advice: Option<u32>) -> u32 {
    advice.unwrap_or(USUAL_HOURS).clamp(1, MAX_HOURS).max(least_hours(requirements))
}

/// The hours that the repository itself asks for by a run time, else 1.
#[must_use]
pub fn least_hours(requirements: &Requirements) -> u32 {
    let need = &requirements.duration_hours;
    let stated =
        need.confidence >= Confidence::Implied && need.evidence.iter().any(|line| line.rule == "readme-run-time");
    need.target.filter(|_| stated).unwrap_or(1).clamp(1, MAX_HOURS)
}
