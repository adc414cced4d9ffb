//! Secrets as they come in and are listed. A value is read only and never shown.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A secret to store.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewSecret {
    /// Its value, at most 64 Ki
    #[schema(write_only)]
    pub(crate) value: String,
}

impl fmt::Debug for NewSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NewSecret(***)")
    }
}

/// The name of a secret.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SecretName {
    pub(crate) tenant: String,
    pub(crate) name: String,
}

/// Names of secrets, in order.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SecretList {
    pub(crate) items: Vec<SecretName>,
}
