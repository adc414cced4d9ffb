//! Package lists of pip: names, extras, pins, indexes, wheels by address. Owns the line format; what a name means stands
//! in `python`.

use super::super::fact::{At, Sink};
use super::super::python::{self, Package, normal};

/// Reads a list, one package or option a line; `\` at the end joins lines.
pub(super) fn read(text: &str, sink: &mut Sink<'_>) {
    let mut joined = String::new();
    let mut start = 1;
    for (index, line) in text.lines().enumerate() {
        if joined.is_empty() {
            start = index + 1;
        }
        match line.strip_suffix('\\') {
            Some(part) if joined.len() < 16_384 => joined.push_str(part),
            _ => {
                joined.push_str(line);
                entry(&joined, At { line: start, quote: joined.trim() }, sink);
                joined.clear();
            }
        }
    }
    if !joined.is_empty() {
        entry(&joined, At { line: start, quote: joined.trim() }, sink);
    }
}

/// Reads one line.
pub(super) fn entry(line: &str, at: At<'_>, sink: &mut Sink<'_>) {
    let line = without_comment(line).trim();
    if line.starts_with('-') {
        option(line, at, sink);
    } else if let Some(package) = package(line) {
        python::judge(&package, at, sink);
        if let Some((_, address)) = line.split_once('@').filter(|(_, rest)| rest.contains("://")) {
            python::wheel(address.split([';', '#', ' ']).find(|part| !part.is_empty()).unwrap_or_default(), at, sink);
        }
    } else if line.contains(".whl") {
        python::wheel(line.split([';', '#', ' ']).next().unwrap_or_default(), at, sink);
    }
}

fn without_comment(line: &str) -> &str {
    if line.trim_start().starts_with('#') {
        return "";
    }
    line.find(" #").and_then(|end| line.get(..end)).unwrap_or(line)
}

/// Options that name an index: `--index-url`, `--extra-index-url`, `--find-links` and their short forms.
fn option(line: &str, at: At<'_>, sink: &mut Sink<'_>) {
    let mut words = line.split([' ', '\t', '=']).filter(|word| !word.is_empty());
    while let Some(word) = words.next() {
        let named = ["--index-url", "--extra-index-url", "--find-links", "-i", "-f", "--index"].contains(&word);
        if named && let Some(address) = words.next() {
            python::index(address, at, sink);
        }
    }
}

/// A requirement as packaging tools write it: `name[extra]==1.2; marker`. Nothing for anything else, and for packages of
/// other systems than Linux.
pub(super) fn package(text: &str) -> Option<Package> {
    let text = text.trim();
    // A list of another file may leave its quotes; those of a marker stay.
    let text = if text.starts_with(['"', '\'']) { text.trim_matches(['"', '\'', ',']) } else { text };
    let (requirement, marker) = text.split_once(';').unwrap_or((text, ""));
    if is_elsewhere(marker) {
        return None;
    }
    let requirement = requirement.split(" --").next()?.trim();
    let end =
        requirement.find(|ch: char| !(ch.is_ascii_alphanumeric() || "-_.".contains(ch))).unwrap_or(requirement.len());
    let (name, rest) = requirement.split_at_checked(end)?;
    if name.is_empty() || !name.starts_with(|ch: char| ch.is_ascii_alphanumeric()) || name.len() > 128 {
        return None;
    }
    let rest = rest.trim_start();
    let (extras, rest) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((extras, rest)) => (extras.split(',').map(normal).filter(|extra| !extra.is_empty()).collect(), rest),
        None => (Vec::new(), rest),
    };
    let rest = rest.trim().trim_start_matches('(').trim_end_matches(')');
    let fine = rest.is_empty() || rest.starts_with(['=', '<', '>', '!', '~', '@', '^']);
    if !fine || name.contains("://") {
        return None;
    }
    let optional = marker.contains("extra");
    Some(Package { name: normal(name), extras, version: pinned(rest), optional, locked: false })
}

/// Markers of other systems.
fn is_elsewhere(marker: &str) -> bool {
    let squeezed: String = marker.chars().filter(|ch| !ch.is_whitespace()).collect::<String>().replace('"', "'");
    let other = ["=='darwin'", "=='win32'", "=='Darwin'", "=='Windows'", "=='nt'"];
    other.iter().any(|system| squeezed.contains(system)) && !marker.split_whitespace().any(|word| word == "or")
}

