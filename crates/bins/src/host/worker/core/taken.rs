//! What an agent that starts later needs to know of an attempt.

use orlop_cloud::runtime::worker::{ExtraUnits, GpuDevice};
use orlop_core::spec::job::Runtime;
use serde::{Deserialize, Serialize};

use crate::host::worker::artifacts::Needs;

/// What an agent that starts later needs to know of an attempt, in the spool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::host::worker) struct Taken {
    #[serde(rename = "r", default)]
    pub(in crate::host::worker) runtime: Runtime,
    #[serde(rename = "c", default)]
    pub(super) cpu_m: u64,
    #[serde(rename = "m", default)]
    pub(super) memory_bytes: u64,
    #[serde(rename = "g", default, skip_serializing_if = "Vec::is_empty")]
    pub(super) gpus: Vec<GpuDevice>,
    #[serde(rename = "x", default, skip_serializing_if = "Vec::is_empty")]
    pub(super) extras: Vec<ExtraUnits>,
    #[serde(rename = "a", default, skip_serializing_if = "Option::is_none")]
    pub(super) needs: Option<Needs>,
    /// The context of its trace, where that is kept.
    #[serde(rename = "t", default, skip_serializing_if = "String::is_empty")]
    pub(super) traceparent: String,
    #[serde(rename = "i", default, skip_serializing_if = "String::is_empty")]
    pub(super) correlation_id: String,
}

impl Taken {
    /// Whether its program makes containers for itself.
    pub(in crate::host::worker) fn makes_containers(&self) -> bool {
        self.needs.as_ref().is_some_and(Needs::makes_containers)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        // Writing to memory fails for values JSON has no form for; here are none.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads it back; of one that an agent of another version wrote as much as is understood.
    pub(in crate::host::worker) fn decode(body: &[u8]) -> Self {
        serde_json::from_slice(body).unwrap_or_default()
    }
}
