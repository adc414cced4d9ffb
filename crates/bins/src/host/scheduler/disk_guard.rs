//! DiskGuard on the server's disks: with too little of it no work is taken and logs are dropped, so that results still have
//! room.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nix::fcntl::posix_fallocate;
use nix::sys::statvfs::statvfs;
use orlop_cloud::logs::{Chunk, LogKey};
use orlop_core::error::{Code, Problem};

/// Attempts whose lost output is remembered until some is kept again.
const REMEMBERED: usize = 4096;
/// After this time somebody who was refused may try again, in milliseconds.
const LATER: Duration = Duration::from_secs(10);

/// Chunks and bytes of output that were given up, by attempt.
pub(super) type Gaps = BTreeMap<LogKey, (u32, u64)>;

/// What was given up of one attempt.
#[derive(Debug, Default)]
struct Lost {
    /// The last chunk of it. What comes up to it comes again, for its frame was not acknowledged.
    seq: u64,
    /// Chunks and bytes that are reported before the next chunk that is kept.
    unreported: (u32, u64),
}

/// What is looked after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disks {
    /// The folder of the store's file; none where the store is a database.
    pub store: Option<PathBuf>,
    /// The folder of logs; none where they are in a database.
    pub logs: Option<PathBuf>,
    /// The folder of artifacts; none where they are in a database.
    pub artifacts: Option<PathBuf>,
    /// With fewer free bytes no work is taken and no log is kept.
    pub least: u64,
    /// Bytes that are set aside for results beside the store's file; 0 = none.
    pub reserve: u64,
}

/// How much room there is, as it was last seen, and what was given up for want of it.
#[derive(Debug)]
pub(super) struct DiskGuard {
    disks: Option<Disks>,
    /// Free bytes of the store's disk, of that of logs and of that of artifacts.
    store: AtomicU64,
    logs: AtomicU64,
    artifacts: AtomicU64,
    lost: Mutex<BTreeMap<LogKey, Lost>>,
}

/// Free bytes of a folder's disk for this program.
fn free(folder: &Path) -> io::Result<u64> {
    let found = statvfs(folder)?;
    Ok(found.blocks_available().saturating_mul(found.fragment_size()))
}

fn mebi(bytes: u64) -> u64 {
    bytes >> 20
}

impl DiskGuard {
    pub(super) fn new(disks: Option<Disks>) -> Self {
        let [store, logs, artifacts] = [(); 3].map(|()| AtomicU64::new(u64::MAX));
        Self { disks, store, logs, artifacts, lost: Mutex::default() }
    }

    /// Looks how much room there is now, says what changes, and lets the reserve go or sets it aside.
    pub(super) fn look(&self) {
        let Some(disks) = &self.disks else { return };
        if let Some(folder) = &disks.store {
            self.see(&self.store, folder, "new work is refused", disks.least);
            if let Err(error) = self.keep_reserve(folder, disks) {
                tracing::warn!(target: "orlop::scheduler", %error, "the disk space for results cannot be reserved");
            }
        }
        if let Some(folder) = &disks.logs {
            self.see(&self.logs, folder, "logs are dropped", disks.least);
        }
        if let Some(folder) = &disks.artifacts {
            self.see(&self.artifacts, folder, "uploads are refused", disks.least);
        }
    }

    fn see(&self, seen: &AtomicU64, folder: &Path, then: &str, least: u64) {
        let now = match free(folder) {
            Ok(now) => now,
            Err(error) => {
                let folder = folder.display();
                tracing::warn!(target: "orlop::scheduler", %folder, %error, "free disk space cannot be read");
                return;
            }
        };
        let before = seen.swap(now, Ordering::SeqCst);
        let (folder, free_mebi, least_mebi) = (folder.display(), mebi(now), mebi(least));
        match (before < least, now < least) {
            (false, true) => {
                tracing::error!(target: "orlop::scheduler", %folder, free_mebi, least_mebi, "the disk is nearly full: {then}");
            }
            (true, false) => {
                tracing::info!(target: "orlop::scheduler", %folder, free_mebi, "enough free disk space again");
            }
            _ => {}
        }
    }

