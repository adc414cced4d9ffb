//! That our libraries leave the JSON of their user's program alone. Cargo builds one `serde_json` for a whole program, with every
//! feature that any crate of it asks for: one that orders members otherwise or reads numbers otherwise would do so everywhere.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::graph::EDGES;
use super::{metadata, none, output, root};

/// Features that only add functions.
const HARMLESS: [&str; 4] = ["alloc", "default", "raw_value", "std"];

/// What `orlop/testing` turns on besides, so that tests and programs share one build. It adds a function too: texts nest as deep
/// as before unless the program calls it.
const TESTING: &str = "unbounded_depth";

/// What is turned on of `serde_json` by a package with these features and all that it is built of, without what its own tests need.
fn turned_on(package: &str, features: &str) -> BTreeSet<String> {
    let selected = ["tree", "--locked", "-p", package, "--no-default-features", "--features", features];
    let shown = ["-e", "normal,build", "--prefix", "none", "--format", "{p} [{f}]"];
    let tree = output("cargo", &[&selected[..], &shown[..]].concat());
    let of_json = tree.lines().filter_map(|line| line.strip_prefix("serde_json v"));
    let lists = of_json.filter_map(|line| line.split_once('[')?.1.split_once(']'));
    lists.flat_map(|(list, _)| list.split(',')).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[test]
fn no_library_turns_on_a_feature_of_serde_json_that_its_user_would_notice() {
    let mut findings = Vec::new();
    for (name, _) in EDGES {
        let package = metadata().workspace_packages().into_iter().find(|package| package.name.as_str() == name);
        let all: Vec<_> = package.expect("the workspace has it").features.keys().map(String::as_str).collect();
        let users = all.iter().copied().filter(|feature| *feature != "testing").collect::<Vec<_>>().join(",");
        for (features, more) in [(users, None), (all.join(","), (name == "orlop").then_some(TESTING))] {
            let on = turned_on(name, &features);
            assert!(on.contains("std"), "cargo tree shows what is on: {on:?}");
            let unexpected = on.iter().filter(|on| !HARMLESS.contains(&on.as_str()) && more != Some(on.as_str()));
            findings.extend(unexpected.map(|on| format!("{name} with `{features}` turns on serde_json/{on}")));
        }
    }
    none("a library changes the JSON of its user's program", &findings);
}

/// Prints what `serde_json` does in this build.
const PROGRAM: &str = r#"
fn main() {
    println!("{}", serde_json::json!({"b": 1, "a": 2}));
    for text in ["0.12345678901234566", "1.2074682189583555e-288", "9.609167804614495e290", "123456789012345678901234567890"] {
        println!("{:?}", serde_json::from_str::<serde_json::Value>(text));
    }
    println!("{:?}", serde_json::from_str::<serde_json::Value>(&"[".repeat(200)));
}
"#;

/// What the program prints, built with these dependencies besides `serde_json`. Built files are kept for the next run.
fn output_of(name: &str, dependencies: &str) -> String {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("json");
    let folder = place.join(name);
    fs::create_dir_all(folder.join("src")).expect("the folder can be made");
    let manifest = format!(
        "[package]\nname = \"{name}\"\nedition = \"2024\"\n\n[workspace]\n\n[profile.dev]\ndebug = false\n\n\
         [dependencies]\nserde_json = \"1\"\n{dependencies}"
    );
    fs::write(folder.join("Cargo.toml"), manifest).expect("the manifest can be written");
    fs::write(folder.join("src/main.rs"), PROGRAM).expect("the program can be written");
    // The versions that are here: nothing is fetched.
    fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock")).expect("the lock file can be copied");
    let mut cargo = Command::new("cargo");
    cargo.args(["run", "--quiet", "--offline"]).current_dir(&folder).env("CARGO_TARGET_DIR", place.join("target"));
    // Users build with the plain compiler.
    let done = cargo.env_remove("RUSTC_WORKSPACE_WRAPPER").output().expect("cargo starts");
    assert!(done.status.success(), "{name} failed:\n{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("output is UTF-8")
}

#[test]
fn a_program_writes_and_reads_the_same_json_with_our_library_as_without() {
    let path = root().join("crates/core");
    let with = output_of("with", &format!("orlop-core = {{ path = {path:?} }}\n"));
    assert_eq!(with.lines().next(), Some(r#"{"a":2,"b":1}"#));
    assert_eq!(with, output_of("without", ""));
}
