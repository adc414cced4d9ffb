//! The bodies of a flow's documents.

use orlop_core::error::{Class, Problem};
use orlop_core::ports::journal::{FlowRecord, JournalEntry};
use orlop_core::spec::flow::JobFlow;
use orlop_core::time::Time;
use serde::{Deserialize, Serialize};

/// A flow as it was submitted.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StoredRecord {
    uid: String,
    flow: JobFlow,
    created_at: Time,
    options: serde_json::Value,
}

impl StoredRecord {
    pub(super) fn of(record: &FlowRecord) -> Self {
        let FlowRecord { uid, flow, created_at, options } = record.clone();
        Self { uid, flow, created_at, options }
    }

    pub(super) fn into_record(self) -> FlowRecord {
        let Self { uid, flow, created_at, options } = self;
        FlowRecord { uid, flow, created_at, options }
    }
}

/// An entry of the journal.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StoredEntry {
    pub(super) seq: u64,
    now: Time,
    event: String,
}

impl StoredEntry {
    pub(super) fn of(seq: u64, entry: &JournalEntry) -> Self {
        Self { seq, now: entry.now, event: entry.event.clone() }
    }

    pub(super) fn into_entry(self) -> JournalEntry {
        JournalEntry { now: self.now, event: self.event }
    }
}

/// A snapshot: text where the engine writes text, which it does, else hexadecimal.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StoredSnapshot {
    pub(super) through: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    hex: String,
}

impl StoredSnapshot {
    pub(super) fn of(through: u64, state: &[u8]) -> Self {
        match std::str::from_utf8(state) {
            // A store may keep no zero in a text; JSON writes it as an escape.
            Ok(text) => Self { through, text: Some(text.to_owned()), hex: String::new() },
            Err(_) => {
                let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or('0');
                let hex = state.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect();
                Self { through, text: None, hex }
            }
        }
    }

    pub(super) fn into_parts(self) -> Result<(u64, Vec<u8>), Problem> {
        if let Some(text) = self.text {
            return Ok((self.through, text.into_bytes()));
        }
        let damaged = || Problem::new(Class::Fatal, "a snapshot is damaged; restore a backup of the store");
        let digits: Option<Vec<u8>> =
            self.hex.chars().map(|digit| digit.to_digit(16).and_then(|value| u8::try_from(value).ok())).collect();
        let digits = digits.filter(|digits| digits.len() % 2 == 0).ok_or_else(damaged)?;
        let bytes = digits.chunks_exact(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit));
        Ok((self.through, bytes.collect()))
    }
}
