//! The fleet's store of a server: one file on this machine, or a database that several servers share.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use orlop_cloud::artifact::{ArtifactBackend, UploadStore};
use orlop_cloud::logs::{LogOptions, LogStore};
#[cfg(feature = "postgres")]
use orlop_cloud::store::postgres::fleet::{Contents, PostgresFleet, PostgresOptions};
use orlop_cloud::store::sqlite::fleet::{Durability, SqliteFleet};
use orlop_core::error::Problem;
use orlop_core::ports::fleet_store::FleetStore;

/// Where the store is.
#[derive(Clone, Debug)]
pub(crate) enum StorePlace {
    /// A file; one server at a time opens it.
    Sqlite {
        /// The file.
        path: PathBuf,
        /// When a commit counts as written.
        durability: Durability,
        /// It is taken also where it is not the store that was here before.
        accept: bool,
    },
    /// A database; one of its servers leads.
    #[cfg(feature = "postgres")]
    Postgres(PostgresOptions),
}

impl StorePlace {
    /// Opens it.
    ///
    /// # Errors
    /// Conflict while another server has the file; Transient when the database cannot be reached; others when it cannot be
    /// used at all.
    pub(crate) async fn open(&self) -> Result<OpenStore, Problem> {
        match self {
            Self::Sqlite { path, durability, accept } => {
                let store = match accept {
                    true => SqliteFleet::accept(path, *durability).await,
                    false => SqliteFleet::open(path, *durability).await,
                };
                store.map(|store| OpenStore::Sqlite(Arc::new(store)))
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(options) => {
                PostgresFleet::open(options.clone()).await.map(|store| OpenStore::Postgres(Arc::new(store)))
            }
        }
    }
}

/// A store that is open.
#[derive(Debug)]
pub(crate) enum OpenStore {
    /// A file.
    Sqlite(Arc<SqliteFleet>),
    /// A database.
    #[cfg(feature = "postgres")]
    Postgres(Arc<PostgresFleet>),
}

impl OpenStore {
    /// The store behind its port.
    pub(crate) fn fleet(&self) -> Arc<dyn FleetStore> {
        match self {
            Self::Sqlite(store) => Arc::<SqliteFleet>::clone(store),
            #[cfg(feature = "postgres")]
            Self::Postgres(store) => Arc::<PostgresFleet>::clone(store),
        }
    }

    /// Where logs are kept: in a folder, or in the database. Servers that share one keep them in the same place.
    ///
    /// # Errors
    /// Conflict when other servers keep them elsewhere; the folder or the database cannot be used.
    pub(crate) async fn logs(&self, folder: Option<&Path>, accept: bool) -> Result<LogStore, Problem> {
        #[cfg(feature = "postgres")]
        if let Self::Postgres(store) = self {
            store.settle(Contents::Logs, folder, accept).await?;
            if folder.is_none() {
                return Ok(LogStore::new(store.logs()));
            }
        }
        let _ = accept;
        LogStore::folder(folder.unwrap_or(Path::new("orlop-logs")), LogOptions::default())
    }

    /// Where artifacts are kept; the same.
    ///
    /// # Errors
    /// As of [`OpenStore::logs`].
    pub(crate) async fn artifacts(
        &self,
        folder: Option<&Path>,
        accept: bool,
    ) -> Result<Arc<dyn ArtifactBackend>, Problem> {
        #[cfg(feature = "postgres")]
        if let Self::Postgres(store) = self {
            store.settle(Contents::Artifacts, folder, accept).await?;
            if folder.is_none() {
                return Ok(Arc::new(store.artifacts()));
            }
        }
        let _ = accept;
        Ok(Arc::new(UploadStore::open(folder.unwrap_or(Path::new("orlop-artifacts")))?))
    }

    /// Waits for what is being written, if nobody else uses it any more, and closes it.
    pub(crate) async fn close(self) {
        match self {
            Self::Sqlite(store) => {
                if let Some(store) = Arc::into_inner(store) {
                    store.close().await;
                }
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(store) => {
                if let Some(store) = Arc::into_inner(store) {
                    store.close().await;
                }
            }
        }
    }
}
