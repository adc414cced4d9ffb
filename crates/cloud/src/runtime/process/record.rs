//! The directory of a pod: its locks, the claim on it and the record of its end. Owns the rule that one claim is made
//! in the life of a directory, and what its content says about the pod; never starts or ends anything.
//!
//! | file | made by | meaning |
//! |---|---|---|
//! | `lock` | the first process to come | byte 0 is locked for the life of the pod, byte 1 while a claim is being made; behind them the process of the container that runs |
//! | `claim` | supervisor, before anything runs | the only supervisor that ever runs this pod |
//! | `life` | supervisor, before the claim | a pipe that it holds open until the pod has ended |
//! | `request` | runtime | what the supervisor is to do: stop, freeze |
//! | `view-<token>/` | supervisor | what the containers see as their own: `top`, `tmp`, further places, last words |
//! | `layout` | supervisor | what the main container saw where |
//! | `exit` | supervisor at the end, or who finds it dead | how the pod ended |

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileExt, MetadataExt as _, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, FcntlArg, fallocate, fcntl};
use nix::libc;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use orlop_core::time::Time;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::failure::{During, Failure};
use super::identity::Identity;
use crate::runtime::pod::{PodExit, PodKey};

/// Room kept for the record of the end, so that a full disk does not take it away.
const EXIT_ROOM: usize = 64 * 1024;
/// Where in the lock file the process of a container is noted, and the length of that.
const NOTED_AT: u64 = 2;
const NOTED_LEN: usize = 31;
/// Room for where a container has which files, in bytes.
const LAYOUT_ROOM: usize = 16 * 1024;

/// The claim on a pod's directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claim {
    /// The pod; none where a crash of the machine left nothing but the name of the file.
    pub(crate) key: Option<PodKey>,
    /// The supervisor; none where the directory was closed for good before any came.
    #[serde(alias = "shim")]
    pub(crate) supervisor: Option<Identity>,
    /// The boot of the machine it was made in.
    pub(crate) boot: String,
    /// Value of [`MARKER`](super::MARKER) in the environment of every process of the pod.
    pub(crate) token: String,
    /// The pod's control group.
    pub(crate) cgroup: Option<PathBuf>,
    /// When it was made.
    pub(crate) at: Time,
    /// Number of the directory it was made in: in a copy of the directory it claims nothing.
    #[serde(default)]
    pub(crate) inode: Option<u64>,
}

impl Claim {
    /// A claim that names no process.
    fn nobodys() -> Self {
        let (boot, token) = (String::new(), String::new());
        Self { key: None, supervisor: None, boot, token, cgroup: None, at: Time::EPOCH, inode: None }
    }
}

/// The record of the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitRecord {
    /// How the pod ended.
    pub exit: PodExit,
    /// Bytes of standard output that could not be written to its log.
    pub lost_stdout: u64,
    /// Bytes of standard error that could not be written to its log.
    pub lost_stderr: u64,
}

/// What a pod's directory says.
#[derive(Clone, Debug)]
pub(crate) enum DirectoryState {
    /// Nothing was ever started.
    Nothing,
    /// A supervisor has it and is alive.
    Alive(Identity),
    /// A supervisor had it and is dead, without a record of the end.
    Dead(Claim),
    /// It ended.
    Ended(Box<ExitRecord>),
}

/// A pod's directory.
#[derive(Clone, Debug)]
pub(crate) struct Directory(PathBuf);

/// A part of the lock file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockRegion {
    /// Held by the supervisor for the life of the pod.
    Life,
    /// Held while a claim is made.
    Claiming,
}

impl Directory {
    pub(crate) fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Opens the lock file.
    pub(crate) fn locks(&self) -> Result<Locks, Failure> {
        let path = self.join("lock");
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        file.map(Locks).during(|| format!("opening `{}`", path.display()))
    }

    /// What the directory says now.
    pub(crate) fn find(&self) -> Result<DirectoryState, Failure> {
        let Some(claim) = self.claim()? else {
            let record = self.exit()?;
            return Ok(record.map_or(DirectoryState::Nothing, |record| DirectoryState::Ended(Box::new(record))));
        };
        let boot = super::identity::boot().during(|| "reading the boot of this machine".to_owned())?;
        let Some(supervisor) = claim.supervisor.filter(|_| boot == claim.boot) else {
            return self.ended_or_dead(claim);
        };
        // The record is written before the lock goes, so look at the lock first.
        if self.locks()?.is_held(LockRegion::Life)? {
            Ok(DirectoryState::Alive(supervisor))
        } else {
            self.ended_or_dead(claim)
        }
    }

    fn ended_or_dead(&self, claim: Claim) -> Result<DirectoryState, Failure> {
        Ok(match self.exit()? {
            Some(record) => DirectoryState::Ended(Box::new(record)),
            None => DirectoryState::Dead(claim),
        })
    }

