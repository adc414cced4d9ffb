//! The service that takes and gives artifacts, for a server that implements [`ArtifactHost`], and its client. Never stores a byte
//! and never repeats a call.

use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use orlop_core::error::Problem;
use orlop_core::id::SessionId;
use tokio::sync::mpsc;
use tonic::transport::Channel;
use tonic::{Request, Response, Status, Streaming};

use super::super::MESSAGE_MAX;
use super::super::artifact::{Beginning, Download};
use super::super::bound::checked;
use super::super::problem::status;
use super::super::proto::v1;
use super::super::proto::v1::artifact_service_client::ArtifactServiceClient;
use super::super::proto::v1::artifact_service_server::ArtifactService;
use super::Caller;
use super::call::{Bearer, bad, plain, verified};
use super::job::Answers;

/// What a server does for artifacts. The caller is not authorised yet: that is the first thing each of these does.
#[async_trait]
pub trait ArtifactHost: Send + Sync + 'static {
    /// Begins an upload, or says how far one is.
    ///
    /// # Errors
    /// The caller may not, or its quota is used up.
    async fn begin(&self, caller: Caller, beginning: Beginning) -> Result<v1::BeginUploadResponse, Problem>;

    /// Takes one chunk; answers with the bytes of the upload that are stored.
    ///
    /// # Errors
    /// There is no such upload, or the chunk does not begin where the stored bytes end.
    async fn upload(&self, caller: Caller, chunk: v1::UploadRequest) -> Result<u64, Problem>;

    /// Ends an upload: from then on the artifact is there.
    ///
    /// # Errors
    /// The content is not what was announced.
    async fn finalize(&self, caller: Caller, end: v1::FinalizeUploadRequest) -> Result<v1::Artifact, Problem>;

    /// The content of an artifact.
    ///
    /// # Errors
    /// There is none that the caller may see.
    async fn download(&self, caller: Caller, download: Download) -> Result<Answers<v1::DownloadResponse>, Problem>;
}

/// The service over a host.
pub(super) struct ArtifactApi(pub(super) Arc<dyn ArtifactHost>);

/// Takes one chunk of a stream.
async fn store(
    host: Arc<dyn ArtifactHost>,
    caller: Caller,
    chunk: Result<v1::UploadRequest, Status>,
) -> Result<v1::UploadResponse, Status> {
    let committed = host.upload(caller, checked(chunk?).map_err(bad)?).await.map_err(status)?;
    Ok(v1::UploadResponse { committed })
}

#[tonic::async_trait]
impl ArtifactService for ArtifactApi {
    async fn begin(
        &self,
        request: Request<v1::BeginUploadRequest>,
    ) -> Result<Response<v1::BeginUploadResponse>, Status> {
        let caller = Caller::of(&request);
        let beginning = request.into_inner().try_into().map_err(bad)?;
        Ok(Response::new(self.0.begin(caller, beginning).await.map_err(status)?))
    }

    type UploadStream = BoxStream<'static, Result<v1::UploadResponse, Status>>;

    async fn upload(
        &self,
        request: Request<Streaming<v1::UploadRequest>>,
    ) -> Result<Response<Self::UploadStream>, Status> {
        let (caller, host) = (Caller::of(&request), Arc::clone(&self.0));
        // One after the other: each begins where the one before ended.
        let answers = request.into_inner().then(move |chunk| store(Arc::clone(&host), caller.clone(), chunk));
        let until_the_first_error = answers.scan(false, |failed, answer| {
            let go_on = !*failed;
            *failed |= answer.is_err();
            std::future::ready(go_on.then_some(answer))
        });
        Ok(Response::new(until_the_first_error.boxed()))
    }

    async fn finalize(&self, request: Request<v1::FinalizeUploadRequest>) -> Result<Response<v1::Artifact>, Status> {
        let caller = Caller::of(&request);
        let end = checked(request.into_inner()).map_err(bad)?;
        Ok(Response::new(self.0.finalize(caller, end).await.map_err(status)?))
    }

    type DownloadStream = BoxStream<'static, Result<v1::DownloadResponse, Status>>;

    async fn download(&self, request: Request<v1::DownloadRequest>) -> Result<Response<Self::DownloadStream>, Status> {
        let caller = Caller::of(&request);
        let download = request.into_inner().try_into().map_err(bad)?;
        let chunks = self.0.download(caller, download).await.map_err(status)?;
        Ok(Response::new(chunks.map(|chunk| chunk.map_err(status)).boxed()))
    }
}

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
