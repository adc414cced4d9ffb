//! `pyproject.toml` and `Pipfile`: Python's version, dependencies, extras, groups, sources.

use toml::{Table, Value};

use super::super::fact::{At, Finding, HARD, PINNED, Sink, WEAK};
use super::super::python::{self, Package, normal};
use super::super::version::Version;
use super::{locate, pip, unreadable};

/// Reads `pyproject.toml`.
pub(super) fn read(text: &str, sink: &mut Sink<'_>) {
    let table: Table = match text.parse() {
        Ok(table) => table,
        Err(error) => return unreadable(sink, &error_of(&error)),
    };
    let file = File { text };
    let at = |path: &[&str]| walk(&table, path);
    if let Some(range) = at(&["project", "requires-python"]).and_then(Value::as_str) {
        python_range(range, file.at("requires-python"), sink);
    }
    for path in [&["project", "dependencies"][..], &["build-system", "requires"]] {
        file.list(at(path), false, sink);
    }
    for (name, list) in tables(at(&["project", "optional-dependencies"])) {
        file.extra(name, sink);
        file.list(Some(list), true, sink);
    }
    for (_, list) in tables(at(&["dependency-groups"])) {
        file.list(Some(list), true, sink);
    }
    poetry(&table, &file, sink);
    for path in [&["tool", "uv", "index"][..], &["tool", "poetry", "source"], &["tool", "pdm", "source"]] {
        for source in at(path).and_then(Value::as_array).into_iter().flatten() {
            if let Some(url) = source.get("url").and_then(Value::as_str) {
                python::index(url, file.at(url), sink);
            }
        }
    }
    for key in ["index-url", "extra-index-url"] {
        let value = at(&["tool", "uv", key]);
        let many = value.and_then(Value::as_array).into_iter().flatten();
        for url in many.chain(value).filter_map(Value::as_str) {
            python::index(url, file.at(url), sink);
        }
    }
}

fn poetry(table: &Table, file: &File<'_>, sink: &mut Sink<'_>) {
    let at = |path: &[&str]| walk(table, path);
    let dependencies = at(&["tool", "poetry", "dependencies"]);
    if let Some(range) = walk(table, &["tool", "poetry", "dependencies", "python"]).and_then(Value::as_str) {
        python_range(range, file.at(range), sink);
    }
    file.versions(dependencies, sink);
    for (name, _) in tables(at(&["tool", "poetry", "extras"])) {
        file.extra(name, sink);
    }
    for (_, group) in tables(at(&["tool", "poetry", "group"])) {
        file.versions(group.get("dependencies"), sink);
    }
}

/// Reads `Pipfile`.
pub(super) fn read_pipfile(text: &str, sink: &mut Sink<'_>) {
    let table: Table = match text.parse() {
        Ok(table) => table,
        Err(error) => return unreadable(sink, &error_of(&error)),
    };
    let file = File { text };
    file.versions(table.get("packages"), sink);
    file.versions(table.get("dev-packages"), sink);
    for source in table.get("source").and_then(Value::as_array).into_iter().flatten() {
        if let Some(url) = source.get("url").and_then(Value::as_str) {
            python::index(url, file.at(url), sink);
        }
    }
    for key in ["python_version", "python_full_version"] {
        if let Some(version) = walk(&table, &["requires", key]).and_then(Value::as_str).and_then(Version::read) {
            sink.add(file.at(key), "python-pin", Finding::Python(version), PINNED);
        }
    }
}

fn error_of(error: &toml::de::Error) -> String {
    error.message().to_owned()
}

fn walk<'t>(table: &'t Table, path: &[&str]) -> Option<&'t Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(table.get(*first)?, |value, key| value.get(key))
}

fn tables(value: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    value.and_then(Value::as_table).into_iter().flatten()
}

struct File<'a> {
    text: &'a str,
}

impl<'a> File<'a> {
    fn at(&self, needle: &str) -> At<'a> {
        locate(self.text, needle)
    }

    /// A list of requirements.
    fn list(&self, list: Option<&Value>, optional: bool, sink: &mut Sink<'_>) {
        for entry in list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
            let at = self.at(entry);
            if optional {
                if let Some(package) = pip::package(entry) {
                    python::judge(&Package { optional: true, ..package }, at, sink);
                }
            } else {
                pip::entry(entry, at, sink);
            }
        }
    }

    /// A table of names and versions, or of tables that hold them.
    fn versions(&self, table: Option<&Value>, sink: &mut Sink<'_>) {
        for (name, value) in tables(table) {
            if name == "python" {
                continue;
            }
            let text = value.as_str().or_else(|| value.get("version").and_then(Value::as_str)).unwrap_or_default();
            let extras = value.get("extras").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
            let optional = value.get("optional").and_then(Value::as_bool).unwrap_or(false);
            let bare = text.starts_with(|ch: char| ch.is_ascii_digit()).then(|| text.trim_end_matches(".*").to_owned());
            let package = Package {
                name: normal(name),
                extras: extras.map(normal).collect(),
                version: pip::pinned(text).or(bare),
                optional,
                locked: false,
            };
            let at = self.at(name);
            python::judge(&package, at, sink);
            if let Some(url) = value.get("url").or_else(|| value.get("path")).and_then(Value::as_str) {
                python::wheel(url, self.at(url), sink);
            }
        }
    }

    /// An extra that is named for GPUs.
    fn extra(&self, name: &str, sink: &mut Sink<'_>) {
        let small = name.to_lowercase();
        if ["gpu", "cuda", "rocm"].iter().any(|word| small.contains(word)) {
            sink.add(self.at(name), "gpu-extra", Finding::Gpu(None), WEAK);
        }
    }
}

