//! How entries of the outbox log look as bytes. Owns both directions; the decoder takes any bytes and never more memory than
//! they have. Whether bytes are whole is the segment's to know.
//!
//! An entry is a kind, its number, the attempt (28 bytes) and what the kind needs. Numbers are LEB128, times and lengths
//! too; texts and bytes stand after their length.

use std::collections::BTreeMap;

use orlop_core::id::{Epoch, JobId};
use orlop_core::task::{LogGap, LogStream, TaskEnd, TaskRef, Usage};
use orlop_core::time::Time;

use super::EntryNo;
use crate::runtime::worker::event::{AttemptEnd, Kept, LogChunk, LogTotals, Started};

/// What an entry says.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// An attempt was taken on; the bytes are the agent's own.
    Accepted(EntryNo, TaskRef, Vec<u8>),
    /// An attempt was not taken on, for this reason.
    Rejected(EntryNo, TaskRef, String),
    /// It was given back before it started.
    Revoked(EntryNo, TaskRef),
    /// Its process or container runs.
    Started(EntryNo, TaskRef, Started),
    /// It ended.
    Ended(EntryNo, TaskRef, Box<AttemptEnd>),
    /// It wrote something.
    Log(EntryNo, TaskRef, LogChunk),
    /// Output before this entry is gone.
    Gap(EntryNo, TaskRef, LogGap),
    /// These entries are no longer needed: acknowledged, or given up.
    Released(Vec<EntryNo>),
}

const ACCEPTED: u8 = 1;
const REJECTED: u8 = 2;
const REVOKED: u8 = 3;
const STARTED: u8 = 4;
const ENDED: u8 = 5;
const LOG: u8 = 6;
const GAP: u8 = 7;
const RELEASED: u8 = 8;

/// Appends an entry.
pub fn encode(entry: &Entry, out: &mut Vec<u8>) {
    match entry {
        Entry::Accepted(no, id, body) => {
            head(ACCEPTED, *no, id, out);
            bytes(body, out);
        }
        Entry::Rejected(no, id, reason) => {
            head(REJECTED, *no, id, out);
            bytes(reason.as_bytes(), out);
        }
        Entry::Revoked(no, id) => head(REVOKED, *no, id, out),
        Entry::Started(no, id, started) => {
            head(STARTED, *no, id, out);
            time(started.at, out);
            bytes(started.handle.as_bytes(), out);
        }
        Entry::Ended(no, id, end) => {
            head(ENDED, *no, id, out);
            ended(end, out);
        }
        Entry::Log(no, id, chunk) => log(*no, id, chunk, out),
        Entry::Gap(no, id, gap) => {
            head(GAP, *no, id, out);
            number(gap.chunks, out);
            number(gap.bytes, out);
        }
        Entry::Released(all) => {
            out.push(RELEASED);
            number(all.len() as u64, out);
            // Mostly neighbours: differences are short.
            let mut before = 0;
            for no in all {
                number(no.0.wrapping_sub(before), out);
                before = no.0;
            }
        }
    }
}

/// Appends an entry for a chunk of output.
pub(super) fn log(no: EntryNo, id: &TaskRef, chunk: &LogChunk, out: &mut Vec<u8>) {
    head(LOG, no, id, out);
    out.push(match chunk.stream {
        LogStream::Stdout => 0,
        LogStream::Stderr => 1,
        LogStream::System => 2,
    });
    number(chunk.seq, out);
    time(chunk.time, out);
    let gap = chunk.gap.unwrap_or_default();
    number(gap.chunks, out);
    number(gap.bytes, out);
    bytes(&chunk.data, out);
}

fn head(kind: u8, no: EntryNo, id: &TaskRef, out: &mut Vec<u8>) {
    out.push(kind);
    number(no.0, out);
    out.extend_from_slice(&id.job.as_u64().to_le_bytes());
    for part in [id.index, id.member, id.attempt] {
        out.extend_from_slice(&part.to_le_bytes());
    }
    out.extend_from_slice(&id.epoch.0.to_le_bytes());
}

fn ended(end: &AttemptEnd, out: &mut Vec<u8>) {
    out.push(match end.outcome {
        TaskEnd::Succeeded => 0,
        TaskEnd::Failed => 1,
        TaskEnd::TimedOut => 2,
        TaskEnd::Cancelled => 3,
        TaskEnd::Preempted => 4,
        TaskEnd::StartFailed => 5,
        TaskEnd::Lost => 6,
    });
    for value in [end.exit_code, end.signal] {
        out.push(u8::from(value.is_some()));
        out.extend_from_slice(&value.unwrap_or_default().to_le_bytes());
    }
    bytes(end.reason.as_bytes(), out);
    out.push(u8::from(end.started_at.is_some()));
    time(end.started_at.unwrap_or_default(), out);
    time(end.finished_at, out);
    let (usage, log) = (end.usage, end.log);
    for value in [usage.cpu_ms, usage.max_rss, usage.io_read, usage.io_write] {
        number(value, out);
    }
    for value in [log.bytes, log.dropped_bytes, log.dropped_chunks, log.last_seq] {
        number(value, out);
    }
    number(end.outputs.len() as u64, out);
    for (name, value) in &end.outputs {
        bytes(name.as_bytes(), out);
        bytes(value.as_bytes(), out);
    }
    bytes(&end.tail, out);
    number(end.artifacts.len() as u64, out);
    for Kept { name, sha256, bytes: length, path, executable } in &end.artifacts {
        [name, sha256, path].into_iter().for_each(|text| bytes(text.as_bytes(), out));
        number(*length, out);
        out.push(u8::from(*executable));
    }
}

