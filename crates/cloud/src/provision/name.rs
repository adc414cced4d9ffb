//! Names of servers that follow from what was asked for. Owns their form: the same command
//! finds the same deployment.

use super::mark::base32;

/// The longest name of a server.
const MAX: usize = 63;
/// Characters of the key in a name.
const KEY: usize = 6;

/// What a name follows from.
#[derive(Debug, Clone, Copy)]
pub struct Named<'a> {
    /// The last part of the repository's path, in letters, digits and `-`.
    pub short: &'a str,
    /// The repository in one spelling.
    pub repository: &'a str,
    /// Branch, tag or commit.
    pub reference: &'a str,
    /// The folder within.
    pub subdir: &'a str,
    /// The project.
    pub project: &'a str,
    /// Sites in their order.
    pub sites: &'a [String],
}

/// A text that is no name of a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a valid server name: use at most 63 of a-z, 0-9 and `-`, not starting or ending with `-`")]
pub struct BadName(String);

/// The name of a server, `orlop-<repo>-<key>`.
#[must_use]
pub fn server_name(named: &Named<'_>) -> String {
    let sites = named.sites.join(",");
    let key = base32(&[named.repository, named.reference, named.subdir, named.project, &sites], KEY);
    let short: String = named.short.chars().take(MAX - "orlop--".len() - KEY).collect();
    format!("orlop-{}-{key}", short.trim_matches('-'))
}

/// The name with a counter, for another server of the same command.
#[must_use]
pub fn counted(name: &str, number: u32) -> String {
    let suffix = format!("-{number}");
    let front: String = name.chars().take(MAX - suffix.len()).collect();
    format!("{}{suffix}", front.trim_end_matches('-'))
}

/// Checks a name that was given.
///
/// # Errors
/// It holds something else than small letters, digits and `-`, or is too long.
pub fn check_server_name(name: &str) -> Result<(), BadName> {
    let plain = |ch: char| ch.is_ascii_lowercase() || ch.is_ascii_digit() || ch == '-';
    let is_good = !name.is_empty()
        && name.len() <= MAX
        && name.chars().all(plain)
        && !name.starts_with('-')
        && !name.ends_with('-');
    if is_good { Ok(()) } else { Err(BadName(name.chars().take(80).collect())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_command_has_the_same_name_and_another_has_not() {
        let sites = vec!["uc".to_owned()];
        let named = Named {
            short: "demo",
            repository: "https://example.org/demo",
            reference: "HEAD",
            subdir: "",
            project: "p",
            sites: &sites,
        };
        let name = server_name(&named);
        assert_eq!(name, server_name(&named));
        assert!(name.starts_with("orlop-demo-") && name.len() == "orlop-demo-".len() + 6, "{name}");
        assert!(check_server_name(&name).is_ok());
        let two = vec!["uc".to_owned(), "tacc".to_owned()];
        for other in [
            Named { reference: "v1", ..named },
            Named { subdir: "x", ..named },
            Named { project: "q", ..named },
            Named { sites: &two, ..named },
            Named { repository: "https://example.org/other", ..named },
        ] {
            assert_ne!(name, server_name(&other));
        }
        let long = "x".repeat(200);
        assert_eq!(server_name(&Named { short: &long, ..named }).len(), 63);
        assert_eq!(counted(&server_name(&Named { short: &long, ..named }), 12).len(), 63);
        assert_eq!(counted("orlop-demo-abc", 2), "orlop-demo-abc-2");
    }

    #[test]
    fn names_of_servers_are_small_letters_digits_and_dashes() {
        for bad in ["", "A", "a_b", "-a", "a-", "a b", &"a".repeat(64), "a/../b"] {
            assert!(check_server_name(bad).is_err(), "{bad}");
        }
        assert!(check_server_name(&"a".repeat(63)).is_ok());
    }
}
