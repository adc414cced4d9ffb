//! The record of advice: one line of JSON an answer. Owns its form, its file and the digest by which
//! the same question is known again.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::analyze::advice::{MarkedQuestion, Point};

/// How long an answer is taken for the same question.
const FRESH: SignedDuration = SignedDuration::from_hours(24);
/// Bytes of a record that are read.
const MAX_BYTES: u64 = 16 << 20;

/// An answer of which there is a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// When it was given, in RFC 3339.
    pub ts: String,
    /// The digest of the question and whom it was asked of.
    pub digest: String,
    /// Which question it was.
    pub point: Point,
    /// The model.
    pub model: String,
    /// The answer, without secrets.
    pub answer: String,
    /// What was made of it.
    #[serde(default)]
    pub used: String,
    /// Tokens that it cost.
    #[serde(default)]
    pub tokens: u64,
    /// How long it took.
    #[serde(default)]
    pub elapsed_ms: u64,
}

/// A record as it was found.
#[derive(Debug, Clone, Default)]
pub struct Record {
    entries: Vec<Entry>,
}

impl Record {
    /// A record of these answers.
    #[must_use]
    pub fn of(entries: Vec<Entry>) -> Self {
        Self { entries }
    }

    /// Reads a record; a file that is not there is an empty one, and lines that are none are left out.
    ///
    /// # Errors
    /// The file cannot be read, or is a link.
    pub fn read(path: &Path) -> io::Result<Self> {
        let opened = OpenOptions::new().read(true).custom_flags(no_follow()).open(path);
        let file: File = match opened {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            other => other?,
        };
        let mut bytes = Vec::new();
        file.take(MAX_BYTES).read_to_end(&mut bytes)?;
        let lines = bytes.split(|byte| *byte == b'\n');
        Ok(Self { entries: lines.filter_map(|line| serde_json::from_slice(line).ok()).collect() })
    }

    /// The newest answer to a question; with a time, only one not older than a day.
    #[must_use]
    pub fn find(&self, digest: &str, now: Option<Timestamp>) -> Option<&Entry> {
        let fresh = |entry: &&Entry| {
            let age = |now: Timestamp| Some(now.duration_since(entry.ts.parse().ok()?));
            now.is_none_or(|now| age(now).is_some_and(|age| (SignedDuration::ZERO..=FRESH).contains(&age)))
        };
        self.entries.iter().rev().filter(|entry| entry.digest == digest).find(fresh)
    }
}

/// Adds answers to a record, which only its owner may read.
///
/// # Errors
/// The file cannot be written, or is a link.
pub(super) fn append(path: &Path, entries: &[Entry]) -> io::Result<()> {
    if entries.is_empty() {
        return Ok(());
    }
    let mut text = Vec::new();
    for entry in entries {
        serde_json::to_writer(&mut text, entry)?;
        text.push(b'\n');
    }
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(no_follow()).open(path)?;
    file.write_all(&text)?;
    file.sync_data()
}

fn no_follow() -> i32 {
    i32::try_from((OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK).bits()).unwrap_or(0)
}

/// The digest of a question and of whom it is asked, without the random marker.
#[must_use]
pub fn digest(asked: &MarkedQuestion, identity: &str) -> String {
    let mut hash = Sha256::new();
    let mut add = |part: &str| {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    };
    add(identity);
    add(asked.question.name);
    for message in &asked.question.messages {
        add(message.speaker.name());
        add(&message.text.replace(&asked.marker, "MARKER"));
    }
    add(&asked.question.schema.to_string());
    let bytes = hash.finalize();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
