//! The Cargo features of this build, and what is said where one is missing.

/// What a user may ask for beyond the default features, and whether this build has it.
const OPTIONAL: &[(&str, bool)] = &[
    ("docker", cfg!(feature = "docker")),
    ("fleet", cfg!(feature = "fleet")),
    ("kube", cfg!(feature = "kube")),
    ("nats", cfg!(feature = "nats")),
    ("otel", cfg!(feature = "otel")),
    ("postgres", cfg!(feature = "postgres")),
    ("provisioner", cfg!(feature = "provisioner")),
    ("remote-artifacts", cfg!(feature = "remote-artifacts")),
];

/// One sentence: `what` needs features that this build lacks, separated by commas, and the command that builds it with them.
pub(crate) fn lacking(what: &str, features: &str) -> String {
    format!("{what} is not in this build: it needs the feature `{features}`; build it with `{}`", install(features))
}

/// The command that builds what is here, and further features.
pub(crate) fn install(features: &str) -> String {
    install_with(OPTIONAL, features)
}

fn install_with(optional: &[(&str, bool)], features: &str) -> String {
    let mut names = optional.iter().filter(|(_, here)| *here).map(|(name, _)| *name).collect::<Vec<_>>();
    names.extend(features.split(','));
    names.sort_unstable();
    names.dedup();
    format!("cargo install --path crates/bins --features {}", names.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_keeps_what_this_build_has() {
        let command = |here| install_with(&[("docker", here), ("fleet", false), ("kube", false)], "kube,fleet");
        assert_eq!(command(true), "cargo install --path crates/bins --features docker,fleet,kube");
        assert_eq!(command(false), "cargo install --path crates/bins --features fleet,kube");
    }

    #[test]
    fn the_sentence_names_what_is_missing_the_feature_and_the_command() {
        let sentence = lacking("`orlop submit`", "fleet");
        let start = "`orlop submit` is not in this build: it needs the feature `fleet`; build it with `cargo install --path \
                     crates/bins --features ";
        assert!(sentence.starts_with(start) && sentence.ends_with('`'), "{sentence}");
    }
}
