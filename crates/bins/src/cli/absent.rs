//! Verbs that this build lacks because a feature was left out: help lists them, and using one says how to get it.

use clap::{Arg, ArgAction, Command};

use super::failure::Failure;

/// Verbs that need more than the feature `cli`, the features they need, and whether this build has them.
const VERBS: [(&[&str], &str, bool); 4] = [
    (
        &[
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
        "fleet",
        cfg!(feature = "fleet"),
    ),
    (&["hardware"], "kube,provisioner", cfg!(all(feature = "kube", feature = "provisioner"))),
    (&["operator"], "kube", cfg!(feature = "kube")),
    (&["provisioner"], "provisioner", cfg!(feature = "provisioner")),
];

/// The features that a verb needs and this build lacks.
pub(super) fn feature_of(verb: &str) -> Option<&'static str> {
    let absent = VERBS.iter().filter(|(_, _, here)| !here);
    absent.clone().find(|(verbs, ..)| verbs.contains(&verb)).map(|(_, feature, _)| *feature)
}

/// Something that was asked for and needs a feature that this build lacks.
pub(super) fn lacking(what: &str, feature: &str) -> Failure {
    Failure::usage(format!(
        "{what} is not in this build: it needs the feature `{feature}`; build it with \
         `cargo install --path crates/bins --features {feature}`"
    ))
}

/// The command line with the verbs that are not here, so that they are told from mistyped ones.
pub(super) fn listed(mut command: Command) -> Command {
    let mut list = String::new();
    for (verbs, feature, _) in VERBS.iter().filter(|(_, _, here)| !here) {
        list.push_str(&format!("\n  {feature}: {}", verbs.join(", ")));
        for verb in *verbs {
            let rest = Arg::new("rest")
                .num_args(0..)
                .trailing_var_arg(true)
                .allow_hyphen_values(true)
                .action(ArgAction::Append);
            command = command.subcommand(Command::new(*verb).hide(true).disable_help_flag(true).arg(rest));
        }
    }
    if list.is_empty() {
        return command;
    }
    let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let how = "`cargo install --path crates/bins --features full` builds all";
    command.after_help(format!("Not in this build, by feature ({how}):{list}\n\n{examples}"))
}
