//! The few steps between the start of a process and its command: it joins a control group, takes its limits of resources and
//! becomes another user's. Owns these steps, their order, and how they are passed to the program that takes them.

use std::env;
use std::ffi::{CString, OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use orlop_core::named::Named;

use crate::runtime::confidential;
use crate::runtime::process::RoleProgram;
use crate::runtime::process::cgroup::Cgroup;
use crate::runtime::process::child::Credentials;
use crate::runtime::process::child::command::{CANNOT_RUN, become_command};
use crate::runtime::process::rlimit::{self, ResourceLimit, ResourceLimits};
use crate::runtime::worker::plan::User;

/// How steps are passed.
const GROUP: &str = "group";
const LIMIT: &str = "limit";
const USER: &str = "user";
const EXEC: &str = "exec";

/// What is done before a command runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steps<'a> {
    /// The control group it joins.
    pub(super) group: Option<&'a Path>,
    /// Limits it takes.
    pub(super) limits: &'a ResourceLimits,
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
    let (code, complaint) = match prepared(arguments.into_iter()) {
        Ok((program, mut command)) => {
            let found = become_command(&mut command, env::vars_os().collect::<Vec<_>>(), Some(&program));
            (found.exit_code, format!("command `{}` {}", program.display(), found.why))
        }
        Err(complaint) => (CANNOT_RUN, complaint),
    };
    // It is the job's own log by now.
    drop(io::stderr().write_all(format!("{complaint}\n").as_bytes()));
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}

/// Takes the steps, in their order, and gives the command.
fn prepared(mut arguments: impl Iterator<Item = OsString>) -> Result<(PathBuf, Command), String> {
    let misused = || "a launcher of attempts takes its arguments from the runtime".to_owned();
    loop {
        let (step, value) = arguments.next().zip(arguments.next()).ok_or_else(misused)?;
        let text = value.to_str();
        match step.to_str() {
            Some(GROUP) => {
                Cgroup::at(value.into()).join().map_err(|failure| failure.to_string())?;
            }
            Some(LIMIT) => {
                let (name, value) = text.and_then(|text| text.split_once('=')).ok_or_else(misused)?;
                let (limit, value) = ResourceLimit::from_name(name).zip(value.parse().ok()).ok_or_else(misused)?;
                rlimit::set(&ResourceLimits::from([(limit, value)])).map_err(|failure| failure.to_string())?;
            }
            Some(USER) => {
                let (uid, gid) = text.and_then(|text| text.split_once(':')).ok_or_else(misused)?;
                let (uid, gid) = uid.parse().ok().zip(gid.parse().ok()).ok_or_else(misused)?;
                let credentials = Credentials { user: Some(uid), group: Some(gid), ..Credentials::default() };
                credentials.apply().map_err(|failure| failure.to_string())?;
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
