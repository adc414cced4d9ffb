//! The one program: it is the command line, or a server or agent of a fleet or a cluster, by its first argument or by the name it
//! is called under (`orlop worker`, `orlop-worker`).

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use clap::Command;

use crate::cli;

/// What the program is besides the command line.
struct Role {
    /// The verb; with `orlop-` before it, the name of the program.
    name: &'static str,
    /// What help says of it.
    about: &'static str,
    /// Runs it with the arguments of a program.
    main: fn(Vec<OsString>) -> ExitCode,
}

/// The roles of this build.
const ROLES: &[Role] = &[
    #[cfg(feature = "fleet")]
    Role { name: "scheduler", about: "Serve the scheduler of a fleet", main: crate::host::scheduler::program::main },
    #[cfg(all(feature = "fleet", target_os = "linux"))]
    Role { name: "worker", about: "Run jobs of a fleet on this machine", main: crate::host::worker::program::main },
    #[cfg(feature = "kube")]
    Role {
        name: "operator",
        about: "Run flows, performers and executors of a Kubernetes cluster",
        main: crate::host::operator::program::main,
    },
    #[cfg(feature = "provisioner")]
    Role {
        name: "provisioner",
        about: "Find out what server a repository needs, and lease it",
        main: crate::host::provisioner::program::main,
    },
    #[cfg(feature = "remote-artifacts")]
    Role { name: "helper", about: "Move artifacts of a step, inside its pod", main: helper },
];

#[cfg(feature = "remote-artifacts")]
fn helper(arguments: Vec<OsString>) -> ExitCode {
    use orlop_cloud::porter;
    porter::main(arguments.into_iter().skip(1), &porter::Environment::of_process())
}

/// Runs the program `orlop`. To be called before any thread is started: the supervisor of processes must be the only one.
#[must_use]
pub fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|argument| argument == cli::SHIM) {
        return orlop_cloud::runtime::process::shim::main();
    }
    #[cfg(all(feature = "fleet", target_os = "linux"))]
    if let Some(code) = crate::host::worker::roles::play() {
        return code;
    }
    match asked(std::env::args_os().collect()) {
        Some((role, arguments)) => (role.main)(arguments),
        None => cli::main(),
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

/// The command line with the roles of this build in its help.
pub(crate) fn listed(command: Command) -> Command {
    ROLES.iter().fold(command, |command, role| {
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

    #[cfg(feature = "fleet")]
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
