//! A machine that joins a fleet by itself. Owns what is said of it and the rules of
//! addresses, digests and labels; the secret with which it joins is no part of any of these.

#[cfg(feature = "openstack")]
mod boot;
#[cfg(feature = "openstack")]
#[cfg(test)]
mod tests;
mod unit;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use url::Url;

#[cfg(feature = "openstack")]
pub use boot::{MAX_USER_DATA, Token, fits, user_data};
pub use unit::unit;

use super::mark::DeploymentId;
use super::order::Choice;
use crate::private_url::is_here;

/// Characters of an address.
const MAX_ADDRESS: usize = 2048;
/// Characters of a label's value.
const MAX_LABEL: usize = 63;

/// The label by which a worker's deployment is known.
pub const DEPLOYMENT: &str = "deployment";
/// The labels that a worker brings beside it, where its hardware has them.
pub const LABELS: [&str; 4] = ["site", "node-type", "gpu-model", "gpu-count"];

/// Something that does not stand for what it should.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadJoin {
    /// An address that may not be used.
    #[error("`{text}` is not a usable address: {why}")]
    Address {
        /// What was given, shortened.
        text: String,
        /// Why.
        why: &'static str,
    },
    /// A text that is no SHA-256.
    #[error("`{0}` is not a SHA-256 digest: expected 64 hexadecimal digits")]
    Digest(String),
}

/// The address of a server: https, or http on the machine itself. Kept as it was given, for a port that is left out means
/// another one to each program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Address(String);

impl Address {
    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// `https` or `http`.
    #[must_use]
    pub fn scheme(&self) -> &str {
        self.0.split_once(':').map_or("", |(scheme, _)| scheme)
    }

    /// The same without path, as a server has it.
    fn is_bare(&self) -> bool {
        let rest = self.0.split_once("://").map_or("", |(_, rest)| rest);
        !rest.trim_end_matches('/').contains(['/', '?', ','])
    }
}

impl FromStr for Address {
    type Err = BadJoin;

    fn from_str(text: &str) -> Result<Self, BadJoin> {
        let wrong = |why| BadJoin::Address { text: text.chars().take(80).filter(|ch| !ch.is_control()).collect(), why };
        // What a URL is written with, and nothing that a shell, a unit or a document would read otherwise.
        let plain = |ch: char| ch.is_ascii_alphanumeric() || "-._~:/?[]@!&'()*+,;=%".contains(ch);
        if text.is_empty() || text.len() > MAX_ADDRESS || !text.chars().all(plain) {
            return Err(wrong("use only the characters of an address"));
        }
        let url = Url::parse(text).map_err(|_| wrong("use https://HOST"))?;
        if !url.has_host() {
            return Err(wrong("it names no host"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong("leave user and password out"));
        }
        match url.scheme() {
            "https" => {}
            "http" if is_here(&url) => {}
            "http" => return Err(wrong("http is for the machine itself only; use https")),
            _ => return Err(wrong("use https")),
        }
        if !text.starts_with(url.scheme()) {
            return Err(wrong("write https in small letters"));
        }
        Ok(Self(text.to_owned()))
    }
}

impl TryFrom<String> for Address {
    type Error = BadJoin;

    fn try_from(text: String) -> Result<Self, BadJoin> {
        text.parse()
    }
}

impl From<Address> for String {
    fn from(address: Address) -> Self {
        address.0
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A SHA-256 in small hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(String);

impl Digest {
    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Digest {
    type Err = BadJoin;

    fn from_str(text: &str) -> Result<Self, BadJoin> {
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(BadJoin::Digest(text.chars().take(80).filter(|ch| !ch.is_control()).collect()));
        }
        Ok(Self(text.to_ascii_lowercase()))
    }
}

impl TryFrom<String> for Digest {
    type Error = BadJoin;

    fn try_from(text: String) -> Result<Self, BadJoin> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.0
    }
}

/// Which fleet a machine joins, and the program with which it does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Join {
    /// The fleet's server, as its workers reach it.
    pub server: Address,
    /// Where the program of a worker is downloaded from.
    pub worker_url: Address,
    /// What is downloaded has to have this.
    pub worker_sha256: Digest,
}

impl Join {
    /// What is said of a machine that joins.
    ///
    /// # Errors
    /// The server's address has more than host and port.
    pub fn new(server: Address, worker_url: Address, worker_sha256: Digest) -> Result<Self, BadJoin> {
        if !server.is_bare() {
            return Err(BadJoin::Address { text: server.0, why: "a server has host and port only" });
        }
        Ok(Self { server, worker_url, worker_sha256 })
    }
}

/// A [`Join`] that is carried out: with the place of the token, which is read when a server is made and stands nowhere else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinOrder {
    /// Which fleet, with which program.
    #[serde(flatten)]
    pub join: Join,
    /// The file of the token on this machine.
    pub token_file: String,
}

/// What a server does first to join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Boot {
    /// Which fleet, with which program and token.
    pub order: JoinOrder,
    /// What the worker says of itself.
    pub labels: BTreeMap<String, String>,
    /// What the user wants it to do besides, in base64.
    pub own: Option<String>,
}

/// A text as a label's value.
fn label(text: &str) -> String {
    let plain = |ch: char| if ch.is_ascii_alphanumeric() || "-._".contains(ch) { ch } else { '-' };
    text.chars().map(plain).take(MAX_LABEL).collect()
}

/// What a worker says of itself: its deployment, and what was leased for it.
#[must_use]
pub fn labels(id: &DeploymentId, choice: &Choice) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::from([(DEPLOYMENT.to_owned(), id.to_string())]);
    let gpus = choice.expects.map(|expects| expects.gpus).filter(|gpus| *gpus > 0);
    let values = [
        Some(label(&choice.site)),
        Some(label(&choice.node_type)),
        choice.gpu_model.as_deref().map(label).filter(|_| gpus.is_some()),
        gpus.map(|gpus| gpus.to_string()),
    ];
    for (key, value) in LABELS.into_iter().zip(values) {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            labels.insert(key.to_owned(), value);
        }
    }
    labels
}

/// The command that makes a token with which one machine joins: for this deployment, and for so many minutes.
#[must_use]
pub fn token_command(id: &DeploymentId, minutes: u64) -> String {
    let more: String = LABELS.iter().map(|key| format!(" --label {key}")).collect();
    format!("orlop workers token create --uses 1 --ttl {minutes}m --label {DEPLOYMENT}={id}{more} --write join.token")
}
