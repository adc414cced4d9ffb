//! Repositories written for tests, and the hard facts and ranges expected of them.

mod containers;
mod corpus;
mod launched;
mod laws;
mod native;
mod prose;
mod python;
pub(super) mod repositories;
mod trees;
mod weight;

use super::*;
use crate::repository::scan::{self, Entry, EntryKind};
use crate::repository::{Scan, ScannedFile};

/// A repository of these files, scanned as an adapter scans one.
pub(super) fn scanned(files: &[(&str, &str)]) -> Scan {
    let entries: Vec<Entry> = files
        .iter()
        .map(|(path, text)| Entry { path: (*path).to_owned(), kind: EntryKind::File, bytes: text.len() as u64 })
        .collect();
    let choice = scan::choose(&entries);
    let mut scan = choice.scan;
    for (entry, kind) in choice.read {
        let text = files.iter().find(|(path, _)| *path == entry.path).unwrap().1.to_owned();
        scan.files.push(ScannedFile { path: entry.path, kind, text });
    }
    scan
}

pub(super) fn analysed(files: &[(&str, &str)]) -> Analysis {
    analyze(&scanned(files))
}

/// Holds a repository against words such as `gpu! nvidia vram=16..24 cuda=11.8 os=ubuntu-22.04 ram!=64 flag=legacy`.
///
/// `gpu!` a GPU by hard evidence, `gpu` by soft, `cpu` none; `x!=N` a minimum of exactly N; `x=A..B` a wish within; what
/// is not named does not matter.
pub(super) fn expect(name: &str, files: &[(&str, &str)], wanted: &str) {
    holds(name, &analysed(files), wanted);
}

/// The same of an analysis.
pub(super) fn holds(name: &str, analysis: &Analysis, wanted: &str) {
    let shown = || format!("{name}: {wanted}\n{}\n{:#?}", serde_json::to_string(analysis).unwrap(), analysis.notes);
    let broken = broken(analysis, wanted);
    assert!(broken.is_empty(), "{broken:?} does not hold of {}", shown());
}

/// The words that do not hold.
pub(super) fn broken<'w>(analysis: &Analysis, wanted: &'w str) -> Vec<&'w str> {
    let r = &analysis.requirements;
    let mut broken = Vec::new();
    for word in wanted.split_whitespace() {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let text = |found: Option<String>| found.unwrap_or_else(|| "?".to_owned()) == value;
        let within = |found: Option<u32>| {
            let (from, to) = value.split_once("..").unwrap_or((value, value));
            found.is_some_and(|found| (from.parse().unwrap()..=to.parse().unwrap()).contains(&found))
        };
        let exact = |found: Option<u32>| found.map_or("?".to_owned(), |found| found.to_string()) == value;
        let holds = match key {
            "gpu!" => r.gpu_required.hard == Some(true) && r.wants_gpu(),
            "gpu" => r.gpu_required.hard.is_none() && r.wants_gpu(),
            "cpu" => !r.wants_gpu() && r.gpu_required.hard.is_none() && r.gpu_memory_gb.target.is_none(),
            "nvidia" | "amd" => r.gpu_vendor.target.map(|vendor| vendor.to_string()).as_deref() == Some(key),
            "rocm" => r.rocm_required.target == Some(true) && r.cuda_required.target == Some(false),
            "vram" => within(r.gpu_memory_gb.target),
            "vram!" => exact(r.gpu_memory_gb.hard),
            "cards" => within(r.gpu_count.target),
            "cards!" => exact(r.gpu_count.hard),
            "cuda" => text(r.cuda_version.target.map(|version| version.to_string())),
            "os" => {
                text(Some(format!("{}-{}", r.os_type.target.unwrap().name(), r.os_version.target.clone().unwrap())))
            }
            "py" => text(r.python_version.target.map(|version| version.to_string())),
            "arch" => text(r.arch.target.map(str::to_owned)),
            "cores" => within(r.cpu_cores.target),
            "cores!" => exact(r.cpu_cores.hard),
            "ram" => within(r.ram_gb.target),
            "ram!" => exact(r.ram_gb.hard),
            "disk" => within(r.disk_gb.target),
            "disk!" => exact(r.disk_gb.hard),
            "hours" => within(r.duration_hours.target),
            "feature" => {
                r.features.target.iter().flatten().any(|feature| format!("{feature:?}").to_lowercase() == value)
            }
            "special" => r.special_requirements.target.iter().flatten().any(|words| words.replace(' ', "-") == value),
            "flag" => r.flags.iter().any(|flag| flag.contains(value)),
            "noflag" => !r.flags.iter().any(|flag| flag.contains(value)),
            "alternative" => r.alternatives.iter().any(|said| said.contains(value)),
            "note" => analysis.notes.iter().any(|note| note.contains(value)),
            _ => panic!("unknown word {word}"),
        };
        if !holds {
            broken.push(word);
        }
    }
    broken
}
