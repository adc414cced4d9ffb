//! Nodes that are lost and pods that are evicted.

use serde_json::{Value, json};

use super::super::object::{child, deleting, text};
use super::super::state::State;
use super::super::verb::{DeleteOptions, delete_object, write_back};
use super::{Tables, pod};

/// The pods of a node, by key.
fn pods_of(state: &State, tables: Tables, node: &str) -> Vec<String> {
    let Some(table) = state.tables.get(tables.pods) else { return Vec::new() };
    table
        .all()
        .filter(|stored| text(&stored.object, &["spec", "nodeName"]) == node)
        .map(|stored| super::super::store::key_of(&stored.object))
        .collect()
}

/// A node does not answer any more: its pods are told to go, and stay, as nobody there says that they went.
pub(crate) fn lose_node(state: &mut State, node: &str) {
    let Some(tables) = Tables::of(state) else { return };
    state.controllers.plays.lose(node);
    for key in pods_of(state, tables, node) {
        disrupt(state, tables, &key, "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint");
        let (Some(stored), Ok(kind)) = (state.get(tables.pods, &key).cloned(), state.kind(tables.pods)) else {
            continue;
        };
        if !deleting(&stored.object) {
            // A refusal would need preconditions, of which there are none.
            let _ = delete_object(state, tables.pods, &kind, &stored, &DeleteOptions::default());
        }
    }
}

/// A lost node is taken out of the cluster: its pods end as failed and go.
pub(crate) fn remove_node(state: &mut State, node: &str) {
    let Some(tables) = Tables::of(state) else { return };
    for key in pods_of(state, tables, node) {
        disrupt(state, tables, &key, "DeletionByPodGC", "PodGC: node no longer exists");
        let Some(stored) = state.get(tables.pods, &key) else { continue };
        let mut object = stored.object.clone();
        if !matches!(text(&object, &["status", "phase"]), "Succeeded" | "Failed") {
            child(&mut object, "status").insert("phase".to_owned(), "Failed".into());
        }
        write_back(state, tables.pods, object);
        pod::finish_deletion(state, tables, &key, true);
    }
    if let Ok(kind) = state.kind(tables.nodes)
        && let Some(stored) = state.get(tables.nodes, node).cloned()
    {
        let _ = delete_object(state, tables.nodes, &kind, &stored, &DeleteOptions::default());
    }
    state.controllers.plays.find(node);
}

/// A node short of memory or disk ends a pod.
pub(crate) fn evict(state: &mut State, key: &str) -> bool {
    let Some(tables) = Tables::of(state) else { return false };
    disrupt(state, tables, key, "TerminationByKubelet", "The node was low on resource: memory.");
    let Some(stored) = state.get(tables.pods, key) else { return false };
    let mut object = stored.object.clone();
    let status = child(&mut object, "status");
    status.insert("phase".to_owned(), "Failed".into());
    status.insert("reason".to_owned(), "Evicted".into());
    status.insert("message".to_owned(), "The node was low on resource: memory.".into());
    write_back(state, tables.pods, object);
    true
}

/// Writes why a pod ends that did nothing wrong.
fn disrupt(state: &mut State, tables: Tables, key: &str, reason: &str, message: &str) {
    let now = state.timestamp();
    let Some(stored) = state.get(tables.pods, key) else { return };
    let mut object = stored.object.clone();
    let status = child(&mut object, "status");
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    if let Some(list) = conditions.as_array_mut() {
        list.retain(|condition| condition.get("type").and_then(Value::as_str) != Some("DisruptionTarget"));
        list.push(json!({"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message,
            "lastTransitionTime": now}));
    }
    write_back(state, tables.pods, object);
}
