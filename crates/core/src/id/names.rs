//! The syntax of names in Kubernetes and around it: DNS-1123 subdomains and labels, label keys and values.
//! Owns the checks; never repairs a name.

use super::error::{IdError, IdFault};

/// A rule for one text: how long, which characters, which at the ends of every part.
pub(crate) struct Rule {
    /// What the text is called in errors.
    pub(crate) what: &'static str,
    /// Bytes allowed.
    pub(crate) max: usize,
    /// Characters allowed inside.
    pub(crate) inner: fn(char) -> bool,
    /// Characters allowed at both ends of a part.
    pub(crate) edge: fn(char) -> bool,
    /// `inner` in words.
    pub(crate) allowed: &'static str,
    /// `edge` in words.
    pub(crate) edges: &'static str,
    /// What separates parts, if the rule holds per part.
    pub(crate) separator: Option<char>,
}

impl Rule {
    /// Whether `text` keeps the rule.
    pub(crate) fn check(&self, text: &str) -> Result<(), IdError> {
        self.fault(text).map_or(Ok(()), |fault| Err(IdError::new(self.what, text, fault)))
    }

    fn fault(&self, text: &str) -> Option<IdFault> {
        if text.is_empty() {
            return Some(IdFault::Empty { allowed: self.allowed });
        }
        if text.len() > self.max {
            return Some(IdFault::TooLong { len: text.len(), max: self.max });
        }
        let bad = text.chars().zip(1..).find(|&(ch, _)| !(self.inner)(ch));
        if let Some((ch, at)) = bad {
            return Some(IdFault::Character { ch, at, allowed: self.allowed });
        }
        let mut start = 1;
        for part in text.split(|ch| Some(ch) == self.separator) {
            let (Some(first), Some(last)) = (part.chars().next(), part.chars().next_back()) else {
                return Some(IdFault::EmptyPart { at: start });
            };
            let end = start + part.chars().count() - 1;
            let wrong = [(first, start), (last, end)].into_iter().find(|&(ch, _)| !(self.edge)(ch));
            if let Some((ch, at)) = wrong {
                let part = if self.separator.is_some() { "a part between dots" } else { "the text" };
                return Some(IdFault::Edge { ch, at, part, allowed: self.edges });
            }
            start = end + 2;
        }
        None
    }
}

fn lower_alphanumeric(ch: char) -> bool {
    ch.is_ascii_lowercase() || ch.is_ascii_digit()
}

const LOWER_EDGES: &str = "a lower case letter or digit";

pub(super) const SUBDOMAIN: Rule = Rule {
    what: "name",
    max: 253,
    inner: |ch| lower_alphanumeric(ch) || matches!(ch, '-' | '.'),
    edge: lower_alphanumeric,
    allowed: "lower case letters, digits, `-` and `.`",
    edges: LOWER_EDGES,
    separator: Some('.'),
};

pub(super) const LABEL: Rule = Rule {
    what: "name",
    max: 63,
    inner: |ch| lower_alphanumeric(ch) || ch == '-',
    edge: lower_alphanumeric,
    allowed: "lower case letters, digits and `-`",
    edges: LOWER_EDGES,
    separator: None,
};

const QUALIFIED: Rule = Rule {
    what: "label key",
    max: 63,
    inner: |ch| ch.is_ascii_alphanumeric() || matches!(ch, '-' | '_' | '.'),
    edge: |ch| ch.is_ascii_alphanumeric(),
    allowed: "letters, digits, `-`, `_` and `.`",
    edges: "a letter or digit",
    separator: None,
};

/// Checks a DNS-1123 subdomain: parts of lower case letters, digits and `-`, joined by dots, at most 253 bytes.
///
/// ```
/// use orlop_core::id::dns1123_subdomain;
/// assert!(dns1123_subdomain("build.image-1").is_ok());
/// assert!(dns1123_subdomain("build_image").is_err());
/// ```
///
/// # Errors
/// Says which character is wrong, where, and what is allowed.
pub fn dns1123_subdomain(text: &str) -> Result<(), IdError> {
    SUBDOMAIN.check(text)
}

/// Checks a DNS-1123 label: lower case letters, digits and `-`, alphanumeric at both ends, at most 63 bytes.
///
/// # Errors
/// Says which character is wrong, where, and what is allowed.
pub fn dns1123_label(text: &str) -> Result<(), IdError> {
    LABEL.check(text)
}

