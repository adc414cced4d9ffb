//! Stores of artifacts and references to Secrets and ConfigMaps: what must be named is named.

use orlop_core::spec::artifact::{S3Object, S3Store};
use orlop_core::spec::meta::KeyRef;

use super::context::Context;
use crate::code::Code;
use crate::manifest::path::Path;
use crate::manifest::violation::Violations;

pub(super) fn check_store(context: &Context<'_>, spec: &Path<'_>, found: &mut Violations) {
    let Some(store) = &context.flow.spec.artifact_store else { return };
    let path = spec.field("artifactStore");
    match (&store.persistent_volume_claim, &store.s3) {
        (None, None) => found.error(Code::Value, &path, || {
            ("the artifact store names no store", "give exactly one of persistentVolumeClaim and s3, or leave it out")
        }),
        (Some(_), Some(_)) => found.error(Code::Value, &path, || {
            ("the artifact store names two stores", "give exactly one of persistentVolumeClaim and s3")
        }),
        _ => {}
    }
    if let Some(claim) = &store.persistent_volume_claim {
        let path = path.field("persistentVolumeClaim");
        named(&claim.claim_name, &path, "claimName", found);
        if let Some(folder) = claim.sub_path.as_deref()
            && (folder.starts_with('/') || folder.split('/').any(|part| part == "..") || folder.contains('\0'))
        {
            found.error(Code::UnsafePath, &path.field("subPath"), || {
                ("the folder leaves the claim", "write it relative to the claim's root, without `..`")
            });
        }
    }
    if let Some(S3Store { endpoint, bucket, access_key_id_secret_ref, secret_access_key_secret_ref, .. }) = &store.s3 {
        let path = path.field("s3");
        named(endpoint, &path, "endpoint", found);
        named(bucket, &path, "bucket", found);
        keys(&path, access_key_id_secret_ref.as_ref(), secret_access_key_secret_ref.as_ref(), found);
    }
}

pub(super) fn check_object(object: &S3Object, path: &Path<'_>, found: &mut Violations) {
    named(&object.endpoint, path, "endpoint", found);
    named(&object.bucket, path, "bucket", found);
    named(&object.key, path, "key", found);
    keys(path, object.access_key_id_secret_ref.as_ref(), object.secret_access_key_secret_ref.as_ref(), found);
}

fn keys(path: &Path<'_>, id: Option<&KeyRef>, secret: Option<&KeyRef>, found: &mut Violations) {
    for (field, reference) in [("accessKeyIDSecretRef", id), ("secretAccessKeySecretRef", secret)] {
        if let Some(reference) = reference {
            check_key(reference, &path.field(field), found);
        }
    }
    if id.is_some() != secret.is_some() {
        found.warning(Code::Value, path, || {
            (
                "only one half of the credentials is given",
                "give both accessKeyIDSecretRef and secretAccessKeySecretRef, or neither",
            )
        });
    }
}

/// A reference to one key of a Secret or ConfigMap.
pub(super) fn check_key(reference: &KeyRef, path: &Path<'_>, found: &mut Violations) {
    named(&reference.name, path, "name", found);
    named(&reference.key, path, "key", found);
}

fn named(value: &str, path: &Path<'_>, field: &'static str, found: &mut Violations) {
    if value.is_empty() {
        found.error(Code::Value, &path.field(field), || (format!("`{field}` is empty"), "give it a value"));
    }
}
