//! Everything a plan for a performer is made of, as it is known or read. Owns which objects those are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::{CONTAINER, PERFORMER};
use crate::api::{Api, ApiError, Kind, Request};
use crate::hourglass::cache::{FreshReads, Reader};
use crate::hourglass::children::{Meta, is_terminating};
use crate::hourglass::cluster::Cluster;
use crate::hourglass::controller::Context;
use crate::hourglass::last_applied::LastApplied;
use crate::hourglass::names;
use crate::hourglass::plan::Failure;
use crate::hourglass::reference::ObservedReference;
use crate::hourglass::spec::{EnvironmentSource, KeySelector, PerformerSpec, PerformerStatus};
use crate::value::{texts, word};

/// Numbers whose names may be held by pods of others that are on their way out.
const SKIPPED: u32 = 16;

/// What is known of a performer.
#[derive(Clone, Debug)]
pub struct Observation {
    /// Its metadata.
    pub meta: Meta,
    /// Its spec, or why it cannot be read.
    pub spec: Result<PerformerSpec, String>,
    /// Its status; nothing of it where it cannot be read.
    pub status: PerformerStatus,
    /// The same as it is stored.
    pub stored: Value,
    /// Pods with its label or one of the names it may use, whoever they belong to.
    pub pods: Vec<Value>,
    /// The number the next pod gets: the first above all used ones whose name is not held by a pod that is going.
    pub next_incarnation: u32,
    /// The object under the name of its Service.
    pub service: Option<Value>,
    /// Its revisions.
    pub revisions: Vec<Value>,
    /// Its templates of claims.
    pub templates: Vec<Value>,
    /// The executor it names.
    pub executor: Option<Value>,
    /// ConfigMaps and Secrets that its variables are from; none where a change of them starts no new pod.
    pub references: Vec<ObservedReference>,
    /// The cluster.
    pub cluster: Arc<Cluster>,
    /// What went wrong last.
    pub last_failure: Option<Failure>,
    /// What the server made of its children.
    pub last_applied: Arc<LastApplied>,
}

/// Reads all of it; none where the performer is gone.
pub(super) async fn observe<A: Api>(context: Context<'_, A>) -> Result<Option<Observation>, ApiError> {
    let Context { reader, cluster, last_failure, last_applied, .. } = context;
    let Some(object) = reader.own().await? else { return Ok(None) };
    let meta = Meta::of(&object);
    let spec = serde_json::from_value::<PerformerSpec>(object.get("spec").cloned().unwrap_or_default());
    let stored = object.get("status").cloned().unwrap_or_default();
    let status = serde_json::from_value::<PerformerStatus>(stored.clone()).unwrap_or_default();
    let labels = format!("{PERFORMER}={}", names::label_value(&meta.name));
    let mut pods = reader.list(Kind::Pod, &labels).await?;
    let service = names::service(CONTAINER, &meta.name);
    // One that lost its labels is found by its name.
    let mut others: BTreeSet<String> = BTreeSet::new();
    others.extend(status.active.as_ref().map(|active| active.pod_name.clone()));
    others.extend(status.candidate.as_ref().map(|candidate| candidate.pod_name.clone()));
    let names = reader.fresh >= FreshReads::Names;
    if names {
        others.extend([1, status.incarnation.max(1)].map(|number| names::incarnation(&meta.name, &meta.uid, number)));
    }
    for name in others.iter().filter(|name| !has(&pods, name)).cloned().collect::<Vec<_>>() {
        pods.extend(if names { reader.ask(Kind::Pod, &name).await? } else { reader.get(Kind::Pod, &name).await? });
    }
    let cluster = with_hosts(reader.api, cluster, &pods).await?;
    let used = pods.iter().filter(|pod| meta.owns(pod)).filter_map(number).max().unwrap_or_default();
    let mut next_incarnation = status.incarnation.max(used) + 1;
    for _ in 0..SKIPPED {
        let name = names::incarnation(&meta.name, &meta.uid, next_incarnation);
        if names && !has(&pods, &name) && !others.contains(&name) {
            pods.extend(reader.ask(Kind::Pod, &name).await?);
        }
        let holder = pods.iter().find(|pod| word(pod, "/metadata/name") == name);
        if !holder.is_some_and(is_terminating) {
            break;
        }
        next_incarnation += 1;
    }
    let allocation = spec.as_ref().ok().and_then(|spec| spec.hardware_requirements.as_ref()?.allocation);
    let claims = allocation.is_some_and(|way| way != Default::default()) || status.allocation.as_deref() == Some("dra");
    let templates = if claims { templates(&reader, &labels, &cluster).await? } else { Vec::new() };
    let executor = match spec.as_ref().ok().and_then(|spec| spec.executor_ref.as_deref()) {
        Some(name) => reader.get(Kind::Executor, name).await?,
        None => None,
    };
    let references = references(&reader, spec.as_ref().ok(), &status).await?;
    Ok(Some(Observation {
        spec: spec.map_err(|error| error.to_string()),
        status,
        stored,
        pods,
        next_incarnation,
        service: reader.child(&meta, Kind::Service, &service).await?,
        revisions: reader.list(Kind::Revision, &labels).await?,
        templates,
        executor,
        references,
        cluster,
        last_failure,
        last_applied,
        meta,
    }))
}

