//! Checks that hold for every command of every program: exit codes in the help, values in any case.

use clap::Command;
use orlop_cloud::exit::{Exit, TABLE};

/// The commands of all programs of this build.
fn programs() -> Vec<Command> {
    vec![
        crate::cli::command(),
        #[cfg(feature = "kube")]
        crate::host::operator::program::command(),
        #[cfg(feature = "provisioner")]
        crate::host::provisioner::program::command(),
        #[cfg(feature = "fleet")]
        crate::host::scheduler::program::command(),
        #[cfg(all(feature = "fleet", target_os = "linux"))]
        crate::host::worker::program::command(),
    ]
}

/// Calls for a command and all below it, with the words that lead there.
fn walk(command: &mut Command, before: &str, visit: &mut dyn FnMut(&mut Command, &str)) {
    let path = format!("{before} {}", command.get_name());
    visit(command, &path);
    for below in command.get_subcommands_mut() {
        walk(below, &path, visit);
    }
}

/// The numbers that a text calls exit codes.
fn codes(text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let named = words.windows(3).filter(|three| three[0].ends_with("exit") && three[1].starts_with("code"));
    let plain = |word: &str| word.trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned();
    named.map(|three| plain(three[2])).filter(|word| word.starts_with(|c: char| c.is_ascii_digit())).collect()
}

#[test]
fn help_names_only_exit_codes_of_the_table() {
    let known: Vec<String> = Exit::ALL.iter().map(|(exit, _)| exit.code().to_string()).collect();
    let mut seen = 0;
    for mut program in programs() {
        assert!(program.render_long_help().to_string().contains(TABLE), "{} shows the table", program.get_name());
        walk(&mut program, "", &mut |command, path| {
            let help = command.render_long_help().to_string();
            let rest = help.replace(TABLE, "");
            assert!(!rest.contains("Exit code"), "{path} has a table of its own:\n{rest}");
            for code in codes(&rest) {
                assert!(known.contains(&code), "{path} names exit code {code}");
                seen += 1;
            }
        });
    }
    assert!(seen >= 3, "some options say with which code they end: {seen}");
}

#[test]
fn every_argument_with_possible_values_takes_them_in_any_case() {
    let mut seen = 0;
    for mut program in programs() {
        walk(&mut program, "", &mut |command, path| {
            let with_values = |argument: &&clap::Arg| {
                argument.get_action().takes_values() && !argument.get_possible_values().is_empty()
            };
            for argument in command.get_arguments().filter(with_values) {
                assert!(argument.is_ignore_case_set(), "{path}: {} wants an exact case", argument.get_id());
                seen += 1;
            }
        });
    }
    assert!(seen > 20, "there are arguments with possible values: {seen}");
}

#[test]
fn values_are_accepted_as_they_are_written_in_objects_and_in_capitals() {
    let accepted = |words: &[&str]| {
        let program =
            programs().into_iter().find(|program| program.get_name() == words[0]).expect("it is in this build");
        program.try_get_matches_from(words).map(drop).map_err(|error| error.to_string())
    };
    for words in [
        &["orlop", "run", "flow.yaml", "-o", "JSON", "--progress", "None"][..],
        &["orlop", "flow", "list", "-o", "Name", "--phase", "running"],
        &["orlop", "flow", "graph", "flow.yaml", "-o", "Mermaid"],
        &["orlop", "flow", "suspend", "x", "--mode", "Drain"],
        &["orlop", "completions", "Bash"],
        #[cfg(feature = "fleet")]
        &["orlop", "submit", "--gpus", "NVIDIA:1", "--", "true"],
        #[cfg(feature = "kube")]
        &["orlop-operator", "--leader-elect=False", "--log-format", "TEXT", "--controllers", "JobFlow,Performer"],
        #[cfg(feature = "provisioner")]
        &["orlop-provisioner", "plan", "--repo", ".", "--kind", "VM", "--gpu-vendor", "NVIDIA", "--os", "Ubuntu:24.04"],
        #[cfg(all(feature = "fleet", target_os = "linux"))]
        &["orlop-worker", "--enforce", "Require"],
    ] {
        assert_eq!(accepted(words), Ok(()), "{words:?}");
    }
}