/// The version that `==`, `===`, `~=` or `^` fix, with the tag of its build.
pub(super) fn pinned(specifier: &str) -> Option<String> {
    let parts = specifier.split(',').map(str::trim);
    let mut pins = parts.filter_map(|part| {
        let rest = ["===", "==", "~=", "^"].iter().find_map(|operator| part.strip_prefix(operator))?;
        let version = rest.trim().split([' ', '|']).next()?;
        version.starts_with(|ch: char| ch.is_ascii_digit()).then(|| version.trim_end_matches(".*").to_owned())
    });
    pins.next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::fact::{Fact, Finding};
    use crate::analyze::version::Version;

    fn read_all(text: &str) -> Vec<Fact> {
        let (mut facts, mut notes) = (Vec::new(), Vec::new());
        read(text, &mut Sink::new("requirements.txt", &mut facts, &mut notes));
        facts
    }

    #[test]
    fn requirements_are_read_as_packaging_tools_write_them() {
        let of = |text: &str| {
            let p = package(text)?;
            Some(format!("{} {:?} {:?}{}", p.name, p.extras, p.version, if p.optional { " optional" } else { "" }))
        };
        let lines = [
            "torch==2.1.0+cu121",
            "jax[cuda12_pip, x]~=0.4.1 ; python_version > '3.8'",
            "Flash_Attn",
            "numpy>=1.20,<2",
            "a (==1.0)",
            "tensorflow == 2.9.* --hash=sha256:ab",
            "cupy; extra == 'gpu'",
            "tensorflow-macos; sys_platform == 'darwin'",
            "x @ https://h/x-1.whl",
            "./local",
            "https://h/x.whl",
            "some words here",
            "",
        ];
        let reported = lines.map(|line| of(line).unwrap_or_else(|| "-".to_owned())).join("\n");
        insta::assert_snapshot!(reported, @r#"
        torch [] Some("2.1.0+cu121")
        jax ["cuda12-pip", "x"] Some("0.4.1")
        flash-attn [] None
        numpy [] None
        a [] Some("1.0")
        tensorflow [] Some("2.9")
        cupy [] None optional
        -
        x [] None
        -
        -
        -
        -
        "#);
    }

    #[test]
    fn indexes_name_their_builds() {
        for (line, wanted) in [
            ("--index-url https://download.pytorch.org/whl/cu118", Finding::Cuda(Version::new(11, 8))),
            ("--extra-index-url=https://download.pytorch.org/whl/cu121", Finding::Cuda(Version::new(12, 1))),
            ("-f https://download.pytorch.org/whl/cu92/torch_stable.html", Finding::Cuda(Version::new(9, 2))),
            ("--index-url https://download.pytorch.org/whl/cpu", Finding::CpuOnly),
            ("-i https://download.pytorch.org/whl/rocm5.6", Finding::Gpu(Some(orlop_core::hardware::gpu::Vendor::Amd))),
        ] {
            assert!(read_all(line).iter().any(|fact| fact.finding == wanted), "{line}");
        }
        assert!(read_all("--index-url https://host/simple").is_empty());
    }

    #[test]
    fn lines_are_joined_and_comments_are_not_read() {
        let facts = read_all("# torch\n\nnumpy \\\n  ==1.2 \\\n  --hash=sha256:00 # vllm\nvllm\n");
        let places: Vec<(u32, &str)> = facts.iter().map(|fact| (fact.line, fact.rule)).collect();
        assert_eq!(places, [(3, "class-of-package"), (6, "class-of-package"), (6, "cuda-package")]);
    }

    #[test]
    fn wheels_by_address_name_their_build_and_architecture() {
        let facts = read_all(
            "torch @ https://h/whl/torch-2.0.1%2Bcu118-cp310-cp310-linux_x86_64.whl\nhttps://h/x-1-cp39-linux_aarch64.whl",
        );
        assert!(facts.iter().any(|fact| fact.finding == Finding::Cuda(Version::new(11, 8))));
        assert!(facts.iter().any(|fact| matches!(fact.finding, Finding::Arch(_)) && fact.line == 2));
    }
}
