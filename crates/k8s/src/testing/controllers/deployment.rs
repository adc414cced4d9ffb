//! The controller of Deployments, played, with the pods as its own: there are no ReplicaSets. Owns how pods of one template
//! take the place of those of another: one more than wanted at a time, and never fewer that are ready.

use std::sync::Arc;

use serde_json::{Value, json};

use super::super::object::{Object, at, deleting, integer, label, list, meta, metadata, set_meta, text};
use super::super::state::State;
use super::super::store::Stored;
use super::super::verb::{DeleteOptions, create_directly, delete_object, write_back};
use super::{Controllers, Tables};

/// The label by which pods of one template are told from those of another.
const HASH: &str = "pod-template-hash";

/// The Deployment a pod belongs to, by key.
pub(super) fn key_of_owner(pod: &Object) -> Option<String> {
    let owners = list(pod, &["metadata", "ownerReferences"]);
    let owner = owners.iter().find(|owner| owner.get("kind").and_then(Value::as_str) == Some("Deployment"))?;
    Some(super::super::store::key(meta(pod, "namespace"), owner.get("name").and_then(Value::as_str)?))
}

/// Its pods that are there.
struct Pods {
    new: Vec<Arc<Stored>>,
    old: Vec<Arc<Stored>>,
}

fn is_ready(pod: &Arc<Stored>) -> bool {
    let says = |condition: &Value, name: &str, value: &str| condition.get(name).and_then(Value::as_str) == Some(value);
    let conditions = list(&pod.object, &["status", "conditions"]);
    conditions.iter().any(|condition| says(condition, "type", "Ready") && says(condition, "status", "True"))
}

fn ready(pods: &[Arc<Stored>]) -> usize {
    pods.iter().filter(|pod| is_ready(pod)).count()
}

impl Controllers {
    /// One turn over a Deployment: its status, and one pod more or less.
    pub(super) fn sync_deployment(&mut self, state: &mut State, tables: Tables, key: &str) {
        let Some(stored) = state.get(tables.deployments, key).cloned() else { return };
        let deployment = &stored.object;
        if deleting(deployment) {
            return;
        }
        let template = at(deployment, &["spec", "template"]).cloned().unwrap_or_default();
        let hash = orlop_core::name::sha256_hex(template.to_string().as_bytes(), 10);
        let pods = self.copies(state, tables, deployment, &hash);
        let wanted = usize::try_from(integer(deployment, &["spec", "replicas"]).unwrap_or(1)).unwrap_or_default();
        let (all, ready_new, ready_old) = (pods.new.len() + pods.old.len(), ready(&pods.new), ready(&pods.old));
        let status = json!({
            "observedGeneration": integer(deployment, &["metadata", "generation"]),
            "replicas": all, "updatedReplicas": pods.new.len(), "readyReplicas": ready_new + ready_old,
            "availableReplicas": ready_new + ready_old,
        });
        if deployment.get("status") != Some(&status) {
            let mut object = deployment.clone();
            object.insert("status".to_owned(), status);
            write_back(state, tables.deployments, object);
        }
        if pods.new.len() < wanted && all <= wanted {
            let pod = pod(deployment, template, &hash);
            // One that is refused is tried again when something changes.
            if create_directly(state, tables.pods, meta(deployment, "namespace"), pod).is_ok() {
                self.deployments.insert(key.to_owned());
            }
            return;
        }
        let spare = |pod: &&Arc<Stored>| ready_new + ready_old - usize::from(is_ready(pod)) >= wanted;
        let surplus = (pods.new.len() > wanted).then(|| pods.new.last()).flatten();
        if let Some(gone) = pods.old.iter().find(spare).or(surplus).cloned()
            && let Ok(kind) = state.kind(tables.pods)
        {
            // A refusal would need preconditions, of which there are none.
            let _ = delete_object(state, tables.pods, &kind, &gone, &DeleteOptions::default());
        }
    }

    fn copies(&self, state: &State, tables: Tables, deployment: &Object, hash: &str) -> Pods {
        let dependents = self.index.dependents(meta(deployment, "uid"));
        let pods = dependents.into_iter().filter(|(table, _)| *table == tables.pods);
        let there = |pod: &Arc<Stored>| {
            !deleting(&pod.object) && !matches!(text(&pod.object, &["status", "phase"]), "Succeeded" | "Failed")
        };
        let pods = pods.filter_map(|(table, key)| state.get(table, &key).cloned()).filter(there);
        let (new, old) = pods.partition(|pod| label(&pod.object, HASH) == Some(hash));
        Pods { new, old }
    }
}

fn pod(deployment: &Object, template: Value, hash: &str) -> Object {
    let Value::Object(mut pod) = template else { return Object::default() };
    pod.insert("apiVersion".to_owned(), "v1".into());
    pod.insert("kind".to_owned(), "Pod".into());
    let name = meta(deployment, "name").to_owned();
    set_meta(&mut pod, "generateName", format!("{name}-{hash}-"));
    super::super::object::child(metadata(&mut pod), "labels").insert(HASH.to_owned(), hash.into());
    let owner = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": meta(deployment, "uid"),
        "controller": true, "blockOwnerDeletion": true}]);
    set_meta(&mut pod, "ownerReferences", owner);
    pod
}
