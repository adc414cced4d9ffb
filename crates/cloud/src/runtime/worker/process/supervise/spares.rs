//! Journals of attempts that are over, for those that come. Owns that one is used again only when nobody has it any more, and
//! that nothing of what it held is seen.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::control::CONTROL;

/// Most of them; each is a descriptor too.
const MOST: usize = 64;
/// How the names of their files begin. No attempt has such a name.
const PREFIX: &str = ".spare-";

/// See the module.
#[derive(Debug)]
pub(in crate::runtime::worker) struct Spares {
    place: PathBuf,
    /// The one that was given up first, first: its supervisor has most likely let it go.
    free: VecDeque<(PathBuf, File)>,
    next: u64,
}

impl Spares {
    /// Those of the attempts below a directory; what an earlier agent left is removed.
    pub(in crate::runtime::worker) fn of(work: &Path) -> Self {
        let place = work.join(CONTROL);
        for entry in fs::read_dir(&place).into_iter().flatten().flatten() {
            if entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
                // What cannot be removed is in nobody's way.
                drop(fs::remove_file(entry.path()));
            }
        }
        Self { place, free: VecDeque::new(), next: 0 }
    }

    /// Takes one in. False where enough are there.
    pub(super) fn take(&mut self, path: &Path, file: File) -> bool {
        if self.free.len() >= MOST {
            return false;
        }
        let spare = self.place.join(format!("{PREFIX}{}", self.next));
        self.next += 1;
        let taken = fs::rename(path, &spare).is_ok();
        if taken {
            self.free.push_back((spare, file));
        }
        taken
    }

    /// Gives one, empty, this name; none where there is none that its supervisor has let go.
    pub(super) fn give(&mut self, path: &Path) -> Option<File> {
        let (spare, file) = self.free.pop_front()?;
        let lock = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => lock,
            Err((file, _)) => {
                self.free.push_back((spare, file));
                return None;
            }
        };
        let emptied = lock.set_len(0).is_ok();
        let named = || renameat_with(CWD, &spare, CWD, path, RenameFlags::NOREPLACE).is_ok();
        match lock.unlock() {
            Ok(file) if emptied && named() => Some(file),
            // One that cannot be emptied or unlocked is of no use.
            _ => {
                drop(fs::remove_file(&spare));
                None
            }
        }
    }
}

impl Drop for Spares {
    fn drop(&mut self) {
        for (spare, _) in &self.free {
            // The next agent removes what stays.
            drop(fs::remove_file(spare));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use orlop_core::id::{Epoch, JobId};
    use orlop_core::task::TaskRef;

    use super::super::control::{Control, SupervisorState, all};
    use super::*;
    use crate::runtime::process::identity::Identity;

    fn control(work: &Path, job: u64) -> (TaskRef, Control) {
        let id = TaskRef { job: JobId::from_u64(job), index: 0, member: 0, attempt: 1, epoch: Epoch(1) };
        (id, Control::of(work, &id))
    }

    #[test]
    fn a_journal_is_used_again_when_its_supervisor_has_let_it_go_and_nothing_of_it_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let mut spares = Spares::of(dir.path());
        let ((_, first), (second_id, second)) = (control(dir.path(), 1), control(dir.path(), 2));
        let (_, third) = control(dir.path(), 3);
        let own = Identity { pid: 7, start: 8 };
        let journal = first.create(&mut spares).unwrap();
        let inode = journal.metadata().unwrap().ino();
        let kept = first.keep(own).unwrap();
        first.retire(journal, &mut spares);
        assert!(!first.exists() && all(dir.path()).unwrap().is_empty());
        // The supervisor has written the end, and is about to let go.
        let other = second.create(&mut spares).unwrap();
        assert_ne!(other.metadata().unwrap().ino(), inode);
        drop(kept);
        let again = third.create(&mut spares).unwrap();
        assert_eq!((again.metadata().unwrap().ino(), again.metadata().unwrap().len()), (inode, 0));
        assert_eq!(all(dir.path()).unwrap().len(), 2);
        assert!(third.keep(own).unwrap().is_some(), "it is taken on as a new one is");
        assert!(matches!(second.supervisor().unwrap(), SupervisorState::Left));
        assert!(all(dir.path()).unwrap().contains(&second_id));
    }

    #[test]
    fn a_journal_is_not_used_for_an_attempt_that_has_one() {
        let dir = tempfile::tempdir().unwrap();
        let mut spares = Spares::of(dir.path());
        let ((_, first), (_, second)) = (control(dir.path(), 1), control(dir.path(), 2));
        let journal = first.create(&mut spares).unwrap();
        second.create(&mut spares).unwrap();
        first.retire(journal, &mut spares);
        second.create(&mut spares).unwrap_err();
    }

    #[test]
    fn what_an_earlier_agent_left_is_removed_and_nothing_stays_in_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join(CONTROL);
        fs::create_dir(&place).unwrap();
        fs::write(place.join(".spare-9"), "left").unwrap();
        let mut spares = Spares::of(dir.path());
        assert!(fs::read_dir(&place).unwrap().next().is_none());
        let (_, first) = control(dir.path(), 1);
        let journal = first.create(&mut spares).unwrap();
        first.retire(journal, &mut spares);
        drop(spares);
        assert!(fs::read_dir(&place).unwrap().next().is_none());
    }
}
