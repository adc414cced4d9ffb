//! Parameter placeholders in text. Owns the three notations and finds them byte by byte; never knows values.

use std::ops::Range;

/// How a placeholder is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notation {
    /// `{{.parameters.x}}`
    DotBraces,
    /// `{{parameters.x}}`
    Braces,
    /// `${parameters.x}`
    Dollar,
}

impl Notation {
    const ALL: [Self; 3] = [Self::DotBraces, Self::Braces, Self::Dollar];

    /// What stands before the name.
    #[must_use]
    pub const fn open(self) -> &'static str {
        match self {
            Self::DotBraces => "{{.parameters.",
            Self::Braces => "{{parameters.",
            Self::Dollar => "${parameters.",
        }
    }

    /// What stands after the name.
    #[must_use]
    pub const fn close(self) -> &'static str {
        match self {
            Self::DotBraces | Self::Braces => "}}",
            Self::Dollar => "}",
        }
    }
}

/// One placeholder of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placeholder<'t> {
    /// Its bytes in the text.
    pub range: Range<usize>,
    /// The name between the dots and the closing braces. It need not be a valid parameter name.
    pub name: &'t str,
    /// How it is written.
    pub notation: Notation,
}

/// All placeholders of a text, left to right, without overlap.
///
/// A name is a run of letters, digits, `-`, `_` and `.`: wider than names of steps, so that fields of items can be named and a
/// misspelt name is reported and not passed on as text. Everything else with braces stays text.
///
/// ```
/// use orlop_dag::params::scan;
/// let found = scan("${parameters.a} {{ .parameters.b }} $(c)");
/// assert_eq!(found.len(), 1);
/// assert_eq!((found[0].name, found[0].range.clone()), ("a", 0..15));
/// ```
#[must_use]
pub fn scan(text: &str) -> Vec<Placeholder<'_>> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(rest) = text.get(from..) {
        let Some(start) = rest.find(['{', '$']).map(|at| from + at) else { break };
        match at(text, start) {
            Some(placeholder) => {
                from = placeholder.range.end;
                found.push(placeholder);
            }
            None => from = start + 1,
        }
    }
    found
}

/// The placeholder that is the whole text.
#[must_use]
pub fn sole(text: &str) -> Option<Placeholder<'_>> {
    at(text, 0).filter(|placeholder| placeholder.range.end == text.len())
}

/// The placeholder that starts at byte `start`.
fn at(text: &str, start: usize) -> Option<Placeholder<'_>> {
    let rest = text.get(start..)?;
    Notation::ALL.into_iter().find_map(|notation| {
        let tail = rest.strip_prefix(notation.open())?;
        let end = tail.find(|ch| !in_name(ch))?;
        let (name, after) = tail.split_at_checked(end)?;
        if name.is_empty() || !after.starts_with(notation.close()) {
            return None;
        }
        let len = notation.open().len() + name.len() + notation.close().len();
        Some(Placeholder { range: start..start + len, name, notation })
    })
}

fn in_name(ch: char) -> bool {
    ch.is_alphanumeric() || matches!(ch, '-' | '_' | '.')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names(text: &str) -> Vec<&str> {
        scan(text).into_iter().map(|placeholder| placeholder.name).collect()
    }

    #[test]
    fn three_notations_exactly() {
        let text = "{{.parameters.a}}|{{parameters.b}}|${parameters.c}";
        let found = scan(text);
        let shown: Vec<_> = found.iter().map(|p| (&text[p.range.clone()], p.name, p.notation)).collect();
        assert_eq!(
            shown,
            [
                ("{{.parameters.a}}", "a", Notation::DotBraces),
                ("{{parameters.b}}", "b", Notation::Braces),
                ("${parameters.c}", "c", Notation::Dollar),
            ]
        );
    }

    #[test]
    fn everything_else_is_untouched() {
        for text in [
            "{{ .parameters.a }}",
            "{{.parameters.a }}",
            "{{ parameters.a}}",
            "{{-.parameters.a}}",
            "{{.Parameters.a}}",
            "{{..parameters.a}}",
            "{.parameters.a}",
            "{{.parameters.a}",
            "{{.parameters.}}",
            "{{.parameters}}",
            "{{.parameters.a | upper}}",
            "{{.inputs.parameters.a}}",
            "${ parameters.a}",
            "${.parameters.a}",
            "${parameters.a",
            "${parameters}",
            "${PARAMETERS.a}",
            "$(parameters.a)",
            "$parameters.a",
            "$(HOME) ${HOME} {{.StepStatus.a.Phase}}",
            "{{`{{`}}",
            "",
        ] {
            assert_eq!(names(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn scan_goes_left_to_right_without_overlap() {
        assert_eq!(names("{{{.parameters.a}}}"), ["a"]);
        assert_eq!(scan("{{{.parameters.a}}}")[0].range, 1..18);
        assert_eq!(names("$${parameters.a}"), ["a"]);
        assert_eq!(names("{{.parameters.{{.parameters.a}}}}"), ["a"]);
        assert_eq!(names("${parameters.a}${parameters.a}"), ["a", "a"]);
        assert_eq!(names("ä{{parameters.item.größe}}ö"), ["item.größe"]);
        assert_eq!(names("${parameters.a_b}"), ["a_b"]);
    }

    #[test]
    fn sole_placeholder_is_the_whole_text() {
        assert_eq!(sole("${parameters.a}").map(|p| p.name), Some("a"));
        for text in [" ${parameters.a}", "${parameters.a} ", "${parameters.a}${parameters.b}", "", "a"] {
            assert_eq!(sole(text), None, "{text:?}");
        }
    }

    #[test]
    fn scan_is_linear_on_unclosed_braces() {
        for hostile in ["{{.parameters.", "${parameters.a", "{", "$"] {
            assert_eq!(names(&hostile.repeat(200_000)), [""; 0]);
        }
    }

    proptest! {
        #[test]
        fn scan_takes_any_text(text in any::<String>()) {
            for placeholder in scan(&text) {
                prop_assert!(text.get(placeholder.range).is_some());
            }
        }

        #[test]
        fn found_ranges_are_what_they_say(parts in proptest::collection::vec("[{}$.a-]{0,4}|\\{\\{\\.?parameters\\.|\\$\\{parameters\\.", 0..12)) {
            let text = parts.concat();
            let mut last = 0;
            for p in scan(&text) {
                prop_assert!(p.range.start >= last);
                last = p.range.end;
                let written = format!("{}{}{}", p.notation.open(), p.name, p.notation.close());
                prop_assert_eq!(text.get(p.range.clone()), Some(written.as_str()));
            }
        }
    }
}
