//! The words of RFC 9535: names, strings, integers and numbers, read from one place of a text on. A refusal says at which
//! column what was expected.

use orlop_core::exact;
use serde_json::Number;

use super::{PathError, TypeFault, shown};

/// The greatest integer that every double holds exactly, which bounds indexes and slices (I-JSON).
const INTEGER_MAX: u64 = (1 << 53) - 1;

/// A place in a text.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Cursor<'t> {
    pub(super) const fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// The character that stands here.
    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek();
        self.at += next.map_or(0, char::len_utf8);
        next
    }

    /// Passes a token, if it stands here.
    pub(super) fn eat(&mut self, token: &str) -> bool {
        let stands = self.rest().starts_with(token);
        self.at += if stands { token.len() } else { 0 };
        stands
    }

    /// Passes all characters that fit.
    fn pass(&mut self, fits: impl Fn(char) -> bool) -> &'t str {
        let rest = self.rest();
        let (passed, _) = rest.split_at(rest.find(|ch| !fits(ch)).unwrap_or(rest.len()));
        self.at += passed.len();
        passed
    }

    /// Passes blanks and tells whether there were any.
    pub(super) fn blanks(&mut self) -> bool {
        !self.pass(|ch| matches!(ch, ' ' | '\t' | '\n' | '\r')).is_empty()
    }

    /// Whether this place lies behind another in the same text.
    pub(super) const fn is_behind(&self, other: &Self) -> bool {
        self.at > other.at
    }

    /// The refusal of what stands here.
    pub(super) fn error(&self, expected: &'static str) -> PathError {
        let column = self.text.get(..self.at).unwrap_or_default().chars().count() + 1;
        PathError::Syntax { text: shown(self.text), column, found: self.peek(), expected }
    }

    /// The refusal of what means nothing.
    pub(super) fn fault(&self, fault: TypeFault) -> PathError {
        PathError::Meaning { text: shown(self.text), fault }
    }

    /// The name of a member without quotes, empty if none stands here.
    pub(super) fn member(&mut self) -> &'t str {
        if self.peek().is_some_and(|ch| ch.is_ascii_digit()) {
            return "";
        }
        self.pass(|ch| ch.is_ascii_alphanumeric() || ch == '_' || !ch.is_ascii())
    }

    /// The name of a function, of `true`, `false` or `null`. The caller has seen a lower case letter here.
    pub(super) fn word(&mut self) -> &'t str {
        self.pass(|ch| ch.is_ascii_lowercase() || ch.is_ascii_digit() || ch == '_')
    }

    /// An integer as of indexes and slices, if one stands here.
    pub(super) fn integer(&mut self) -> Result<Option<i64>, PathError> {
        if !matches!(self.peek(), Some('-' | '0'..='9')) {
            return Ok(None);
        }
        let start = *self;
        self.eat("-");
        self.pass(|ch| ch.is_ascii_digit());
        let text = self.since(&start);
        match text.parse::<i64>() {
            // Leading zeros, `-0` and a lone `-` read back otherwise.
            Ok(integer) if integer.unsigned_abs() <= INTEGER_MAX && integer.to_string() == text => Ok(Some(integer)),
            _ => Err(start.error("an integer from -9007199254740991 to 9007199254740991 without leading zeros")),
        }
    }

    /// A number as of comparisons. The caller has seen `-` or a digit here.
    pub(super) fn number(&mut self) -> Result<Number, PathError> {
        let start = *self;
        self.eat("-");
        let whole = self.pass(|ch| ch.is_ascii_digit());
        if whole.is_empty() || (whole.len() > 1 && whole.starts_with('0')) {
            return Err(start.error("a number without leading zeros"));
        }
        if self.eat(".") {
            self.digits()?;
        }
        if self.eat("e") || self.eat("E") {
            let _signed = self.eat("-") || self.eat("+");
            self.digits()?;
        }
        exact::number(self.since(&start)).ok_or_else(|| start.fault(TypeFault::Number))
    }

    fn digits(&mut self) -> Result<(), PathError> {
        if self.pass(|ch| ch.is_ascii_digit()).is_empty() { Err(self.error("a digit")) } else { Ok(()) }
    }

    fn since(&self, start: &Self) -> &'t str {
        self.text.get(start.at..self.at).unwrap_or_default()
    }

    /// What a string in quotes says, if one stands here.
    pub(super) fn string(&mut self) -> Result<Option<String>, PathError> {
        let Some(quote @ ('\'' | '"')) = self.peek() else { return Ok(None) };
        self.next();
        let mut said = String::new();
        loop {
            let before = *self;
            match self.next() {
                Some(ch) if ch == quote => return Ok(Some(said)),
                Some('\\') => said.push(self.escape(quote)?),
                Some(ch) if ch >= ' ' => said.push(ch),
                Some(_) => return Err(before.error("an escape such as `\\n` in place of a control character")),
                None if quote == '"' => return Err(before.error("`\"` at the end of the string")),
                None => return Err(before.error("`'` at the end of the string")),
            }
        }
    }

    /// What stands behind a backslash.
    fn escape(&mut self, quote: char) -> Result<char, PathError> {
        let before = *self;
        match self.next() {
            Some('b') => Ok('\u{8}'),
            Some('f') => Ok('\u{c}'),
            Some('n') => Ok('\n'),
            Some('r') => Ok('\r'),
            Some('t') => Ok('\t'),
            Some(ch) if ch == quote || matches!(ch, '/' | '\\') => Ok(ch),
            Some('u') => {
                let first = self.unit()?;
                let pair = matches!(first, 0xd800..=0xdbff) && self.eat("\\u");
                let second = if pair { Some(self.unit()?) } else { None };
                let units = [Some(first), second].into_iter().flatten();
                match char::decode_utf16(units).next() {
                    Some(Ok(ch)) => Ok(ch),
                    _ => Err(before.error("both halves of a surrogate pair, as in `\\ud83d\\ude00`")),
                }
            }
            _ => Err(before.error("`b`, `f`, `n`, `r`, `t`, `u`, `/`, `\\` or the quote of the string behind `\\`")),
        }
    }

    /// Four hexadecimal digits.
    fn unit(&mut self) -> Result<u16, PathError> {
        (0..4).try_fold(0, |unit, _| {
            let before = *self;
            let digit = self.next().and_then(|ch| ch.to_digit(16)).and_then(|digit| u16::try_from(digit).ok());
            digit.map(|digit| unit << 4 | digit).ok_or_else(|| before.error("a hexadecimal digit, four behind `\\u`"))
        })
    }
}
