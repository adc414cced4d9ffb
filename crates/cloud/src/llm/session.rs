//! Asking within limits: the record first, one repair, 120 s in all, and rules when nothing
//! helps. Owns the order of questions and what they cost; every failure is a warning.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use orlop_core::error::Class;
use orlop_core::ports::advisor::{Advisor, Reply};
use tokio::time::Instant;

use super::record::{self, Entry, Record};
use crate::analyze::advice::{Answer, MarkedQuestion, Point, read, repaired};
use crate::scrub::scrubbed;

/// How long all advice of a run may take.
pub const MAX_TIME: Duration = Duration::from_secs(120);

/// How answers are had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// From the record of the last day, else by asking.
    #[default]
    Auto,
    /// Not at all.
    Off,
    /// By asking, always.
    Record,
    /// From the record, however old.
    Replay,
}

/// What was asked, and what came of it.
#[derive(Debug, Clone, Default)]
pub struct AdvisorUsage {
    /// Requests to the endpoint.
    pub calls: u32,
    /// Tokens that they cost.
    pub tokens: u64,
    /// Questions that were answered, from the record or by asking, with the digest of each.
    pub answered: Vec<(Point, String)>,
    /// What people should know.
    pub warnings: Vec<String>,
    /// Secrets that were taken out of what was sent, by kind.
    pub scrubbed: BTreeMap<&'static str, u32>,
    /// Answers that are not in the record yet.
    pub entries: Vec<Entry>,
}

/// The questions of one run to an advisor, with their record and usage.
pub struct AdvisorSession<'a> {
    advisor: Option<&'a dyn Advisor>,
    mode: Mode,
    record: Record,
    identity: String,
    model: String,
    now: Timestamp,
    until: Instant,
    /// Why nothing more is asked.
    off: Option<Off>,
    /// Called with each question before it is asked.
    tell: Option<&'a (dyn Fn(&str) + Send + Sync)>,
    usage: AdvisorUsage,
}

/// Why nothing more is asked in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Off {
    /// The endpoint does not let this key ask.
    Denied,
    /// It failed with every repetition: the next question would too, after as long a wait.
    Away,
}

impl std::fmt::Debug for AdvisorSession<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdvisorSession").field("mode", &self.mode).field("usage", &self.usage).finish_non_exhaustive()
    }
}

impl<'a> AdvisorSession<'a> {
    /// Nobody: rules alone.
    #[must_use]
    pub fn nobody(now: Timestamp) -> Self {
        Self::new(None, Mode::Off, Record::default(), ("", ""), now)
    }

    /// An advisor with a record. `who` is the identity that makes answers differ, and the name of the model.
    #[must_use]
    pub fn new(
        advisor: Option<&'a dyn Advisor>,
        mode: Mode,
        record: Record,
        who: (&str, &str),
        now: Timestamp,
    ) -> Self {
        let (identity, model) = (who.0.to_owned(), who.1.to_owned());
        let until = Instant::now() + MAX_TIME;
        Self {
            advisor,
            mode,
            record,
            identity,
            model,
            now,
            until,
            off: None,
            tell: None,
            usage: AdvisorUsage::default(),
        }
    }

    /// The same, and calls `tell` with each question before it is asked.
    #[must_use]
    pub fn telling(self, tell: &'a (dyn Fn(&str) + Send + Sync)) -> Self {
        Self { tell: Some(tell), ..self }
    }

