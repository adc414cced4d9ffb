//! What a controller works on, by namespace and name, and what follows from a pass over it. Owns both; looks nothing up.

use std::fmt;

use orlop_core::time::Time;
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

/// The result of a pass over an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Next {
    /// When the object is reconciled again if nothing happens before.
    pub again_at: Option<Time>,
    /// Other objects to be reconciled now.
    pub wake: Vec<Key>,
    /// Whether a request of the pass failed.
    pub failed: bool,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
