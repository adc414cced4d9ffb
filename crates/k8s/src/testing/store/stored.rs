//! One stored version of an object, with its JSON text made at most once.

use std::sync::OnceLock;

use bytes::Bytes;
use serde_json::Value;

use super::super::object::{Object, text};

/// One version of an object. Never changes.
#[derive(Debug)]
pub(crate) struct Stored {
    /// Its version.
    pub(crate) revision: u64,
    /// Its members.
    pub(crate) object: Object,
    text: OnceLock<(Bytes, usize)>,
}

impl Stored {
    pub(crate) fn new(revision: u64, object: Object) -> Self {
        Self { revision, object, text: OnceLock::new() }
    }

    fn rendered(&self) -> &(Bytes, usize) {
        self.text.get_or_init(|| render(&self.object))
    }

    /// Its JSON text.
    pub(crate) fn bytes(&self) -> &Bytes {
        &self.rendered().0
    }

    /// The text behind `kind` and `apiVersion`, without the opening brace: lists of built-in kinds leave them out.
    pub(crate) fn tail(&self) -> &[u8] {
        let (bytes, offset) = self.rendered();
        bytes.get(*offset..).unwrap_or_default()
    }
}

/// The text with `kind` and `apiVersion` first, and where the rest begins.
fn render(object: &Object) -> (Bytes, usize) {
    let mut out = Vec::with_capacity(512);
    out.extend_from_slice(b"{\"kind\":");
    write(&mut out, &Value::from(text(object, &["kind"])));
    out.extend_from_slice(b",\"apiVersion\":");
    write(&mut out, &Value::from(text(object, &["apiVersion"])));
    out.push(b',');
    let offset = out.len();
    let mut first = true;
    for (name, value) in object {
        if name == "kind" || name == "apiVersion" {
            continue;
        }
        if !first {
            out.push(b',');
        }
        first = false;
        write(&mut out, &Value::from(name.as_str()));
        out.push(b':');
        write(&mut out, value);
    }
    out.push(b'}');
    (Bytes::from(out), offset)
}

/// Writing JSON into memory does not fail.
fn write(out: &mut Vec<u8>, value: &Value) {
    let before = out.len();
    if serde_json::to_writer(&mut *out, value).is_err() {
        out.truncate(before);
        out.extend_from_slice(b"null");
    }
}