    /// The claim, if there is one. A claim without content is one whose machine went down before the content was on
    /// disk: its name is what counts, and what it said about processes no longer matters.
    pub(crate) fn claim(&self) -> Result<Option<Claim>, Failure> {
        if fs::metadata(self.join("claim")).is_ok_and(|found| found.len() == 0) {
            return Ok(Some(Claim::nobodys()));
        }
        let claim: Option<Claim> = self.read("claim")?;
        let own = self.inode()?;
        // What runs belongs to the directory that this one was copied from.
        Ok(claim.map(|claim| if claim.inode.is_none_or(|inode| inode == own) { claim } else { Claim::nobodys() }))
    }

    /// Number of the directory.
    pub(crate) fn inode(&self) -> Result<u64, Failure> {
        fs::metadata(&self.0).map(|found| found.ino()).during(|| format!("reading `{}`", self.0.display()))
    }

    /// Makes the claim, whole at once and its name on disk. Only for the holder of [`LockRegion::Claiming`] who saw that there
    /// is none.
    pub(crate) fn make_claim(&self, claim: &Claim) -> Result<(), Failure> {
        let (draft, path) = (self.join("claim.draft"), self.join("claim"));
        let write = || {
            let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
            file.write_all(&serde_json::to_vec(claim)?)?;
            fs::rename(&draft, &path)
        };
        write().during(|| format!("writing `{}`", path.display()))?;
        self.sync()
    }

    /// The pipe by which others see that the pod lives; it is to be held open until its end is written and its lock let go.
    ///
    /// None where the file system has no pipes: then the lock is waited for.
    pub(crate) fn begin_life(&self) -> Result<Option<Life>, Failure> {
        let path = self.life();
        let make = || {
            match mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR) {
                Ok(()) | Err(Errno::EEXIST) => {}
                Err(Errno::EPERM | Errno::EOPNOTSUPP | Errno::ENOSYS) => return Ok(None),
                Err(error) => return Err(io::Error::from(error)),
            }
            // Open for reading as well, or it would wait for a reader.
            OpenOptions::new().read(true).write(true).open(&path).map(Some)
        };
        let file = make().during(|| format!("making `{}`", path.display()))?;
        Ok(file.map(|file| Life { path: path.clone(), file }))
    }

    /// Where that is.
    pub(crate) fn life(&self) -> PathBuf {
        self.join("life")
    }

    /// The record of the end, if there is one.
    pub(crate) fn exit(&self) -> Result<Option<ExitRecord>, Failure> {
        self.read("exit")
    }

    /// Keeps room for the record of the end.
    pub(crate) fn reserve_exit(&self) -> Result<Reserved, Failure> {
        self.reserve("exit", EXIT_ROOM, "the record of the pod's end")
    }

    /// Keeps room for where the main container has which files: without it what the container leaves cannot be found.
    pub(crate) fn reserve_layout(&self) -> Result<Reserved, Failure> {
        self.reserve("layout", LAYOUT_ROOM, "what the main container has where")
    }

    fn reserve(&self, name: &'static str, room: usize, what: &str) -> Result<Reserved, Failure> {
        let path = self.pending(name);
        let reserving = || format!("keeping room for {what} in `{}`", path.display());
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path);
        let file = file.during(|| format!("opening `{}`", path.display()))?;
        match fallocate(&file, FallocateFlags::empty(), 0, libc::off_t::try_from(room).unwrap_or(libc::off_t::MAX)) {
            Ok(()) => {}
            // File systems that cannot keep room take what is written for real.
            Err(Errno::EOPNOTSUPP) => file.write_all_at(&vec![b' '; room], 0).during(reserving)?,
            Err(error) => return Err(error).during(reserving),
        }
        Ok(Reserved { directory: self.clone(), name, file })
    }

    fn pending(&self, name: &str) -> PathBuf {
        self.join(&format!("{name}.pending"))
    }

    /// Writes the record of the end of a pod whose supervisor cannot, into the room that was kept for it; what already exists counts.
    pub(crate) fn write_lost_end(&self, record: ExitRecord) -> Result<ExitRecord, Failure> {
        let locks = self.locks()?;
        locks.take(LockRegion::Claiming)?;
        if let Some(there) = self.exit()? {
            return Ok(there);
        }
        let path = self.pending("exit");
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = file.during(|| format!("opening `{}`", path.display()))?;
        Reserved { directory: self.clone(), name: "exit", file }.write_exit(record.clone())?;
        Ok(record)
    }

    /// Reads a file of the directory.
    pub(crate) fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Failure> {
        let path = self.join(name);
        match fs::read(&path) {
            Ok(bytes) => match serde_json::from_slice(&bytes) {
                Ok(value) => Ok(Some(value)),
                Err(error) => Err(io::Error::from(error)).during(|| format!("reading `{}`", path.display())),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).during(|| format!("reading `{}`", path.display())),
        }
    }

    /// Makes the names in the directory last.
    fn sync(&self) -> Result<(), Failure> {
        let synced = File::open(&self.0).and_then(|dir| dir.sync_all());
        synced.during(|| format!("writing `{}`", self.0.display()))
    }
}

