//! Where artifacts of an attempt are to be kept, as the Job says it, and what a location means. Owns both texts.

use std::collections::BTreeMap;

use orlop_core::helper::Content;
use orlop_core::name::{Parts, bounded};
use orlop_core::spec::status::ArtifactLocation;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Annotation of a Job whose files the helper moves.
pub(super) const ANNOTATION: &str = "workflow.kube-zen.io/helper";
/// The longest object name, in characters.
const NAME_MAX: usize = 253;

/// The annotation of a Job that records what its helper is to store, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HelperAnnotation {
    /// Version of this text.
    pub v: u32,
    /// Whether it leaves a report.
    pub reports: bool,
    /// SHA-256 of the token of the attempt, in hexadecimal.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub token: String,
    /// Where each artifact goes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub artifacts: BTreeMap<String, StoreKey>,
}

/// The key of an artifact in its store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreKey {
    /// Kind of store.
    pub kind: String,
    /// Key in it.
    #[serde(rename = "ref")]
    pub key: String,
}

impl HelperAnnotation {
    pub(super) fn new(reports: bool) -> Self {
        Self { v: 1, reports, ..Self::default() }
    }

    pub(super) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// What was asked of the helper in the pods of a Job; none where there is no helper.
    #[must_use]
    pub fn of(job: &Value) -> Option<Self> {
        let text = job.pointer("/metadata/annotations")?.get(ANNOTATION)?.as_str()?;
        serde_json::from_str(text).ok().filter(|annotation: &Self| annotation.v == 1)
    }

    /// Where an artifact is that the helper says it has stored.
    #[must_use]
    pub fn location(&self, artifact: &str, content: Content) -> Option<ArtifactLocation> {
        let StoreKey { kind, key } = self.artifacts.get(artifact)?.clone();
        let Content { size_bytes, sha256, packing } = content;
        let bare = packing.is_empty() && kind != BUCKET;
        let reference = if bare { key } else { format!("{key}#{packing}") };
        Some(ArtifactLocation { kind, reference, size_bytes, sha256 })
    }

    /// The ConfigMap that keeps an artifact of the attempt; none when none does.
    #[must_use]
    pub fn config_map(&self, artifact: &str) -> Option<&str> {
        let place = self.artifacts.get(artifact).filter(|place| place.kind == MAP)?;
        Some(place.key.split_once('/')?.0)
    }
}

/// The kind of locations in ConfigMaps.
pub(super) const MAP: &str = "configmap";
/// The kind of locations on a volume of the flow's own: claim and path.
pub(super) const IN_PLACE: &str = "volume";
/// The kind of locations in S3 stores: the object as JSON, then `#` and how it is packed.
pub(super) const BUCKET: &str = "s3";
/// The kind of locations on claims.
pub(super) const CLAIM: &str = "pvc";

/// Name of the ConfigMap that keeps an artifact of a step or instance.
#[must_use]
pub fn artifact_map(flow: &str, step: &str, artifact: &str) -> String {
    bounded(Parts { flow, part: &format!("{step}-{artifact}"), suffix: "" }, NAME_MAX)
}

/// Where stored bytes are: an object of this kind, and which part of it.
pub(super) struct Stored<'l> {
    pub(super) kind: &'l str,
    pub(super) object: &'l str,
    pub(super) part: &'l str,
    pub(super) content: Content,
}

/// What a location means.
pub(super) fn stored(location: &ArtifactLocation) -> Option<Stored<'_>> {
    let (key, packing) = location.reference.rsplit_once('#').unwrap_or((&location.reference, ""));
    let (object, part) = key.split_once('/')?;
    let good = |name: &str| !name.is_empty() && name != "." && name != "..";
    let named = orlop_core::id::dns1123_subdomain(object).is_ok() && part.split('/').all(good);
    let content =
        Content { size_bytes: location.size_bytes, sha256: location.sha256.clone(), packing: packing.to_owned() };
    named.then_some(Stored { kind: &location.kind, object, part, content })
}
