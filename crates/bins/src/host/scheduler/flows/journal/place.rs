//! Keys of a flow's documents.

use orlop_core::ports::fleet_store::part;
use serde::{Deserialize, Serialize};

/// Which flow has a name.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct NameHolder {
    pub(super) uid: String,
}

/// What the keys of all documents of a flow begin with.
pub(super) fn flow_prefix(uid: &str) -> String {
    format!("{}/", part(uid))
}

pub(super) fn record_key(uid: &str) -> String {
    format!("{}record", flow_prefix(uid))
}

pub(super) fn snapshot_key(uid: &str) -> String {
    format!("{}snapshot", flow_prefix(uid))
}

/// What the keys of a flow's entries begin with.
pub(super) fn entry_prefix(uid: &str) -> String {
    format!("{}entry/", flow_prefix(uid))
}

pub(super) fn entry_key(uid: &str, seq: u64) -> String {
    format!("{}{seq:020}", entry_prefix(uid))
}

/// The key of a name; no part of a key is empty, so that no flow's id is before the first slash.
pub(super) fn name_key(namespace: &str, name: &str) -> String {
    format!("/name/{}/{}", part(namespace), part(name))
}
