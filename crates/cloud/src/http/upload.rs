//! Small files on their way to a service: one request with the whole of it. Owns what an answer means; the token is sent to
//! that host only and appears in no message.

use orlop_core::error::{Class, Problem};
use reqwest::StatusCode;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};

use super::HttpDownload;
use super::error::{failed, refused};
use super::redirect::Trail;

/// What is uploaded.
#[derive(Clone, Debug)]
pub struct Upload {
    /// Where to.
    pub url: String,
    /// SHA-256 of the content, in hexadecimal, for the service to compare.
    pub sha256: String,
    /// All of it.
    pub content: Vec<u8>,
}

/// Header with the SHA-256 of an upload.
pub const DIGEST: &str = "x-orlop-sha256";

impl HttpDownload {
    /// PUTs a file under a bearer token. A redirect is an error: the token is for this host.
    ///
    /// # Errors
    /// Invalid when it is too large or the URL is none; Exists when something else is in its place; Denied when the token is not
    /// taken; Transient for what may pass.
    pub async fn put(&self, upload: &Upload, token: &str) -> Result<(), Problem> {
        let trail = Trail::begin(&upload.url)?;
        let mut secret = HeaderValue::try_from(format!("Bearer {token}"))
            .map_err(|_| Problem::new(Class::Invalid, "the token cannot be sent as a header"))?;
        secret.set_sensitive(true);
        let request = self.client.put(trail.url().clone()).header(AUTHORIZATION, secret);
        let request = request.header(CONTENT_TYPE, "application/octet-stream").header(DIGEST, &upload.sha256);
        let response = request.body(upload.content.clone()).send().await;
        let response = response.map_err(|error| failed(trail.url(), &error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(());
        }
        let mut error = refused(trail.url(), &response);
        error.class = match status {
            StatusCode::PAYLOAD_TOO_LARGE => Class::Invalid,
            StatusCode::CONFLICT => Class::Exists,
            StatusCode::NOT_FOUND => Class::Denied,
            _ => error.class,
        };
        error.reason = None;
        Err(error)
    }
}
