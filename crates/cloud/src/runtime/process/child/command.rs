//! Finding a command, becoming it, and why it cannot be started: in the words and with the exit code of a shell. What is the machine's
//! fault and not the command's has no such reason.

use std::ffi::{CStr, CString, OsStr};
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use nix::errno::Errno;
use nix::unistd::{AccessFlags, access};

/// Where commands are looked for when nobody says.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The standard shell.
pub(crate) const SHELL: &CStr = c"/bin/sh";
/// How often a program is tried whose file is open for writing: one that another thread is just starting may hold a file that was
/// written a moment ago, such as an input. And the time between.
const BUSY_TRIES: u32 = 20;
const BUSY_PAUSE: Duration = Duration::from_millis(2);
/// Exit codes of shells for a command that cannot be run, and for one that was not found.
pub(crate) const CANNOT_RUN: i32 = 126;
const NOT_FOUND: i32 = 127;
/// How much of a program is read to tell scripts from others, as kernels do.
const HEAD: u64 = 256;

/// What is wrong with a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unstartable {
    /// What follows its name in a sentence.
    pub(crate) why: String,
    /// The exit code that a shell would give.
    pub(crate) exit_code: i32,
}

impl fmt::Display for Unstartable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

/// What an error says of the command that was to start. `program` is where it was found; none: nowhere. None is returned for
/// errors that say nothing of the command, such as too many processes.
pub(crate) fn why(error: &io::Error, program: Option<&Path>) -> Option<Unstartable> {
    let fault = |why: String, exit_code| Some(Unstartable { why, exit_code });
    let there = program.filter(|program| program.exists());
    let interpreter = there.and_then(interpreter);
    let errno = error.raw_os_error().map(Errno::from_raw);
    match (errno, error.kind()) {
        (Some(Errno::ENOENT | Errno::ENOTDIR), _) | (None, io::ErrorKind::NotFound) => match (there, interpreter) {
            (None, _) => fault("was not found".to_owned(), NOT_FOUND),
            (Some(_), Some(name)) => fault(format!("needs the interpreter `{name}`, which was not found"), CANNOT_RUN),
            (Some(_), None) => fault("needs a dynamic loader that was not found".to_owned(), CANNOT_RUN),
        },
        (Some(Errno::EACCES), _) | (None, io::ErrorKind::PermissionDenied) => match interpreter {
            Some(name) if there.is_some_and(may_run) => {
                fault(format!("needs the interpreter `{name}`, which may not be run: {error}"), CANNOT_RUN)
            }
            _ => fault(format!("cannot be run: {error}"), CANNOT_RUN),
        },
        (Some(Errno::ENOEXEC), _) => fault("is not a program for this machine".to_owned(), CANNOT_RUN),
        (Some(Errno::E2BIG | Errno::ELOOP | Errno::ENAMETOOLONG | Errno::EISDIR | Errno::EPERM), _)
        | (None, io::ErrorKind::InvalidInput) => fault(format!("cannot be run: {error}"), CANNOT_RUN),
        _ => None,
    }
}

/// The program of that name, as `execvp` would find it in this search path.
///
/// # Errors
/// NotFound, PermissionDenied.
pub(crate) fn find(name: &CStr, path: &str, dir: &Path) -> io::Result<CString> {
    let bytes = name.to_bytes();
    if bytes.contains(&b'/') {
        return Ok(name.to_owned());
    }
    let name = name.to_str().map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut denied = false;
    for folder in path.split(':').filter(|_| !name.is_empty()) {
        // An empty part is the working directory.
        let candidate: PathBuf =
            if folder.starts_with('/') { Path::new(folder).join(name) } else { dir.join(folder).join(name) };
        match access(&candidate, AccessFlags::X_OK) {
            Ok(()) if candidate.is_file() => {
                return CString::new(candidate.into_os_string().into_encoded_bytes()).map_err(io::Error::from);
            }
            Ok(()) | Err(Errno::EACCES) => denied = true,
            Err(_) => {}
        }
    }
    Err(if denied { io::ErrorKind::PermissionDenied } else { io::ErrorKind::NotFound }.into())
}

/// Starts a program; tries again for about 40 ms while its file is open for writing.
pub(crate) fn retry_while_busy<T>(mut start: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    for _ in 0..BUSY_TRIES {
        match start() {
            Err(Errno::ETXTBSY) => sleep(BUSY_PAUSE),
            started => return started,
        }
    }
    start()
}

