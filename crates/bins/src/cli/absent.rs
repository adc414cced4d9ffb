//! Verbs that this build lacks because a feature was left out: help lists them, and using one says how to get it.

use std::collections::BTreeMap;

use clap::{Arg, ArgAction, Command};

use crate::{features, program};

/// Verbs of the command line that need more than its own feature: the features, whether this build has them, and the verbs.
const VERBS: [(&str, bool, &[&str]); 2] = [
    (
        "fleet",
        cfg!(feature = "fleet"),
        &[
            "up",
            "ui",
            "submit",
            "jobs",
            "elements",
            "wait",
            "job",
            "logs",
            "cancel",
            "workers",
            "drain",
            "quota",
            "artifacts",
            "secret",
            "token",
            "top",
            "health",
        ],
    ),
    ("kube,provisioner", cfg!(all(feature = "kube", feature = "provisioner")), &["hardware"]),
];

/// What verbs of every build can do only with a feature.
const MORE: [(&str, bool, &str); 3] = [
    ("docker", cfg!(feature = "docker"), "`--target docker`, steps with an image"),
    ("fleet", cfg!(feature = "fleet"), "`--target fleet`"),
    ("kube", cfg!(feature = "kube"), "`--target kube`"),
];

/// Verbs that this build lacks, with the features they need.
fn absent() -> impl Iterator<Item = (&'static str, &'static str)> {
    let missing = VERBS.iter().filter(|(_, here, _)| !here);
    let verbs = missing.flat_map(|(features, _, verbs)| verbs.iter().map(|verb| (*verb, *features)));
    verbs.chain(program::absent())
}

/// What to say where the arguments of a program ask for a verb that this build lacks, or for its help.
pub(super) fn refusal(mut arguments: impl Iterator<Item = String>) -> Option<String> {
    refusal_of(absent(), arguments.nth(1)?, arguments.next())
}

fn refusal_of(
    mut absent: impl Iterator<Item = (&'static str, &'static str)>,
    first: String,
    second: Option<String>,
) -> Option<String> {
    let asked = if first == "help" { second? } else { first };
    let (verb, needed) = absent.find(|(verb, _)| *verb == asked)?;
    Some(features::lacking(&format!("`orlop {verb}`"), needed))
}

/// The command line with the verbs that are not in this build, so that they differ from mistyped ones.
pub(super) fn listed(command: Command) -> Command {
    let more = MORE.iter().filter(|(_, here, _)| !here).map(|(needed, _, what)| (*needed, *what));
    listed_of(absent(), more, command)
}

fn listed_of(
    absent: impl Iterator<Item = (&'static str, &'static str)>,
    more: impl Iterator<Item = (&'static str, &'static str)>,
    mut command: Command,
) -> Command {
    let mut by_feature = BTreeMap::<_, Vec<_>>::new();
    for (verb, needed) in absent {
        by_feature.entry(needed).or_default().push(verb);
        let rest = Arg::new("rest").num_args(0..).trailing_var_arg(true).allow_hyphen_values(true);
        let verb = Command::new(verb).hide(true).disable_help_flag(true).disable_version_flag(true);
        command = command.subcommand(verb.arg(rest.action(ArgAction::Append)));
    }
    for (needed, what) in more {
        by_feature.entry(needed).or_default().push(what);
    }
    if by_feature.is_empty() {
        return command;
    }
    let list = by_feature.iter().map(|(needed, verbs)| format!("\n  {needed}: {}", verbs.join(", ")));
    let list = list.collect::<String>();
    let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let how = "`cargo install --path crates/bins --features full` builds all";
    command.after_help(format!("Not in this build, by feature ({how}):{list}\n\n{examples}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn lean() -> impl Iterator<Item = (&'static str, &'static str)> {
        [("up", "fleet"), ("operator", "kube"), ("submit", "fleet")].into_iter()
    }

    #[test]
    fn help_lists_verbs_that_are_not_in_this_build_with_their_feature() {
        let command = Command::new("orlop").subcommand(Command::new("run")).after_help("Examples:");
        let more = [("docker", "`--target docker`"), ("fleet", "`--target fleet`")].into_iter();
        let help = listed_of(lean(), more, command).render_help().to_string();
        let wanted = "Not in this build, by feature (`cargo install --path crates/bins --features full` builds all):\n  \
                      docker: `--target docker`\n  fleet: up, submit, `--target fleet`\n  kube: operator\n\nExamples:";
        assert!(help.contains(wanted), "{help}");
    }

    #[test]
    fn a_verb_that_is_not_in_this_build_is_distinguished_from_a_mistyped_one() {
        let refused = |first: &str, second: Option<&str>| {
            refusal_of(lean(), first.to_owned(), second.map(str::to_owned)).is_some_and(|text| text.contains("`fleet`"))
        };
        assert!(refused("submit", None) && refused("submit", Some("--help")) && refused("help", Some("submit")));
        assert!(!refused("submitt", None) && !refused("help", None) && !refused("run", Some("submit")));
    }

    #[cfg(feature = "fleet")]
    #[test]
    fn every_verb_of_a_fleet_is_known_to_builds_without_it() {
        use clap::Subcommand as _;
        let fleet = super::super::fleet::Fleet::augment_subcommands(Command::new("orlop"));
        let verbs = fleet.get_subcommands().map(Command::get_name).collect::<BTreeSet<_>>();
        assert_eq!(verbs, VERBS[0].2.iter().copied().collect());
    }
}
