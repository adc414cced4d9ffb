//! Walks over JSON trees that may be hostile: bounded in depth or without recursion, with the place of every text.
//! Owns places and walks; never knows placeholders.

use std::fmt;

use serde_json::{Map, Value};

/// The deepest tree that is rebuilt or written as text, in levels; what JSON parsers accept by default.
pub(super) const DEPTH_MAX: usize = 128;

/// One step from a value to a value inside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Segment<'t> {
    /// A member of an object.
    Field(&'t str),
    /// An item of an array, from 0.
    Index(usize),
}

/// Writes a place as a field path, for example `spec.containers[0].env[1].value` or `labels["a.b/c"]`.
pub(super) struct FieldPath<'p, 't>(pub(super) &'p [Segment<'t>]);

impl fmt::Display for FieldPath<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, segment) in self.0.iter().enumerate() {
            match *segment {
                Segment::Index(index) => write!(f, "[{index}]")?,
                Segment::Field(name) if is_plain(name) => write!(f, "{}{name}", if at == 0 { "" } else { "." })?,
                Segment::Field(name) => write!(f, "[{}]", Value::from(name))?,
            }
        }
        Ok(())
    }
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'$'))
}

/// Whether no value of the tree lies deeper than `max` levels; a tree of one scalar has one level.
pub(super) fn depth_within(tree: &Value, max: usize) -> bool {
    let mut open = vec![(tree, 1)];
    while let Some((value, depth)) = open.pop() {
        if depth > max {
            return false;
        }
        match value {
            Value::Array(items) => open.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(members) => open.extend(members.values().map(|member| (member, depth + 1))),
            _ => {}
        }
    }
    true
}

enum Children<'t> {
    Items(std::iter::Enumerate<std::slice::Iter<'t, Value>>),
    Members(serde_json::map::Iter<'t>),
}

impl<'t> Children<'t> {
    fn of(value: &'t Value) -> Option<Self> {
        match value {
            Value::Array(items) => Some(Self::Items(items.iter().enumerate())),
            Value::Object(members) => Some(Self::Members(members.iter())),
            _ => None,
        }
    }
}

impl<'t> Iterator for Children<'t> {
    type Item = (Segment<'t>, &'t Value);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Items(items) => items.next().map(|(at, item)| (Segment::Index(at), item)),
            Self::Members(members) => members.next().map(|(name, member)| (Segment::Field(name), member)),
        }
    }
}

/// Calls `visit` with the place and content of every text value, whatever the depth: items of lists in their
/// order, members by name.
pub(super) fn for_each_text<'t>(tree: &'t Value, mut visit: impl FnMut(&[Segment<'t>], &'t str)) {
    if let Value::String(text) = tree {
        visit(&[], text);
    }
    let mut place = Vec::new();
    let mut open: Vec<Children<'t>> = Children::of(tree).into_iter().collect();
    while let Some(children) = open.last_mut() {
        let Some((segment, child)) = children.next() else {
            open.pop();
            place.pop();
            continue;
        };
        place.push(segment);
        if let Some(grandchildren) = Children::of(child) {
            open.push(grandchildren);
            continue;
        }
        if let Value::String(text) = child {
            visit(&place, text);
        }
        place.pop();
    }
}

/// What `rewrite` does with a text: keep it or put another one in its place.
pub(super) type Rewrite<'f, 't, E> = dyn FnMut(&[Segment<'t>], &'t str) -> Result<Option<String>, E> + 'f;

/// A copy of the tree with texts rewritten; keys and shape stay. Recursive: check [`depth_within`] first.
pub(super) fn rewrite<'t, E>(
    tree: &'t Value,
    place: &mut Vec<Segment<'t>>,
    change: &mut Rewrite<'_, 't, E>,
) -> Result<Value, E> {
    Ok(match tree {
        Value::String(text) => change(place, text)?.map_or_else(|| tree.clone(), Value::String),
        Value::Array(items) => {
            let mut copy = Vec::with_capacity(items.len());
            for (at, item) in items.iter().enumerate() {
                place.push(Segment::Index(at));
                copy.push(rewrite(item, place, change)?);
                place.pop();
            }
            Value::Array(copy)
        }
        Value::Object(members) => {
            let mut copy = Map::with_capacity(members.len());
            for (name, member) in members {
                place.push(Segment::Field(name));
                copy.insert(name.clone(), rewrite(member, place, change)?);
                place.pop();
            }
            Value::Object(copy)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => tree.clone(),
    })
}

#[cfg(test)]
pub(super) mod testing {
    //! Trees for the tests of this folder.

    use proptest::prelude::*;
    use serde_json::Value;

    /// Any JSON tree, its texts and keys drawn from `text`.
    pub(in crate::params) fn trees(text: BoxedStrategy<String>) -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            text.clone().prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 48, 6, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                proptest::collection::vec((text.clone(), inner), 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    /// An array in an array, `levels` deep, around a text.
    pub(in crate::params) fn nested(levels: usize, text: &str) -> Value {
        (1..levels).fold(Value::from(text), |inner, _| Value::Array(vec![inner]))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_are_visited_in_order_with_their_places() {
        let tree = json!({"a": ["x", {"b.c/d": "y", "": "z"}, 1, null, [], {}], "e": {"f": "w"}});
        let mut seen = Vec::new();
        for_each_text(&tree, |place, text| seen.push(format!("{}={text}", FieldPath(place))));
        assert_eq!(seen, ["a[0]=x", "a[1][\"\"]=z", "a[1][\"b.c/d\"]=y", "e.f=w"]);
        for_each_text(&json!("alone"), |place, text| assert_eq!((place.len(), text), (0, "alone")));
    }

    #[test]
    fn depth_counts_levels() {
        assert!(depth_within(&json!(1), 1));
        assert!(depth_within(&json!([[1]]), 3));
        assert!(!depth_within(&json!({"a": [1]}), 2));
        assert!(depth_within(&testing::nested(DEPTH_MAX, "x"), DEPTH_MAX));
        assert!(!depth_within(&testing::nested(DEPTH_MAX + 1, "x"), DEPTH_MAX));
    }

    #[test]
    fn walks_do_not_recurse() {
        let mut deep = testing::nested(100_000, "x");
        let mut texts = 0;
        for_each_text(&deep, |place, _| texts += place.len());
        assert_eq!(texts, 99_999);
        assert!(!depth_within(&deep, DEPTH_MAX));
        while let Some(inner) = deep.as_array_mut().and_then(Vec::pop) {
            deep = inner;
        }
    }
}
