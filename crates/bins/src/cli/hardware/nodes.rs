//! Nodes as `kubectl get` writes them: lists or single objects, JSON or YAML, with resource slices and runtime classes beside
//! them. Owns reading them from a file.

use std::collections::BTreeMap;

use orlop_core::hardware::merge::RuntimeClass;
use orlop_core::hardware::{Device, Tables};
use orlop_dag::manifest::{Node as Document, Report, Source, TextLimits};
use orlop_k8s::hardware::{Node, node, runtime_class, slices};
use serde_json::Value;

use crate::cli::failure::{Exit, Failure};

/// What a file says of a cluster.
#[derive(Debug, Default)]
pub(super) struct Cluster {
    pub(super) nodes: Vec<Node>,
    pub(super) classes: BTreeMap<String, RuntimeClass>,
}

/// Reads a file of nodes.
///
/// # Errors
/// It is no YAML or JSON, or a node in it cannot be read.
pub(super) fn read(file: &str, text: &str, tables: &Tables) -> Result<Cluster, Failure> {
    let refused = |message: String| Failure::new(Exit::Refused, message);
    let (source, found) = Source::parse(file, text.to_owned(), &TextLimits::large());
    if found.has_errors() {
        return Err(refused(Report::new(found).to_string()));
    }
    let mut cluster = Cluster::default();
    let mut devices: BTreeMap<String, Vec<Device>> = BTreeMap::new();
    for document in source.documents().map(Document::to_value) {
        let single = [document];
        let items = single.iter().flat_map(|document| match document.get("items").and_then(Value::as_array) {
            Some(items) => items.iter().collect(),
            None => vec![document],
        });
        for object in items {
            let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("?");
            let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
            let unreadable = |error| refused(format!("{file}: {kind} {name}: {error}"));
            match kind {
                "Node" => cluster.nodes.push(node(object).map_err(unreadable)?),
                "RuntimeClass" => {
                    cluster.classes.insert(name.to_owned(), runtime_class(object).map_err(unreadable)?);
                }
                "ResourceSlice" => {
                    if let Some((node, found)) = slices(object, &tables.catalogue) {
                        devices.entry(node).or_default().extend(found);
                    }
                }
                _ => {}
            }
        }
    }
    for node in &mut cluster.nodes {
        node.machine.devices = devices.remove(&node.machine.name).unwrap_or_default();
    }
    if cluster.nodes.is_empty() {
        let message = format!("{file} holds no node; write it with `kubectl get nodes -o json`");
        return Err(refused(message));
    }
    cluster.nodes.sort_by(|a, b| a.machine.name.cmp(&b.machine.name));
    Ok(cluster)
}
