//! Marks that tie objects of a cloud to a deployment. Owns their spelling: every name, tag and
//! label follows from the deployment's id.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::openstack::port::{FloatingIp, SecurityGroup, Server};

const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// What the names of keypairs begin with that are made for a deployment.
const KEY_FRONT: &str = "orlop-k-";

/// The id of a deployment: ten characters of base32.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DeploymentId(String);

/// A text that is no id of a deployment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a deployment id: expected ten characters of a-z and 2-7")]
pub struct BadDeploymentId(String);

impl DeploymentId {
    /// The id of a server in a project, with a random part that the host gives.
    #[must_use]
    pub fn new(server: &str, project: &str, nonce: &str) -> Self {
        Self(base32(&[server, project, nonce], 10))
    }

    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its marks.
    #[must_use]
    pub fn marks(&self) -> Marks<'_> {
        Marks::of(&self.0)
    }
}

/// So many characters of base32 over a hash of parts.
#[must_use]
pub(crate) fn base32(parts: &[&str], length: usize) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part.as_bytes());
        hasher.update([0]);
    }
    let digest = hasher.finalize();
    let bit = |at: usize| digest.get(at / 8).map_or(0, |byte| usize::from(byte >> (7 - at % 8) & 1));
    let five = |index: usize| (0..5).fold(0, |value, offset| value << 1 | bit(index * 5 + offset));
    (0..length.min(51)).filter_map(|index| ALPHABET.get(five(index)).map(|byte| char::from(*byte))).collect()
}

impl fmt::Display for DeploymentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for DeploymentId {
    type Err = BadDeploymentId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.len() == 10 && text.bytes().all(|byte| ALPHABET.contains(&byte)) {
            return Ok(Self(text.to_owned()));
        }
        Err(BadDeploymentId(text.chars().take(32).collect()))
    }
}

impl TryFrom<String> for DeploymentId {
    type Error = BadDeploymentId;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<DeploymentId> for String {
    fn from(id: DeploymentId) -> Self {
        id.0
    }
}

/// The marks of a deployment.
#[derive(Debug, Clone, Copy)]
pub struct Marks<'a> {
    id: &'a str,
}

impl<'a> Marks<'a> {
    /// Those of an id.
    #[must_use]
    pub const fn of(id: &'a str) -> Self {
        Self { id }
    }

    /// The tag of its servers.
    #[must_use]
    pub fn tag(&self) -> String {
        format!("orlop-{}", self.id)
    }

    /// The tag of the servers of an attempt.
    #[must_use]
    pub fn attempt_tag(&self, attempt: u32) -> String {
        format!("orlop-{}-a{attempt}", self.id)
    }

