//! The tokens of expressions, read on demand. Placeholders are single tokens; in string literals they become pieces
//! between the texts, so that a value is never parsed. Refuses everything outside the subset with what to write.

use super::error::{SourceError, Span, printable};
use super::reference::Reference;
use super::scope::Scope;
use super::types::{Arithmetic, Comparison};
use super::{escape, placeholder};

/// A token and its place.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Token<'s> {
    pub(super) what: What<'s>,
    pub(super) span: Span,
}

/// What a token is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum What<'s> {
    Word(&'s str),
    /// The magnitude; a sign is an operator.
    Int(u64),
    Double(f64),
    Text(Vec<Piece>),
    Placeholder(Reference),
    Open,
    Close,
    OpenList,
    CloseList,
    Comma,
    Dot,
    Question,
    Colon,
    Not,
    And,
    Or,
    Arithmetic(Arithmetic),
    Comparison(Comparison),
    End,
}

/// A part of a string literal.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Piece {
    Text(String),
    Read(Reference, Span),
}

/// Reads tokens from a source.
#[derive(Debug)]
pub(super) struct Lexer<'s> {
    pub(super) source: &'s str,
    pub(super) scope: &'s Scope<'s>,
    /// Offset after the last token.
    pub(super) at: usize,
}

impl<'s> Lexer<'s> {
    pub(super) fn new(source: &'s str, scope: &'s Scope<'s>) -> Self {
        Self { source, scope, at: 0 }
    }

