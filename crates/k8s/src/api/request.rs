//! Requests as values. Owns verbs, kinds and their paths; sends nothing.

use std::fmt;

use orlop_core::spec::flow::GROUP;
use serde::Serialize;
use serde_json::{Value, json};

use crate::crd::{FLOW_VERSION, FLOWS};
use crate::hourglass;

/// Kinds of objects controllers work with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Kind {
    /// A flow.
    JobFlow,
    /// A performer.
    Performer,
    /// An executor of performers.
    Executor,
    /// A `batch/v1` Job.
    Job,
    /// A pod.
    Pod,
    /// A ConfigMap.
    ConfigMap,
    /// A Secret.
    Secret,
    /// A Service.
    Service,
    /// A ServiceAccount.
    ServiceAccount,
    /// A PersistentVolumeClaim.
    Claim,
    /// An `apps/v1` Deployment.
    Deployment,
    /// A `policy/v1` PodDisruptionBudget.
    DisruptionBudget,
    /// An `apps/v1` ControllerRevision.
    Revision,
    /// A `resource.k8s.io/v1` ResourceClaimTemplate.
    ClaimTemplate,
    /// The same in `v1beta2`.
    BetaClaimTemplate,
    /// A node.
    Node,
    /// A `node.k8s.io/v1` RuntimeClass.
    RuntimeClass,
    /// A `resource.k8s.io/v1` DeviceClass.
    DeviceClass,
    /// The same in `v1beta2`.
    BetaDeviceClass,
    /// A `resource.k8s.io/v1` ResourceSlice.
    ResourceSlice,
    /// The same in `v1beta2`.
    BetaResourceSlice,
    /// An `events.k8s.io/v1` Event.
    Event,
    /// A `coordination.k8s.io/v1` Lease.
    Lease,
}

impl Kind {
    /// Group and version; the core group has no group.
    #[must_use]
    pub fn api_version(self) -> String {
        match self {
            Self::JobFlow => format!("{GROUP}/{FLOW_VERSION}"),
            Self::Performer | Self::Executor => hourglass::API_VERSION.to_owned(),
            Self::Job => "batch/v1".to_owned(),
            Self::Pod
            | Self::ConfigMap
            | Self::Secret
            | Self::Service
            | Self::ServiceAccount
            | Self::Claim
            | Self::Node => "v1".to_owned(),
            Self::Deployment | Self::Revision => "apps/v1".to_owned(),
            Self::DisruptionBudget => "policy/v1".to_owned(),
            Self::ClaimTemplate | Self::DeviceClass | Self::ResourceSlice => "resource.k8s.io/v1".to_owned(),
            Self::BetaClaimTemplate | Self::BetaDeviceClass | Self::BetaResourceSlice => {
                "resource.k8s.io/v1beta2".to_owned()
            }
            Self::RuntimeClass => "node.k8s.io/v1".to_owned(),
            Self::Event => "events.k8s.io/v1".to_owned(),
            Self::Lease => "coordination.k8s.io/v1".to_owned(),
        }
    }

    /// The name of the kind in objects.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::JobFlow => "JobFlow",
            Self::Performer => "Performer",
            Self::Executor => "HourglassExecutor",
            Self::Job => "Job",
            Self::Pod => "Pod",
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
            Self::Service => "Service",
            Self::ServiceAccount => "ServiceAccount",
            Self::Claim => "PersistentVolumeClaim",
            Self::Deployment => "Deployment",
            Self::DisruptionBudget => "PodDisruptionBudget",
            Self::Revision => "ControllerRevision",
            Self::ClaimTemplate | Self::BetaClaimTemplate => "ResourceClaimTemplate",
            Self::Node => "Node",
            Self::RuntimeClass => "RuntimeClass",
            Self::DeviceClass | Self::BetaDeviceClass => "DeviceClass",
            Self::ResourceSlice | Self::BetaResourceSlice => "ResourceSlice",
            Self::Event => "Event",
            Self::Lease => "Lease",
        }
    }

    /// The name of the kind in paths.
    #[must_use]
    pub const fn plural(self) -> &'static str {
        match self {
            Self::JobFlow => FLOWS,
            Self::Performer => hourglass::PERFORMERS,
            Self::Executor => hourglass::EXECUTORS,
            Self::Job => "jobs",
            Self::Pod => "pods",
            Self::ConfigMap => "configmaps",
            Self::Secret => "secrets",
            Self::Service => "services",
            Self::ServiceAccount => "serviceaccounts",
            Self::Claim => "persistentvolumeclaims",
            Self::Deployment => "deployments",
            Self::DisruptionBudget => "poddisruptionbudgets",
            Self::Revision => "controllerrevisions",
            Self::ClaimTemplate | Self::BetaClaimTemplate => "resourceclaimtemplates",
            Self::Node => "nodes",
            Self::RuntimeClass => "runtimeclasses",
            Self::DeviceClass | Self::BetaDeviceClass => "deviceclasses",
            Self::ResourceSlice | Self::BetaResourceSlice => "resourceslices",
            Self::Event => "events",
            Self::Lease => "leases",
        }
    }
}

