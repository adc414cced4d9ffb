//! From bytes to lines and columns, and from field paths to bytes. Owns what a report shows of a line.

use std::ops::Range;
use std::sync::Arc;

use super::tree::Node;
use crate::manifest::data::{Data, Shape};
use crate::manifest::path::{FieldPath, Segment};
use crate::manifest::violation::{Excerpt, FieldPart, Location, is_bidi};

/// Characters of a line that a report shows. With its margin it fits a terminal of 80 columns, so that no mark stands beside what it
/// is about.
const WIDTH: usize = 72;

/// Where the lines of a text begin.
#[derive(Clone, Debug)]
pub(super) struct Lines(Vec<usize>);

impl Lines {
    pub(super) fn new(text: &str) -> Self {
        let mut starts = vec![0];
        starts.extend(text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1));
        Self(starts)
    }

    /// Line, column and excerpt of some bytes.
    pub(super) fn location(&self, file: &Arc<str>, text: &str, span: &Range<usize>) -> Location {
        let at = floor(text, span.start);
        let line = self.0.partition_point(|start| *start <= at).max(1);
        let start = self.0.get(line - 1).copied().unwrap_or(0);
        let end = self.0.get(line).copied().unwrap_or(text.len());
        let head = text.get(start..at).unwrap_or_default().trim_start_matches('\u{feff}');
        let tail = text.get(at..end).unwrap_or_default().trim_end_matches(['\n', '\r']);
        let width = text.get(at..floor(text, span.end).clamp(at, at + tail.len())).map_or(1, |t| t.chars().count());
        Location {
            file: Arc::clone(file),
            line: u32::try_from(line).unwrap_or(u32::MAX),
            column: u32::try_from(head.chars().count() + 1).unwrap_or(u32::MAX),
            excerpt: excerpt(head, tail, width),
        }
    }
}

/// The largest character boundary not after `at`.
fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn excerpt(head: &str, tail: &str, width: usize) -> Excerpt {
    let (front, rest) = (head.chars().count(), tail.chars().take(WIDTH + 1).count());
    // What is short leaves its room to the other side.
    let before = (WIDTH / 2).max(WIDTH.saturating_sub(rest)).min(front);
    let after = WIDTH - before.min(WIDTH);
    let visible = |c: char| if c.is_control() || is_bidi(c) { ' ' } else { c };
    let mut text: String = if front > before { "…".to_owned() } else { String::new() };
    text.extend(head.chars().skip(front - before).map(visible));
    let columns = text.chars().count();
    text.extend(tail.chars().take(after).map(visible));
    if rest > after {
        text.push('…');
    }
    let shown = text.chars().count() - columns;
    Excerpt { text: text.trim_end().to_owned(), before: columns, width: width.clamp(1, shown.max(1)) }
}

/// Bytes of a field of a document. A missing field is where its nearest existing owner is; collections are at their
/// key, and an item of a list that is a mapping at its first key.
pub(super) fn find(root: Node<'_>, path: &FieldPath, part: &FieldPart) -> Range<usize> {
    let (mut node, mut key) = (root, None);
    for segment in path.segments() {
        let next = match segment {
            Segment::Field(name) => node.pair(name).map(|(name, value)| (value, Some(name))),
            Segment::Index(index) => node.item(*index).map(|item| (item, None)),
        };
        match next {
            Some((child, name)) => (node, key) = (child, name),
            None => return anchor(node, key),
        }
    }
    match (part, key, node.verbatim()) {
        (FieldPart::Key, Some(key), _) => key.span(),
        (FieldPart::Within(bytes), _, Some(text)) => {
            let at = |offset: usize| text.start + offset.min(text.len());
            at(bytes.start)..at(bytes.end)
        }
        (_, key, _) => anchor(node, key),
    }
}

fn anchor(node: Node<'_>, key: Option<Node<'_>>) -> Range<usize> {
    if let (Some(key), Shape::Seq | Shape::Map | Shape::Null) = (key, node.shape()) {
        return key.span();
    }
    match node.pairs().next() {
        Some((first, _)) => first.span(),
        None => node.span(),
    }
}
