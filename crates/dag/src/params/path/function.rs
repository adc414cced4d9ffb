//! The functions of RFC 9535, 2.4: length, count, value, match, search. Owns patterns (RFC 9485) and their cost.

use std::borrow::Cow;
use std::collections::BTreeMap;

use regex::{Error, Regex, RegexBuilder};
use serde_json::Value;

use super::QueryError;
use super::ast::{Function, Match};
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
    /// The value of a function that gives one.
    pub(super) fn value_of(&mut self, function: &'e Function, node: &'e Value) -> Result<Operand<'e>, QueryError> {
        match function {
            Function::Length(argument) => {
                let argument = self.operand(argument, node)?;
                let len = match argument.as_deref() {
                    Some(Value::Array(items)) => items.len(),
                    Some(Value::Object(members)) => members.len(),
                    Some(Value::String(text)) => {
                        self.pay(text.len() / 64)?;
                        text.chars().count()
                    }
                    _ => return Ok(None),
                };
                Ok(Some(Cow::Owned(len.into())))
            }
            Function::Count(query) => Ok(Some(Cow::Owned(self.nodes(query, node)?.len().into()))),
            Function::Value(query) => Ok(match self.nodes(query, node)?.as_slice() {
                [one] => Some(Cow::Borrowed(one)),
                _ => None,
            }),
        }
    }

    /// Whether a text matches a pattern.
    pub(super) fn matches(&mut self, test: &'e Match, node: &'e Value) -> Result<bool, QueryError> {
        let (text, pattern) = (self.operand(&test.text, node)?, self.operand(&test.pattern, node)?);
        // What functions make is no text, so both are of the path or the document.
        let (Some(Cow::Borrowed(Value::String(text))), Some(Cow::Borrowed(Value::String(pattern)))) = (text, pattern)
        else {
            return Ok(false);
        };
        self.pay(text.len().saturating_mul(BYTE_STEPS))?;
        let key = (pattern.as_str(), test.whole);
        if !self.patterns.0.contains_key(&key) {
            self.pay(COMPILE_STEPS)?;
            self.patterns.0.insert(key, compile(pattern, test.whole)?);
        }
        let compiled = self.patterns.0.get(&key).and_then(Option::as_ref);
        Ok(compiled.is_some_and(|regex| regex.is_match(text)))
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
