//! The HTTP client of all adapters, and downloads of artifacts by it (port [`Download`]). Owns redirects, limits and time limits. Headers of
//! a source are sent to its own host only, and never appear in a message.

mod client;
mod error;
mod redirect;
#[cfg(all(feature = "artifact", feature = "s3"))]
mod signed;
#[cfg(test)]
mod tests;
mod tls;
mod upload;

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use orlop_core::error::{Class, Problem};
use orlop_core::spec::artifact::HttpSource;
pub use reqwest::Client;
use reqwest::header::{ACCEPT_ENCODING, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Response, StatusCode, Url};
use tempfile::{NamedTempFile, TempPath};
use tokio::fs::File;
use tokio::io::AsyncWriteExt as _;

#[cfg(feature = "openstack")]
pub(crate) use self::client::why;
#[cfg(all(feature = "artifact", feature = "s3"))]
pub(crate) use self::error::refused;
use self::error::{occupied, shown, unavailable, writing};
use self::redirect::Trail;
use crate::download::Download;

pub use self::client::{ClientOptions, ProxyChoice};
pub use self::tls::Trust;
pub use self::upload::{DIGEST, Upload};

/// How large a download may be and how long it may stand still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Largest size in bytes.
    pub max_bytes: u64,
    /// How long connecting may take, name resolution and TLS included.
    pub connect_timeout: Duration,
    /// How long nothing may arrive.
    pub idle_timeout: Duration,
}

impl Default for Options {
    /// 64 GiB, 10 seconds, 60 seconds.
    fn default() -> Self {
        Self { max_bytes: 64 << 30, connect_timeout: Duration::from_secs(10), idle_timeout: Duration::from_secs(60) }
    }
}

/// Downloads over HTTP and HTTPS, with the certificates and proxies of the system.
#[derive(Clone, Debug)]
pub struct HttpDownload {
    client: Client,
    options: Options,
}

impl HttpDownload {
    /// A separate client. Needs no TLS provider to be installed.
    ///
    /// # Errors
    /// Fatal when TLS cannot be set up.
    pub fn new(options: Options) -> Result<Self, Problem> {
        Self::build(options, ProxyChoice::Environment)
    }

    /// One that goes through no proxy, whatever the environment says: what it carries is for the service that it is sent to.
    ///
    /// # Errors
    /// As of [`HttpDownload::new`].
    pub fn direct(options: Options) -> Result<Self, Problem> {
        Self::build(options, ProxyChoice::None)
    }

    fn build(options: Options, proxy: ProxyChoice<'_>) -> Result<Self, Problem> {
        let (connect_timeout, idle_timeout) = (options.connect_timeout, Some(options.idle_timeout));
        let client = ClientOptions { proxy, connect_timeout, idle_timeout, ..ClientOptions::default() }.build()?;
        Ok(Self { client, options })
    }

    /// The answer with status 200, after redirects.
    async fn get(&self, source: &HttpSource) -> Result<(Response, Trail), Problem> {
        let mut trail = Trail::begin(&source.url)?;
        let headers = headers(source)?;
        loop {
            let mut request = self.client.get(trail.url().clone()).header(ACCEPT_ENCODING, "identity");
            if trail.is_at_home() {
                request = request.headers(headers.clone());
            }
            let response = request.send().await.map_err(|error| error::failed(trail.url(), &error))?;
            match response.status() {
                StatusCode::OK => return Ok((response, trail)),
                status if redirect::is_one(status) => trail.follow(&response)?,
                _ => return Err(error::refused(trail.url(), &response)),
            }
        }
    }

    async fn write(&self, mut response: Response, url: &Url, file: &mut File) -> Result<(), ReceiveError> {
        let limit = self.options.max_bytes;
        let too_large = || ReceiveError::Port(error::too_large(url, limit));
        if response.content_length().is_some_and(|announced| announced > limit) {
            return Err(too_large());
        }
        let mut received = 0_u64;
        while let Some(chunk) =
            response.chunk().await.map_err(|error| ReceiveError::Port(error::failed(url, &error)))?
        {
            received = received.saturating_add(chunk.len() as u64);
            if received > limit {
                return Err(too_large());
            }
            file.write_all(&chunk).await.map_err(ReceiveError::Disk)?;
        }
        file.flush().await.map_err(ReceiveError::Disk)
    }
}

/// What went wrong while the answer was written down.
enum ReceiveError {
    Port(Problem),
    Disk(io::Error),
}

/// The headers of a source.
fn headers(source: &HttpSource) -> Result<HeaderMap, Problem> {
    let mut headers = HeaderMap::new();
    for (name, value) in &source.headers {
        let wrong = |what: &str| {
            let name: String = name.chars().take(64).collect();
            unavailable(Class::Invalid, format!("{what} of header `{}` cannot be sent", name.escape_debug()))
        };
        let header = HeaderName::try_from(name.as_str()).map_err(|_| wrong("the name"))?;
        let mut value = HeaderValue::try_from(value.as_str()).map_err(|_| wrong("the value"))?;
        value.set_sensitive(true);
        headers.insert(header, value);
    }
    Ok(headers)
}

/// An unfinished file beside the target, which goes away by itself.
async fn begin(target: &Path) -> Result<(File, TempPath), Problem> {
    let beside: PathBuf = target.to_owned();
    let made = tokio::task::spawn_blocking(move || {
        match std::fs::symlink_metadata(&beside) {
            Ok(_) => return Err(io::ErrorKind::AlreadyExists.into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let folder = beside.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let file: NamedTempFile = tempfile::Builder::new().prefix(".orlop-").tempfile_in(folder)?;
        file.as_file().set_permissions(Permissions::from_mode(0o644))?;
        Ok(file.into_parts())
    });
    match done(made.await)? {
        Ok((file, path)) => Ok((File::from_std(file), path)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(occupied(target)),
        Err(error) => Err(writing(target, error)),
    }
}

/// Lets the finished file appear at the target, never in place of another.
async fn arrive(file: TempPath, target: &Path) -> Result<(), Problem> {
    let place = target.to_owned();
    let moved = tokio::task::spawn_blocking(move || file.persist_noclobber(place).map_err(|error| error.error));
    match done(moved.await)? {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(occupied(target)),
        Err(error) => Err(writing(target, error)),
    }
}

fn done<T>(result: Result<T, tokio::task::JoinError>) -> Result<T, Problem> {
    result.map_err(|error| Problem::new(Class::Fatal, "a download was interrupted").because(error))
}

#[async_trait]
impl Download for HttpDownload {
    async fn fetch(&self, source: &HttpSource, target: &Path) -> Result<(), Problem> {
        let (response, trail) = self.get(source).await?;
        let (mut file, path) = begin(target).await?;
        self.write(response, trail.url(), &mut file).await.map_err(|trouble| match trouble {
            ReceiveError::Port(error) => error,
            ReceiveError::Disk(error) => writing(target, error),
        })?;
        drop(file);
        arrive(path, target).await?;
        tracing::debug!(url = %shown(trail.url()), target = %target.display(), "downloaded an artifact");
        Ok(())
    }
}
