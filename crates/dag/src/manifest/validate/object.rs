//! The object as a whole: group and kind, metadata, size, number of steps, the parent of a repeated flow.

use std::io;

use orlop_core::id::{dns1123_label, dns1123_subdomain, label_key, label_value};
use orlop_core::spec::flow::{API_VERSION, KIND};

use super::context::Context;
use crate::code::Code;
use crate::manifest::path::Path;
use crate::manifest::violation::{Note, Violations, shown};

pub(super) fn check(context: &Context<'_>, found: &mut Violations) {
    identity(context, found);
    metadata(context, found);
    steps(context, found);
    retry_of(context, found);
    size(context, found);
}

fn identity(context: &Context<'_>, found: &mut Violations) {
    let root = Path::ROOT;
    for (field, given, wanted) in
        [("apiVersion", &context.flow.api_version, API_VERSION), ("kind", &context.flow.kind, KIND)]
    {
        if given != wanted {
            found.error(Code::Object, &root.field(field), || {
                (format!("`{field}` is {}", shown(given)), format!("write {field}: {wanted}"))
            });
        }
    }
}

fn metadata(context: &Context<'_>, found: &mut Violations) {
    let path = Path::ROOT.field("metadata");
    let meta = &context.flow.metadata;
    let generated = meta.generate_name.as_deref().filter(|prefix| !prefix.is_empty());
    match (meta.name.as_str(), generated) {
        ("", None) => found.error(Code::Object, &path.field("name"), || {
            ("the flow has no name", "give it a `name`, or a `generateName` that a name is made from")
        }),
        ("", Some(prefix)) => {
            if let Err(error) = dns1123_subdomain(&format!("{prefix}0")) {
                found.error(Code::Object, &path.field("generateName"), || Note::of(&error.about("prefix of names")));
            }
        }
        (name, _) => {
            if let Err(error) = dns1123_subdomain(name) {
                found.error(Code::Object, &path.field("name"), || Note::of(&error.about("flow name")));
            }
        }
    }
    if let Some(Err(error)) = meta.namespace.as_deref().map(dns1123_label) {
        found.error(Code::Object, &path.field("namespace"), || Note::of(&error.about("namespace")));
    }
    let (labels, annotations) = (path.field("labels"), path.field("annotations"));
    for (key, value) in &meta.labels {
        if let Err(error) = label_key(key).and_then(|()| label_value(value)) {
            found.error(Code::Object, &labels.field(key), || Note::of(&error));
        }
    }
    for key in meta.annotations.keys() {
        // Approvals may carry the documented form with two slashes, which only Kubernetes refuses.
        if let Err(error) = label_key(key).map_err(|error| error.about("annotation key"))
            && (context.limits.kubernetes || !key.starts_with("workflow.kube-zen.io/approved/"))
        {
            found.error(Code::Object, &annotations.field(key), || Note::of(&error));
        }
    }
}

fn steps(context: &Context<'_>, found: &mut Violations) {
    let spec = Path::ROOT.field("spec");
    let (steps, finally) = (context.flow.spec.steps.len(), context.flow.spec.finally.len());
    if steps == 0 {
        found.error(Code::Value, &spec.field("steps"), || ("the flow has no steps", "list at least one step"));
    }
    if steps + finally > context.limits.steps {
        let limit = context.limits.steps;
        found.error(Code::Value, &spec.field("steps"), || {
            let message = format!("the flow has {} steps; at most {limit} are allowed here", steps + finally);
            (message, "write many similar steps as one step with `withItems`")
        });
    }
}

fn retry_of(context: &Context<'_>, found: &mut Violations) {
    let Some(parent) = &context.flow.spec.retry_of else { return };
    let spec = Path::ROOT.field("spec");
    let path = spec.field("retryOf");
    for (field, value) in [("name", &parent.name), ("uid", &parent.uid)] {
        if value.is_empty() {
            found.error(Code::Value, &path.field(field), || format!("`{field}` of the flow to repeat is empty"));
        }
    }
    let list = path.field("steps");
    for (index, name) in parent.steps.iter().enumerate() {
        if context.step(name).is_none() {
            found.error(Code::Value, &list.index(index), || context.no_step(name));
        }
    }
}

fn size(context: &Context<'_>, found: &mut Violations) {
    let Some(limit) = context.limits.bytes else { return };
    let mut counter = Counter(0);
    let flow = context.flow;
    let written = serde_json::to_writer(&mut counter, &flow.metadata)
        .and_then(|()| serde_json::to_writer(&mut counter, &flow.spec));
    if let Err(error) = written {
        found.error(Code::TooLarge, &Path::ROOT, || format!("the flow cannot be written as JSON: {error}"));
    } else if counter.0 > limit {
        found.error(Code::TooLarge, &Path::ROOT, || {
            let message = format!(
                "the flow takes {} bytes as stored JSON; at most {limit} fit into the cluster's store",
                counter.0
            );
            (message, "write many similar steps as one step with `withItems`, and move long scripts into ConfigMaps")
        });
    }
}

/// Counts bytes without keeping them.
struct Counter(usize);

impl io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
