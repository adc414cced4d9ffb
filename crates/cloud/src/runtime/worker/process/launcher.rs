//! The few steps between the start of a process and its command: it joins a control group, takes its limits of resources and
//! becomes another user's. Owns these steps, their order, and how they are passed to the program that takes them.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};
use nix::unistd::{Gid, Uid, geteuid, setgroups, setresgid, setresuid};
use orlop_core::error::{Class, Problem};
use orlop_core::named::Named;
use serde::{Deserialize, Serialize};

use super::spawn::{BUSY_PAUSE, BUSY_TRIES, SHELL};
use super::unstartable::{self, is_shell_script};
use crate::runtime::confidential;
use crate::runtime::process::RoleProgram;
use crate::runtime::worker::plan::User;

/// Exit code of shells for a command that cannot be run.
const CANNOT_RUN: u8 = 126;
/// How steps are passed.
const GROUP: &str = "group";
const LIMIT: &str = "limit";
const USER: &str = "user";
const EXEC: &str = "exec";

/// What a process may use at most, as in `ulimit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Limit {
    /// Bytes of address space.
    As,
    /// Bytes of a core dump.
    Core,
    /// Seconds of CPU time.
    Cpu,
    /// Bytes of data segment.
    Data,
    /// Bytes of a file that it writes.
    Fsize,
    /// Bytes of memory that it keeps from being paged out.
    Memlock,
    /// Open files.
    Nofile,
    /// Processes and threads of its user.
    Nproc,
    /// Bytes of stack.
    Stack,
}

impl Named for Limit {
    const KIND: &'static str = "resource limit";
    const ALL: &'static [Self] = &[
        Self::As,
        Self::Core,
        Self::Cpu,
        Self::Data,
        Self::Fsize,
        Self::Memlock,
        Self::Nofile,
        Self::Nproc,
        Self::Stack,
    ];

    fn as_str(self) -> &'static str {
        match self {
            Self::As => "as",
            Self::Core => "core",
            Self::Cpu => "cpu",
            Self::Data => "data",
            Self::Fsize => "fsize",
            Self::Memlock => "memlock",
            Self::Nofile => "nofile",
            Self::Nproc => "nproc",
            Self::Stack => "stack",
        }
    }
}

impl Limit {
    const fn resource(self) -> Resource {
        match self {
            Self::As => Resource::RLIMIT_AS,
            Self::Core => Resource::RLIMIT_CORE,
            Self::Cpu => Resource::RLIMIT_CPU,
            Self::Data => Resource::RLIMIT_DATA,
            Self::Fsize => Resource::RLIMIT_FSIZE,
            Self::Memlock => Resource::RLIMIT_MEMLOCK,
            Self::Nofile => Resource::RLIMIT_NOFILE,
            Self::Nproc => Resource::RLIMIT_NPROC,
            Self::Stack => Resource::RLIMIT_STACK,
        }
    }
}

/// Limits of the processes of attempts; `u64::MAX` is unlimited.
pub type Limits = BTreeMap<Limit, u64>;

/// Finds out whether this program may give these limits. Root may give any.
///
/// # Errors
/// Invalid with the first that is above what this program has itself.
pub(super) fn check(limits: &Limits) -> Result<(), Problem> {
    for (limit, value) in limits.iter().filter(|_| !geteuid().is_root()) {
        let (_, most) = getrlimit(limit.resource()).map_err(io::Error::from)?;
        if *value > most {
            let asked = if *value == RLIM_INFINITY { "unlimited".to_owned() } else { value.to_string() };
            let message = format!(
                "the limit `{}` is {asked}, and this program may give {most} at most; lower it, or run the worker as root",
                limit.as_str()
            );
            return Err(Problem::new(Class::Invalid, message));
        }
    }
    Ok(())
}

/// What is done before a command runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steps<'a> {
    /// The control group it joins.
    pub(super) group: Option<&'a Path>,
    /// Limits it takes.
    pub(super) limits: &'a Limits,
    /// Whose it becomes.
    pub(super) user: Option<User>,
}