/// When the objects are deleted that a deleted object owns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum Propagation {
    /// After the object.
    #[default]
    Background,
    /// Before the object, which waits for them.
    Foreground,
}

/// A part of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Most objects in it.
    pub limit: u32,
    /// The token to continue with, from the page before; empty for the first page.
    pub token: String,
}

/// The verb of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read the metadata of one object and nothing else of it.
    GetMetadata,
    /// Read all objects with these labels.
    List {
        /// A label selector.
        labels: String,
        /// A field selector; empty for none.
        fields: String,
        /// The part of them that is wanted; all where none is named.
        page: Option<Page>,
    },
    /// Create one object.
    Create,
    /// Put an object in the place of the version it names.
    Update,
    /// Change one object: a JSON merge patch.
    Patch,
    /// Change the status of one object: a JSON merge patch.
    PatchStatus,
    /// Set the fields of one object that a field manager owns to those of the body: a forced server-side apply.
    Apply {
        /// Who says so.
        manager: &'static str,
    },
    /// The same with its status.
    ApplyStatus {
        /// Who says so.
        manager: &'static str,
    },
    /// Delete one object.
    Delete {
        /// Only the object with this uid.
        uid: Option<String>,
        /// What happens to what it owns.
        propagation: Propagation,
    },
}

impl Verb {
    /// The verb as roles name it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Get | Self::GetMetadata => "get",
            Self::List { .. } => "list",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch | Self::PatchStatus | Self::Apply { .. } | Self::ApplyStatus { .. } => "patch",
            Self::Delete { .. } => "delete",
        }
    }

    /// Whether it changes anything.
    #[must_use]
    pub const fn writes(&self) -> bool {
        !matches!(self, Self::Get | Self::GetMetadata | Self::List { .. })
    }
}

/// A request to an API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The verb of a request.
    pub verb: Verb,
    /// To which kind of objects.
    pub kind: Kind,
    /// In which namespace; empty for a list of all.
    pub namespace: String,
    /// To which object; empty for a list.
    pub name: String,
    /// The object, or the patch.
    pub body: Value,
    /// Who is recorded as the manager of what is created or patched; the client's own name where nobody is named. An apply
    /// names its manager itself.
    pub manager: Option<&'static str>,
}

impl Request {
    /// Reads an object.
    #[must_use]
    pub fn get(kind: Kind, namespace: &str, name: &str) -> Self {
        Self::new(Verb::Get, kind, namespace, name, Value::Null)
    }

    /// Reads the metadata of an object: its contents never leave the server.
    #[must_use]
    pub fn get_metadata(kind: Kind, namespace: &str, name: &str) -> Self {
        Self::new(Verb::GetMetadata, kind, namespace, name, Value::Null)
    }

    /// Reads the objects with these labels.
    #[must_use]
    pub fn list(kind: Kind, namespace: &str, labels: String) -> Self {
        let verb = Verb::List { labels, fields: String::new(), page: None };
        Self::new(verb, kind, namespace, "", Value::Null)
    }

    /// The same for objects with these fields, where it is a list.
    #[must_use]
    pub fn fields(mut self, wanted: String) -> Self {
        if let Verb::List { fields, .. } = &mut self.verb {
            *fields = wanted;
        }
        self
    }

    /// The same for a part of the list, where it is one.
    #[must_use]
    pub fn page(mut self, part: Page) -> Self {
        if let Verb::List { page, .. } = &mut self.verb {
            *page = Some(part);
        }
        self
    }

    /// Creates an object, named and placed as its metadata says.
    #[must_use]
    pub fn create(kind: Kind, object: Value) -> Self {
        Self::whole(Verb::Create, kind, object)
    }

    /// Puts an object in the place of the version it names, named and placed as its metadata says.
    #[must_use]
    pub fn update(kind: Kind, object: Value) -> Self {
        Self::whole(Verb::Update, kind, object)
    }

    fn whole(verb: Verb, kind: Kind, object: Value) -> Self {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
        Self { verb, kind, namespace, name, body: object, manager: None }
    }

    /// Makes the fields that a manager has named what an object says, named and placed as its metadata says.
    #[must_use]
    pub fn apply(kind: Kind, object: Value, manager: &'static str) -> Self {
        Self::whole(Verb::Apply { manager }, kind, object)
    }

    /// The same with the status of an object.
    #[must_use]
    pub fn apply_status(kind: Kind, object: Value, manager: &'static str) -> Self {
        Self::whole(Verb::ApplyStatus { manager }, kind, object)
    }

