//! The fleet's artifacts as a server keeps them (scheduler contract, section 6): uploads, what is whole, whose it is, and how
//! long it stays. Owns the documents beside the bytes; callers are checked by the services.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use orlop_cloud::artifact::{Shelf, ShelfError};
use orlop_core::error::PortError;
use orlop_core::id::{JobId, TenantName};
use orlop_core::ports::fleet_store::{
    Artifact as Stored, ArtifactLink, Document as _, Documents as _, EntryFilter, Kind, MAX_PAGE, Page, Record, Turn,
    Upload,
};
use orlop_core::spec::job::JobSpec;
use orlop_core::time::Time;

use super::{Error, Handle, Status, error};
use crate::wire::artifact::{Beginning, Begun};
use crate::wire::problem::{Code, FieldError, Problem};
use crate::wire::result::Artifact;

/// How long an upload may rest before it is given up.
const UPLOADING: Duration = Duration::from_secs(24 * 3600);
/// How long an artifact stays without a job that refers to it.
const UNREFERENCED: Duration = Duration::from_secs(24 * 3600);

/// No job: what a tenant calls an artifact by itself.
const NAMED: JobId = JobId::from_u64(0);

/// What a tenant calls an artifact, as a link.
fn named(tenant: &TenantName, name: &str, sha256: &str) -> ArtifactLink {
    let (tenant, name, sha256) = (tenant.clone(), format!("{tenant}/{name}"), sha256.to_owned());
    ArtifactLink { job: NAMED, name, sha256, tenant }
}

/// The problem of a shelf.
fn wrong(problem: ShelfError) -> Error {
    let text = problem.to_string();
    match problem {
        ShelfError::Unknown => error::problem(Code::NotFound, text),
        ShelfError::Offset(expected) => {
            let expected = FieldError { path: "offset".to_owned(), message: expected.to_string() };
            Box::new(Problem { errors: vec![expected], ..Problem::new(Code::Conflict, text) })
        }
        ShelfError::Checksum { .. } => error::problem(Code::Checksum, text),
        ShelfError::Disk(failure) => error::port(&failure),
    }
}

impl Handle {
    fn shelf(&self) -> Result<Shelf, Error> {
        let none = || error::problem(Code::Precondition, "this server keeps no artifacts; configure `store.artifacts`");
        self.options().artifacts.clone().ok_or_else(none)
    }

