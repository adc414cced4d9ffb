//! What the manifests look like: versions at the root only, each with the reason why it is there.

use std::collections::BTreeSet;

use super::{PEERS, files, metadata, none, read};

/// Lines with their numbers, and the section of a manifest they stand in.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str, &str)> {
    let mut section = "";
    text.lines().enumerate().filter_map(move |(number, line)| {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
            return None;
        }
        let entry = !line.trim().is_empty() && !line.starts_with('#') && !line.starts_with(' ');
        entry.then_some((number + 1, section, line))
    })
}

fn manifests() -> impl Iterator<Item = &'static str> {
    let all = files().iter().map(String::as_str).filter(|path| path.ends_with("/Cargo.toml"));
    all.filter(|path| !path.starts_with(PEERS))
}

#[test]
fn versions_stand_at_the_root_only() {
    let mut findings = Vec::new();
    for path in manifests() {
        let text = read(path);
        for (number, section, line) in lines(&text) {
            let dependency = section.split('.').next_back().is_some_and(|last| last.ends_with("dependencies"));
            let nested = section.contains("dependencies.");
            // A package may turn on features of its own for its tests.
            let shared = line.contains("workspace = true") || line.contains("path = \".\"");
            if nested || dependency && !shared {
                findings.push(format!("{path}:{number}: {line}"));
            }
        }
    }
    none("dependencies that do not say `workspace = true` on one line", &findings);
}

#[test]
fn every_dependency_at_the_root_says_what_it_is_for() {
    let text = read("Cargo.toml");
    let dependencies = lines(&text).filter(|(_, section, _)| *section == "workspace.dependencies");
    let foreign: Vec<_> = dependencies.filter(|(_, _, line)| !line.contains("path = ")).collect();
    assert!(!foreign.is_empty(), "the root lists dependencies");
    let mute = foreign.iter().filter(|(_, _, line)| !line.contains(" # "));
    let mute: Vec<_> = mute.map(|(number, _, line)| format!("Cargo.toml:{number}: {line}")).collect();
    none("dependencies without a comment at the end of their line", &mute);
}

#[test]
fn every_dependency_at_the_root_is_used_by_a_package() {
    let used: BTreeSet<_> =
        metadata().workspace_packages().iter().flat_map(|p| p.dependencies.iter().map(|d| d.name.clone())).collect();
    let text = read("Cargo.toml");
    let dependencies = lines(&text).filter(|(_, section, _)| *section == "workspace.dependencies");
    let foreign = dependencies.filter(|(_, _, line)| !line.contains("path = "));
    let names = foreign.filter_map(|(_, _, line)| line.split([' ', '.']).next());
    let idle: Vec<_> = names.filter(|name| !used.contains(*name)).map(str::to_owned).collect();
    none("dependencies at the root that no package uses", &idle);
}

#[test]
fn every_package_takes_the_lints_and_facts_of_the_workspace() {
    let mut findings = Vec::new();
    for path in manifests() {
        let text = read(path);
        for needed in ["[lints]\nworkspace = true", "version.workspace = true", "edition.workspace = true"] {
            if !text.contains(needed) {
                findings.push(format!("{path}: lacks `{}`", needed.replace('\n', " ")));
            }
        }
    }
    none("manifests that do not follow the root", &findings);
}

#[test]
fn scripts_are_executable_and_stop_at_the_first_error() {
    let scripts = files().iter().filter(|path| path.starts_with("scripts/") || path.starts_with(".ci/"));
    let mut findings = Vec::new();
    for path in scripts {
        let text = read(path);
        if !text.starts_with("#!") {
            continue;
        }
        if !text.contains("set -eu") {
            findings.push(format!("{path}: no `set -eu`"));
        }
        let mode = std::fs::metadata(super::root().join(path)).expect("the file is there").permissions();
        if std::os::unix::fs::PermissionsExt::mode(&mode) & 0o111 == 0 {
            findings.push(format!("{path}: not executable"));
        }
    }
    none("scripts", &findings);
}
