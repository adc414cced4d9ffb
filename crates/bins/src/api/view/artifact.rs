//! Artifacts and uploads as they are shown and asked for.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::list::Listed;

/// An artifact.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Artifact)]
pub(crate) struct ArtifactView {
    /// Of an array: the element that left it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) index: Option<u32>,
    pub(crate) name: String,
    /// Its path, below the job's directory
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<String>,
    pub(crate) sha256: String,
    pub(crate) bytes: u64,
    /// Whether it is a file that can be run
    pub(crate) executable: bool,
}

impl ArtifactView {
    /// An artifact as the detail of an attempt keeps it.
    pub(crate) fn of(index: u32, kept: &Value) -> Self {
        let text = |field: &str| kept[field].as_str().unwrap_or_default().to_owned();
        let bytes = kept["bytes"].as_u64().unwrap_or_default();
        let executable = kept["executable"].as_bool().unwrap_or_default();
        let (name, path, sha256) = (text("name"), Some(text("path")), text("sha256"));
        Self { index: Some(index), name, path, sha256, bytes, executable }
    }
}

/// Some of what a job left.
pub(crate) type ArtifactList = Listed<ArtifactView>;

/// An upload to begin, or to go on with.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewUpload {
    /// What the tenant calls it
    #[schema(min_length = 1, max_length = 128)]
    pub(crate) name: String,
    /// Its length
    pub(crate) bytes: u64,
    /// SHA-256 of its content, if it is known: what is here already need not be sent
    #[serde(default)]
    pub(crate) sha256: Option<String>,
    /// Whose; else the caller's only tenant
    #[serde(default)]
    pub(crate) tenant: Option<String>,
    /// The upload to go on with
    #[serde(default)]
    pub(crate) upload: Option<String>,
    /// Whether it is a file that can be run; jobs that take it by its name get it so
    #[serde(default)]
    pub(crate) executable: bool,
}

/// An upload.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UploadView {
    pub(crate) id: String,
    /// Bytes that are stored: the next piece begins here
    pub(crate) committed: u64,
    /// All of it is here already: finalize it
    pub(crate) stored: bool,
}

/// The end of an upload.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FinishUpload {
    /// SHA-256 of all its bytes
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub(crate) sha256: String,
}
