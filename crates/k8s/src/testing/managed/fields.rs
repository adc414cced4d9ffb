//! Sets of fields, in the form of `fieldsV1`: read, written, joined, and taken from objects.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::super::object::Object;
use super::super::schema::ListType;
use super::shape::Shape;

/// Metadata that nobody manages.
const UNMANAGED: &[&str] = &[
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "clusterName",
    "generation",
    "managedFields",
    "resourceVersion",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

/// A set of fields below some place. Elements are written as in `fieldsV1`: `f:name`, `k:{…}`, `v:…`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Set {
    /// The place itself.
    here: bool,
    below: BTreeMap<String, Set>,
}

impl Set {
    fn leaf() -> Self {
        Self { here: true, below: BTreeMap::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.here && self.below.values().all(Set::is_empty)
    }

    /// Adds all of another.
    pub(super) fn join(&mut self, other: &Self) {
        self.here |= other.here;
        for (element, set) in &other.below {
            self.below.entry(element.clone()).or_default().join(set);
        }
    }

    /// Takes all of another out.
    pub(super) fn remove(&mut self, other: &Self) {
        if other.here {
            self.here = false;
        }
        for (element, set) in &other.below {
            if let Some(own) = self.below.get_mut(element) {
                own.remove(set);
                if own.is_empty() {
                    self.below.remove(element);
                }
            }
        }
    }

    /// What is in both.
    pub(super) fn common(&self, other: &Self) -> Self {
        let below = self.below.iter().filter_map(|(element, set)| {
            let both = set.common(other.below.get(element)?);
            (!both.is_empty()).then(|| (element.clone(), both))
        });
        Self { here: self.here && other.here, below: below.collect() }
    }

    /// Whether this place or anything below it is in the set.
    pub(super) fn below(&self, element: &str) -> Option<&Self> {
        self.below.get(element)
    }

    /// Whether the place itself is in the set.
    pub(super) fn has_here(&self) -> bool {
        self.here
    }

    /// The elements right below.
    pub(super) fn elements(&self) -> impl Iterator<Item = (&String, &Set)> {
        self.below.iter()
    }

    fn insert(&mut self, element: String, set: Set) {
        if !set.is_empty() {
            self.below.entry(element).or_default().join(&set);
        }
    }

    /// The fields in a `fieldsV1` object.
    pub(super) fn read(value: &Value) -> Self {
        let Some(members) = value.as_object() else { return Self::default() };
        if members.is_empty() {
            return Self::leaf();
        }
        let below =
            members.iter().filter(|(name, _)| *name != ".").map(|(name, value)| (name.clone(), Self::read(value)));
        Self { here: members.contains_key("."), below: below.collect() }
    }

    /// As a `fieldsV1` object.
    pub(super) fn write(&self) -> Value {
        let mut out = Map::new();
        if self.here && !self.below.is_empty() {
            out.insert(".".to_owned(), Value::Object(Map::new()));
        }
        for (element, set) in &self.below {
            out.insert(element.clone(), set.write());
        }
        Value::Object(out)
    }

    /// All places in the set as paths: on each level first those that are in the set themselves, then what is below.
    pub(super) fn paths(&self, prefix: &str, out: &mut Vec<String>) {
        for (element, _) in self.below.iter().filter(|(_, set)| set.here) {
            out.push(format!("{prefix}{}", shown(element)));
        }
        for (element, set) in &self.below {
            set.paths(&format!("{prefix}{}", shown(element)), out);
        }
    }
}

/// An element as paths show it.
fn shown(element: &str) -> String {
    match element.split_once(':') {
        Some(("f", name)) => format!(".{name}"),
        Some(("v", value)) => format!("[={value}]"),
        Some(("k", key)) => {
            let members: BTreeMap<String, Value> = serde_json::from_str(key).unwrap_or_default();
            let parts: Vec<String> = members.iter().map(|(name, value)| format!("{name}={value}")).collect();
            format!("[{}]", parts.join(","))
        }
        _ => element.to_owned(),
    }
}

/// The element of a list item, where the list has such.
pub(super) fn element(list: &ListType, item: &Value) -> Option<String> {
    match list {
        ListType::Atomic => None,
        ListType::Set => Some(format!("v:{item}")),
        ListType::Map(keys) => {
            let mut names: Vec<&String> = keys.iter().collect();
            names.sort();
            let key: Map<String, Value> =
                names.into_iter().filter_map(|name| Some((name.clone(), key_value(name, item)?))).collect();
            Some(format!("k:{}", Value::Object(key)))
        }
    }
}

/// Keys that have a default need not be written.
fn key_value(name: &str, item: &Value) -> Option<Value> {
    item.get(name).cloned().or_else(|| (name == "protocol").then(|| "TCP".into()))
}

/// The managed fields of an object but for some of its members.
pub(super) fn of_object(shape: &Shape<'_>, object: &Object, ignored: &[&str]) -> Set {
    let mut set = Set::default();
    for (name, value) in object {
        if matches!(name.as_str(), "apiVersion" | "kind") || ignored.contains(&name.as_str()) {
            continue;
        }
        set.insert(format!("f:{name}"), of_value(&shape.member(name), value));
    }
    strip(&mut set);
    set
}

/// Takes out what nobody manages.
fn strip(set: &mut Set) {
    if let Some(metadata) = set.below.get_mut("f:metadata") {
        metadata.here = false;
        for name in UNMANAGED {
            metadata.below.remove(&format!("f:{name}"));
        }
        if metadata.is_empty() {
            set.below.remove("f:metadata");
        }
    }
}

fn of_value(shape: &Shape<'_>, value: &Value) -> Set {
    match value {
        Value::Object(members) if !members.is_empty() && !shape.is_atomic() => {
            let mut set = Set::default();
            for (name, value) in members {
                set.insert(format!("f:{name}"), of_value(&shape.member(name), value));
            }
            set
        }
        Value::Array(items) => {
            let list = shape.list(items);
            if list == ListType::Atomic || items.is_empty() {
                return Set::leaf();
            }
            let mut set = Set::default();
            for item in items {
                let mut inner = if list == ListType::Set { Set::leaf() } else { of_value(&shape.item(), item) };
                inner.here = true;
                set.insert(element(&list, item).unwrap_or_default(), inner);
            }
            set
        }
        _ => Set::leaf(),
    }
}

/// How two versions of an object differ.
#[derive(Debug, Default)]
pub(super) struct Differences {
    pub(super) added: Set,
    pub(super) changed: Set,
    pub(super) removed: Set,
}

impl Differences {
    pub(super) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty()
    }
}

