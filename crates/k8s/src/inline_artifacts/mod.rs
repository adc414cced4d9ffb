//! Small artifacts of flows, which pods upload to the operator and which it stores in ConfigMaps of the flow. Owns who may upload what:
//! a running attempt, with its own token, an artifact that its Job stores this way. Bytes are only held in memory.

#[cfg(test)]
mod tests;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use orlop_core::error::Class;
use orlop_core::helper::{REPORT, SMALL_MAX};
use orlop_core::name::sha256_hex;
use orlop_core::ports::substrate::FlowOwner;
use orlop_core::spec::flow::{GROUP, KIND};
use serde_json::{Value, json};

use crate::api::{Api, ApiError, Kind, Request};
use crate::observe::{Ownership, conclusion, owner};
use crate::render::helper::{HelperAnnotation, fingerprint};
use crate::render::{artifact, keeps_artifacts};
use crate::value::{items, text};

/// How often a ConfigMap is read again that another client has changed meanwhile.
const TRIES: usize = 5;

/// A request of a pod to upload an artifact.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// Namespace of the flow.
    pub namespace: &'a str,
    /// Name of the Job.
    pub job: &'a str,
    /// Name of the artifact.
    pub artifact: &'a str,
    /// Token of the attempt.
    pub token: &'a str,
}

/// The permission to upload an artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permit {
    owner: FlowOwner,
    map: String,
    key: String,
}

/// Why an artifact is not kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeepError {
    /// No such attempt runs, or not under this token, or it keeps no such artifact here.
    #[error("no attempt that runs keeps this artifact here under this token")]
    Unknown,
    /// It is larger than what is kept here.
    #[error("the artifacts in one ConfigMap have {0} bytes, and {1} fit; use a store for large artifacts")]
    TooLarge(u64, u64),
    /// It is not what was announced.
    #[error("the SHA-256 of what arrived is {0}; send it again")]
    Digest(String),
    /// Something else has the name.
    #[error("a ConfigMap named `{0}` exists and does not hold artifacts of this flow; rename the step or the artifact")]
    Taken(String),
    /// The API server.
    #[error("the artifact cannot be kept now: {0}")]
    Api(ApiError),
}

impl KeepError {
    /// Whether the same may succeed later.
    #[must_use]
    pub fn passes(&self) -> bool {
        matches!(self, Self::Api(error) if matches!(error.class(), Class::Transient | Class::Conflict | Class::Capacity))
    }
}

/// Where pods hand in small artifacts.
#[derive(Clone, Debug)]
pub struct InlineArtifacts<A> {
    api: A,
    most: u64,
}

impl<A: Api> InlineArtifacts<A> {
    /// One that keeps them on this server.
    pub const fn new(api: A) -> Self {
        Self { api, most: SMALL_MAX }
    }

    /// The same for artifacts of at most so many bytes; 1 MiB is the most there is.
    #[must_use]
    pub fn of_at_most(self, bytes: u64) -> Self {
        Self { most: bytes.min(SMALL_MAX), ..self }
    }

    /// Whether an artifact may be handed in. Whoever asks learns nothing of what exists.
    ///
    /// # Errors
    /// Unknown where it may not; Api where nobody knows.
    pub async fn admit(&self, claim: Claim<'_>) -> Result<Permit, KeepError> {
        let name = |name: &str| orlop_core::id::dns1123_subdomain(name).is_ok();
        let known = claim.artifact == REPORT || name(claim.artifact);
        if claim.token.is_empty() || !known || !name(claim.namespace) || !name(claim.job) {
            return Err(KeepError::Unknown);
        }
        let job = match self.api.send(&Request::get(Kind::Job, claim.namespace, claim.job)).await {
            Err(error) if error.code == Some(404) => return Err(KeepError::Unknown),
            job => job.map_err(KeepError::Api)?,
        };
        let places = HelperAnnotation::of(&job).filter(|places| places.token == fingerprint(claim.token));
        let over = conclusion(&job).is_some() || job.pointer("/metadata/deletionTimestamp").is_some();
        let map = places.as_ref().and_then(|places| places.config_map(claim.artifact)).filter(|_| !over);
        let (Some(map), Some(owner)) = (map, flow_of(&job, claim.namespace)) else { return Err(KeepError::Unknown) };
        Ok(Permit { owner, map: map.to_owned(), key: claim.artifact.to_owned() })
    }

