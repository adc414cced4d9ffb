//! The journal in a file: `<folder>/journal.jsonl`, locked for one process. Owns opening, locking, and that a line is on the
//! disk before its writer goes on.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use nix::fcntl::{Flock, FlockArg, OFlag};
use orlop_core::time::Time;
use tokio::sync::Mutex;

use super::{Entry, Journal, JournalError, Line, encode, replay};
use crate::durable::sync_directory;

/// Bytes of a journal that are read.
const MAX_FILE: u64 = 256 << 20;

struct OpenJournal {
    file: Flock<File>,
    lines: Vec<Line>,
    /// Whether a line could not be written whole: then nothing more is.
    broken: bool,
}

/// The journal in a file.
pub struct FileJournal {
    path: PathBuf,
    held: Arc<Mutex<OpenJournal>>,
    last: Arc<AtomicU64>,
}

impl std::fmt::Debug for FileJournal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FileJournal({})", self.path.display())
    }
}

fn storage(path: &Path, error: impl std::fmt::Display) -> JournalError {
    JournalError::Storage { what: format!("{}: {error}", path.display()) }
}

impl FileJournal {
    /// The journal of a deployment in its own folder, which is made. Blocks.
    ///
    /// # Errors
    /// Another process has it, it is damaged, or the disk refuses.
    pub fn open(folder: &Path, id: &str) -> Result<Self, JournalError> {
        let path = folder.join("journal.jsonl");
        let failed = |error: std::io::Error| storage(&path, error);
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true).mode(0o600).custom_flags(OFlag::O_NOFOLLOW.bits());
        let file = options.open(&path).map_err(failed)?;
        let mut file = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| match error {
            nix::errno::Errno::EWOULDBLOCK => JournalError::Locked { id: id.to_owned() },
            error => storage(&path, error),
        })?;
        let mut bytes = Vec::new();
        (&mut *file).take(MAX_FILE).read_to_end(&mut bytes).map_err(failed)?;
        let (lines, whole) = replay(&bytes)?;
        if whole < bytes.len() {
            file.set_len(whole as u64).map_err(failed)?;
            file.seek(SeekFrom::End(0)).map_err(failed)?;
        }
        file.sync_all().map_err(failed)?;
        sync_directory(folder).map_err(failed)?;
        if let Some(parent) = folder.parent() {
            sync_directory(parent).map_err(failed)?;
        }
        let last = Arc::new(AtomicU64::new(lines.len() as u64));
        Ok(Self { path, held: Arc::new(Mutex::new(OpenJournal { file, lines, broken: false })), last })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The number of its last line; 0 while it is empty.
    #[must_use]
    pub fn last_seq(&self) -> u64 {
        self.last.load(Ordering::Relaxed)
    }
}

impl OpenJournal {
    fn write(&mut self, path: &Path, line: Line) -> Result<(), JournalError> {
        if self.broken {
            return Err(storage(path, "an earlier line could not be written"));
        }
        let text = encode(&line).map_err(|error| storage(path, error))? + "\n";
        // Should half of it arrive, it is the torn last line that reading cuts off.
        self.broken = true;
        self.file.write_all(text.as_bytes()).map_err(|error| storage(path, error))?;
        self.file.sync_data().map_err(|error| storage(path, error))?;
        self.broken = false;
        self.lines.push(line);
        Ok(())
    }
}

#[async_trait]
impl Journal for FileJournal {
    async fn lines(&self) -> Result<Vec<Line>, JournalError> {
        Ok(self.held.lock().await.lines.clone())
    }

    async fn append(&self, now: Time, attempt: u32, entry: &Entry) -> Result<(), JournalError> {
        let (path, entry, last) = (self.path.clone(), entry.clone(), Arc::clone(&self.last));
        let mut held = Arc::clone(&self.held).lock_owned().await;
        let written = tokio::task::spawn_blocking(move || {
            let seq = held.lines.len() as u64 + 1;
            held.write(&path, Line { seq, ts: now, attempt, entry })?;
            last.store(seq, Ordering::Relaxed);
            Ok(())
        });
        written.await.map_err(|error| storage(&self.path, error))?
    }
}
