//! Making an attempt's process, without a helper where none is needed. Owns session, descriptors, signals and working
//! directory of the child; never waits for it.
//!
//! The child starts in its own session, with `/dev/null` as standard input, two pipes as outputs, no other
//! descriptor and no signal blocked or ignored. It takes its working directory and umask from the thread that makes it, which
//! shares neither with the rest of the program.

use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::fchown;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sched::{CloneFlags, unshare};
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, posix_spawn};
use nix::unistd::{chdir, fchdir, pipe2};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::runtime::confidential;
use crate::runtime::process::child;
use crate::runtime::process::child::command::{self, SHELL, find, is_shell_script};
use crate::runtime::worker::plan::User;

/// A process that was made.
#[derive(Debug)]
pub(super) struct Child {
    /// Its id, which is also that of its group and session.
    pub(super) pid: i32,
    /// Readable once it has ended.
    pub(super) end: OwnedFd,
    /// Its standard output.
    pub(super) out: File,
    /// Its standard error.
    pub(super) err: File,
}

/// What to run.
#[derive(Debug)]
pub(super) struct Command<'a> {
    /// Program and arguments.
    pub(super) argv: &'a [CString],
    /// Environment.
    pub(super) env: &'a [CString],
    /// Where programs are looked for.
    pub(super) path: &'a str,
    /// Working directory.
    pub(super) dir: &'a Path,
    /// Whose its outputs are, so that it can open them by name; none: this program's user's.
    pub(super) owner: Option<User>,
}

/// Why a process was not made.
#[derive(Debug)]
pub(super) enum NotSpawned {
    /// Finding the command or becoming it, and where it was found.
    Command(io::Error, Option<PathBuf>),
    /// Anything else.
    Machine(io::Error),
}

impl From<io::Error> for NotSpawned {
    fn from(error: io::Error) -> Self {
        Self::Machine(error)
    }
}

impl From<Errno> for NotSpawned {
    fn from(error: Errno) -> Self {
        Self::Machine(error.into())
    }
}

/// The arguments by which the standard shell runs a script, as `execvp` gives them.
fn shell_argv(program: &CStr, argv: &[CString]) -> Vec<CString> {
    let arguments = argv.iter().skip(1).cloned();
    [SHELL.to_owned(), program.to_owned()].into_iter().chain(arguments).collect()
}

/// What one thread needs to make processes.
#[derive(Debug)]
pub(super) struct Spawner {
    null: File,
    /// Where the thread is while it makes no process: a directory it stays in cannot be removed for good.
    home: File,
    attributes: PosixSpawnAttr,
    /// Descriptors this program was started with and that would pass on.
    foreign: Vec<RawFd>,
}

impl Spawner {
    /// For the calling thread, which gets its own working directory and umask.
    pub(super) fn new() -> io::Result<Self> {
        unshare(CloneFlags::CLONE_FS)?;
        confidential::open_files_of_jobs();
        let (attributes, foreign) = (child::attributes()?, child::foreign()?);
        Ok(Self { null: File::open("/dev/null")?, home: File::open("/")?, attributes, foreign })
    }

