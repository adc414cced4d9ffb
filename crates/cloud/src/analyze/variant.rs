//! Variants of a file: `Dockerfile` and `Dockerfile-arm64`, lists and environments for different hardware. Owns the names that
//! tell them apart and the choice among them; the others are alternatives.

use std::collections::{BTreeMap, BTreeSet};

use super::kind::FileKind;
use super::place::{Family, FileLocation, Placed, depth, depth_of, family_of, folders, name_of, words};
use crate::repository::scan::named_lists;

/// Words of a name that make no variant.
const GENERIC: [&str; 32] = [
    "requirements",
    "requirement",
    "reqs",
    "constraints",
    "constraint",
    "base",
    "main",
    "common",
    "core",
    "default",
    "prod",
    "production",
    "runtime",
    "install",
    "build",
    "all",
    "full",
    "lock",
    "pip",
    "environment",
    "env",
    "conda",
    "dockerfile",
    "containerfile",
    "docker",
    "compose",
    "override",
    "release",
    "latest",
    "app",
    "python",
    "general",
];

/// Words that name hardware, the one that is taken first of several variants first.
const HARDWARE: [&str; 16] = [
    "cuda", "gpu", "nvidia", "rocm", "amd", "hip", "cpu", "intel", "xpu", "tpu", "neuron", "arm64", "aarch64", "arm",
    "jetson", "ppc64le",
];

/// The words that make a file a variant: of its name, and hardware in the names of its folders.
fn suffix(path: &str) -> Vec<String> {
    let name = name_of(path);
    let own = words(&name).filter(|word| !GENERIC.contains(word)).map(str::to_owned);
    let above = folders(path).flat_map(|part| {
        part.split(['-', '_']).filter(|word| HARDWARE.contains(word)).map(str::to_owned).collect::<Vec<_>>()
    });
    own.chain(above).collect()
}

/// The place of the hardware a variant is for among those that are taken first.
fn preference(suffix: &[String]) -> Option<usize> {
    suffix.iter().filter_map(|word| HARDWARE.iter().position(|hardware| word.starts_with(hardware))).min()
}

/// Chooses among the variants of a kind: the plain one with what it includes, else the one the documents build, else the
/// nearest.
pub(super) fn choose(kind: FileKind, main: &[Placed<'_>], by_path: &mut BTreeMap<String, FileLocation>) {
    let of: Vec<&Placed<'_>> = main.iter().filter(|file| file.kind == kind).collect();
    let (plain, other): (Vec<&Placed<'_>>, Vec<&Placed<'_>>) = of.iter().partition(|file| suffix(file.path).is_empty());
    if other.is_empty() {
        return;
    }
    let mut chosen: BTreeSet<&str> = BTreeSet::new();
    if !plain.iter().any(|file| is_built(file, main)) {
        chosen.extend(first_built(&other, main));
    }
    if plain.is_empty() && chosen.is_empty() {
        chosen = nearest(&other, has_another_manifest(kind, main));
    }
    // What a chosen list includes belongs to it.
    let mut open: Vec<&Placed<'_>> =
        of.iter().copied().filter(|file| chosen.contains(file.path) || suffix(file.path).is_empty()).collect();
    while let Some(file) = open.pop() {
        let named = if kind == FileKind::PipList { named_lists(file.path, file.text) } else { Vec::new() };
        for list in other.iter().copied().filter(|list| named.iter().any(|path| path == list.path)) {
            if chosen.insert(list.path) {
                open.push(list);
            }
        }
    }
    for file in other {
        let place = if chosen.contains(file.path) { FileLocation::Root } else { FileLocation::Variant };
        by_path.insert(file.path.to_owned(), place);
    }
}

/// The nearest variants; of those for different hardware the first one. None where all are for certain hardware and another
/// manifest tells what the project needs.
fn nearest<'a>(other: &[&Placed<'a>], has_another: bool) -> BTreeSet<&'a str> {
    if has_another && other.iter().all(|file| preference(&suffix(file.path)).is_some()) {
        return BTreeSet::new();
    }
    let least = other.iter().map(|file| depth(file.path)).min();
    let near = || other.iter().filter(|file| Some(depth(file.path)) == least);
    let best = near().filter_map(|file| preference(&suffix(file.path))).min();
    let is_first = |file: &&&Placed<'a>| preference(&suffix(file.path)).is_none_or(|place| Some(place) == best);
    near().filter(is_first).map(|file| file.path).collect()
}

/// Whether a manifest of another kind tells what the project needs.
fn has_another_manifest(kind: FileKind, main: &[Placed<'_>]) -> bool {
    let is_list = |file: &&Placed<'_>| {
        matches!(family_of(file.kind), Some(Family::Python | Family::Node | Family::Cargo))
            || matches!(file.kind, FileKind::Native | FileKind::Jvm | FileKind::Compiled)
    };
    main.iter().any(|file| {
        file.kind != kind && is_list(&file) && suffix(file.path).iter().all(|word| !HARDWARE.contains(&word.as_str()))
    })
}

/// Texts that are looked through for what is built.
const MAX_BUILDERS: usize = 12;

/// Texts that say what is built: documents first, then containers and workflows.
fn builders<'a>(main: &'a [Placed<'a>]) -> impl Iterator<Item = &'a Placed<'a>> {
    let of = |kind: FileKind| {
        main.iter()
            .filter(move |file| file.kind == kind && (kind != FileKind::Dockerfile || suffix(file.path).is_empty()))
    };
    let documents = of(FileKind::Readme).filter(|file| depth_of(file) == 0);
    documents.chain(of(FileKind::Dockerfile)).chain(of(FileKind::Ci)).take(MAX_BUILDERS)
}

fn is_built(file: &Placed<'_>, main: &[Placed<'_>]) -> bool {
    let name = file.path.rsplit('/').next().unwrap_or(file.path);
    builders(main).any(|by| {
        by.text.lines().any(|line| match file.kind {
            FileKind::Dockerfile => line.contains("docker build") && !line.contains(" -f") && !line.contains("--file"),
            FileKind::Compose => line.contains("compose up"),
            _ => named_at(line, name).is_some(),
        })
    })
}

/// The variant that is named first where something is built.
fn first_built<'a>(other: &[&Placed<'a>], main: &[Placed<'_>]) -> Option<&'a str> {
    builders(main).find_map(|by| {
        let named = other.iter().filter_map(|file| {
            let name = file.path.rsplit('/').next().unwrap_or(file.path);
            Some((named_at(by.text, name)?, file.path))
        });
        named.min().map(|(_, path)| path)
    })
}

/// Where a name stands as a separate word.
fn named_at(text: &str, name: &str) -> Option<usize> {
    text.match_indices(name).map(|(at, _)| at).find(|at| {
        let before = text.get(..*at).and_then(|text| text.chars().next_back());
        let after = text.get(at + name.len()..).and_then(|text| text.chars().next());
        let is_word = |ch: char| ch.is_alphanumeric() || "-_".contains(ch);
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}
