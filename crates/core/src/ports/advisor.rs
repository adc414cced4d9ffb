//! Advice from a language model, or anything else that answers questions. Owns the contract of asking; the caller checks each
//! answer and decides what it may change.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use crate::error::Problem;

/// The longest answer that is read, in bytes.
pub const MAX_REPLY: usize = 64 << 10;

/// The author of a message in a conversation.
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
    /// Its name in lower case, as chat interfaces have it: `system`, `user` or `assistant`.
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
    /// A message of a speaker.
    #[must_use]
    pub fn new(speaker: Speaker, text: impl Into<String>) -> Self {
        Self { speaker, text: text.into() }
    }
}

/// A question and the JSON schema of its answer.
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
    /// Tokens that it cost, those of the question included; 0 where the other side does not say.
    pub tokens: u64,
    /// Requests that it took.
    pub requests: u32,
}

/// Answers questions.
#[async_trait]
pub trait Advisor: Send + Sync {
    /// Asks a question, and waits no longer than `patience` for the answer, all retries included.
    ///
    /// # Errors
    /// Denied when asking again cannot help, such as with a wrong key; Transient when no answer came in time or the other side failed;
    /// Invalid when the question was refused or the answer cannot be read.
    async fn ask(&self, question: &Question, patience: Duration) -> Result<Reply, Problem>;
}