    /// A file without contents holds room that is given back when nothing else is left.
    fn keep_reserve(&self, folder: &Path, disks: &Disks) -> io::Result<()> {
        if disks.reserve == 0 {
            return Ok(());
        }
        let (place, free) = (folder.join(".orlop-reserve"), self.store.load(Ordering::SeqCst));
        let there = fs::metadata(&place).is_ok_and(|found| found.len() == disks.reserve);
        if there && free < disks.reserve / 4 {
            tracing::warn!(target: "orlop::scheduler", "the reserved disk space is released for results");
            return fs::remove_file(&place);
        }
        if !there && free >= disks.least.saturating_add(disks.reserve) {
            let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&place)?;
            let bytes = i64::try_from(disks.reserve).unwrap_or(i64::MAX);
            posix_fallocate(&file, 0, bytes)?;
        }
        Ok(())
    }

    /// Refuses new work where its store's disk is nearly full.
    ///
    /// # Errors
    /// StoreUnavailable with how much is free and how much must be.
    pub(super) fn check(&self) -> Result<(), Problem> {
        let Some(disks) = &self.disks else { return Ok(()) };
        let free = self.store.load(Ordering::SeqCst);
        if free >= disks.least {
            return Ok(());
        }
        let text = format!(
            "no new work is taken: the disk of the store has {} MiB free, and below {} MiB what is left is for results; \
             free some space on the server",
            mebi(free),
            mebi(disks.least)
        );
        Err(Problem::coded(Code::StoreUnavailable, text).retry_after(LATER))
    }

    /// Refuses so many bytes of an upload where the disk of artifacts has no room for them.
    ///
    /// # Errors
    /// TooLarge for more than there is room for, StoreUnavailable on a full disk; with how much is free and must stay free.
    pub(super) fn check_upload(&self, bytes: u64) -> Result<(), Problem> {
        let Some(disks) = self.disks.as_ref().filter(|disks| disks.artifacts.is_some()) else { return Ok(()) };
        let free = self.artifacts.load(Ordering::SeqCst);
        if free.saturating_sub(bytes) >= disks.least {
            return Ok(());
        }
        let text = format!(
            "the disk of artifacts has {} MiB free, of which {} MiB stay free; there is no space for {bytes} more \
             bytes",
            mebi(free),
            mebi(disks.least)
        );
        if free >= disks.least {
            // There is room, for less: to wait helps nobody.
            return Err(Problem::coded(Code::TooLarge, text));
        }
        Err(Problem::coded(Code::StoreUnavailable, text).retry_after(LATER))
    }

    /// Whether logs are dropped now.
    pub(super) fn has_none_for_logs(&self) -> bool {
        self.disks.as_ref().is_some_and(|disks| self.logs.load(Ordering::SeqCst) < disks.least)
    }

    /// Gives output up. What is missing is reported with the next output of its attempt that is kept. Gives the bytes that were not
    /// given up before: what comes again is gone once.
    pub(super) fn give_up(&self, chunks: &[Chunk]) -> u64 {
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        let mut gone: u64 = 0;
        for chunk in chunks {
            if lost.len() >= REMEMBERED && !lost.contains_key(&chunk.key) {
                lost.pop_first();
            }
            let Lost { seq, unreported: (count, bytes) } = lost.entry(chunk.key).or_default();
            if chunk.seq <= *seq {
                continue;
            }
            *seq = chunk.seq;
            let len = chunk.data.len() as u64;
            gone = gone.saturating_add(len);
            *count = count.saturating_add(1).saturating_add(chunk.gap.chunks);
            *bytes = bytes.saturating_add(len).saturating_add(chunk.gap.bytes);
        }
        gone
    }

    /// Takes out what was given up before, and puts what is missing before chunks into them. What it gives is to be remembered
    /// again where they are not kept.
    #[must_use]
    pub(super) fn mark_gaps(&self, chunks: &mut Vec<Chunk>) -> Gaps {
        let mut reported = Gaps::default();
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        if lost.is_empty() {
            return reported;
        }
        chunks.retain(|chunk| lost.get(&chunk.key).is_none_or(|lost| chunk.seq > lost.seq));
        for chunk in chunks {
            let unreported = lost.get_mut(&chunk.key).map(|lost| std::mem::take(&mut lost.unreported));
            if let Some((count, bytes)) = unreported.filter(|unreported| *unreported != (0, 0)) {
                chunk.gap.chunks = chunk.gap.chunks.saturating_add(count);
                chunk.gap.bytes = chunk.gap.bytes.saturating_add(bytes);
                reported.insert(chunk.key, (count, bytes));
            }
        }
        reported
    }

    /// What was to be reported was not: the chunks before which it is missing come again.
    pub(super) fn remember(&self, gaps: Gaps) {
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        for (key, (chunks, bytes)) in gaps {
            let Lost { unreported: (count, sum), .. } = lost.entry(key).or_default();
            *count = count.saturating_add(chunks);
            *sum = sum.saturating_add(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use orlop_cloud::logs::Gap;
    use orlop_core::id::JobId;
    use orlop_core::task::LogStream;

    use super::*;

    fn chunk(job: u64, seq: u64) -> Chunk {
        let key = LogKey { job: JobId::from_u64(job), index: 0, member: 0, attempt: 1 };
        let time = orlop_core::time::Time::EPOCH;
        Chunk { key, stream: LogStream::Stdout, seq, time, gap: Gap::default(), data: b"12345".to_vec() }
    }

    #[test]
    fn a_disk_that_is_nearly_full_takes_no_work_and_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let disks = |least, reserve| {
            let (folder, artifacts) = (dir.path().to_owned(), Some(dir.path().to_owned()));
            DiskGuard::new(Some(Disks { store: Some(folder.clone()), logs: Some(folder), artifacts, least, reserve }))
        };
        let guard = disks(1, 4096);
        guard.look();
        assert!(guard.check().is_ok() && !guard.has_none_for_logs());
        let reserve = dir.path().join(".orlop-reserve");
        assert_eq!(fs::metadata(&reserve).unwrap().len(), 4096);
        let full = disks(u64::MAX, 4096);
        full.look();
        let problem = full.check().unwrap_err();
        assert_eq!((problem.code, problem.retry_after), (Code::StoreUnavailable, Some(LATER)));
        assert!(problem.message.contains("what is left is for results"), "{}", problem.message);
        assert!(full.has_none_for_logs());
        let problem = full.check_upload(1).unwrap_err();
        assert_eq!((problem.code, problem.retry_after), (Code::StoreUnavailable, Some(LATER)));
        assert!(
            guard.check_upload(1).is_ok()
                && guard.check_upload(u64::MAX).is_err_and(|problem| problem.code == Code::TooLarge)
                && DiskGuard::new(None).check_upload(9).is_ok()
        );
        full.store.store(1, Ordering::SeqCst);
        full.keep_reserve(dir.path(), full.disks.as_ref().unwrap()).unwrap();
        assert!(!reserve.exists(), "results need it now");
        assert!(DiskGuard::new(None).check().is_ok());
    }

    #[test]
    fn output_that_was_given_up_is_reported_before_the_next_that_is_kept() {
        let guard = DiskGuard::new(None);
        assert_eq!(guard.give_up(&[chunk(1, 1), chunk(1, 2), chunk(2, 1)]), 15);
        let mut kept = vec![chunk(1, 3), chunk(1, 4), chunk(3, 1)];
        let reported = guard.mark_gaps(&mut kept);
        let gaps: Vec<_> = kept.iter().map(|chunk| (chunk.gap.chunks, chunk.gap.bytes)).collect();
        assert_eq!(gaps, [(2, 10), (0, 0), (0, 0)]);
        assert!(guard.mark_gaps(&mut kept).is_empty());
        assert_eq!(kept[0].gap.chunks, 2, "told once");
        // They were not kept: the sender gets the gap again.
        guard.remember(reported);
        assert_eq!(guard.give_up(&[chunk(1, 3)]), 5);
        let mut again = vec![chunk(1, 4)];
        assert_eq!(guard.mark_gaps(&mut again).len(), 1);
        assert_eq!((again[0].gap.chunks, again[0].gap.bytes), (3, 15));
    }

    #[test]
    fn output_that_was_given_up_and_comes_again_is_missing_once() {
        let guard = DiskGuard::new(None);
        assert_eq!(guard.give_up(&[chunk(1, 1), chunk(1, 2)]), 10);
        // Their frame was not acknowledged, and the disk is still full.
        assert_eq!(guard.give_up(&[chunk(1, 1), chunk(1, 2), chunk(1, 3)]), 5);
        // There is room, and they come a third time: what was counted as missing is missing.
        let mut again = vec![chunk(1, 2), chunk(1, 3), chunk(1, 4)];
        let reported = guard.mark_gaps(&mut again);
        assert_eq!((again.len(), again[0].seq), (1, 4));
        assert_eq!((again[0].gap.chunks, again[0].gap.bytes, reported.len()), (3, 15, 1));
        let mut next = vec![chunk(1, 3), chunk(1, 5)];
        assert!(guard.mark_gaps(&mut next).is_empty());
        assert_eq!((next.len(), next[0].gap), (1, Gap::default()));
    }
}
