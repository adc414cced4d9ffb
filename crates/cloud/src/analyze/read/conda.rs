//! Environments of conda and their locks: Python, CUDA, the rest as packages.

use orlop_core::hardware::Arch;
use orlop_core::hardware::gpu::Vendor;
use serde_json::Value;

use super::super::fact::{At, Finding, HARD, PINNED, SOFT, Sink};
use super::super::python::{self, Package, normal};
use super::super::version::Version;
use super::{locate, pip, unreadable, yaml};

/// Reads an environment.
pub(super) fn read(text: &str, sink: &mut Sink<'_>) {
    let document: Value = match yaml(text) {
        Ok(document) => document,
        Err(error) => return unreadable(sink, &error.to_string()),
    };
    for entry in document.get("dependencies").and_then(Value::as_array).into_iter().flatten() {
        if let Some(name) = entry.as_str() {
            package(name, locate(text, name), sink);
        }
        for line in entry.get("pip").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
            pip::entry(line, locate(text, line), sink);
        }
    }
}

/// Reads a lock: names and versions, and the platforms it was made for.
pub(super) fn read_lock(text: &str, sink: &mut Sink<'_>) {
    let document: Value = match yaml(text) {
        Ok(document) => document,
        Err(error) => return unreadable(sink, &error.to_string()),
    };
    for entry in document.get("package").and_then(Value::as_array).into_iter().flatten() {
        let field = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
        if ["linux-64", "noarch", ""].contains(&field("platform")) {
            judge(&normal(field("name")), Some(field("version").to_owned()), true, locate(text, field("name")), sink);
        }
    }
}

/// Judges a package as conda writes it: `channel::name=1.2=build`, `name>=1.2`, `name 1.2`.
pub(super) fn package(text: &str, at: At<'_>, sink: &mut Sink<'_>) {
    let text = text.trim().trim_matches(['"', '\'']);
    if text.starts_with('-') {
        return;
    }
    let text = text.rsplit_once("::").map_or(text, |(_, rest)| rest);
    let end = text.find(['=', '>', '<', '!', '~', ' ', '[']).unwrap_or(text.len());
    let Some((name, rest)) = text.split_at_checked(end) else { return };
    let rest = rest.trim();
    let (version, build) = match rest.strip_prefix("==").or_else(|| rest.strip_prefix('=')) {
        Some(rest) => match rest.split_once('=') {
            Some((version, build)) => (Some(version), build),
            None => (Some(rest), ""),
        },
        None => (rest.starts_with(|ch: char| ch.is_ascii_digit()).then_some(rest), ""),
    };
    let version = version.map(|version| version.trim().trim_end_matches(".*").trim_end_matches('*').to_owned());
    if let Some(range) = rest.strip_prefix(">=").filter(|_| name == "python") {
        if let Some(version) = Version::read(range) {
            sink.add(at, "python-range", Finding::PythonFrom(version), PINNED);
        }
        return;
    }
    if build.contains("cuda") || build.starts_with("gpu") {
        sink.add(at, "cuda-build", Finding::Gpu(Some(Vendor::Nvidia)), HARD);
    } else if build.contains("cpu") || build == "mkl" {
        sink.add(at, "cpu-build", Finding::CpuOnly, SOFT);
    }
    judge(&normal(name), version, false, at, sink);
}

fn judge(name: &str, version: Option<String>, locked: bool, at: At<'_>, sink: &mut Sink<'_>) {
    let number = version.as_deref().and_then(Version::read);
    match name {
        "python" => {
            if let Some(version) = number {
                sink.add(at, "python-pin", Finding::Python(version), PINNED);
            }
        }
        "cudatoolkit" | "cuda-version" | "pytorch-cuda" | "cuda" | "cuda-toolkit" | "cudatoolkit-dev" | "cuda-nvcc" => {
            sink.add(at, "cuda-conda-package", Finding::Gpu(Some(Vendor::Nvidia)), HARD);
            if let Some(version) = number {
                sink.add(at, "cuda-conda-package", Finding::Cuda(version), HARD);
            }
        }
        "cudnn" | "nccl" | "cutensor" | "pytorch-gpu" | "rapids" => {
            sink.add(at, "cuda-conda-package", Finding::Gpu(Some(Vendor::Nvidia)), HARD);
        }
        "linux-aarch64" => sink.add(at, "arch-of-lock", Finding::Arch(Arch::Arm64), HARD),
        name => python::judge(&Package { name: name.to_owned(), version, locked, ..Package::default() }, at, sink),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(read: fn(&str, &mut Sink<'_>), text: &str) -> (String, Vec<String>) {
        let (mut facts, mut notes) = (Vec::new(), Vec::new());
        read(text, &mut Sink::new("environment.yml", &mut facts, &mut notes));
        let facts = facts.iter().filter(|fact| !fact.rule.starts_with("class"));
        let facts = facts.map(|fact| format!("{} {:?} {:?}", fact.line, fact.strength, fact.finding));
        (facts.collect::<Vec<_>>().join("\n"), notes)
    }

    #[test]
    fn conda_environments() {
        let text = "name: x\nchannels: [pytorch]\ndependencies:\n  - python=3.8\n  - pytorch::pytorch=1.12.1\n  - cudatoolkit=11.3\n  - cudnn\n  - numpy>=1.20\n  - pip:\n    - jax[cuda12]\n";
        insta::assert_snapshot!(reported(read, text).0, @r"
        4 Target Python(Version { major: 3, minor: 8 })
        5 Target Gpu(None)
        5 Target Cuda(Version { major: 11, minor: 0 })
        6 Hard Gpu(Some(Nvidia))
        6 Hard Cuda(Version { major: 11, minor: 3 })
        7 Hard Gpu(Some(Nvidia))
        10 Hard Gpu(Some(Nvidia))
        10 Hard Cuda(Version { major: 12, minor: 0 })
        ");
        assert!(reported(read, "dependencies: [cpuonly, cuda-version=12.4]").0.contains("CpuOnly"));
        assert!(reported(read, "dependencies: ['python>=3.9']").0.contains("PythonFrom"));
    }

    #[test]
    fn conda_locks() {
        let text = "version: 1\npackage:\n- name: python\n  version: 3.10.8\n  platform: linux-64\n- name: cudatoolkit\n  version: 11.8.0\n  platform: win-64\n- name: pytorch\n  version: 2.1.0\n  platform: linux-64\n";
        insta::assert_snapshot!(reported(read_lock, text).0, @r"
        3 Target Python(Version { major: 3, minor: 10 })
        9 Target Gpu(None)
        9 Target Cuda(Version { major: 12, minor: 1 })
        ");
    }

    #[test]
    fn broken_yaml_gives_a_note() {
        let (facts, notes) = reported(read, "dependencies: [a\n b: c");
        assert!(facts.is_empty() && notes.len() == 1);
    }
}
