//! Nodes as `kubectl get` writes them: lists or single objects, JSON or YAML, with resource slices and runtime classes beside
//! them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use orlop_core::hardware::merge::RuntimeClass;
use orlop_core::hardware::{Device, Tables};
use orlop_dag::manifest::{Node as Document, Report, Source, TextLimits};
use orlop_k8s::hardware::{DeviceFacts, Node, node, runtime_class, slices};
use serde_json::Value;

use crate::cli::failure::{Exit, Failure};

/// What is known of a cluster.
#[derive(Debug, Default)]
pub(super) struct Cluster {
    pub(super) nodes: Vec<Node>,
    /// Its runtime classes; none where nobody has said which there are.
    pub(super) classes: Option<BTreeMap<String, RuntimeClass>>,
    /// What decides whether devices are claimed.
    pub(super) devices: DeviceFacts,
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
    collect(file, objects, Cluster::default(), tables)
}

impl Cluster {
    /// All objects of a kind were listed, so that it is known which there are, also where there are none.
    pub(super) fn listed(&mut self, kind: orlop_k8s::api::Kind) {
        use orlop_k8s::api::Kind;

        match kind {
            Kind::RuntimeClass => drop(self.classes.get_or_insert_default()),
            Kind::DeviceClass | Kind::BetaDeviceClass => {
                let _ = self.devices.classes.get_or_insert_default();
                let version = if kind == Kind::DeviceClass { "v1" } else { "v1beta2" };
                self.devices.versions.insert(version.to_owned());
            }
            _ => {}
        }
    }
}

/// What objects say of a cluster, beside what is known of it. `place` is where they are from.
fn collect<'a>(
    place: &str,
    objects: impl Iterator<Item = &'a Value>,
    mut cluster: Cluster,
    tables: &Tables,
) -> Result<Cluster, Failure> {
    let refused = |message: String| Failure::new(Exit::Refused, message);
    // The same slice may be there in several versions.
    let mut devices: BTreeMap<String, BTreeMap<String, Vec<Device>>> = BTreeMap::new();
    for object in objects {
        let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("?");
        let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
        let unreadable = |error| refused(format!("{place}: {kind} {name}: {error}"));
        match kind {
            "Node" => cluster.nodes.push(node(object).map_err(unreadable)?),
            "RuntimeClass" => {
                cluster
                    .classes
                    .get_or_insert_default()
                    .insert(name.to_owned(), runtime_class(object).map_err(unreadable)?);
            }
            "DeviceClass" => {
                cluster.devices.versions.extend(version(object));
                cluster.devices.classes.get_or_insert_default().insert(name.to_owned());
            }
            "ResourceSlice" => {
                cluster.devices.versions.extend(version(object));
                let driver = object.pointer("/spec/driver").and_then(Value::as_str);
                cluster.devices.drivers.extend(driver.map(str::to_owned));
                if let Some((node, found)) = slices(object, &tables.catalogue) {
                    devices.entry(node).or_default().insert(name.to_owned(), found);
                }
            }
            _ => {}
        }
    }
    for node in &mut cluster.nodes {
        node.machine.devices =
            devices.remove(&node.machine.name).into_iter().flat_map(BTreeMap::into_values).flatten().collect();
    }
    if cluster.nodes.is_empty() {
        let message = format!("{place} holds no node; `kubectl get nodes -o json` writes those of a cluster");
        return Err(refused(message));
    }
    cluster.nodes.sort_by(|a, b| a.machine.name.cmp(&b.machine.name));
    Ok(cluster)
}

/// The version of the API for devices that an object is written in.
fn version(object: &Value) -> Option<String> {
    let version = object.get("apiVersion")?.as_str()?;
    Some(version.strip_prefix("resource.k8s.io/")?.to_owned())
}

/// Reads the nodes of a cluster. Runtime classes and slices count where they may be read and are served.
///
/// # Errors
/// There is no way to it, it does not let nodes be read, or a node cannot be read.
pub(super) async fn fetch(
    kubeconfig: Option<PathBuf>,
    context: Option<String>,
    tables: &Tables,
) -> Result<Cluster, Failure> {
    use orlop_k8s::api::{Client, Kind, list};
    use orlop_k8s::hourglass::cluster::KINDS;

    use crate::host::cluster;

    let way = cluster::Way { kubeconfig, context, master: None };
    let client = cluster::client(&way).await.map_err(|error| Failure::usage(error.to_string()))?;
    let api = Client::new(client);
    let mut objects = Vec::new();
    let mut cluster = Cluster::default();
    for kind in KINDS {
        let found = match list(&api, kind, "", "").await {
            Ok(found) => found,
            Err(error) if kind != Kind::Node && matches!(error.code, Some(403 | 404)) => continue,
            Err(source) => {
                let doing = format!("listing {} of the cluster", kind.plural());
                return Err(source.problem(&doing).into());
            }
        };
        cluster.listed(kind);
        for mut object in found {
            // Lists leave out what their objects are.
            if let Some(members) = object.as_object_mut() {
                members.insert("kind".to_owned(), Value::from(kind.name()));
            }
            objects.push(object);
        }
    }
    collect("the cluster", objects.iter(), cluster, tables)
}
