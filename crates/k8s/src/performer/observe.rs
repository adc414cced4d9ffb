//! Everything a plan for a performer is made of, as it is known or read. Owns which objects those are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::{CONTAINER, PERFORMER};
use crate::api::{Api, ApiError, Kind, Request};
use crate::hourglass::admitted::Admitted;
use crate::hourglass::cache::{Live, Sight};
use crate::hourglass::children::{Meta, is_going};
use crate::hourglass::controller::Look;
use crate::hourglass::names;
use crate::hourglass::plan::Trouble;
use crate::hourglass::reference::Seen;
use crate::hourglass::spec::{EnvironmentSource, KeySelector, PerformerSpec, PerformerStatus};
use crate::hourglass::world::World;
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
    pub next: u32,
    /// The object under the name of its Service.
    pub service: Option<Value>,
    /// Its revisions.
    pub revisions: Vec<Value>,
    /// Its templates of claims.
    pub templates: Vec<Value>,
    /// The executor it names.
    pub executor: Option<Value>,
    /// ConfigMaps and Secrets that its variables are from; none where a change of them starts no new pod.
    pub references: Vec<Seen>,
    /// The cluster.
    pub world: Arc<World>,
    /// What went wrong last.
    pub trouble: Option<Trouble>,
    /// What the server made of its children.
    pub admitted: Arc<Admitted>,
}

/// Reads all of it; none where the performer is gone.
pub(super) async fn observe<A: Api>(look: Look<'_, A>) -> Result<Option<Observation>, ApiError> {
    let Look { sight, world, trouble, admitted, .. } = look;
    let Some(object) = sight.own().await? else { return Ok(None) };
    let meta = Meta::of(&object);
    let spec = serde_json::from_value::<PerformerSpec>(object.get("spec").cloned().unwrap_or_default());
    let stored = object.get("status").cloned().unwrap_or_default();
    let status = serde_json::from_value::<PerformerStatus>(stored.clone()).unwrap_or_default();
    let labels = format!("{PERFORMER}={}", names::label_value(&meta.name));
    let mut pods = sight.list(Kind::Pod, &labels).await?;
    let service = names::service(CONTAINER, &meta.name);
    // One that lost its labels is found by its name.
    let mut others: BTreeSet<String> = BTreeSet::new();
    others.extend(status.active.as_ref().map(|active| active.pod_name.clone()));
    others.extend(status.candidate.as_ref().map(|candidate| candidate.pod_name.clone()));
    let names = sight.live >= Live::Names;
    if names {
        others.extend([1, status.incarnation.max(1)].map(|number| names::incarnation(&meta.name, &meta.uid, number)));
    }
    for name in others.iter().filter(|name| !has(&pods, name)).cloned().collect::<Vec<_>>() {
        pods.extend(if names { sight.ask(Kind::Pod, &name).await? } else { sight.get(Kind::Pod, &name).await? });
    }
    let world = with_hosts(sight.api, world, &pods).await?;
    let used = pods.iter().filter(|pod| meta.owns(pod)).filter_map(number).max().unwrap_or_default();
    let mut next = status.incarnation.max(used) + 1;
    for _ in 0..SKIPPED {
        let name = names::incarnation(&meta.name, &meta.uid, next);
        if names && !has(&pods, &name) && !others.contains(&name) {
            pods.extend(sight.ask(Kind::Pod, &name).await?);
        }
        let holder = pods.iter().find(|pod| word(pod, "/metadata/name") == name);
        if !holder.is_some_and(is_going) {
            break;
        }
        next += 1;
    }
    let asked = spec.as_ref().ok().and_then(|spec| spec.hardware_requirements.as_ref()?.allocation);
    let claims = asked.is_some_and(|asked| asked != Default::default()) || status.allocation.as_deref() == Some("dra");
    let templates = if claims { claim_templates(&sight, &labels, &world).await? } else { Vec::new() };
    let executor = match spec.as_ref().ok().and_then(|spec| spec.executor_ref.as_deref()) {
        Some(name) => sight.get(Kind::Executor, name).await?,
        None => None,
    };
    let references = references(&sight, spec.as_ref().ok(), &status).await?;
    Ok(Some(Observation {
        spec: spec.map_err(|error| error.to_string()),
        status,
        stored,
        pods,
        next,
        service: sight.child(&meta, Kind::Service, &service).await?,
        revisions: sight.list(Kind::Revision, &labels).await?,
        templates,
        executor,
        references,
        world,
        trouble,
        admitted,
        meta,
    }))
}

async fn references<A: Api>(
    sight: &Sight<'_, A>,
    spec: Option<&PerformerSpec>,
    status: &PerformerStatus,
) -> Result<Vec<Seen>, ApiError> {
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
        all.push(sight.reference(kind, name, Some(&keys), &status.references).await?);
    }
    Ok(all)
}

/// The number of a pod; none where it has none.
pub(super) fn number(pod: &Value) -> Option<u32> {
    texts(pod, "/metadata/labels").get(super::INCARNATION)?.parse().ok()
}

/// The kind of templates in the version that is served.
pub(super) fn template_kind(world: &World) -> Kind {
    if world.devices.version() == Some("v1beta2") { Kind::BetaClaimTemplate } else { Kind::ClaimTemplate }
}

async fn claim_templates<A: Api>(sight: &Sight<'_, A>, labels: &str, world: &World) -> Result<Vec<Value>, ApiError> {
    match sight.list(template_kind(world), labels).await {
        // Where claims are not served there are no templates.
        Err(error) if error.code == Some(404) => Ok(Vec::new()),
        answer => answer,
    }
}

/// The world with all nodes that pods are on: a watch may tell of a pod before the one of nodes tells of its node.
async fn with_hosts<A: Api>(api: &A, mut world: Arc<World>, pods: &[Value]) -> Result<Arc<World>, ApiError> {
    let names: BTreeSet<&str> = pods.iter().map(|pod| word(pod, "/spec/nodeName")).collect();
    for name in names.into_iter().filter(|name| !name.is_empty()) {
        if world.nodes.as_ref().is_none_or(|nodes| nodes.contains_key(name)) {
            continue;
        }
        match api.send(&Request::get(Kind::Node, "", name)).await {
            Ok(node) => drop(Arc::make_mut(&mut world).node(&node)),
            // It is gone, or the watch was allowed to tell of it.
            Err(error) if matches!(error.code, Some(401 | 403 | 404)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(world)
}

fn has(pods: &[Value], name: &str) -> bool {
    pods.iter().any(|pod| word(pod, "/metadata/name") == name)
}
