//! Artifacts in S3 stores: how an object stands in a location, and how a container gets the keys to it. Owns both; the keys
//! themselves come to containers from Secrets and are never read here.

use orlop_core::helper::{Content, KEYS, KeepTarget, KeyVariables, S3Location, Source};
use orlop_core::spec::artifact::{S3Object, S3Store};
use orlop_core::spec::meta::KeyRef;
use orlop_core::spec::status::ArtifactLocation;
use serde_json::{Value, json};

use super::Helper;
use super::place::{BUCKET, StoreKey};
use crate::render::job::RenderError;

/// The object of a key in a store.
pub(super) fn object(store: &S3Store, key: String) -> S3Object {
    S3Object {
        endpoint: store.endpoint.clone(),
        bucket: store.bucket.clone(),
        key,
        access_key_id_secret_ref: store.access_key_id_secret_ref.clone(),
        secret_access_key_secret_ref: store.secret_access_key_secret_ref.clone(),
    }
}

/// Where an artifact goes as an object, and what the helper is told of that. The command's container gets the keys.
pub(super) fn put(
    helper: &mut Helper,
    what: &'static str,
    object: S3Object,
) -> Result<(StoreKey, KeepTarget), RenderError> {
    let wrong = |why| Err(RenderError::NoStore(what, why));
    if !object.endpoint.starts_with("http://") && !object.endpoint.starts_with("https://") {
        return wrong("its `endpoint` is not an http or https URL");
    }
    if object.bucket.is_empty() || object.bucket.contains('/') {
        return wrong("its `bucket` is not a valid bucket name");
    }
    if object.key.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return wrong("its key has a part between slashes that is empty, `.` or `..`");
    }
    let Ok(keys) = variables(&object, &mut helper.main_keys) else {
        return wrong("it names one half of the keys; give both accessKeyIDSecretRef and secretAccessKeySecretRef");
    };
    // The text of plain values is always JSON.
    let key = serde_json::to_string(&object).unwrap_or_default();
    Ok((StoreKey { kind: BUCKET.to_owned(), key }, KeepTarget::S3(place(object, keys))))
}

/// What the init container is told of a stored object, and gets the keys to; none for a location that is none.
pub(super) fn take(helper: &mut Helper, location: &ArtifactLocation) -> Option<Source> {
    let (object, packing) = location.reference.rsplit_once('#')?;
    let object: S3Object = serde_json::from_str(object).ok()?;
    let keys = variables(&object, &mut helper.init_keys).ok()?;
    let content =
        Content { size_bytes: location.size_bytes, sha256: location.sha256.clone(), packing: packing.to_owned() };
    Some(Source::S3 { object: place(object, keys), content })
}

fn place(object: S3Object, keys: Option<KeyVariables>) -> S3Location {
    let S3Object { endpoint, bucket, key, .. } = object;
    S3Location { endpoint, bucket, key, keys }
}

/// Only one half of the keys is named.
#[derive(Debug)]
pub(super) struct IncompleteKeys;

/// The variables with the keys to an object, added to those of a container where they are not among them.
fn variables(object: &S3Object, keys: &mut ContainerKeys) -> Result<Option<KeyVariables>, IncompleteKeys> {
    match (&object.access_key_id_secret_ref, &object.secret_access_key_secret_ref) {
        (None, None) => Ok(None),
        (Some(id), Some(secret)) => Ok(Some(KeyVariables { id: keys.variable(id), secret: keys.variable(secret) })),
        _ => Err(IncompleteKeys),
    }
}

/// Keys that a container gets.
#[derive(Debug, Default)]
pub(super) struct ContainerKeys(Vec<KeyRef>);

impl ContainerKeys {
    /// The variable with a key.
    fn variable(&mut self, key: &KeyRef) -> String {
        let at = self.0.iter().position(|known| known == key).unwrap_or_else(|| {
            self.0.push(key.clone());
            self.0.len() - 1
        });
        format!("{KEYS}{at}")
    }

    /// They as variables of a container.
    pub(super) fn env(&self) -> impl Iterator<Item = Value> + '_ {
        self.0
            .iter()
            .enumerate()
            .map(|(at, key)| json!({"name": format!("{KEYS}{at}"), "valueFrom": {"secretKeyRef": key}}))
    }
}
