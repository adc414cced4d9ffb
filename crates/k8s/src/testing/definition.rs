//! CustomResourceDefinitions: from the stored document to a served kind, and what becomes of the kind when the document
//! changes or goes.

use std::sync::Arc;

use serde_json::{Value, json};

use super::kind::{Builtin, Habits, Kind, Scale};
use super::object::{Object, at, child, list, text};
use super::refusal::{Cause, Refusal, Result};
use super::schema::Structure;
use super::state::State;
use super::store::{Stored, Table, key_of};

/// The kinds a definition serves.
fn kinds(definition: &Object) -> std::result::Result<Vec<Kind>, Cause> {
    let names = |name: &str| text(definition, &["spec", "names", name]).to_owned();
    let words = |name: &str| -> Vec<String> {
        list(definition, &["spec", "names", name]).iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut kinds = Vec::new();
    for (index, version) in list(definition, &["spec", "versions"]).iter().enumerate() {
        if version.get("served") != Some(&Value::Bool(true)) {
            continue;
        }
        let place = format!("spec.versions[{index}].schema.openAPIV3Schema");
        let schema = version
            .pointer("/schema/openAPIV3Schema")
            .ok_or_else(|| Cause::required(&place, "schemas are required"))?;
        let structure = Structure::parse(schema).map_err(|why| Cause::invalid(&place, &Value::Null, why))?;
        let subresources = version.get("subresources");
        let status = subresources.and_then(|subresources| subresources.get("status")).is_some();
        kinds.push(Kind {
            group: text(definition, &["spec", "group"]).to_owned(),
            version: version.get("name").and_then(Value::as_str).unwrap_or_default().to_owned(),
            kind: names("kind"),
            plural: names("plural"),
            short_names: words("shortNames"),
            categories: words("categories"),
            namespaced: text(definition, &["spec", "scope"]) == "Namespaced",
            habits: Habits { builtin: Builtin::Custom, status, generation: true, ..Habits::default() },
            structure: Some(Arc::new(structure)),
            scale: subresources.and_then(|subresources| subresources.get("scale")).map(scale),
        });
    }
    Ok(kinds)
}

fn scale(scale: &Value) -> Scale {
    let path = |name: &str| -> Vec<String> {
        let text = scale.get(name).and_then(Value::as_str).unwrap_or_default();
        text.split('.').filter(|part| !part.is_empty()).map(str::to_owned).collect()
    };
    Scale { spec: path("specReplicasPath"), status: path("statusReplicasPath"), selector: path("labelSelectorPath") }
}

/// Serves what a stored definition says; other kinds are left alone.
pub(crate) fn after_write(state: &mut State, kind: &Kind, stored: &Arc<Stored>) -> Result<()> {
    if kind.habits.builtin != Builtin::Definition {
        return Ok(());
    }
    let refused = |cause: Cause| Refusal::invalid(kind, super::object::meta(&stored.object, "name"), &[cause]);
    for served in kinds(&stored.object).map_err(refused)? {
        let same = |table: &&mut Table| {
            table.kind.group == served.group
                && table.kind.plural == served.plural
                && table.kind.version == served.version
        };
        match state.tables.iter_mut().find(same) {
            Some(table) => table.kind = Arc::new(served),
            None => state.tables.push(Table::new(served)),
        }
    }
    establish(state, stored)
}

/// What the controllers of the API server write into a definition soon after.
fn establish(state: &mut State, stored: &Stored) -> Result<()> {
    if !list(&stored.object, &["status", "conditions"]).is_empty() {
        return Ok(());
    }
    let now = state.timestamp();
    let mut object = stored.object.clone();
    let names = at(&object, &["spec", "names"]).cloned().unwrap_or(Value::Null);
    let versions: Vec<Value> = list(&object, &["spec", "versions"])
        .iter()
        .filter(|version| version.get("storage") == Some(&Value::Bool(true)))
        .filter_map(|version| version.get("name").cloned())
        .collect();
    let status = child(&mut object, "status");
    status.insert("acceptedNames".to_owned(), names);
    status.insert("storedVersions".to_owned(), Value::Array(versions));
    let condition = |kind: &str, reason: &str, message: &str| json!({"type": kind, "status": "True", "lastTransitionTime": now, "reason": reason, "message": message});
    let conditions = json!([
        condition("NamesAccepted", "NoConflicts", "no conflicts found"),
        condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
    ]);
    status.insert("conditions".to_owned(), conditions);
    if let Some(table) = state.table_named("apiextensions.k8s.io", "customresourcedefinitions") {
        state.put(table, object)?;
    }
    Ok(())
}

/// The objects of a kind go with its definition.
pub(crate) fn after_delete(state: &mut State, kind: &Kind, gone: &Stored) {
    if kind.habits.builtin != Builtin::Definition {
        return;
    }
    let (group, plural) = (text(&gone.object, &["spec", "group"]), text(&gone.object, &["spec", "names", "plural"]));
    // Tables keep their place: streams know them by it.
    for index in 0..state.tables.len() {
        let keys: Vec<String> = match state.tables.get(index) {
            Some(table) if table.kind.group == group && table.kind.plural == plural => {
                table.all().map(|stored| key_of(&stored.object)).collect()
            }
            _ => continue,
        };
        for key in keys {
            state.take(index, &key, None);
        }
        if let Some(table) = state.tables.get_mut(index) {
            let mut kind = (*table.kind).clone();
            kind.version.clear();
            table.kind = Arc::new(kind);
        }
        state.faults.cut(index);
    }
}
