//! What the double knows of a kind: its names, its subresources, and which of the ways in which kinds differ it follows.

use std::sync::Arc;

use serde_json::{Value, json};

use super::schema::Structure;

/// One served version of one kind.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    /// API group, empty for the core group.
    pub(crate) group: String,
    /// Version, as in `v1`.
    pub(crate) version: String,
    /// The kind's name.
    pub(crate) kind: String,
    /// Its name in paths.
    pub(crate) plural: String,
    /// Short names, for discovery.
    pub(crate) short_names: Vec<String>,
    /// Categories, for discovery.
    pub(crate) categories: Vec<String>,
    /// Whether its objects live in namespaces.
    pub(crate) namespaced: bool,
    /// How it behaves.
    pub(crate) habits: Habits,
    /// Its fields.
    pub(crate) structure: Option<Arc<Structure>>,
    /// Where the scale subresource reads and writes.
    pub(crate) scale: Option<Scale>,
}

/// The ways in which kinds differ.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Habits {
    /// Which kind of our own it is; other kinds have nothing special.
    pub(crate) builtin: Builtin,
    /// Status is written through its own subresource only.
    pub(crate) status: bool,
    /// `metadata.generation` counts changes of the spec.
    pub(crate) generation: bool,
    /// A PUT without resourceVersion overwrites.
    pub(crate) unconditional: bool,
    /// A PUT of an object that is not there creates it.
    pub(crate) create_on_update: bool,
    /// A DELETE that is done at once answers with the object instead of a Status.
    pub(crate) returns_deleted: bool,
}

/// Kinds with rules of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Builtin {
    /// A built-in kind without rules of its own.
    #[default]
    Plain,
    /// Defined by a CustomResourceDefinition.
    Custom,
    /// ConfigMap and Secret: no change once immutable.
    Data,
    Pod,
    Job,
    Namespace,
    Node,
    Claim,
    Lease,
    Event,
    Quota,
    Definition,
}

/// JSON paths of the scale subresource, split at the dots.
#[derive(Clone, Debug)]
pub(crate) struct Scale {
    pub(crate) spec: Vec<String>,
    pub(crate) status: Vec<String>,
    pub(crate) selector: Vec<String>,
}

impl Kind {
    /// `apiVersion` of its objects.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// `jobs.batch`, `pods`: how messages name the resource.
    pub(crate) fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// `Job.batch`, `Pod`: how messages name the kind.
    pub(crate) fn qualified_kind(&self) -> String {
        if self.group.is_empty() { self.kind.clone() } else { format!("{}.{}", self.kind, self.group) }
    }

    /// The details of a refusal. Their `kind` is a plural in some refusals and a kind in others.
    pub(crate) fn details(&self, name: &str, kind: &str) -> Value {
        let mut details = serde_json::Map::new();
        if !name.is_empty() {
            details.insert("name".to_owned(), name.into());
        }
        if !self.group.is_empty() {
            details.insert("group".to_owned(), self.group.clone().into());
        }
        details.insert("kind".to_owned(), kind.into());
        Value::Object(details)
    }

    /// Whether it is defined by a CustomResourceDefinition.
    pub(crate) fn is_custom(&self) -> bool {
        self.habits.builtin == Builtin::Custom
    }

