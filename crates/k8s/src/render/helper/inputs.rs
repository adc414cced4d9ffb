//! Input artifacts of a pod: what the init container fetches, from which volumes, and where the command finds it. Owns the
//! choice of places: in a volume that the command mounts there, else in the helper's own under a mount of its own.

use std::collections::BTreeMap;

use orlop_core::attempt::{ArtifactDelivery, ArtifactSource};
use orlop_core::helper::{Fetch, Source};
use serde_json::{Value, json};

use super::place::{BUCKET, CLAIM, IN_PLACE, MAP, stored};
use super::shared::claim_path;
use super::{DIRECTORY, Helper, VOLUME, below, bucket, path_of};
use crate::render::job::RenderError;

/// The volume with all ConfigMaps that inputs are in, and where it is mounted.
const MAPS: (&str, &str) = ("orlop-maps", "/orlop-maps");
/// Below this, claims that inputs are on.
const CLAIMS: &str = "/orlop-claims";
/// Below this, volumes of the pod that inputs go to.
const TARGETS: &str = "/orlop-to";
/// Volumes that cannot be written.
const READ_ONLY: [&str; 4] = ["configMap", "secret", "downwardAPI", "projected"];

/// What is fetched for a step, and the mounts for it.
pub(super) fn fetch(helper: &mut Helper, inputs: &[ArtifactDelivery]) -> Result<Vec<Fetch>, RenderError> {
    let mut fetches = Vec::new();
    let (mut maps, mut claims) = (Vec::new(), BTreeMap::new());
    for group in inputs.chunk_by(|one, other| one.name == other.name) {
        if is_in_place(helper, group)? {
            continue;
        }
        let (targets, into) = targets(helper, group)?;
        for (input, target) in group.iter().zip(targets) {
            let from = source(helper, input, &mut maps, &mut claims)?;
            fetches.push(Fetch { name: input.name.clone(), target, unpack: input.unpack, into, from });
        }
    }
    if !maps.is_empty() {
        helper.added_volumes.push(json!({"name": MAPS.0, "projected": {"sources": maps}}));
        helper.mounts.push(json!({"name": MAPS.0, "mountPath": MAPS.1, "readOnly": true}));
    }
    Ok(fetches)
}

/// Whether an input is where its step wrote it, and the command sees it there.
fn is_in_place(helper: &Helper, group: &[ArtifactDelivery]) -> Result<bool, RenderError> {
    let [ArtifactDelivery { name, path, unpack, source: ArtifactSource::Stored { location, .. } }] = group else {
        return Ok(false);
    };
    if location.kind != IN_PLACE {
        return Ok(false);
    }
    let main = Value::Object(helper.main.clone());
    let here =
        claim_path(&main, &helper.volumes, path).is_some_and(|claim_path| claim_path.key() == location.reference);
    if here && *unpack {
        return Ok(true);
    }
    // A flow that took it over, or another one, mounts something else.
    Err(RenderError::Unavailable {
        input: name.clone(),
        location: format!("{} `{}`", location.kind, location.reference),
    })
}

/// Where the deliveries of one input go, as the init container sees it, and whether that is the root of a volume.
fn targets(helper: &mut Helper, group: &[ArtifactDelivery]) -> Result<(Vec<String>, bool), RenderError> {
    let Some(first) = group.first() else { return Ok((Vec::new(), false)) };
    // Those of a fan-out are entries of one directory.
    let parent = |path: &str| path.rsplit_once('/').map_or("", |(parent, _)| parent).to_owned();
    let root = if group.len() > 1 { parent(&first.path) } else { first.path.clone() };
    let (below, at_mount) = root_for(helper, first, &root)?;
    let rest = |path: &str| path.strip_prefix(&root).unwrap_or_default().to_owned();
    // Those of a fan-out are below the mount.
    let into = at_mount && group.len() == 1;
    Ok((group.iter().map(|input| format!("{below}{}", rest(&input.path))).collect(), into))
}

/// The input that a mount of the command is for.
fn input_of(mount: &Value) -> Option<&str> {
    let of_helper = mount.get("name").and_then(Value::as_str) == Some(VOLUME);
    mount.get("subPath").and_then(Value::as_str).filter(|_| of_helper)?.strip_prefix("in/")
}

