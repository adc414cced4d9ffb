//! Nodes as `kubectl get` writes them: lists or single objects, JSON or YAML, with resource slices and runtime classes beside
//! them. Owns reading them from a file or from a cluster.

use std::collections::BTreeMap;
use std::path::PathBuf;

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
    let documents: Vec<Value> = source.documents().map(Document::to_value).collect();
    let objects = documents.iter().flat_map(|document| match document.get("items").and_then(Value::as_array) {
        Some(items) => items.iter().collect(),
        None => vec![document],
    });
    collect(file, objects, tables)
}

/// What objects say of a cluster. `place` is where they are from.
fn collect<'a>(place: &str, objects: impl Iterator<Item = &'a Value>, tables: &Tables) -> Result<Cluster, Failure> {
    let refused = |message: String| Failure::new(Exit::Refused, message);
    let mut cluster = Cluster::default();
    let mut devices: BTreeMap<String, Vec<Device>> = BTreeMap::new();
    for object in objects {
        let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("?");
        let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
        let unreadable = |error| refused(format!("{place}: {kind} {name}: {error}"));
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
    for node in &mut cluster.nodes {
        node.machine.devices = devices.remove(&node.machine.name).unwrap_or_default();
    }
    if cluster.nodes.is_empty() {
        let message = format!("{place} holds no node; `kubectl get nodes -o json` writes those of a cluster");
        return Err(refused(message));
    }
    cluster.nodes.sort_by(|a, b| a.machine.name.cmp(&b.machine.name));
    Ok(cluster)
}

/// Reads the nodes of a cluster. Runtime classes and slices count where they may be read and are served.
///
/// # Errors
/// There is no way to it, it does not let nodes be read, or a node cannot be read.
#[cfg(feature = "kube")]
pub(super) async fn fetch(
    kubeconfig: Option<PathBuf>,
    context: Option<String>,
    tables: &Tables,
) -> Result<Cluster, Failure> {
    use orlop_k8s::api::{Client, Kind, list};
    use orlop_k8s::client::ClientError;

    use crate::host::cluster;

    let way = cluster::Way { kubeconfig, context, master: None };
    let client = cluster::client(&way).await.map_err(|error| Failure::usage(error.to_string()))?;
    let api = Client::new(client);
    let mut objects = Vec::new();
    for kind in [Kind::Node, Kind::RuntimeClass, Kind::ResourceSlice] {
        let found = match list(&api, kind, "", "").await {
            Ok(found) => found,
            Err(error) if kind != Kind::Node && matches!(error.code, Some(403 | 404)) => continue,
            Err(source) => {
                let doing = format!("listing {} of the cluster", kind.plural());
                return Err(ClientError::Api { doing, source }.into());
            }
        };
        for mut object in found {
            // Lists leave out what their objects are.
            if let Some(members) = object.as_object_mut() {
                members.insert("kind".to_owned(), Value::from(kind.name()));
            }
            objects.push(object);
        }
    }
    collect("the cluster", objects.iter(), tables)
}

/// Without a client there is no cluster.
///
/// # Errors
/// Always.
#[cfg(not(feature = "kube"))]
pub(super) async fn fetch(
    _kubeconfig: Option<PathBuf>,
    _context: Option<String>,
    _tables: &Tables,
) -> Result<Cluster, Failure> {
    Err(Failure::usage("this program was built without Kubernetes; give --nodes FILE"))
}