    /// The labels of the servers of an attempt.
    #[must_use]
    pub fn labels(&self, attempt: u32) -> BTreeMap<&'static str, String> {
        BTreeMap::from([("orlop_deployment", self.id.to_owned()), ("orlop_attempt", attempt.to_string())])
    }

    /// What ends the name of the lease of an attempt.
    #[must_use]
    pub fn lease_suffix(&self, attempt: u32) -> String {
        format!("-{}-a{attempt}", self.id)
    }

    /// The attempt of a lease by its name; nothing if it is another deployment's.
    #[must_use]
    pub fn lease_attempt(&self, name: &str) -> Option<u32> {
        let (front, attempt) = name.rsplit_once("-a")?;
        let rest = front.strip_suffix(self.id)?;
        (rest.is_empty() || rest.ends_with('-')).then(|| attempt.parse().ok()).flatten()
    }

    /// The words of a floating IP of an attempt.
    #[must_use]
    pub fn address(&self, attempt: u32) -> String {
        format!("orlop:{}:a{attempt}", self.id)
    }

    /// The words of its security group.
    #[must_use]
    pub fn group(&self) -> String {
        format!("orlop:{}", self.id)
    }

    /// The name of its security group.
    #[must_use]
    pub fn group_name(&self) -> String {
        format!("orlop-sg-{}", self.id)
    }

    /// The name of a keypair made for it.
    #[must_use]
    pub fn key_name(&self) -> String {
        format!("{KEY_FRONT}{}", self.id)
    }

    /// The attempt of a server of this deployment; nothing if it is another's.
    #[must_use]
    pub fn server_attempt(&self, server: &Server) -> Option<u32> {
        let labelled = server.metadata.get("orlop_deployment").is_some_and(|id| id == self.id);
        if labelled && let Some(attempt) = server.metadata.get("orlop_attempt") {
            return attempt.parse().ok().or(Some(0));
        }
        if !labelled && !server.tags.contains(&self.tag()) {
            return None;
        }
        let front = format!("{}-a", self.tag());
        server.tags.iter().find_map(|tag| tag.strip_prefix(&front)?.parse().ok()).or(Some(0))
    }

    /// Whether a server is this deployment's.
    #[must_use]
    pub fn owns_server(&self, server: &Server) -> bool {
        self.server_attempt(server).is_some()
    }

    /// The attempt of a floating IP of this deployment. One that belongs to a reservation is never ours.
    #[must_use]
    pub fn address_attempt(&self, address: &FloatingIp) -> Option<u32> {
        if address.tags.iter().any(|tag| tag.starts_with("reservation:")) {
            return None;
        }
        address.description.strip_prefix(&format!("orlop:{}:a", self.id))?.parse().ok()
    }

    /// Whether a security group is this deployment's.
    #[must_use]
    pub fn owns_group(&self, group: &SecurityGroup) -> bool {
        group.description == self.group()
    }
}

/// The deployment for which a keypair of this name was made; nothing for keys that have a name of their user.
#[must_use]
pub fn deployment_of_key(name: &str) -> Option<DeploymentId> {
    name.strip_prefix(KEY_FRONT)?.parse().ok()
}

/// The deployment that words, a tag or a label name; for objects whose journal is lost.
#[must_use]
pub fn deployment_of(mark: &str) -> Option<DeploymentId> {
    let rest = mark.strip_prefix("orlop:").or_else(|| mark.strip_prefix("orlop-")).unwrap_or(mark);
    rest.split([':', '-']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_follows_from_the_id() {
        let id = DeploymentId::new("orlop-demo", "P", "nonce");
        assert_eq!(id.as_str().len(), 10);
        assert_eq!(id, id.as_str().parse().unwrap());
        assert_ne!(id, DeploymentId::new("orlop-demo", "P", "other"));
        assert!("ABCDEFGHIJ".parse::<DeploymentId>().is_err() && "short".parse::<DeploymentId>().is_err());
        let marks = Marks::of("k4x7q2mzwa");
        assert_eq!(marks.lease_attempt("orlop-demo-r5tq2e-k4x7q2mzwa-a12"), Some(12));
        for other in
            ["orlop-demo-xk4x7q2mzwa-a1", "k4x7q2mzwa", "k4x7q2mzwb-a1", "x-k4x7q2mzwa-aa", "x-k4x7q2mzwa-a1-a"]
        {
            assert_eq!(marks.lease_attempt(other), None, "{other}");
        }
        for mark in ["orlop:k4x7q2mzwa:a1", "orlop-k4x7q2mzwa", "orlop-k4x7q2mzwa-a3", "k4x7q2mzwa"] {
            assert_eq!(deployment_of(mark).unwrap().as_str(), "k4x7q2mzwa", "{mark}");
        }
        assert_eq!(deployment_of("orlop-sg-k4x7q2mzwa"), None);
    }

    #[test]
    fn a_reserved_address_is_never_ours() {
        let mut address = FloatingIp {
            id: "F".into(),
            address: "192.0.2.1".into(),
            port: None,
            description: "orlop:k4x7q2mzwa:a2".into(),
            tags: Vec::new(),
            created: None,
        };
        assert_eq!(Marks::of("k4x7q2mzwa").address_attempt(&address), Some(2));
        address.tags.push("reservation:R".into());
        assert_eq!(Marks::of("k4x7q2mzwa").address_attempt(&address), None);
    }
}
