//! Text of a repository as data within a question: suspicious lines and secrets out, a random marker around each file, a bound
//! on each and on all.

use std::collections::BTreeMap;

use crate::analyze::injection;
use crate::repository::{Scan, ScannedFile};
use crate::scrub::scrub;

/// Characters of one file that are shown.
pub const FILE_CHARS: usize = 10_000;
/// Characters of all files that are shown.
pub const TOTAL_CHARS: usize = 60_000;

/// Files as data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Framed {
    /// The blocks, one after the other.
    pub text: String,
    /// How many secrets of which kind were taken out.
    pub scrubbed: BTreeMap<&'static str, u32>,
}

/// Frames the files of a scan, those near the top first. `marker` is random, so that no file can end its own frame.
#[must_use]
pub fn frame(scan: &Scan, marker: &str) -> Framed {
    let mut files: Vec<&ScannedFile> =
        scan.files.iter().filter(|file| !file.kind.is_lock() && !file.kind.is_source()).collect();
    files.sort_by_key(|file| (file.path.matches('/').count(), file.path.as_str()));
    let (mut framed, mut left) = (Framed::default(), TOTAL_CHARS);
    for file in files {
        if left == 0 {
            break;
        }
        let body = body(file, marker, left.min(FILE_CHARS), &mut framed.scrubbed);
        left = left.saturating_sub(body.chars().count());
        let name = serde_json::Value::from(without(&file.path, marker)).to_string();
        framed.text.push_str(&format!("<<{marker} file {name}>>\n{body}<<{marker} end>>\n"));
    }
    framed
}

/// The lines of a file with their numbers, at most so many characters of them.
fn body(file: &ScannedFile, marker: &str, most: usize, counts: &mut BTreeMap<&'static str, u32>) -> String {
    let (cleared, _) = injection::cleared(file);
    // What is beyond the limit by far need not be looked at.
    let end = cleared.char_indices().nth(most * 2).map_or(cleared.len(), |(at, _)| at);
    let clean = scrub(cleared.get(..end).unwrap_or_default());
    for (kind, count) in clean.counts {
        *counts.entry(kind).or_insert(0) += count;
    }
    let (mut body, mut left) = (String::new(), most);
    for (index, line) in without(&clean.text, marker).lines().enumerate() {
        let number = format!("{}| ", index + 1);
        let room = left.saturating_sub(number.len() + 1);
        if room == 0 {
            break;
        }
        if line.trim().is_empty() {
            continue;
        }
        let shown: String = line.chars().filter(|ch| !ch.is_control() || *ch == '\t').take(room).collect();
        left = room.saturating_sub(shown.chars().count());
        body.push_str(&number);
        body.push_str(&shown);
        body.push('\n');
    }
    body
}

/// A text without the marker.
fn without(text: &str, marker: &str) -> String {
    let mut text = text.to_owned();
    // What is taken out may join the halves of another one.
    while !marker.is_empty() && text.contains(marker) {
        text = text.replace(marker, "");
    }
    text
}
