//! Inputs on their way into a pod: all of them are there, byte for byte, before the command starts. Owns the order
//! of that and what is said of one that is not available.

use std::fs::{self, File, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use orlop_core::error::{Class, Problem};
use orlop_core::helper::{Content, Fetch, FetchOrder, Modes, Source};
use orlop_core::ports::artifact::ArtifactStore as _;
use orlop_core::spec::status::ArtifactLocation;

use super::{Keys, clear, making};
use crate::artifact::{CasStore, Limits, UploadStore};
use crate::download::Download as _;
use crate::http::{HttpDownload, Options};
use crate::retry::attempt;
use crate::s3::Object;

/// Tries of one input, about a minute with their delays.
const TRIES: u32 = 6;
/// The kind of locations in a content-addressed store.
const KIND: &str = "cas";

/// Fetches everything.
pub(super) async fn all(order: &FetchOrder, keys: &Keys) -> Result<(), Problem> {
    if let Some(place) = &order.install {
        install(Path::new(place))?;
    }
    if order.fetch.is_empty() {
        return Ok(());
    }
    let scratch = PathBuf::from(&order.scratch);
    clear(&scratch)?;
    making(&scratch, Modes::default())?;
    let limits = Limits { max_bytes: order.max_bytes, ..Limits::default() };
    let fetcher = Fetcher {
        keys,
        modes: order.modes,
        uploads: UploadStore::open(&scratch)?,
        store: CasStore::open(&scratch, limits)?,
        download: HttpDownload::new(Options { max_bytes: order.max_bytes, ..Options::default() })?,
        limits,
    };
    for fetch in &order.fetch {
        attempt(TRIES, || fetcher.one(fetch)).await.map_err(|error| {
            let class = error.class;
            Problem::new(class, format!("input artifact {} is not available: {}", fetch.name, error.chain()))
        })?;
    }
    clear(&scratch)
}

/// Puts this very program where the command is to run under it.
fn install(place: &Path) -> Result<(), Problem> {
    let failed = |error: io::Error| {
        Problem::new(Class::Denied, format!("the helper cannot be put at {}", place.display())).because(error)
    };
    if let Some(folder) = place.parent() {
        making(folder, Modes::default())?;
    }
    clear(place)?;
    let program = std::env::current_exe().map_err(failed)?;
    fs::copy(program, place).map_err(failed)?;
    fs::set_permissions(place, Permissions::from_mode(0o755)).map_err(failed)
}

/// Where a tree is that goes into the root of a volume, until it is whole.
const HALF: &str = ".orlop-half";

/// Removes what is in a folder, which stays.
fn empty(folder: &Path) -> Result<(), Problem> {
    let failed = |error: io::Error| {
        Problem::new(Class::Denied, format!("{} cannot be emptied", folder.display())).because(error)
    };
    for entry in fs::read_dir(folder).map_err(failed)? {
        clear(&entry.map_err(failed)?.path())?;
    }
    Ok(())
}

/// Lets the entries of a tree appear in a folder.
fn spread(half: &Path, folder: &Path) -> Result<(), Problem> {
    if !fs::symlink_metadata(half)?.is_dir() {
        let message = format!("it is one file, and a volume is mounted at {}; choose a path below", folder.display());
        clear(half)?;
        return Err(Problem::new(Class::Invalid, message));
    }
    for entry in fs::read_dir(half)? {
        let entry = entry?;
        fs::rename(entry.path(), folder.join(entry.file_name()))?;
    }
    Ok(fs::remove_dir(half)?)
}

/// What fetches.
struct Fetcher<'k> {
    keys: &'k Keys,
    modes: Modes,
    uploads: UploadStore,
    store: CasStore,
    download: HttpDownload,
    limits: Limits,
}

impl Fetcher<'_> {
    async fn one(&self, fetch: &Fetch) -> Result<(), Problem> {
        // Without a trailing slash, behind which a link would be followed.
        let target: PathBuf = Path::new(&fetch.target).components().collect();
        if !fetch.into {
            clear(&target)?;
            if let Some(folder) = target.parent() {
                making(folder, self.modes)?;
            }
            return self.bring(fetch, &target).await;
        }
        empty(&target)?;
        let half = target.join(HALF);
        self.bring(fetch, &half).await?;
        spread(&half, &target)
    }

    async fn bring(&self, fetch: &Fetch, target: &Path) -> Result<(), Problem> {
        match &fetch.from {
            Source::Http(source) => {
                self.download.fetch(source, target).await?;
                Ok(fs::set_permissions(target, Permissions::from_mode(self.modes.file))?)
            }
            Source::File { path, content } => {
                self.take_in(Path::new(path), content)?;
                self.deliver(content, fetch.unpack, target).await
            }
            Source::S3 { object, content } => {
                let copy = self.uploads.unfinished()?;
                Object::new(object, self.keys.of(object)?)?.fetch(&self.download, &copy).await?;
                self.uploads.adopt(copy, &content.sha256)?;
                self.deliver(content, fetch.unpack, target).await
            }
        }
    }

    /// Delivers what was taken in.
    async fn deliver(&self, content: &Content, unpack: bool, target: &Path) -> Result<(), Problem> {
        let location = ArtifactLocation {
            kind: KIND.to_owned(),
            reference: format!("sha256/{}{}", content.sha256, content.packing),
            size_bytes: content.size_bytes,
            sha256: content.sha256.clone(),
        };
        self.store.get(&location, None, unpack, target).await
    }

    /// Takes a mounted file in, if it is what it should be.
    fn take_in(&self, path: &Path, content: &Content) -> Result<(), Problem> {
        let mut file = File::open(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Problem::new(Class::NotFound, "it is not stored any more; run its step again"),
            _ => Problem::new(Class::Denied, format!("{} cannot be read", path.display())).because(error),
        })?;
        // One that grows meanwhile has an end too.
        let most = self.limits.max_bytes;
        let mut copy = self.uploads.unfinished()?;
        if io::copy(&mut Read::take(&mut file, most.saturating_add(1)), &mut copy)? > most {
            let message = format!("it has more than {most} bytes; raise --artifact-max-bytes");
            return Err(Problem::new(Class::Invalid, message));
        }
        self.uploads.adopt(copy, &content.sha256)
    }
}
