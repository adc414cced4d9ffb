//! The values inside actions: literals, paths and calls of the listed functions, with kinds checked where they are
//! known. Recursion is counted, so that no input exhausts the stack.

use super::Term;
use super::lexer::{Token, What};
use crate::when::error::{SourceError, Span};
use crate::when::lexer::Piece;
use crate::when::reference::{Reference, References};
use crate::when::scope::Scope;
use crate::when::suggest::did_you_mean;
use crate::when::types::Type;
use crate::when::{MAX_LEVELS, names};

/// The functions of templates.
const FUNCTIONS: [&str; 6] = ["eq", "ne", "and", "or", "not", "index"];

/// Reads the tokens of one action.
pub(super) struct Terms<'t, 's> {
    scope: &'t Scope<'t>,
    references: &'t mut References,
    tokens: std::iter::Peekable<std::slice::Iter<'t, Token<'s>>>,
    /// The whole action, where something missing is reported.
    action: Span,
    depth: usize,
}

/// An operand: a value, or a map that only `index` takes.
enum Operand {
    /// The type is `None` where it is known only at run time.
    Value(Term, Option<Type>, Span),
    Steps(Span),
    Step(Box<str>, Span),
    Map(Map, Span),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Map {
    Labels,
    Annotations,
}

impl Operand {
    fn value(self) -> Result<(Term, Option<Type>, Span), SourceError> {
        let (what, help, span) = match self {
            Self::Value(term, ty, span) => return Ok((term, ty, span)),
            Self::Steps(span) => ("`.StepStatus`", "write .StepStatus.NAME.Phase", span),
            Self::Step(_, span) => ("a step", "add .Phase, .Message or .RetryCount after the parentheses", span),
            Self::Map(Map::Labels, span) => ("`.JobFlow.Labels`", "write index .JobFlow.Labels \"KEY\"", span),
            Self::Map(Map::Annotations, span) => {
                ("`.JobFlow.Annotations`", "write index .JobFlow.Annotations \"KEY\"", span)
            }
        };
        Err(SourceError::new(span, format!("{what} is not a value")).with_help(help))
    }
}

impl<'t, 's> Terms<'t, 's> {
    pub(super) fn new(
        scope: &'t Scope<'t>,
        references: &'t mut References,
        tokens: &'t [Token<'s>],
        action: Span,
    ) -> Self {
        Self { scope, references, tokens: tokens.iter().peekable(), action, depth: 0 }
    }

    /// The value that all tokens make.
    pub(super) fn whole(mut self) -> Result<Term, SourceError> {
        let (term, _, _) = self.command()?.value()?;
        match self.tokens.next() {
            Some(token) => Err(SourceError::new(token.span, "`)` without `(`")),
            None => Ok(term),
        }
    }

    /// A call with its operands, or one operand, up to `)` or the end.
    fn command(&mut self) -> Result<Operand, SourceError> {
        self.depth += 1;
        if self.depth > MAX_LEVELS {
            return Err(SourceError::new(self.action, format!("nested more than {MAX_LEVELS} levels deep")));
        }
        let result = match self.tokens.peek() {
            Some(Token { what: What::Word(word), span }) if !matches!(*word, "true" | "false") => {
                self.tokens.next();
                self.call(word, *span)?
            }
            _ => self.operand()?,
        };
        self.depth -= 1;
        match self.tokens.peek() {
            None | Some(Token { what: What::Close, .. }) => Ok(result),
            Some(token) => Err(SourceError::new(token.span, "only functions take values after them")
                .with_help(format!("the functions are {}", FUNCTIONS.join(", ")))),
        }
    }

    fn operand(&mut self) -> Result<Operand, SourceError> {
        let Some(Token { what, span }) = self.tokens.next() else {
            return Err(
                SourceError::new(self.action, "a value is missing").with_help("write a path, a text in \" or an int")
            );
        };
        let span = *span;
        match what {
            What::Word(word @ ("true" | "false")) => {
                Ok(Operand::Value(Term::Bool(*word == "true"), Some(Type::Bool), span))
            }
            What::Word(word) if FUNCTIONS.contains(word) => {
                let message = format!("the call of `{word}` needs parentheses here");
                Err(SourceError::new(span, message).with_help(format!("write ({word} …)")))
            }
            What::Word(word) => Err(unknown_function(word, span)),
            What::Int(value) => Ok(Operand::Value(Term::Int(*value), Some(Type::Int), span)),
            What::Text(pieces) => {
                for piece in pieces {
                    if let Piece::Read(reference, _) = piece {
                        self.references.add(reference);
                    }
                }
                Ok(Operand::Value(Term::Text(pieces.clone()), Some(Type::String), span))
            }
            What::Path(".StepStatus") => Ok(Operand::Steps(span)),
            What::Path(".JobFlow.Labels") => Ok(Operand::Map(Map::Labels, span)),
            What::Path(".JobFlow.Annotations") => Ok(Operand::Map(Map::Annotations, span)),
            What::Path(path) => {
                let reference = names::path(path, span.start(), self.scope)?;
                Ok(self.read(reference, span))
            }
            What::Open => self.parenthesised(span),
            What::Close => Err(SourceError::new(span, "a value is missing before `)`")),
        }
    }

    fn read(&mut self, reference: Reference, span: Span) -> Operand {
        self.references.add(&reference);
        let ty = reference.ty();
        Operand::Value(Term::Read(reference, span), Some(ty), span)
    }