async fn references<A: Api>(
    reader: &Reader<'_, A>,
    spec: Option<&PerformerSpec>,
    status: &PerformerStatus,
) -> Result<Vec<ObservedReference>, ApiError> {
    let mut keys: BTreeMap<(Kind, &str), BTreeSet<String>> = BTreeMap::new();
    for variable in
        spec.into_iter().filter(|spec| spec.roll_on_reference_change).flat_map(|spec| &spec.config.environment_from)
    {
        let EnvironmentSource { secret_key_ref, config_map_key_ref } = &variable.value_from;
        for (kind, source) in [(Kind::Secret, secret_key_ref), (Kind::ConfigMap, config_map_key_ref)] {
            if let Some(KeySelector { name, key, .. }) = source {
                keys.entry((kind, name)).or_default().insert(key.clone());
            }
        }
    }
    let mut all = Vec::new();
    for ((kind, name), keys) in keys {
        all.push(reader.reference(kind, name, Some(&keys), &status.references).await?);
    }
    Ok(all)
}

/// The number of a pod; none where it has none.
pub(super) fn number(pod: &Value) -> Option<u32> {
    texts(pod, "/metadata/labels").get(super::INCARNATION)?.parse().ok()
}

/// The kind of templates in the version that is served.
pub(super) fn template_kind(cluster: &Cluster) -> Kind {
    if cluster.devices.version() == Some("v1beta2") { Kind::BetaClaimTemplate } else { Kind::ClaimTemplate }
}

async fn templates<A: Api>(reader: &Reader<'_, A>, labels: &str, cluster: &Cluster) -> Result<Vec<Value>, ApiError> {
    match reader.list(template_kind(cluster), labels).await {
        // Where claims are not served there are no templates.
        Err(error) if error.code == Some(404) => Ok(Vec::new()),
        answer => answer,
    }
}

/// The cluster state with all nodes that pods are on: a pod may be observed before its node is.
async fn with_hosts<A: Api>(api: &A, mut cluster: Arc<Cluster>, pods: &[Value]) -> Result<Arc<Cluster>, ApiError> {
    let names: BTreeSet<&str> = pods.iter().map(|pod| word(pod, "/spec/nodeName")).collect();
    for name in names.into_iter().filter(|name| !name.is_empty()) {
        if cluster.nodes.as_ref().is_none_or(|nodes| nodes.contains_key(name)) {
            continue;
        }
        match api.send(&Request::get(Kind::Node, "", name)).await {
            Ok(node) => drop(Arc::make_mut(&mut cluster).node(&node)),
            // It is gone, or the watch of nodes has its own rights.
            Err(error) if matches!(error.code, Some(401 | 403 | 404)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(cluster)
}

fn has(pods: &[Value], name: &str) -> bool {
    pods.iter().any(|pod| word(pod, "/metadata/name") == name)
}
