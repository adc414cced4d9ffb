//! What a parsed path says. A tree that breaks the types of RFC 9535 cannot be built, so evaluation checks nothing.

use serde_json::Value;

/// A path from the root or, in filters, from the current node.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Query {
    pub(super) absolute: bool,
    pub(super) segments: Vec<Segment>,
}

impl Query {
    /// The path as one to at most one value, if all its segments name one member or item each.
    pub(super) fn singular(self) -> Option<Singular> {
        let steps = self.segments.into_iter().map(|segment| match <[Selector; 1]>::try_from(segment.selectors) {
            Ok([Selector::Name(name)]) if !segment.descends => Some(Step::Name(name)),
            Ok([Selector::Index(index)]) if !segment.descends => Some(Step::Index(index)),
            _ => None,
        });
        Some(Singular { absolute: self.absolute, steps: steps.collect::<Option<_>>()? })
    }
}

/// Selectors that apply to a node or, if the segment descends, also to all below it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Segment {
    pub(super) descends: bool,
    pub(super) selectors: Vec<Selector>,
}

/// What chooses among the children of a node.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Selector {
    Name(String),
    Wildcard,
    Index(i64),
    /// Start, end and step.
    Slice(Option<i64>, Option<i64>, Option<i64>),
    Filter(Filter),
}

/// A condition on a child of a node.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Filter {
    /// At least two parts.
    Or(Vec<Filter>),
    /// At least two parts.
    And(Vec<Filter>),
    Not(Box<Filter>),
    /// The path selects something.
    Exists(Query),
    Match(Box<Match>),
    Comparison(Box<Comparison>),
}

/// `match` or `search`: whether a text matches a pattern.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Match {
    /// Whether the pattern covers the whole text, as of `match`.
    pub(super) whole: bool,
    pub(super) text: Comparable,
    pub(super) pattern: Comparable,
}

/// Two values and how they must compare.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Comparison {
    pub(super) left: Comparable,
    pub(super) operator: Operator,
    pub(super) right: Comparable,
}

/// How two values must compare.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// What gives at most one value: a side of a comparison, or an argument of a function that takes a value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Comparable {
    /// Null, a truth value, a number or a text.
    Literal(Value),
    Singular(Singular),
    Function(Box<Function>),
}

/// A path to at most one value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Singular {
    pub(super) absolute: bool,
    pub(super) steps: Vec<Step>,
}

/// One step of a path to at most one value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    Name(String),
    Index(i64),
}

/// A function that gives a value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Function {
    Length(Comparable),
    Count(Query),
    Value(Query),
}
