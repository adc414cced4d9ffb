//! What depends on what: edges between our packages, and what the pure ones pull in.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, Package};

use super::{PURE, metadata, none, output};

/// Our packages, and which of them each builds on. Arrows point down only.
pub(super) const EDGES: [(&str, &[&str]); 6] = [
    ("orlop-core", &[]),
    ("orlop-dag", &["orlop-core"]),
    ("orlop-scheduler", &["orlop-core"]),
    ("orlop-k8s", &["orlop-core", "orlop-dag"]),
    ("orlop-cloud", &["orlop-core"]),
    ("orlop", &["orlop-cloud", "orlop-core", "orlop-dag", "orlop-k8s", "orlop-scheduler"]),
];

/// Packages that use the others and that nothing uses.
const LEAVES: [&str; 2] = ["orlop-examples", "orlop-fuzz"];

/// Crates that bring a runtime, I/O, a clock, randomness or a second opinion on either.
const IMPURE: &[&str] = &[
    "async-std",
    "axum",
    "bollard",
    "chrono",
    "fastrand",
    "futures",
    "futures-executor",
    "getrandom",
    "hyper",
    "instant",
    "k8s-openapi",
    "kube",
    "kube-client",
    "mio",
    "nix",
    "parking_lot",
    "rand",
    "rand_core",
    "rayon",
    "reqwest",
    "rusqlite",
    "rustix",
    "rustls",
    "smol",
    "socket2",
    "tempfile",
    "time",
    "tokio",
    "tokio-util",
    "tonic",
    "tracing-subscriber",
    "uuid",
    "walkdir",
    "web-time",
];

fn ours() -> BTreeMap<&'static str, &'static Package> {
    metadata().workspace_packages().into_iter().map(|package| (package.name.as_str(), package)).collect()
}

/// Our other packages that `package` depends on, by kind of dependency.
fn edges(package: &Package, kinds: &[DependencyKind]) -> BTreeSet<String> {
    let ours = ours();
    let wanted = package.dependencies.iter().filter(|d| kinds.contains(&d.kind) && d.name != package.name.as_str());
    wanted.map(|d| d.name.clone()).filter(|name| ours.contains_key(name.as_str())).collect()
}

#[test]
fn the_workspace_has_exactly_the_known_packages() {
    let known: BTreeSet<_> = EDGES.iter().map(|(name, _)| *name).chain(LEAVES).collect();
    assert_eq!(ours().into_keys().collect::<BTreeSet<_>>(), known);
}

#[test]
fn packages_build_on_exactly_what_the_architecture_says() {
    let ours = ours();
    for (name, allowed) in EDGES {
        let package = ours[name];
        let found = edges(package, &[DependencyKind::Normal, DependencyKind::Build]);
        let allowed: BTreeSet<_> = allowed.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(found, allowed, "what {name} builds on");
        let tests = edges(package, &[DependencyKind::Development]);
        assert!(tests.is_subset(&allowed), "tests of {name} use {tests:?}, {name} may use {allowed:?}");
    }
}

#[test]
fn nothing_builds_on_examples_or_fuzz() {
    for (name, package) in ours() {
        let all = edges(package, &[DependencyKind::Normal, DependencyKind::Build, DependencyKind::Development]);
        assert!(LEAVES.iter().all(|leaf| !all.contains(*leaf)), "{name} uses one of {LEAVES:?}");
    }
}

#[test]
fn pure_crates_pull_in_nothing_impure_with_any_feature() {
    let mut findings = Vec::new();
    for folder in PURE {
        let name = format!("orlop-{folder}");
        let arguments = ["tree", "--locked", "-p", &name, "--all-features", "-e", "normal", "--prefix", "none"];
        let tree = output("cargo", &arguments);
        let crates: BTreeSet<_> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
        assert!(crates.contains(name.as_str()), "cargo tree shows {name}");
        findings.extend(crates.iter().filter(|c| IMPURE.contains(c)).map(|c| format!("{name} pulls in {c}")));
    }
    none("a pure crate depends on something impure", &findings);
}

/// Schemas are derived where the types are.
#[test]
fn pure_crates_have_no_feature_that_adds_a_dependency_but_that_of_schemas() {
    let ours = ours();
    let mut findings = Vec::new();
    for folder in PURE {
        let package = ours[format!("orlop-{folder}").as_str()];
        let optional = package.dependencies.iter().filter(|d| d.optional && d.name != "schemars");
        findings.extend(optional.map(|d| format!("orlop-{folder}: {} is optional", d.name)));
    }
    none("a feature of a pure crate adds a dependency", &findings);
}
