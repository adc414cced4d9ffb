//! What a controller works on, by namespace and name. Owns the key; looks nothing up.

use std::fmt;

use serde_json::Value;

use crate::value::text;

/// An object among all of its kind in a cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Key {
    /// The key of an object by its metadata.
    #[must_use]
    pub fn of(object: &Value) -> Self {
        Self { namespace: text(object, "/metadata/namespace"), name: text(object, "/metadata/name") }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
