//! The parser of joins: `||` over `&&` over `!` over steps and parentheses. Recursion happens at parentheses only
//! and is counted.

use super::{Depends, MAX_LEVELS, Node, StepPredicate};
use crate::when::{SourceError, Span, Steps, did_you_mean, printable, readings, run, shortened, unknown_step};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'s> {
    /// A step name with its suffix, not yet looked up.
    Name(&'s str),
    And,
    Or,
    Not,
    Open,
    Close,
    End,
}

struct Parser<'s> {
    source: &'s str,
    steps: &'s Steps<'s>,
    token: Token<'s>,
    span: Span,
    depth: usize,
    indices: BTreeMap<&'s str, usize>,
    names: Vec<Box<str>>,
    failures: BTreeSet<Box<str>>,
}

/// Parses and checks a join.
pub(super) fn parse(source: &str, steps: &Steps<'_>) -> Result<Depends, SourceError> {
    let mut parser = Parser {
        source,
        steps,
        token: Token::End,
        span: Span::new(0, 0),
        depth: 0,
        indices: BTreeMap::new(),
        names: Vec::new(),
        failures: BTreeSet::new(),
    };
    parser.advance()?;
    let root = parser.any()?;
    match parser.token {
        Token::End => Ok(Depends { root, steps: parser.names, failures: parser.failures }),
        Token::Close => Err(SourceError::new(parser.span, "`)` without `(`")),
        _ => Err(parser.unexpected("&& or || between steps")),
    }
}

impl<'s> Parser<'s> {
    fn advance(&mut self) -> Result<(), SourceError> {
        let rest = self.source.get(self.span.end()..).unwrap_or_default();
        let start = self.source.len() - rest.trim_start().len();
        let rest = rest.trim_start();
        let name = run(self.source, start);
        let (token, length) = match rest.chars().next() {
            None => (Token::End, 0),
            Some(_) if !name.is_empty() => (Token::Name(name), name.len()),
            Some('(') => (Token::Open, 1),
            Some(')') => (Token::Close, 1),
            Some('!') => (Token::Not, 1),
            Some('&') if rest.starts_with("&&") => (Token::And, 2),
            Some('|') if rest.starts_with("||") => (Token::Or, 2),
            Some(sign) => {
                let span = Span::new(start, start + sign.len_utf8());
                return Err(SourceError::new(span, format!("unknown sign `{}`", printable(sign)))
                    .with_help("a join has step names, &&, ||, ! and parentheses"));
            }
        };
        (self.token, self.span) = (token, Span::new(start, start + length));
        Ok(())
    }

    fn unexpected(&self, wanted: &str) -> SourceError {
        let found = self.source.get(self.span.start()..self.span.end()).unwrap_or_default();
        let message = match self.token {
            Token::End => format!("the join ends where {wanted} is needed"),
            _ => format!("expected {wanted}, found `{}`", shortened(found)),
        };
        let help = match found {
            "and" | "AND" => Some("write && for \"and\"".to_owned()),
            "or" | "OR" => Some("write || for \"or\"".to_owned()),
            _ => None,
        };
        SourceError::new(self.span, message).with_help_if(help)
    }

    fn any(&mut self) -> Result<Node, SourceError> {
        let mut nodes = vec![self.all()?];
        while self.token == Token::Or {
            self.advance()?;
            nodes.push(self.all()?);
        }
        Ok(single(nodes, Node::Any))
    }

    fn all(&mut self) -> Result<Node, SourceError> {
        let mut nodes = vec![self.operand()?];
        while self.token == Token::And {
            self.advance()?;
            nodes.push(self.operand()?);
        }
        Ok(single(nodes, Node::All))
    }

    /// A step or parentheses after any number of `!`, of which two cancel each other.
    fn operand(&mut self) -> Result<Node, SourceError> {
        let mut negated = false;
        while self.token == Token::Not {
            negated = !negated;
            self.advance()?;
        }
        let node = match self.token {
            Token::Name(text) => self.term(text)?,
            Token::Open => self.parenthesised()?,
            _ => return Err(self.unexpected("a step")),
        };
        Ok(if negated { Node::Not(Box::new(node)) } else { node })
    }

    fn parenthesised(&mut self) -> Result<Node, SourceError> {
        let open = self.span;
        self.depth += 1;
        if self.depth > MAX_LEVELS {
            return Err(SourceError::new(open, format!("nested more than {MAX_LEVELS} levels deep")));
        }
        self.advance()?;
        let node = self.any()?;
        match self.token {
            Token::Close => self.advance()?,
            Token::End => return Err(SourceError::new(open, "`(` is never closed").with_help("close it with `)`")),
            _ => return Err(self.unexpected("&&, || or `)`")),
        }
        self.depth -= 1;
        Ok(node)
    }

    /// The longest declared step name, then a suffix or nothing.
    fn term(&mut self, text: &'s str) -> Result<Node, SourceError> {
        let start = self.span.start();
        let Some(step) = readings(text).find(|name| self.steps.contains(name)) else {
            let name = match text.rsplit_once('.') {
                Some((name, suffix)) if StepPredicate::SUFFIXES.iter().any(|(known, _)| *known == suffix) => name,
                _ => text,
            };
            return Err(unknown_step(name, Span::new(start, start + name.len()), self.steps));
        };
        let asked = match text.get(step.len()..).and_then(|rest| rest.strip_prefix('.')) {
            None => StepPredicate::Satisfied,
            Some(suffix) => match StepPredicate::SUFFIXES.iter().find(|(known, _)| *known == suffix) {
                Some((_, asked)) => *asked,
                None => {
                    return Err(unknown_suffix(step, suffix, Span::new(start + step.len() + 1, start + text.len())));
                }
            },
        };
        self.advance()?;
        if asked.names_failure() {
            self.failures.insert(step.into());
        }
        let next = self.names.len();
        let index = *self.indices.entry(step).or_insert(next);
        if index == next {
            self.names.push(step.into());
        }
        Ok(Node::Term(index, asked))
    }
}

fn unknown_suffix(step: &str, suffix: &str, span: Span) -> SourceError {
    let known = StepPredicate::SUFFIXES.map(|(known, _)| known);
    let help = did_you_mean(suffix, known).unwrap_or_else(|| format!("steps are asked for {}", known.join(", ")));
    if suffix.is_empty() {
        return SourceError::new(span, "an outcome is missing after the dot").with_help(help);
    }
    let message = format!("step `{}` cannot be asked for `{}`", shortened(step), shortened(suffix));
    SourceError::new(span, message).with_help(help)
}

/// One node as itself, several as a chain.
fn single(mut nodes: Vec<Node>, chain: fn(Vec<Node>) -> Node) -> Node {
    match (nodes.len(), nodes.pop()) {
        (1, Some(node)) => node,
        (_, Some(last)) => {
            nodes.push(last);
            chain(nodes)
        }
        (_, None) => chain(nodes),
    }
}
