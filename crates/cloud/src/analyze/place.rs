//! Where a file stands in a repository: at the top, in a part of it, beside it, or as one of several variants. Owns the names
//! that tell it and the choice among variants; what that does to a fact stands in `weigh`.

use std::collections::{BTreeMap, BTreeSet};

use super::kind::FileKind;
use crate::repository::scan::named_lists;

/// Where a file stands, the least telling place first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum Place {
    /// Examples, tests, documents, tools of development.
    Aside,
    /// A variant of a file that was not chosen, or what only an option that is off brings in.
    Variant,
    /// A part of the repository below another file of its kind.
    Part,
    /// The top, or nothing like it above.
    #[default]
    Root,
}

/// A file with its text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placed<'a> {
    pub(super) kind: FileKind,
    pub(super) path: &'a str,
    pub(super) text: &'a str,
}

/// The places of all files that were read.
#[derive(Debug, Default)]
pub(super) struct Places {
    by_path: BTreeMap<String, Place>,
}

impl Places {
    /// Places the files. `off` are build files that only an option brings in which is off.
    pub(super) fn of(files: &[Placed<'_>], off: &BTreeSet<String>) -> Self {
        let mut by_path: BTreeMap<String, Place> = BTreeMap::new();
        let is_all_aside = files.iter().filter(|file| tells(file.kind)).all(|file| is_aside(file));
        let aside = |file: &Placed<'_>| is_aside(file) && !(is_all_aside && is_sample(file.path));
        let main: Vec<Placed<'_>> = files.iter().copied().filter(|file| !aside(file)).collect();
        for file in files {
            by_path.insert(file.path.to_owned(), if aside(file) { Place::Aside } else { Place::Root });
        }
        for family in
            [Family::Python, Family::Container, Family::Compose, Family::Node, Family::Cargo, Family::Document]
        {
            let of: Vec<&Placed<'_>> = main.iter().filter(|file| family_of(file.kind) == Some(family)).collect();
            let Some(least) = of.iter().map(|file| depth(file.path)).min() else { continue };
            for file in of.iter().filter(|file| depth(file.path) > least) {
                by_path.insert(file.path.to_owned(), Place::Part);
            }
        }
        for kind in [FileKind::PipList, FileKind::Conda, FileKind::Dockerfile, FileKind::Compose] {
            variants(kind, &main, &mut by_path);
        }
        for path in off {
            by_path.insert(path.clone(), Place::Variant);
        }
        Self { by_path }
    }

    /// The place of a file; sources of other languages are placed by their folders.
    pub(super) fn of_path(&self, path: &str) -> Place {
        let by_folder = || if is_aside_folder(path) { Place::Aside } else { Place::Root };
        self.by_path.get(path).copied().unwrap_or_else(by_folder)
    }
}

/// Files that can stand for each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Python,
    Container,
    Compose,
    Node,
    Cargo,
    Document,
}

const fn family_of(kind: FileKind) -> Option<Family> {
    Some(match kind {
        FileKind::PipList
        | FileKind::Pyproject
        | FileKind::SetupCfg
        | FileKind::SetupPy
        | FileKind::Conda
        | FileKind::Pipfile
        | FileKind::TomlLock
        | FileKind::PipfileLock
        | FileKind::CondaLock => Family::Python,
        FileKind::Dockerfile => Family::Container,
        FileKind::Compose => Family::Compose,
        FileKind::PackageJson => Family::Node,
        FileKind::CargoToml | FileKind::CargoLock => Family::Cargo,
        FileKind::Readme => Family::Document,
        _ => return None,
    })
}

/// Whether a kind of file says of which software a project is made.
const fn tells(kind: FileKind) -> bool {
    !matches!(kind, FileKind::Readme | FileKind::Ci)
}

/// Folders whose files show, test or describe the project.
const ASIDE: [&str; 31] = [
    "example",
    "examples",
    "sample",
    "samples",
    "demo",
    "demos",
    "tutorial",
    "tutorials",
    "benchmark",
    "benchmarks",
    "bench",
    "asv_bench",
    "blog",
    "blogs",
    "posts",
    "test",
    "tests",
    "testing",
    "unittests",
    "doc",
    "docs",
    "website",
    "contrib",
    "experimental",
    "research",
    "dev",
    "ci",
    ".ci",
    ".circleci",
    "legacy",
    "scripts",
];

/// Those that are the project itself where there is nothing else.
const SAMPLES: [&str; 10] =
    ["example", "examples", "sample", "samples", "demo", "demos", "tutorial", "tutorials", "benchmark", "benchmarks"];

/// Words of a file's name that say it is for work on the project.
const DEVELOPMENT: [&str; 22] = [
    "dev",
    "develop",
    "development",
    "test",
    "tests",
    "testing",
    "doc",
    "docs",
    "lint",
    "linting",
    "ci",
    "example",
    "examples",
    "benchmark",
    "benchmarks",
    "bench",
    "tutorial",
    "tutorials",
    "typing",
    "style",
    "format",
    "debug",
];