    /// Makes a process.
    pub(super) fn spawn(&self, command: &Command<'_>) -> Result<Child, NotSpawned> {
        let name = command.argv.first().ok_or(Errno::EINVAL)?;
        let program = find(name, command.path, command.dir).map_err(|error| NotSpawned::Command(error, None))?;
        let at = command.dir.join(OsStr::from_bytes(program.to_bytes()));
        let (out, out_end) = pipe2(OFlag::O_CLOEXEC)?;
        let (err, err_end) = pipe2(OFlag::O_CLOEXEC)?;
        if let Some(User { uid, gid }) = command.owner {
            fchown(&out_end, Some(uid), Some(gid))?;
            fchown(&err_end, Some(uid), Some(gid))?;
        }
        let mut actions = PosixSpawnFileActions::init()?;
        actions.add_dup2(self.null.as_raw_fd(), 0)?;
        actions.add_dup2(out_end.as_raw_fd(), 1)?;
        actions.add_dup2(err_end.as_raw_fd(), 2)?;
        for fd in &self.foreign {
            actions.add_close(*fd)?;
        }
        chdir(command.dir)?;
        let run =
            |program: &CStr, argv: &[CString]| posix_spawn(program, &actions, &self.attributes, argv, command.env);
        let mut made = command::retry_while_busy(|| run(&program, command.argv));
        // A script that names no interpreter is for the standard shell.
        if made == Err(Errno::ENOEXEC) && is_shell_script(&at) {
            made = run(SHELL, &shell_argv(&program, command.argv));
        }
        fchdir(&self.home)?;
        let pid = made.map_err(|error| NotSpawned::Command(error.into(), Some(at)))?.as_raw();
        drop((out_end, err_end));
        for end in [out.as_fd(), err.as_fd()] {
            fcntl(end, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        }
        let id = Pid::from_raw(pid).ok_or(Errno::ESRCH)?;
        let end = pidfd_open(id, PidfdFlags::empty()).map_err(io::Error::from)?;
        Ok(Child { pid, end, out: out.into(), err: err.into() })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::PermissionsExt;

    use rustix::process::{WaitOptions, waitpid};

    use super::*;

    fn c(texts: &[&str]) -> Vec<CString> {
        texts.iter().map(|text| CString::new(*text).unwrap()).collect()
    }

    /// Runs a command to its end in its own thread and returns what it wrote.
    fn run(argv: &[&str], dir: &Path) -> Result<(String, Option<i32>), NotSpawned> {
        let (argv, env, dir) = (c(argv), c(&["A=b"]), dir.to_owned());
        let job = move || {
            let path = command::PATH;
            let command = Command { argv: &argv, env: &env, path, dir: &dir, owner: None };
            let mut child = Spawner::new()?.spawn(&command)?;
            let status = waitpid(Pid::from_raw(child.pid), WaitOptions::empty()).map_err(io::Error::from)?;
            let mut text = String::new();
            fcntl(&child.out, FcntlArg::F_SETFL(OFlag::empty()))?;
            child.out.read_to_string(&mut text)?;
            Ok((text, status.and_then(|(_, status)| status.exit_status())))
        };
        std::thread::spawn(job).join().unwrap()
    }

    #[test]
    fn own_session_and_group_empty_input_and_no_foreign_descriptor() {
        let dir = tempfile::tempdir().unwrap();
        let before = std::env::current_dir().unwrap();
        // A descriptor that is not closed on exec.
        let open = File::open("/dev/null").unwrap();
        fcntl(&open, FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty())).unwrap();
        let script = "ps -o pid=,pgid=,sid= -p $$; readlink /proc/$$/fd/0; ls /proc/$$/fd; pwd; cat -";
        let (text, code) = run(&["sh", "-c", script], dir.path()).unwrap();
        drop(open);
        assert_eq!(code, Some(0), "{text}");
        let mut lines = text.lines();
        let ids: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
        assert!(ids.len() == 3 && ids.iter().all(|id| *id == ids[0]), "{ids:?}");
        assert_eq!(lines.next(), Some("/dev/null"));
        assert_eq!(lines.by_ref().take(3).collect::<Vec<_>>(), ["0", "1", "2"]);
        assert_eq!(lines.next(), dir.path().to_str());
        assert_eq!(lines.next(), None, "standard input is empty");
        assert_eq!(std::env::current_dir().unwrap(), before, "the rest of the program stays where it is");
    }

    #[test]
    fn a_script_that_names_no_interpreter_is_run_by_the_standard_shell() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("x"), "echo \"$0 $1 $A\"; exit 3\n").unwrap();
        fs::set_permissions(dir.path().join("x"), fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(run(&["./x", "one"], dir.path()).unwrap(), ("./x one b\n".to_owned(), Some(3)));
        fs::write(dir.path().join("x"), b"\x01\0binary").unwrap();
        let Err(NotSpawned::Command(error, _)) = run(&["./x"], dir.path()) else { panic!("it is not text") };
        assert_eq!(error.raw_os_error(), Some(nix::libc::ENOEXEC));
    }

    #[test]
    fn programs_that_are_not_there_or_may_not_run_are_errors() {
        let dir = tempfile::tempdir().unwrap();
        let run = |argv: &[&str], dir: &Path| match run(argv, dir) {
            Err(NotSpawned::Command(error, _) | NotSpawned::Machine(error)) => Err(error),
            Ok(ran) => Ok(ran),
        };
        assert_eq!(run(&["no-such-program"], dir.path()).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(run(&["./x"], dir.path()).unwrap_err().kind(), io::ErrorKind::NotFound);
        fs::write(dir.path().join("x"), "#!/bin/sh\n").unwrap();
        fs::set_permissions(dir.path().join("x"), fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(run(&["./x"], dir.path()).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert!(run(&[""], dir.path()).is_err());
    }
}
