//! Which files of a tree are read, and how much of each.
//! Owns the choice and its result; never reads anything itself.

use std::collections::BTreeSet;

use super::source::is_invisible;
use crate::analyze::FileKind;

/// Entries of a tree that are looked at.
pub const MAX_ENTRIES: usize = 100_000;
/// Files that are read.
pub const MAX_FILES: usize = 300;
/// Package lists that others may name, for which sources leave room.
const MAX_NAMED: usize = 20;
/// Bytes that are read of all files.
pub const MAX_BYTES: usize = 4 * 1024 * 1024;
/// Bytes that are read of one file.
pub const MAX_FILE_BYTES: usize = 64 * 1024;
/// Bytes that are read of one lock file.
pub const MAX_LOCK_BYTES: usize = 1024 * 1024;
/// Bytes that are read of one source: what it imports stands at its beginning.
pub const MAX_SOURCE_BYTES: usize = 12 * 1024;
/// A file beyond this is not opened at all: a blob is unpacked as a whole before its first byte is available.
pub const MAX_BLOB_BYTES: u64 = 64 * 1024 * 1024;
/// Parts a path may have to be read.
const DEPTH: usize = 3;
/// Parts the path of a GPU source may have to be counted.
const SOURCE_DEPTH: usize = 10;
/// Rounds in which package lists may name further lists.
pub const REFERENCE_ROUNDS: usize = 3;
/// Bytes a path may have.
const MAX_PATH: usize = 1024;

/// What an entry of a tree is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A link, a submodule, a device: never read.
    Other,
}

/// An entry of a tree, by its path from the top.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its path, with `/`.
    pub path: String,
    /// What it is.
    pub kind: EntryKind,
    /// Its size.
    pub bytes: u64,
}

/// A file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScannedFile {
    /// Its path, with `/`.
    pub path: String,
    /// What it is.
    pub kind: FileKind,
    /// Its text, possibly only the beginning.
    pub text: String,
}

/// What is known of a repository.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scan {
    /// The files that were read, in the order of their paths.
    pub files: Vec<ScannedFile>,
    /// Paths of CUDA sources (`.cu`, `.cuh`).
    pub cuda_sources: Vec<String>,
    /// Paths of HIP sources (`.hip`).
    pub hip_sources: Vec<String>,
    /// How many notebooks there are.
    pub notebooks: usize,
    /// How many Python sources there are.
    pub python_sources: usize,
    /// Bytes of all regular files.
    pub bytes: u64,
    /// What was left out, and why.
    pub warnings: Vec<String>,
}

/// The choice of files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// What is known without reading a file.
    pub scan: Scan,
    /// Files to read, the most telling first, each with what it is.
    pub read: Vec<(Entry, FileKind)>,
}

/// Chooses what to read of a tree.
#[must_use]
pub fn choose(entries: &[Entry]) -> Choice {
    let mut choice = Choice { scan: Scan::default(), read: Vec::new() };
    for entry in entries.iter().filter(|entry| entry.kind == EntryKind::File && is_plain(&entry.path)) {
        choice.scan.bytes = choice.scan.bytes.saturating_add(entry.bytes);
        if is_foreign(&entry.path) || is_secret(&entry.path) {
            continue;
        }
        count_source(&mut choice.scan, &entry.path);
        if let Some(kind) = FileKind::of(&entry.path)
            && parts(&entry.path) <= DEPTH
        {
            choice.read.push((entry.clone(), kind));
        }
    }
    choice.read.sort_by(|(a, of_a), (b, of_b)| {
        (of_a.is_source(), parts(&a.path), &a.path).cmp(&(of_b.is_source(), parts(&b.path), &b.path))
    });
    if entries.len() >= MAX_ENTRIES {
        choice.scan.warnings.push(format!("only the first {MAX_ENTRIES} entries of the repository were looked at"));
    }
    // Sources fill what is left, but for some lists that others may name.
    let manifests = choice.read.iter().filter(|(_, kind)| !kind.is_source()).count();
    choice.read.truncate(manifests.max(MAX_FILES - MAX_NAMED));
    if choice.read.len() > MAX_FILES {
        let left = choice.read.len() - MAX_FILES;
        choice.scan.warnings.push(format!("{left} files were not read, {MAX_FILES} is the limit"));
        choice.read.truncate(MAX_FILES);
    }
    let before = choice.read.len();
    choice.read.retain(|(entry, _)| entry.bytes <= MAX_BLOB_BYTES);
    if choice.read.len() < before {
        choice.scan.warnings.push(format!("{} files over 64 MiB were not opened", before - choice.read.len()));
    }
    choice
}

