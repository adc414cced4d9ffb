//! What the tree looks like: what stands at the top, headers, lengths.

use std::collections::BTreeSet;

use super::{files, none, read, rust_files};

/// Everything that may stand at the top. A new entry needs a reason that none of these can hold it.
const TOP: [&str; 18] = [
    ".ci",
    ".gitignore",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "clippy.toml",
    "crates",
    "deny.toml",
    "deploy",
    "docs",
    "examples",
    "fuzz",
    "rustfmt.toml",
    "scripts",
];

/// Of those, what comes later.
const LATER: [&str; 1] = ["deploy"];

/// A file longer than this is refused.
const LONGEST: usize = 500;
/// A file longer than this is asked whether it is two.
const LONG: usize = 400;

#[test]
fn the_top_level_is_exactly_the_allowed_list() {
    let found: BTreeSet<_> = files().iter().filter_map(|path| path.split('/').next()).collect();
    let allowed: BTreeSet<_> = TOP.into_iter().collect();
    let strange: Vec<_> = found.difference(&allowed).map(|name| format!("{name} is not on the list")).collect();
    none("top level", &strange);
    let missing = allowed.difference(&found).filter(|name| !LATER.contains(name));
    none("top level", &missing.map(|name| format!("{name} is missing")).collect::<Vec<_>>());
}

#[test]
fn every_rust_file_says_first_what_it_is() {
    let bare = rust_files().filter(|path| !read(path).starts_with("//! "));
    none("files that do not start with `//! ` and what they own", &bare.map(str::to_owned).collect::<Vec<_>>());
}

#[test]
fn no_rust_file_is_too_long() {
    let counted: Vec<_> = rust_files().map(|path| (path, read(path).lines().count())).collect();
    for (path, lines) in counted.iter().filter(|(_, lines)| *lines > LONG) {
        println!("notice: over {LONG} lines, is it one purpose? {path} ({lines})");
    }
    let over = counted.iter().filter(|(_, lines)| *lines > LONGEST);
    none("files over the limit", &over.map(|(path, lines)| format!("{path} ({lines})")).collect::<Vec<_>>());
}

#[test]
fn folders_are_modules_by_mod_rs_and_have_telling_names() {
    const EMPTY_NAMES: [&str; 4] = ["utils", "common", "helpers", "internal"];
    let mut findings = Vec::new();
    let all: BTreeSet<_> = rust_files().collect();
    for path in &all {
        let stem = path.trim_end_matches(".rs");
        if path.split(['/', '.']).any(|part| EMPTY_NAMES.contains(&part)) {
            findings.push(format!("{path}: the name says nothing"));
        }
        let tests_only = all.iter().filter(|other| other.starts_with(&format!("{stem}/")));
        if tests_only.clone().any(|other| !other.starts_with(&format!("{stem}/tests"))) {
            findings.push(format!("{path} and {stem}/ are one module: move it to {stem}/mod.rs"));
        }
    }
    none("names and folders", &findings);
}
