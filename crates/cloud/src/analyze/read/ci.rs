//! Continuous integration: on which system and Python it runs. Owns the patterns; both are weak.

use super::super::fact::{At, Finding, Sink, WEAK};
use super::super::os::Os;
use super::super::version::Version;

/// Reads a workflow.
pub(super) fn read(text: &str, sink: &mut Sink<'_>) {
    for (index, line) in text.lines().enumerate() {
        let at = At { line: index + 1, quote: line };
        let small = line.trim().trim_start_matches("- ").to_lowercase();
        if small.starts_with('#') {
            continue;
        }
        if small.starts_with("runs-on")
            || small.starts_with("os:")
            || small.starts_with("image:")
            || small.starts_with("container:")
        {
            for word in small.split(|ch: char| !(ch.is_ascii_alphanumeric() || ".:-".contains(ch))) {
                if let Some(version) = word.strip_prefix("ubuntu-").or_else(|| word.strip_prefix("ubuntu:"))
                    && version.starts_with(|ch: char| ch.is_ascii_digit())
                    && let Some(os) = Os::of("ubuntu", version)
                {
                    sink.add(at, "os-of-workflow", Finding::Os(os), WEAK);
                }
            }
        }
        if small.starts_with("python-version") || small.starts_with("python:") || small.starts_with("image: python:") {
            let values = small.split([':', '[', ']', ',', ' ', '"', '\'']);
            for version in values.filter(|value| value.starts_with("3.")).filter_map(Version::read) {
                sink.add(at, "python-of-workflow", Finding::Python(version), WEAK);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workflows_are_weak() {
        let (mut facts, mut notes) = (Vec::new(), Vec::new());
        let text = "jobs:\n  a:\n    runs-on: ubuntu-20.04\n    strategy:\n      matrix:\n        python-version: [3.8, \"3.10\"]\n        os: [ubuntu-latest, windows-2022]\n";
        read(text, &mut Sink::new(".github/workflows/ci.yml", &mut facts, &mut notes));
        let reported = facts
            .iter()
            .map(|fact| format!("{} {:?} {:?}", fact.line, fact.strength, fact.finding))
            .collect::<Vec<_>>()
            .join("\n");
        insta::assert_snapshot!(reported, @r"
        3 Weak Os(Os { kind: Ubuntu, version: Version { major: 20, minor: 4 }, mapped: false })
        6 Weak Python(Version { major: 3, minor: 8 })
        6 Weak Python(Version { major: 3, minor: 10 })
        ");
    }
}