/// The path under which the init container reaches a path of the command, and whether a volume is mounted right there.
fn root_for(helper: &mut Helper, input: &ArtifactDelivery, path: &str) -> Result<(String, bool), RenderError> {
    let no = |why: String| RenderError::NoPlace { input: input.name.clone(), path: input.path.clone(), why };
    let mounts = helper.main.get("volumeMounts").and_then(Value::as_array).into_iter().flatten();
    let meets = |mount: &&Value| below(path, path_of(mount)).or_else(|| below(path_of(mount), path)).is_some();
    if let Some(other) = mounts.clone().filter(meets).find_map(input_of) {
        return Err(no(format!("it and the path of the input `{other}` overlap; choose another one")));
    }
    let covers = |mount: &&Value| below(path, path_of(mount)).is_some();
    let Some(mount) = mounts.filter(covers).max_by_key(|mount| path_of(mount).len()).cloned() else {
        let part = format!("in/{}", input.name);
        helper.add_to_main("volumeMounts", json!({"name": VOLUME, "mountPath": path, "subPath": part}));
        return Ok((format!("{DIRECTORY}/{part}"), false));
    };
    let name = mount.get("name").and_then(Value::as_str).unwrap_or_default();
    let rest = below(path, path_of(&mount)).unwrap_or_default();
    let volume = helper.volumes.iter().find(|volume| volume.get("name").and_then(Value::as_str) == Some(name));
    let fixed = volume.is_none_or(|volume| {
        let read_only = volume.pointer("/persistentVolumeClaim/readOnly") == Some(&Value::Bool(true));
        read_only || READ_ONLY.iter().any(|kind| volume.get(kind).is_some())
    });
    if fixed {
        return Err(no(format!("the volume `{name}` is there and cannot be written; choose another path")));
    }
    if mount.get("subPathExpr").is_some() {
        return Err(no(format!("the mount of the volume `{name}` there has a `subPathExpr`; use `subPath`")));
    }
    let at = format!("{TARGETS}/{}", helper.mounts.len());
    let mut own = json!({"name": name, "mountPath": at});
    if let (Some(sub), Some(members)) = (mount.get("subPath"), own.as_object_mut()) {
        members.insert("subPath".to_owned(), sub.clone());
    }
    helper.mounts.push(own);
    Ok(if rest.is_empty() { (at, true) } else { (format!("{at}/{rest}"), false) })
}

/// Where the bytes of an input are, as the init container sees it.
fn source(
    helper: &mut Helper,
    input: &ArtifactDelivery,
    maps: &mut Vec<Value>,
    claims: &mut BTreeMap<String, String>,
) -> Result<Source, RenderError> {
    let location = match &input.source {
        ArtifactSource::Http(source) => return Ok(Source::Http(source.clone())),
        ArtifactSource::Stored { location, .. } => location,
    };
    let unavailable = || RenderError::Unavailable {
        input: input.name.clone(),
        location: format!("{} `{}`", location.kind, location.reference),
    };
    if location.kind == BUCKET {
        return bucket::take(helper, location).ok_or_else(unavailable);
    }
    let found = stored(location).ok_or_else(unavailable)?;
    let path = match found.kind {
        MAP => {
            let file = maps.len().to_string();
            // A pod waits for ever for a ConfigMap that is gone; the helper says so instead.
            maps.push(json!({"configMap": {
                "name": found.object, "optional": true, "items": [{"key": found.part, "path": file}],
            }}));
            format!("{}/{file}", MAPS.1)
        }
        CLAIM => format!("{}/{}", claim(helper, found.object, claims), found.part),
        _ => return Err(unavailable()),
    };
    Ok(Source::File { path, content: found.content })
}

/// Where a claim is mounted in the init container.
fn claim(helper: &mut Helper, name: &str, claims: &mut BTreeMap<String, String>) -> String {
    if let Some(at) = claims.get(name) {
        return at.clone();
    }
    let (number, at) = (claims.len(), format!("{CLAIMS}/{}", claims.len()));
    let volume = format!("orlop-claim-{number}");
    helper.added_volumes.push(json!({"name": volume, "persistentVolumeClaim": {"claimName": name}}));
    helper.mounts.push(json!({"name": volume, "mountPath": at, "readOnly": true}));
    claims.insert(name.to_owned(), at.clone());
    at
}
