//! Repositories by the Git program: one commit, bare, without anything that runs. Owns the order
//! of work and its limits; arguments for Git stand in `program`, the choice of hosts in `route`.

mod objects;
mod program;
mod proxy;
mod route;
#[cfg(test)]
mod tests;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::Instant;

use super::error::FetchError;
use super::scan::Scan;
use super::source::{Source, check_reference, check_subdir};
use super::tree::{self, SCAN_TIME};
use objects::Objects;
use program::Program;
use route::Doors;

pub use proxy::Proxies;

/// What to fetch.
#[derive(Debug, Clone)]
pub struct Request {
    /// From where; a folder is read by `folder`.
    pub source: Source,
    /// Branch, tag or commit; `HEAD` by default.
    pub reference: String,
    /// The folder within, or nothing for the top.
    pub subdir: String,
    /// A secret that https servers get, if any.
    pub token: Option<String>,
}

/// How a repository is fetched.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where the folders of fetches are made; each is removed again.
    pub folder: PathBuf,
    /// Whether hosts may lead to addresses that are not public.
    pub private_hosts: bool,
    /// Authorities to trust beside those of the system, as a file in PEM.
    pub ca_file: Option<PathBuf>,
    /// Proxies on the way to https. Where one is used it looks names up: what they lead to is checked as far as it is known here.
    pub proxies: Proxies,
    /// How long one fetch may take.
    pub time: Duration,
    /// How long looking through what was fetched may take.
    pub scan_time: Duration,
    /// Bytes that may be received.
    pub max_bytes: u64,
}

impl Options {
    /// The default limits: 120 s, 10 s for looking through it, 200 MiB.
    #[must_use]
    pub fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            private_hosts: false,
            ca_file: None,
            proxies: Proxies::default(),
            time: Duration::from_secs(120),
            scan_time: SCAN_TIME,
            max_bytes: 200 * 1024 * 1024,
        }
    }
}

/// Pause before the second try.
const PAUSE: Duration = Duration::from_secs(2);

/// Fetches a repository and scans it; one more try if the network failed. Nothing is left behind.
///
/// # Errors
/// Refused, not to be had, or too much of anything.
pub async fn fetch(request: &Request, options: &Options) -> Result<Scan, FetchError> {
    fetch_through(&Doors::new(options.private_hosts), request, options).await
}

async fn fetch_through(doors: &Doors, request: &Request, options: &Options) -> Result<Scan, FetchError> {
    check_reference(&request.reference)?;
    let subdir = check_subdir(&request.subdir)?;
    let mut second = false;
    loop {
        match once(doors, request, &subdir, options).await {
            Err(FetchError::Network { why, .. }) if !second => {
                tracing::debug!(%why, "fetching once more");
                second = true;
                tokio::time::sleep(PAUSE).await;
            }
            done => return done,
        }
    }
}

async fn once(doors: &Doors, request: &Request, subdir: &str, options: &Options) -> Result<Scan, FetchError> {
    let shown = request.source.to_string();
    let deadline = Instant::now() + options.time;
    let too_slow = || FetchError::TooSlow { url: shown.clone(), seconds: options.time.as_secs() };
    let route =
        tokio::time::timeout_at(deadline, route::find(doors, request, options)).await.map_err(|_| too_slow())??;
    let place = place(&options.folder)?;
    let program = Program::new(place.path(), &route, request, options)?;
    program.init(deadline).await?;
    program.fetch(&route, &request.reference, deadline, options.max_bytes).await?;
    let commit = program.commit(deadline).await.map_err(|_| FetchError::Missing { what: request.reference.clone() })?;
    let scan_deadline = Instant::now() + options.scan_time;
    let (entries, whole) = objects::list(&program, &commit, subdir, scan_deadline).await?;
    let mut objects = Objects::new(&program, &entries)?;
    let entries: Vec<_> = entries.into_iter().map(|(entry, _)| entry).collect();
    let mut scan = tree::scan(&entries, &mut objects, scan_deadline).await?;
    if !whole {
        scan.warnings.push("not the whole tree was looked at: it is too large".to_owned());
    }
    Ok(scan)
}

/// A fresh folder that nobody else may read, removed when it is dropped.
fn place(folder: &std::path::Path) -> Result<TempDir, FetchError> {
    let failed = FetchError::io("make a folder for the repository");
    std::fs::create_dir_all(folder).map_err(failed)?;
    let mut builder = tempfile::Builder::new();
    let private = Permissions::from_mode(0o700);
    builder
        .prefix("repository-")
        .permissions(private)
        .tempdir_in(folder)
        .map_err(FetchError::io("make a folder for the repository"))
}