fn count_source(scan: &mut Scan, path: &str) {
    let ending = path.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase()).unwrap_or_default();
    let near = parts(path) <= SOURCE_DEPTH;
    match ending.as_str() {
        "cu" | "cuh" if near => scan.cuda_sources.push(path.to_owned()),
        "hip" if near => scan.hip_sources.push(path.to_owned()),
        "ipynb" => scan.notebooks += 1,
        "py" => scan.python_sources += 1,
        _ => {}
    }
}

/// Whether a path can be shown as it is: bounded, and without characters that steer a terminal or hide.
fn is_plain(path: &str) -> bool {
    path.len() <= MAX_PATH && !path.chars().any(|ch| ch.is_control() || is_invisible(ch))
}

fn parts(path: &str) -> usize {
    path.split('/').count()
}

/// Folders that hold somebody else's code.
fn is_foreign(path: &str) -> bool {
    const FOREIGN: [&str; 8] =
        ["node_modules", "vendor", "third_party", "thirdparty", "site-packages", ".venv", "venv", ".git"];
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    folder.split('/').any(|part| FOREIGN.contains(&part.to_ascii_lowercase().as_str()))
}

/// Files that may hold secrets, and so are never read.
#[must_use]
pub fn is_secret(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    let name = path.rsplit('/').next().unwrap_or_default();
    name.starts_with(".env")
        || name.starts_with("id_")
        || [".netrc", ".npmrc", ".pypirc"].contains(&name)
        || [".pem", ".key", ".tfstate", ".kdbx"].iter().any(|ending| name.ends_with(ending))
        || name.contains("credentials")
}

/// How much of a file is read, given what is left of the whole.
#[must_use]
pub fn allowance(kind: FileKind, left: usize) -> usize {
    let most = match kind {
        kind if kind.is_lock() => MAX_LOCK_BYTES,
        FileKind::PythonSource => MAX_SOURCE_BYTES,
        _ => MAX_FILE_BYTES,
    };
    most.min(left)
}

/// Text of what was read, cut to a limit; nothing for a binary file. Bytes that are no UTF-8 are replaced.
#[must_use]
pub fn text_of(bytes: &[u8], limit: usize) -> Option<String> {
    let bytes = bytes.get(..limit).unwrap_or(bytes);
    if bytes.contains(&0) {
        return None;
    }
    let text = String::from_utf8_lossy(bytes);
    Some(text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned())
}

/// Lists that the package lists read so far name (`-r`, `-c`) and that were not read: paths inside the repository.
#[must_use]
pub fn referenced(files: &[ScannedFile]) -> BTreeSet<String> {
    let known: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
    let lists = files.iter().filter(|file| file.kind == FileKind::PipList);
    let named = lists.flat_map(|file| named_lists(&file.path, &file.text));
    named.filter(|path| !known.contains(path.as_str()) && !is_secret(path)).collect()
}

/// Lists that a package list names (`-r`, `-c`), as paths inside the repository.
#[must_use]
pub fn named_lists(path: &str, text: &str) -> Vec<String> {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let lines = text.lines().filter_map(|line| {
        let line = line.trim();
        let options = ["-r", "--requirement", "-c", "--constraint"];
        let rest = options.iter().find_map(|option| {
            let rest = line.strip_prefix(option)?;
            rest.starts_with([' ', '\t', '=']).then_some(rest).or((option.len() == 2).then_some(rest))
        })?;
        rest.trim_start_matches(['=', ' ', '\t']).split_whitespace().next()
    });
    lines.filter_map(|target| inside(folder, target)).collect()
}

