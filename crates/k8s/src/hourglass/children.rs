//! Children of an object: who owns what, and the metadata that all of them have. Owns the reference by which a child belongs
//! to its object.

use std::collections::BTreeMap;

use orlop_core::machine::{Machine, Named, NoGuard};
use orlop_core::time::Time;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::API_VERSION;
use super::plan::{Effect, ObjectKey, Step};
use crate::api::{Kind, Propagation};
use crate::shell::Key;
use crate::value::{item, items, text, texts, time, word};

/// Metadata of the object that is planned for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// How often its spec changed.
    pub generation: i64,
    /// Its version.
    pub version: String,
    /// When it was created.
    pub created_at: Option<Time>,
    /// When its deletion was asked for.
    pub deleted_at: Option<Time>,
    /// Who holds it.
    pub finalizers: Vec<String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
}

impl Meta {
    /// Reads it.
    #[must_use]
    pub fn of(object: &Value) -> Self {
        let finalizers = items(object, "/metadata/finalizers").iter().filter_map(Value::as_str);
        Self {
            namespace: text(object, "/metadata/namespace"),
            name: text(object, "/metadata/name"),
            uid: text(object, "/metadata/uid"),
            generation: object.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default(),
            version: text(object, "/metadata/resourceVersion"),
            created_at: time(object, "/metadata/creationTimestamp"),
            deleted_at: time(object, "/metadata/deletionTimestamp"),
            finalizers: finalizers.map(str::to_owned).collect(),
            annotations: texts(object, "/metadata/annotations"),
        }
    }

    /// Whether an object belongs to this one.
    #[must_use]
    pub fn owns(&self, child: &Value) -> bool {
        controller(child) == Some(self.uid.as_str())
    }

    /// Metadata of a child: placed, owned, labelled.
    #[must_use]
    pub fn child(&self, kind: Kind, name: &str, labels: &BTreeMap<String, String>) -> Value {
        json!({
            "name": name,
            "namespace": self.namespace,
            "labels": labels,
            "ownerReferences": [{
                "apiVersion": API_VERSION,
                "kind": kind.name(),
                "name": self.name,
                "uid": self.uid,
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        })
    }
}

/// Uid of the object that controls a child.
#[must_use]
pub fn controller(child: &Value) -> Option<&str> {
    let mut owners = items(child, "/metadata/ownerReferences").iter();
    let owner = owners.find(|owner| owner.get("controller").and_then(Value::as_bool) == Some(true))?;
    owner.get("uid")?.as_str()
}

/// What of an object starts a pass when it changes: not its status, which is written here.
pub(super) fn trigger_metadata(object: &Value) -> Value {
    let mut metadata = object.get("metadata").cloned().unwrap_or_default();
    if let Some(members) = metadata.as_object_mut() {
        members.retain(|name, _| {
            matches!(
                name.as_str(),
                "uid" | "generation" | "annotations" | "labels" | "finalizers" | "deletionTimestamp"
            )
        });
    }
    metadata
}

/// The object a child belongs to: its owner, or for a child of a child the one its label names, as labels have that name.
pub(super) fn owner_key(kind: Kind, label: &str, child: &Value) -> Option<Key> {
    let namespace = text(child, "/metadata/namespace");
    if let Some(owner) = item(child, "/metadata/ownerReferences", "kind", kind.name()) {
        return Some(Key { namespace, name: text(owner, "/name") });
    }
    let name = texts(child, "/metadata/labels").remove(label)?;
    Some(Key { namespace, name })
}

/// Deletes a child, if it is still that one.
#[must_use]
pub fn delete(kind: Kind, child: &Value) -> Effect {
    let key = ObjectKey { kind, name: text(child, "/metadata/name") };
    Effect::Delete { key, uid: text(child, "/metadata/uid"), propagation: Propagation::Background }
}

/// Whether a child is on its way out.
#[must_use]
pub(crate) fn is_terminating(child: &Value) -> bool {
    !word(child, "/metadata/deletionTimestamp").is_empty()
}

/// The way through a lifecycle between two statuses. What was not seen before is born first; and so is what is said to be
/// where no way leads on from, such as at its end although nobody deletes it: somebody else has written that. None where even
/// birth does not lead there, which is a broken invariant.
#[must_use]
pub(crate) fn lifecycle_path<S: Named, E: Named>(
    machine: &Machine<S, E, NoGuard>,
    from: Option<S>,
    to: Option<S>,
) -> Option<Vec<Step>> {
    let Some(to) = to else { return Some(Vec::new()) };
    let Some(birth) = machine.successors(None).into_iter().next() else { return Some(Vec::new()) };
    let mut steps = Vec::new();
    let states = match from.and_then(|from| machine.path(from, to)) {
        Some(states) => states,
        None => {
            steps.push(Step { from: None, to: birth.as_str() });
            machine.path(birth, to)?
        }
    };
    let pairs = states.iter().zip(states.iter().skip(1));
    steps.extend(pairs.map(|(from, to)| Step { from: Some(from.as_str()), to: to.as_str() }));
    Some(steps)
}
