//! Field paths: how a place in a manifest is named (`spec.steps[3].template.spec`). Owns their two forms, the borrowed
//! chain that walkers extend without allocating and the owned path that reports keep; never looks into a document.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Segment {
    /// A member of a mapping.
    Field(Cow<'static, str>),
    /// An item of a sequence, from 0.
    Index(usize),
}

/// The place of a value in a document.
///
/// ```
/// use orlop_dag::manifest::FieldPath;
/// let path: FieldPath = r#"spec.steps[3].metadata.labels["a.b/c"]"#.parse().unwrap();
/// assert_eq!(path.to_string(), r#"spec.steps[3].metadata.labels["a.b/c"]"#);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldPath(Vec<Segment>);

impl FieldPath {
    /// A path of segments, outermost first.
    #[must_use]
    pub fn new(segments: Vec<Segment>) -> Self {
        Self(segments)
    }

    /// The segments, outermost first.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.0
    }

    /// Whether the path is that of the whole document.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `self` is `other` or lies inside it.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        self.0.starts_with(&other.0)
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Index(index) => write!(f, "[{index}]")?,
                Segment::Field(name) if is_plain(name) => write!(f, "{}{name}", if at == 0 { "" } else { "." })?,
                Segment::Field(name) => write!(f, "[{}]", serde_json::Value::from(name.as_ref()))?,
            }
        }
        Ok(())
    }
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'$'))
}

impl Serialize for FieldPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A text is not a field path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a field path; write one like spec.steps[3].template or labels[\"a.b/c\"]")]
pub struct ParsePathError {
    text: String,
}

impl FromStr for FieldPath {
    type Err = ParsePathError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fail = || ParsePathError { text: text.chars().take(200).collect() };
        let mut segments = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let (segment, after) = if let Some(inside) = rest.strip_prefix('[') {
                bracket(inside).ok_or_else(fail)?
            } else {
                let body = if segments.is_empty() { rest } else { rest.strip_prefix('.').ok_or_else(fail)? };
                let end = body.find(['.', '[']).unwrap_or(body.len());
                let (name, after) = body.split_at(end);
                if name.is_empty() {
                    return Err(fail());
                }
                (Segment::Field(Cow::Owned(name.to_owned())), after)
            };
            segments.push(segment);
            rest = after;
        }
        Ok(Self(segments))
    }
}

/// Reads what follows `[`: an index or a quoted key, and the closing bracket.
fn bracket(inside: &str) -> Option<(Segment, &str)> {
    if !inside.starts_with('"') {
        let (index, after) = inside.split_once(']')?;
        return Some((Segment::Index(index.parse().ok()?), after));
    }
    let mut values = serde_json::Deserializer::from_str(inside).into_iter::<String>();
    let key = values.next()?.ok()?;
    let after = inside.get(values.byte_offset()..)?.strip_prefix(']')?;
    Some((Segment::Field(Cow::Owned(key)), after))
}

/// A path under construction: a chain of borrowed segments on the walker's own stack.
#[derive(Clone, Copy, Debug)]
pub struct Path<'p> {
    parent: Option<&'p Path<'p>>,
    segment: Option<PathSegment<'p>>,
}

#[derive(Clone, Copy, Debug)]
enum PathSegment<'p> {
    Field(&'p str),
    Index(usize),
}

impl<'p> Path<'p> {
    /// The whole document.
    pub const ROOT: Path<'static> = Path { parent: None, segment: None };

    /// A member of the mapping at this path.
    #[must_use]
    pub const fn field<'c>(&'c self, name: &'c str) -> Path<'c>
    where
        'p: 'c,
    {
        Path { parent: Some(self), segment: Some(PathSegment::Field(name)) }
    }

    /// An item of the sequence at this path.
    #[must_use]
    pub const fn index<'c>(&'c self, index: usize) -> Path<'c>
    where
        'p: 'c,
    {
        Path { parent: Some(self), segment: Some(PathSegment::Index(index)) }
    }

    /// The path as a value of its own.
    #[must_use]
    pub fn to_owned(&self) -> FieldPath {
        let mut segments = Vec::new();
        let mut at = Some(self);
        while let Some(path) = at {
            match path.segment {
                Some(PathSegment::Field(name)) => segments.push(Segment::Field(Cow::Owned(name.to_owned()))),
                Some(PathSegment::Index(index)) => segments.push(Segment::Index(index)),
                None => {}
            }
            at = path.parent;
        }
        segments.reverse();
        FieldPath(segments)
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_owned().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn chains_print_like_their_owned_paths() {
        let (root, spec) = (Path::ROOT, Path::ROOT.field("spec"));
        let steps = spec.field("steps");
        let step = steps.index(3);
        let labels = step.field("labels");
        assert_eq!(root.to_owned(), FieldPath::default());
        assert_eq!(labels.field("a.b/c").to_string(), "spec.steps[3].labels[\"a.b/c\"]");
        assert!(labels.to_owned().is_within(&step.to_owned()));
        assert!(!step.to_owned().is_within(&labels.to_owned()));
    }

    #[test]
    fn texts_that_are_no_paths_are_refused() {
        for text in ["a..b", "a[", "a[x]", "a[\"x\"", ".a", "a[1]b", "a[-1]"] {
            assert!(text.parse::<FieldPath>().is_err(), "{text}");
        }
        insta::assert_snapshot!("a[x]".parse::<FieldPath>().unwrap_err(), @r#"`a[x]` is not a field path; write one like spec.steps[3].template or labels["a.b/c"]"#);
    }

    proptest! {
        #[test]
        fn paths_read_back_what_they_print(parts in proptest::collection::vec(prop_oneof![
            any::<String>().prop_map(|name| Segment::Field(Cow::Owned(name))),
            any::<usize>().prop_map(Segment::Index),
        ], 0..6)) {
            let path = FieldPath::new(parts);
            prop_assert_eq!(path.to_string().parse::<FieldPath>(), Ok(path));
        }
    }
}
