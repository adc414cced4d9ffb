//! What agent and supervisor share of an attempt, on disk: a journal and its entries, requests; and of all attempts the lease, and
//! the journals of those that are over, for those that come. Owns these files and what they mean to a later agent; never starts or
//! ends anything.
//!
//! | file | made by | meaning |
//! |---|---|---|
//! | `<work>/.control/<ref>` | agent, then supervisor | the journal: who keeps the attempt, start, output and end, in a segment; locked by the supervisor for as long as it keeps the attempt |
//! | `…/<ref>.request` | agent | that the attempt is to end, and how |
//! | `<work>/.lease` | agent | until when attempts that must not overlap may run, by the clock since boot |
//!
//! A supervisor takes an attempt on only while its journal holds no entry: a process that finds it unlocked gives it a length that no
//! journal has, and nobody takes it on any more. One file for most attempts, and that of an earlier one where there is one: to make and
//! remove files is most of what a short attempt costs. Such a file keeps the bytes that name its kind: the file systems of Linux write
//! one that was emptied to the disk as soon as it is closed.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};
use orlop_core::task::TaskRef;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde::{Deserialize, Serialize};

use crate::clock::uptime;
use crate::durable::{Durable, replace};
use crate::runtime::process::identity::Identity;
use crate::runtime::worker::event::{AttemptEnd, Cause, LogChunk, Started};
use crate::segment::read::SegmentReader;
use crate::segment::write::SegmentWriter;
use crate::segment::{Kind, MAGIC, decode};

/// The directory of all attempts with supervisors, in the directory of attempts.
const CONTROL: &str = ".control";
const LEASE: &str = ".lease";
/// The length of a journal without entries.
const WITHOUT_ENTRIES: u64 = MAGIC as u64;
/// Within so many bytes the first entry of a journal ends: numbers of a process.
const FIRST: usize = 64;

/// What an agent asks of a supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::runtime::worker) struct Request {
    pub(in crate::runtime::worker) cause: Cause,
    pub(in crate::runtime::worker) grace_ms: u64,
}

/// What the files say of an attempt.
#[derive(Debug)]
pub(in crate::runtime::worker) enum SupervisorState {
    /// A supervisor keeps it.
    Kept(Identity),
    /// Nobody does, and nobody will.
    Left,
}

/// The control files of an attempt, by the place of its journal.
#[derive(Clone, Debug)]
pub(in crate::runtime::worker) struct Control(PathBuf);

impl Control {
    pub(in crate::runtime::worker) fn of(work: &Path, id: &TaskRef) -> Self {
        Self(work.join(CONTROL).join(id.to_string()))
    }

    pub(in crate::runtime::worker) fn journal(&self) -> &Path {
        &self.0
    }

    fn request(&self) -> PathBuf {
        let mut path = OsString::from(&self.0);
        path.push(".request");
        path.into()
    }

    pub(in crate::runtime::worker) fn exists(&self) -> bool {
        self.0.exists()
    }

    /// Makes them, for an attempt that nobody had before. Gives the journal, to be read.
    pub(in crate::runtime::worker) fn create(&self, spares: &mut Spares) -> io::Result<File> {
        if let Some(spare) = spares.give(&self.0) {
            return Ok(spare);
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        match (options.open(&self.0), self.0.parent()) {
            (Err(error), Some(parent)) if error.kind() == ErrorKind::NotFound => {
                DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
                options.open(&self.0)
            }
            (made, _) => made,
        }
    }

    /// Takes the attempt on, as its supervisor; none when it may not be taken on. The holder of the lock keeps it.
    pub(in crate::runtime::worker) fn keep(&self, own: Identity) -> io::Result<Option<(SegmentWriter, Flock<File>)>> {
        let Some(lock) = self.lock()? else { return Ok(None) };
        let file = lock.try_clone()?;
        let mut journal = match lock.metadata()?.len() {
            0 => SegmentWriter::begin(Kind::Attempt, file),
            WITHOUT_ENTRIES if is_begun(&file)? => SegmentWriter::without_entries(file),
            _ => return Ok(None),
        };
        journal.append(&Report::Supervisor(own))?;
        journal.write()?;
        Ok(Some((journal, lock)))
    }

    fn lock(&self) -> io::Result<Option<Flock<File>>> {
        let file = OpenOptions::new().read(true).append(true).open(&self.0)?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            // It was given up meanwhile, and may be another attempt's now.
            Ok(lock) if fs::metadata(&self.0)?.ino() != lock.metadata()?.ino() => Err(ErrorKind::NotFound.into()),
            Ok(lock) => Ok(Some(lock)),
            Err((_, nix::errno::Errno::EWOULDBLOCK)) => Ok(None),
            Err((_, error)) => Err(error.into()),
        }
    }

