//! Namespaces that go: their objects first, then they.

use std::sync::Arc;

use super::super::object::{child, deleting};
use super::super::state::State;
use super::super::store::Stored;
use super::super::verb::{DeleteOptions, delete_object, write_back};
use super::Tables;

pub(super) fn sync(state: &mut State, tables: Tables, name: &str) {
    let Some(stored) = state.get(tables.namespaces, name).cloned() else { return };
    if !deleting(&stored.object) {
        return;
    }
    let prefix = format!("{name}/");
    let mut left = false;
    for table in 0..state.tables.len() {
        let Ok(kind) = state.kind(table) else { continue };
        if !kind.namespaced {
            continue;
        }
        let objects: Vec<Arc<Stored>> = state
            .tables
            .get(table)
            .map(|table| table.within(&prefix).map(|(_, stored)| Arc::clone(stored)).collect())
            .unwrap_or_default();
        for object in objects {
            if deleting(&object.object) {
                left = true;
                continue;
            }
            let options = DeleteOptions { propagation: "Background".to_owned(), ..DeleteOptions::default() };
            left |= !delete_object(state, table, &kind, &object, &options).is_ok_and(|(_, gone)| gone);
        }
    }
    if !left {
        let mut object = stored.object.clone();
        child(&mut object, "spec").remove("finalizers");
        write_back(state, tables.namespaces, object);
    }
}
