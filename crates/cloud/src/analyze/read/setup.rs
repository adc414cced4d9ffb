//! `setup.cfg`, `setup.py` by literal patterns, and files that hold a version of Python. Owns their layout; runs nothing.

use orlop_core::hardware::gpu::Vendor;

use super::super::fact::{At, Finding, HARD, PINNED, Sink, WEAK};
use super::super::python::{self, Package};
use super::super::version::Version;
use super::{pip, pyproject};

/// Reads `setup.cfg`: sections, keys, and values that go on over indented lines.
pub(super) fn read_cfg(text: &str, sink: &mut Sink<'_>) {
    let (mut section, mut key) = (String::new(), String::new());
    for (index, line) in text.lines().enumerate() {
        let at = At { line: index + 1, quote: line };
        let trimmed = line.trim();
        if trimmed.starts_with(['#', ';']) || trimmed.is_empty() {
            continue;
        }
        if let Some(name) = trimmed.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name.trim().to_lowercase();
            key.clear();
            continue;
        }
        let mut value = trimmed;
        if !line.starts_with([' ', '\t'])
            && let Some((name, rest)) = line.split_once('=')
        {
            key = name.trim().to_lowercase();
            value = rest.trim();
            if section == "options.extras_require" && ["gpu", "cuda", "rocm"].iter().any(|word| key.contains(word)) {
                sink.add(at, "gpu-extra", Finding::Gpu(None), WEAK);
            }
        }
        match (section.as_str(), key.as_str()) {
            ("options", "python_requires") => pyproject::python_range(value, at, sink),
            ("options", "install_requires" | "setup_requires") => pip::entry(value, at, sink),
            ("options.extras_require", _) => optional(value, at, sink),
            _ => {}
        }
    }
}

fn optional(value: &str, at: At<'_>, sink: &mut Sink<'_>) {
    if let Some(package) = pip::package(value) {
        python::judge(&Package { optional: true, ..package }, at, sink);
    }
}

/// Reads `setup.py`: quoted texts inside `install_requires=[…]`, `python_requires="…"`, and extensions in CUDA.
pub(super) fn read_py(text: &str, sink: &mut Sink<'_>) {
    let mut within = Within::Nothing;
    let mut depth = 0_i32;
    for (index, line) in text.lines().enumerate() {
        let code = line.split('#').next().unwrap_or_default();
        let at = At { line: index + 1, quote: line };
        if code.contains("CUDAExtension")
            && !code.trim_start().starts_with("from ")
            && !code.trim_start().starts_with("import ")
        {
            sink.add(at, "cuda-extension", Finding::Gpu(Some(Vendor::Nvidia)), HARD);
        }
        if let Some((_, rest)) = code.split_once("python_requires") {
            for range in quoted(rest).take(1) {
                pyproject::python_range(range, at, sink);
            }
        }
        if within == Within::Nothing {
            within = match code {
                code if code.contains("install_requires") || code.contains("requirements = [") => Within::Required,
                code if code.contains("extras_require") => Within::Extras,
                _ => continue,
            };
            depth = 0;
        }
        for entry in quoted(code) {
            match within {
                Within::Required => pip::entry(entry, at, sink),
                Within::Extras => optional(entry, at, sink),
                Within::Nothing => {}
            }
        }
        let opened = code.matches(['[', '{']).count();
        let closed = code.matches([']', '}']).count();
        depth =
            depth.saturating_add(i32::try_from(opened).unwrap_or(0)).saturating_sub(i32::try_from(closed).unwrap_or(0));
        if depth <= 0 {
            within = Within::Nothing;
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Within {
    Nothing,
    Required,
    Extras,
}

/// Texts in quotes on one line.
fn quoted(code: &str) -> impl Iterator<Item = &str> {
    let mut rest = code;
    std::iter::from_fn(move || {
        let start = rest.find(['"', '\''])?;
        let quote = rest.get(start..)?.chars().next()?;
        let inner = rest.get(start + 1..)?;
        let end = inner.find(quote)?;
        rest = inner.get(end + 1..)?;
        inner.get(..end)
    })
}

/// Reads `.python-version` and `runtime.txt`: the first line that is a version.
pub(super) fn read_version(text: &str, sink: &mut Sink<'_>) {
    for (index, line) in text.lines().enumerate() {
        let version = line.trim().trim_start_matches("python-").trim_start_matches("cpython-");
        if version.starts_with(|ch: char| ch.is_ascii_digit())
            && let Some(version) = Version::read(version)
        {
            return sink.add(At { line: index + 1, quote: line }, "python-pin", Finding::Python(version), PINNED);
        }
    }
}

/// Reads `.tool-versions`: the line of Python.
pub(super) fn read_tools(text: &str, sink: &mut Sink<'_>) {
    for (index, line) in text.lines().enumerate() {
        let mut words = line.split_whitespace();
        if words.next() == Some("python")
            && let Some(version) = words.next().and_then(Version::read)
        {
            sink.add(At { line: index + 1, quote: line }, "python-pin", Finding::Python(version), PINNED);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(read: fn(&str, &mut Sink<'_>), text: &str) -> String {
        let (mut facts, mut notes) = (Vec::new(), Vec::new());
        read(text, &mut Sink::new("f", &mut facts, &mut notes));
        let facts =
            facts.iter().map(|fact| format!("{} {:?} {} {:?}", fact.line, fact.strength, fact.rule, fact.finding));
        facts.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn setup_cfg() {
        let text = "[options]\npython_requires = >=3.7\ninstall_requires =\n    torch\n    # vllm\n[options.extras_require]\ncuda =\n    pycuda\n";
        insta::assert_snapshot!(reported(read_cfg, text), @r"
        2 Target python-range PythonFrom(Version { major: 3, minor: 7 })
        4 Target class-of-package Class(DeepLearning)
        4 Target gpu-package Gpu(None)
        7 Weak gpu-extra Gpu(None)
        8 Weak cuda-package Gpu(Some(Nvidia))
        ");
    }

    #[test]
    fn setup_py_by_literal_patterns() {
        let text = "from torch.utils.cpp_extension import CUDAExtension\nsetup(\n  python_requires='>=3.8',\n  install_requires=[\n    'numpy', \"vllm==0.4\",  # 'apex'\n  ],\n  ext_modules=[CUDAExtension('x', ['x.cu'])],\n  name='torch')\n";
        insta::assert_snapshot!(reported(read_py, text), @r"
        3 Target python-range PythonFrom(Version { major: 3, minor: 8 })
        5 Target class-of-package Class(Numeric)
        5 Target class-of-package Class(LanguageModel)
        5 Hard cuda-package Gpu(Some(Nvidia))
        7 Hard cuda-extension Gpu(Some(Nvidia))
        ");
    }

    #[test]
    fn files_that_hold_a_version_of_python() {
        assert!(reported(read_version, "# c\n3.11.4\n").contains("Python(Version { major: 3, minor: 11 })"));
        assert!(reported(read_version, "python-3.8.10").contains("minor: 8"));
        assert!(reported(read_tools, "nodejs 18\npython 3.9.1 3.8\n").contains("minor: 9"));
        assert_eq!(reported(read_version, "pypy"), "");
    }
}
