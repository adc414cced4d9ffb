//! The one program in its roles: by its first argument, as units and images start it, and by the name of a link.

use std::process::Command;

/// The program.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_orlop");

/// The program without settings of the user who runs the tests: neither variables nor the profile in use.
pub(crate) fn program() -> Command {
    let mut command = Command::new(PROGRAM);
    for (variable, _) in std::env::vars_os() {
        if variable.to_string_lossy().starts_with("ORLOP_") {
            command.env_remove(variable);
        }
    }
    command.env("ORLOP_PROFILE", "");
    command
}

/// The program in a role, such as `worker`.
pub(crate) fn command(role: &str) -> Command {
    let mut command = program();
    command.arg(role);
    command
}

#[test]
fn a_link_named_after_a_role_plays_it() {
    let folder = tempfile::tempdir().unwrap();
    for role in ["operator", "provisioner", "scheduler", "worker"] {
        let link = folder.path().join(format!("orlop-{role}"));
        std::os::unix::fs::symlink(PROGRAM, &link).unwrap();
        for argument in ["--help", "--version"] {
            let [by_name, by_verb] = [Command::new(&link), command(role)].map(|mut command| {
                let output = command.arg(argument).output().unwrap();
                assert_eq!(output.status.code(), Some(0), "{role} {argument}: {output:?}");
                String::from_utf8(output.stdout).unwrap()
            });
            assert_eq!(by_name.lines().count(), by_verb.lines().count(), "{role} {argument}");
            assert!(
                by_name.contains(&format!("orlop-{role}")) || by_name.contains(&format!("orlop {role}")),
                "{by_name}"
            );
        }
    }
}