/// A path relative to a folder of the repository; nothing if it leads out of it.
fn inside(folder: &str, target: &str) -> Option<String> {
    if target.starts_with('/') || target.contains(['\\', ':']) || !is_plain(target) {
        return None;
    }
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, bytes: u64) -> Entry {
        Entry { path: path.to_owned(), kind: EntryKind::File, bytes }
    }

    fn chosen(entries: &[Entry]) -> Vec<String> {
        choose(entries).read.into_iter().map(|(entry, _)| entry.path).collect()
    }

    #[test]
    fn only_regular_files_at_most_three_parts_deep_are_read() {
        let link = Entry { kind: EntryKind::Other, ..file("requirements.txt", 5) };
        let entries =
            [file("a/b/README.md", 1), file("a/b/c/README.md", 1), link, file("README.md", 1), file("main.py", 7)];
        assert_eq!(chosen(&entries), ["README.md", "a/b/README.md", "main.py"], "sources come last");
        let scan = choose(&entries).scan;
        assert_eq!((scan.bytes, scan.python_sources), (10, 1), "links have no size");
    }

    #[test]
    fn gpu_sources_count_ten_parts_deep() {
        let deep = |parts: usize| format!("{}k.cu", "a/".repeat(parts - 1));
        let scan = choose(&[file(&deep(10), 1), file(&deep(11), 1), file("k.cuh", 1), file("a/k.hip", 1)]).scan;
        assert_eq!((scan.cuda_sources.len(), scan.hip_sources.len()), (2, 1));
    }

    #[test]
    fn files_that_may_hold_secrets_are_never_read() {
        for path in [
            ".env",
            ".env.production",
            "a/.env.local",
            "server.pem",
            "x.key",
            "id_rsa",
            ".ssh/id_ed25519.pub",
            ".netrc",
            ".npmrc",
            ".pypirc",
            "aws-credentials.yml",
            "conf/Credentials.json",
            "terraform.tfstate",
            "pw.kdbx",
            "KEY.PEM",
        ] {
            assert!(is_secret(path), "{path}");
        }
        assert!(!is_secret("environment.yml") && !is_secret("README.md"));
        assert!(chosen(&[file("requirements-credentials.txt", 1)]).is_empty());
        let list =
            ScannedFile { path: "requirements.txt".into(), kind: FileKind::PipList, text: "-r .env\n-r id_rsa".into() };
        assert!(referenced(&[list]).is_empty());
    }

    #[test]
    fn at_most_300_files_the_shallow_ones_first() {
        let mut entries: Vec<Entry> = (0..400).map(|n| file(&format!("p{n:03}/requirements.txt"), 1)).collect();
        entries.push(file("z.dockerfile", 1));
        let choice = choose(&entries);
        assert_eq!(choice.read.len(), 300);
        assert_eq!(choice.read[0].0.path, "z.dockerfile");
        insta::assert_snapshot!(choice.scan.warnings.join("; "), @"101 files were not read, 300 is the limit");
    }

    #[test]
    fn huge_trees_and_huge_files_are_bounded_with_a_warning() {
        let entries: Vec<Entry> = (0..MAX_ENTRIES).map(|n| file(&format!("f{n}"), 1)).collect();
        assert!(choose(&entries).scan.warnings[0].contains("100000 entries"));
        let choice = choose(&[file("README.md", MAX_BLOB_BYTES + 1), file("INSTALL", 1)]);
        assert_eq!(choice.read.len(), 1);
        assert!(choice.scan.warnings[0].contains("64 MiB"));
    }

    #[test]
    fn text_is_cut_replaced_or_skipped() {
        assert_eq!(text_of(b"abc", 2).as_deref(), Some("ab"));
        assert_eq!(text_of(b"a\xff", 9).as_deref(), Some("a\u{fffd}"));
        assert_eq!(text_of(b"a\0b", 9), None);
        assert_eq!(text_of("\u{feff}x".as_bytes(), 9).as_deref(), Some("x"));
        assert_eq!(allowance(FileKind::Readme, usize::MAX), 64 * 1024);
        assert_eq!(allowance(FileKind::TomlLock, usize::MAX), 1024 * 1024);
        assert_eq!(allowance(FileKind::TomlLock, 7), 7);
    }

    #[test]
    fn lists_may_name_lists_inside_the_repository() {
        let text = "-r base.txt\n--requirement=../gpu.txt\n-c ../../etc/passwd\n-r /etc/passwd\n-r https://x/y.txt\n-rx.txt\n-r a/../b.txt";
        let list = ScannedFile { path: "deps/requirements.txt".into(), kind: FileKind::PipList, text: text.into() };
        let found: Vec<String> = referenced(&[list]).into_iter().collect();
        assert_eq!(found, ["deps/b.txt", "deps/base.txt", "deps/x.txt", "gpu.txt"]);
    }

    #[test]
    fn paths_that_steer_a_terminal_are_left_out() {
        assert!(
            chosen(&[file("a\x1b[2J/README.md", 1), file("a\n/README.md", 1), file("a\u{202e}/README.md", 1)])
                .is_empty()
        );
    }

    #[test]
    fn code_of_others_is_left_out() {
        assert!(
            chosen(&[
                file("node_modules/x/package.json", 1),
                file("vendor/setup.py", 1),
                file("third_party/a/CMakeLists.txt", 1)
            ])
            .is_empty()
        );
    }
}
