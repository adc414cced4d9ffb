//! Who owns what, and which pods a Job has: kept up to date from the log, so that no turn searches.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::super::object::{Object, list};

/// The index.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    /// Objects by the uid of an owner.
    dependents: BTreeMap<String, BTreeSet<(usize, String)>>,
    /// Places by uid.
    places: BTreeMap<String, (usize, String)>,
}

/// The uids of the owners of an object.
pub(super) fn owners(object: &Object) -> impl Iterator<Item = &str> {
    list(object, &["metadata", "ownerReferences"]).iter().filter_map(|owner| owner.get("uid").and_then(Value::as_str))
}

impl Index {
    /// Takes notice of one change.
    pub(super) fn update(&mut self, table: usize, key: &str, before: Option<&Object>, after: Option<&Object>) {
        let place = (table, key.to_owned());
        for uid in before.into_iter().flat_map(owners) {
            if after.is_some_and(|after| owners(after).any(|other| other == uid)) {
                continue;
            }
            if let Some(set) = self.dependents.get_mut(uid) {
                set.remove(&place);
                if set.is_empty() {
                    self.dependents.remove(uid);
                }
            }
        }
        for uid in after.into_iter().flat_map(owners) {
            self.dependents.entry(uid.to_owned()).or_default().insert(place.clone());
        }
        let uid = |object: &Object| super::super::object::meta(object, "uid").to_owned();
        match (before, after) {
            (_, Some(after)) => {
                self.places.insert(uid(after), place);
            }
            (Some(before), None) => {
                self.places.remove(&uid(before));
            }
            (None, None) => {}
        }
    }

    /// Where the object with a uid is.
    pub(super) fn place(&self, uid: &str) -> Option<&(usize, String)> {
        self.places.get(uid)
    }

    pub(super) fn has_dependents(&self, uid: &str) -> bool {
        self.dependents.contains_key(uid)
    }

    /// The objects that name this uid as an owner.
    pub(super) fn dependents(&self, uid: &str) -> Vec<(usize, String)> {
        self.dependents.get(uid).into_iter().flatten().cloned().collect()
    }
}
