//! From facts to requirements: which fact wins, field by field. Owns the decision
//! trees; never reads a file. Adding a fact never lowers a minimum.

use std::collections::BTreeMap;

use orlop_core::hardware::Arch;
use orlop_core::hardware::gpu::Vendor;

use super::cards::{self, LEAST_VRAM};
use super::fact::{Confidence, Fact, Feature, Finding, Strength};
use super::kind::FileKind;
use super::os::{Os, OsType};
use super::place::FileLocation;
use super::requirements::{GPU_UNKNOWN, LEGACY_NAMED, LOW_CONFIDENCE, Need, Requirements, TPU_NEEDED};
use super::sizing::{self, Class, FLOOR, ServiceClass, Size, UNKNOWN};
use super::version::Version;

/// What is decided upon.
pub(super) struct DecisionInput<'a> {
    pub(super) facts: &'a [Fact],
    /// Bytes of the repository.
    pub(super) bytes: u64,
    pub(super) notes: &'a mut Vec<String>,
    /// Advice that a GPU is needed, with a line that stands in the repository; it counts like soft evidence without a veto.
    pub(super) advised: Option<&'a Fact>,
}

impl<'a> DecisionInput<'a> {
    pub(super) fn which(&self, wanted: impl Fn(&Finding) -> bool) -> Vec<&'a Fact> {
        self.facts.iter().filter(|fact| wanted(&fact.finding)).collect()
    }

    fn has(&self, wanted: impl Fn(&Fact) -> bool) -> bool {
        self.facts.iter().any(wanted)
    }
}

/// Decides all fields. `flags` are those that scanning raised.
pub(super) fn decide(mut known: DecisionInput<'_>, mut flags: Vec<String>) -> Requirements {
    let mut gpu = cards::gpu(&mut known);
    if gpu.required.evidence.is_empty() && !flags.iter().any(|flag| flag == GPU_UNKNOWN) {
        // What the project is made of is known, and nothing of it is for a GPU.
        gpu.required.confidence = Confidence::Vague;
    }
    let (vendor, required) = (gpu.vendor.target, gpu.required.target == Some(true));
    let nvidia = required && vendor == Some(Vendor::Nvidia);
    let cuda_version = cards::cuda_version(&known, nvidia);
    let compute_capability = cards::capability(&known, nvidia);
    let (os_type, os_version, os) = system(&mut known, cuda_version.target);
    let count = cards::count(&mut known, required);
    let memory = cards::vram(&known, required);
    let size = machine(&known, required.then(|| memory.target.unwrap_or(LEAST_VRAM) * count.target.unwrap_or(1)));
    if known
        .has(|fact| fact.strength > Strength::Weak && matches!(fact.finding, Finding::Card(card) if card.is_legacy()))
    {
        flags.push(LEGACY_NAMED.to_owned());
    }
    if known.has(|fact| fact.finding == Finding::Tpu && fact.strength > Strength::Weak) {
        flags.push(TPU_NEEDED.to_owned());
    }
    let needs =
        |yes: bool, hard: bool| Need { hard: (yes && hard).then_some(true), target: Some(yes), ..gpu.required.clone() };
    let hard = gpu.required.hard == Some(true);
    let mut requirements = Requirements {
        cpu_cores: size.cores,
        ram_gb: size.ram,
        disk_gb: size.disk,
        gpu_count: if required { count } else { Need { target: None, ..count } },
        gpu_memory_gb: memory,
        cuda_required: needs(nvidia, hard),
        cuda_version,
        compute_capability,
        rocm_required: needs(required && vendor == Some(Vendor::Amd), hard),
        gpu_required: gpu.required,
        gpu_vendor: gpu.vendor,
        arch: arch(&known),
        os_type,
        os_version,
        python_version: python(&mut known, os),
        features: features(&known),
        special_requirements: special(&known),
        duration_hours: size.hours,
        alternatives: gpu.alternatives,
        flags,
    };
    if is_unsure(&requirements) {
        requirements.flags.push(LOW_CONFIDENCE.to_owned());
    }
    requirements
}

