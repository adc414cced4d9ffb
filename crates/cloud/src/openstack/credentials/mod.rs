//! What one signs in with. Owns the settings by name, their sources and what
//! they come to; reads no file and no environment by itself, and no secret of it is ever printed.

mod assign;
mod clouds;
#[cfg(feature = "openstack")]
mod federation;
#[cfg(feature = "openstack")]
mod resolve;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

pub use assign::{Assignments, read_assignments};
pub use clouds::{cloud_names, read_clouds, read_profile, read_secure};
#[cfg(feature = "openstack")]
pub use federation::{Federation, Grant};
#[cfg(feature = "openstack")]
pub use resolve::{Credentials, Method, Project, Who, resolve};

/// Bytes of a file of settings that are read.
pub const MAX_FILE: usize = 1 << 20;

/// Settings of a cloud by the names that the environment has for them, such as `OS_AUTH_URL`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Settings {
    values: BTreeMap<String, String>,
    /// The address to sign in as an entry of a file of clouds names it.
    entry_url: Option<String>,
    /// What such an entry has that is not used.
    ignored: Vec<String>,
    /// The profile that such an entry takes the rest from, as long as it was not found.
    profile: Option<String>,
}

impl Settings {
    /// The settings among some variables: those that begin with `OS_` and are not empty.
    pub fn of<K: Into<String>, V: Into<String>>(variables: impl IntoIterator<Item = (K, V)>) -> Self {
        let own = variables.into_iter().map(|(key, value)| (key.into(), value.into()));
        let values =
            own.filter(|(key, value): &(String, String)| key.starts_with("OS_") && !value.is_empty()).collect();
        Self { values, ..Self::default() }
    }

    /// The value of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// Sets a value that wins over what was there.
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        self.values.insert(name.to_owned(), value.into());
    }

    /// Takes from `weaker` what is not set here.
    ///
    /// What says who one is stays together: when this has a way to sign in of its own, nothing of another's is mixed in.
    #[must_use]
    pub fn over(self, weaker: &Self) -> Self {
        let own_way = self.values.keys().any(|key| IDENTITY.contains(&key.as_str()));
        self.filled(weaker, |key| !own_way || !IDENTITY.contains(&key))
    }

    /// Takes from another half of the same entry what is not set here.
    #[must_use]
    pub fn merged(self, other: &Self) -> Self {
        self.filled(other, |_| true)
    }

    fn filled(mut self, other: &Self, takes: impl Fn(&str) -> bool) -> Self {
        for (key, value) in other.values.iter().filter(|(key, _)| takes(key)) {
            self.values.entry(key.clone()).or_insert_with(|| value.clone());
        }
        self.entry_url = self.entry_url.or_else(|| other.entry_url.clone());
        self.profile = self.profile.or_else(|| other.profile.clone());
        self.ignored.extend(other.ignored.iter().cloned());
        self
    }

    /// What an entry of a file of clouds has that is not used, a sentence each.
    #[must_use]
    pub fn ignored(&self) -> &[String] {
        &self.ignored
    }

    /// The profile that an entry of a file of clouds takes the rest from, as long as nobody gave it.
    #[must_use]
    pub fn profile(&self) -> Option<&str> {
        self.profile.as_deref()
    }

    /// Takes from the profile that this names what is not set here.
    #[must_use]
    pub fn with_profile(mut self, profile: &Self) -> Self {
        self.profile = None;
        self.merged(profile)
    }

    /// Whether nothing is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

/// The host of an address, in lower case; nothing if it has none.
#[must_use]
pub fn host_of(address: &str) -> Option<String> {
    url::Url::parse(address).ok()?.host_str().map(str::to_ascii_lowercase)
}

/// Names that say who one is and how one proves it, without the password, which may be asked for.
const IDENTITY: [&str; 9] = [
    "OS_ACCESS_TOKEN",
    "OS_APPLICATION_CREDENTIAL_ID",
    "OS_APPLICATION_CREDENTIAL_NAME",
    "OS_APPLICATION_CREDENTIAL_SECRET",
    "OS_AUTH_TYPE",
    "OS_TOKEN",
    "OS_USERNAME",
    "OS_USER_ID",
    "OS_PASSWORD",
];

impl fmt::Debug for Settings {
    /// Names only.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.values.keys()).finish()
    }
}

/// Why settings do not do. Never holds a value that may be secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialsError {
    /// A file that is not what it should be.
    #[error("{file}{} is not a valid clouds.yaml file: {what}", line.map_or(String::new(), |line| format!(", line {line},")))]
    File {
        /// Which.
        file: String,
        /// Where, from 1.
        line: Option<u64>,
        /// What is wrong.
        what: String,
    },
    /// No cloud of this name.
    #[error("cloud `{name}` is not in {file}; there are: {known}")]
    UnknownCloud {
        /// As given.
        name: String,
        /// Which file.
        file: String,
        /// Those that there are.
        known: String,
    },
    /// Something is missing.
    #[error("{what} is missing; set {names}, or choose a cloud of clouds.yaml with --cloud")]
    Missing {
        /// What.
        what: &'static str,
        /// Names that give it.
        names: &'static str,
    },
    /// A way to sign in that is not known here.
    #[error(
        "signing in by `{kind}` is not possible; use password, v3applicationcredential, token, v3oidcpassword or v3oidcaccesstoken"
    )]
    UnknownType {
        /// As given.
        kind: String,
    },
    /// A name that cannot be one of an identity provider.
    #[error("{name} is not a valid name of an identity provider or protocol: use letters, digits and -_.@, at most 64")]
    Name {
        /// Which setting has it.
        name: &'static str,
    },
    /// An address that is none, or one over which secrets would be readable.
    #[error("the address in {name} is not usable: {why}")]
    Address {
        /// Which setting has it.
        name: &'static str,
        /// Why.
        why: &'static str,
    },
}
