//! The blocks and texts of templates. Open blocks stand on a list, not on the stack; the values inside actions are
//! in `term`.

use super::lexer::{Action, BLANKS, Token, What, action};
use super::term::Terms;
use super::{Item, Term};
use crate::when::MAX_LEVELS;
use crate::when::error::{SourceError, Span};
use crate::when::placeholder::{self, Placeholder};
use crate::when::reference::References;
use crate::when::scope::Scope;

/// An `if` whose `end` has not come.
#[derive(Debug)]
struct OpenIf {
    span: Span,
    arms: Vec<(Term, Vec<Item>)>,
    /// The condition of the body being read, `None` in `else`.
    condition: Option<Term>,
    body: Vec<Item>,
}

#[derive(Debug)]
struct Parser<'s> {
    source: &'s str,
    scope: &'s Scope<'s>,
    references: References,
    items: Vec<Item>,
    open: Vec<OpenIf>,
}

/// Parses and checks a template.
pub(super) fn parse(source: &str, scope: &Scope<'_>) -> Result<(Vec<Item>, References), SourceError> {
    let mut parser = Parser { source, scope, references: References::default(), items: Vec::new(), open: Vec::new() };
    let (mut at, mut trim) = (0, false);
    while at < source.len() {
        let start = source.get(at..).unwrap_or_default().find("{{").map_or(source.len(), |found| at + found);
        let next = if start < source.len() { Some(parser.action(start)?) } else { None };
        let text_at = if trim { at + leading_blanks(source, at, start) } else { at };
        parser.text(text_at, start, next.as_ref().is_some_and(|action| action.trims.before))?;
        let Some(action) = next else { break };
        (at, trim) = (action.span.end(), action.trims.after);
        parser.take(&action)?;
    }
    match parser.open.last() {
        Some(block) => Err(SourceError::new(block.span, "`if` without `end`").with_help("close it with {{end}}")),
        None => Ok((parser.items, parser.references)),
    }
}

fn leading_blanks(source: &str, from: usize, to: usize) -> usize {
    let text = source.get(from..to).unwrap_or_default();
    text.len() - text.trim_start_matches(BLANKS).len()
}

impl<'s> Parser<'s> {
    fn items(&mut self) -> &mut Vec<Item> {
        match self.open.last_mut() {
            Some(block) => &mut block.body,
            None => &mut self.items,
        }
    }

    /// Text between actions, in which `${parameters.NAME}` stands for a value.
    fn text(&mut self, from: usize, to: usize, trim_end: bool) -> Result<(), SourceError> {
        let mut text = self.source.get(from..to).unwrap_or_default();
        if trim_end {
            text = text.trim_end_matches(BLANKS);
        }
        let end = from + text.len();
        let (mut plain, mut at) = (from, from);
        while let Some(found) = self.source.get(at..end).unwrap_or_default().find(['$', '}']) {
            at += found;
            if self.source.get(at..end).is_some_and(|rest| rest.starts_with("}}")) {
                return Err(
                    SourceError::new(Span::new(at, at + 2), "`}}` without `{{`").with_help("braces come in pairs")
                );
            }
            match placeholder::at(self.source, at) {
                Some(found) => {
                    self.plain_text(plain, at);
                    self.placeholder(&found)?;
                    at = found.span.end();
                    plain = at;
                }
                None => at += 1,
            }
        }
        self.plain_text(plain, end);
        Ok(())
    }

    fn plain_text(&mut self, from: usize, to: usize) {
        let text = self.source.get(from..to).unwrap_or_default();
        if !text.is_empty() {
            let item = Item::Text(text.into());
            self.items().push(item);
        }
    }

    fn placeholder(&mut self, found: &Placeholder<'_>) -> Result<(), SourceError> {
        let reference = found.resolve(self.scope)?;
        self.references.add(&reference);
        self.items().push(Item::Emit(Term::Read(reference, found.span), found.span));
        Ok(())
    }

    /// The action at `start`; a parameter placeholder is an action without tokens.
    fn action(&self, start: usize) -> Result<Action<'s>, SourceError> {
        match placeholder::at(self.source, start) {
            Some(found) if found.is_parameter() => Ok(Action::placeholder(found.span)),
            _ => action(self.source, start, self.scope),
        }
    }

    fn take(&mut self, action: &Action<'_>) -> Result<(), SourceError> {
        if let Some(found) = placeholder::at(self.source, action.span.start()).filter(Placeholder::is_parameter) {
            return self.placeholder(&found);
        }
        let Some((first, rest)) = action.tokens.split_first() else {
            return Err(SourceError::new(action.span, "an empty action").with_help("write a value or `if` in it"));
        };
        match first.what {
            What::Word("if") => self.open_if(first.span, rest, action.span),
            What::Word("else") => self.otherwise(rest, action.span),
            What::Word("end") => self.end(rest, action.span),
            What::Word(word) if is_foreign(word) => {
                let message = format!("`{word}` is not part of conditions");
                Err(SourceError::new(first.span, message).with_help("blocks are if, else if, else and end"))
            }
            _ => {
                let term = self.term(&action.tokens, action.span)?;
                self.items().push(Item::Emit(term, action.span));
                Ok(())
            }
        }
    }

    fn term(&mut self, tokens: &[Token<'_>], action: Span) -> Result<Term, SourceError> {
        Terms::new(self.scope, &mut self.references, tokens, action).whole()
    }

    fn open_if(&mut self, span: Span, condition: &[Token<'_>], action: Span) -> Result<(), SourceError> {
        if self.open.len() >= MAX_LEVELS {
            return Err(SourceError::new(span, format!("nested more than {MAX_LEVELS} levels deep")));
        }
        let condition = Some(self.term(condition, action)?);
        self.open.push(OpenIf { span, arms: Vec::new(), condition, body: Vec::new() });
        Ok(())
    }

    fn otherwise(&mut self, rest: &[Token<'_>], action: Span) -> Result<(), SourceError> {
        let condition = match rest.split_first() {
            None => None,
            Some((Token { what: What::Word("if"), .. }, condition)) => Some(self.term(condition, action)?),
            Some((other, _)) => {
                return Err(SourceError::new(other.span, "only `if` can follow `else`"));
            }
        };
        let Some(block) = self.open.last_mut() else { return Err(stray("else", action)) };
        let Some(before) = block.condition.take() else {
            return Err(SourceError::new(action, "a second `else`").with_help("`else` comes last, before {{end}}"));
        };
        block.arms.push((before, std::mem::take(&mut block.body)));
        block.condition = condition;
        Ok(())
    }

    fn end(&mut self, rest: &[Token<'_>], action: Span) -> Result<(), SourceError> {
        if let Some(token) = rest.first() {
            return Err(SourceError::new(token.span, "nothing can follow `end`"));
        }
        let Some(mut block) = self.open.pop() else { return Err(stray("end", action)) };
        let otherwise = match block.condition {
            Some(condition) => {
                block.arms.push((condition, block.body));
                Vec::new()
            }
            None => block.body,
        };
        self.items().push(Item::If(block.arms, otherwise));
        Ok(())
    }
}

fn stray(word: &str, span: Span) -> SourceError {
    SourceError::new(span, format!("`{word}` without `if`")).with_help("open it with {{if CONDITION}}")
}

fn is_foreign(word: &str) -> bool {
    matches!(word, "range" | "with" | "define" | "template" | "block" | "break" | "continue")
}
