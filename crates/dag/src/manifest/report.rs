//! Shows violations the way a compiler does: file, line, source line, caret, help; plain text or JSON. Owns the form;
//! never finds a violation.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use serde_json::{Value, json};

use super::violation::{Excerpt, Severity, Violation, Violations};
use crate::code::Code;

/// Everything that is wrong with a file. Its `Display` form shows each violation with the line of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
pub struct Report {
    /// What is wrong.
    pub violations: Violations,
}

impl Report {
    /// A report of violations.
    #[must_use]
    pub fn new(violations: Violations) -> Self {
        Self { violations }
    }

    /// Machine-readable form: `violations` in order and `omitted`, the numbers of those the list did not keep.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "violations": self.violations.iter().collect::<Vec<_>>(),
            "omitted": {
                "errors": self.violations.more(Severity::Error),
                "warnings": self.violations.more(Severity::Warning),
            },
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = &self.violations;
        let mut said: BTreeMap<(Code, &str), Vec<&Violation>> = BTreeMap::new();
        for warning in list.iter().filter(|violation| violation.severity == Severity::Warning) {
            said.entry((warning.code, &warning.message)).or_default().push(warning);
        }
        let of = |severity| list.iter().filter(move |violation| violation.severity == severity);
        for violation in of(Severity::Error).chain(of(Severity::Warning)) {
            let same = match violation.severity {
                Severity::Error => None,
                Severity::Warning => said.remove(&(violation.code, violation.message.as_str())),
            };
            // A warning that was said with its first place is not said again.
            if violation.severity == Severity::Warning && same.is_none() {
                continue;
            }
            entry(f, violation)?;
            repeated(f, same.as_deref().and_then(|same| same.get(1..)).unwrap_or_default())?;
            writeln!(f)?;
        }
        let more: Vec<String> = [(Severity::Error, "error"), (Severity::Warning, "warning")]
            .into_iter()
            .filter(|(severity, _)| list.more(*severity) > 0)
            .map(|(severity, word)| counted(list.more(severity), word))
            .collect();
        if !more.is_empty() {
            writeln!(f, "and {} more\n", more.join(" and "))?;
        }
        let (errors, warnings) = (list.count(Severity::Error), list.count(Severity::Warning));
        match (errors, warnings) {
            (0, 0) => f.write_str("no violations"),
            (0, _) => f.write_str(&counted(warnings, "warning")),
            (_, 0) => f.write_str(&counted(errors, "error")),
            _ => write!(f, "{}, {}", counted(errors, "error"), counted(warnings, "warning")),
        }
    }
}

fn counted(number: usize, word: &str) -> String {
    format!("{number} {word}{}", if number == 1 { "" } else { "s" })
}

fn entry(f: &mut fmt::Formatter<'_>, violation: &Violation) -> fmt::Result {
    let word = match violation.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    writeln!(f, "{word}[{}]: {}", violation.code, violation.message)?;
    let mut margin = String::new();
    if let Some(at) = &violation.at {
        let number = at.line.to_string();
        margin = " ".repeat(number.len());
        writeln!(f, "{margin}--> {}:{}:{}", at.file, at.line, at.column)?;
        if !at.excerpt.text.is_empty() {
            writeln!(f, "{margin} |\n{number} | {}\n{margin} | {}", at.excerpt.text, caret(&at.excerpt)?)?;
        }
    }
    if !violation.path.is_root() {
        writeln!(f, "{margin} = field: {}", violation.path)?;
    }
    if let Some(help) = &violation.help {
        writeln!(f, "{margin} = help: {help}")?;
    }
    Ok(())
}

/// Further places of a warning.
fn repeated(f: &mut fmt::Formatter<'_>, others: &[&Violation]) -> fmt::Result {
    const SHOWN: usize = 10;
    if others.is_empty() {
        return Ok(());
    }
    let place = |violation: &&Violation| match &violation.at {
        Some(at) => format!("line {}", at.line),
        None => violation.path.to_string(),
    };
    // Those of one line, as in JSON, are named once.
    let mut places: Vec<String> = others.iter().map(place).collect();
    places.dedup();
    let more = places.len().saturating_sub(SHOWN);
    places.truncate(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    writeln!(f, "  = also: {}{more}", places.join(", "))
}

fn caret(excerpt: &Excerpt) -> Result<String, fmt::Error> {
    let mut line = String::new();
    write!(line, "{:before$}{}", "", "^".repeat(excerpt.width.max(1)), before = excerpt.before)?;
    Ok(line)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::path::Path;
    use super::super::violation::Location;
    use super::*;

    fn sample() -> Report {
        let mut list = Violations::new();
        let spec = Path::ROOT.field("spec");
        list.warning(Code::UnknownField, &Path::ROOT, || "a document of kind ConfigMap is ignored");
        list.error(Code::Parameter, &spec.field("parameters").index(0).field("name"), || {
            ("`a_b` is not a valid parameter name", "write `a-b`")
        });
        for violation in list.iter_mut().filter(|violation| violation.code == Code::Parameter) {
            let excerpt = Excerpt { text: "    - name: a_b".into(), before: 12, width: 3 };
            violation.at = Some(Location { file: Arc::from("flow.yaml"), line: 12, column: 13, excerpt });
        }
        Report::new(list)
    }

    #[test]
    fn reports_show_source_line_caret_field_and_help_errors_first() {
        insta::assert_snapshot!(sample(), @"
        error[parameter]: `a_b` is not a valid parameter name
          --> flow.yaml:12:13
           |
        12 |     - name: a_b
           |             ^^^
           = field: spec.parameters[0].name
           = help: write `a-b`

        warning[unknown-field]: a document of kind ConfigMap is ignored

        1 error, 1 warning
        ");
    }

    #[test]
    fn a_warning_is_said_once_with_all_its_places() {
        let mut list = Violations::new();
        for n in 0..3 {
            list.warning(
                Code::Ignored,
                &Path::ROOT.field("steps").index(n),
                || "`image` is ignored by plain processes",
            );
        }
        insta::assert_snapshot!(Report::new(list), @"
        warning[ignored]: `image` is ignored by plain processes
         = field: steps[0]
          = also: steps[1], steps[2]

        3 warnings
        ");
    }

    #[test]
    fn json_reports_carry_rule_field_and_place() {
        insta::assert_snapshot!(sample().json(), @r#"{"omitted":{"errors":0,"warnings":0},"violations":[{"code":"unknown-field","message":"a document of kind ConfigMap is ignored","path":"","severity":"warning"},{"at":{"column":13,"file":"flow.yaml","line":12},"code":"parameter","help":"write `a-b`","message":"`a_b` is not a valid parameter name","path":"spec.parameters[0].name","severity":"error"}]}"#);
    }

    #[test]
    fn omitted_violations_are_counted() {
        let mut list = Violations::new();
        for n in 0..102 {
            list.error(Code::Duplicate, &Path::ROOT.index(n), || "twice");
        }
        let text = Report::new(list).to_string();
        assert!(text.ends_with("and 2 errors more\n\n102 errors"), "{text}");
    }
}