fn is_unsure(requirements: &Requirements) -> bool {
    let sure = [
        requirements.cpu_cores.confidence,
        requirements.ram_gb.confidence,
        requirements.disk_gb.confidence,
        requirements.os_type.confidence,
        requirements.python_version.confidence,
        requirements.duration_hours.confidence,
    ];
    sure.into_iter().filter(|confidence| *confidence < Confidence::Vague).count() >= 2
        || requirements.has_flag(GPU_UNKNOWN)
}

/// Facts that decide: an example, somebody's own run and a document below the top say nothing where something else does.
fn decisive(facts: Vec<&Fact>) -> Vec<&Fact> {
    let is_general = |fact: &&Fact| {
        fact.confidence > Confidence::Vague
            && (fact.place == FileLocation::Root || FileKind::of(&fact.file) != Some(FileKind::Readme))
    };
    if facts.iter().any(|fact| fact.strength > Strength::Weak && is_general(fact)) {
        return facts.into_iter().filter(is_general).collect();
    }
    facts
}

/// A number that takes the maximum of its facts, minimum and wish kept apart.
pub(super) fn number(
    known: &DecisionInput<'_>,
    default: Option<u32>,
    value: impl Fn(&Finding) -> Option<u32>,
) -> Need<u32> {
    let all = known.which(|finding| value(finding).is_some());
    let most = |facts: &[&Fact], least: Strength| {
        facts.iter().filter(|f| f.strength >= least).filter_map(|f| value(&f.finding)).max()
    };
    let hard = most(&all, Strength::Hard);
    let facts = decisive(all);
    let target = most(&facts, Strength::Target).max(hard);
    let set: Vec<&Fact> =
        facts.iter().copied().filter(|f| f.strength >= Strength::Target && value(&f.finding) == target).collect();
    Need::of(hard, target.max(default), &set)
}

/// The system: of the container, else as written for people, else of continuous integration.
fn system(known: &mut DecisionInput<'_>, cuda: Option<Version>) -> (Need<OsType>, Need<String>, Os) {
    let facts = known.which(|finding| matches!(finding, Finding::Os(_)));
    let depth = |fact: &Fact| fact.file.split('/').count();
    let best = facts.iter().map(|fact| fact.confidence).max();
    let best: Vec<&Fact> = facts.into_iter().filter(|fact| Some(fact.confidence) == best).collect();
    let shallow = best.iter().map(|fact| depth(fact)).min();
    let mut set: Vec<&Fact> = best.into_iter().filter(|fact| Some(depth(fact)) == shallow).collect();
    let of = |fact: &Fact| match fact.finding {
        Finding::Os(os) => Some(os),
        _ => None,
    };
    let chosen = set.iter().filter_map(|fact| of(fact)).max_by_key(|os| (os.kind == OsType::Ubuntu, os.version));
    let mut os = chosen.unwrap_or(Os::DEFAULT);
    set.retain(|fact| of(fact) == chosen);
    if os.mapped
        && let Some(fact) = set.first()
    {
        known.notes.push(format!("{}:{}: {} is used for what is written there", fact.file, fact.line, shown(&os)));
    }
    let newest = Version::new(22, 4);
    if cuda.is_some_and(|cuda| cuda.major == 11) && os.kind == OsType::Ubuntu && os.version > newest {
        known.notes.push(format!("CUDA 11 is not available on {}: using ubuntu 22.04", shown(&os)));
        os.version = newest;
    }
    let kind = Need::of(None, Some(os.kind), &set);
    let version = Need::of(None, Some(os.version_text()), &set);
    (kind, version, os)
}

fn shown(os: &Os) -> String {
    format!("{} {}", os.kind.name(), os.version_text())
}

