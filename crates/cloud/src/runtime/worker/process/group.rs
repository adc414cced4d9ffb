//! Control groups of attempts: limits that hold before a job's first instruction, and the list of all its processes. Owns
//! which groups are made, and the few steps between the start of a process and its command that join it to one.

use std::ffi::{CString, OsString};
use std::fs;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use orlop_core::error::{Class, PortError};

use super::{Enforce, ProcessOptions};
use crate::runtime::process::ShimProgram;
use crate::runtime::process::cgroup::{Bounds, Cgroup, probe};
use crate::runtime::worker::attempt::AttemptId;
use crate::runtime::worker::plan::WorkSpec;

/// Processes and threads of an attempt, at most.
const PIDS: u64 = 4096;
/// Exit code of shells for a command that cannot be run.
const CANNOT_RUN: u8 = 126;

/// Where groups are made, and how a process gets into one.
#[derive(Debug)]
pub(super) struct Groups {
    parent: PathBuf,
    launcher: ShimProgram,
}

impl Groups {
    /// Finds out whether there are to be groups here.
    ///
    /// # Errors
    /// Invalid when they are required and there can be none.
    pub(super) fn find(options: &ProcessOptions) -> Result<Option<Self>, PortError> {
        if options.enforce == Enforce::Off {
            return Ok(None);
        }
        let limits = probe(options.cgroup.as_deref());
        let required = options.enforce == Enforce::Require;
        if required && !(limits.cpu && limits.memory && options.launcher.is_some()) {
            let message = "limits are required, and this program has no control group (version 2) in which it can limit \
                           CPU and memory; delegate one to it, or set `enforce` to auto";
            return Err(PortError::new(Class::Invalid, message));
        }
        // A group that limits nothing is made only where somebody asked for groups.
        let useful = limits.cpu || limits.memory || options.cgroup.is_some();
        let parent = limits.parent.filter(|_| useful);
        Ok(parent.zip(options.launcher.clone()).map(|(parent, launcher)| Self { parent, launcher }))
    }

    /// Makes the group of an attempt with its limits.
    pub(super) fn make(&self, id: &AttemptId, spec: &WorkSpec) -> io::Result<Cgroup> {
        let group = self.group(id);
        let bounds = Bounds {
            cpu_milli: Some(spec.cpu_m),
            weight_milli: Some(spec.cpu_m),
            memory_bytes: (spec.memory_bytes > 0).then_some(spec.memory_bytes),
            pids: Some(PIDS),
        };
        let made = group.create().and_then(|()| group.limit(&bounds));
        made.map_err(|failure| {
            // What was made of it is empty.
            drop(group.remove());
            io::Error::new(failure.source.kind(), failure.to_string())
        })?;
        Ok(group)
    }

    /// The group of an attempt, which need not exist.
    pub(super) fn group(&self, id: &AttemptId) -> Cgroup {
        Cgroup::at(Cgroup::path(&self.parent, &id.to_string()))
    }

    /// The command that joins the group and becomes `program` with these arguments.
    pub(super) fn wrap(&self, id: &AttemptId, program: &CString, argv: &[CString]) -> io::Result<Vec<CString>> {
        let encode = |text: &std::ffi::OsStr| CString::new(text.as_encoded_bytes()).map_err(io::Error::from);
        let mut all = vec![encode(self.launcher.path.as_os_str())?];
        for argument in &self.launcher.args {
            all.push(encode(argument)?);
        }
        all.push(encode(Cgroup::path(&self.parent, &id.to_string()).as_os_str())?);
        all.push(program.clone());
        all.extend_from_slice(argv);
        Ok(all)
    }
}

/// Joins a control group and becomes a command. Takes what follows the launcher's own arguments: the group, the program,
/// and its arguments with its name. Returns only when that fails.
#[must_use]
pub fn launch(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut arguments = arguments.into_iter();
    let (Some(group), Some(program), Some(name)) = (arguments.next(), arguments.next(), arguments.next()) else {
        return complain("a launcher of attempts takes its arguments from the runtime");
    };
    if let Err(error) = fs::write(Path::new(&group).join("cgroup.procs"), "0") {
        return complain(&format!("joining the control group `{}`: {error}", Path::new(&group).display()));
    }
    let error = Command::new(&program).arg0(name).args(arguments).exec();
    complain(&format!("command `{}` cannot be run: {error}", Path::new(&program).display()))
}

fn complain(what: &str) -> ExitCode {
    // It is the job's own log by now; whoever does not read it misses it.
    drop(io::stderr().write_all(format!("{what}\n").as_bytes()));
    ExitCode::from(CANNOT_RUN)
}
