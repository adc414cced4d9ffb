//! Files of deployments beside their journal: written whole, readable by nobody else. Owns their mode, and the cache of what could
//! not be had.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::fcntl::OFlag;
use orlop_core::time::Time;

use super::saga::FailedOffering;
use crate::durable::sync_directory;

/// Number of files written by this process, which keeps the names of halves apart.
static HALVES: AtomicU64 = AtomicU64::new(0);
/// Bytes of a cache that are read.
const MAX_CACHE: u64 = 1 << 20;
/// Entries of a cache that are kept.
const MAX_ENTRIES: usize = 1000;

/// Replaces a file as a whole; from its first byte on nobody else can read it. Blocks.
///
/// # Errors
/// What the file system says; then the old file is still there.
pub fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let number = HALVES.fetch_add(1, Ordering::Relaxed);
    let half = path.with_extension(format!("{}-{number}.half", std::process::id()));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).custom_flags(OFlag::O_NOFOLLOW.bits());
    let written = options.open(&half).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&half, path)?;
        path.parent().filter(|parent| !parent.as_os_str().is_empty()).map_or(Ok(()), sync_directory)
    });
    if written.is_err() {
        // What cannot be removed now is garbage beside the file; the error that led here counts.
        drop(fs::remove_file(&half));
    }
    written
}

/// What was not available lately, from its file; a file that is missing or damaged holds nothing.
#[must_use]
pub fn read_failed(path: &Path, now: Time) -> Vec<FailedOffering> {
    let mut text = String::new();
    if File::open(path).and_then(|file| file.take(MAX_CACHE).read_to_string(&mut text)).is_err() {
        return Vec::new();
    }
    let all: Vec<FailedOffering> = serde_json::from_str(&text).unwrap_or_default();
    all.into_iter().filter(|failed| failed.until > now).take(MAX_ENTRIES).collect()
}

/// Adds something that was not available to a file. Blocks.
///
/// # Errors
/// What the file system says.
pub fn add_failed(path: &Path, failed: &FailedOffering, now: Time) -> io::Result<()> {
    let mut all = read_failed(path, now);
    all.retain(|known| {
        (&known.site, &known.what, known.hour, known.hours) != (&failed.site, &failed.what, failed.hour, failed.hours)
    });
    all.insert(0, failed.clone());
    all.truncate(MAX_ENTRIES);
    write_private(path, &serde_json::to_vec(&all)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::Duration;

    use super::*;

    #[test]
    fn files_are_private_and_replaced_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("info.json");
        write_private(&path, b"1").unwrap();
        write_private(&path, b"22").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"22");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(write_private(&folder.path().join("no/such"), b"").is_err());
    }

    #[test]
    fn what_could_not_be_had_is_forgotten_in_time_and_only_that() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("failed.json");
        let now = Time::from_millis(1_767_621_607_000);
        let failed = |what: &str, seconds: u64| FailedOffering {
            site: "uc".to_owned(),
            what: what.to_owned(),
            hour: 1,
            hours: 24,
            why: "capacity".to_owned(),
            until: now.plus(Duration::from_secs(seconds)),
        };
        for (what, seconds) in [("a", 180), ("b", 600), ("a", 190)] {
            add_failed(&path, &failed(what, seconds), now).unwrap();
        }
        let names = |at: Time| read_failed(&path, at).into_iter().map(|one| one.what).collect::<String>();
        assert_eq!(names(now), "ab");
        assert_eq!(names(now.plus(Duration::from_secs(200))), "b");
        assert_eq!(names(now.plus(Duration::from_secs(600))), "");
        fs::write(&path, b"[{").unwrap();
        assert_eq!(names(now), "");
    }
}