fn number(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value as u8 & 0x7f) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn time(at: Time, out: &mut Vec<u8>) {
    let millis = at.millis();
    // Zigzag: times before the epoch are short as well.
    number(((millis << 1) ^ (millis >> 63)) as u64, out);
}

fn bytes(value: &[u8], out: &mut Vec<u8>) {
    number(value.len() as u64, out);
    out.extend_from_slice(value);
}

/// Reads one entry; none when the bytes are none, or more than one.
#[must_use]
pub fn decode(bytes: &[u8]) -> Option<Entry> {
    let mut reader = Reader(bytes);
    let entry = reader.entry()?;
    reader.0.is_empty().then_some(entry)
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(head)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn fixed<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn number(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if shift == 63 && part > 1 {
                return None;
            }
            value |= part << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn time(&mut self) -> Option<Time> {
        let zigzag = self.number()?;
        Some(Time::from_millis((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64)))
    }

    fn bytes(&mut self) -> Option<Vec<u8>> {
        let len = usize::try_from(self.number()?).ok()?;
        Some(self.take(len)?.to_vec())
    }

    fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?).ok()
    }

    fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn id(&mut self) -> Option<TaskRef> {
        Some(TaskRef {
            job: JobId::from_u64(u64::from_le_bytes(self.fixed()?)),
            index: u32::from_le_bytes(self.fixed()?),
            member: u32::from_le_bytes(self.fixed()?),
            attempt: u32::from_le_bytes(self.fixed()?),
            epoch: Epoch(u64::from_le_bytes(self.fixed()?)),
        })
    }

    fn entry(&mut self) -> Option<Entry> {
        let kind = self.byte()?;
        if kind == RELEASED {
            return self.released();
        }
        let (no, id) = (EntryNo(self.number()?), self.id()?);
        Some(match kind {
            ACCEPTED => Entry::Accepted(no, id, self.bytes()?),
            REJECTED => Entry::Rejected(no, id, self.text()?),
            REVOKED => Entry::Revoked(no, id),
            STARTED => {
                let at = self.time()?;
                Entry::Started(no, id, Started { handle: self.text()?, at })
            }
            ENDED => Entry::Ended(no, id, Box::new(self.ended()?)),
            LOG => Entry::Log(no, id, self.log()?),
            GAP => Entry::Gap(no, id, LogGap { chunks: self.number()?, bytes: self.number()? }),
            _ => return None,
        })
    }

    fn released(&mut self) -> Option<Entry> {
        let count = self.number()?;
        // Every number has a byte at least, so a count that lies costs nothing.
        if count > self.0.len() as u64 {
            return None;
        }
        let mut before = 0_u64;
        let mut all = Vec::with_capacity(usize::try_from(count).ok()?);
        for _ in 0..count {
            before = before.wrapping_add(self.number()?);
            all.push(EntryNo(before));
        }
        Some(Entry::Released(all))
    }

    fn log(&mut self) -> Option<LogChunk> {
        let stream = match self.byte()? {
            0 => LogStream::Stdout,
            1 => LogStream::Stderr,
            2 => LogStream::System,
            _ => return None,
        };
        let (seq, time) = (self.number()?, self.time()?);
        let gap = LogGap { chunks: self.number()?, bytes: self.number()? };
        let gap = (gap != LogGap::default()).then_some(gap);
        Some(LogChunk { stream, seq, time, data: self.bytes()?, gap })
    }

    fn ended(&mut self) -> Option<AttemptEnd> {
        let outcome = match self.byte()? {
            0 => TaskEnd::Succeeded,
            1 => TaskEnd::Failed,
            2 => TaskEnd::TimedOut,
            3 => TaskEnd::Cancelled,
            4 => TaskEnd::Preempted,
            5 => TaskEnd::StartFailed,
            6 => TaskEnd::Lost,
            _ => return None,
        };
        let mut code = || {
            let there = self.flag()?;
            let value = i32::from_le_bytes(self.fixed()?);
            Some(there.then_some(value))
        };
        let (exit_code, signal) = (code()?, code()?);
        let reason = self.text()?;
        let has_started = self.flag()?;
        let started_at = self.time()?;
        let finished_at = self.time()?;
        let usage = Usage {
            cpu_ms: self.number()?,
            max_rss: self.number()?,
            io_read: self.number()?,
            io_write: self.number()?,
        };
        let log = LogTotals {
            bytes: self.number()?,
            dropped_bytes: self.number()?,
            dropped_chunks: self.number()?,
            last_seq: self.number()?,
        };
        let mut outputs = BTreeMap::new();
        for _ in 0..self.number()? {
            let name = self.text()?;
            outputs.insert(name, self.text()?);
        }
        let started_at = has_started.then_some(started_at);
        let tail = self.bytes()?;
        let mut artifacts = Vec::new();
        for _ in 0..self.number()? {
            let (name, sha256, path) = (self.text()?, self.text()?, self.text()?);
            artifacts.push(Kept { name, sha256, path, bytes: self.number()?, executable: self.flag()? });
        }
        Some(AttemptEnd {
            outcome,
            exit_code,
            signal,
            reason,
            started_at,
            finished_at,
            usage,
            outputs,
            log,
            tail,
            artifacts,
        })
    }
}

#[cfg(test)]
mod tests;