    /// Who keeps the attempt. When nobody does, nobody ever will from now on.
    pub(in crate::runtime::worker) fn supervisor(&self) -> io::Result<SupervisorState> {
        let lock = match self.lock() {
            // They were removed meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(SupervisorState::Left),
            lock => lock?,
        };
        let Some(lock) = lock else {
            // Between lock and name there is a moment.
            return self.owner()?.map(SupervisorState::Kept).ok_or_else(|| ErrorKind::WouldBlock.into());
        };
        if matches!(lock.metadata()?.len(), 0 | WITHOUT_ENTRIES) {
            // A length needs no room, so that a full disk holds nobody up; no journal is so short.
            lock.set_len(1)?;
        }
        Ok(SupervisorState::Left)
    }

    /// Who took the attempt on: the first entry of its journal.
    fn owner(&self) -> io::Result<Option<Identity>> {
        let mut journal = SegmentReader::new(Kind::Attempt, File::open(&self.0)?, 0..u64::MAX, FIRST)?;
        match journal.read()?.and_then(|(_, payload)| decode(payload)) {
            Some(Report::Supervisor(owner)) => Ok(Some(owner)),
            _ => Ok(None),
        }
    }

    /// Asks for the end of the attempt: of several causes the first counts, of several times the shortest.
    pub(in crate::runtime::worker) fn ask(&self, request: Request) -> io::Result<()> {
        let request = match self.asked() {
            Ok(Some(before)) => Request { grace_ms: before.grace_ms.min(request.grace_ms), ..before },
            Ok(None) => request,
            // Written by an agent that was killed meanwhile.
            Err(error) if matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof) => request,
            Err(error) => return Err(error),
        };
        replace(&self.request(), &serde_json::to_vec(&request)?, Durable::No)
    }

    /// What was asked.
    pub(in crate::runtime::worker) fn asked(&self) -> io::Result<Option<Request>> {
        match fs::read(self.request()) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Gives the journal up to be used again, and removes the rest. It was read to its end.
    pub(in crate::runtime::worker) fn retire(&self, journal: File, spares: &mut Spares) {
        discard(&self.request());
        if !spares.take(&self.0, journal) {
            discard(&self.0);
        }
    }

    /// Removes them, the journal last: without it nobody would find the rest.
    pub(in crate::runtime::worker) fn remove(&self) {
        [&self.request(), &self.0].into_iter().for_each(|path| discard(path));
    }
}

/// Whether a file begins as a journal does.
fn is_begun(file: &File) -> io::Result<bool> {
    let mut found = [0; MAGIC];
    match file.read_exact_at(&mut found, 0) {
        Ok(()) => Ok(found == *Kind::Attempt.magic()),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

fn discard(path: &Path) {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            tracing::warn!(path = %path.display(), %error, "clearing away what was kept of an attempt");
        }
        _ => {}
    }
}

