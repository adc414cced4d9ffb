//! The analysis as a whole: suspicious lines out, facts of every file, then the decision. Owns the order of work.

use orlop_core::hardware::gpu::Vendor;
use serde::Serialize;

use super::decide::{Known, decide};
use super::fact::{At, Fact, Finding, HARD, SOFT, Sink};
use super::injection;
use super::kind::FileKind;
use super::read;
use super::requirements::Requirements;
use super::sizing::Class;
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
    sources(scan, &cleared, &mut facts, &mut notes);
    let requirements = decide(Known { facts: &facts, bytes: scan.bytes, notes: &mut notes, advised: None }, flags);
    Analysis { requirements, notes, facts }
}

/// What is known without reading: sources for a GPU, notebooks, scripts.
fn sources(scan: &Scan, files: &[(FileKind, &str, String)], facts: &mut Vec<Fact>, notes: &mut Vec<String>) {
    let build_names = |path: &str| {
        let name = path.rsplit('/').next().unwrap_or(path);
        let built = files
            .iter()
            .filter(|(kind, _, _)| matches!(kind, FileKind::Native | FileKind::SetupPy | FileKind::Pyproject));
        built.into_iter().any(|(_, _, text)| text.contains(name) || text.contains("*.cu"))
    };
    for (paths, vendor, rule) in
        [(&scan.cuda_sources, Vendor::Nvidia, "cuda-source"), (&scan.hip_sources, Vendor::Amd, "hip-source")]
    {
        let Some(first) = paths.iter().find(|path| build_names(path)).or(paths.first()) else { continue };
        // A source that the build names is compiled; others may be samples.
        let how = if build_names(first) { HARD } else { SOFT };
        let mut sink = Sink::new(first, facts, notes);
        sink.add(At { line: 0, quote: first }, rule, Finding::Gpu(Some(vendor)), how);
        sink.add(At { line: 0, quote: first }, rule, Finding::Class(Class::Compiled), SOFT);
    }
    if scan.notebooks > 0 {
        let mut sink = Sink::new("*.ipynb", facts, notes);
        sink.add(At { line: 0, quote: "" }, "notebooks", Finding::Class(Class::Numeric), SOFT);
    } else if scan.python_sources > 0 || files.iter().any(|(kind, _, _)| *kind != FileKind::Readme) {
        let mut sink = Sink::new("", facts, notes);
        sink.add(At { line: 0, quote: "" }, "sources", Finding::Class(Class::Plain), SOFT);
    }
}
