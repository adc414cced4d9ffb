//! Documents of artifacts. Owns their fields; the bytes are elsewhere.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Document, Kind, part};
use crate::id::{JobId, TenantName};
use crate::time::Time;

/// A stored artifact. Its key is its digest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Artifact {
    /// SHA-256 of its bytes, in hexadecimal.
    pub sha256: String,
    /// Number of its bytes.
    pub bytes: u64,
    /// How many links lead to it.
    pub refs: u64,
    /// When the last link went.
    #[serde(default)]
    pub unreferenced_at: Option<Time>,
    /// Who stored it, and may see it.
    #[serde(default)]
    pub tenants: BTreeSet<TenantName>,
}

impl Document for Artifact {
    const KIND: Kind = Kind::Artifact;

    fn key(&self) -> String {
        part(&self.sha256)
    }
}

/// An artifact of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArtifactLink {
    /// The job.
    pub job: JobId,
    /// What the job calls it.
    pub name: String,
    /// The artifact.
    pub sha256: String,
    /// The tenant of the job.
    pub tenant: TenantName,
    /// Of a name of a tenant: which jobs left something under it since it was last uploaded by hand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_by: Vec<LeftBy>,
    /// Whether it is a file that can be run.
    #[serde(default)]
    pub executable: bool,
}

/// An element of a job that left an artifact under a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftBy {
    /// The job.
    pub job: JobId,
    /// Its element; 0 where the job is not an array.
    pub index: u32,
    /// The artifact.
    pub sha256: String,
}

impl Document for ArtifactLink {
    const KIND: Kind = Kind::ArtifactLink;

    fn key(&self) -> String {
        format!("{}/{}", self.job, part(&self.name))
    }

    fn tenant(&self) -> Option<&TenantName> {
        Some(&self.tenant)
    }
}

/// An upload under way. Its key is its id.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Upload {
    /// Its id.
    pub id: String,
    /// The tenant it belongs to.
    pub tenant: TenantName,
    /// Bytes that are stored.
    pub received: u64,
    /// Bytes there will be.
    pub total: u64,
    /// When it is given up.
    pub expires_at: Time,
    /// What its tenant calls it.
    #[serde(default)]
    pub name: String,
    /// The job and the element that leave it; absent = it is uploaded by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_by: Option<(JobId, u32)>,
    /// Whether it is a file that can be run.
    #[serde(default)]
    pub executable: bool,
}

impl Document for Upload {
    const KIND: Kind = Kind::Upload;

    fn key(&self) -> String {
        part(&self.id)
    }

    fn tenant(&self) -> Option<&TenantName> {
        Some(&self.tenant)
    }
}
