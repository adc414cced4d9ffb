//! What both kinds have: pull policies, names of secrets, profiles, conditions, retries.

use orlop_core::time::{Rfc3339, Time};
use serde::{Deserialize, Serialize};

/// When an image is pulled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "client", derive(schemars::JsonSchema))]
pub enum PullPolicy {
    /// Before every start.
    Always,
    /// Never.
    Never,
    /// Where the node does not have it.
    #[default]
    IfNotPresent,
}

impl PullPolicy {
    /// Its text in pods.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Always => "Always",
            Self::Never => "Never",
            Self::IfNotPresent => "IfNotPresent",
        }
    }
}

/// What pods may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "client", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum SecurityProfile {
    /// Run as a non-root user, nothing more.
    #[default]
    Restricted,
    /// Run as the image says, without gaining rights.
    Baseline,
}

/// The name of an object in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "client", derive(schemars::JsonSchema))]
pub struct LocalName {
    /// The name.
    #[cfg_attr(feature = "client", schemars(length(min = 1, max = 253)))]
    pub name: String,
}

/// A ConfigMap or Secret that pods read when they start, in the version they were started for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "client", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Reference {
    /// ConfigMap or Secret.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Its version.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// Whether the operator may not read it: then a change of it starts no new pods.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub forbidden: bool,
}

/// A condition of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "client", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Which side.
    #[serde(rename = "type")]
    pub kind: String,
    /// True, False or Unknown.
    pub status: String,
    /// The generation of the object that it was set for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Since when the status is what it is.
    #[serde(default, with = "Rfc3339", skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// Why, in one word.
    #[serde(default)]
    pub reason: String,
    /// Why, for people.
    #[serde(default)]
    pub message: String,
}

/// When it is tried again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "client", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Retry {
    /// Failures one after another.
    #[serde(default)]
    pub count: u32,
    /// Why the last one failed.
    #[serde(default)]
    pub reason: String,
    /// Not before this time.
    #[serde(default, with = "Rfc3339", skip_serializing_if = "Option::is_none")]
    pub next_retry_time: Option<Time>,
}
