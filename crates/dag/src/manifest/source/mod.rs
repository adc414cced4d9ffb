//! Manifests as text: YAML or JSON in, a tree of nodes with exact places out. Owns the limits on what a text may hold
//! and the lookup from field path to line; never knows what the fields mean.

mod build;
mod members;
mod position;
mod scalar;
mod syntax;
#[cfg(test)]
mod tests;
mod tree;

use std::ops::Range;
use std::sync::{Arc, OnceLock};

pub use tree::Node;

use self::position::Lines;
use super::path::FieldPath;
use super::violation::{FieldPart, Location, Note, Severity, Violations};
use crate::code::Code;
use tree::{Raw, Text};

/// What a text may hold. Everything above is refused with a message, before it costs memory or time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TextLimits {
    /// Bytes of one file; default 8 MiB, at most 4 GiB.
    pub bytes: usize,
    /// Collections inside each other; default 64, at most 256.
    pub depth: usize,
    /// Scalars, keys and collections of one file, those behind aliases counted at every use; default 2,000,000.
    pub nodes: usize,
    /// Documents of one file, empty ones included; default 1,000.
    pub documents: usize,
}

impl Default for TextLimits {
    fn default() -> Self {
        Self { bytes: 8 << 20, depth: 64, nodes: 2_000_000, documents: 1000 }
    }
}

impl TextLimits {
    /// Limits for the largest flows, 100,000 steps with full templates: 256 MiB and 40,000,000 nodes.
    #[must_use]
    pub fn large() -> Self {
        Self { bytes: 256 << 20, nodes: 40_000_000, ..Self::default() }
    }
}

/// A parsed file: its text and the tree of every document in it.
#[derive(Clone, Debug)]
pub struct Source {
    file: Arc<str>,
    text: Arc<str>,
    nodes: Vec<Raw>,
    children: Vec<u32>,
    decoded: String,
    documents: Vec<u32>,
    lines: OnceLock<Lines>,
}

/// Something wrong with the text itself.
struct Problem {
    severity: Severity,
    code: Code,
    span: Range<usize>,
    note: Note,
}

impl Source {
    /// Parses a text of one or more YAML or JSON documents. Documents that are readable are there even when others are
    /// not.
    pub fn parse(file: &str, text: impl Into<Arc<str>>, limits: &TextLimits) -> (Self, Violations) {
        let mut source = Self {
            file: Arc::from(file),
            text: text.into(),
            nodes: Vec::new(),
            children: Vec::new(),
            decoded: String::new(),
            documents: Vec::new(),
            lines: OnceLock::new(),
        };
        let (problems, more) = build::build(&mut source, limits);
        let mut found = Violations::new();
        for Problem { severity, code, span, note } in problems {
            let place = Some(source.location(&span));
            found.add((severity, code), &super::path::Path::ROOT, || note);
            if let Some(violation) = found.iter_mut().last().filter(|v| v.at.is_none()) {
                violation.at = place;
            }
        }
        found.count_unkept(Severity::Error, more);
        (source, found)
    }

    /// Name of the file as given.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The whole text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The root node of every document.
    pub fn documents(&self) -> impl ExactSizeIterator<Item = Node<'_>> {
        self.documents.iter().map(|id| Node { source: self, id: *id })
    }

    /// Gives every violation that has no place yet the place of its field in a document; where the field is missing,
    /// that of what should hold it.
    pub fn place(&self, root: Node<'_>, violations: &mut Violations) {
        for violation in violations.iter_mut().filter(|violation| violation.at.is_none()) {
            violation.at = Some(self.location(&position::find(root, &violation.path, &violation.part)));
        }
    }

    /// The place of a field of a document; where it is missing, that of what should hold it.
    #[must_use]
    pub fn locate(&self, root: Node<'_>, path: &FieldPath) -> Location {
        self.location(&position::find(root, path, &FieldPart::Value))
    }

    fn location(&self, span: &Range<usize>) -> Location {
        self.lines.get_or_init(|| Lines::new(&self.text)).location(&self.file, &self.text, span)
    }

    fn text_of(&self, text: Text) -> &str {
        let range = text.start as usize..text.start as usize + text.len as usize;
        let whole: &str = if text.decoded { &self.decoded } else { &self.text };
        whole.get(range).unwrap_or_default()
    }
}
