//! What becomes of attempts, as a runtime tells it. Owns the values and the port through which they are reported; never
//! decides what follows.

use std::borrow::Cow;
use std::collections::BTreeMap;

use orlop_core::task::{LogGap, LogStream, TaskEnd, TaskRef, Usage};
use orlop_core::time::Time;
use serde::{Deserialize, Serialize};

use crate::segment::bytes;

/// Why an attempt is asked to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// A person, or the end of its gang or of its token.
    Cancel,
    /// Better work needs its place, or the worker is being emptied.
    Preempt,
    /// Its lease ran out.
    Lease,
}

/// A piece of output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogChunk {
    /// Where it came from.
    pub stream: LogStream,
    /// Its place among all chunks of the attempt, from 1.
    pub seq: u64,
    /// When its first byte was read.
    pub time: Time,
    /// The bytes, secrets masked, in whatever encoding the job writes.
    #[serde(with = "bytes")]
    pub data: Vec<u8>,
    /// What is missing before it.
    pub gap: Option<LogGap>,
}

/// How much of all output was delivered or dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogTotals {
    /// Bytes kept.
    pub bytes: u64,
    /// Bytes dropped.
    pub dropped_bytes: u64,
    /// Chunks dropped.
    pub dropped_chunks: u64,
    /// Number of the last chunk; 0 when there is none.
    pub last_seq: u64,
}

/// The start of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// Process id or container id.
    pub handle: String,
    /// When.
    pub at: Time,
}

/// The end of an attempt: nothing of it runs any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptEnd {
    /// How.
    pub outcome: TaskEnd,
    /// Exit code, when it ended with one.
    pub exit_code: Option<i32>,
    /// Signal, when it ended by one.
    pub signal: Option<i32>,
    /// One word for programs, or a sentence for people; empty where outcome, code and signal say all.
    pub reason: String,
    /// When it started; none when it never did.
    pub started_at: Option<Time>,
    /// When it ended.
    pub finished_at: Time,
    /// What it used.
    pub usage: Usage,
    /// What it wrote into its file of outputs.
    pub outputs: BTreeMap<String, String>,
    /// How much of its output was delivered or dropped.
    pub log: LogTotals,
    /// All of standard output, where it is short and there is nothing else; then there are no chunks.
    #[serde(with = "bytes")]
    pub tail: Vec<u8>,
    /// Files it left that are stored elsewhere now.
    pub artifacts: Vec<Kept>,
}

/// A file that an attempt left, once it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Its name.
    pub name: String,
    /// SHA-256 of its content, in hexadecimal.
    pub sha256: String,
    /// Its length.
    pub bytes: u64,
    /// Where it was, below the attempt's directory.
    pub path: String,
    /// Whether it is a file that can be run.
    #[serde(default)]
    pub executable: bool,
}

impl AttemptEnd {
    /// The end of an attempt that never ran, or of which nothing is known.
    #[must_use]
    pub fn without_run(outcome: TaskEnd, reason: impl Into<String>, at: Time) -> Self {
        Self {
            outcome,
            exit_code: None,
            signal: None,
            reason: reason.into(),
            started_at: None,
            finished_at: at,
            usage: Usage::default(),
            outputs: BTreeMap::new(),
            log: LogTotals::default(),
            tail: Vec::new(),
            artifacts: Vec::new(),
        }
    }

    /// The end of an attempt whose command cannot be started, with the exit code that a shell would give.
    #[must_use]
    pub fn cannot_start(exit_code: i32, message: &str, at: Time) -> (Self, LogChunk) {
        let (end, said) = Self::start_failed("", message, at);
        (Self { exit_code: Some(exit_code), reason: command_reason(message), ..end }, said)
    }

    /// The end of an attempt that could not be started: one word for programs, and for people what is said in its log.
    #[must_use]
    pub fn start_failed(word: &str, message: &str, at: Time) -> (Self, LogChunk) {
        let data = format!("{}\n", cut(message, SAID)).into_bytes();
        let end = Self::without_run(TaskEnd::StartFailed, word, at);
        let log = LogTotals { bytes: data.len() as u64, last_seq: 1, ..LogTotals::default() };
        (Self { log, ..end }, LogChunk { stream: LogStream::System, seq: 1, time: at, data, gap: None })
    }
}

/// Why a command cannot be started: the word `command`, and what is wrong with it, cut where it is long.
pub(super) fn command_reason(message: &str) -> String {
    format!("command: {}", cut(message.strip_prefix("command ").unwrap_or(message), 500))
}

/// The most bytes that are said in a log of why an attempt did not start: the message may repeat the command.
const SAID: usize = 4096;

/// A text of about so many bytes at most. What a long one begins and ends with stays: a name, and what is wrong with it.
fn cut(text: &str, longest: usize) -> Cow<'_, str> {
    if text.len() <= longest {
        return Cow::Borrowed(text);
    }
    let boundary = |at: usize| (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let (start, end) = (boundary(longest / 2), boundary(text.len() - longest / 2));
    Cow::Owned(format!("{} … {}", text.get(..start).unwrap_or_default(), text.get(end..).unwrap_or_default()))
}

/// Whether there is room for more output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum LogCapacity {
    /// There is.
    Free,
    /// There is not: an attempt that may wait is not read until [`JobRuntime::resume`](super::JobRuntime::resume).
    Full,
}

/// Receives what becomes of attempts. Called by the threads of a runtime, which it must not block.
///
/// Of one attempt the calls come in order: `started` at most once, any number of `log`, `ended` once and last. What is
/// logged before `started` tells of preparations. After a round of calls comes `flush`: reports are then to be made durable and passed on.
pub trait AttemptEvents: Send + Sync + std::fmt::Debug {
    /// Its process or container runs.
    fn started(&self, id: TaskRef, started: Started);
    /// It wrote something.
    fn log(&self, id: TaskRef, chunk: LogChunk) -> LogCapacity;
    /// It ended, and nothing of it is left.
    fn ended(&self, id: TaskRef, end: AttemptEnd);
    /// The calls of this round are over.
    fn flush(&self);
}
