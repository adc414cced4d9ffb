//! Pieces of logs as people read them: bytes as they were written, or lines with their part and time.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::super::failure::Failure;
use super::super::output;
use super::read::{number, text};

/// A line that never ends is shown in pieces of this size.
const LONGEST: usize = 1 << 20;

/// What is shown of one log.
#[derive(Debug)]
pub(super) struct Page {
    part: Option<u32>,
    timestamps: bool,
    lines: bool,
    /// Each event is a line of JSON.
    json: bool,
    attempt: u64,
    /// Lines that are not whole yet, by stream, with their times.
    open: BTreeMap<String, (String, Vec<u8>)>,
}

impl Page {
    /// A page of lines that begin with a part's number or a time; of bytes as they are with neither, unless whole lines are
    /// asked for.
    pub(super) fn new(part: Option<u32>, timestamps: bool, lines: bool) -> Self {
        let lines = lines || timestamps || part.is_some();
        Self { part, timestamps, lines, json: false, attempt: 0, open: BTreeMap::new() }
    }

    /// A page of events, each a line of JSON.
    pub(super) fn events() -> Self {
        Self { json: true, ..Self::new(None, false, false) }
    }

    /// Shows an event. False when the reader has gone.
    ///
    /// # Errors
    /// The output cannot be written.
    pub(super) fn show(&mut self, kind: &str, data: &Value) -> Result<bool, Failure> {
        if self.json {
            return event(kind, data);
        }
        let attempt = number(data, "attempt");
        let before = std::mem::replace(&mut self.attempt, attempt);
        if before > 0 && before != attempt {
            if !self.end()? {
                return Ok(false);
            }
            output::tell(&format!("attempt {attempt}:"));
        }
        if kind == "gap" {
            let bytes = number(data, "bytes");
            let bytes = if bytes > 0 { format!(" with {bytes} bytes") } else { String::new() };
            output::tell(&format!("{}{} pieces{bytes} are missing here", self.prefix(""), number(data, "chunks")));
            return Ok(true);
        }
        let bytes = self.take(data);
        if bytes.is_empty() { Ok(true) } else { Ok(output::log(&bytes)?) }
    }

    /// Shows what is left. False when the reader has gone.
    ///
    /// # Errors
    /// As of [`Page::show`].
    pub(super) fn end(&mut self) -> Result<bool, Failure> {
        let mut bytes = Vec::new();
        for (time, line) in std::mem::take(&mut self.open).into_values() {
            bytes.extend(self.prefix(&time).bytes());
            bytes.extend(line);
            bytes.push(b'\n');
        }
        if bytes.is_empty() { Ok(true) } else { Ok(output::log(&bytes)?) }
    }

    /// What a chunk adds.
    fn take(&mut self, data: &Value) -> Vec<u8> {
        let bytes = match data["base64"].as_str() {
            Some(coded) => STANDARD.decode(coded).unwrap_or_default(),
            None => data["text"].as_str().unwrap_or_default().as_bytes().to_vec(),
        };
        if !self.lines {
            return bytes;
        }
        let (stream, time) = (text(data, "stream"), text(data, "time"));
        let (mut since, mut line) = self.open.remove(&stream).unwrap_or_else(|| (time.clone(), Vec::new()));
        let mut out = Vec::with_capacity(bytes.len());
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(piece);
            let whole = line.ends_with(b"\n");
            if whole || line.len() >= LONGEST {
                out.extend(self.prefix(&since).bytes());
                out.append(&mut line);
                out.extend((!whole).then_some(b'\n'));
                since.clone_from(&time);
            }
        }
        if !line.is_empty() {
            self.open.insert(stream, (since, line));
        }
        out
    }

    fn prefix(&self, time: &str) -> String {
        let part = self.part.map(|part| format!("[{part}] ")).unwrap_or_default();
        if self.timestamps && !time.is_empty() { format!("{part}{time} ") } else { part }
    }
}

/// An event as a line of JSON. False when the reader has gone.
fn event(kind: &str, data: &Value) -> Result<bool, Failure> {
    let mut line = serde_json::Map::from_iter([("event".to_owned(), kind.into())]);
    line.extend(data.as_object().cloned().unwrap_or_default());
    output::log(format!("{}\n", Value::Object(line)).as_bytes())
}

