//! The objects that a flow creates, as values: the Job of an attempt, claims and ConfigMaps of its templates, parts of its status, and
//! events. Owns what is special to Kubernetes (owners, labels and annotations, output files); creates nothing.

mod event;
pub mod helper;
mod job;
mod resource;

use orlop_core::ports::substrate::FlowOwner;
use orlop_core::spec::flow::{API_VERSION, GROUP, KIND};
use orlop_dag::attempt::disown;
use serde_json::{Map, Value, json};

pub use event::{PendingEvent, event};
pub(crate) use event::{Subject, about, micros};
pub use job::{ArtifactTransfer, HOLDS_KEY, INSTANCE, RenderError, hold, job};
pub(crate) use resource::{artifact, keeps_artifacts};
pub use resource::{claim, config_map, state};
pub(crate) use resource::{kept_parameters, parameters};

/// Label that every Job of a flow has, and its value.
pub(crate) const MANAGED_BY: (&str, &str) = ("workflow.kube-zen.io/managed-by", "zen-flow");

/// The reference by which an object belongs to its flow and goes with it.
#[must_use]
pub(crate) fn owner_reference(owner: &FlowOwner) -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": owner.name,
        "uid": owner.uid,
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// An annotation or label key of flows.
fn key(name: &str) -> String {
    format!("{GROUP}/{name}")
}

/// Names, places and owns an object.
fn own(metadata: &mut Map<String, Value>, owner: &FlowOwner, name: &str) {
    disown(metadata);
    metadata.insert("name".to_owned(), json!(name));
    metadata.insert("namespace".to_owned(), json!(owner.namespace));
    metadata.insert("ownerReferences".to_owned(), json!([owner_reference(owner)]));
}

/// A member that is an object; anything else there is replaced by an empty one.
pub(crate) fn object<'m>(members: &'m mut Map<String, Value>, name: &str) -> Option<&'m mut Map<String, Value>> {
    let member = members.entry(name).or_insert_with(|| json!({}));
    if !member.is_object() {
        *member = json!({});
    }
    member.as_object_mut()
}
