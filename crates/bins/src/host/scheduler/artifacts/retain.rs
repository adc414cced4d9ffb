//! How long artifacts stay: some time after the last job that refers to them, and an upload some time after it began.
//!
//! The walk decides by what it has read, and does it by what it reads again under the lock: an upload or a pin in between
//! keeps the artifact. The document goes before the file, so that none is shown that is not there; a file without a document
//! is what a crash has left, and goes with the next walk.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use orlop_core::error::Problem;
use orlop_core::id::JobId;
use orlop_core::ports::fleet_store::{
    Artifact as Stored, ArtifactLink, Document, Documents as _, EntryFilter, Kind, MAX_PAGE, Page, Record, Upload,
};
use orlop_core::time::Time;

use super::super::Handle;
use super::NAMED;

/// Records of one transaction.
const BATCH: usize = 1000;
/// Between two parts of the walk, so that others come in.
const BREATH: Duration = Duration::from_millis(5);

/// What a walk has removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Artifacts that nothing referred to.
    pub artifacts: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Uploads that rested too long.
    pub uploads: u64,
    /// Links of jobs that are gone.
    pub links: u64,
    /// Files without a document, and documents without a file.
    pub orphans: u64,
}

/// A digest in 32 bytes. Others than digests are not stored.
pub(super) fn number(sha256: &str) -> Option<(u128, u128)> {
    let (high, low) = sha256.split_at_checked(32)?;
    Some((u128::from_str_radix(high, 16).ok()?, u128::from_str_radix(low, 16).ok()?))
}

/// What links say.
#[derive(Default)]
pub(super) struct Links {
    /// Digests that jobs refer to.
    referred: BTreeSet<(u128, u128)>,
    /// Keys of what tenants call a digest.
    names: BTreeMap<(u128, u128), Vec<String>>,
    gone: u64,
}

/// The pages of a table.
pub(super) struct Pages<'a, D> {
    handle: &'a Handle,
    filter: EntryFilter,
    next: Option<Page<String>>,
    of: std::marker::PhantomData<fn() -> D>,
}

impl<D: Document> Pages<'_, D> {
    /// The next page; none after the last one.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<D>>, Problem> {
        let Some(page) = self.next.take() else { return Ok(None) };
        let found = self.handle.store().list::<D>(&self.filter, &page).await;
        let found = found?;
        self.next = found.next.map(|next| Page::after(next, MAX_PAGE));
        Ok(Some(found.items))
    }
}

