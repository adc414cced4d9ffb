//! How values are taken apart into fields: by the schema of custom resources, by the names of members in built-in kinds.

use serde_json::Value;

use super::super::kind::Kind;
use super::super::patching::strategic::merge_key;
use super::super::schema::{ListType, Structure};

/// What is known of a value by its place.
#[derive(Clone, Debug)]
pub(super) struct Shape<'a> {
    structure: Option<&'a Structure>,
    builtin: bool,
    name: &'a str,
}

/// Members of built-in kinds that are one value each, whatever they hold.
const ATOMIC: &[&str] = &[
    "selector",
    "nodeSelector",
    "labelSelector",
    "namespaceSelector",
    "secretKeyRef",
    "configMapKeyRef",
    "fieldRef",
    "resourceFieldRef",
    "roleRef",
    "involvedObject",
    "regarding",
    "related",
    "dataSource",
    "claimRef",
    "secretRef",
];

/// Members of objects and of built-in kinds whose own members are named by users.
const MAPS: &[&str] = &[
    "labels",
    "annotations",
    "data",
    "binaryData",
    "stringData",
    "limits",
    "requests",
    "hard",
    "used",
    "capacity",
    "allocatable",
];

impl<'a> Shape<'a> {
    pub(super) fn of(kind: &'a Kind) -> Self {
        Self { structure: kind.structure.as_deref().filter(|_| kind.is_custom()), builtin: !kind.is_custom(), name: "" }
    }

    /// The shape of a member.
    pub(super) fn member(&self, name: &'a str) -> Self {
        // Metadata is that of built-in kinds everywhere.
        let metadata = self.name.is_empty() && name == "metadata";
        let structure = self.structure.and_then(|structure| structure.member(name)).filter(|_| !metadata);
        Self { structure, builtin: self.builtin || metadata, name }
    }

    /// The shape of an item.
    pub(super) fn item(&self) -> Self {
        Self {
            structure: self.structure.and_then(|structure| structure.items.as_deref()),
            builtin: self.builtin,
            name: "",
        }
    }

    /// Whether an object at this place is one value.
    pub(super) fn is_atomic(&self) -> bool {
        if self.builtin {
            return ATOMIC.contains(&self.name);
        }
        self.structure.is_some_and(|structure| structure.atomic_map)
    }

    /// Whether members at this place are named by users.
    pub(super) fn is_map(&self) -> bool {
        if self.builtin {
            return MAPS.contains(&self.name);
        }
        // Without schema the members are nobody's but the user's.
        self.structure.is_none_or(|structure| structure.additional.is_some())
    }

    /// How the items of a list at this place are told apart.
    pub(super) fn list(&self, items: &[Value]) -> ListType {
        if !self.builtin {
            return self.structure.map(|structure| structure.list.clone()).unwrap_or_default();
        }
        if self.name == "finalizers" {
            return ListType::Set;
        }
        match (self.name, items.first().and_then(|item| merge_key(self.name, item))) {
            (_, None) => ListType::Atomic,
            ("ports", Some(key)) => ListType::Map(vec![key.to_owned(), "protocol".to_owned()]),
            ("topologySpreadConstraints", Some(key)) => {
                ListType::Map(vec![key.to_owned(), "whenUnsatisfiable".to_owned()])
            }
            ("taints", Some(_)) => ListType::Atomic,
            (_, Some(key)) => ListType::Map(vec![key.to_owned()]),
        }
    }
}