/// Folders that only sort files.
const NEUTRAL: [&str; 20] = [
    "requirements",
    "requirement",
    "deps",
    "dependencies",
    "docker",
    ".docker",
    "dockerfiles",
    "containers",
    "container",
    "conda",
    "env",
    "envs",
    "environment",
    "environments",
    "build",
    "deploy",
    "deployment",
    "install",
    ".devops",
    "docs",
];

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

fn folders(path: &str) -> impl Iterator<Item = String> {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    folder.split('/').filter(|part| !part.is_empty()).map(str::to_ascii_lowercase)
}

fn depth(path: &str) -> usize {
    folders(path).filter(|part| !NEUTRAL.contains(&part.as_str())).count()
}

fn is_aside_folder(path: &str) -> bool {
    folders(path).any(|part| ASIDE.contains(&part.as_str()))
}

fn is_sample(path: &str) -> bool {
    folders(path).all(|part| !ASIDE.contains(&part.as_str()) || SAMPLES.contains(&part.as_str()))
}

fn is_aside(file: &Placed<'_>) -> bool {
    let name = name_of(file.path);
    match file.kind {
        FileKind::Ci | FileKind::Devcontainer => false,
        // Documents about installation and hardware speak for the whole.
        FileKind::Readme if !name.starts_with("readme") => {
            folders(file.path).any(|part| ASIDE.contains(&part.as_str()) && part != "docs" && part != "doc")
        }
        FileKind::PipList | FileKind::Conda | FileKind::Dockerfile | FileKind::Compose => {
            is_aside_folder(file.path) || words(&name).any(|word| DEVELOPMENT.contains(&word))
        }
        _ => is_aside_folder(file.path),
    }
}

fn name_of(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase()
}

fn words(name: &str) -> impl Iterator<Item = &str> {
    let stem = ["txt", "in", "yml", "yaml"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
    stem.split(['.', '-', '_', '+']).filter(|word| !word.is_empty())
}

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
fn variants(kind: FileKind, main: &[Placed<'_>], by_path: &mut BTreeMap<String, Place>) {
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
        let place = if chosen.contains(file.path) { Place::Root } else { Place::Variant };
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

/// Texts that say what is built: documents first, then containers and workflows.
fn builders<'a>(main: &'a [Placed<'a>]) -> impl Iterator<Item = &'a Placed<'a>> {
    let of = |kind: FileKind| {
        main.iter()
            .filter(move |file| file.kind == kind && (kind != FileKind::Dockerfile || suffix(file.path).is_empty()))
    };
    of(FileKind::Readme).chain(of(FileKind::Dockerfile)).chain(of(FileKind::Ci))
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

/// Where a name stands as a word of its own.
fn named_at(text: &str, name: &str) -> Option<usize> {
    text.match_indices(name).map(|(at, _)| at).find(|at| {
        let before = text.get(..*at).and_then(|text| text.chars().next_back());
        let after = text.get(at + name.len()..).and_then(|text| text.chars().next());
        let is_word = |ch: char| ch.is_alphanumeric() || "-_".contains(ch);
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(files: &[(&str, &str)]) -> String {
        let of = |(path, text)| Placed { kind: FileKind::of(path).unwrap(), path, text };
        let files: Vec<Placed<'_>> = files.iter().copied().map(of).collect();
        let places = Places::of(&files, &BTreeSet::new());
        files.iter().map(|file| format!("{:?}", places.of_path(file.path))).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_file_stands_at_the_top_in_a_part_beside_or_as_a_variant() {
        let files = [
            ("requirements.txt", ""),
            ("requirements/extra.txt", ""),
            ("requirements-dev.txt", ""),
            ("sub/requirements.txt", ""),
            ("docker/Dockerfile", ""),
            ("docker/arm64/Dockerfile", ""),
            ("examples/a/setup.py", ""),
            ("README.md", ""),
            ("docs/hardware.md", ""),
            ("docs/README.md", ""),
        ];
        assert_eq!(placed(&files), "Root Variant Aside Part Root Variant Aside Root Root Aside");
        assert_eq!(placed(&[("a/requirements.txt", ""), ("b/requirements.txt", "")]), "Root Root");
        assert_eq!(placed(&[("examples/a/requirements.txt", ""), ("README.md", "")]), "Root Root");
    }

    #[test]
    fn of_variants_without_a_plain_one_the_nearest_for_the_first_hardware_is_taken() {
        let lists = [("requirements-cpu.txt", ""), ("requirements-gpu.txt", ""), ("requirements-rocm.txt", "")];
        assert_eq!(placed(&lists), "Variant Root Variant");
        assert_eq!(placed(&[("Dockerfile.gpu", ""), ("setup.py", "")]), "Variant Root");
        assert_eq!(placed(&[("Dockerfile.gpu", ""), ("README.md", "docker build -f Dockerfile.gpu .")]), "Root Root");
        assert_eq!(
            placed(&[("Dockerfile", ""), ("Dockerfile.gpu", ""), ("README.md", "docker build -f Dockerfile.gpu .")]),
            "Root Root Root"
        );
    }
}