impl Handle {
    /// Documents whose keys begin so.
    pub(super) fn pages<D: Document>(&self, prefix: &str) -> Pages<'_, D> {
        let filter = EntryFilter { prefix: prefix.to_owned(), ..EntryFilter::default() };
        Pages { handle: self, filter, next: Some(Page::first(MAX_PAGE)), of: std::marker::PhantomData }
    }

    /// Removes uploads that rest too long, links of jobs that are gone, artifacts that no job has referred to for a while, and
    /// what a crash has left. Does nothing where no artifacts are kept.
    ///
    /// # Errors
    /// As of the store and the disk; what was not removed is removed another time.
    pub async fn retain_artifacts(&self, unreferenced: Duration) -> Result<Swept, Problem> {
        let mut swept = Swept::default();
        if self.options().artifacts.is_none() {
            return Ok(swept);
        }
        let now = self.clock().wall();
        self.retain_uploads(now, &mut swept).await?;
        let links = self.links().await?;
        swept.links = links.gone;
        for shard in 0..=u8::MAX {
            self.shard(shard, now, unreferenced, &links, &mut swept).await?;
            tokio::time::sleep(BREATH).await;
        }
        Ok(swept)
    }

    /// Gives uploads up, and removes files of uploads that are not known.
    async fn retain_uploads(&self, now: Time, swept: &mut Swept) -> Result<(), Problem> {
        // Read first: an upload that begins meanwhile has a document before it has a file.
        let files = self.on_backend(|backend| backend.uploads()).await?;
        let mut known = BTreeSet::new();
        let mut uploads = self.pages::<Upload>("");
        while let Some(page) = uploads.next().await? {
            for upload in page {
                if upload.expires_at <= now {
                    let mut stored_bytes = self.counted().await?;
                    self.put(vec![Record::Delete(Kind::Upload, upload.key())]).await?;
                    let id = upload.id.clone();
                    self.on_backend(move |backend| backend.discard(&id)).await?;
                    stored_bytes.left(&upload.id);
                    swept.uploads += 1;
                }
                known.insert(upload.id);
            }
        }
        for id in files.into_iter().filter(|id| !known.contains(id)) {
            let _alone = self.shared.uploads.lock().await;
            let there: Option<Upload> = self.store().get(&id).await?;
            if there.is_none() {
                self.on_backend(move |backend| backend.discard(&id)).await?;
                swept.orphans += 1;
            }
        }
        Ok(())
    }

    /// Reads all links; those of jobs that are gone go.
    pub(super) async fn links(&self) -> Result<Links, Problem> {
        let mut links = Links::default();
        // Links of one job follow one another.
        let mut last: Option<(JobId, bool)> = None;
        let mut pages = self.pages::<ArtifactLink>("");
        while let Some(page) = pages.next().await? {
            let mut gone = Vec::new();
            for link in page {
                let Some(digest) = number(&link.sha256) else { continue };
                if link.job == NAMED {
                    links.names.entry(digest).or_default().push(link.key());
                    continue;
                }
                let there = match last.filter(|(job, _)| *job == link.job) {
                    Some((_, there)) => there,
                    None => self.store().job(link.job).await?.is_some(),
                };
                last = Some((link.job, there));
                if there {
                    links.referred.insert(digest);
                } else {
                    gone.push(Record::Delete(Kind::ArtifactLink, link.key()));
                }
            }
            links.gone += gone.len() as u64;
            for batch in gone.chunks(BATCH) {
                self.put(batch.to_vec()).await?;
            }
            tokio::time::sleep(BREATH).await;
        }
        Ok(links)
    }

    /// Goes through the artifacts whose digests begin with a byte.
    async fn shard(
        &self,
        shard: u8,
        now: Time,
        unreferenced: Duration,
        links: &Links,
        swept: &mut Swept,
    ) -> Result<(), Problem> {
        let files = self.on_backend(move |backend| backend.shard(shard)).await?;
        let mut files: BTreeSet<String> = files.into_iter().collect();
        let mut pages = self.pages::<Stored>(&format!("{shard:02x}"));
        while let Some(page) = pages.next().await? {
            for stored in page {
                let there = files.remove(&stored.sha256);
                let referred = number(&stored.sha256).is_some_and(|digest| links.referred.contains(&digest));
                let old = stored.unreferenced_at.is_some_and(|since| since.plus(unreferenced) <= now);
                if !there || old || referred == stored.unreferenced_at.is_some() {
                    self.settle(&stored.sha256, referred, now, unreferenced, links, swept).await?;
                }
            }
        }
        for sha256 in files {
            let _alone = self.shared.uploads.lock().await;
            let known: Option<Stored> = self.store().get(&sha256).await?;
            if known.is_none() {
                self.on_backend(move |backend| backend.remove(&sha256)).await?;
                swept.orphans += 1;
            }
        }
        Ok(())
    }

    /// Writes down whether jobs refer to an artifact, or removes it, as it stands now.
    pub(super) async fn settle(
        &self,
        sha256: &str,
        referred: bool,
        now: Time,
        unreferenced: Duration,
        links: &Links,
        swept: &mut Swept,
    ) -> Result<(), Problem> {
        let mut stored_bytes = self.counted().await?;
        let found: Option<Stored> = self.store().get(sha256).await?;
        let Some(stored) = found else { return Ok(()) };
        let key = sha256.to_owned();
        let there = self.on_backend(move |backend| backend.content(&key)).await?.is_some();
        let old = stored.unreferenced_at.is_some_and(|since| since.plus(unreferenced) <= now);
        if there && (referred || !old) {
            if referred == stored.unreferenced_at.is_some() {
                let unreferenced_at = (!referred).then_some(now);
                let stored = Stored { unreferenced_at, ..stored };
                self.put(vec![Record::put(&stored)?]).await?;
            }
            return Ok(());
        }
        let mut records = vec![Record::Delete(Kind::Artifact, stored.key())];
        for name in number(sha256).and_then(|digest| links.names.get(&digest)).into_iter().flatten() {
            // Another artifact may have the name by now.
            let link: Option<ArtifactLink> = self.store().get(name).await?;
            if link.is_some_and(|link| link.sha256 == sha256) {
                records.push(Record::Delete(Kind::ArtifactLink, name.clone()));
            }
        }
        self.put(records).await?;
        stored_bytes.removed(&stored);
        if there {
            let key = sha256.to_owned();
            self.on_backend(move |backend| backend.remove(&key)).await?;
            (swept.artifacts, swept.bytes) = (swept.artifacts + 1, swept.bytes + stored.bytes);
        } else {
            swept.orphans += 1;
        }
        Ok(())
    }
}
