//! Names that tables may hold: label keys and values, names of classes and attributes. Owns their rules only.

use crate::id::{IdError, IdFault, Rule, dns1123_subdomain, label_key, label_value, text_id};

text_id! {
    /// The key of a label or taint: `name` or `prefix/name`.
    pub struct KeyName(|text: &str| label_key(text));
}

text_id! {
    /// The name of a runtime class or device class: a DNS-1123 subdomain.
    pub struct ClassName(|text: &str| dns1123_subdomain(text).map_err(|error| error.about("class name")));
}

text_id! {
    /// An attribute of devices in claims: 1 to 32 letters, digits and `_`, not a digit first, since it is part of expressions.
    pub struct AttributeName(attribute);
}

text_id! {
    /// The value of a label or attribute, which must be one: 1 to 63 letters, digits, `-`, `_`, `.`, alphanumeric at both
    /// ends.
    pub struct ValueName(value);
}

const ATTRIBUTE: Rule = Rule {
    what: "attribute",
    max: 32,
    inner: |ch| ch.is_ascii_alphanumeric() || ch == '_',
    edge: |_| true,
    allowed: "letters, digits and `_`",
    edges: "",
    separator: None,
};

fn attribute(text: &str) -> Result<(), IdError> {
    ATTRIBUTE.check(text)?;
    match text.chars().next().filter(char::is_ascii_digit) {
        Some(ch) => {
            let fault = IdFault::Character { ch, at: 1, allowed: "a letter or `_` first" };
            Err(IdError { what: ATTRIBUTE.what, given: text.to_owned(), fault })
        }
        None => Ok(()),
    }
}

fn value(text: &str) -> Result<(), IdError> {
    if text.is_empty() {
        let fault = IdFault::Empty { allowed: "letters, digits, `-`, `_` and `.`" };
        return Err(IdError { what: "label value", given: String::new(), fault });
    }
    label_value(text)
}

impl Default for AttributeName {
    /// A placeholder: no device has this attribute.
    fn default() -> Self {
        Self("none".into())
    }
}

impl Default for KeyName {
    /// A placeholder: no label has this key.
    fn default() -> Self {
        Self("orlop/none".into())
    }
}

impl Default for ClassName {
    /// A placeholder: no class has this name.
    fn default() -> Self {
        Self("none".into())
    }
}
