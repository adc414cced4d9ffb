//! Requests of somebody who signs them, such as for an object of a store. Owns that they go to the host they are signed for and
//! to no other, and that an answer that is written down keeps to the limit.

use orlop_core::error::Problem;
use reqwest::header::{ACCEPT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use reqwest::{Body, Method, Response, Url};
use tempfile::NamedTempFile;
use tokio::fs::File;

use super::error::{failed, writing};
use super::{HttpDownload, ReceiveError};

impl HttpDownload {
    /// The answer to a request of somebody who signs it, whatever its status. A redirect is an answer: the signature is for
    /// this host. The body is of this media type; of none where it is empty.
    pub(crate) async fn send(
        &self,
        method: Method,
        url: &Url,
        kind: &str,
        body: Body,
        bytes: u64,
    ) -> Result<Response, Problem> {
        let mut request = self.client.request(method, url.clone()).header(ACCEPT_ENCODING, "identity");
        if !kind.is_empty() {
            request = request.header(CONTENT_TYPE, kind);
        }
        let request = request.header(CONTENT_LENGTH, bytes).body(body);
        request.send().await.map_err(|error| failed(url, &error))
    }

    /// Writes an answer into a file, within the limit.
    pub(crate) async fn take_down(&self, response: Response, url: &Url, into: &NamedTempFile) -> Result<(), Problem> {
        let unwritten = |error| writing(into.path(), error);
        let mut file = File::from_std(into.reopen().map_err(unwritten)?);
        self.write(response, url, &mut file).await.map_err(|trouble| match trouble {
            ReceiveError::Port(error) => error,
            ReceiveError::Disk(error) => unwritten(error),
        })
    }
}
