//! The further roles of a program that is a worker: it is started again, with a hidden argument, as the supervisor of
//! attempts and pods, and as the launcher that joins a control group and becomes an attempt's command.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use orlop_cloud::runtime::process::RoleProgram;
use orlop_cloud::runtime::worker::process::{launch, supervise};

use super::AgentOptions;
use crate::host::local::{SUPERVISOR, initialized};

/// The launcher of an attempt's command.
const LAUNCHER: &str = "__launcher";

/// Plays the role that the arguments of this process ask for, to its end; none if they ask for none. To be called before any
/// thread is started: a supervisor blocks signals for all of its own.
#[must_use]
pub fn play() -> Option<ExitCode> {
    initialized();
    let mut arguments = std::env::args_os().skip(1);
    let role = arguments.next()?;
    Some(match role.to_str()? {
        SUPERVISOR => supervise::main(),
        LAUNCHER => launch(arguments),
        _ => return None,
    })
}

impl AgentOptions {
    /// Has the program at `path`, which calls [`play`] first of all, play all roles. Without them limits are not enforced, and
    /// attempts do not outlive the agent.
    pub fn play_with(&mut self, path: &Path) {
        let role = |argument: &str| Some(RoleProgram { path: path.to_owned(), args: vec![OsString::from(argument)] });
        self.supervisor = role(SUPERVISOR);
        self.launcher = role(LAUNCHER);
    }
}