/// Compares two versions but for some members.
pub(super) fn compare(shape: &Shape<'_>, old: &Object, new: &Object, ignored: &[&str]) -> Differences {
    let mut differences = Differences::default();
    let names = old.keys().chain(new.keys().filter(|name| !old.contains_key(*name)));
    for name in names {
        if matches!(name.as_str(), "apiVersion" | "kind") || ignored.contains(&name.as_str()) {
            continue;
        }
        let found = values(&shape.member(name), old.get(name), new.get(name));
        put(&mut differences, &format!("f:{name}"), found);
    }
    for set in [&mut differences.added, &mut differences.changed, &mut differences.removed] {
        strip(set);
    }
    differences
}

fn put(into: &mut Differences, element: &str, found: Differences) {
    into.added.insert(element.to_owned(), found.added);
    into.changed.insert(element.to_owned(), found.changed);
    into.removed.insert(element.to_owned(), found.removed);
}

/// Everything a new value brings: maps bring themselves too.
fn brought(shape: &Shape<'_>, value: &Value) -> Set {
    match value {
        Value::Object(members) if !members.is_empty() && !shape.is_atomic() => {
            let mut set = Set { here: shape.is_map(), below: BTreeMap::new() };
            for (name, value) in members {
                set.insert(format!("f:{name}"), brought(&shape.member(name), value));
            }
            set
        }
        Value::Array(items) if !items.is_empty() && shape.list(items) != ListType::Atomic => {
            let list = shape.list(items);
            let mut set = Set { here: true, below: BTreeMap::new() };
            for item in items {
                let mut inner = if list == ListType::Set { Set::leaf() } else { brought(&shape.item(), item) };
                inner.here = true;
                set.insert(element(&list, item).unwrap_or_default(), inner);
            }
            set
        }
        _ => Set::leaf(),
    }
}

fn values(shape: &Shape<'_>, old: Option<&Value>, new: Option<&Value>) -> Differences {
    let mut differences = Differences::default();
    match (old, new) {
        (None, Some(new)) => differences.added = brought(shape, new),
        (Some(old), None) => differences.removed = brought(shape, old),
        (Some(old), Some(new)) if old != new => both(shape, old, new, &mut differences),
        _ => {}
    }
    differences
}

fn both(shape: &Shape<'_>, old: &Value, new: &Value, differences: &mut Differences) {
    match (old, new) {
        (Value::Object(before), Value::Object(after)) if !shape.is_atomic() => {
            for name in before.keys().chain(after.keys().filter(|name| !before.contains_key(*name))) {
                put(differences, &format!("f:{name}"), values(&shape.member(name), before.get(name), after.get(name)));
            }
        }
        (Value::Array(before), Value::Array(after)) => {
            let list = shape.list(if after.is_empty() { before } else { after });
            if list == ListType::Atomic {
                differences.changed = Set::leaf();
                return;
            }
            let keyed = |items: &[Value]| -> BTreeMap<String, Value> {
                items.iter().filter_map(|item| Some((element(&list, item)?, item.clone()))).collect()
            };
            let (before, after) = (keyed(before), keyed(after));
            for key in before.keys().chain(after.keys().filter(|key| !before.contains_key(*key))) {
                let mut found = values(&shape.item(), before.get(key), after.get(key));
                found.added.here |= !before.contains_key(key);
                found.removed.here |= !after.contains_key(key);
                put(differences, key, found);
            }
        }
        _ => differences.changed = brought(shape, new),
    }
}
