//! The pods of a Job: made from its template, deleted, and let go once they are counted.

use std::sync::Arc;

use serde_json::{Value, json};

use super::super::super::object::{
    Object, at, child, deleting, finalizers, integer, meta, metadata, set_finalizers, set_meta, text,
};
use super::super::super::state::State;
use super::super::super::store::Stored;
use super::super::super::verb::{DeleteOptions, create_directly, delete_object, write_back};
use super::super::Tables;
use super::count::Tally;
use super::report::Report;
use super::{INDEX, TRACKING};

/// The annotation that tells how often the index of a pod failed before.
pub(super) const INDEX_FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";

/// Takes down pods that a Job has no use for, held or too many: without the finalizer, so that nobody counts them as failures.
/// Returns by how much the active ones change.
pub(super) fn withdraw(state: &mut State, tables: Tables, pods: &[Arc<Stored>]) -> i64 {
    release(state, tables, pods);
    let key = |stored: &Arc<Stored>| super::super::super::store::key_of(&stored.object);
    let released: Vec<_> = pods.iter().filter_map(|stored| state.get(tables.pods, &key(stored)).cloned()).collect();
    delete(state, tables, &released)
}

/// Deletes pods, which are counted still; returns by how much the active ones change.
pub(super) fn delete(state: &mut State, tables: Tables, pods: &[Arc<Stored>]) -> i64 {
    let Ok(kind) = state.kind(tables.pods) else { return 0 };
    let mut change = 0;
    for stored in pods {
        let options = DeleteOptions { propagation: "Background".to_owned(), ..DeleteOptions::default() };
        if !deleting(&stored.object) && delete_object(state, tables.pods, &kind, stored, &options).is_ok() {
            change -= 1;
        }
    }
    change
}

/// Lets pods go that are counted.
pub(super) fn release(state: &mut State, tables: Tables, pods: &[Arc<Stored>]) {
    for stored in pods {
        release_one(state, tables, &super::super::super::store::key_of(&stored.object));
    }
}

/// Lets the pods of a finished Job go that have ended.
pub(super) fn release_ended(state: &mut State, tables: Tables, pods: &[Arc<Stored>]) {
    for stored in pods {
        let ended =
            matches!(text(&stored.object, &["status", "phase"]), "Succeeded" | "Failed") || deleting(&stored.object);
        if ended && finalizers(&stored.object).contains(&TRACKING) {
            release_one(state, tables, &super::super::super::store::key_of(&stored.object));
        }
    }
}

/// Takes the tracking finalizer from a pod.
pub(in crate::testing::controllers) fn release_one(state: &mut State, tables: Tables, key: &str) {
    let Some(stored) = state.get(tables.pods, key) else { return };
    let mut object = stored.object.clone();
    let left: Vec<String> =
        finalizers(&object).into_iter().filter(|name| *name != TRACKING).map(str::to_owned).collect();
    set_finalizers(&mut object, left);
    write_back(state, tables.pods, object);
}

/// Makes up to that many pods; fewer where one is refused.
pub(super) fn make(state: &mut State, tables: Tables, job: &Object, tally: &Tally, report: &Report, count: i64) -> i64 {
    let indexed = text(job, &["spec", "completionMode"]) == "Indexed";
    let completions = integer(job, &["spec", "completions"]).unwrap_or_default();
    let mut free = (0..completions).filter(|index| !tally.running.contains(index) && report.is_open(*index));
    let namespace = meta(job, "namespace").to_owned();
    for made in 0..count {
        let index = if indexed {
            let Some(index) = free.next() else { return made };
            Some(index)
        } else {
            None
        };
        let pod = pod(job, index, tally);
        if create_directly(state, tables.pods, &namespace, pod).is_err() {
            return made;
        }
    }
    count
}

/// A pod by the template.
fn pod(job: &Object, index: Option<i64>, tally: &Tally) -> Object {
    let template = at(job, &["spec", "template"]).and_then(Value::as_object).cloned().unwrap_or_default();
    let mut pod = template;
    pod.insert("apiVersion".to_owned(), "v1".into());
    pod.insert("kind".to_owned(), "Pod".into());
    let name = meta(job, "name").to_owned();
    let prefix = index.map_or_else(|| format!("{name}-"), |index| format!("{name}-{index}-"));
    set_meta(&mut pod, "generateName", prefix);
    set_meta(&mut pod, "finalizers", vec![TRACKING]);
    let owner = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": meta(job, "uid"),
        "controller": true, "blockOwnerDeletion": true}]);
    set_meta(&mut pod, "ownerReferences", owner);
    let Some(index) = index else { return pod };
    let metadata = metadata(&mut pod);
    child(metadata, "annotations").insert(INDEX.to_owned(), index.to_string().into());
    child(metadata, "labels").insert(INDEX.to_owned(), index.to_string().into());
    if at(job, &["spec", "backoffLimitPerIndex"]).is_some() {
        let failures = tally.failures_of(index);
        child(metadata, "annotations").insert(INDEX_FAILURES.to_owned(), failures.to_string().into());
    }
    let spec = child(&mut pod, "spec");
    spec.entry("hostname").or_insert_with(|| format!("{name}-{index}").into());
    let field = json!({"name": "JOB_COMPLETION_INDEX",
        "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": format!("metadata.labels['{INDEX}']")}}});
    let containers = spec.get_mut("containers").and_then(Value::as_array_mut);
    for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
        if let Some(env) = container.entry("env").or_insert_with(|| json!([])).as_array_mut() {
            env.push(field.clone());
        }
    }
    pod
}
