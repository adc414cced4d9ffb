//! Where a file stands in a repository: at the top, in a part of it, beside it, or as one of several variants. Owns the names
//! that tell it; what that does to a fact stands in `weigh`.

use std::collections::{BTreeMap, BTreeSet};

use super::kind::FileKind;
use super::variant;

/// Where a file stands, the least telling place first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum FileLocation {
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
    by_path: BTreeMap<String, FileLocation>,
}

impl Places {
    /// Places the files. `off` are build files that only an option brings in which is off.
    pub(super) fn of(files: &[Placed<'_>], off: &BTreeSet<String>) -> Self {
        let mut by_path: BTreeMap<String, FileLocation> = BTreeMap::new();
        let is_all_aside = files.iter().filter(|file| tells(file.kind)).all(|file| is_aside(file));
        let aside = |file: &Placed<'_>| is_aside(file) && !(is_all_aside && is_sample(file.path));
        let main: Vec<Placed<'_>> = files.iter().copied().filter(|file| !aside(file)).collect();
        for file in files {
            by_path.insert(file.path.to_owned(), if aside(file) { FileLocation::Aside } else { FileLocation::Root });
        }
        for family in
            [Family::Python, Family::Container, Family::Compose, Family::Node, Family::Cargo, Family::Document]
        {
            let of: Vec<&Placed<'_>> = main.iter().filter(|file| family_of(file.kind) == Some(family)).collect();
            let Some(least) = of.iter().map(|file| depth_of(file)).min() else { continue };
            for file in of.iter().filter(|file| depth_of(file) > least) {
                by_path.insert(file.path.to_owned(), FileLocation::Part);
            }
        }
        for kind in [FileKind::PipList, FileKind::Conda, FileKind::Dockerfile, FileKind::Compose] {
            variant::choose(kind, &main, &mut by_path);
        }
        for path in off {
            by_path.insert(path.clone(), FileLocation::Variant);
        }
        Self { by_path }
    }

    /// Whether the top is in another language than Python, so that a script below it speaks for itself only.
    pub(super) fn is_foreign(files: &[Placed<'_>]) -> bool {
        let at_top = |of: &dyn Fn(FileKind) -> bool| files.iter().any(|file| of(file.kind) && depth(file.path) == 0);
        let is_other = |kind: FileKind| {
            matches!(family_of(kind), Some(Family::Node | Family::Cargo))
                || matches!(
                    kind,
                    FileKind::Native | FileKind::Jvm | FileKind::Compiled | FileKind::Julia | FileKind::RPackage
                )
        };
        at_top(&is_other) && !at_top(&|kind| family_of(kind) == Some(Family::Python) || kind.is_source())
    }

    /// The place of a file; sources of other languages are placed by their folders.
    pub(super) fn of_path(&self, path: &str) -> FileLocation {
        let by_folder = || if is_aside_folder(path) { FileLocation::Aside } else { FileLocation::Root };
        self.by_path.get(path).copied().unwrap_or_else(by_folder)
    }
}

/// Files that can stand for each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    Python,
    Container,
    Compose,
    Node,
    Cargo,
    Document,
}

pub(super) const fn family_of(kind: FileKind) -> Option<Family> {
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

pub(super) fn folders(path: &str) -> impl Iterator<Item = String> {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    folder.split('/').filter(|part| !part.is_empty()).map(str::to_ascii_lowercase)
}

pub(super) fn depth(path: &str) -> usize {
    folders(path).filter(|part| !NEUTRAL.contains(&part.as_str())).count()
}

/// Folders above a file; of a document all of them, but for those of documents about the whole.
pub(super) fn depth_of(file: &Placed<'_>) -> usize {
    match file.kind {
        FileKind::Readme => folders(file.path).filter(|part| part != "docs" && part != "doc").count(),
        _ => depth(file.path),
    }
}

fn is_aside_folder(path: &str) -> bool {
    folders(path).any(|part| is_aside_name(&part))
}

/// Whether a folder's name, or a word at either end of it, says that its files are beside the project.
fn is_aside_name(part: &str) -> bool {
    let ends = ["example", "examples", "docs", "test", "tests", "benchmark", "benchmarks", "tutorials"];
    let mut words = part.split(['-', '_']);
    let first = words.next().unwrap_or_default();
    ASIDE.contains(&part) || ends.contains(&first) || words.next_back().is_some_and(|last| ends.contains(&last))
}

fn is_sample(path: &str) -> bool {
    folders(path).all(|part| !is_aside_name(&part) || SAMPLES.iter().any(|sample| part.contains(sample)))
}

fn is_aside(file: &Placed<'_>) -> bool {
    let name = name_of(file.path);
    match file.kind {
        FileKind::Ci | FileKind::Devcontainer => false,
        // Documents about installation and hardware speak for the whole.
        FileKind::Readme if !name.starts_with("readme") => {
            folders(file.path).any(|part| is_aside_name(&part) && part != "docs" && part != "doc")
        }
        FileKind::PipList | FileKind::Conda | FileKind::Dockerfile | FileKind::Compose => {
            is_aside_folder(file.path) || words(&name).any(|word| DEVELOPMENT.contains(&word))
        }
        _ => is_aside_folder(file.path),
    }
}

pub(super) fn name_of(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase()
}

pub(super) fn words(name: &str) -> impl Iterator<Item = &str> {
    let stem = ["txt", "in", "yml", "yaml"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
    stem.split(['.', '-', '_', '+']).filter(|word| !word.is_empty())
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
