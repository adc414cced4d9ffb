//! Lock files: resolved versions, which outrank ranges.

use serde_json::Value;
use toml::Table;

use super::super::fact::{Finding, PINNED, Sink};
use super::super::python::{self, Package, normal};
use super::super::version::Version;
use super::{locate, unreadable};

/// Reads a lock in TOML: tables `package` with `name` and `version`.
pub(super) fn read_toml(text: &str, sink: &mut Sink<'_>) {
    let table: Table = match text.parse() {
        Ok(table) => table,
        Err(error) => return unreadable(sink, error.message()),
    };
    let lists = ["package", "packages"].iter().filter_map(|key| table.get(*key)?.as_array());
    for entry in lists.flatten() {
        let field = |key: &str| entry.get(key).and_then(toml::Value::as_str);
        let optional = entry.get("optional").and_then(toml::Value::as_bool).unwrap_or(false);
        if let Some(name) = field("name") {
            package(name, field("version"), optional, text, sink);
        }
    }
}

/// Reads `Pipfile.lock`.
pub(super) fn read_pipfile(text: &str, sink: &mut Sink<'_>) {
    let document: Value = match serde_json::from_str(text) {
        Ok(document) => document,
        Err(error) => return unreadable(sink, &error.to_string()),
    };
    for section in ["default", "develop"] {
        for (name, entry) in document.get(section).and_then(Value::as_object).into_iter().flatten() {
            let version = entry.get("version").and_then(Value::as_str).map(|version| version.trim_start_matches('='));
            package(name, version, false, text, sink);
        }
    }
    let required = document.get("_meta").and_then(|meta| meta.get("requires")?.get("python_version")?.as_str());
    if let Some(version) = required.and_then(Version::read) {
        sink.add(locate(text, "python_version"), "python-pin", Finding::Python(version), PINNED);
    }
}

fn package(name: &str, version: Option<&str>, optional: bool, text: &str, sink: &mut Sink<'_>) {
    let package = Package {
        name: normal(name),
        version: version.map(str::to_owned),
        optional,
        locked: true,
        ..Package::default()
    };
    // Looking for the line costs a pass over the file: only for names that say something.
    let (mut facts, mut notes) = (Vec::new(), Vec::new());
    python::judge(&package, super::At { line: 0, quote: "" }, &mut Sink::new("", &mut facts, &mut notes));
    if !facts.is_empty() {
        python::judge(&package, locate(text, &format!("\"{name}\"")), sink);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(read: fn(&str, &mut Sink<'_>), text: &str) -> String {
        let (mut facts, mut notes) = (Vec::new(), Vec::new());
        read(text, &mut Sink::new("uv.lock", &mut facts, &mut notes));
        let facts = facts.iter().map(|fact| format!("{} {:?} {:?}", fact.line, fact.strength, fact.finding));
        facts.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn locks_in_toml() {
        let text = "[[package]]\nname = \"torch\"\nversion = \"2.1.2+cu118\"\n\n[[package]]\nname = \"nvidia-cublas-cu11\"\nversion = \"11.1\"\n";
        insta::assert_snapshot!(reported(read_toml, text), @r"
        2 Hard Gpu(Some(Nvidia))
        2 Hard Cuda(Version { major: 11, minor: 8 })
        2 Target Class(DeepLearning)
        2 Target Gpu(None)
        2 Target Cuda(Version { major: 12, minor: 1 })
        6 Target Cuda(Version { major: 11, minor: 0 })
        ");
        assert_eq!(reported(read_toml, "[[package]"), "");
    }

    #[test]
    fn locks_of_pipenv() {
        let text = "{\"_meta\":{\"requires\":{\"python_version\":\"3.9\"}},\n\"default\":{\"tensorflow\":{\"version\":\"==2.12.0\"}}}";
        insta::assert_snapshot!(reported(read_pipfile, text), @r"
        2 Target Class(DeepLearning)
        2 Target Gpu(None)
        2 Target Cuda(Version { major: 11, minor: 8 })
        1 Target Python(Version { major: 3, minor: 9 })
        ");
        assert_eq!(reported(read_pipfile, "{"), "");
    }
}
