//! What agents and clients call to send and fetch artifacts. Never repeats a call and never reads a file.

use futures::StreamExt;
use futures::stream::BoxStream;
use orlop_core::error::Problem;
use orlop_core::id::SessionId;
use tokio::sync::mpsc;
use tonic::Request;
use tonic::transport::Channel;

use super::super::MESSAGE_MAX;
use super::super::proto::v1;
use super::super::proto::v1::artifact_service_client::ArtifactServiceClient;
use super::call::{Bearer, plain, verified};

/// Pieces that wait to be sent.
const WAITING: usize = 2;

/// A connection for artifacts. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ArtifactClient {
    inner: ArtifactServiceClient<Channel>,
    bearer: Bearer,
}

impl ArtifactClient {
    /// A client over a connection, with a bearer token if it has one.
    ///
    /// # Errors
    /// The token cannot stand in a header.
    pub fn new(channel: Channel, token: Option<&str>) -> Result<Self, Problem> {
        let inner = ArtifactServiceClient::new(channel)
            .max_decoding_message_size(MESSAGE_MAX)
            .max_encoding_message_size(MESSAGE_MAX);
        Ok(Self { inner, bearer: Bearer::new(token)? })
    }

    /// The same for an agent in a session, where no certificate speaks for it.
    #[must_use]
    pub fn of_session(self, session: SessionId) -> Self {
        Self { bearer: self.bearer.of_session(session), ..self }
    }

    fn request<T>(&self, message: T) -> Request<T> {
        self.bearer.unary(message)
    }

    /// Begins an upload, or asks how far one is.
    ///
    /// # Errors
    /// The caller may not, or its quota is used up.
    pub async fn begin(&self, beginning: v1::BeginUploadRequest) -> Result<v1::BeginUploadResponse, Problem> {
        verified(self.inner.clone().begin(self.request(beginning)).await.map_err(plain)?.into_inner())
    }

    /// Sends chunks of one upload in their order; each answer is how many of its bytes are stored.
    ///
    /// # Errors
    /// The stream cannot be opened.
    pub async fn upload(
        &self,
        chunks: BoxStream<'static, v1::UploadRequest>,
    ) -> Result<BoxStream<'static, Result<u64, Problem>>, Problem> {
        // By way of a queue: the compiler cannot show of a boxed stream in a call that threads may hand the call on.
        let (sender, receiver) = mpsc::channel(WAITING);
        tokio::spawn(async move {
            let mut chunks = chunks;
            while let Some(chunk) = chunks.next().await {
                if sender.send(chunk).await.is_err() {
                    return;
                }
            }
        });
        let chunks = futures::stream::unfold(receiver, |mut receiver| async {
            let chunk = receiver.recv().await?;
            Some((chunk, receiver))
        });
        let request = self.bearer.stream(chunks);
        let answers = self.inner.clone().upload(request).await.map_err(plain)?.into_inner();
        Ok(answers.map(|answer| answer.map(|answer| answer.committed).map_err(plain)).boxed())
    }

    /// Ends an upload.
    ///
    /// # Errors
    /// The content is not what was announced.
    pub async fn finalize(&self, end: v1::FinalizeUploadRequest) -> Result<v1::Artifact, Problem> {
        verified(self.inner.clone().finalize(self.request(end)).await.map_err(plain)?.into_inner())
    }

    /// Fetches the content of an artifact; its SHA-256 is for the caller to check.
    ///
    /// # Errors
    /// There is none that the caller may see.
    pub async fn download(
        &self,
        download: v1::DownloadRequest,
    ) -> Result<BoxStream<'static, Result<v1::DownloadResponse, Problem>>, Problem> {
        let request = self.bearer.stream(download);
        let chunks = self.inner.clone().download(request).await.map_err(plain)?.into_inner();
        Ok(chunks.map(|chunk| chunk.map_err(plain)).boxed())
    }
}
