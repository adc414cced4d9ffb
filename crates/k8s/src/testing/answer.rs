//! Bodies of answers: objects, lists, bookmarks, metadata alone. Never decides what is answered.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::kind::Kind;
use super::object::{Object, text};
use super::store::Stored;
use super::watch::Watch;

/// An answer before it becomes HTTP.
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Body,
    pub(crate) warnings: Vec<String>,
}

/// What an answer carries.
pub(crate) enum Body {
    Json(Bytes),
    Watch(Box<Watch>),
}

impl Answer {
    /// A JSON text.
    pub(crate) fn bytes(code: u16, bytes: Bytes) -> Self {
        Self { code, body: Body::Json(bytes), warnings: Vec::new() }
    }

    /// A JSON value.
    pub(crate) fn json(code: u16, value: &Value) -> Self {
        Self::bytes(code, value.to_string().into())
    }

    /// An object, or its metadata alone.
    pub(crate) fn object(code: u16, stored: &Stored, metadata_only: bool) -> Self {
        if metadata_only {
            return Self::json(code, &only_metadata(&stored.object));
        }
        Self::bytes(code, stored.bytes().clone())
    }

    /// The Status that says that an object is gone.
    pub(crate) fn deleted(kind: &Kind, object: &Object) -> Self {
        let mut details = kind.details(super::object::meta(object, "name"), &kind.plural);
        if let Some(details) = details.as_object_mut() {
            details.insert("uid".to_owned(), super::object::meta(object, "uid").into());
        }
        Self::json(
            200,
            &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}),
        )
    }

    /// With warnings for the person who asked.
    pub(crate) fn warning(mut self, warnings: Vec<String>) -> Self {
        self.warnings.extend(warnings);
        self
    }
}

/// The metadata of an object in the form that clients can ask for.
pub(crate) fn only_metadata(object: &Object) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
        "metadata": object.get("metadata").cloned().unwrap_or(Value::Null)})
}

/// A page of a list.
pub(crate) struct Page<'a> {
    pub(crate) kind: &'a Kind,
    pub(crate) revision: u64,
    pub(crate) items: Vec<Arc<Stored>>,
    /// How to go on.
    pub(crate) token: Option<String>,
    /// Objects behind this page, where that is known.
    pub(crate) remaining: Option<usize>,
    pub(crate) metadata_only: bool,
}

impl Page<'_> {
    /// The list's text.
    pub(crate) fn render(&self) -> Bytes {
        let mut metadata = Map::new();
        metadata.insert("resourceVersion".to_owned(), self.revision.to_string().into());
        if self.token.is_some() || self.kind.is_custom() {
            metadata.insert("continue".to_owned(), self.token.clone().unwrap_or_default().into());
        }
        if let Some(remaining) = self.remaining {
            metadata.insert("remainingItemCount".to_owned(), remaining.into());
        }
        let (kind, version) = if self.metadata_only {
            ("PartialObjectMetadataList".to_owned(), "meta.k8s.io/v1".to_owned())
        } else {
            (format!("{}List", self.kind.kind), self.kind.api_version())
        };
        let head = json!({"kind": kind, "apiVersion": version, "metadata": metadata}).to_string();
        let mut out = head.into_bytes();
        out.pop();
        out.extend_from_slice(b",\"items\":[");
        for (index, item) in self.items.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            self.item(&mut out, item);
        }
        out.extend_from_slice(b"]}");
        Bytes::from(out)
    }

    fn item(&self, out: &mut Vec<u8>, item: &Stored) {
        if self.metadata_only {
            out.extend_from_slice(only_metadata(&item.object).to_string().as_bytes());
        } else if self.kind.is_custom() {
            out.extend_from_slice(item.bytes());
        } else {
            out.push(b'{');
            out.extend_from_slice(item.tail());
        }
    }
}

/// The event that says up to which version a watch has told everything.
pub(crate) fn bookmark(kind: &Kind, revision: u64) -> Value {
    json!({"kind": kind.kind, "apiVersion": kind.api_version(), "metadata": {"resourceVersion": revision.to_string()}})
}

/// The bookmark behind the objects that were there when a watch began.
pub(crate) fn initial_end(kind: &Kind, revision: u64) -> Value {
    json!({"kind": kind.kind, "apiVersion": kind.api_version(), "metadata": {"resourceVersion": revision.to_string(),
        "annotations": {"k8s.io/initial-events-end": "true"}}})
}

/// `autoscaling/v1` Scale of an object.
pub(crate) fn scale(kind: &Kind, object: &Object) -> Option<Value> {
    let scale = kind.scale.as_ref()?;
    let value = |path: &[String]| {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        super::object::at(object, &path).cloned()
    };
    let mut status = Map::new();
    status.insert("replicas".to_owned(), value(&scale.status).unwrap_or_else(|| Value::from(0)));
    if let Some(selector) = value(&scale.selector).filter(|_| !scale.selector.is_empty()) {
        status.insert("selector".to_owned(), selector);
    }
    let metadata = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"]
        .into_iter()
        .map(|name| (name.to_owned(), Value::from(text(object, &["metadata", name]))))
        .collect::<Map<String, Value>>();
    Some(json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
        "spec": {"replicas": value(&scale.spec).unwrap_or_else(|| Value::from(0))}, "status": status}))
}