/// Becomes a command, with this environment and no other. `program`: where it was found. Returns only where that fails, with why.
pub(crate) fn become_command<N: AsRef<OsStr>, V: AsRef<OsStr>>(
    command: &mut Command,
    environment: impl IntoIterator<Item = (N, V)> + Clone,
    program: Option<&Path>,
) -> Unstartable {
    command.env_clear().envs(environment.clone());
    let exec = |command: &mut Command| -> Result<(), Errno> {
        Err(command.exec().raw_os_error().map_or(Errno::EINVAL, Errno::from_raw))
    };
    let mut failed = retry_while_busy(|| exec(command));
    // A script that names no interpreter is for the standard shell.
    if failed == Err(Errno::ENOEXEC)
        && let Some(script) = program.filter(|program| is_shell_script(program))
    {
        let mut shell = Command::new(OsStr::from_bytes(SHELL.to_bytes()));
        shell.arg(script).args(command.get_args()).env_clear().envs(environment);
        failed = exec(&mut shell);
    }
    unstartable(&failed.err().unwrap_or(Errno::EINVAL).into(), program)
}

/// Why a command cannot be started, also where that is the machine's fault.
pub(crate) fn unstartable(error: &io::Error, program: Option<&Path>) -> Unstartable {
    let machine = || Unstartable { why: format!("cannot be run: {error}"), exit_code: CANNOT_RUN };
    why(error, program).unwrap_or_else(machine)
}

/// Looks whether a program could be run, before a helper is made that would run it.
#[cfg(feature = "worker")]
pub(crate) fn probe(program: &Path) -> io::Result<()> {
    if !program.metadata()?.is_file() || !may_run(program) {
        return Err(Errno::EACCES.into());
    }
    match interpreter(program) {
        Some(name) if !Path::new(&name).exists() => Err(Errno::ENOENT.into()),
        _ => Ok(()),
    }
}

/// Whether a program without `#!` is a script for the standard shell, as `execvp` takes it: text.
pub(crate) fn is_shell_script(program: &Path) -> bool {
    head(program).is_ok_and(|head| !head.contains(&0))
}

fn may_run(program: &Path) -> bool {
    access(program, AccessFlags::X_OK).is_ok()
}

/// The interpreter that a script names after `#!`.
fn interpreter(program: &Path) -> Option<String> {
    let head = head(program).ok()?;
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let name = line.trim_ascii().split(|byte| matches!(byte, b' ' | b'\t')).next()?;
    (!name.is_empty()).then(|| String::from_utf8_lossy(name).into_owned())
}

fn head(program: &Path) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    File::open(program)?.take(HEAD).read_to_end(&mut head)?;
    Ok(head)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn errors_of_a_command_are_distinguished_from_those_of_the_machine() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &[u8], mode| {
            let path = dir.path().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        let script = file("script", b"#!/no/such/perl -w\nx\n", 0o755);
        let binary = file("binary", b"\x7fELF\0", 0o755);
        let of = |errno: Errno, program: Option<&Path>| {
            why(&errno.into(), program).map(|found| (found.exit_code, found.why))
        };
        let expected = |code: i32, text: &str| Some((code, text.to_owned()));
        assert_eq!(of(Errno::ENOENT, None), expected(127, "was not found"));
        assert_eq!(of(Errno::ENOENT, Some(&dir.path().join("nothing"))), expected(127, "was not found"));
        let interpreter = "needs the interpreter `/no/such/perl`, which was not found";
        assert_eq!(of(Errno::ENOENT, Some(&script)), expected(126, interpreter));
        assert_eq!(of(Errno::ENOENT, Some(&binary)), expected(126, "needs a dynamic loader that was not found"));
        assert_eq!(of(Errno::ENOEXEC, Some(&binary)), expected(126, "is not a program for this machine"));
        assert_eq!(of(Errno::EACCES, Some(dir.path())).map(|(code, _)| code), Some(126));
        for machine in [Errno::EAGAIN, Errno::ENOMEM, Errno::EMFILE, Errno::ENFILE, Errno::EIO, Errno::ETXTBSY] {
            assert_eq!(of(machine, Some(&binary)), None, "{machine}");
        }
    }

    #[test]
    fn a_program_is_probed_before_a_helper_is_made_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let code =
            |path: &Path| probe(path).err().and_then(|error| why(&error, Some(path))).map(|found| found.exit_code);
        assert_eq!(code(&path), Some(127));
        assert_eq!(code(dir.path()), Some(126));
        fs::write(&path, "#!/no/such/perl\n").unwrap();
        assert_eq!(code(&path), Some(126), "it may not be run");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(code(&path), Some(126), "it has no interpreter");
        fs::write(&path, "#!/bin/sh\n").unwrap();
        assert_eq!(code(&path), None);
    }
}
