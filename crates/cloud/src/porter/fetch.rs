//! Inputs on their way into a pod (rule R31): all of them are there, byte for byte, before the command starts. Owns the order
//! of that and what is said of one that cannot be had.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use orlop_core::error::{Class, PortError};
use orlop_core::porter::{Content, Fetch, FetchOrder, Source};
use orlop_core::ports::artifact::ArtifactStore as _;
use orlop_core::spec::status::ArtifactLocation;

use super::{clear, making};
use crate::artifact::{CasStore, Limits, Shelf};
use crate::download::Download as _;
use crate::http::{HttpDownload, Options};
use crate::retry::attempt;

/// Tries of one input, about a minute with their delays.
const TRIES: u32 = 6;
/// The kind of locations in a content-addressed store.
const KIND: &str = "cas";

/// Fetches everything.
pub(super) async fn all(order: &FetchOrder) -> Result<(), PortError> {
    if let Some(place) = &order.install {
        install(Path::new(place))?;
    }
    if order.fetch.is_empty() {
        return Ok(());
    }
    let scratch = PathBuf::from(&order.scratch);
    clear(&scratch)?;
    making(&scratch)?;
    let limits = Limits { max_bytes: order.max_bytes, ..Limits::default() };
    let hand = Hand {
        shelf: Shelf::open(&scratch)?,
        store: CasStore::open(&scratch, limits)?,
        download: HttpDownload::new(Options { max_bytes: order.max_bytes, ..Options::default() })?,
        limits,
    };
    for fetch in &order.fetch {
        attempt(TRIES, || hand.one(fetch)).await.map_err(|error| {
            let class = error.class;
            PortError::new(class, format!("input artifact {} cannot be had: {}", fetch.name, error.chain()))
        })?;
    }
    clear(&scratch)
}

/// Puts this very program where the command is to run under it.
fn install(place: &Path) -> Result<(), PortError> {
    let failed = |error: io::Error| {
        PortError::new(Class::Denied, format!("the helper cannot be put at {}", place.display())).because(error)
    };
    if let Some(folder) = place.parent() {
        making(folder)?;
    }
    clear(place)?;
    let program = std::env::current_exe().map_err(failed)?;
    fs::copy(program, place).map_err(failed)?;
    fs::set_permissions(place, Permissions::from_mode(0o755)).map_err(failed)
}

/// What fetches.
struct Hand {
    shelf: Shelf,
    store: CasStore,
    download: HttpDownload,
    limits: Limits,
}

impl Hand {
    async fn one(&self, fetch: &Fetch) -> Result<(), PortError> {
        // Without a trailing slash, behind which a link would be followed.
        let target: PathBuf = Path::new(&fetch.target).components().collect();
        clear(&target)?;
        if let Some(folder) = target.parent() {
            making(folder)?;
        }
        match &fetch.from {
            Source::Http(source) => self.download.fetch(source, &target).await,
            Source::File { path, content } => {
                self.take_in(Path::new(path), content)?;
                let location = ArtifactLocation {
                    kind: KIND.to_owned(),
                    reference: format!("sha256/{}{}", content.sha256, content.packing),
                    size_bytes: content.size_bytes,
                    sha256: content.sha256.clone(),
                };
                self.store.get(&location, None, fetch.unpack, &target).await
            }
        }
    }

    /// Takes a mounted file in, if it is what it should be.
    fn take_in(&self, path: &Path, content: &Content) -> Result<(), PortError> {
        let mut file = File::open(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                PortError::new(Class::NotFound, "it is not stored any more; let its step run again")
            }
            _ => PortError::new(Class::Denied, format!("{} cannot be read", path.display())).because(error),
        })?;
        let bytes = file.metadata()?.len();
        if bytes > self.limits.max_bytes {
            let message = format!("it has {bytes} bytes; raise --artifact-max-bytes");
            return Err(PortError::new(Class::Invalid, message));
        }
        let mut copy = self.shelf.unfinished()?;
        io::copy(&mut file, &mut copy)?;
        self.shelf.adopt(copy, &content.sha256)
    }
}
