//! The analysis as a whole: suspicious lines out, facts of every file, then the decision.

use orlop_core::hardware::gpu::Vendor;
use serde::Serialize;

use super::decide::{DecisionInput, decide};
use super::fact::{At, Fact, Finding, HARD, SOFT, Sink, Strength, WEAK};
use super::injection;
use super::kind::FileKind;
use super::place::{FileLocation, Placed, Places};
use super::read;
use super::requirements::{GPU_UNKNOWN, NOT_UNDERSTOOD, Requirements};
use super::sizing::Class;
use super::weigh::weigh;
use crate::repository::Scan;

/// What is found out about a repository.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Analysis {
    /// What a machine must have.
    #[serde(flatten)]
    pub requirements: Requirements,
    /// What was decided between contradictions, for people.
    #[serde(skip)]
    pub notes: Vec<String>,
    /// Every fact, in the order of files and lines.
    #[serde(skip)]
    pub facts: Vec<Fact>,
}

/// Suspicious lines that are listed; a hostile file may hold millions.
const MAX_FLAGS: usize = 50;

/// Files that are not understood and are listed.
const MAX_OTHER: usize = 10;

/// Analyses a scan. Pure: the same scan gives the same bytes.
#[must_use]
pub fn analyze(scan: &Scan) -> Analysis {
    let (mut facts, mut notes, mut flags) = (Vec::new(), Vec::new(), Vec::new());
    let mut files: Vec<_> = scan.files.iter().collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    let mut cleared: Vec<(FileKind, &str, String)> = Vec::new();
    for file in files {
        let (text, found) = injection::cleared(file);
        flags.extend(found);
        let mut sink = Sink::new(&file.path, &mut facts, &mut notes);
        read::read(file.kind, &text, &mut sink);
        cleared.push((file.kind, &file.path, text));
    }
    if flags.len() > MAX_FLAGS {
        let more = flags.len() - MAX_FLAGS;
        flags.truncate(MAX_FLAGS);
        flags.push(format!("{}: {more} further lines", injection::FLAG));
    }
    let others = cleared.iter().filter(|(kind, _, _)| *kind == FileKind::Other).take(MAX_OTHER);
    flags.extend(others.map(|(_, path, _)| format!("{NOT_UNDERSTOOD}:{path}")));
    if !tells_of_software(scan, &cleared) && !facts.iter().any(bears_on_cards) {
        flags.push(GPU_UNKNOWN.to_owned());
        notes.push("nothing indicates whether a GPU is needed: use --gpu N or --no-gpu".to_owned());
    }
    let placed: Vec<Placed<'_>> = cleared.iter().map(|(kind, path, text)| Placed { kind: *kind, path, text }).collect();
    let builds: Vec<(&str, &str)> =
        placed.iter().filter(|file| file.kind == FileKind::Native).map(|file| (file.path, file.text)).collect();
    let places = Places::of(&placed, &read::native::optional(&builds));
    read::settle(&mut facts);
    let mut alternatives = weigh(&mut facts, &placed, &places, &mut notes);
    sources(scan, &placed, &places, &mut facts, &mut notes);
    let known = DecisionInput { facts: &facts, bytes: scan.bytes, notes: &mut notes, advised: None };
    let mut requirements = decide(known, flags);
    alternatives.append(&mut requirements.alternatives);
    requirements.alternatives = alternatives;
    Analysis { requirements, notes, facts }
}

/// Whether something tells of which software a project is made, so that no word of a GPU means that there is none.
fn tells_of_software(scan: &Scan, files: &[(FileKind, &str, String)]) -> bool {
    let is_telling =
        |kind: FileKind| !matches!(kind, FileKind::Readme | FileKind::Ci | FileKind::Other | FileKind::Shell);
    files.iter().any(|(kind, _, _)| is_telling(*kind))
        || scan.python_sources + scan.notebooks + scan.cuda_sources.len() + scan.hip_sources.len() > 0
}

/// Whether a fact bears on a GPU.
const fn bears_on_cards(fact: &Fact) -> bool {
    matches!(fact.finding, Finding::Gpu(_) | Finding::CpuOnly | Finding::Cuda(_) | Finding::Tpu)
}

/// What is known without reading: sources for a GPU, notebooks, scripts.
fn sources(scan: &Scan, files: &[Placed<'_>], places: &Places, facts: &mut Vec<Fact>, notes: &mut Vec<String>) {
    let build_names = |path: &str| {
        let name = path.rsplit('/').next().unwrap_or(path);
        let built = files
            .iter()
            .filter(|file| matches!(file.kind, FileKind::Native | FileKind::SetupPy | FileKind::Pyproject))
            .filter(|file| places.of_path(file.path) > FileLocation::Variant);
        built.into_iter().any(|file| file.text.contains(name) || file.text.contains("*.cu"))
    };
    let built = |strength: Strength| {
        let rules = [
            "cuda-build-file",
            "cuda-architectures",
            "hip-build-file",
            "gpu-crate",
            "cuda-crate",
            "cuda-feature",
            "cuda-extension",
        ];
        facts.iter().any(|fact| fact.strength >= strength && rules.contains(&fact.rule))
    };
    // Where the build speaks of cards only within options, so do the sources.
    let is_optional = built(Strength::Weak) && !built(Strength::Target);
    for (paths, vendor, rule) in
        [(&scan.cuda_sources, Vendor::Nvidia, "cuda-source"), (&scan.hip_sources, Vendor::Amd, "hip-source")]
    {
        let near = || paths.iter().filter(|path| places.of_path(path) > FileLocation::Aside);
        let Some(first) = near().find(|path| build_names(path)).or(near().next()).or(paths.first()) else { continue };
        // A source that the build names is compiled; others may be samples.
        let how = match (is_optional || places.of_path(first) == FileLocation::Aside, build_names(first)) {
            (true, _) => WEAK,
            (false, true) => HARD,
            (false, false) => SOFT,
        };
        let mut sink = Sink::new(first, facts, notes);
        sink.add(At { line: 0, quote: first }, rule, Finding::Gpu(Some(vendor)), how);
        sink.add(At { line: 0, quote: first }, rule, Finding::Class(Class::Compiled), SOFT);
    }
    if scan.notebooks > 0 {
        let mut sink = Sink::new("*.ipynb", facts, notes);
        sink.add(At { line: 0, quote: "" }, "notebooks", Finding::Class(Class::Numeric), SOFT);
    } else if scan.python_sources > 0 || files.iter().any(|file| file.kind != FileKind::Readme) {
        let mut sink = Sink::new("", facts, notes);
        sink.add(At { line: 0, quote: "" }, "sources", Finding::Class(Class::Plain), SOFT);
    }
}
