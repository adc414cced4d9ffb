//! The garbage collector: objects whose owners are gone go, and owners that wait for their dependents, or let them go first,
//! are seen to.

use serde_json::Value;

use super::super::object::{Object, at, deleting, finalizers, list, meta, set_finalizers, set_meta};
use super::super::state::State;
use super::super::verb::{DeleteOptions, delete_object, write_back};
use super::claim::{PROTECTION, is_used};
use super::index::{Index, owners};
use super::{Controllers, Tables};

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

/// Whether a change can be of interest here.
pub(super) fn concerns(before: Option<&Object>, after: Option<&Object>) -> bool {
    let Some(after) = after else { return false };
    let waits = deleting(after) && finalizers(after).iter().any(|name| [FOREGROUND, ORPHAN, PROTECTION].contains(name));
    let owned = owners(after).next().is_some();
    let new = before.is_none_or(|before| {
        at(before, &["metadata", "ownerReferences"]) != at(after, &["metadata", "ownerReferences"])
    });
    waits || owned && new
}

/// The owners of a gone object that may have waited for it.
pub(super) fn owners_waiting(gone: &Object, index: &Index) -> Vec<(usize, String)> {
    owners(gone).filter_map(|uid| index.place(uid).cloned()).collect()
}

impl Controllers {
    pub(super) fn collect(&mut self, state: &mut State, tables: Tables, table: usize, key: &str) {
        let Some(stored) = state.get(table, key).cloned() else { return };
        let object = &stored.object;
        if deleting(object) && finalizers(object).contains(&ORPHAN) {
            self.orphan(state, object);
            release(state, table, key, ORPHAN);
            return;
        }
        if deleting(object) && finalizers(object).contains(&PROTECTION) && !is_used(state, tables, object) {
            release(state, table, key, PROTECTION);
            return;
        }
        if deleting(object) && finalizers(object).contains(&FOREGROUND) {
            self.foreground(state, table, key, object);
            return;
        }
        self.judge(state, table, key, object);
    }

    /// Lets the dependents of an owner go their own way.
    fn orphan(&self, state: &mut State, owner: &Object) {
        let uid = meta(owner, "uid");
        for (table, key) in self.index.dependents(uid) {
            let Some(stored) = state.get(table, &key) else { continue };
            let mut object = stored.object.clone();
            let left: Vec<Value> = list(&object, &["metadata", "ownerReferences"])
                .iter()
                .filter(|reference| reference.get("uid").and_then(Value::as_str) != Some(uid))
                .cloned()
                .collect();
            if left.is_empty() {
                super::super::object::drop_meta(&mut object, "ownerReferences");
            } else {
                set_meta(&mut object, "ownerReferences", left);
            }
            write_back(state, table, object);
        }
    }

    /// Deletes the dependents of an owner; it goes when none is left that blocks it.
    fn foreground(&self, state: &mut State, table: usize, key: &str, owner: &Object) {
        let uid = meta(owner, "uid");
        let mut blocked = false;
        for (table, key) in self.index.dependents(uid) {
            let Some(stored) = state.get(table, &key).cloned() else { continue };
            let blocks = list(&stored.object, &["metadata", "ownerReferences"]).iter().any(|reference| {
                reference.get("uid").and_then(Value::as_str) == Some(uid)
                    && reference.get("blockOwnerDeletion") == Some(&Value::Bool(true))
            });
            let policy =
                if self.index.has_dependents(meta(&stored.object, "uid")) { "Foreground" } else { "Background" };
            let gone = deleting(&stored.object) || delete(state, table, &stored, policy);
            blocked |= blocks && (!gone || state.get(table, &key).is_some());
        }
        if !blocked {
            release(state, table, key, FOREGROUND);
        }
    }

    /// Whether any owner of an object is there; an object without any goes, and dangling references go.
    fn judge(&self, state: &mut State, table: usize, key: &str, object: &Object) {
        let references = list(object, &["metadata", "ownerReferences"]);
        if references.is_empty() || deleting(object) {
            return;
        }
        let namespace = meta(object, "namespace");
        let alive: Vec<Value> =
            references.iter().filter(|reference| self.is_there(state, reference, namespace)).cloned().collect();
        if alive.is_empty() {
            if let Some(stored) = state.get(table, key).cloned() {
                delete(state, table, &stored, "Background");
            }
        } else if alive.len() < references.len() {
            let mut object = object.clone();
            set_meta(&mut object, "ownerReferences", alive);
            write_back(state, table, object);
        }
    }

    /// Whether the owner is the object that the reference means: same uid, kind and name, in reach.
    fn is_there(&self, state: &State, reference: &Value, namespace: &str) -> bool {
        let text = |name: &str| reference.get(name).and_then(Value::as_str).unwrap_or_default();
        let Some((table, key)) = self.index.place(text("uid")) else { return false };
        let Some(table) = state.tables.get(*table) else { return false };
        let Some(owner) = table.get(key) else { return false };
        let group = |version: &str| version.split_once('/').map_or(String::new(), |(group, _)| group.to_owned());
        table.kind.kind == text("kind")
            && group(&table.kind.api_version()) == group(text("apiVersion"))
            && meta(&owner.object, "name") == text("name")
            && (!table.kind.namespaced || meta(&owner.object, "namespace") == namespace)
    }
}

fn delete(state: &mut State, table: usize, stored: &std::sync::Arc<super::super::store::Stored>, policy: &str) -> bool {
    let Ok(kind) = state.kind(table) else { return false };
    let options = DeleteOptions {
        uid: meta(&stored.object, "uid").to_owned(),
        propagation: policy.to_owned(),
        ..DeleteOptions::default()
    };
    delete_object(state, table, &kind, stored, &options).is_ok_and(|(_, gone)| gone)
}

/// Takes a finalizer from an object, which goes if it was the last one.
fn release(state: &mut State, table: usize, key: &str, name: &str) {
    let Some(stored) = state.get(table, key) else { return };
    let mut object = stored.object.clone();
    let left = finalizers(&object).into_iter().filter(|other| *other != name).map(str::to_owned).collect();
    set_finalizers(&mut object, left);
    write_back(state, table, object);
}
