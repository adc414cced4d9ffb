//! The fleet's artifacts as a server keeps them: uploads, what is whole, and whose it is. How long it stays is [`retain`]'s,
//! how much of it a tenant may have [`usage`]'s.
//!
//! Whatever makes an artifact or takes one away holds the same lock and reads the document anew, so that neither of them acts
//! on what the other has changed meanwhile.

mod content;
mod retain;
#[cfg(test)]
mod tests;
mod usage;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use orlop_cloud::artifact::{ArtifactBackend, unknown_upload, wrong_offset};
use orlop_core::error::{Code, Problem};
use orlop_core::id::{JobId, TenantName};
use orlop_core::ports::fleet_store::{
    Artifact as Stored, ArtifactLink, Document as _, Documents as _, Kind, LeftBy, Record, Upload, WriteBatch,
};
use orlop_core::spec::job::JobSpec;

use self::content::Content;
pub use self::retain::Swept;
pub(super) use self::usage::StoredBytes;
use super::{Handle, Status, error};
use crate::wire::artifact::{Beginning, UPLOAD_CHUNK};
use crate::wire::v1::{Artifact, BeginUploadResponse};

/// How long an upload may rest before it is given up.
const UPLOADING: Duration = Duration::from_secs(24 * 3600);
/// How much of that is over before a piece that comes makes it begin anew: not every piece is worth a commit.
const RESTED: Duration = Duration::from_secs(3600);
/// How old the time since which nothing refers to an artifact may be when a job is about to. From there on it runs anew, so
/// that the artifact is there when that job is.
const PINNED: Duration = Duration::from_secs(60);

/// Of how many jobs and elements is known that they left something under one name, and how many of them a refusal names.
const CANDIDATES: usize = 32;
const SHOWN: usize = 4;

/// No job: what a tenant calls an artifact by itself.
const NAMED: JobId = JobId::from_u64(0);

/// What a tenant calls an artifact, as a link.
fn named(tenant: &TenantName, name: &str, sha256: &str) -> ArtifactLink {
    let (tenant, name, sha256) = (tenant.clone(), format!("{tenant}/{name}"), sha256.to_owned());
    ArtifactLink { job: NAMED, name, sha256, tenant, left_by: Vec::new(), executable: false }
}

impl Handle {
    fn backend(&self) -> Result<Arc<dyn ArtifactBackend>, Problem> {
        let none =
            || Problem::coded(Code::Precondition, "this server does not store artifacts; configure `store.artifacts`");
        self.options().artifacts.clone().ok_or_else(none)
    }