    fn parenthesised(&mut self, open: Span) -> Result<Operand, SourceError> {
        let inner = self.command()?;
        let Some(close) = self.tokens.next() else {
            return Err(SourceError::new(open, "`(` is never closed").with_help("close it with `)`"));
        };
        let span = open.to(close.span);
        let field = self.tokens.peek().and_then(|token| match token.what {
            What::Path(path) if token.span.start() == span.end() => Some((path, token.span)),
            _ => None,
        });
        match (inner, field) {
            (Operand::Step(step, _), Some((path, at))) => {
                self.tokens.next();
                let reference = names::status_field(&step, path, at)?;
                Ok(self.read(reference, span.to(at)))
            }
            (_, Some((_, at))) => {
                Err(SourceError::new(at, "only a step has fields")
                    .with_help("write (index .StepStatus \"NAME\").Phase"))
            }
            (Operand::Value(term, ty, _), None) => Ok(Operand::Value(term, ty, span)),
            (other, None) => Ok(other),
        }
    }

    /// The operands of a call, up to `)` or the end.
    fn operands(&mut self) -> Result<Vec<Operand>, SourceError> {
        let mut all = Vec::new();
        while !matches!(self.tokens.peek(), None | Some(Token { what: What::Close, .. })) {
            all.push(self.operand()?);
        }
        Ok(all)
    }

    fn call(&mut self, word: &str, span: Span) -> Result<Operand, SourceError> {
        if !FUNCTIONS.contains(&word) {
            return Err(unknown_function(word, span));
        }
        let operands = self.operands()?;
        if word == "index" {
            return self.index(operands, span);
        }
        let values: Vec<_> = operands.into_iter().map(Operand::value).collect::<Result<_, _>>()?;
        let (fits, usage) = match word {
            "not" => (values.len() == 1, "not VALUE"),
            "ne" => (values.len() == 2, "ne VALUE VALUE"),
            "eq" => (values.len() >= 2, "eq VALUE VALUE"),
            "and" => (!values.is_empty(), "and VALUE VALUE"),
            _ => (!values.is_empty(), "or VALUE VALUE"),
        };
        if !fits {
            let message = format!("`{word}` does not take {} values", values.len());
            return Err(SourceError::new(span, message).with_help(format!("write {usage}")));
        }
        let whole = values.last().map_or(span, |(_, _, last)| span.to(*last));
        let common = common_type(&values);
        if let (true, Err((wrong, message))) = (matches!(word, "eq" | "ne"), &common) {
            return Err(SourceError::new(*wrong, format!("`{word}` compares {message}"))
                .with_help("compare values of one type"));
        }
        let mut terms: Vec<Term> = values.into_iter().map(|(term, _, _)| term).collect();
        let (term, ty) = match word {
            "eq" => (Term::Equal(terms, whole), Some(Type::Bool)),
            "ne" => (Term::NotEqual(terms, whole), Some(Type::Bool)),
            "and" => (Term::And(terms), common.ok().flatten()),
            "or" => (Term::Or(terms), common.ok().flatten()),
            _ => (terms.pop().map_or(Term::Bool(true), |term| Term::Not(Box::new(term))), Some(Type::Bool)),
        };
        Ok(Operand::Value(term, ty, whole))
    }

    fn index(&mut self, operands: Vec<Operand>, span: Span) -> Result<Operand, SourceError> {
        let usage = "write index .StepStatus \"NAME\" or index .JobFlow.Labels \"KEY\"";
        let mut operands = operands.into_iter();
        let (map, key, None) = (operands.next(), operands.next(), operands.next()) else {
            return Err(SourceError::new(span, "`index` takes a map and one key").with_help(usage));
        };
        let (Some(map), Some(key)) = (map, key) else {
            return Err(SourceError::new(span, "`index` takes a map and one key").with_help(usage));
        };
        let (key, _, key_span) = key.value()?;
        let Some(key) = constant(&key) else {
            return Err(SourceError::new(key_span, "the key of `index` is one quoted text").with_help(usage));
        };
        let whole = span.to(key_span);
        match map {
            Operand::Steps(_) if self.scope.steps.contains(key) => Ok(Operand::Step(key.into(), whole)),
            Operand::Steps(_) => Err(names::unknown_step(key, key_span, self.scope.steps)),
            Operand::Map(Map::Labels, _) => Ok(self.read(Reference::Label(key.into()), whole)),
            Operand::Map(Map::Annotations, _) => Ok(self.read(Reference::Annotation(key.into()), whole)),
            Operand::Step(_, at) | Operand::Value(_, _, at) => {
                Err(SourceError::new(at, "`index` takes .StepStatus, .JobFlow.Labels or .JobFlow.Annotations")
                    .with_help(usage))
            }
        }
    }
}

/// The common type of some values, `None` where one is known only at run time; the place and words of a difference.
fn common_type(values: &[(Term, Option<Type>, Span)]) -> Result<Option<Type>, (Span, String)> {
    let mut types = values.iter().map(|(_, ty, span)| (ty.as_ref(), *span));
    let Some((Some(first), _)) = types.next() else { return Ok(None) };
    for (ty, span) in types {
        match ty {
            None => return Ok(None),
            Some(ty) if ty != first => return Err((span, format!("{} with {}", first.a(), ty.a()))),
            Some(_) => {}
        }
    }
    Ok(Some(first.clone()))
}

/// The text of a literal without placeholders.
pub(super) fn constant(term: &Term) -> Option<&str> {
    match term {
        Term::Text(pieces) => match pieces.as_slice() {
            [] => Some(""),
            [Piece::Text(text)] => Some(text),
            _ => None,
        },
        _ => None,
    }
}

fn unknown_function(word: &str, span: Span) -> SourceError {
    let fallback = || format!("the functions are {}; quote text with \"", FUNCTIONS.join(", "));
    let help = did_you_mean(word, FUNCTIONS.into_iter().chain(["true", "false", "if", "else", "end"]));
    SourceError::new(span, format!("unknown word `{}` in an action", names::shortened(word)))
        .with_help(help.unwrap_or_else(fallback))
}