/// All attempts that have control files.
pub(in crate::runtime::worker) fn all(work: &Path) -> io::Result<Vec<TaskRef>> {
    match fs::read_dir(work.join(CONTROL)) {
        Ok(entries) => {
            let names = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
            Ok(names.collect())
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Writes down until when attempts may run that must not overlap.
pub(in crate::runtime::worker) fn write_lease(work: &Path, left: Duration) -> io::Result<()> {
    let until = uptime().saturating_add(left);
    replace(&work.join(LEASE), until.as_millis().to_string().as_bytes(), Durable::No)
}

/// Until when they may run, by the clock since boot; zero when nobody said.
pub(in crate::runtime::worker) fn read_lease(work: &Path) -> Duration {
    let text = fs::read_to_string(work.join(LEASE)).unwrap_or_default();
    Duration::from_millis(text.trim().parse().unwrap_or(0))
}

/// What a supervisor says of the attempt that it keeps.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Report {
    /// The process that keeps it; the first.
    Supervisor(Identity),
    /// Its process or container runs.
    Started(Started),
    /// It wrote something.
    Log(LogChunk),
    /// It ended; the last.
    Ended(AttemptEnd),
}

/// Most journals that are kept for attempts that come; each is a descriptor too.
const SPARES_MAX: usize = 64;
/// How the names of their files begin. No attempt has such a name.
const SPARE_PREFIX: &str = ".spare-";

/// Journals of attempts that are over, for those that come: one is used again only when nobody has it any more, and nothing of
/// what it held is seen.
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
            let name = entry.file_name();
            let name = name.as_encoded_bytes();
            // And requests that it was killed over.
            if name.starts_with(SPARE_PREFIX.as_bytes()) || name.ends_with(b".half") {
                // What cannot be removed is in nobody's way.
                drop(fs::remove_file(entry.path()));
            }
        }
        Self { place, free: VecDeque::new(), next: 0 }
    }

    /// Takes one in. False where enough are there.
    fn take(&mut self, path: &Path, file: File) -> bool {
        if self.free.len() >= SPARES_MAX {
            return false;
        }
        let spare = self.place.join(format!("{SPARE_PREFIX}{}", self.next));
        self.next += 1;
        let taken = fs::rename(path, &spare).is_ok();
        if taken {
            self.free.push_back((spare, file));
        }
        taken
    }

    /// Gives one, without entries, this name; none where there is none that its supervisor has let go.
    fn give(&mut self, path: &Path) -> Option<File> {
        let (spare, file) = self.free.pop_front()?;
        let lock = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => lock,
            Err((file, _)) => {
                self.free.push_back((spare, file));
                return None;
            }
        };
        // One that was closed, or whose supervisor died over it, does not begin as a journal does.
        let len = if is_begun(&lock).unwrap_or(false) { WITHOUT_ENTRIES } else { 0 };
        let emptied = lock.set_len(len).is_ok();
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
    use orlop_core::id::{Epoch, JobId};

    use super::*;

    #[test]
    fn one_supervisor_keeps_an_attempt_and_none_after_it_was_closed() {
        let dir = tempfile::tempdir().unwrap();
        let id = TaskRef { job: JobId::from_u64(1), index: 0, member: 0, attempt: 1, epoch: Epoch(1) };
        let control = Control::of(dir.path(), &id);
        assert!(all(dir.path()).unwrap().is_empty());
        control.create(&mut Spares::of(dir.path())).unwrap();
        assert_eq!(all(dir.path()).unwrap(), [id]);
        let own = Identity { pid: 7, start: 8 };
        let kept = control.keep(own).unwrap();
        assert!(kept.is_some() && control.keep(own).unwrap().is_none());
        assert!(matches!(control.supervisor().unwrap(), SupervisorState::Kept(owner) if owner == own));
        let request = Request { cause: Cause::Cancel, grace_ms: 5 };
        assert_eq!(control.asked().unwrap(), None);
        control.ask(request).unwrap();
        assert_eq!(control.asked().unwrap(), Some(request));
        control.ask(Request { cause: Cause::Preempt, grace_ms: 3 }).unwrap();
        control.ask(Request { cause: Cause::Preempt, grace_ms: 9 }).unwrap();
        let merged = Request { cause: Cause::Cancel, grace_ms: 3 };
        assert_eq!(control.asked().unwrap(), Some(merged), "the supervisor may look only now");
        fs::write(control.request(), "").unwrap();
        control.ask(request).unwrap();
        assert_eq!(control.asked().unwrap(), Some(request), "an agent was killed while it wrote");
        drop(kept);
        assert!(matches!(control.supervisor().unwrap(), SupervisorState::Left));
        assert!(control.keep(own).unwrap().is_none(), "it was closed");
        control.remove();
        assert!(!control.exists());
    }

    #[test]
    fn files_that_an_agent_died_over_are_of_nothing_that_ran_and_hold_up_no_other_one() {
        let id = TaskRef { job: JobId::from_u64(1), index: 0, member: 0, attempt: 1, epoch: Epoch(1) };
        // Written in part is what a supervisor died over.
        for made in [&b""[..], b"ORL", b"ORLATT1\n", b"ORLATT1\n\x20\0\0", b"\0"] {
            let dir = tempfile::tempdir().unwrap();
            let control = Control::of(dir.path(), &id);
            control.create(&mut Spares::of(dir.path())).unwrap();
            fs::write(&control.0, made).unwrap();
            assert_eq!(super::super::state(&control).unwrap(), None, "{made:?}");
            assert!(matches!(control.supervisor().unwrap(), SupervisorState::Left));
            assert!(control.keep(Identity { pid: 7, start: 8 }).unwrap().is_none(), "{made:?}");
        }
    }

    #[test]
    fn who_is_about_to_take_an_attempt_on_has_not_said_yet_who_it_is() {
        let id = TaskRef { job: JobId::from_u64(1), index: 0, member: 0, attempt: 1, epoch: Epoch(1) };
        let dir = tempfile::tempdir().unwrap();
        let control = Control::of(dir.path(), &id);
        let mut spares = Spares::of(dir.path());
        control.create(&mut spares).unwrap();
        assert_eq!(control.create(&mut spares).unwrap_err().kind(), ErrorKind::AlreadyExists);
        let lock = control.lock().unwrap().unwrap();
        assert_eq!(control.supervisor().unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(lock);
        control.ask(Request { cause: Cause::Cancel, grace_ms: 5 }).unwrap();
        assert_eq!(all(dir.path()).unwrap(), [id], "a request is no attempt");
        control.remove();
        assert!(fs::read_dir(dir.path().join(CONTROL)).unwrap().next().is_none());
    }

    #[test]
    fn the_lease_is_a_time_since_boot() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read_lease(dir.path()), Duration::ZERO);
        write_lease(dir.path(), Duration::from_secs(20)).unwrap();
        let left = read_lease(dir.path()) - uptime();
        assert!(left <= Duration::from_secs(20) && left > Duration::from_secs(10), "{left:?}");
    }

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
        assert_eq!((again.metadata().unwrap().ino(), again.metadata().unwrap().len()), (inode, WITHOUT_ENTRIES));
        assert_eq!(all(dir.path()).unwrap().len(), 2);
        let kept = third.keep(own).unwrap();
        assert!(kept.is_some(), "it is taken on as a new one is");
        assert!(matches!(third.supervisor().unwrap(), SupervisorState::Kept(owner) if owner == own));
        assert!(matches!(second.supervisor().unwrap(), SupervisorState::Left));
        assert!(all(dir.path()).unwrap().contains(&second_id));
        // It is closed as a new one is, too.
        drop(kept);
        third.retire(again, &mut spares);
        let (_, fourth) = control(dir.path(), 4);
        assert_eq!(fourth.create(&mut spares).unwrap().metadata().unwrap().len(), WITHOUT_ENTRIES);
        assert!(matches!(fourth.supervisor().unwrap(), SupervisorState::Left));
        assert!(fourth.keep(own).unwrap().is_none());
        // What such a file holds is not taken for the beginning of a journal.
        for spoil in [&b"O"[..], b"", b"ORLOUT1\n"] {
            let closed = OpenOptions::new().read(true).append(true).open(fourth.journal()).unwrap();
            fs::write(fourth.journal(), spoil).unwrap();
            fourth.retire(closed, &mut spares);
            let made = fourth.create(&mut spares).unwrap();
            assert_eq!(made.metadata().unwrap().len(), 0, "{spoil:?}");
            let kept = fourth.keep(own).unwrap();
            assert!(kept.is_some(), "{spoil:?}");
            assert!(matches!(fourth.supervisor().unwrap(), SupervisorState::Kept(owner) if owner == own), "{spoil:?}");
        }
        fs::write(third.journal(), [0; MAGIC]).unwrap();
        assert!(third.keep(own).unwrap().is_none(), "it does not begin as a journal does");
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
