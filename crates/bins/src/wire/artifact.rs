//! What is said about artifacts: uploads that can be gone on with, and downloads. Never stores a byte.

use orlop_core::task::TaskRef;

use super::bound::{Check, NAME_MAX, TEXT_MAX, WireError, at_most, checked, text};
use super::proto::v1;

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

/// Checks the text of a SHA-256.
fn sha256(field: &'static str, text: &str) -> Result<(), WireError> {
    if text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return Ok(());
    }
    Err(WireError::new(field, "is not a SHA-256 digest; use 64 lowercase hexadecimal digits"))
}

fn upload_id(id: &str) -> Result<(), WireError> {
    if id.is_empty() { Err(WireError::missing("upload_id")) } else { at_most("upload_id", id.len(), NAME_MAX) }
}

impl TryFrom<v1::BeginUploadRequest> for Beginning {
    type Error = WireError;

    fn try_from(wire: v1::BeginUploadRequest) -> Result<Self, WireError> {
        if wire.name.is_empty() {
            return Err(WireError::missing("name"));
        }
        at_most("upload_id", wire.upload_id.len(), NAME_MAX)?;
        let given = |text: String| (!text.is_empty()).then_some(text);
        let digest = given(wire.sha256);
        digest.iter().try_for_each(|text| sha256("sha256", text))?;
        Ok(Self {
            name: text("name", wire.name, NAME_MAX)?,
            bytes: wire.bytes,
            sha256: digest,
            attempt: wire.r#ref.map(checked).transpose()?.map(Into::into),
            upload: given(wire.upload_id),
            executable: wire.executable,
        })
    }
}

impl Check for v1::BeginUploadResponse {
    fn check(&self) -> Result<(), WireError> {
        upload_id(&self.upload_id)
    }
}

impl Check for v1::UploadRequest {
    fn check(&self) -> Result<(), WireError> {
        at_most("data", self.data.len(), UPLOAD_CHUNK)?;
        upload_id(&self.upload_id)
    }
}

impl Check for v1::FinalizeUploadRequest {
    fn check(&self) -> Result<(), WireError> {
        upload_id(&self.upload_id)?;
        sha256("sha256", &self.sha256)
    }
}

impl Check for v1::Artifact {
    fn check(&self) -> Result<(), WireError> {
        at_most("artifact.name", self.name.len(), NAME_MAX)?;
        sha256("artifact.sha256", &self.sha256)?;
        at_most("artifact.path", self.path.len(), TEXT_MAX)
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

impl TryFrom<v1::DownloadRequest> for Download {
    type Error = WireError;

    fn try_from(wire: v1::DownloadRequest) -> Result<Self, WireError> {
        sha256("sha256", &wire.sha256)?;
        let attempt = wire.r#ref.map(checked).transpose()?.map(Into::into);
        Ok(Self { sha256: wire.sha256, offset: wire.offset, attempt })
    }
}
