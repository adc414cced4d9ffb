//! What is known of a deployment beside its journal.

use orlop_core::time::Time;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a program has to know of a deployment beside its journal.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Notes {
    /// The server's name: known even where the journal cannot be read. Empty where an earlier version wrote this.
    #[serde(default)]
    pub server_name: String,
    /// The project it belongs to; empty likewise.
    #[serde(default)]
    pub project_id: String,
    /// The site.
    pub site: String,
    /// The region.
    pub region: String,
    /// Where one signs in.
    pub auth_url: String,
    /// The cloud of `clouds.yaml`, if it was one.
    pub cloud: Option<String>,
    /// The state file.
    pub info_file: String,
    /// The private key on this machine, if there is one.
    pub key_file: Option<String>,
    /// The digest of the private key, if it was made for this deployment: written down before there is a file.
    #[serde(default)]
    pub key_digest: Option<String>,
    /// What the machine must have.
    pub requirements: Value,
    /// The digest of the plan.
    pub plan_digest: String,
    /// What was asked for, in words: another wish for the same name is seen by it.
    pub request: Value,
    /// Whether the user keeps the key that was made, so that its private half stays too.
    #[serde(default)]
    pub key_kept: bool,
    /// Sites that are tried if this one cannot give what was asked for.
    #[serde(default)]
    pub sites_left: Vec<String>,
    /// After how long without work it is to be destroyed, in seconds.
    #[serde(default)]
    pub idle_stop_s: Option<u64>,
    /// The REST address of the fleet that is asked for its worker.
    #[serde(default)]
    pub fleet: Option<String>,
    /// When it was asked for.
    pub created_at: Option<Time>,
}

impl Notes {
    /// The cloud of `clouds.yaml`, if it was one.
    #[must_use]
    pub fn entry(&self) -> Option<&str> {
        self.cloud.as_deref()
    }
}
