//! Replacing files as a whole, so that readers and crashes see the old or the new content and nothing in between. Durable flows of
//! functions are in the crate `orlop`.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of files replaced by this process, which keeps the names of halves apart.
static HALVES: AtomicU64 = AtomicU64::new(0);

/// What a replaced file survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durable {
    /// A loss of power; it costs a disk access.
    Yes,
    /// The end of this process, but not a loss of power.
    No,
}

/// Replaces a file as a whole: readers see the old one or the new one, whatever happens. Blocks.
///
/// ```
/// use orlop_cloud::durable::{Durable, replace};
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("state.json");
/// replace(&path, b"{}", Durable::Yes)?;
/// assert_eq!(std::fs::read(path)?, b"{}");
/// # Ok::<(), std::io::Error>(())
/// ```
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