fn python(known: &mut DecisionInput<'_>, os: Os) -> Need<Version> {
    let pin = |fact: &Fact| match fact.finding {
        Finding::Python(version) => Some(version),
        _ => None,
    };
    let floor = |fact: &Fact| match fact.finding {
        Finding::PythonFrom(version) => Some(version),
        _ => None,
    };
    let highest = |value: &dyn Fn(&Fact) -> Option<Version>, weak: bool| -> Option<(Version, Vec<&Fact>)> {
        let facts: Vec<&Fact> =
            known.facts.iter().filter(|f| (f.strength == Strength::Weak) == weak && value(f).is_some()).collect();
        let most = facts.iter().filter_map(|fact| value(fact)).max()?;
        Some((most, facts.into_iter().filter(|fact| value(fact) == Some(most)).collect()))
    };
    let found = highest(&pin, false).or_else(|| highest(&floor, false)).or_else(|| highest(&pin, true));
    let carried = os.python();
    match found {
        Some((version, facts)) => {
            let need = Need::of(None, Some(version), &facts);
            let by_range = facts.iter().all(|fact| matches!(fact.finding, Finding::PythonFrom(_)));
            if version != carried && !(by_range && version < carried) {
                known
                    .notes
                    .push(format!("{} carries Python {carried}: install {version} with a version manager", shown(&os)));
            }
            need
        }
        None => Need { confidence: Confidence::Vague, ..Need::default_of(carried) },
    }
}

