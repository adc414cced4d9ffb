//! Outputs of a pod: what the helper collects when the command has ended, and where each artifact goes. Owns the order of
//! stores.

use orlop_core::attempt::{ArtifactCollection, AttemptSpec};
use orlop_core::helper::{Keep, KeepTarget, REPORT, RunOrder, VERSION};
use orlop_core::spec::artifact::{ArtifactStore, S3Store};
use serde_json::{Value, json};

use super::place::{CLAIM, HelperAnnotation, IN_PLACE, MAP, StoreKey, artifact_map};
use super::shared::claim_path;
use super::{DIRECTORY, Helper, HelperOptions, MESSAGE, bucket};
use crate::render::job::{ArtifactTransfer, RenderError};

/// The claim that outputs are kept on, in the pod, and where the command's container has it.
const STORE: (&str, &str) = ("orlop-store", "/orlop-store");

/// Where the artifacts of an attempt go that name no store of their own.
enum Store<'a> {
    Maps,
    /// A claim, and the folder of the attempt on it.
    Claim(&'a str, String),
    /// A bucket, and what all keys of the attempt begin with.
    Bucket(&'a S3Store, String),
}

/// What is collected of an attempt.
pub(super) fn keep(
    helper: &mut Helper,
    spec: &AttemptSpec,
    options: &HelperOptions,
    transfer: ArtifactTransfer<'_>,
    annotation: &mut HelperAnnotation,
) -> Result<RunOrder, RenderError> {
    let store = store(helper, spec, transfer.store.or(options.store.as_ref()))?;
    let instance = spec.key.instance();
    let mut artifacts = Vec::new();
    for output in &spec.output_artifacts {
        let name = &output.name;
        if let Some(key) = in_place(helper, spec, transfer, output) {
            annotation.artifacts.insert(name.clone(), StoreKey { kind: IN_PLACE.to_owned(), key });
            let (name, path) = (name.clone(), output.path.clone());
            artifacts.push(Keep { name, path, archive: None, to: KeepTarget::InPlace });
            continue;
        }
        let (place, to) = match (&output.s3, &store) {
            (Some(object), _) => bucket::put(helper, "`s3` of an artifact", object.clone())?,
            (None, Store::Bucket(store, folder)) => {
                let object = bucket::object(store, format!("{folder}/{name}"));
                bucket::put(helper, "`artifactStore.s3`", object)?
            }
            (None, Store::Claim(claim, folder)) => {
                let key = format!("{claim}/{folder}/{name}");
                (StoreKey { kind: CLAIM.to_owned(), key }, KeepTarget::File { path: format!("{}/{name}", STORE.1) })
            }
            (None, Store::Maps) => {
                let map = artifact_map(&spec.flow_name, &instance, name);
                let url = desk(options, spec, name);
                (StoreKey { kind: MAP.to_owned(), key: format!("{map}/{name}") }, KeepTarget::Operator { url })
            }
        };
        annotation.artifacts.insert(name.clone(), place);
        artifacts.push(Keep { name: name.clone(), path: output.path.clone(), archive: output.archive, to });
    }
    let map = artifact_map(&spec.flow_name, &instance, "orlop-report");
    let key = format!("{map}/{REPORT}");
    annotation.artifacts.insert(REPORT.to_owned(), StoreKey { kind: MAP.to_owned(), key });
    let message = helper.main.get("terminationMessagePath").and_then(Value::as_str).unwrap_or(MESSAGE);
    Ok(RunOrder {
        v: VERSION,
        scratch: format!("{DIRECTORY}/keeping"),
        max_bytes: options.max_bytes,
        message: message.to_owned(),
        overflow: Some(desk(options, spec, REPORT)),
        files: spec.output_files.clone(),
        artifacts,
        small_max: options.small_max,
        content_type: options.content_type.clone(),
        modes: options.modes,
        ..RunOrder::default()
    })
}

/// Where an artifact stays that nobody needs in a store.
fn in_place(
    helper: &Helper,
    spec: &AttemptSpec,
    transfer: ArtifactTransfer<'_>,
    output: &ArtifactCollection,
) -> Option<String> {
    let shared = transfer.shared.filter(|_| spec.key.item.is_none())?;
    if !shared.holds(&spec.key.step, &output.name) {
        return None;
    }
    Some(claim_path(&Value::Object(helper.main.clone()), &helper.volumes, &output.path)?.key())
}

/// Where something of an attempt is handed in.
fn desk(options: &HelperOptions, spec: &AttemptSpec, name: &str) -> String {
    format!("{}/v1/artifacts/{}/{}/{name}", options.url, spec.namespace, spec.job_name)
}

/// Prepares the store that artifacts go to: the flow's own before the operator's, ConfigMaps where there is none.
fn store<'a>(
    helper: &mut Helper,
    spec: &AttemptSpec,
    store: Option<&'a ArtifactStore>,
) -> Result<Store<'a>, RenderError> {
    let needed = spec.output_artifacts.iter().any(|output| output.s3.is_none());
    let Some(store) = store.filter(|_| needed) else { return Ok(Store::Maps) };
    let own = format!("{}/{}/{}", spec.key.flow, spec.key.instance(), spec.key.attempt);
    let below = |prefix: Option<&str>| match prefix.unwrap_or_default().trim_matches('/') {
        "" => own.clone(),
        prefix => format!("{prefix}/{own}"),
    };
    match (&store.persistent_volume_claim, &store.s3) {
        (Some(claim), _) => {
            let folder = below(claim.sub_path.as_deref());
            mount(helper, &claim.claim_name, &folder)?;
            Ok(Store::Claim(&claim.claim_name, folder))
        }
        (None, Some(bucket)) => Ok(Store::Bucket(bucket, below(bucket.prefix.as_deref()))),
        (None, None) => Ok(Store::Maps),
    }
}

/// Mounts the folder of an attempt on a claim: its own and no other.
fn mount(helper: &mut Helper, claim: &str, folder: &str) -> Result<(), RenderError> {
    if folder.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err(RenderError::NoStore(
            "`persistentVolumeClaim`",
            "its `subPath` is not a folder below the root of the claim",
        ));
    }
    helper.added_volumes.push(json!({"name": STORE.0, "persistentVolumeClaim": {"claimName": claim}}));
    helper.add_to_main("volumeMounts", json!({"name": STORE.0, "mountPath": STORE.1, "subPath": folder}));
    Ok(())
}
