//! An advisor that answers as told. Owns the list of what it does next, and what it was asked.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;

use crate::error::{Class, Problem};
use crate::ports::advisor::{Advisor, MAX_REPLY, Question, Reply};
use crate::testing::wait::lock;

/// What the other side does when it is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Answers with this text, at the cost of 10 tokens.
    Answers(String),
    /// Refuses to answer this question.
    Refuses,
    /// Refuses whoever asks.
    Denies,
    /// Fails every time.
    Fails,
    /// Says nothing for as long as anybody waits.
    IsSilent,
}

/// An advisor in memory.
#[derive(Debug, Default)]
pub struct ScriptedAdvisor {
    deeds: Mutex<VecDeque<Deed>>,
    asked: Mutex<Vec<Question>>,
}

impl ScriptedAdvisor {
    /// Does these things, one a question; then it fails.
    #[must_use]
    pub fn new(deeds: Vec<Deed>) -> Self {
        Self { deeds: Mutex::new(deeds.into()), asked: Mutex::default() }
    }

    /// What it was asked so far.
    #[must_use]
    pub fn asked(&self) -> Vec<Question> {
        lock(&self.asked).clone()
    }
}

#[async_trait]
impl Advisor for ScriptedAdvisor {
    async fn ask(&self, question: &Question, _patience: Duration) -> Result<Reply, Problem> {
        lock(&self.asked).push(question.clone());
        let deed = lock(&self.deeds).pop_front();
        match deed {
            Some(Deed::Answers(mut text)) => {
                let end = (0..=MAX_REPLY.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
                text.truncate(end.unwrap_or(0));
                Ok(Reply { text, tokens: 10, requests: 1 })
            }
            Some(Deed::Refuses) => Err(Problem::new(Class::Invalid, "the model refuses to answer")),
            Some(Deed::Denies) => Err(Problem::new(Class::Denied, "401 Unauthorized")),
            // Time is told to a double: the patience of whoever asks is over at once.
            Some(Deed::IsSilent) => Err(Problem::new(Class::Transient, "no answer in time")),
            Some(Deed::Fails) | None => Err(Problem::new(Class::Transient, "503 Service Unavailable")),
        }
    }
}
