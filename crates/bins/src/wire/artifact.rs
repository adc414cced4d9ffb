//! What is said about artifacts: uploads that can be gone on with, and downloads. Never stores a byte.

use bytes::Bytes;
use orlop_core::task::TaskRef;

use super::bound::{NAME_MAX, WireError, at_most, text};
use super::proto::v1;
use super::result::sha256;

/// Bytes of one chunk.
pub const UPLOAD_CHUNK: usize = 1 << 20;

/// The beginning of an upload, or of its continuation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beginning {
    /// Its name.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// SHA-256 of its content, 64 hexadecimal digits; none = not known yet.
    pub sha256: Option<String>,
    /// Of a worker: the attempt that left it.
    pub attempt: Option<TaskRef>,
    /// The upload to go on with.
    pub upload: Option<String>,
    /// Whether it is a file that can be run.
    pub executable: bool,
}

impl From<Beginning> for v1::BeginUploadRequest {
    fn from(beginning: Beginning) -> Self {
        Self {
            name: beginning.name,
            bytes: beginning.bytes,
            sha256: beginning.sha256.unwrap_or_default(),
            r#ref: beginning.attempt.map(Into::into),
            upload_id: beginning.upload.unwrap_or_default(),
            executable: beginning.executable,
        }
    }
}

fn digest(given: String) -> Result<Option<String>, WireError> {
    if given.is_empty() { Ok(None) } else { sha256("sha256", given).map(Some) }
}

fn upload(id: String) -> Result<String, WireError> {
    if id.is_empty() { Err(WireError::missing("upload_id")) } else { text("upload_id", id, NAME_MAX) }
}

impl TryFrom<v1::BeginUploadRequest> for Beginning {
    type Error = WireError;

    fn try_from(wire: v1::BeginUploadRequest) -> Result<Self, WireError> {
        if wire.name.is_empty() {
            return Err(WireError::missing("name"));
        }
        Ok(Self {
            name: text("name", wire.name, NAME_MAX)?,
            bytes: wire.bytes,
            sha256: digest(wire.sha256)?,
            attempt: wire.r#ref.map(TryInto::try_into).transpose()?,
            upload: (!wire.upload_id.is_empty()).then(|| upload(wire.upload_id)).transpose()?,
            executable: wire.executable,
        })
    }
}

/// An upload that can be sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begun {
    /// The upload.
    pub upload: String,
    /// Bytes that are there already.
    pub committed: u64,
    /// All of its content is known already: it only has to be finalized.
    pub stored: bool,
}

impl From<Begun> for v1::BeginUploadResponse {
    fn from(begun: Begun) -> Self {
        let Begun { upload: upload_id, committed, stored } = begun;
        Self { upload_id, committed, stored, chunk_bytes: UPLOAD_CHUNK as u32 }
    }
}

impl TryFrom<v1::BeginUploadResponse> for Begun {
    type Error = WireError;

    fn try_from(wire: v1::BeginUploadResponse) -> Result<Self, WireError> {
        Ok(Self { upload: upload(wire.upload_id)?, committed: wire.committed, stored: wire.stored })
    }
}

/// A piece of an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadChunk {
    /// The upload.
    pub upload: String,
    /// Where it begins.
    pub offset: u64,
    /// Its bytes, at most 1 Mi.
    pub data: Bytes,
}

impl From<UploadChunk> for v1::UploadRequest {
    fn from(chunk: UploadChunk) -> Self {
        Self { upload_id: chunk.upload, offset: chunk.offset, data: chunk.data }
    }
}

impl TryFrom<v1::UploadRequest> for UploadChunk {
    type Error = WireError;

    fn try_from(wire: v1::UploadRequest) -> Result<Self, WireError> {
        at_most("data", wire.data.len(), UPLOAD_CHUNK)?;
        Ok(Self { upload: upload(wire.upload_id)?, offset: wire.offset, data: wire.data })
    }
}

/// The end of an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finalization {
    /// The upload.
    pub upload: String,
    /// SHA-256 of all its bytes as its sender worked it out.
    pub sha256: String,
}

impl From<Finalization> for v1::FinalizeUploadRequest {
    fn from(end: Finalization) -> Self {
        Self { upload_id: end.upload, sha256: end.sha256 }
    }
}

impl TryFrom<v1::FinalizeUploadRequest> for Finalization {
    type Error = WireError;

    fn try_from(wire: v1::FinalizeUploadRequest) -> Result<Self, WireError> {
        Ok(Self { upload: upload(wire.upload_id)?, sha256: sha256("sha256", wire.sha256)? })
    }
}

/// What is to be fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Download {
    /// SHA-256 of its content.
    pub sha256: String,
    /// From here on.
    pub offset: u64,
    /// The attempt of the caller that needs it; absent of a client.
    pub attempt: Option<TaskRef>,
}

impl From<Download> for v1::DownloadRequest {
    fn from(download: Download) -> Self {
        Self { sha256: download.sha256, offset: download.offset, r#ref: download.attempt.map(Into::into) }
    }
}

impl TryFrom<v1::DownloadRequest> for Download {
    type Error = WireError;

    fn try_from(wire: v1::DownloadRequest) -> Result<Self, WireError> {
        Ok(Self {
            sha256: sha256("sha256", wire.sha256)?,
            offset: wire.offset,
            attempt: wire.r#ref.map(TryInto::try_into).transpose()?,
        })
    }
}

/// A piece of a download.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DownloadChunk {
    /// Where it begins.
    pub offset: u64,
    /// The length of the whole.
    pub total: u64,
    /// Its bytes.
    pub data: Bytes,
}

impl From<DownloadChunk> for v1::DownloadResponse {
    fn from(DownloadChunk { offset, total, data }: DownloadChunk) -> Self {
        Self { offset, total, data }
    }
}

impl From<v1::DownloadResponse> for DownloadChunk {
    fn from(v1::DownloadResponse { offset, total, data }: v1::DownloadResponse) -> Self {
        Self { offset, total, data }
    }
}