/// What is shown of several logs: whole lines, or events.
#[derive(Debug)]
pub(super) struct Pages {
    json: bool,
    prefix: bool,
    timestamps: bool,
    open: BTreeMap<u32, Page>,
    /// The last attempt and position of each log that was shown.
    shown: BTreeMap<u32, (u64, u64)>,
}

impl Pages {
    /// Nothing yet. With a prefix lines begin with the number of their part.
    pub(super) fn new(prefix: bool, timestamps: bool) -> Self {
        Self { json: false, prefix, timestamps, open: BTreeMap::new(), shown: BTreeMap::new() }
    }

    /// The same for events, each a line of JSON.
    pub(super) fn events() -> Self {
        Self { json: true, ..Self::new(false, false) }
    }

    /// Shows an event, once. False when the reader has gone.
    ///
    /// # Errors
    /// The output cannot be written.
    pub(super) fn show(&mut self, kind: &str, data: &Value) -> Result<bool, Failure> {
        let index = u32::try_from(number(data, "index")).unwrap_or(u32::MAX);
        if kind == "part" {
            return self.open.remove(&index).map_or(Ok(true), |mut page| page.end());
        }
        let at = (number(data, "attempt"), number(data, "seq"));
        if self.shown.get(&index).is_some_and(|shown| *shown >= at) {
            return Ok(true);
        }
        if kind != "gap" {
            self.shown.insert(index, at);
        }
        let part = self.prefix.then_some(index);
        let new = || if self.json { Page::events() } else { Page::new(part, self.timestamps, true) };
        self.open.entry(index).or_insert_with(new).show(kind, data)
    }

    /// Shows what is left. False when the reader has gone.
    ///
    /// # Errors
    /// As of [`Pages::show`].
    pub(super) fn end(&mut self) -> Result<bool, Failure> {
        for mut page in std::mem::take(&mut self.open).into_values() {
            if !page.end()? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn chunk(stream: &str, time: &str, text: &str) -> Value {
        json!({ "attempt": 1, "stream": stream, "time": time, "text": text })
    }

    #[test]
    fn lines_are_joined_by_stream_and_begin_with_part_and_time() {
        let mut page = Page::new(Some(7), true, false);
        let pieces = [
            chunk("stdout", "T1", "a\nb"),
            chunk("stderr", "T2", "oh"),
            chunk("stdout", "T3", "c\nd\n"),
            chunk("stderr", "T4", " no\n"),
        ];
        let shown: Vec<u8> = pieces.iter().flat_map(|piece| page.take(piece)).collect();
        assert_eq!(String::from_utf8(shown).unwrap(), "[7] T1 a\n[7] T1 bc\n[7] T3 d\n[7] T2 oh no\n");
    }

    #[test]
    fn without_either_bytes_are_what_they_were() {
        let mut page = Page::new(None, false, false);
        assert_eq!(page.take(&chunk("stdout", "T", "half")), b"half");
        assert_eq!(page.take(&json!({ "stream": "stdout", "base64": "/wAK" })), b"\xff\0\n");
    }

    #[test]
    fn lines_without_a_prefix_are_whole_where_there_are_several_logs() {
        let mut page = Page::new(None, false, true);
        assert_eq!(page.take(&chunk("stdout", "T", "half")), b"");
        assert_eq!(page.take(&chunk("stdout", "T", " and half\nx")), b"half and half\n");
    }

    #[test]
    fn what_comes_again_after_a_break_is_not_shown_again() {
        let mut pages = Pages::new(true, false);
        let event = |seq: u64| json!({ "index": 3, "attempt": 1, "seq": seq, "stream": "stdout", "text": "" });
        assert!(pages.show("chunk", &event(2)).unwrap());
        assert_eq!(pages.shown, [(3, (1, 2))].into());
        assert!(pages.show("chunk", &event(1)).unwrap());
        assert_eq!(pages.shown, [(3, (1, 2))].into());
        assert!(pages.show("part", &json!({ "index": 3 })).unwrap() && pages.open.is_empty());
    }
}
