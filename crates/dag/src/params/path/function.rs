//! The functions of RFC 9535, 2.4: length, count, value, match, search. Owns patterns (RFC 9485) and their cost.

use std::collections::BTreeMap;

use jsonpath_rust::parser::model::{FnArg, Test, TestFunction};
use regex::{Error, Regex, RegexBuilder};
use serde_json::Value;

use super::QueryError;
use super::evaluate::Evaluation;
use super::filter::Operand;

/// The longest pattern, in bytes.
const PATTERN_MAX: usize = 1024;
/// The most memory a compiled pattern may take, in bytes.
const COMPILED_MAX: usize = 256 * 1024;
/// What compiling a pattern costs, in steps.
const COMPILE_STEPS: usize = 10_000;
/// What matching a byte costs, in steps.
const BYTE_STEPS: usize = 4;

/// Patterns compiled during one evaluation: pattern and whether the whole text must match. None does not compile.
pub(super) struct Patterns<'e>(BTreeMap<(&'e str, bool), Option<Regex>>);

impl Patterns<'_> {
    pub(super) const fn new() -> Self {
        Self(BTreeMap::new())
    }
}

impl<'e> Evaluation<'e> {
    /// The value of a function that gives one; nothing of others.
    pub(super) fn value_of(&mut self, call: &'e TestFunction, node: &'e Value) -> Result<Operand<'e>, QueryError> {
        match call {
            TestFunction::Length(argument) => {
                let argument = self.argument(argument, node)?;
                self.length(argument)
            }
            TestFunction::Count(argument) => {
                let found = self.nodes_of(argument, node)?.len();
                Ok(i64::try_from(found).map_or(Operand::Nothing, Operand::Int))
            }
            TestFunction::Value(argument) => Ok(match self.nodes_of(argument, node)?.as_slice() {
                [one] => Operand::Json(one),
                _ => Operand::Nothing,
            }),
            TestFunction::Match(..) | TestFunction::Search(..) | TestFunction::Custom(..) => Ok(Operand::Nothing),
        }
    }

    /// Whether a function that tests holds; false of others.
    pub(super) fn matches(&mut self, call: &'e TestFunction, node: &'e Value) -> Result<bool, QueryError> {
        let (text, pattern, whole) = match call {
            TestFunction::Match(text, pattern) => (text, pattern, true),
            TestFunction::Search(text, pattern) => (text, pattern, false),
            _ => return Ok(false),
        };
        let (text, pattern) = (self.argument(text, node)?.text(), self.argument(pattern, node)?.text());
        let (Some(text), Some(pattern)) = (text, pattern) else { return Ok(false) };
        self.pay(text.len().saturating_mul(BYTE_STEPS))?;
        if !self.patterns.0.contains_key(&(pattern, whole)) {
            self.pay(COMPILE_STEPS)?;
            self.patterns.0.insert((pattern, whole), compile(pattern, whole)?);
        }
        let compiled = self.patterns.0.get(&(pattern, whole)).and_then(Option::as_ref);
        Ok(compiled.is_some_and(|regex| regex.is_match(text)))
    }

    fn nodes_of(&mut self, argument: &'e FnArg, node: &'e Value) -> Result<Vec<&'e Value>, QueryError> {
        match argument {
            FnArg::Test(path) => self.nodes(path, node),
            FnArg::Literal(_) | FnArg::Filter(_) => Ok(Vec::new()),
        }
    }

    fn argument(&mut self, argument: &'e FnArg, node: &'e Value) -> Result<Operand<'e>, QueryError> {
        match argument {
            FnArg::Literal(literal) => Ok(Operand::literal(literal)),
            FnArg::Filter(_) => Ok(Operand::Nothing),
            FnArg::Test(test) => match &**test {
                Test::Function(call) => self.value_of(call, node),
                path => Ok(self.nodes(path, node)?.first().copied().map_or(Operand::Nothing, Operand::Json)),
            },
        }
    }

    fn length(&mut self, operand: Operand<'e>) -> Result<Operand<'e>, QueryError> {
        let len = match operand {
            Operand::Json(Value::Array(items)) => items.len(),
            Operand::Json(Value::Object(members)) => members.len(),
            other => {
                let Some(text) = other.text() else { return Ok(Operand::Nothing) };
                self.pay(text.len() / 64)?;
                text.chars().count()
            }
        };
        Ok(i64::try_from(len).map_or(Operand::Nothing, Operand::Int))
    }
}

/// Compiles a pattern; none when it is not valid, which matches nothing.
fn compile(pattern: &str, whole: bool) -> Result<Option<Regex>, QueryError> {
    if pattern.len() > PATTERN_MAX {
        return Err(QueryError::TooCostly);
    }
    let pattern = translate(pattern);
    let build = |pattern: &str| match RegexBuilder::new(pattern).size_limit(COMPILED_MAX).build() {
        Ok(regex) => Ok(Some(regex)),
        Err(Error::CompiledTooBig(_)) => Err(QueryError::TooCostly),
        Err(_) => Ok(None),
    };
    // By itself first: a stray parenthesis must not pair with those around it.
    match build(&pattern)? {
        Some(_) if whole => build(&format!("^(?:{pattern})$")),
        compiled => Ok(compiled),
    }
}

/// The pattern in the syntax of the regex crate, whose dot also matches `\r`, which that of RFC 9485 does not.
fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut in_class = false;
    let mut chars = pattern.chars();
    while let Some(ch) = chars.next() {
        match ch {
            '\\' => {
                out.push(ch);
                out.extend(chars.next());
                continue;
            }
            '[' => in_class = true,
            ']' => in_class = false,
            '.' if !in_class => {
                out.push_str(r"[^\n\r]");
                continue;
            }
            _ => {}
        }
        out.push(ch);
    }
    out
}