/// What others see the life of a pod by, from the side of its supervisor.
#[derive(Debug)]
pub(crate) struct Life {
    path: PathBuf,
    file: File,
}

impl AsRawFd for Life {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        // Who holds the other end sees it closed; where it stays, who opens it does not wait.
        drop(fs::remove_file(&self.path));
    }
}

/// Room kept for a file, which has its name once it is whole.
#[derive(Debug)]
pub(crate) struct Reserved {
    directory: Directory,
    name: &'static str,
    file: File,
}

impl Reserved {
    /// Writes the record of the end. When it does not fit in the room and the disk is full, what containers said last
    /// is left out: that they ended, and how, is not.
    pub(crate) fn write_exit(self, mut record: ExitRecord) -> Result<(), Failure> {
        let path = self.directory.pending(self.name);
        let writing = || format!("writing `{}`", path.display());
        if self.put(&record).is_err() {
            for container in &mut record.exit.containers {
                container.message.clear();
            }
            self.put(&record).during(writing)?;
        }
        self.file.sync_all().during(writing)?;
        self.publish()?;
        self.directory.sync()
    }

    /// Writes the file, which need not outlast the machine.
    pub(crate) fn write<T: Serialize>(self, value: &T) -> Result<(), Failure> {
        self.put(value).during(|| format!("writing `{}`", self.directory.pending(self.name).display()))?;
        self.publish()
    }

    /// Gives the file its name.
    fn publish(&self) -> Result<(), Failure> {
        let whole = self.directory.join(self.name);
        let named = fs::rename(self.directory.pending(self.name), &whole);
        named.during(|| format!("writing `{}`", whole.display()))
    }

    fn put<T: Serialize>(&self, value: &T) -> io::Result<()> {
        let bytes = serde_json::to_vec(value)?;
        self.file.write_all_at(&bytes, 0)?;
        self.file.set_len(bytes.len() as u64)
    }
}

/// The lock file of a pod, opened: its locks go when this is dropped or the process dies.
#[derive(Debug)]
pub(crate) struct Locks(File);

impl AsRawFd for Locks {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Locks {
    /// Takes a lock, waiting for it.
    pub(crate) fn take(&self, part: LockRegion) -> Result<(), Failure> {
        let range = range(part, libc::F_WRLCK);
        loop {
            match fcntl(&self.0, FcntlArg::F_OFD_SETLKW(&range)) {
                Err(Errno::EINTR) => {}
                outcome => return outcome.map(drop).during(|| locking(part)),
            }
        }
    }

    /// Keeps room for [`Locks::note`].
    pub(crate) fn make_room(&self) -> io::Result<()> {
        self.0.write_all_at(&[b' '; NOTED_LEN], NOTED_AT)
    }

    /// Notes the process of the container that runs.
    pub(crate) fn note(&self, process: Identity) -> io::Result<()> {
        self.0.write_all_at(format!("{:>10} {:>20}", process.pid, process.start).as_bytes(), NOTED_AT)
    }

    /// The process of the container that ran last; none when none did.
    pub(crate) fn noted(&self) -> Option<Identity> {
        let mut text = [0; NOTED_LEN];
        self.0.read_exact_at(&mut text, NOTED_AT).ok()?;
        let (pid, start) = std::str::from_utf8(&text).ok()?.trim().split_once(' ')?;
        Some(Identity { pid: pid.parse().ok()?, start: start.trim().parse().ok()? })
    }

    /// Lets a lock go.
    pub(crate) fn release(&self, part: LockRegion) -> Result<(), Failure> {
        fcntl(&self.0, FcntlArg::F_OFD_SETLK(&range(part, libc::F_UNLCK))).map(drop).during(|| locking(part))
    }

    /// Whether somebody else holds a lock.
    pub(crate) fn is_held(&self, part: LockRegion) -> Result<bool, Failure> {
        let mut found = range(part, libc::F_WRLCK);
        fcntl(&self.0, FcntlArg::F_OFD_GETLK(&mut found)).during(|| locking(part))?;
        Ok(i32::from(found.l_type) != libc::F_UNLCK)
    }
}

fn locking(part: LockRegion) -> String {
    format!("locking the pod's directory ({part:?}); its file system may not support locks")
}

fn range(part: LockRegion, kind: libc::c_int) -> libc::flock {
    libc::flock {
        l_type: libc::c_short::try_from(kind).unwrap_or_default(),
        l_whence: libc::c_short::try_from(libc::SEEK_SET).unwrap_or_default(),
        l_start: if part == LockRegion::Life { 0 } else { 1 },
        l_len: 1,
        l_pid: 0,
    }
}

/// Reads at most `limit` bytes of a file; nothing when there is none.
pub(crate) fn read_some(path: &Path, limit: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes));
    if read.is_err() {
        bytes.clear();
    }
    bytes
}
