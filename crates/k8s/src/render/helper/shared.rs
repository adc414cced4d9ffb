//! Artifacts that stay where their step wrote them: on a claim that their consumers mount too, at the very same
//! place. Owns where a path of a container is on a claim, and which artifacts of a flow all of their takers see so.

use std::collections::{BTreeMap, BTreeSet};

use orlop_core::spec::artifact::ArtifactOutput;
use orlop_core::spec::flow::FlowSpec;
use orlop_core::spec::step::Step;
use serde_json::Value;

use super::{below, path_of};

/// Where a path of a container is on a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClaimPath {
    claim: String,
    path: String,
}

impl ClaimPath {
    /// As it stands in a location.
    pub(super) fn key(&self) -> String {
        format!("{}/{}", self.claim, self.path)
    }
}

/// Where a path of a container is on a claim; none where it is on none, or where that is not known before the pod runs.
pub(super) fn claim_path(container: &Value, volumes: &[Value], path: &str) -> Option<ClaimPath> {
    let mounts = container.get("volumeMounts")?.as_array()?;
    let covering = mounts.iter().filter_map(|mount| Some((mount, below(path, path_of(mount))?)));
    let (mount, rest) = covering.max_by_key(|(mount, _)| path_of(mount).len())?;
    if mount.get("subPathExpr").is_some() {
        return None;
    }
    let name = mount.get("name")?.as_str()?;
    let volume = volumes.iter().find(|volume| volume.get("name").and_then(Value::as_str) == Some(name))?;
    let claim = volume.pointer("/persistentVolumeClaim/claimName")?.as_str()?;
    let sub = mount.get("subPath").and_then(Value::as_str).unwrap_or_default().trim_matches('/');
    let path: Vec<&str> = [sub, rest].into_iter().filter(|part| !part.is_empty()).collect();
    Some(ClaimPath { claim: claim.to_owned(), path: path.join("/") })
}

/// The same in a step as it is written; none where a placeholder decides.
fn written(step: &Step, path: &str) -> Option<ClaimPath> {
    let pod = step.template.as_ref()?.pointer("/spec/template/spec")?;
    let volumes = pod.get("volumes")?.as_array()?;
    let claim_path = claim_path(pod.pointer("/containers/0")?, volumes, path)?;
    let plain = |text: &str| !text.contains("{{") && !text.contains("${");
    (plain(&claim_path.claim) && plain(&claim_path.path)).then_some(claim_path)
}

/// Artifacts of a flow that stay where they are, by step and name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedArtifacts(BTreeSet<(String, String)>);

impl SharedArtifacts {
    /// Those of a flow. Looks at each step once.
    #[must_use]
    pub fn of(spec: &FlowSpec) -> Self {
        let steps = || spec.steps.iter().chain(&spec.finally);
        let mut claim_paths = BTreeMap::new();
        for step in steps().filter(|step| !step.is_fan_out()) {
            for output in step.output_artifacts().iter().filter(|output| output.s3.is_none()) {
                if let Some(claim_path) = written(step, &output.path) {
                    claim_paths.insert((step.name.as_str(), output.name.as_str()), claim_path);
                }
            }
        }
        if claim_paths.is_empty() {
            return Self::default();
        }
        let outputs: BTreeMap<&str, &[ArtifactOutput]> =
            steps().map(|step| (step.name.as_str(), step.output_artifacts())).collect();
        let mut taken = BTreeSet::new();
        for step in steps() {
            for input in step.input_artifacts() {
                let Some((from, artifact)) = input.source() else { continue };
                let first = || outputs.get(from).and_then(|outputs| Some(outputs.first()?.name.as_str()));
                let Some(artifact) = artifact.or_else(first) else { continue };
                let Some(claim_path) = claim_paths.get(&(from, artifact)) else { continue };
                let same = written(step, &input.delivery_path()).as_ref() == Some(claim_path);
                if same && input.unpack != Some(false) {
                    taken.insert((from.to_owned(), artifact.to_owned()));
                } else {
                    // A consumer needs it in a store.
                    claim_paths.remove(&(from, artifact));
                    taken.remove(&(from.to_owned(), artifact.to_owned()));
                }
            }
        }
        Self(taken)
    }

    /// Whether an artifact of a step stays where it is.
    pub(super) fn holds(&self, step: &str, artifact: &str) -> bool {
        self.0.contains(&(step.to_owned(), artifact.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn step(name: &str, mount: Value, more: Value) -> Value {
        let mut step = json!({"name": name, "template": {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": {
            "containers": [{"name": "main", "image": "i", "volumeMounts": [mount]}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "work"}}, {"name": "e", "emptyDir": {}}]}}}}});
        step.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        step
    }

    fn give() -> Value {
        json!({"outputs": {"artifacts": [{"name": "model", "path": "/data/out/model"}]}})
    }

    fn take(path: &str) -> Value {
        json!({"inputs": {"artifacts": [{"name": "in", "from": "make/model", "path": path}]}})
    }

    fn stays(make: Value, takers: &[Value]) -> bool {
        let mut steps = vec![make];
        steps.extend_from_slice(takers);
        let spec: FlowSpec = serde_json::from_value(json!({"steps": steps})).unwrap();
        SharedArtifacts::of(&spec).holds("make", "model")
    }

    #[test]
    fn what_all_takers_mount_at_the_same_place_stays_there() {
        let at = |path: &str| json!({"name": "v", "mountPath": path});
        let make = || step("make", at("/data"), give());
        let same = step("same", at("/other"), take("/other/out/model"));
        let sub = step("sub", json!({"name": "v", "mountPath": "/m/", "subPath": "out"}), take("/m/model"));
        assert!(stays(make(), &[same.clone(), sub.clone()]));
        // Nobody takes it: it is kept for people.
        assert!(!stays(make(), &[]));
        let elsewhere = step("elsewhere", at("/other"), take("/other/model"));
        assert!(!stays(make(), &[same.clone(), elsewhere.clone()]) && !stays(make(), &[elsewhere, same.clone()]));
        assert!(!stays(make(), &[step("none", json!({"name": "e", "mountPath": "/o"}), take("/o/out/model"))]));
        let mut packed = same.clone();
        packed["inputs"]["artifacts"][0]["unpack"] = json!(false);
        assert!(!stays(make(), &[packed]));
        let mut short = same.clone();
        short["inputs"]["artifacts"][0]["from"] = json!("make");
        assert!(stays(make(), &[short]));
        let placeholder = json!({"name": "v", "mountPath": "/data", "subPath": "{{.parameters.x}}"});
        let theirs =
            step("same", json!({"name": "v", "mountPath": "/o", "subPath": "{{.parameters.x}}"}), take("/o/out/model"));
        assert!(!stays(step("make", placeholder, give()), &[theirs]));
        let mut many = make();
        many["withItems"] = json!([1, 2]);
        assert!(!stays(many, &[same]));
    }
}