    /// The same request under a name of a field manager.
    #[must_use]
    pub fn by(self, manager: &'static str) -> Self {
        Self { manager: Some(manager), ..self }
    }

    /// Patches an object.
    #[must_use]
    pub fn patch(kind: Kind, namespace: &str, name: &str, patch: Value) -> Self {
        Self::new(Verb::Patch, kind, namespace, name, patch)
    }

    /// Patches the status of a flow.
    #[must_use]
    pub fn patch_status(namespace: &str, name: &str, patch: Value) -> Self {
        Self::new(Verb::PatchStatus, Kind::JobFlow, namespace, name, patch)
    }

    /// Deletes an object, where a uid is given only the one that has it.
    #[must_use]
    pub fn delete(kind: Kind, namespace: &str, name: &str, uid: Option<String>) -> Self {
        Self::new(Verb::Delete { uid, propagation: Propagation::Background }, kind, namespace, name, Value::Null)
    }

    /// The same deletion, after everything that the object owns is deleted.
    #[must_use]
    pub fn after_its_children(mut self) -> Self {
        if let Verb::Delete { propagation, .. } = &mut self.verb {
            *propagation = Propagation::Foreground;
        }
        self
    }

    fn new(verb: Verb, kind: Kind, namespace: &str, name: &str, body: Value) -> Self {
        Self { verb, kind, namespace: namespace.to_owned(), name: name.to_owned(), body, manager: None }
    }

    /// The path on the server, without query.
    #[must_use]
    pub fn path(&self) -> String {
        let version = self.kind.api_version();
        let root = if version.contains('/') { "apis" } else { "api" };
        let place = match self.namespace.as_str() {
            "" => String::new(),
            namespace => format!("namespaces/{namespace}/"),
        };
        let mut path = format!("/{root}/{version}/{place}{}", self.kind.plural());
        if !matches!(self.verb, Verb::List { .. } | Verb::Create) {
            path.push('/');
            path.push_str(&self.name);
        }
        if self.is_on_status() {
            path.push_str("/status");
        }
        path
    }

    const fn is_on_status(&self) -> bool {
        matches!(self.verb, Verb::PatchStatus | Verb::ApplyStatus { .. })
    }

    /// What a deletion asks for besides.
    #[must_use]
    pub fn delete_options(&self) -> Option<Value> {
        let Verb::Delete { uid, propagation } = &self.verb else { return None };
        let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation});
        if let (Some(uid), Some(members)) = (uid, options.as_object_mut()) {
            members.insert("preconditions".to_owned(), json!({"uid": uid}));
        }
        Some(options)
    }
}

impl fmt::Display for Request {
    /// Verb, kind and object: what a log or a test calls the request.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = if self.is_on_status() { "/status" } else { "" };
        write!(f, "{} {}{status} {}/{}", self.verb.name(), self.kind.plural(), self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_names_of_requests() {
        let created = Request::create(Kind::Job, json!({"metadata": {"name": "a", "namespace": "n"}}));
        let requests = [
            Request::get(Kind::JobFlow, "n", "f"),
            Request::list(Kind::Pod, "n", "a=b".into()),
            Request::list(Kind::JobFlow, "", String::new()),
            created,
            Request::patch_status("n", "f", json!({})),
            Request::delete(Kind::Claim, "n", "c", None),
            Request::patch(Kind::Event, "n", "e", json!({})),
            Request::update(Kind::Lease, json!({"metadata": {"name": "l", "namespace": "n"}})),
        ];
        let reported: Vec<String> = requests.iter().map(|request| format!("{request} = {}", request.path())).collect();
        insta::assert_snapshot!(reported.join("\n"), @"
        get jobflows n/f = /apis/workflow.kube-zen.io/v1alpha1/namespaces/n/jobflows/f
        list pods n/ = /api/v1/namespaces/n/pods
        list jobflows / = /apis/workflow.kube-zen.io/v1alpha1/jobflows
        create jobs n/a = /apis/batch/v1/namespaces/n/jobs
        patch jobflows/status n/f = /apis/workflow.kube-zen.io/v1alpha1/namespaces/n/jobflows/f/status
        delete persistentvolumeclaims n/c = /api/v1/namespaces/n/persistentvolumeclaims/c
        patch events n/e = /apis/events.k8s.io/v1/namespaces/n/events/e
        update leases n/l = /apis/coordination.k8s.io/v1/namespaces/n/leases/l
        ");
        let delete = Request::delete(Kind::Job, "n", "a", Some("u".into()));
        insta::assert_snapshot!(delete.delete_options().unwrap(), @r#"{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"u"},"propagationPolicy":"Background"}"#);
        assert!(delete.verb.writes() && !Verb::Get.writes());
    }
}
