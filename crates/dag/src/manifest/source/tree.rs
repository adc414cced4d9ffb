//! The nodes of a parsed text, in flat arrays. Owns access to them and their byte ranges; never parses.

use std::ops::Range;

use serde_json::{Map, Number, Value};

use super::Source;
use crate::manifest::data::{Data, Shape};
use crate::manifest::path::{FieldPath, Segment};

/// A stored node: where it stands and what it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raw {
    pub(super) start: u32,
    pub(super) end: u32,
    pub(super) kind: Kind,
}

/// What a node is. Children of collections are runs of `Source::children`; those of mappings alternate key and value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Null,
    Bool(bool),
    Int(i64),
    UInt(u64),
    Float(f64),
    Str(Text),
    Seq(Run),
    Map(Run),
}

/// A text as bytes of the source, or of the decoded texts where the source spells it differently.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text {
    pub(super) start: u32,
    pub(super) len: u32,
    pub(super) decoded: bool,
}

/// A run of `Source::children`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Run {
    pub(super) first: u32,
    pub(super) len: u32,
}

impl Run {
    fn range(self) -> Range<usize> {
        self.first as usize..self.first as usize + self.len as usize
    }
}

/// A node of a parsed text: a scalar, a sequence or a mapping, with its place.
#[derive(Clone, Copy, Debug)]
pub struct Node<'s> {
    pub(super) source: &'s Source,
    pub(super) id: u32,
}

impl<'s> Node<'s> {
    pub(super) fn raw(self) -> Raw {
        // Ids come from the builder of the same source, so the fallback is never seen.
        self.source.nodes.get(self.id as usize).copied().unwrap_or(Raw { start: 0, end: 0, kind: Kind::Null })
    }

    fn children(self, run: Run) -> impl ExactSizeIterator<Item = Self> + DoubleEndedIterator + 's {
        let source = self.source;
        source.children.get(run.range()).unwrap_or(&[]).iter().map(move |id| Node { source, id: *id })
    }

    /// Bytes of the file the node covers. For a node behind an alias or merge key, those of its anchor.
    #[must_use]
    pub fn span(self) -> Range<usize> {
        let raw = self.raw();
        raw.start as usize..raw.end as usize
    }

    /// Keys and values of a mapping, both as nodes; nothing for other nodes.
    pub fn pairs(self) -> impl Iterator<Item = (Self, Self)> + 's {
        let Kind::Map(run) = self.raw().kind else { return PairIter { source: self.source, ids: [].iter() } };
        PairIter { source: self.source, ids: self.source.children.get(run.range()).unwrap_or(&[]).iter() }
    }

    /// The value of a key of a mapping, with the key's own node.
    #[must_use]
    pub fn pair(self, key: &str) -> Option<(Self, Self)> {
        self.pairs().find(|(name, _)| name.text() == Some(key))
    }

    /// The item of a sequence.
    #[must_use]
    pub fn item(self, index: usize) -> Option<Self> {
        let Kind::Seq(run) = self.raw().kind else { return None };
        self.children(run).nth(index)
    }

    /// The node of a field path below this one.
    #[must_use]
    pub fn at(self, path: &FieldPath) -> Option<Self> {
        path.segments().iter().try_fold(self, |node, segment| match segment {
            Segment::Field(name) => node.pair(name).map(|(_, value)| value),
            Segment::Index(index) => node.item(*index),
        })
    }

    /// The text of a text node.
    #[must_use]
    pub fn text(self) -> Option<&'s str> {
        match self.raw().kind {
            Kind::Str(text) => Some(self.source.text_of(text)),
            _ => None,
        }
    }

    /// Bytes of the file that spell the text of a text node as it is, without escapes or folding.
    pub(super) fn verbatim(self) -> Option<Range<usize>> {
        match self.raw().kind {
            Kind::Str(Text { start, len, decoded: false }) => Some(start as usize..start as usize + len as usize),
            _ => None,
        }
    }

    /// The node as a JSON tree. Depth and size are those the parser's limits allow.
    #[must_use]
    pub fn to_value(self) -> Value {
        match self.raw().kind {
            Kind::Null => Value::Null,
            Kind::Bool(value) => Value::Bool(value),
            Kind::Int(value) => value.into(),
            Kind::UInt(value) => value.into(),
            Kind::Float(value) => Number::from_f64(value).map_or(Value::Null, Value::Number),
            Kind::Str(text) => Value::String(self.source.text_of(text).to_owned()),
            Kind::Seq(run) => Value::Array(self.children(run).map(Self::to_value).collect()),
            Kind::Map(run) => {
                let mut map = Map::with_capacity(run.len as usize / 2);
                for (key, value) in self.pairs() {
                    map.insert(key.text().unwrap_or_default().to_owned(), value.to_value());
                }
                Value::Object(map)
            }
        }
    }
}

struct PairIter<'s> {
    source: &'s Source,
    ids: std::slice::Iter<'s, u32>,
}

impl<'s> Iterator for PairIter<'s> {
    type Item = (Node<'s>, Node<'s>);

    fn next(&mut self) -> Option<Self::Item> {
        let (key, value) = (*self.ids.next()?, *self.ids.next()?);
        Some((Node { source: self.source, id: key }, Node { source: self.source, id: value }))
    }
}

impl<'s> Data<'s> for Node<'s> {
    fn shape(self) -> Shape<'s> {
        match self.raw().kind {
            Kind::Null => Shape::Null,
            Kind::Bool(value) => Shape::Bool(value),
            Kind::Int(value) => Shape::Int(i128::from(value)),
            Kind::UInt(value) => Shape::Int(i128::from(value)),
            Kind::Float(value) => Shape::Float(value),
            Kind::Str(text) => Shape::Str(self.source.text_of(text)),
            Kind::Seq(_) => Shape::Seq,
            Kind::Map(_) => Shape::Map,
        }
    }

    fn items(self) -> impl Iterator<Item = Self> {
        let run = match self.raw().kind {
            Kind::Seq(run) => run,
            _ => Run::default(),
        };
        self.children(run)
    }

    fn entries(self) -> impl Iterator<Item = (&'s str, Self)> {
        self.pairs().map(|(key, value)| (key.text().unwrap_or_default(), value))
    }

    fn mark(self) -> u32 {
        self.id
    }

    fn written(self) -> Option<&'s str> {
        match self.raw().kind {
            Kind::Bool(_) | Kind::Int(_) | Kind::UInt(_) | Kind::Float(_) => self.source.text.get(self.span()),
            _ => None,
        }
    }
}