    /// Does something with the files, on a thread that may block.
    async fn on_shelf<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Shelf) -> Result<T, ShelfError> + Send + 'static,
    ) -> Result<T, Error> {
        let shelf = self.shelf()?;
        let done = tokio::task::spawn_blocking(move || work(&shelf)).await;
        done.map_err(|panic| error::problem(Code::Internal, panic.to_string()))?.map_err(wrong)
    }

    /// Writes records that are not the loop's.
    async fn put(&self, records: Vec<Record>) -> Result<(), Error> {
        let Status::Leading { epoch } = self.status() else { return Err(error::not_leader(None)) };
        self.store().commit(epoch, vec![Turn::new(records)]).await.map_err(|wrong| error::port(&wrong))
    }

    async fn upload(&self, id: &str, sees: impl Fn(&TenantName) -> bool) -> Result<Upload, Error> {
        let found: Option<Upload> = self.store().get(id).await.map_err(|wrong| error::port(&wrong))?;
        found.filter(|upload| sees(&upload.tenant)).ok_or_else(|| wrong(ShelfError::Unknown))
    }

    /// Begins an upload of a tenant, or says how far one is.
    ///
    /// # Errors
    /// NotFound for an upload that is not the tenant's; Precondition where no artifacts are kept; and as of the store.
    pub async fn begin_upload(&self, tenant: &TenantName, asked: Beginning) -> Result<Begun, Error> {
        if let Some(id) = asked.upload {
            self.upload(&id, |owner| owner == tenant).await?;
            let upload = id.clone();
            let committed = self.on_shelf(move |shelf| shelf.received(&id)).await?;
            return Ok(Begun { upload, committed, stored: false });
        }
        // Content that this tenant has already need not be sent again; of others' it learns nothing.
        let known = match &asked.sha256 {
            Some(sha256) => self.known(sha256, |owner| owner == tenant).await?,
            None => None,
        };
        let id = uuid::Uuid::new_v4().simple().to_string();
        let upload = Upload {
            id: id.clone(),
            tenant: tenant.clone(),
            received: 0,
            total: asked.bytes,
            expires_at: self.clock().wall().plus(UPLOADING),
            name: asked.name,
        };
        let begun = id.clone();
        self.on_shelf(move |shelf| shelf.begin(&begun)).await?;
        self.put(vec![Record::put(&upload).map_err(|wrong| error::port(&wrong))?]).await?;
        Ok(Begun { upload: id, committed: 0, stored: known.is_some() })
    }

    /// Adds a piece to an upload; gives how many bytes are stored then.
    ///
    /// # Errors
    /// NotFound; Conflict when it does not begin where the stored bytes end; TooLarge beyond what was announced.
    pub async fn add_to_upload(
        &self,
        sees: impl Fn(&TenantName) -> bool,
        id: &str,
        offset: u64,
        bytes: bytes::Bytes,
    ) -> Result<u64, Error> {
        let upload = self.upload(id, sees).await?;
        if offset.saturating_add(bytes.len() as u64) > upload.total {
            let text = format!("{} bytes were announced; this piece goes beyond", upload.total);
            return Err(error::problem(Code::TooLarge, text));
        }
        let _alone = self.shared.uploads.lock().await;
        let id = id.to_owned();
        self.on_shelf(move |shelf| shelf.append(&id, offset, &bytes)).await
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
    ) -> Result<Artifact, Error> {
        let upload = self.upload(id, sees).await?;
        let _alone = self.shared.uploads.lock().await;
        let key = id.to_owned();
        let received = self.on_shelf(move |shelf| shelf.received(&key)).await?;
        let known = self.known(sha256, |owner| *owner == upload.tenant).await?;
        let bytes = match known {
            // All of it is here already.
            Some(known) if received == 0 && known.bytes == upload.total => {
                let key = id.to_owned();
                self.on_shelf(move |shelf| shelf.discard(&key)).await?;
                known.bytes
            }
            _ if received != upload.total => return Err(wrong(ShelfError::Offset(received))),
            _ => {
                let (key, sha256) = (id.to_owned(), sha256.to_owned());
                self.on_shelf(move |shelf| shelf.finish(&key, &sha256)).await?
            }
        };
        self.keep(&upload, sha256, bytes).await?;
        let (name, sha256) = (upload.name, sha256.to_owned());
        Ok(Artifact { name, sha256, bytes, path: String::new() })
    }

    /// Writes down that an artifact is there, and whose.
    async fn keep(&self, upload: &Upload, sha256: &str, bytes: u64) -> Result<(), Error> {
        let port = |wrong: PortError| error::port(&wrong);
        let before: Option<Stored> = self.store().get(sha256).await.map_err(port)?;
        let tenants = before.map(|stored| stored.tenants).unwrap_or_default();
        let tenants = tenants.into_iter().chain([upload.tenant.clone()]).collect();
        // Until a job refers to it, its time runs.
        let unreferenced_at = Some(self.clock().wall());
        let stored = Stored { sha256: sha256.to_owned(), bytes, refs: 0, unreferenced_at, tenants };
        let link = named(&upload.tenant, &upload.name, sha256);
        let records = [Record::put(&stored), Record::put(&link)].into_iter().collect::<Result<Vec<_>, _>>();
        let mut records = records.map_err(port)?;
        records.push(Record::Delete(Kind::Upload, upload.key()));
        self.put(records).await
    }

    async fn known(&self, sha256: &str, sees: impl Fn(&TenantName) -> bool) -> Result<Option<Stored>, Error> {
        let found: Option<Stored> = self.store().get(sha256).await.map_err(|wrong| error::port(&wrong))?;
        Ok(found.filter(|stored| stored.tenants.iter().any(sees)))
    }

    /// The content of an artifact that the caller sees, with its length.
    ///
    /// # Errors
    /// NotFound; and as of the store and the disk.
    pub async fn artifact(
        &self,
        sees: impl Fn(&TenantName) -> bool,
        sha256: &str,
    ) -> Result<(std::fs::File, u64), Error> {
        let shown: String = sha256.chars().take(64).collect();
        let none = || error::not_found(format_args!("artifact {shown}"));
        self.known(sha256, sees).await?.ok_or_else(none)?;
        let sha256 = sha256.to_owned();
        self.on_shelf(move |shelf| Ok(shelf.read(&sha256)?)).await?.ok_or_else(none)
    }

    /// Names the content of a job's inputs: those without a digest are the latest of their name.
    ///
    /// # Errors
    /// InvalidSpec when there is no such artifact of the tenant.
    pub async fn pin_inputs(&self, tenant: &TenantName, spec: &mut JobSpec, place: &str) -> Result<(), Error> {
        for (number, input) in spec.artifacts_in.iter_mut().enumerate() {
            let problem = |text: String| {
                let path = if place.is_empty() { String::new() } else { format!("{place}.") };
                let path = format!("{path}artifacts_in[{number}]");
                Box::new(Problem::invalid(vec![FieldError { path, message: text }]))
            };
            if input.sha256.is_none() {
                let key = named(tenant, &input.name, "").key();
                let link: Option<ArtifactLink> = self.store().get(&key).await.map_err(|wrong| error::port(&wrong))?;
                input.sha256 = link.map(|link| link.sha256);
            }
            let known = match &input.sha256 {
                Some(sha256) => self.known(sha256, |owner| owner == tenant).await?,
                None => None,
            };
            if known.is_none() {
                return Err(problem(format!("tenant `{tenant}` has no artifact `{}`; upload it first", input.name)));
            }
        }
        Ok(())
    }

    /// Removes uploads that rest too long, links of jobs that are gone, and artifacts that no job has referred to for a day.
    /// Gives how many artifacts went.
    ///
    /// # Errors
    /// As of the store and the disk; what was not removed is removed another time.
    pub async fn retain_artifacts(&self) -> Result<u64, Error> {
        let now = self.clock().wall();
        self.give_up_uploads(now).await?;
        let referred = self.referred().await?;
        let mut gone = 0;
        for stored in self.all::<Stored>().await? {
            let is_referred = referred.contains(&stored.sha256);
            let since = stored.unreferenced_at.filter(|_| !is_referred);
            if since.is_some_and(|since| since.plus(UNREFERENCED) <= now) {
                let sha256 = stored.sha256.clone();
                self.put(vec![Record::Delete(Kind::Artifact, stored.key())]).await?;
                self.on_shelf(move |shelf| Ok(shelf.remove(&sha256)?)).await?;
                gone += 1;
            } else if is_referred == stored.unreferenced_at.is_some() {
                let unreferenced_at = (!is_referred).then_some(now);
                let stored = Stored { unreferenced_at, ..stored };
                self.put(vec![Record::put(&stored).map_err(|wrong| error::port(&wrong))?]).await?;
            }
        }
        Ok(gone)
    }

    async fn give_up_uploads(&self, now: Time) -> Result<(), Error> {
        for upload in self.all::<Upload>().await?.into_iter().filter(|upload| upload.expires_at <= now) {
            self.put(vec![Record::Delete(Kind::Upload, upload.key())]).await?;
            self.on_shelf(move |shelf| shelf.discard(&upload.id)).await?;
        }
        Ok(())
    }

    /// Digests that stored jobs refer to; links of jobs that are gone go too.
    async fn referred(&self) -> Result<BTreeSet<String>, Error> {
        let mut jobs: BTreeMap<JobId, bool> = BTreeMap::new();
        let mut referred = BTreeSet::new();
        for link in self.all::<ArtifactLink>().await?.into_iter().filter(|link| link.job != NAMED) {
            let there = match jobs.get(&link.job) {
                Some(there) => *there,
                None => self.store().job(link.job).await.map_err(|wrong| error::port(&wrong))?.is_some(),
            };
            jobs.insert(link.job, there);
            if there {
                referred.insert(link.sha256);
            } else {
                self.put(vec![Record::Delete(Kind::ArtifactLink, link.key())]).await?;
            }
        }
        Ok(referred)
    }

    async fn all<D: orlop_core::ports::fleet_store::Document>(&self) -> Result<Vec<D>, Error> {
        let (mut all, mut page) = (Vec::new(), Page::first(MAX_PAGE));
        loop {
            let found = self.store().list::<D>(&EntryFilter::default(), &page).await;
            let found = found.map_err(|wrong| error::port(&wrong))?;
            all.extend(found.items);
            match found.next {
                Some(next) => page = Page::after(next, MAX_PAGE),
                None => return Ok(all),
            }
        }
    }
}