    /// Does something with the files, on a thread that may block.
    async fn on_backend<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn ArtifactBackend) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let backend = self.backend()?;
        let done = tokio::task::spawn_blocking(move || work(&*backend)).await;
        done.map_err(|panic| Problem::coded(Code::Internal, panic.to_string()))?
    }

    /// Writes records that are not the loop's.
    async fn put(&self, records: Vec<Record>) -> Result<(), Problem> {
        let Status::Leading { epoch } = self.status() else { return Err(error::not_leader(None)) };
        self.store().commit(epoch, vec![WriteBatch::new(records)]).await
    }

    async fn upload(&self, id: &str, sees: impl Fn(&TenantName) -> bool) -> Result<Upload, Problem> {
        let found: Option<Upload> = self.store().get(id).await?;
        found.filter(|upload| sees(&upload.tenant)).ok_or_else(unknown_upload)
    }

    /// Begins an upload of a tenant, or says how far one is.
    ///
    /// # Errors
    /// NotFound for an upload that is not the tenant's; Precondition where no artifacts are kept; and as of the store.
    pub async fn begin_upload(&self, tenant: &TenantName, asked: Beginning) -> Result<BeginUploadResponse, Problem> {
        if let Some(id) = asked.upload {
            let known = self.upload(&id, |owner| owner == tenant).await?;
            self.goes_on(known).await?;
            // Its content may have been reported only now.
            let stored = match &asked.sha256 {
                Some(sha256) => self.held(sha256, tenant).await?.is_some(),
                None => false,
            };
            let committed = self.received(&id).await?;
            let stored = stored && committed == 0;
            return Ok(BeginUploadResponse { upload_id: id, committed, stored, chunk_bytes: UPLOAD_CHUNK as u32 });
        }
        // Content that this tenant has already need not be sent again; of others' it learns nothing.
        let known = match &asked.sha256 {
            Some(sha256) => self.held(sha256, tenant).await?,
            None => None,
        };
        if known.is_none() {
            self.shared.disk_guard.check_upload(asked.bytes)?;
            self.counted().await?.admit(tenant, asked.bytes, self.artifact_limit(tenant))?;
        }
        let id = uuid::Uuid::new_v4().simple().to_string();
        let upload = Upload {
            id: id.clone(),
            tenant: tenant.clone(),
            received: 0,
            total: asked.bytes,
            expires_at: self.clock().wall().plus(UPLOADING),
            name: asked.name,
            left_by: asked.attempt.map(|attempt| (attempt.job, attempt.index)),
            executable: asked.executable,
        };
        // The document comes first: a file without one is what a crash has left.
        self.put(vec![Record::put(&upload)?]).await?;
        let begun = id.clone();
        self.on_backend(move |backend| backend.begin(&begun)).await?;
        let (committed, stored) = (0, known.is_some());
        Ok(BeginUploadResponse { upload_id: id, committed, stored, chunk_bytes: UPLOAD_CHUNK as u32 })
    }

    /// Adds a piece to an upload; gives how many bytes are stored then.
    ///
    /// # Errors
    /// NotFound; Conflict when it does not begin where the stored bytes end; TooLarge beyond what was announced;
    /// QuotaExceeded when its tenant has too much stored.
    pub async fn add_to_upload(
        &self,
        sees: impl Fn(&TenantName) -> bool,
        id: &str,
        offset: u64,
        bytes: bytes::Bytes,
    ) -> Result<u64, Problem> {
        let upload = self.upload(id, sees).await?;
        if offset.saturating_add(bytes.len() as u64) > upload.total {
            let text = format!("{} bytes were announced; this piece goes beyond", upload.total);
            return Err(Problem::coded(Code::TooLarge, text));
        }
        let (key, count) = (id.to_owned(), bytes.len() as u64);
        self.shared.disk_guard.check_upload(count)?;
        let mut stored_bytes = self.counted().await?;
        stored_bytes.admit(&upload.tenant, count, self.artifact_limit(&upload.tenant))?;
        let committed = self.on_backend(move |backend| backend.append(&key, offset, &bytes)).await?;
        stored_bytes.grown(&upload, committed);
        drop(stored_bytes);
        self.goes_on(upload).await?;
        Ok(committed)
    }

    /// Somebody still sends an upload: the time it may rest begins anew.
    async fn goes_on(&self, upload: Upload) -> Result<(), Problem> {
        let until = self.clock().wall().plus(UPLOADING);
        if upload.expires_at.plus(RESTED) > until {
            return Ok(());
        }
        let later = Upload { expires_at: until, ..upload };
        self.put(vec![Record::put(&later)?]).await
    }

    /// Ends an upload: from then on the artifact is there.
    ///
    /// # Errors
    /// NotFound; Conflict when bytes are missing; Checksum when the content is not what was announced.
    pub async fn end_upload(
        &self,
        sees: impl Fn(&TenantName) -> bool,
        id: &str,
        sha256: &str,
    ) -> Result<Artifact, Problem> {
        let upload = self.upload(id, sees).await?;
        // To read all of it takes a while, in which others go on: nothing is added to an upload that is whole.
        let is_whole = self.received(id).await? == upload.total;
        let checked = if is_whole { self.check(&upload, sha256).await } else { Ok(()) };
        let mut stored_bytes = self.counted().await?;
        if checked.as_ref().is_err_and(|problem| problem.code == Code::Checksum) {
            // The file is gone, and with it the upload.
            self.put(vec![Record::Delete(Kind::Upload, upload.key())]).await?;
            stored_bytes.left(&upload.id);
        }
        checked?;
        let received = self.received(id).await?;
        let known = self.held(sha256, &upload.tenant).await?;
        let key = id.to_owned();
        let bytes = match known {
            // All of it is here already.
            Some(known) if received == 0 && known.bytes == upload.total => {
                self.on_backend(move |backend| backend.discard(&key)).await?;
                known.bytes
            }
            _ if !is_whole || received != upload.total => return Err(wrong_offset(received)),
            _ => {
                let sha256 = sha256.to_owned();
                self.on_backend(move |backend| backend.finish(&key, &sha256)).await?
            }
        };
        let new = self.keep(&upload, sha256, bytes).await?;
        stored_bytes.left(&upload.id);
        if new {
            stored_bytes.kept(&upload.tenant, bytes);
            self.options().metrics.transport.artifact_bytes.inc_by(bytes);
        }
        let (name, sha256) = (upload.name, sha256.to_owned());
        Ok(Artifact { name, sha256, bytes, executable: upload.executable, path: String::new() })
    }

    /// How many bytes of an upload are stored.
    async fn received(&self, id: &str) -> Result<u64, Problem> {
        let id = id.to_owned();
        self.on_backend(move |backend| backend.received(&id)).await
    }

    /// Whether the content of a whole upload is what was announced.
    async fn check(&self, upload: &Upload, sha256: &str) -> Result<(), Problem> {
        let (id, sha256) = (upload.id.clone(), sha256.to_owned());
        self.on_backend(move |backend| backend.check(&id, &sha256)).await
    }

    /// Writes down that an artifact is there, and whose. Whether its tenant did not have it before.
    async fn keep(&self, upload: &Upload, sha256: &str, bytes: u64) -> Result<bool, Problem> {
        let before: Option<Stored> = self.store().get(sha256).await?;
        let mut tenants = before.map(|stored| stored.tenants).unwrap_or_default();
        let new = tenants.insert(upload.tenant.clone());
        // Until a job refers to it, its time runs.
        let unreferenced_at = Some(self.clock().wall());
        let stored = Stored { sha256: sha256.to_owned(), bytes, refs: 0, unreferenced_at, tenants };
        let link = ArtifactLink { executable: upload.executable, ..self.renamed(upload, sha256).await? };
        let records = [Record::put(&stored), Record::put(&link)].into_iter().collect::<Result<Vec<_>, _>>();
        let mut records = records?;
        records.push(Record::Delete(Kind::Upload, upload.key()));
        self.put(records).await?;
        Ok(new)
    }

    /// What a tenant calls by the name of an upload, once this artifact is there.
    async fn renamed(&self, upload: &Upload, sha256: &str) -> Result<ArtifactLink, Problem> {
        let mut link = named(&upload.tenant, &upload.name, sha256);
        let Some((job, index)) = upload.left_by else { return Ok(link) };
        let before: Option<ArtifactLink> = self.store().get(&link.key()).await?;
        link.left_by = before.map(|link| link.left_by).unwrap_or_default();
        link.left_by.retain(|known| (known.job, known.index) != (job, index));
        link.left_by.push(LeftBy { job, index, sha256: sha256.to_owned() });
        let above = link.left_by.len().saturating_sub(CANDIDATES);
        link.left_by.drain(..above);
        Ok(link)
    }

    /// Refuses a name under which several jobs or elements left different content; gives what else it stands for.
    async fn by_name(&self, tenant: &TenantName, name: &str) -> Result<Result<Option<ArtifactLink>, String>, Problem> {
        let key = named(tenant, name, "").key();
        let link: Option<ArtifactLink> = self.store().get(&key).await?;
        let Some(link) = link else { return Ok(Ok(None)) };
        let stored: BTreeSet<JobId> = link.left_by.iter().map(|left| left.job).collect();
        let stored: BTreeSet<JobId> = self.some_jobs(&stored).await?.iter().map(|row| row.job.id).collect();
        let there: Vec<&LeftBy> = link.left_by.iter().filter(|left| stored.contains(&left.job)).collect();
        let same = there.windows(2).all(|pair| matches!(pair, [a, b] if a.sha256 == b.sha256));
        if same {
            return Ok(Ok(Some(link)));
        }
        let one = |left: &&LeftBy| format!("{}.{}/{name}", left.job, left.index);
        let mut shown: Vec<String> = there.iter().rev().take(SHOWN).map(one).collect();
        shown.extend((there.len() > SHOWN).then(|| "…".to_owned()));
        let text = format!("`{name}` was left by several jobs or elements; name one of them: {}", shown.join(", "));
        Ok(Err(text))
    }

    /// What a tenant has stored and is still there.
    async fn held(&self, sha256: &str, tenant: &TenantName) -> Result<Option<Stored>, Problem> {
        let Some(stored) = self.known(sha256, |owner| owner == tenant).await? else { return Ok(None) };
        let key = sha256.to_owned();
        let there = self.on_backend(move |backend| backend.content(&key)).await?;
        Ok(there.map(|_| stored))
    }

    async fn known(&self, sha256: &str, sees: impl Fn(&TenantName) -> bool) -> Result<Option<Stored>, Problem> {
        let found: Option<Stored> = self.store().get(sha256).await?;
        Ok(found.filter(|stored| stored.tenants.iter().any(sees)))
    }

    /// The content of an artifact that the caller sees.
    ///
    /// # Errors
    /// NotFound; and as of the store and the disk.
    pub async fn artifact(&self, sees: impl Fn(&TenantName) -> bool, sha256: &str) -> Result<Content, Problem> {
        let shown: String = sha256.chars().take(64).collect();
        let none = || error::not_found(format_args!("artifact {shown}"));
        self.known(sha256, sees).await?.ok_or_else(none)?;
        let sha256 = sha256.to_owned();
        let content = self.on_backend(move |backend| backend.content(&sha256)).await?;
        content.map(Content::new).ok_or_else(none)
    }

    /// Names the content of a job's inputs: those without a digest by their name.
    ///
    /// # Errors
    /// InvalidSpec when there is no such artifact of the tenant, or several have the name.
    pub async fn pin_inputs(&self, tenant: &TenantName, spec: &mut JobSpec, place: &str) -> Result<(), Problem> {
        for (number, input) in spec.artifacts_in.iter_mut().enumerate() {
            let problem = |text: String| {
                let path = if place.is_empty() { String::new() } else { format!("{place}.") };
                let path = format!("{path}artifacts_in[{number}]");
                Problem::field(path, text)
            };
            if input.sha256.is_none()
                && let Some(link) = self.by_name(tenant, &input.name).await?.map_err(problem)?
            {
                input.sha256 = Some(link.sha256);
                input.executable |= link.executable && !input.unpack;
            }
            let known = match &input.sha256 {
                Some(sha256) => self.known(sha256, |owner| owner == tenant).await?,
                None => None,
            };
            let none = || problem(format!("tenant `{tenant}` has no artifact `{}`; upload it first", input.name));
            self.pin(known.ok_or_else(none)?).await?;
        }
        Ok(())
    }

    /// Keeps an artifact that nothing has referred to for a while: a job is about to.
    async fn pin(&self, stored: Stored) -> Result<(), Problem> {
        let now = self.clock().wall();
        let rests = |stored: &Stored| stored.unreferenced_at.is_some_and(|since| since.plus(PINNED) <= now);
        if !rests(&stored) {
            return Ok(());
        }
        let _alone = self.shared.uploads.lock().await;
        let found: Option<Stored> = self.store().get(&stored.key()).await?;
        let gone = || error::not_found(format_args!("artifact {}", stored.sha256));
        let found = found.ok_or_else(gone)?;
        if !rests(&found) {
            return Ok(());
        }
        let found = Stored { unreferenced_at: Some(now), ..found };
        self.put(vec![Record::put(&found)?]).await
    }
}
