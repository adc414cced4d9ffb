//! House rules of the whole workspace that a machine can check: what may depend on what, what the pure crates never do,
//! and how files look. Reads the tree and `cargo metadata`; changes nothing. Needs a git checkout, since git knows which
//! files belong to the project.

mod book;
mod circles;
mod graph;
mod json;
mod licence;
mod links;
mod manifest;
mod modules;
mod package;
mod purity;
mod reasons;
mod text;
mod tree;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use cargo_metadata::{Metadata, MetadataCommand};

/// The crates that are pure: no runtime, no I/O, no clock, no randomness, no global state.
const PURE: [&str; 3] = ["core", "dag", "scheduler"];

/// Programs that do the same job with other libraries, each a workspace of its own: those libraries are none of ours.
const PEERS: &str = "examples/peers/";

/// The root of the workspace.
fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        here.ancestors().nth(2).expect("the package lies two folders below the root").to_path_buf()
    })
}

/// What cargo knows of the workspace, all features on, for the platform the tests run on.
fn metadata() -> &'static Metadata {
    static METADATA: OnceLock<Metadata> = OnceLock::new();
    METADATA.get_or_init(|| {
        let platform = format!("--filter-platform={}", host());
        MetadataCommand::new()
            .manifest_path(root().join("Cargo.toml"))
            .other_options(vec!["--all-features".into(), "--locked".into(), platform])
            .exec()
            .expect("cargo metadata answers (without a network run `cargo fetch --locked` first)")
    })
}

/// The platform rustc compiles for by default.
fn host() -> String {
    let text = output("rustc", &["-vV"]);
    let line = text.lines().find_map(|line| line.strip_prefix("host: "));
    line.expect("rustc names its host").to_owned()
}

/// Standard output of a program run at the root, which must succeed.
fn output(program: &str, arguments: &[&str]) -> String {
    let done = Command::new(program).args(arguments).current_dir(root()).output();
    let done = done.unwrap_or_else(|error| panic!("{program} does not start: {error}"));
    let errors = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{program} {arguments:?} failed:\n{errors}");
    String::from_utf8(done.stdout).expect("output is UTF-8")
}

/// Paths, from the root, of all files of the project: tracked, or new and not ignored.
fn files() -> &'static [String] {
    static FILES: OnceLock<Vec<String>> = OnceLock::new();
    FILES.get_or_init(|| {
        let listed = output("git", &["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
        let present = |path: &&str| !path.is_empty() && root().join(path).is_file();
        let mut files: Vec<_> = listed.split('\0').filter(present).map(str::to_owned).collect();
        files.sort();
        files.dedup();
        assert!(!files.is_empty(), "git knows the files of the project");
        files
    })
}

/// The Rust files of the project.
fn rust_files() -> impl Iterator<Item = &'static str> {
    files().iter().map(String::as_str).filter(|path| has_extension(path, "rs"))
}

fn has_extension(path: &str, wanted: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == wanted)
}

/// The text of a file; bytes that are not UTF-8 are replaced.
fn read(path: &str) -> String {
    let bytes = std::fs::read(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Fails with all findings at once, one a line.
fn none(rule: &str, findings: &[String]) {
    assert!(findings.is_empty(), "{rule}:\n  {}", findings.join("\n  "));
}
