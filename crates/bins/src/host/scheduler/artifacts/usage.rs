//! How many bytes tenants have stored, whole and growing, and whether more may come (`max_artifact_bytes`).

use std::collections::BTreeMap;

use orlop_core::error::{Code, Problem, QuotaUse};
use orlop_core::id::{Epoch, TenantName};
use orlop_core::ports::fleet_store::{Artifact as Stored, Upload};
use tokio::sync::MutexGuard;

use super::super::{Handle, Status, error};

/// The limit.
const LIMIT: &str = "max_artifact_bytes";

/// What is stored of whom. The holder is alone with the artifacts.
#[derive(Debug, Default)]
pub(in super::super) struct StoredBytes {
    /// In which term it was worked out: in others another server may have written.
    epoch: Option<Epoch>,
    bytes: BTreeMap<TenantName, u64>,
    /// Uploads with the bytes that are here of them.
    growing: BTreeMap<String, (TenantName, u64)>,
}

impl StoredBytes {
    fn of(&self, tenant: &TenantName) -> u64 {
        self.bytes.get(tenant).copied().unwrap_or(0)
    }

    fn add(&mut self, tenant: &TenantName, bytes: u64) {
        let sum = self.bytes.entry(tenant.clone()).or_default();
        *sum = sum.saturating_add(bytes);
    }

    fn take(&mut self, tenant: &TenantName, bytes: u64) {
        if let Some(sum) = self.bytes.get_mut(tenant) {
            *sum = sum.saturating_sub(bytes);
        }
    }

    /// Refuses bytes that are more than a tenant may have.
    pub(super) fn admit(&self, tenant: &TenantName, more: u64, limit: Option<u64>) -> Result<(), Problem> {
        let used = self.of(tenant).saturating_add(more);
        let Some(limit) = limit.filter(|limit| used > *limit) else { return Ok(()) };
        let text = format!("tenant `{tenant}` may store {limit} bytes of artifacts; with this there would be {used}");
        let quota = QuotaUse { name: LIMIT.to_owned(), limit, used };
        Err(Problem::coded(Code::QuotaExceeded, text).with_quota(quota))
    }

    /// An upload has so many bytes now.
    pub(super) fn grown(&mut self, upload: &Upload, bytes: u64) {
        self.left(&upload.id);
        self.add(&upload.tenant, bytes);
        self.growing.insert(upload.id.clone(), (upload.tenant.clone(), bytes));
    }

    /// An upload is no more: given up, or an artifact from now on.
    pub(super) fn left(&mut self, upload: &str) {
        if let Some((tenant, bytes)) = self.growing.remove(upload) {
            self.take(&tenant, bytes);
        }
    }

    /// A tenant has an artifact more.
    pub(super) fn kept(&mut self, tenant: &TenantName, bytes: u64) {
        self.add(tenant, bytes);
    }

    /// An artifact is gone.
    pub(super) fn removed(&mut self, stored: &Stored) {
        for tenant in &stored.tenants {
            self.take(tenant, stored.bytes);
        }
    }
}

impl Handle {
    /// How many bytes a tenant may store; none = as many as there is room for.
    pub(super) fn artifact_limit(&self, tenant: &TenantName) -> Option<u64> {
        self.snapshot().tenants.get(tenant).and_then(|known| known.quota.max_artifact_bytes)
    }

    /// What is stored of whom, up to date; nobody else changes it meanwhile.
    pub(super) async fn counted(&self) -> Result<MutexGuard<'_, StoredBytes>, Problem> {
        let Status::Leading { epoch } = self.status() else { return Err(error::not_leader(None)) };
        let mut stored_bytes = self.shared.uploads.lock().await;
        if stored_bytes.epoch != Some(epoch) {
            *stored_bytes = StoredBytes { epoch: Some(epoch), ..self.count().await? };
        }
        Ok(stored_bytes)
    }

    async fn count(&self) -> Result<StoredBytes, Problem> {
        let mut counted = StoredBytes::default();
        let mut stored = self.pages::<Stored>("");
        while let Some(page) = stored.next().await? {
            for artifact in page {
                artifact.tenants.iter().for_each(|tenant| counted.add(tenant, artifact.bytes));
            }
        }
        let mut uploads = self.pages::<Upload>("");
        while let Some(page) = uploads.next().await? {
            for upload in page {
                let key = upload.id.clone();
                // One whose file has not been made has none.
                let bytes = self.on_backend(move |backend| Ok(backend.received(&key).unwrap_or(0))).await?;
                counted.grown(&upload, bytes);
            }
        }
        Ok(counted)
    }

    /// How many bytes of artifacts each tenant has stored.
    ///
    /// # Errors
    /// This server does not lead; as of the store and the disk.
    pub async fn artifact_bytes(&self) -> Result<BTreeMap<TenantName, u64>, Problem> {
        if self.options().artifacts.is_none() {
            return Ok(BTreeMap::new());
        }
        Ok(self.counted().await?.bytes.clone())
    }
}
