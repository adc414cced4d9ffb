//! The actions of templates as tokens: one action at a time, with its trim markers. Placeholders inside string
//! literals become pieces, so that a value is never parsed.

use crate::when::error::{SourceError, Span, printable};
use crate::when::lexer::{Piece, Pieces};
use crate::when::scope::Scope;
use crate::when::{escape, names, placeholder};

/// A token and its place.
#[derive(Debug, Clone)]
pub(super) struct Token<'s> {
    pub(super) what: What<'s>,
    pub(super) span: Span,
}

/// What a token is.
#[derive(Debug, Clone)]
pub(super) enum What<'s> {
    Word(&'s str),
    /// `.JobFlow.Name`, or `.Phase` after parentheses.
    Path(&'s str),
    Int(i64),
    Text(Vec<Piece>),
    Open,
    Close,
}

/// One action without its braces.
#[derive(Debug)]
pub(super) struct Action<'s> {
    pub(super) tokens: Vec<Token<'s>>,
    pub(super) span: Span,
    /// Whether blanks before and after the action go.
    pub(super) trims: Trims,
}

impl Action<'_> {
    /// The action that is a placeholder and has no tokens.
    pub(super) fn placeholder(span: Span) -> Self {
        Self { tokens: Vec::new(), span, trims: Trims::default() }
    }
}

/// The trim markers of an action.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Trims {
    pub(super) before: bool,
    pub(super) after: bool,
}

/// What trim markers take away.
pub(super) const BLANKS: [char; 4] = [' ', '\t', '\r', '\n'];

/// Reads the action whose `{{` is at `start`.
pub(super) fn action<'s>(source: &'s str, start: usize, scope: &Scope<'_>) -> Result<Action<'s>, SourceError> {
    let rest = |at: usize| source.get(at..).unwrap_or_default();
    let mut tokens = Vec::new();
    let mut trims =
        Trims { before: rest(start + 2).starts_with('-') && rest(start + 3).starts_with(BLANKS), after: false };
    let mut at = start + if trims.before { 3 } else { 2 };
    loop {
        let tail = rest(at);
        let blanks = tail.len() - tail.trim_start_matches(BLANKS).len();
        at += blanks;
        let tail = rest(at);
        if blanks > 0 && tail.starts_with("-}}") {
            trims.after = true;
            at += 1;
        }
        let Some(first) = rest(at).chars().next() else {
            return Err(
                SourceError::new(Span::new(start, start + 2), "`{{` is never closed").with_help("close it with `}}`")
            );
        };
        if rest(at).starts_with("}}") {
            return Ok(Action { tokens, span: Span::new(start, at + 2), trims });
        }
        let token = token(source, at, first, scope)?;
        at = token.span.end();
        tokens.push(token);
    }
}

fn token<'s>(source: &'s str, at: usize, first: char, scope: &Scope<'_>) -> Result<Token<'s>, SourceError> {
    let rest = source.get(at..).unwrap_or_default();
    let width = |more: fn(char) -> bool| {
        let tail = rest.get(1..).unwrap_or_default();
        1 + tail.find(|c: char| !more(c)).unwrap_or(tail.len())
    };
    let made = |what, length: usize| Ok(Token { what, span: Span::new(at, at + length) });
    let is_signed = rest.get(1..).is_some_and(|tail| tail.starts_with(|c: char| c.is_ascii_digit()));
    match first {
        '(' => made(What::Open, 1),
        ')' => made(What::Close, 1),
        '.' => {
            let path = names::run(source, at);
            made(What::Path(path), path.len())
        }
        'a'..='z' | 'A'..='Z' | '_' => {
            let length = width(|c| c.is_ascii_alphanumeric() || c == '_');
            made(What::Word(rest.get(..length).unwrap_or_default()), length)
        }
        '0'..='9' | '+' | '-' if first.is_ascii_digit() || is_signed => {
            let length = width(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.'));
            match rest.get(..length).unwrap_or_default().parse() {
                Ok(value) => made(What::Int(value), length),
                Err(_) => Err(SourceError::new(Span::new(at, at + length), "not an int")
                    .with_help("numbers in templates are decimal ints")),
            }
        }
        '"' | '`' => text(source, at, first, scope),
        other => Err(unknown_sign(other, at)),
    }
}

fn text<'s>(source: &'s str, start: usize, quote: char, scope: &Scope<'_>) -> Result<Token<'s>, SourceError> {
    let mut pieces = Pieces::default();
    let mut at = start + 1;
    loop {
        match source.get(at..).unwrap_or_default().chars().next() {
            Some(c) if c == quote => {
                return Ok(Token { what: What::Text(pieces.done()), span: Span::new(start, at + 1) });
            }
            Some('\\') if quote == '"' => {
                let (c, end) = escape::decode(source, at)?;
                pieces.push(c);
                at = end;
            }
            Some(c) if c != '\n' || quote == '`' => match placeholder::at(source, at) {
                Some(found) if found.is_parameter() => {
                    pieces.read(found.resolve(scope)?, found.span);
                    at = found.span.end();
                }
                _ => {
                    pieces.push(c);
                    at += c.len_utf8();
                }
            },
            _ => {
                let message = format!("a string is not closed with {quote}");
                return Err(SourceError::new(Span::new(start, at), message).with_help("close it on the same line"));
            }
        }
    }
}

fn unknown_sign(sign: char, at: usize) -> SourceError {
    let help = match sign {
        '\'' => "quote text with \"",
        '|' => "pipes are not part of conditions; write FUNCTION VALUE VALUE",
        '$' => "variables are not part of conditions; write \"${parameters.NAME}\" in quotes",
        '=' | '!' | '<' | '>' | '&' => "write eq, ne, and, or, not before their values",
        '{' | '}' => "braces come in pairs, as in {{end}}",
        _ => "actions hold names, text in \", ints and parentheses",
    };
    let span = Span::new(at, at + sign.len_utf8());
    SourceError::new(span, format!("unknown sign `{}` in an action", printable(sign))).with_help(help)
}
