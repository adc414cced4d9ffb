//! Artifacts: files and trees that steps hand to each other. Owns their fields and defaults; never moves bytes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::meta::KeyRef;

/// An artifact a step takes: exactly one of `from` and `http`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ArtifactInput {
    /// Name, a DNS subdomain.
    pub name: String,
    /// The output artifact of another step: step/artifact, or a step that has exactly one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// A download.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpSource>,
    /// Where it is delivered; default `/tmp/artifacts/<name>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Whether an archive is delivered as the original file or tree; default true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unpack: Option<bool>,
}

impl ArtifactInput {
    /// Where it is delivered.
    #[must_use]
    pub fn delivery_path(&self) -> String {
        self.path.clone().unwrap_or_else(|| format!("/tmp/artifacts/{}", self.name))
    }

    /// `from` as step and artifact name; the latter is absent in the short form.
    #[must_use]
    pub fn source(&self) -> Option<(&str, Option<&str>)> {
        let from = self.from.as_deref()?;
        Some(from.split_once('/').map_or((from, None), |(step, artifact)| (step, Some(artifact))))
    }
}

/// A download.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpSource {
    /// An http or https URL.
    pub url: String,
    /// Headers, sent to the first host only.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

/// An artifact a step gives.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ArtifactOutput {
    /// Name, a DNS subdomain.
    pub name: String,
    /// Where the step writes it.
    pub path: String,
    /// Whether it may be missing; default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
    /// How it is packed; absent: a file raw, a directory as tar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive: Option<Archive>,
    /// Its own store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s3: Option<S3Object>,
}

/// How an artifact is packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Archive {
    /// Format; default tar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<ArchiveFormat>,
    /// Compression; default none; ignored by zip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compression: Option<Compression>,
}

/// Format of an archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ArchiveFormat {
    /// tar.
    #[default]
    Tar,
    /// zip with deflate.
    Zip,
}

/// Compression of a tar archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// None.
    #[default]
    None,
    /// gzip.
    Gzip,
}

/// An object in an S3 store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct S3Object {
    /// URL of the store.
    pub endpoint: String,
    /// Bucket.
    pub bucket: String,
    /// Key of the object.
    pub key: String,
    /// Where the access key id is.
    #[serde(default, rename = "accessKeyIDSecretRef", skip_serializing_if = "Option::is_none")]
    pub access_key_id_secret_ref: Option<KeyRef>,
    /// Where the secret access key is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_access_key_secret_ref: Option<KeyRef>,
}

/// Where a flow's artifacts are stored: exactly one member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ArtifactStore {
    /// A volume claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim: Option<ClaimStore>,
    /// An S3 bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s3: Option<S3Store>,
}

/// A volume claim as artifact store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClaimStore {
    /// Name of the claim.
    pub claim_name: String,
    /// Folder in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_path: Option<String>,
}

/// An S3 bucket as artifact store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct S3Store {
    /// URL of the store.
    pub endpoint: String,
    /// Bucket.
    pub bucket: String,
    /// Prefix of all keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// Where the access key id is.
    #[serde(default, rename = "accessKeyIDSecretRef", skip_serializing_if = "Option::is_none")]
    pub access_key_id_secret_ref: Option<KeyRef>,
    /// Where the secret access key is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_access_key_secret_ref: Option<KeyRef>,
}