/// A range of versions of Python: an exact pin, or its lower bound.
pub(super) fn python_range(range: &str, at: At<'_>, sink: &mut Sink<'_>) {
    let parts = range.split([',', ' ']).map(str::trim).filter(|part| !part.is_empty());
    for part in parts {
        let of = |text: &str| Version::read(text.trim());
        if let Some(version) =
            part.strip_prefix("==").or_else(|| part.strip_prefix("~=").filter(|rest| rest.matches('.').count() > 1))
        {
            if let Some(version) = of(version) {
                sink.add(at, "python-pin", Finding::Python(version), HARD);
            }
        } else if let Some(version) =
            part.strip_prefix(">=").or_else(|| part.strip_prefix('^')).or_else(|| part.strip_prefix('~'))
        {
            let version = version.trim_start_matches('=');
            if let Some(version) = of(version) {
                sink.add(at, "python-range", Finding::PythonFrom(version), PINNED);
            }
        } else if let Some(version) = part.strip_prefix('>').and_then(of) {
            let next = Version::new(version.major, version.minor.saturating_add(1));
            sink.add(at, "python-range", Finding::PythonFrom(next), PINNED);
        } else if part.starts_with(|ch: char| ch.is_ascii_digit())
            && let Some(version) = of(part)
        {
            sink.add(at, "python-pin", Finding::Python(version), HARD);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::fact::{Fact, Strength};

    fn facts(read: fn(&str, &mut Sink<'_>), text: &str) -> (Vec<Fact>, Vec<String>) {
        let (mut facts, mut notes) = (Vec::new(), Vec::new());
        read(text, &mut Sink::new("pyproject.toml", &mut facts, &mut notes));
        (facts, notes)
    }

    fn reported(facts: &[Fact]) -> String {
        let line = |fact: &Fact| format!("{} {:?} {:?}", fact.line, fact.strength, fact.finding);
        facts.iter().filter(|fact| !matches!(fact.finding, Finding::Class(_))).map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn projects_extras_groups_sources() {
        let text = r#"
[project]
requires-python = ">=3.9,<3.12"
dependencies = ["torch==2.1.*", "numpy"]
[project.optional-dependencies]
gpu = ["cupy-cuda12x"]
[tool.poetry.dependencies]
python = "3.10.*"
tensorflow = {version = "^2.15", extras = ["and-cuda"]}
[tool.poetry.group.dev.dependencies]
vllm = "*"
[[tool.uv.index]]
url = "https://download.pytorch.org/whl/cu118"
"#;
        let (facts, notes) = facts(read, text);
        assert!(notes.is_empty());
        insta::assert_snapshot!(reported(&facts), @r"
        3 Target PythonFrom(Version { major: 3, minor: 9 })
        4 Target Gpu(None)
        4 Target Cuda(Version { major: 12, minor: 1 })
        6 Weak Gpu(None)
        6 Weak Gpu(Some(Nvidia))
        6 Weak Cuda(Version { major: 12, minor: 0 })
        8 Hard Python(Version { major: 3, minor: 10 })
        9 Hard Gpu(Some(Nvidia))
        9 Target Cuda(Version { major: 12, minor: 2 })
        11 Hard Gpu(Some(Nvidia))
        13 Hard Gpu(Some(Nvidia))
        13 Hard Cuda(Version { major: 11, minor: 8 })
        ");
    }

    #[test]
    fn pipfiles() {
        let text = "[[source]]\nurl = \"https://h/whl/cpu\"\n[packages]\ntorch = \"==1.13\"\n[requires]\npython_version = \"3.8\"\n";
        let (facts, _) = facts(read_pipfile, text);
        assert!(facts.iter().any(|fact| fact.finding == Finding::CpuOnly));
        assert!(
            facts
                .iter()
                .any(|fact| fact.finding == Finding::Python(Version::new(3, 8)) && fact.strength == Strength::Target)
        );
    }

    #[test]
    fn a_broken_file_gives_a_note_and_nothing_else() {
        let (facts, notes) = facts(read, "[project\ndependencies = [\"vllm\"]");
        assert!(facts.is_empty());
        assert!(notes[0].starts_with("pyproject.toml cannot be read and is ignored: "), "{notes:?}");
    }
}
