//! Names that tables may hold: label keys and names of classes. Owns their rules only.

use crate::id::{dns1123_subdomain, label_key, text_id};

text_id! {
    /// The key of a label or taint: `name` or `prefix/name`.
    pub struct KeyName(|text: &str| label_key(text));
}

text_id! {
    /// The name of a runtime class or device class: a DNS-1123 subdomain.
    pub struct ClassName(|text: &str| dns1123_subdomain(text).map_err(|error| error.about("class name")));
}

impl Default for KeyName {
    /// A key that nobody sets.
    fn default() -> Self {
        Self("orlop/none".into())
    }
}

impl Default for ClassName {
    /// A class that nobody has.
    fn default() -> Self {
        Self("none".into())
    }
}