impl Steps<'_> {
    /// Whether the command can be run without a helper.
    pub(super) fn are_none(&self) -> bool {
        self.group.is_none() && self.limits.is_empty() && self.user.is_none()
    }

    /// The command that takes these steps and becomes `program` with these arguments.
    pub(super) fn wrap(&self, launcher: &RoleProgram, program: &CString, argv: &[CString]) -> io::Result<Vec<CString>> {
        let encode = |text: &OsStr| CString::new(text.as_encoded_bytes()).map_err(io::Error::from);
        let mut all = vec![encode(launcher.path.as_os_str())?];
        for argument in &launcher.args {
            all.push(encode(argument)?);
        }
        let mut step = |name: &str, value: &OsStr| -> io::Result<()> {
            all.extend([encode(name.as_ref())?, encode(value)?]);
            Ok(())
        };
        if let Some(group) = self.group {
            step(GROUP, group.as_os_str())?;
        }
        for (limit, value) in self.limits {
            step(LIMIT, format!("{}={value}", limit.as_str()).as_ref())?;
        }
        if let Some(user) = self.user {
            step(USER, format!("{}:{}", user.uid, user.gid).as_ref())?;
        }
        all.extend([encode(EXEC.as_ref())?, program.clone()]);
        all.extend_from_slice(argv);
        Ok(all)
    }
}

/// Prepares a process and becomes a command. Takes what follows the launcher's own arguments, as the process runtime puts it:
/// the steps, the program, and its arguments with its name. Returns only when that fails.
#[must_use]
pub fn launch(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    confidential::open_files_of_jobs();
    let mut code = CANNOT_RUN;
    let complaint = match prepared(arguments.into_iter()) {
        Ok((program, mut command)) => {
            let mut error = command.exec();
            for _ in 0..BUSY_TRIES {
                if error.kind() != io::ErrorKind::ExecutableFileBusy {
                    break;
                }
                std::thread::sleep(BUSY_PAUSE);
                error = command.exec();
            }
            if error.raw_os_error() == Some(nix::libc::ENOEXEC) && is_shell_script(&program) {
                // A script that names no interpreter is for the standard shell.
                let shell = OsStr::from_bytes(SHELL.to_bytes());
                error = Command::new(shell).arg(&program).args(command.get_args()).exec();
            }
            let found = unstartable::why(&error, Some(&program));
            code = found.as_ref().map_or(code, |found| u8::try_from(found.exit_code).unwrap_or(code));
            let why = found.map_or_else(|| format!("cannot be run: {error}"), |found| found.why);
            format!("command `{}` {why}", program.display())
        }
        Err(complaint) => complaint,
    };
    // It is the job's own log by now.
    drop(io::stderr().write_all(format!("{complaint}\n").as_bytes()));
    ExitCode::from(code)
}

/// Takes the steps, in their order, and gives the command.
fn prepared(mut arguments: impl Iterator<Item = OsString>) -> Result<(PathBuf, Command), String> {
    let misused = || "a launcher of attempts takes its arguments from the runtime".to_owned();
    loop {
        let (step, value) = arguments.next().zip(arguments.next()).ok_or_else(misused)?;
        let text = value.to_str();
        match step.to_str() {
            Some(GROUP) => {
                let place = Path::new(&value);
                fs::write(place.join("cgroup.procs"), "0")
                    .map_err(|error| format!("joining the control group `{}`: {error}", place.display()))?;
            }
            Some(LIMIT) => {
                let (name, value) = text.and_then(|text| text.split_once('=')).ok_or_else(misused)?;
                let (limit, value) = Limit::from_name(name).zip(value.parse().ok()).ok_or_else(misused)?;
                setrlimit(limit.resource(), value, value)
                    .map_err(|error| format!("the limit `{name}` cannot be {value}: {error}"))?;
            }
            Some(USER) => {
                let (uid, gid) = text.and_then(|text| text.split_once(':')).ok_or_else(misused)?;
                let user = uid.parse().ok().zip(gid.parse().ok()).map(|(uid, gid)| User { uid, gid });
                become_user(user.ok_or_else(misused)?)
                    .map_err(|error| format!("becoming user {uid} of group {gid}: {error}"))?;
            }
            Some(EXEC) => {
                let name = arguments.next().ok_or_else(misused)?;
                let mut command = Command::new(&value);
                command.arg0(name).args(arguments);
                return Ok((value.into(), command));
            }
            _ => return Err(misused()),
        }
    }
}

/// Groups first: who is no longer root cannot change them.
fn become_user(user: User) -> nix::Result<()> {
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    setgroups(&[])?;
    setresgid(gid, gid, gid)?;
    setresuid(uid, uid, uid)
}
