//! Evaluation of paths (RFC 9535, 2.3 and 2.5) within a budget of steps. Owns segments and selectors but filters; never
//! recurses into the document.

use serde_json::Value;

use super::QueryError;
use super::ast::{Segment, Selector};
use super::function::Patterns;

/// The most steps one query takes; a step is a value looked at, or what costs about as much.
pub const STEPS_MAX: u64 = 1_000_000;

/// The members a document of a step has itself; other first members are looked up in its `status`.
pub(in crate::params) const DOCUMENT_MEMBERS: [&str; 6] =
    ["status", "metadata", "spec", "phase", "outputs", "termination"];

/// What `$` stands for.
#[derive(Clone, Copy)]
pub(super) enum Root<'e> {
    /// A value as it is.
    Value(&'e Value),
    /// The document of a step, with its rule for first members.
    Document(&'e Value),
}

/// One run of a query. `'e` is the life of both path and value.
pub(super) struct Evaluation<'e> {
    root: Root<'e>,
    left: u64,
    pub(super) patterns: Patterns<'e>,
}

impl<'e> Evaluation<'e> {
    pub(super) const fn new(root: Root<'e>) -> Self {
        Self { root, left: STEPS_MAX, patterns: Patterns::new() }
    }

    /// Pays for work.
    pub(super) fn pay(&mut self, steps: usize) -> Result<(), QueryError> {
        self.left =
            u64::try_from(steps).ok().and_then(|steps| self.left.checked_sub(steps)).ok_or(QueryError::TooCostly)?;
        Ok(())
    }

    /// All nodes that segments select from the root.
    pub(super) fn run(&mut self, segments: &'e [Segment]) -> Result<Vec<&'e Value>, QueryError> {
        let root = match self.root {
            Root::Value(value) => return self.walk(vec![value], segments),
            Root::Document(document) => document,
        };
        let Some((first, rest)) = segments.split_first() else { return Ok(vec![root]) };
        let mut nodes = Vec::new();
        if first.descends {
            self.descend(root, first, &mut nodes)?;
        } else {
            for selector in &first.selectors {
                match self.start(root, selector) {
                    Some(start) => self.choose(start, selector, &mut nodes)?,
                    None => self.pay(1)?,
                }
            }
        }
        self.walk(nodes, rest)
    }

    fn start(&self, root: &'e Value, selector: &Selector) -> Option<&'e Value> {
        if let Selector::Name(name) = selector { self.start_of(name) } else { Some(root) }
    }

    /// Where the first member of a path from the root is looked up.
    pub(super) fn start_of(&self, name: &str) -> Option<&'e Value> {
        match self.root {
            Root::Document(document) if !DOCUMENT_MEMBERS.contains(&name) => document.get("status"),
            Root::Value(value) | Root::Document(value) => Some(value),
        }
    }

    /// The value `$` stands for.
    pub(super) const fn root(&self) -> &'e Value {
        match self.root {
            Root::Value(value) | Root::Document(value) => value,
        }
    }

    /// All nodes that segments select from nodes.
    pub(super) fn walk(
        &mut self,
        mut nodes: Vec<&'e Value>,
        segments: &'e [Segment],
    ) -> Result<Vec<&'e Value>, QueryError> {
        for segment in segments {
            let mut next = Vec::new();
            for node in nodes {
                if segment.descends {
                    self.descend(node, segment, &mut next)?;
                } else {
                    self.choose_all(node, segment, &mut next)?;
                }
            }
            nodes = next;
        }
        Ok(nodes)
    }

    /// Applies a segment to a node and everything below it, parents first.
    fn descend(&mut self, node: &'e Value, segment: &'e Segment, out: &mut Vec<&'e Value>) -> Result<(), QueryError> {
        let mut open = vec![node];
        while let Some(node) = open.pop() {
            self.choose_all(node, segment, out)?;
            match node {
                Value::Array(items) => open.extend(items.iter().rev()),
                Value::Object(members) => open.extend(members.values().rev()),
                _ => {}
            }
        }
        Ok(())
    }

    fn choose_all(
        &mut self,
        node: &'e Value,
        segment: &'e Segment,
        out: &mut Vec<&'e Value>,
    ) -> Result<(), QueryError> {
        self.pay(1)?;
        segment.selectors.iter().try_for_each(|selector| self.choose(node, selector, out))
    }

    fn choose(&mut self, node: &'e Value, selector: &'e Selector, out: &mut Vec<&'e Value>) -> Result<(), QueryError> {
        self.pay(1)?;
        match (selector, node) {
            (Selector::Name(name), Value::Object(members)) => out.extend(members.get(name)),
            (Selector::Index(index), Value::Array(items)) => out.extend(item(items, *index)),
            (Selector::Slice(start, end, step), Value::Array(items)) => {
                let chosen = slice(items.len(), *start, *end, step.unwrap_or(1));
                self.pay(chosen.len())?;
                out.extend(chosen.into_iter().filter_map(|at| items.get(at)));
            }
            (Selector::Wildcard, Value::Array(items)) => {
                self.pay(items.len())?;
                out.extend(items);
            }
            (Selector::Wildcard, Value::Object(members)) => {
                self.pay(members.len())?;
                out.extend(members.values());
            }
            (Selector::Filter(condition), Value::Array(items)) => {
                for item in items {
                    if self.holds(condition, item)? {
                        out.push(item);
                    }
                }
            }
            (Selector::Filter(condition), Value::Object(members)) => {
                for member in members.values() {
                    if self.holds(condition, member)? {
                        out.push(member);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// The item at an index; negative ones count from the end.
pub(super) fn item(items: &[Value], index: i64) -> Option<&Value> {
    let distance = usize::try_from(index.unsigned_abs()).ok()?;
    if index >= 0 { items.get(distance) } else { items.get(items.len().checked_sub(distance)?) }
}

/// The positions a slice selects (RFC 9535, 2.3.4.2).
fn slice(len: usize, start: Option<i64>, end: Option<i64>, step: i64) -> Vec<usize> {
    let Ok(len) = i64::try_from(len) else { return Vec::new() };
    let Ok(stride) = usize::try_from(step.unsigned_abs()) else { return Vec::new() };
    let from_start = |at: i64| if at >= 0 { at } else { at.saturating_add(len) };
    let positions: (i64, i64) = match step {
        0 => return Vec::new(),
        1.. => (from_start(start.unwrap_or(0)).clamp(0, len), from_start(end.unwrap_or(len)).clamp(0, len)),
        _ => {
            let upper = start.map_or(len - 1, from_start).clamp(-1, len - 1);
            let lower = end.map_or(-1, from_start).clamp(-1, len - 1);
            (lower + 1, upper + 1)
        }
    };
    let range = usize::try_from(positions.0).unwrap_or(0)..usize::try_from(positions.1).unwrap_or(0);
    if step > 0 { range.step_by(stride).collect() } else { range.rev().step_by(stride).collect() }
}