fn arch(known: &DecisionInput<'_>) -> Need<&'static str> {
    let of = |arch: Arch| known.which(|finding| *finding == Finding::Arch(arch));
    let (mut arm, x86) = (of(Arch::Arm64), of(Arch::Amd64));
    arm.retain(|fact| fact.strength > Strength::Weak);
    if !arm.is_empty() && x86.is_empty() {
        return Need::of(Some("aarch64"), Some("aarch64"), &arm);
    }
    if x86.is_empty() { Need::default_of("x86_64") } else { Need::of(None, Some("x86_64"), &x86) }
}

fn features(known: &DecisionInput<'_>) -> Need<Vec<Feature>> {
    let facts = known.which(|finding| matches!(finding, Finding::Feature(_)));
    let of = |least: Strength| {
        let found = facts.iter().filter(|fact| fact.strength >= least).filter_map(|fact| match fact.finding {
            Finding::Feature(feature) => Some(feature),
            _ => None,
        });
        let mut features: Vec<Feature> = found.collect();
        features.sort_unstable();
        features.dedup();
        features
    };
    let hard = Some(of(Strength::Hard)).filter(|features| !features.is_empty());
    Need::of(hard, Some(of(Strength::Target)), &facts)
}

fn special(known: &DecisionInput<'_>) -> Need<Vec<String>> {
    let facts = known.which(|finding| matches!(finding, Finding::Special(_)));
    let mut words: Vec<String> = Vec::new();
    for fact in &facts {
        if let Finding::Special(text) = &fact.finding
            && !words.contains(text)
            && words.len() < 10
        {
            words.push(text.clone());
        }
    }
    Need::of(None, Some(words), &facts)
}

struct Machine {
    cores: Need<u32>,
    ram: Need<u32>,
    disk: Need<u32>,
    hours: Need<u32>,
}

/// Sizes by class and services, then by what is written, then floors and rounding (3.4).
fn machine(known: &DecisionInput<'_>, gpu_gb: Option<u32>) -> Machine {
    let mut classes = known.which(|finding| matches!(finding, Finding::Class(_)));
    if classes.iter().any(|fact| fact.strength > Strength::Weak) {
        classes.retain(|fact| fact.strength > Strength::Weak);
    }
    let of = |fact: &&Fact| match fact.finding {
        Finding::Class(class) => Some(class),
        _ => None,
    };
    let all: Vec<Class> = classes.iter().filter_map(of).collect();
    let most =
        |part: fn(&Size) -> u32, default: u32| all.iter().map(|class| part(&class.size())).max().unwrap_or(default);
    let floor = |part: fn(&Size) -> u32| all.iter().map(|class| part(&class.floor())).max().unwrap_or(part(&FLOOR));
    let extra = services(known);
    let stated = |value: fn(&Finding) -> Option<u32>| number(known, None, value);
    let nvme = known.has(|fact| fact.finding == Finding::Feature(Feature::Nvme) && fact.strength >= Strength::Target);
    // Ten times its size in whole GB, since it is built and run there.
    let by_size = u32::try_from(known.bytes.saturating_mul(10) / 1_000_000_000).unwrap_or(u32::MAX).min(200_000);
    let add = |a: u32, b: u32| a.saturating_add(b);
    let cores = join(
        stated(cores_of),
        most(|s| s.cores, UNKNOWN.cores).max(extra.cores),
        floor(|s| s.cores),
        sizing::even,
        &classes,
    );
    let for_gpu = gpu_gb.map_or(0, sizing::ram_for_cards);
    let ram = add(most(|s| s.ram_gib, UNKNOWN.ram_gib), extra.ram_gib).max(for_gpu);
    let ram = join(stated(ram_of), ram, floor(|s| s.ram_gib), sizing::usual_ram, &classes);
    let disk = add(add(most(|s| s.disk_gb, UNKNOWN.disk_gb), extra.disk_gb), by_size);
    let disk = if nvme { add(disk, sizing::NVME_DISK) } else { disk };
    let disk = join(stated(disk_of), disk, floor(|s| s.disk_gb), sizing::usual_disk, &classes);
    let run_time = stated(hours_of);
    let hours = match run_time.target {
        Some(time) => Need { hard: None, target: Some(sizing::hours_for(time)), ..run_time },
        None => Need::of(None, Some(most(|s| s.hours, UNKNOWN.hours)), &classes),
    };
    Machine { cores, ram, disk, hours }
}

fn cores_of(finding: &Finding) -> Option<u32> {
    if let Finding::Cores(cores) = finding { Some(*cores) } else { None }
}

fn ram_of(finding: &Finding) -> Option<u32> {
    if let Finding::Ram(gib) = finding { Some(*gib) } else { None }
}

fn disk_of(finding: &Finding) -> Option<u32> {
    if let Finding::Disk(gb) = finding { Some(*gb) } else { None }
}

fn hours_of(finding: &Finding) -> Option<u32> {
    if let Finding::Hours(hours) = finding { Some(*hours) } else { None }
}

/// Joins what is written with what the kind of project wants; the larger counts and brings its evidence.
fn join(stated: Need<u32>, sized: u32, floor: u32, round: fn(u32) -> u32, classes: &[&Fact]) -> Need<u32> {
    let hard = stated.hard.unwrap_or(0).max(floor);
    let written = stated.target.unwrap_or(0);
    let target = round(sized.max(hard).max(written));
    if written >= sized {
        return Need { hard: Some(hard), target: Some(target), ..stated };
    }
    Need::of(Some(hard), Some(target), classes)
}

/// What services beside the project add, each counted once by its name. They share the machine's threads: those of the one that wants
/// most are enough.
fn services(known: &DecisionInput<'_>) -> Size {
    let mut by_name: BTreeMap<&str, (ServiceClass, Option<u32>)> = BTreeMap::new();
    for fact in known.facts.iter().filter(|fact| fact.strength > Strength::Weak) {
        if let Finding::Service(name, class, ram) = &fact.finding {
            let entry = by_name.entry(name).or_insert((*class, *ram));
            entry.1 = entry.1.max(*ram);
        }
    }
    let extra = known.facts.iter().filter_map(|fact| match fact.finding {
        Finding::ExtraRam(gib) if fact.strength > Strength::Weak => Some(gib),
        _ => None,
    });
    let mut sum = Size { cores: 0, ram_gib: extra.max().unwrap_or(0), disk_gb: 0, hours: 0 };
    for (class, ram) in by_name.values() {
        let size = class.size();
        sum.cores = sum.cores.max(size.cores);
        sum.ram_gib = sum.ram_gib.saturating_add(ram.unwrap_or(size.ram_gib));
        sum.disk_gb = sum.disk_gb.saturating_add(size.disk_gb);
    }
    if !by_name.is_empty() {
        sum.ram_gib = sum.ram_gib.saturating_add(sizing::SERVICES_RAM);
    }
    sum
}