    /// Keeps an artifact. Doing so twice equals once.
    ///
    /// # Errors
    /// Digest and TooLarge for what is wrong with it, Taken for what is in its place, Api for the server.
    pub async fn keep(&self, permit: &Permit, sha256: &str, content: &[u8]) -> Result<(), KeepError> {
        let found = sha256_hex(content, 64);
        if found != sha256 {
            return Err(KeepError::Digest(found));
        }
        fits(content.len() as u64, self.most)?;
        let Permit { owner: flow, map, key } = permit;
        let Some(object) = artifact(map, key, content, flow) else { return Err(KeepError::Unknown) };
        let create = Request::create(Kind::ConfigMap, object);
        let mut last = match self.api.send(&create).await {
            Ok(_) => return Ok(()),
            Err(error) if error.class() == Class::Exists || error.outcome_is_unknown() => error,
            Err(error) => return Err(KeepError::Api(error)),
        };
        for _ in 0..TRIES {
            let found = self.api.send(&Request::get(Kind::ConfigMap, &flow.namespace, map)).await;
            let Some(changed) = beside(found.map_err(|_| KeepError::Api(last.clone()))?, permit, content)? else {
                return Ok(());
            };
            match self.api.send(&Request::update(Kind::ConfigMap, changed)).await {
                Ok(_) => return Ok(()),
                Err(error) if error.class() == Class::Conflict => last = error,
                Err(error) => return Err(KeepError::Api(error)),
            }
        }
        Err(KeepError::Api(last))
    }
}

/// The flow that a Job belongs to.
fn flow_of(job: &Value, namespace: &str) -> Option<FlowOwner> {
    let owners = items(job, "/metadata/ownerReferences");
    let is_controller = |owner: &&Value| owner.get("controller") == Some(&Value::Bool(true));
    let owner = owners.iter().find(is_controller).filter(|owner| is_flow(owner))?;
    Some(FlowOwner { uid: text(owner, "/uid"), name: text(owner, "/name"), namespace: namespace.to_owned() })
}

fn is_flow(owner: &Value) -> bool {
    let version = text(owner, "/apiVersion");
    text(owner, "/kind") == KIND && version.split_once('/').is_some_and(|(group, _)| group == GROUP)
}

fn fits(bytes: u64, most: u64) -> Result<(), KeepError> {
    if bytes > most { Err(KeepError::TooLarge(bytes, most)) } else { Ok(()) }
}

/// A ConfigMap that exists, with the artifact in it beside what is there: the names of two artifacts of one flow may come to
/// the same. None where it already exists.
fn beside(mut map: Value, permit: &Permit, content: &[u8]) -> Result<Option<Value>, KeepError> {
    if owner(&map, &permit.owner.uid) != Ownership::Ours || !keeps_artifacts(&map) {
        return Err(KeepError::Taken(permit.map.clone()));
    }
    let encoded = STANDARD.encode(content);
    let members = map.as_object_mut().ok_or_else(|| KeepError::Taken(permit.map.clone()))?;
    let data = members.entry("binaryData").or_insert_with(|| json!({}));
    let data = data.as_object_mut().ok_or_else(|| KeepError::Taken(permit.map.clone()))?;
    if data.get(&permit.key).and_then(Value::as_str) == Some(encoded.as_str()) {
        return Ok(None);
    }
    data.insert(permit.key.clone(), json!(encoded));
    // Three bytes take four characters, the last ones maybe less.
    let bytes = |text: &str| text.len() / 4 * 3 - text.bytes().rev().take_while(|byte| *byte == b'=').count();
    fits(data.values().filter_map(Value::as_str).map(|text| bytes(text) as u64).sum(), SMALL_MAX)?;
    Ok(Some(map))
}