/// Checks a label or annotation key, or an extended resource name: `name` or `prefix/name`, the prefix a DNS-1123
/// subdomain, the name at most 63 letters, digits, `-`, `_`, `.` with a letter or digit at both ends.
///
/// # Errors
/// Says which character of which part is wrong, where in that part, and what is allowed.
pub fn label_key(text: &str) -> Result<(), IdError> {
    match text.split_once('/') {
        None => QUALIFIED.check(text),
        Some((_, rest)) if rest.contains('/') => Err(IdError::new(QUALIFIED.what, text, IdFault::Slashes)),
        Some((prefix, name)) => {
            SUBDOMAIN.check(prefix).map_err(|error| error.about("label key prefix"))?;
            QUALIFIED.check(name)
        }
    }
}

/// Checks a label value: empty, or at most 63 letters, digits, `-`, `_`, `.` with a letter or digit at both ends.
///
/// # Errors
/// Says which character is wrong, where, and what is allowed.
pub fn label_value(text: &str) -> Result<(), IdError> {
    if text.is_empty() { Ok(()) } else { QUALIFIED.check(text).map_err(|error| error.about("label value")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(result: Result<(), IdError>) -> String {
        result.map_or_else(|error| error.to_string(), |()| "ok".to_owned())
    }

    #[test]
    fn dns_subdomains_are_accepted_up_to_253_bytes() {
        for good in ["a", "0", "a-b", "a.b", "0a.b-c.9", "a--b", &"a".repeat(253), &format!("{}.b", "a".repeat(251))] {
            assert_eq!(dns1123_subdomain(good), Ok(()), "{good}");
        }
        for bad in ["", "A", "a_b", "-a", "a-", ".a", "a.", "a..b", "a.-b", "a-.b", "a b", " a", "ä", "a\u{0}"] {
            assert!(dns1123_subdomain(bad).is_err(), "{bad:?}");
        }
        assert!(dns1123_subdomain(&"a".repeat(254)).is_err());
    }

    #[test]
    fn dns_labels_are_subdomains_without_dots_up_to_63_bytes() {
        assert_eq!(dns1123_label(&"a".repeat(63)), Ok(()));
        assert!(dns1123_label(&"a".repeat(64)).is_err());
        assert!(dns1123_label("a.b").is_err());
    }

    #[test]
    fn label_keys_take_one_prefix_and_values_may_be_empty() {
        for good in ["app", "app.kubernetes.io/name", "A_b.c-9", "x/Y"] {
            assert_eq!(label_key(good), Ok(()), "{good}");
        }
        for bad in ["", "/", "a/", "/a", "a/b/c", "A/b", "_a", "a.", &format!("a/{}", "b".repeat(64))] {
            assert!(label_key(bad).is_err(), "{bad}");
        }
        assert_eq!(label_value(""), Ok(()));
        assert_eq!(label_value("A100-SXM4-40GB"), Ok(()));
        assert!(label_value("a b").is_err());
        assert!(label_value(&"a".repeat(64)).is_err());
    }

    #[test]
    fn errors_say_what_where_and_what_is_allowed() {
        insta::assert_snapshot!(text(dns1123_subdomain("")), @"name `` is not valid: it is empty; use lower case letters, digits, `-` and `.`");
        insta::assert_snapshot!(text(dns1123_subdomain("build_image")), @"name `build_image` is not valid: character '_' at position 6 is not allowed; use lower case letters, digits, `-` and `.`");
        insta::assert_snapshot!(text(dns1123_subdomain("ab.-c")), @"name `ab.-c` is not valid: '-' at position 4 is at the start or end of a part between dots, where only a lower case letter or digit is allowed");
        insta::assert_snapshot!(text(dns1123_subdomain("a..b")), @"name `a..b` is not valid: the part at position 3 is empty; write something between separators");
        insta::assert_snapshot!(text(dns1123_label(&"a".repeat(70))), @"name `aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…` is not valid: it is 70 bytes long, at most 63 are allowed");
        insta::assert_snapshot!(text(dns1123_label("a\n")), @r"name `a\n` is not valid: character '\n' at position 2 is not allowed; use lower case letters, digits and `-`");
        insta::assert_snapshot!(text(label_key("a/b/c")), @"label key `a/b/c` is not valid: it has more than one `/`; use `name` or `prefix/name`");
        insta::assert_snapshot!(text(label_key("Ab/c")), @"label key prefix `Ab` is not valid: character 'A' at position 1 is not allowed; use lower case letters, digits, `-` and `.`");
        insta::assert_snapshot!(text(label_value("-x")), @"label value `-x` is not valid: '-' at position 1 is at the start or end of the text, where only a letter or digit is allowed");
    }
}
