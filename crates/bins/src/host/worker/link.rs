//! The way to a server: the port between an agent and whatever carries its frames (gRPC, or a channel in the same program).
//! Never interprets a frame.

use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;
use tokio::sync::mpsc;

use crate::wire::frame::{ServerFrame, WorkerFrame};
use crate::wire::grpc::ArtifactClient;
use crate::wire::status::{Heartbeat, HeartbeatResponse};
use crate::wire::worker::{Registered, Registration};

/// Why a call or stream failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// No answer, or the connection broke: try again, elsewhere too.
    #[error("the server cannot be reached: {0}")]
    Unreachable(String),
    /// The server is busy or not the leader: try again, elsewhere too, after this long.
    #[error("the server asks to wait: {0}")]
    Later(String, Duration),
    /// The session is gone: register again.
    #[error("the session is over: {0}")]
    SessionOver(String),
    /// Token, certificate, version or id are refused: trying again helps only after somebody changed something.
    #[error("the server refuses this worker: {0}")]
    Refused(String),
    /// The certificate of the worker is not good any more, as after `orlop workers revoke`: what it runs is not the fleet's any more.
    #[error("this worker is shut out: {0}")]
    ShutOut(String),
}

/// A stream of frames both ways. Frames that come have passed their checks.
pub struct Stream {
    /// To the server. Its end closes the stream.
    pub out: mpsc::Sender<WorkerFrame>,
    /// From the server; an error is the last.
    pub back: BoxStream<'static, Result<ServerFrame, LinkError>>,
}

/// The way to a server, or to several of which one leads.
#[async_trait]
pub trait Link: Send + Sync + std::fmt::Debug {
    /// Registers the worker.
    ///
    /// # Errors
    /// See [`LinkError`].
    async fn register(&self, registration: Registration) -> Result<Registered, LinkError>;

    /// Opens a stream with its first frame.
    ///
    /// # Errors
    /// See [`LinkError`].
    async fn open(&self, hello: WorkerFrame) -> Result<Stream, LinkError>;

    /// A sign of life while no stream is up.
    ///
    /// # Errors
    /// See [`LinkError`].
    async fn heartbeat(&self, beat: Heartbeat) -> Result<HeartbeatResponse, LinkError>;

    /// Whether the worker's certificate is to be renewed, which registering again does. Said once for a while.
    fn wants_renewal(&self) -> bool {
        false
    }

    /// The way for artifacts.
    ///
    /// # Errors
    /// See [`LinkError`].
    async fn artifacts(&self) -> Result<ArtifactClient, LinkError> {
        Err(LinkError::Refused("artifacts cannot be sent this way".to_owned()))
    }

    /// The next call goes to the next server of several.
    fn rotate(&self);
}
