//! `orlop flow artifacts --target fleet`: artifacts of a server's flow. Owns the way of their bytes to this machine.

use orlop_cloud::artifact::{CasStore, Limits};

use super::super::super::artifacts::{ArtifactsArgs, chosen, show, write};
use super::super::super::failure::{Exit, Failure};
use super::super::artifacts::fetch_to;
use super::Remote;

/// Lists artifacts of a flow of a server, or fetches them and writes them out.
pub(super) async fn artifacts(args: ArtifactsArgs) -> Result<Exit, Failure> {
    let remote = Remote::of(&args.globals)?;
    let mut chosen = chosen(&remote.object(&args.name, None).await?, &args)?;
    if let Some(dir) = &args.to {
        write(&mut chosen, &args, async |artifact| {
            let Some(location) = &artifact.location else { return Ok(()) };
            let fetched = Fetched::below(dir)?;
            fetch_to(&remote.client, &location.sha256, &fetched.store.place(location)?).await?;
            artifact.deliver(&fetched.store, args.force).await
        })
        .await?;
    }
    show(&chosen, &args)
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
            tracing::warn!(%error, path = %self.folder.display(), "what was fetched is left behind");
        }
    }
}
