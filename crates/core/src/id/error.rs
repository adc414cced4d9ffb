//! The error of every identity: what was meant, what was given, where it is wrong, what is allowed.
//! Owns its wording only; the rules stand beside the types.

/// How much of a refused text a message shows, in characters.
const SHOWN: usize = 64;

/// A text or number that is not a valid id or name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} `{given}` is not valid: {fault}")]
pub struct IdError {
    /// What was meant, for example `step name`.
    pub what: &'static str,
    /// The text as given, escaped and cut to 64 characters.
    pub given: String,
    /// What is wrong with it.
    pub fault: IdFault,
}

/// What is wrong with a refused id or name. Positions count characters from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdFault {
    /// Nothing was given.
    #[error("it is empty; use {allowed}")]
    Empty {
        /// What may stand there.
        allowed: &'static str,
    },
    /// More bytes than the limit.
    #[error("it is {len} bytes long, at most {max} are allowed")]
    TooLong {
        /// Bytes given.
        len: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// A text of fixed length has another one.
    #[error("it is {len} bytes long, exactly {wanted} are needed: {allowed}")]
    Length {
        /// Bytes given.
        len: usize,
        /// Bytes needed.
        wanted: usize,
        /// What may stand there.
        allowed: &'static str,
    },
    /// A character that may not occur.
    #[error("character {ch:?} at position {at} is not allowed; use {allowed}")]
    Character {
        /// The character.
        ch: char,
        /// Its position.
        at: usize,
        /// What may stand there.
        allowed: &'static str,
    },
    /// A character that may occur, but not at the start or end of the text or of a part between separators.
    #[error("{ch:?} at position {at} is at the start or end of {part}, where only {allowed} is allowed")]
    Edge {
        /// The character.
        ch: char,
        /// Its position.
        at: usize,
        /// The whole text or one part of it.
        part: &'static str,
        /// What may stand there.
        allowed: &'static str,
    },
    /// Nothing between two separators, or between a separator and an end.
    #[error("the part at position {at} is empty; write something between separators")]
    EmptyPart {
        /// Position where the part should begin.
        at: usize,
    },
    /// Two prefixes in a label key.
    #[error("it has more than one `/`; use `name` or `prefix/name`")]
    Slashes,
    /// A number outside its range, or a text that is no number.
    #[error("it is out of range; use {allowed}")]
    Range {
        /// The range.
        allowed: &'static str,
    },
}

impl IdError {
    /// The error for `given`; the text is escaped and cut so that a message stays short and printable.
    pub(super) fn new(what: &'static str, given: &str, fault: IdFault) -> Self {
        let mut shown: String = given.chars().take(SHOWN).flat_map(char::escape_debug).collect();
        if given.chars().nth(SHOWN).is_some() {
            shown.push('…');
        }
        Self { what, given: shown, fault }
    }

    /// The same error about another thing, for example `container name` in place of `name`.
    #[must_use]
    pub fn about(mut self, what: &'static str) -> Self {
        self.what = what;
        self
    }
}
