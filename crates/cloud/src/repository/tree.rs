//! Reads the chosen files of a tree within limits; how a file is opened is the
//! adapter's matter.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::error::FetchError;
use super::scan::{self, Entry, EntryKind, MAX_BLOB_BYTES, MAX_BYTES, MAX_FILES, REFERENCE_ROUNDS, Scan, ScannedFile};
use crate::analyze::FileKind;

/// How long reading may take.
pub(super) const SCAN_TIME: Duration = Duration::from_secs(10);

/// Something that holds files.
pub(super) trait Tree {
    /// The first bytes of a file; nothing if it is not what the listing said.
    async fn read(&mut self, entry: &Entry, limit: usize) -> Result<Option<Vec<u8>>, FetchError>;
}

/// Reads what the rules choose. Ends early, with a warning, when a limit is met.
pub(super) async fn scan(entries: &[Entry], tree: &mut impl Tree, deadline: Instant) -> Result<Scan, FetchError> {
    let choice = scan::choose(entries);
    let mut reading = ScanProgress { scan: choice.scan, left: MAX_BYTES, deadline };
    for (entry, kind) in &choice.read {
        if !reading.take(tree, entry, *kind).await? {
            break;
        }
    }
    let by_path: HashMap<&str, &Entry> = entries.iter().map(|entry| (entry.path.as_str(), entry)).collect();
    for _ in 0..REFERENCE_ROUNDS {
        let named = scan::referenced(&reading.scan.files);
        let found = named.iter().filter_map(|path| by_path.get(path.as_str()));
        let mut any = false;
        for entry in found.filter(|entry| entry.kind == EntryKind::File && entry.bytes <= MAX_BLOB_BYTES) {
            let before = reading.scan.files.len();
            if !reading.take(tree, entry, FileKind::PipList).await? {
                break;
            }
            any |= reading.scan.files.len() > before;
        }
        if !any {
            break;
        }
    }
    reading.scan.files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(reading.scan)
}

struct ScanProgress {
    scan: Scan,
    left: usize,
    deadline: Instant,
}

impl ScanProgress {
    /// Reads one file; false once a limit is met.
    async fn take(&mut self, tree: &mut impl Tree, entry: &Entry, kind: FileKind) -> Result<bool, FetchError> {
        if self.left == 0 || self.scan.files.len() >= MAX_FILES {
            // Of sources as many are read as there is room for.
            if !kind.is_source() {
                self.warn("not every file was read: 300 files or 4 MiB are the limit");
            }
            return Ok(false);
        }
        let limit = scan::allowance(kind, self.left);
        let read = match tokio::time::timeout_at(self.deadline, tree.read(entry, limit)).await {
            Ok(read) => read?,
            Err(_) => {
                self.warn("not every file was read: the time for it was over");
                return Ok(false);
            }
        };
        if let Some(text) = read.and_then(|bytes| scan::text_of(&bytes, limit)) {
            self.left = self.left.saturating_sub(text.len());
            self.scan.files.push(ScannedFile { path: entry.path.clone(), kind, text });
        }
        Ok(true)
    }

    fn warn(&mut self, warning: &str) {
        if !self.scan.warnings.iter().any(|known| known == warning) {
            self.scan.warnings.push(warning.to_owned());
        }
    }
}
