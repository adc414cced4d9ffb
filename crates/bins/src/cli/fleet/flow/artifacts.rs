//! Artifacts of a server's flow. Owns the way of their bytes to this machine.

use orlop_cloud::artifact::{CasStore, Limits};

use super::super::super::artifacts::{Artifact, ArtifactsArgs, write};
use super::super::super::failure::Failure;
use super::super::artifacts::fetch_to;
use super::Remote;

/// Fetches artifacts and writes them out.
///
/// # Errors
/// When one cannot be fetched or written.
pub(super) async fn export(remote: &Remote, chosen: &mut [Artifact], args: &ArtifactsArgs) -> Result<(), Failure> {
    let Some(dir) = &args.to else { return Ok(()) };
    write(chosen, args, async |artifact| {
        let Some(location) = &artifact.location else { return Ok(()) };
        let fetched = Fetched::below(dir)?;
        fetch_to(&remote.client, &location.sha256, &fetched.store.place(location)?).await?;
        artifact.deliver(&fetched.store, args.force).await
    })
    .await
}

/// A store for one artifact that is fetched, which goes with this value.
struct Fetched {
    folder: std::path::PathBuf,
    store: CasStore,
}

impl Fetched {
    /// One on the disk on which it is to be written.
    fn below(dir: &std::path::Path) -> Result<Self, Failure> {
        let folder = dir.join(format!(".orlop-{}", uuid::Uuid::new_v4().simple()));
        std::fs::create_dir_all(&folder)
            .map_err(|error| Failure::io(&format!("{} cannot be written", folder.display()), &error))?;
        let store = CasStore::open(&folder, Limits::default());
        match store {
            Ok(store) => Ok(Self { folder, store }),
            Err(error) => {
                drop(std::fs::remove_dir_all(&folder));
                Err(error.into())
            }
        }
    }
}

impl Drop for Fetched {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.folder) {
            tracing::warn!(%error, path = %self.folder.display(), "the downloaded files could not be removed");
        }
    }
}
