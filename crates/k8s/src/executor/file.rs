//! The file an executor reads. Owns its members and their order, and what of it may be shown.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::address::is_plain;
use crate::hourglass::spec::{DefaultScheduling, ExecutorConfig};

/// Where keys are mounted.
pub(super) const KEYS: &str = "/etc/hourglass-keys";
/// What is shown in place of an address with credentials.
pub const REDACTED: &str = "__redacted__";

/// The file. Its `Debug` form would show credentials, so it has none.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct File {
    aggregator_endpoint: String,
    performer_mode: String,
    log_level: String,
    chains: Vec<Chain>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kubernetes: Option<Kubernetes>,
    operator_keys_dir: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    operator_keys: Option<BTreeMap<String, String>>,
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct Chain {
    name: String,
    rpc: String,
    chain_id: i64,
    task_mailbox_address: String,
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct Kubernetes {
    namespace: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    default_scheduling: Option<Scheduling>,
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct Scheduling {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node_selector: Option<BTreeMap<String, String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node_affinity: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tolerations: Option<Vec<Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    runtime_class: Option<String>,
}

impl Scheduling {
    fn of(defaults: &DefaultScheduling) -> Self {
        Self {
            node_selector: defaults.node_selector.clone(),
            node_affinity: defaults.node_affinity.clone(),
            tolerations: defaults.tolerations.clone(),
            runtime_class: defaults.runtime_class.clone(),
        }
    }
}

impl File {
    /// What a spec comes to.
    #[must_use]
    pub fn of(config: &ExecutorConfig) -> Self {
        let path = |name: &String| (name.clone(), format!("{KEYS}/{name}"));
        let chain = |chain: &crate::hourglass::spec::Chain| Chain {
            name: chain.name.clone(),
            rpc: chain.rpc.clone(),
            chain_id: chain.chain_id,
            task_mailbox_address: chain.task_mailbox_address.clone(),
        };
        Self {
            aggregator_endpoint: config.aggregator_endpoint.clone(),
            performer_mode: config.performer_mode.as_str().to_owned(),
            log_level: config.log_level.clone(),
            chains: config.chains.iter().map(chain).collect(),
            kubernetes: config.kubernetes.as_ref().map(|mode| Kubernetes {
                namespace: mode.namespace.clone(),
                default_scheduling: mode.default_scheduling.as_ref().map(Scheduling::of),
            }),
            operator_keys_dir: KEYS.to_owned(),
            operator_keys: config.operator_keys.as_ref().map(|keys| keys.keys().map(path).collect()),
        }
    }

    /// Whether any of its addresses carries credentials.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        !is_plain(&self.aggregator_endpoint) || self.chains.iter().any(|chain| !is_plain(&chain.rpc))
    }

    /// The same without them.
    #[must_use]
    pub fn redacted(&self) -> Self {
        let mut shown = self.clone();
        let addresses = shown.chains.iter_mut().map(|chain| &mut chain.rpc);
        for address in addresses.chain([&mut shown.aggregator_endpoint]).filter(|address| !is_plain(address)) {
            REDACTED.clone_into(address);
        }
        shown
    }

    /// As YAML.
    ///
    /// # Errors
    /// A value that YAML cannot hold, of which there is none here.
    pub fn to_yaml(&self) -> Result<String, String> {
        // Whoever reads it may follow another version of YAML, in which `no`, `0x10` and `1e3` are no texts.
        let options = serde_saphyr::ser_options! { quote_all: true };
        serde_saphyr::to_string_with_options(self, options).map_err(|error| error.to_string())
    }
}
