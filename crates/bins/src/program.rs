//! The one program: it is the command line, or a server or agent of a fleet or a cluster, by its first argument or by the name it
//! is called under (`orlop worker`, `orlop-worker`).

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use clap::Command;

use crate::{cli, features};

/// Runs a role with the arguments of a program.
type Main = fn(Vec<OsString>) -> ExitCode;

/// What the program is besides the command line.
struct Role {
    /// The verb; with `orlop-` before it, the name of the program.
    name: &'static str,
    /// What help says of it.
    about: &'static str,
    /// The feature that brings it.
    feature: &'static str,
    /// None where the feature was left out.
    main: Option<Main>,
}

/// What is compiled only where a condition holds.
macro_rules! built {
    ($condition:meta, $main:path) => {{
        #[cfg($condition)]
        {
            Some($main as Main)
        }
        #[cfg(not($condition))]
        {
            None
        }
    }};
}

const ROLES: [Role; 5] = [
    Role {
        name: "scheduler",
        about: "Serve the scheduler of a fleet",
        feature: "fleet",
        main: built!(feature = "fleet", crate::host::scheduler::program::main),
    },
    Role {
        name: "worker",
        about: "Run jobs of a fleet on this machine",
        feature: "fleet",
        main: built!(all(feature = "fleet", target_os = "linux"), crate::host::worker::program::main),
    },
    Role {
        name: "operator",
        about: "Run flows, performers and executors of a Kubernetes cluster",
        feature: "kube",
        main: built!(feature = "kube", crate::host::operator::program::main),
    },
    Role {
        name: "provisioner",
        about: "Find out what server a repository needs, and lease it",
        feature: "provisioner",
        main: built!(feature = "provisioner", crate::host::provisioner::program::main),
    },
    Role {
        name: "helper",
        about: "Move artifacts of a step, inside its pod",
        feature: "remote-artifacts",
        main: built!(feature = "remote-artifacts", helper),
    },
];

#[cfg(feature = "remote-artifacts")]
fn helper(arguments: Vec<OsString>) -> ExitCode {
    use orlop_cloud::helper;
    helper::main(arguments.into_iter().skip(1), &helper::Environment::of_process())
}

/// Runs the program `orlop`. To be called before any thread is started: a supervisor blocks signals for all of its own.
#[must_use]
pub fn main() -> ExitCode {
    #[cfg(not(all(feature = "fleet", target_os = "linux")))]
    if let Some(code) = crate::host::local::init() {
        return code;
    }
    #[cfg(all(feature = "fleet", target_os = "linux"))]
    if let Some(code) = crate::host::worker::roles::play() {
        return code;
    }
    let Some((role, arguments)) = asked(std::env::args_os().collect()) else { return cli::main() };
    match role.main {
        Some(main) => main(arguments),
        None => cli::refuse(&features::lacking(&format!("`orlop {}`", role.name), role.feature)),
    }
}

/// The role that a program's arguments ask for, and the role's own arguments.
fn asked(mut arguments: Vec<OsString>) -> Option<(&'static Role, Vec<OsString>)> {
    let called = arguments.first().and_then(|name| Path::new(name).file_name());
    let by_name = called.and_then(OsStr::to_str).and_then(|name| name.strip_prefix("orlop-")).and_then(role);
    if let Some(role) = by_name {
        return Some((role, arguments));
    }
    // `orlop help worker` is `orlop worker --help`.
    if arguments.get(1).is_some_and(|first| first == "help") && arguments.len() == 3 {
        arguments.swap(1, 2);
        arguments[2] = "--help".into();
        return role(arguments[1].to_str()?).map(|role| (role, with_name(role, arguments)));
    }
    let role = role(arguments.get(1)?.to_str()?)?;
    Some((role, with_name(role, arguments)))
}

/// The arguments behind the verb, with program and verb in the place of the program's name.
fn with_name(role: &Role, mut arguments: Vec<OsString>) -> Vec<OsString> {
    let mut name = arguments.remove(0);
    name.push(format!(" {}", role.name));
    arguments[0] = name;
    arguments
}

fn role(name: &str) -> Option<&'static Role> {
    ROLES.iter().find(|role| role.name == name)
}

/// The roles that this build lacks, with the feature of each.
pub(crate) fn absent() -> impl Iterator<Item = (&'static str, &'static str)> {
    ROLES.iter().filter(|role| role.main.is_none()).map(|role| (role.name, role.feature))
}

/// The command line with the roles of this build in its help.
pub(crate) fn listed(command: Command) -> Command {
    ROLES.iter().filter(|role| role.main.is_some()).fold(command, |command, role| {
        command.subcommand(Command::new(role.name).about(role.about).disable_help_flag(true))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(arguments: &[&str]) -> Option<(&'static str, Vec<String>)> {
        let (role, arguments) = asked(arguments.iter().map(OsString::from).collect())?;
        Some((role.name, arguments.iter().map(|argument| argument.to_string_lossy().into_owned()).collect()))
    }

    #[test]
    fn verbs_of_the_command_line_are_no_role() {
        assert_eq!(asks(&["orlop", "run", "flow.yaml"]), None);
        assert_eq!(asks(&["orlop"]), None);
        assert_eq!(asks(&[]), None);
        assert_eq!(asks(&["orlop", "help", "run"]), None);
        assert_eq!(asks(&["orlop-something", "run"]), None);
    }

    #[test]
    fn a_role_is_asked_for_by_verb_or_by_the_name_of_the_program() {
        let wanted = |name: &str, rest: &[&str]| {
            let all = std::iter::once(name).chain(rest.iter().copied()).map(str::to_owned).collect();
            Some(("scheduler", all))
        };
        assert_eq!(
            asks(&["/bin/orlop", "scheduler", "--config", "x"]),
            wanted("/bin/orlop scheduler", &["--config", "x"])
        );
        assert_eq!(asks(&["/bin/orlop-scheduler", "--help"]), wanted("/bin/orlop-scheduler", &["--help"]));
        assert_eq!(asks(&["orlop", "help", "scheduler"]), wanted("orlop scheduler", &["--help"]));
    }
}
