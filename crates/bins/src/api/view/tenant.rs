//! Tenants as they are shown, and how they are changed.

use std::collections::BTreeMap;

use orlop_core::id::TenantName;
use orlop_core::machine::tenant::TenantState;
use orlop_scheduler::engine::TenantView as Known;
use orlop_scheduler::event::{OnExceed, Quota};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::list::Listed;

/// A tenant.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Tenant)]
pub(crate) struct TenantView {
    pub(crate) name: String,
    /// In fair division, 1 to 1000
    pub(crate) weight: u32,
    /// active, paused or closing
    pub(crate) state: String,
    /// The lowest priority number it may use
    pub(crate) priority_best: u8,
    pub(crate) revision: u64,
    pub(crate) quota: QuotaView,
}

/// Limits of a tenant; absent = none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Quota)]
pub(crate) struct QuotaView {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_pending_jobs: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_active_jobs: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) submit_per_second: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_running_jobs: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_cpu_m: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_memory_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_gpus: Option<u64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) max_gpus_by_kind: BTreeMap<String, u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_timeout_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_array: Option<u64>,
    /// Bytes of artifacts that are stored
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_artifact_bytes: Option<u64>,
    /// Bytes of the log of one attempt; beyond that its `on_full` says what becomes of it
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_log_bytes_per_job: Option<u64>,
    /// `wait` (jobs are taken and wait) or `deny` (they are refused)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) on_exceed: Option<String>,
}

impl From<&Quota> for QuotaView {
    fn from(quota: &Quota) -> Self {
        let kinds = quota.max_gpus_by_kind.iter().map(|(kind, limit)| (kind.to_string(), *limit));
        Self {
            max_pending_jobs: quota.max_pending_jobs,
            max_active_jobs: quota.max_active_jobs,
            submit_per_second: quota.submit_per_second,
            max_running_jobs: quota.max_running_jobs,
            max_cpu_m: quota.max_cpu_m,
            max_memory_bytes: quota.max_memory_bytes,
            max_gpus: quota.max_gpus,
            max_gpus_by_kind: kinds.collect(),
            max_timeout_ms: quota.max_timeout_ms,
            max_array: quota.max_array,
            max_artifact_bytes: quota.max_artifact_bytes,
            max_log_bytes_per_job: quota.max_log_bytes_per_job,
            on_exceed: (quota.on_exceed == OnExceed::Deny).then(|| "deny".to_owned()),
        }
    }
}

impl QuotaView {
    /// The limits for the core.
    ///
    /// # Errors
    /// Which field is wrong, and why.
    pub(crate) fn quota(&self) -> Result<Quota, (&'static str, String)> {
        let mut kinds = BTreeMap::new();
        for (kind, limit) in &self.max_gpus_by_kind {
            let key = serde_json::from_value(serde_json::Value::String(kind.clone()));
            kinds.insert(key.map_err(|error| ("max_gpus_by_kind", error.to_string()))?, *limit);
        }
        Ok(Quota {
            max_pending_jobs: self.max_pending_jobs,
            max_active_jobs: self.max_active_jobs,
            submit_per_second: self.submit_per_second,
            max_running_jobs: self.max_running_jobs,
            max_cpu_m: self.max_cpu_m,
            max_memory_bytes: self.max_memory_bytes,
            max_gpus: self.max_gpus,
            max_gpus_by_kind: kinds,
            max_timeout_ms: self.max_timeout_ms,
            max_array: self.max_array,
            max_artifact_bytes: self.max_artifact_bytes,
            max_log_bytes_per_job: self.max_log_bytes_per_job,
            on_exceed: match self.on_exceed.as_deref() {
                None | Some("wait") => OnExceed::Wait,
                Some("deny") => OnExceed::Deny,
                Some(_) => return Err(("on_exceed", "use wait or deny".to_owned())),
            },
        })
    }
}

/// What a tenant holds now.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Usage)]
pub(crate) struct UsageView {
    pub(crate) tenant: String,
    /// Jobs and elements waiting
    pub(crate) pending: u64,
    /// Jobs and elements that are not final
    pub(crate) active: u64,
    /// Attempts that hold capacity
    pub(crate) running: u64,
    pub(crate) cpu_m: u64,
    pub(crate) memory_bytes: u64,
    /// GPUs of all kinds
    pub(crate) gpus: u64,
    /// GPUs by model
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) gpus_by_kind: BTreeMap<String, u64>,
    /// Stored bytes of artifacts
    pub(crate) artifact_bytes: u64,
    /// Dominant share of the fleet divided by weight
    pub(crate) weighted_share: f64,
}

fn by_kind(known: &Known) -> BTreeMap<String, u64> {
    known.gpus.iter().map(|(model, count)| (model.to_string(), *count)).collect()
}

impl UsageView {
    /// What the core knows of a tenant; nothing = it holds nothing.
    pub(crate) fn of(name: &TenantName, known: Option<&Known>, stored: &BTreeMap<TenantName, u64>) -> Self {
        let of = |read: fn(&Known) -> u64| known.map_or(0, read);
        Self {
            tenant: name.to_string(),
            pending: of(|known| known.pending),
            active: of(|known| known.active),
            running: of(|known| known.running),
            cpu_m: of(|known| known.cpu_m),
            memory_bytes: of(|known| known.memory_mib).saturating_mul(1 << 20),
            gpus: of(|known| known.gpus.values().sum()),
            gpus_by_kind: known.map(by_kind).unwrap_or_default(),
            artifact_bytes: stored.get(name).copied().unwrap_or(0),
            weighted_share: known.map_or(0.0, |known| known.weighted_share),
        }
    }
}

/// Some of the tenants.
pub(crate) type TenantList = Listed<TenantView>;

/// A new tenant.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewTenant {
    #[schema(pattern = "^[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?$")]
    pub(crate) name: String,
    /// In fair division
    #[serde(default)]
    #[schema(minimum = 1, maximum = 1000)]
    pub(crate) weight: Option<u32>,
    /// active or paused
    #[serde(default)]
    #[schema(pattern = "^(active|paused)$")]
    pub(crate) state: Option<String>,
    /// The lowest priority number it may use
    #[serde(default)]
    #[schema(maximum = 9)]
    pub(crate) priority_best: Option<u8>,
    #[serde(default)]
    pub(crate) quota: Option<QuotaView>,
}

/// What is to change of a tenant.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TenantPatch {
    /// In fair division
    #[serde(default)]
    #[schema(minimum = 1, maximum = 1000)]
    pub(crate) weight: Option<u32>,
    /// active or paused
    #[serde(default)]
    #[schema(pattern = "^(active|paused)$")]
    pub(crate) state: Option<String>,
    /// The lowest priority number it may use
    #[serde(default)]
    #[schema(maximum = 9)]
    pub(crate) priority_best: Option<u8>,
}

/// The state that a text names, of those that may be asked for.
pub(crate) fn state(text: &str) -> Option<TenantState> {
    match text {
        "active" => Some(TenantState::Active),
        "paused" => Some(TenantState::Paused),
        _ => None,
    }
}
