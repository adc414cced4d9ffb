//! Verbs that this build lacks because a feature was left out: help lists them, and using one says how to get it.

use clap::{Arg, ArgAction, Command};

use super::failure::Failure;

/// Verbs that need more than the feature `cli`.
struct Part {
    verbs: &'static [&'static str],
    /// The features they need, separated by commas.
    features: &'static str,
    /// Whether this build has them.
    here: bool,
}

const PARTS: [Part; 4] = [
    Part {
        verbs: &[
            "up",
            "submit",
            "jobs",
            "job",
            "logs",
            "cancel",
            "workers",
            "drain",
            "quota",
            "artifacts",
            "secret",
            "top",
            "health",
            "scheduler",
            "worker",
        ],
        features: "fleet",
        here: cfg!(feature = "fleet"),
    },
    Part {
        verbs: &["hardware"],
        features: "kube,provisioner",
        here: cfg!(all(feature = "kube", feature = "provisioner")),
    },
    Part { verbs: &["operator"], features: "kube", here: cfg!(feature = "kube") },
    Part { verbs: &["provisioner"], features: "provisioner", here: cfg!(feature = "provisioner") },
];

/// The features that a verb needs and this build lacks.
pub(super) fn features_of(verb: &str) -> Option<&'static str> {
    missing(&PARTS).find(|part| part.verbs.contains(&verb)).map(|part| part.features)
}

/// Something that was asked for and needs features that this build lacks.
pub(super) fn lacking(what: &str, features: &str) -> Failure {
    Failure::usage(format!(
        "{what} is not in this build: it needs the feature `{features}`; build it with \
         `cargo install --path crates/bins --features {features}`"
    ))
}

/// The command line with the verbs that are not in this build, so that they differ from mistyped ones.
pub(super) fn listed(command: Command) -> Command {
    listed_of(&PARTS, command)
}

fn missing(parts: &[Part]) -> impl Iterator<Item = &Part> {
    parts.iter().filter(|part| !part.here)
}

fn listed_of(parts: &[Part], mut command: Command) -> Command {
    let mut list = String::new();
    for part in missing(parts) {
        list.push_str(&format!("\n  {}: {}", part.features, part.verbs.join(", ")));
        for verb in part.verbs {
            let rest = Arg::new("rest").num_args(0..).trailing_var_arg(true).allow_hyphen_values(true);
            let verb = Command::new(*verb).hide(true).disable_help_flag(true).disable_version_flag(true);
            command = command.subcommand(verb.arg(rest.action(ArgAction::Append)));
        }
    }
    if list.is_empty() {
        return command;
    }
    let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let how = "`cargo install --path crates/bins --features full` builds all";
    command.after_help(format!("Not in this build, by feature ({how}):{list}\n\n{examples}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAN: [Part; 2] = [
        Part { verbs: &["up", "submit"], features: "fleet", here: false },
        Part { verbs: &["operator"], features: "kube", here: true },
    ];

    fn command() -> Command {
        listed_of(&LEAN, Command::new("orlop").subcommand(Command::new("run")).after_help("Examples:"))
    }

    #[test]
    fn help_lists_verbs_that_are_not_in_this_build_with_their_feature() {
        let help = command().render_help().to_string();
        let wanted = "Not in this build, by feature (`cargo install --path crates/bins --features full` builds all):\n  \
                      fleet: up, submit\n\nExamples:";
        assert!(help.contains(wanted), "{help}");
        assert!(!help.contains("operator"), "{help}");
    }

    #[test]
    fn a_verb_that_is_not_in_this_build_is_recognised_with_any_arguments() {
        for arguments in [&["orlop", "submit"] as &[_], &["orlop", "submit", "--cpu", "1", "--help", "--", "true"]] {
            let matches = command().try_get_matches_from(arguments).unwrap();
            assert_eq!(matches.subcommand_name(), Some("submit"));
        }
        assert!(command().try_get_matches_from(["orlop", "submitt"]).is_err());
    }

    #[test]
    fn the_message_names_the_feature_and_the_command_that_builds_it() {
        let failure = lacking("`orlop submit`", "fleet");
        insta::assert_snapshot!(failure, @"`orlop submit` is not in this build: it needs the feature `fleet`; build it with `cargo install --path crates/bins --features fleet`");
    }
}