    /// Whether anybody is asked, or any record is read.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.mode != Mode::Off && (self.advisor.is_some() || self.mode == Mode::Replay)
    }

    /// What was asked so far.
    #[must_use]
    pub fn usage(&self) -> &AdvisorUsage {
        &self.usage
    }

    /// Asks a question; nothing where rules have to do.
    pub async fn consult(&mut self, asked: &MarkedQuestion) -> Option<Answer> {
        if !self.is_on() || self.off.is_some() {
            return None;
        }
        let digest = record::digest(asked, &self.identity);
        if let Some(answer) = self.remembered(asked.point, &digest) {
            return Some(answer);
        }
        if self.mode == Mode::Replay {
            self.warn(asked.point, "it is not in the record");
            return None;
        }
        for (kind, count) in &asked.scrubbed {
            *self.usage.scrubbed.entry(kind).or_insert(0) += count;
        }
        let started = Instant::now();
        if let Some(tell) = self.tell {
            tell(&format!("{} is asked for advice on {}", self.model, asked.point.name().replace('_', " ")));
        }
        let (answer, reply) = match self.ask(asked).await {
            Ok(found) => found,
            Err(why) => {
                self.warn(asked.point, &why);
                return None;
            }
        };
        self.usage.entries.push(Entry {
            ts: self.now.to_string(),
            digest: digest.clone(),
            point: asked.point,
            model: self.model.clone(),
            answer: scrubbed(&reply.text),
            used: String::new(),
            tokens: reply.tokens,
            elapsed_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        });
        self.usage.answered.push((asked.point, digest));
        Some(answer)
    }

    fn remembered(&mut self, point: Point, digest: &str) -> Option<Answer> {
        let now = match self.mode {
            Mode::Record | Mode::Off => return None,
            Mode::Auto => Some(self.now),
            Mode::Replay => None,
        };
        let entry = self.record.find(digest, now)?;
        let answer = read(point, &entry.answer).ok()?;
        self.usage.answered.push((point, digest.to_owned()));
        Some(answer)
    }

    /// Asks, and once more if the answer does not have its form.
    async fn ask(&mut self, asked: &MarkedQuestion) -> Result<(Answer, Reply), String> {
        let first = self.once(asked).await?;
        let faults = match read(asked.point, &first.text) {
            Ok(answer) => return Ok((answer, first)),
            Err(faults) => faults,
        };
        let second = self.once(&repaired(asked, &first.text, &faults)).await?;
        match read(asked.point, &second.text) {
            Ok(answer) => Ok((answer, Reply { tokens: first.tokens.saturating_add(second.tokens), ..second })),
            Err(faults) => Err(format!("bad answer: {}", faults.first().map_or("no reason", String::as_str))),
        }
    }

    async fn once(&mut self, asked: &MarkedQuestion) -> Result<Reply, String> {
        let Some(advisor) = self.advisor else { return Err("no model is available".to_owned()) };
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err("the time for advice is over".to_owned());
        }
        // Also an advisor that forgets its promise does not hold the run.
        let answered = tokio::time::timeout(left, advisor.ask(&asked.question, left)).await;
        match answered {
            Ok(Ok(reply)) => {
                self.usage.calls = self.usage.calls.saturating_add(reply.requests);
                self.usage.tokens = self.usage.tokens.saturating_add(reply.tokens);
                Ok(reply)
            }
            Ok(Err(error)) => {
                self.usage.calls = self.usage.calls.saturating_add(1);
                self.off = match error.class {
                    Class::Denied => Some(Off::Denied),
                    Class::Transient => Some(Off::Away),
                    _ => self.off,
                };
                Err(error.message)
            }
            Err(_) => {
                self.usage.calls = self.usage.calls.saturating_add(1);
                self.off = Some(Off::Away);
                Err("no answer in time".to_owned())
            }
        }
    }

    fn warn(&mut self, point: Point, why: &str) {
        let hint = match self.off {
            Some(Off::Denied) => "; check OPENAI_API_KEY",
            Some(Off::Away) => "; nothing more is asked in this run",
            None => "",
        };
        let what = point.name().replace('_', " ");
        let why = scrubbed(why);
        self.usage.warnings.push(format!("advice on {what} unavailable ({why}), using rules{hint}"));
    }

    /// Takes down what was made of the last answer to a question.
    pub fn note_use(&mut self, point: Point, made: &str) {
        if let Some(entry) = self.usage.entries.iter_mut().rev().find(|entry| entry.point == point) {
            made.clone_into(&mut entry.used);
        }
    }

    /// Adds what was asked to the record.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn keep(&mut self, path: &Path) -> std::io::Result<()> {
        record::append(path, &self.usage.entries)?;
        self.usage.entries.clear();
        Ok(())
    }
}
