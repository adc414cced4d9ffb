//! The port for downloads of artifacts over HTTP. Owns the contract between a substrate and an HTTP client; opens no connection
//! itself.

use std::path::Path;

use async_trait::async_trait;
use orlop_core::error::Problem;
use orlop_core::spec::artifact::HttpSource;

/// Downloads artifacts of kind `http`.
#[async_trait]
pub trait Download: Send + Sync {
    /// GETs `source` into the file `target`, whose parent exists and which does not. Headers go to the first host only,
    /// at most 5 redirects are followed. On error nothing is left at `target`. Dropping the future ends the download.
    ///
    /// # Errors
    /// Invalid when the URL is none, after too many redirects, or beyond the size limit; NotFound or Denied for answers
    /// of the 4xx kind; Transient for the rest. Messages never hold header values.
    async fn fetch(&self, source: &HttpSource, target: &Path) -> Result<(), Problem>;
}