    fn rest(&self) -> &'s str {
        self.source.get(self.at..).unwrap_or_default()
    }

    /// Goes over blanks; returns the character after them.
    pub(super) fn skip_blanks(&mut self) -> Option<char> {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r', '\u{c}']).len();
        self.rest().chars().next()
    }

    pub(super) fn next(&mut self) -> Result<Token<'s>, SourceError> {
        let first = self.skip_blanks();
        let start = self.at;
        let Some(first) = first else {
            return Ok(Token { what: What::End, span: Span::new(start, start) });
        };
        let what = match first {
            'a'..='z' | 'A'..='Z' | '_' => self.word()?,
            '0'..='9' => self.number()?,
            '.' if self.rest().chars().nth(1).is_some_and(|c| c.is_ascii_digit()) => self.number()?,
            '"' | '\'' => What::Text(self.text(first)?),
            '{' | '$' => self.placeholder()?,
            _ => self.sign()?,
        };
        Ok(Token { what, span: Span::new(start, self.at) })
    }

    fn word(&mut self) -> Result<What<'s>, SourceError> {
        let rest = self.rest();
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        let word = rest.get(..end).unwrap_or_default();
        if matches!(word, "r" | "R" | "b" | "B" | "rb" | "br")
            && rest.get(end..).is_some_and(|r| r.starts_with(['"', '\'']))
        {
            return Err(self.refuse(
                end + 1,
                "string prefixes are not part of conditions",
                "write \\\\ for one backslash",
            ));
        }
        self.at += end;
        Ok(if word == "in" { What::Comparison(Comparison::In) } else { What::Word(word) })
    }

    fn number(&mut self) -> Result<What<'s>, SourceError> {
        let rest = self.rest();
        let digits = |from: usize| {
            let tail = rest.get(from..).unwrap_or_default();
            from + tail.find(|c: char| !c.is_ascii_digit()).unwrap_or(tail.len())
        };
        if rest.starts_with("0x") || rest.starts_with("0X") {
            let tail = rest.get(2..).unwrap_or_default();
            let end = 2 + tail.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(tail.len());
            return self
                .finish_number(end, u64::from_str_radix(rest.get(2..end).unwrap_or_default(), 16).ok().map(What::Int));
        }
        let whole = digits(0);
        let mut end = whole;
        let fraction = rest.get(whole..).unwrap_or_default();
        if fraction.starts_with('.') && digits(whole + 1) > whole + 1 {
            end = digits(whole + 1);
        }
        let exponent = rest.get(end..).unwrap_or_default();
        if exponent.starts_with(['e', 'E']) {
            let signed = usize::from(exponent.get(1..).is_some_and(|tail| tail.starts_with(['+', '-'])));
            end = digits(end + 1 + signed);
        }
        let text = rest.get(..end).unwrap_or_default();
        let what = if end == whole {
            text.parse().ok().map(What::Int)
        } else {
            text.parse().ok().filter(|value: &f64| value.is_finite()).map(What::Double)
        };
        self.finish_number(end, what)
    }

    /// Takes a number of `length` bytes, which nothing that belongs to a word may follow.
    fn finish_number(&mut self, length: usize, what: Option<What<'s>>) -> Result<What<'s>, SourceError> {
        let tail = self.rest().get(length..).unwrap_or_default();
        let glued = tail.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(tail.len());
        match what {
            _ if glued > 0 => {
                Err(self.refuse(length + glued, "not a number", "write a decimal int, 0x and hex digits, or a double"))
            }
            None => Err(self.refuse(length, "not a number in the range of ints and doubles", "ints have 64 bits")),
            Some(what) => {
                self.at += length;
                Ok(what)
            }
        }
    }

    /// A string literal from its opening quote to its closing one.
    pub(super) fn text(&mut self, quote: char) -> Result<Vec<Piece>, SourceError> {
        let start = self.at;
        let unclosed = |end: usize| {
            let message = format!("a string is not closed with {quote}");
            SourceError::new(Span::new(start, end), message).with_help("close it on the same line")
        };
        if self.rest().starts_with([quote; 3].iter().collect::<String>().as_str()) {
            return Err(self.refuse(
                3,
                "strings with three quotes are not part of conditions",
                "write one quote and \\n for a line break",
            ));
        }
        self.at += 1;
        let mut pieces = Pieces::default();
        loop {
            match self.rest().chars().next() {
                None | Some('\n' | '\r') => return Err(unclosed(self.at)),
                Some(c) if c == quote => {
                    self.at += 1;
                    return Ok(pieces.done());
                }
                Some('\\') => {
                    let (c, end) = escape::decode(self.source, self.at)?;
                    pieces.push(c);
                    self.at = end;
                }
                Some(c) => match placeholder::at(self.source, self.at) {
                    Some(found) => {
                        pieces.read(found.resolve(self.scope)?, found.span);
                        self.at = found.span.end();
                    }
                    None => {
                        pieces.push(c);
                        self.at += c.len_utf8();
                    }
                },
            }
        }
    }

    fn placeholder(&mut self) -> Result<What<'s>, SourceError> {
        match placeholder::at(self.source, self.at) {
            Some(found) => {
                let reference = found.resolve(self.scope)?;
                self.at = found.span.end();
                Ok(What::Placeholder(reference))
            }
            None if self.rest().starts_with('$') => Err(self.refuse(1, "unknown sign `$`", "write ${parameters.NAME}")),
            None => Err(self.refuse(
                1,
                "unknown sign `{`",
                "maps are not part of conditions; placeholders are {{.parameters.NAME}}",
            )),
        }
    }

    fn sign(&mut self) -> Result<What<'s>, SourceError> {
        const SIGNS: [(&str, What<'static>); 22] = [
            ("&&", What::And),
            ("||", What::Or),
            ("==", What::Comparison(Comparison::Equal)),
            ("!=", What::Comparison(Comparison::NotEqual)),
            ("<=", What::Comparison(Comparison::LessOrEqual)),
            (">=", What::Comparison(Comparison::GreaterOrEqual)),
            ("<", What::Comparison(Comparison::Less)),
            (">", What::Comparison(Comparison::Greater)),
            ("!", What::Not),
            ("+", What::Arithmetic(Arithmetic::Add)),
            ("-", What::Arithmetic(Arithmetic::Subtract)),
            ("*", What::Arithmetic(Arithmetic::Multiply)),
            ("/", What::Arithmetic(Arithmetic::Divide)),
            ("%", What::Arithmetic(Arithmetic::Remainder)),
            ("(", What::Open),
            (")", What::Close),
            ("[", What::OpenList),
            ("]", What::CloseList),
            (",", What::Comma),
            (".", What::Dot),
            ("?", What::Question),
            (":", What::Colon),
        ];
        let rest = self.rest();
        if let Some((sign, what)) = SIGNS.iter().find(|(sign, _)| rest.starts_with(sign)) {
            self.at += sign.len();
            return Ok(what.clone());
        }
        let sign = rest.chars().next().unwrap_or_default();
        let help = match sign {
            '=' => "write == to compare",
            '&' => "write && for \"and\"",
            '|' => "write || for \"or\"",
            '}' => "braces come in pairs, as in {{.parameters.NAME}}",
            '`' | '“' | '”' | '‘' | '’' => "quote text with ' or \"",
            _ => "quote text with ' or \"; names and operators are plain ASCII",
        };
        Err(self.refuse(sign.len_utf8(), format!("unknown sign `{}`", printable(sign)), help))
    }

    fn refuse(&self, length: usize, message: impl Into<String>, help: &str) -> SourceError {
        SourceError::new(Span::new(self.at, self.at + length), message).with_help(help)
    }
}

/// Collects the pieces of a literal; neighbouring characters become one text.
#[derive(Debug, Default)]
pub(crate) struct Pieces(Vec<Piece>);

impl Pieces {
    pub(crate) fn push(&mut self, c: char) {
        match self.0.last_mut() {
            Some(Piece::Text(text)) => text.push(c),
            _ => self.0.push(Piece::Text(c.to_string())),
        }
    }

    pub(crate) fn read(&mut self, reference: Reference, span: Span) {
        self.0.push(Piece::Read(reference, span));
    }

    pub(crate) fn done(self) -> Vec<Piece> {
        self.0
    }
}
