//! Files that are replaced as a whole. Owns the order of writing, syncing and renaming; knows no content.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of files replaced by this process, which keeps the names of halves apart.
static HALVES: AtomicU64 = AtomicU64::new(0);

/// Whether a file survives a loss of power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durable {
    /// It does, and costs a disk access.
    Yes,
    /// Only the end of this process.
    No,
}

/// Replaces a file as a whole: readers see the old one or the new one, whatever happens. Blocks.
///
/// # Errors
/// What the file system says; then the old file is still there.
pub fn replace(path: &Path, bytes: &[u8], durable: Durable) -> io::Result<()> {
    // A writer that is being stopped may still be writing the same file.
    let number = HALVES.fetch_add(1, Ordering::Relaxed);
    let half = path.with_extension(format!("{}-{number}.half", std::process::id()));
    let written = write(&half, path, bytes, durable);
    if written.is_err() {
        // What cannot be removed now is garbage beside the file; the error that led here counts.
        drop(fs::remove_file(&half));
    }
    written
}

fn write(half: &Path, path: &Path, bytes: &[u8], durable: Durable) -> io::Result<()> {
    let mut file = File::create(half)?;
    file.write_all(bytes)?;
    if durable == Durable::Yes {
        file.sync_all()?;
    }
    fs::rename(half, path)?;
    match (durable, path.parent()) {
        (Durable::Yes, Some(parent)) => sync_directory(parent),
        _ => Ok(()),
    }
}

/// Makes the names in a directory durable. Blocks.
///
/// # Errors
/// What the file system says.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
