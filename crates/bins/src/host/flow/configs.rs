//! Keys of ConfigMaps as parameters: the flow's own templates first, then what the host was given.

use async_trait::async_trait;
use orlop_core::error::Problem;
use orlop_core::spec::flow::FlowSpec;
use orlop_core::spec::meta::KeyRef;
use orlop_dag::attempt::{self, Unresolved};
use orlop_dag::params::config_map_value;
use serde_json::Value;

/// Reads ConfigMaps that the flow does not create itself.
#[async_trait]
pub trait ConfigMaps: Send + Sync {
    /// A ConfigMap with its `data` and `binaryData`, or none.
    ///
    /// # Errors
    /// When it cannot be seen now.
    async fn get(&self, name: &str) -> Result<Option<Value>, Problem>;
}

/// No ConfigMaps but those of the flow.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoConfigMaps;

#[async_trait]
impl ConfigMaps for NoConfigMaps {
    async fn get(&self, _name: &str) -> Result<Option<Value>, Problem> {
        Ok(None)
    }
}

/// The value of a parameter that is a key of a ConfigMap.
///
/// # Errors
/// When there is no such key, it is no text, or it cannot be seen now.
pub(super) async fn look_up(
    spec: &FlowSpec,
    flow: &str,
    configs: &dyn ConfigMaps,
    name: &str,
    key_ref: &KeyRef,
) -> Result<String, Unresolved> {
    let unresolved = |message: String| Unresolved { name: name.to_owned(), message, retryable: true };
    let own = attempt::config_map_template(spec, flow, &key_ref.name).cloned();
    let found = match own {
        Some(template) => Some(template),
        None => configs.get(&key_ref.name).await.map_err(|error| unresolved(error.chain()))?,
    };
    config_map_value(found.as_ref(), key_ref).map_err(|fault| unresolved(fault.to_string()))
}
