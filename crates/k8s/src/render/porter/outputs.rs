//! Outputs of a pod: what the helper collects when the command has ended, and where each artifact goes. Owns the order of
//! stores (rule R32).

use orlop_core::attempt::AttemptSpec;
use orlop_core::porter::{Keep, REPORT, RunOrder, Shelf, VERSION};
use orlop_core::spec::artifact::ClaimStore;
use orlop_core::spec::step::Step;
use serde_json::{Value, json};

use super::place::{CLAIM, MAP, Place, Places, artifact_map};
use super::{DIRECTORY, Helper, MESSAGE, Porter};
use crate::render::job::{Carriage, RenderError};

/// The claim that outputs are kept on, in the pod, and where the command's container has it.
const STORE: (&str, &str) = ("orlop-store", "/orlop-store");

/// What is collected of an attempt.
pub(super) fn keep(
    helper: &mut Helper,
    spec: &AttemptSpec,
    (porter, carriage): (&Porter, Carriage<'_>),
    places: &mut Places,
) -> Result<RunOrder, RenderError> {
    let folder = match store(porter, carriage)?.filter(|_| !spec.output_artifacts.is_empty()) {
        Some(claim) => Some((claim.claim_name.as_str(), mount(helper, claim, spec)?)),
        None => None,
    };
    let instance = spec.key.instance();
    let mut artifacts = Vec::new();
    for output in &spec.output_artifacts {
        let (place, to) = match &folder {
            Some((claim, folder)) => {
                let key = format!("{claim}/{folder}/{}", output.name);
                (Place { kind: CLAIM.to_owned(), key }, Shelf::File { path: format!("{}/{}", STORE.1, output.name) })
            }
            None => {
                let map = artifact_map(&spec.flow_name, &instance, &output.name);
                let url = desk(porter, spec, &output.name);
                (Place { kind: MAP.to_owned(), key: format!("{map}/{}", output.name) }, Shelf::Desk { url })
            }
        };
        places.artifacts.insert(output.name.clone(), place);
        let (name, path) = (output.name.clone(), output.path.clone());
        artifacts.push(Keep { name, path, archive: output.archive, to });
    }
    let map = artifact_map(&spec.flow_name, &instance, "orlop-report");
    let key = format!("{map}/{REPORT}");
    places.artifacts.insert(REPORT.to_owned(), Place { kind: MAP.to_owned(), key });
    let message = helper.main.get("terminationMessagePath").and_then(Value::as_str).unwrap_or(MESSAGE);
    Ok(RunOrder {
        v: VERSION,
        scratch: format!("{DIRECTORY}/keeping"),
        max_bytes: porter.max_bytes,
        message: message.to_owned(),
        overflow: Some(desk(porter, spec, REPORT)),
        files: spec.output_files.clone(),
        artifacts,
    })
}

/// Where something of an attempt is handed in.
fn desk(porter: &Porter, spec: &AttemptSpec, name: &str) -> String {
    format!("{}/v1/artifacts/{}/{}/{name}", porter.url, spec.namespace, spec.job_name)
}

/// The claim that artifacts are kept on: the flow's own before the operator's; none for ConfigMaps.
fn store<'a>(porter: &'a Porter, carriage: Carriage<'a>) -> Result<Option<&'a ClaimStore>, RenderError> {
    let outputs = carriage.step.map(Step::output_artifacts).unwrap_or_default();
    if outputs.iter().any(|output| output.s3.is_some()) {
        return Err(RenderError::NoStore("`s3` of an artifact"));
    }
    match carriage.store {
        Some(store) if store.s3.is_some() => Err(RenderError::NoStore("`artifactStore.s3`")),
        Some(store) => Ok(store.persistent_volume_claim.as_ref()),
        None => Ok(porter.store.as_ref()),
    }
}

/// Mounts the folder of an attempt on a claim: its own and no other. Gives where that is on the claim.
fn mount(helper: &mut Helper, store: &ClaimStore, spec: &AttemptSpec) -> Result<String, RenderError> {
    let own = format!("{}/{}/{}", spec.key.flow, spec.key.instance(), spec.key.attempt);
    let prefix = store.sub_path.as_deref().unwrap_or_default().trim_matches('/');
    let folder = if prefix.is_empty() { own } else { format!("{prefix}/{own}") };
    if folder.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err(RenderError::NoStore("`persistentVolumeClaim` with such a `subPath`"));
    }
    helper.added_volumes.push(json!({"name": STORE.0, "persistentVolumeClaim": {"claimName": store.claim_name}}));
    helper.add_to_main("volumeMounts", json!({"name": STORE.0, "mountPath": STORE.1, "subPath": folder}));
    Ok(folder)
}
