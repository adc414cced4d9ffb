//! Who may be asked for advice within bounds that code sets. Owns the contract; what an
//! answer is worth is for the asker to judge, and no answer is ever an order.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use crate::error::Problem;

/// The longest answer that is read, in bytes.
pub const MAX_REPLY: usize = 64 << 10;

/// Who says something in a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaker {
    /// Whoever sets the rules of the conversation.
    System,
    /// Whoever asks.
    User,
    /// Whoever answers.
    Assistant,
}

impl Speaker {
    /// Its name in small letters.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// One turn of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who says it.
    pub speaker: Speaker,
    /// What is said; holds no secret.
    pub text: String,
}

impl Message {
    /// What somebody says.
    #[must_use]
    pub fn new(speaker: Speaker, text: impl Into<String>) -> Self {
        Self { speaker, text: text.into() }
    }
}

/// A question with the form its answer must have.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// A short name in letters, digits and `_`.
    pub name: &'static str,
    /// The conversation so far; the last turn asks.
    pub messages: Vec<Message>,
    /// The JSON schema of the answer.
    pub schema: Value,
}

/// An answer, as it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Its text, at most [`MAX_REPLY`] bytes.
    pub text: String,
    /// Tokens that it cost, question included; 0 where nobody counts.
    pub tokens: u64,
    /// Requests that it took.
    pub requests: u32,
}

/// Somebody who answers questions.
#[async_trait]
pub trait Advisor: Send + Sync {
    /// Asks once, and waits no longer than `patience` for the answer, all repetitions included.
    ///
    /// # Errors
    /// Denied when there is no use in asking again, such as for a wrong key; Transient when nothing came in time or the other
    /// side failed; Invalid when the question was refused or the answer is none.
    async fn ask(&self, question: &Question, patience: Duration) -> Result<Reply, Problem>;
}