    /// Its entry in the discovery document of its group and version.
    pub(crate) fn discovery(&self) -> Vec<Value> {
        let verbs = json!(["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]);
        let mut main = json!({"name": self.plural, "singularName": self.kind.to_lowercase(), "namespaced": self.namespaced,
            "kind": self.kind, "verbs": verbs});
        if let Some(main) = main.as_object_mut() {
            if !self.short_names.is_empty() {
                main.insert("shortNames".to_owned(), json!(self.short_names));
            }
            if !self.categories.is_empty() {
                main.insert("categories".to_owned(), json!(self.categories));
            }
        }
        let mut list = vec![main];
        if self.habits.status {
            list.push(
                json!({"name": format!("{}/status", self.plural), "singularName": "", "namespaced": self.namespaced,
                "kind": self.kind, "verbs": ["get", "patch", "update"]}),
            );
        }
        if self.scale.is_some() {
            list.push(
                json!({"name": format!("{}/scale", self.plural), "singularName": "", "namespaced": self.namespaced,
                "group": "autoscaling", "version": "v1", "kind": "Scale", "verbs": ["get", "patch", "update"]}),
            );
        }
        list
    }
}

/// One line of the table of built-in kinds: group, version, kind, plural, short names, namespaced, habits.
type KindRow = (&'static str, &'static str, &'static str, &'static str, &'static [&'static str], bool, Habits);

const fn habits(builtin: Builtin, status: bool, generation: bool) -> Habits {
    Habits { builtin, status, generation, unconditional: true, create_on_update: false, returns_deleted: false }
}

const fn returning(habits: Habits) -> Habits {
    Habits { returns_deleted: true, ..habits }
}

const fn creating(habits: Habits) -> Habits {
    Habits { create_on_update: true, ..habits }
}

const fn versioned(habits: Habits) -> Habits {
    Habits { unconditional: false, ..habits }
}

const PLAIN: Habits = habits(Builtin::Plain, false, false);
const RBAC: &str = "rbac.authorization.k8s.io";

/// The built-in kinds the double serves.
const BUILTIN: &[KindRow] = &[
    ("", "v1", "ConfigMap", "configmaps", &["cm"], true, habits(Builtin::Data, false, false)),
    ("", "v1", "Event", "events", &["ev"], true, creating(PLAIN)),
    ("", "v1", "Namespace", "namespaces", &["ns"], false, habits(Builtin::Namespace, true, false)),
    ("", "v1", "Node", "nodes", &["no"], false, habits(Builtin::Node, true, false)),
    (
        "",
        "v1",
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        &["pvc"],
        true,
        returning(habits(Builtin::Claim, true, false)),
    ),
    ("", "v1", "Pod", "pods", &["po"], true, returning(habits(Builtin::Pod, true, true))),
    ("", "v1", "ResourceQuota", "resourcequotas", &["quota"], true, returning(habits(Builtin::Quota, true, false))),
    ("", "v1", "Secret", "secrets", &[], true, habits(Builtin::Data, false, false)),
    ("", "v1", "Service", "services", &["svc"], true, returning(habits(Builtin::Plain, true, false))),
    ("", "v1", "ServiceAccount", "serviceaccounts", &["sa"], true, returning(PLAIN)),
    ("apps", "v1", "ControllerRevision", "controllerrevisions", &[], true, PLAIN),
    ("apps", "v1", "Deployment", "deployments", &["deploy"], true, habits(Builtin::Plain, true, true)),
    ("batch", "v1", "Job", "jobs", &[], true, habits(Builtin::Job, true, true)),
    (
        "coordination.k8s.io",
        "v1",
        "Lease",
        "leases",
        &[],
        true,
        creating(versioned(habits(Builtin::Lease, false, false))),
    ),
    ("events.k8s.io", "v1", "Event", "events", &["ev"], true, creating(habits(Builtin::Event, false, false))),
    ("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", &[], false, PLAIN),
    ("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", &["pdb"], true, habits(Builtin::Plain, true, true)),
    ("resource.k8s.io", "v1", "DeviceClass", "deviceclasses", &[], false, PLAIN),
    ("resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates", &[], true, PLAIN),
    ("resource.k8s.io", "v1", "ResourceSlice", "resourceslices", &[], false, PLAIN),
    (RBAC, "v1", "Role", "roles", &[], true, creating(PLAIN)),
    (RBAC, "v1", "RoleBinding", "rolebindings", &[], true, creating(PLAIN)),
    (RBAC, "v1", "ClusterRole", "clusterroles", &[], false, creating(PLAIN)),
    (RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", &[], false, creating(PLAIN)),
    (
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        &["crd", "crds"],
        false,
        versioned(habits(Builtin::Definition, true, true)),
    ),
];

/// The built-in kinds, in a fixed order.
pub(crate) fn builtin() -> Vec<Kind> {
    BUILTIN
        .iter()
        .map(|(group, version, kind, plural, short, namespaced, habits)| Kind {
            group: (*group).to_owned(),
            version: (*version).to_owned(),
            kind: (*kind).to_owned(),
            plural: (*plural).to_owned(),
            short_names: short.iter().map(|&name| name.to_owned()).collect(),
            categories: if *plural == "jobs" || *plural == "pods" { vec!["all".to_owned()] } else { Vec::new() },
            namespaced: *namespaced,
            habits: *habits,
            structure: super::schema::natural(group, kind),
            scale: None,
        })
        .collect()
}
