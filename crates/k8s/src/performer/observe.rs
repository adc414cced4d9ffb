//! Everything a plan for a performer is made of, read at the server. Owns which objects those are.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::{CONTAINER, PERFORMER};
use crate::api::{Api, ApiError, Kind, Request};
use crate::hourglass::admitted::Admitted;
use crate::hourglass::children::{Meta, is_going};
use crate::hourglass::controller::Look;
use crate::hourglass::names;
use crate::hourglass::plan::Trouble;
use crate::hourglass::spec::{PerformerSpec, PerformerStatus};
use crate::hourglass::world::World;
use crate::value::{text, texts, word};

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
    /// The cluster.
    pub world: Arc<World>,
    /// What went wrong last.
    pub trouble: Option<Trouble>,
    /// What the server made of its children.
    pub admitted: Arc<Admitted>,
}

/// Reads all of it; none where the performer is gone.
pub(super) async fn observe<A: Api>(look: Look<'_, A>) -> Result<Option<Observation>, ApiError> {
    let Look { api, key, world, trouble, admitted, .. } = look;
    let Some(object) = get(api, Kind::Performer, (&key.namespace, &key.name)).await? else { return Ok(None) };
    let meta = Meta::of(&object);
    let spec = serde_json::from_value::<PerformerSpec>(object.get("spec").cloned().unwrap_or_default());
    let stored = object.get("status").cloned().unwrap_or_default();
    let status = serde_json::from_value::<PerformerStatus>(stored.clone()).unwrap_or_default();
    let place = key.namespace.as_str();
    let labels = format!("{PERFORMER}={}", names::label_value(&meta.name));
    let mut pods = list(api, Kind::Pod, place, &labels).await?;
    let service = names::service(CONTAINER, &meta.name);
    let mut others: BTreeSet<String> = [names::incarnation(&meta.name, &meta.uid, 1)].into();
    // One that lost its labels is found by its name.
    others.insert(names::incarnation(&meta.name, &meta.uid, status.incarnation.max(1)));
    others.extend(status.candidate.as_ref().map(|candidate| candidate.pod_name.clone()));
    for name in others {
        add(api, &mut pods, place, &name).await?;
    }
    let world = with_hosts(api, world, &pods).await?;
    let used = pods.iter().filter(|pod| meta.owns(pod)).filter_map(number).max().unwrap_or_default();
    let mut next = status.incarnation.max(used) + 1;
    for _ in 0..SKIPPED {
        let name = names::incarnation(&meta.name, &meta.uid, next);
        add(api, &mut pods, place, &name).await?;
        let holder = pods.iter().find(|pod| word(pod, "/metadata/name") == name);
        if !holder.is_some_and(is_going) {
            break;
        }
        next += 1;
    }
    let asked = spec.as_ref().ok().and_then(|spec| spec.hardware_requirements.as_ref()?.allocation);
    let claims = asked.is_some_and(|asked| asked != Default::default()) || status.allocation.as_deref() == Some("dra");
    let templates = if claims { claim_templates(api, place, &labels, &world).await? } else { Vec::new() };
    let executor = match spec.as_ref().ok().and_then(|spec| spec.executor_ref.as_deref()) {
        Some(name) => get(api, Kind::Executor, (place, name)).await?,
        None => None,
    };
    Ok(Some(Observation {
        spec: spec.map_err(|error| error.to_string()),
        status,
        stored,
        pods,
        next,
        service: get(api, Kind::Service, (place, &service)).await?,
        revisions: list(api, Kind::Revision, place, &labels).await?,
        templates,
        executor,
        world,
        trouble,
        admitted,
        meta,
    }))
}

/// The number of a pod; none where it has none.
pub(super) fn number(pod: &Value) -> Option<u32> {
    texts(pod, "/metadata/labels").get(super::INCARNATION)?.parse().ok()
}

/// The kind of templates in the version that is served.
pub(super) fn template_kind(world: &World) -> Kind {
    if world.devices.version() == Some("v1beta2") { Kind::BetaClaimTemplate } else { Kind::ClaimTemplate }
}

async fn claim_templates<A: Api>(api: &A, place: &str, labels: &str, world: &World) -> Result<Vec<Value>, ApiError> {
    match list(api, template_kind(world), place, labels).await {
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
        match get(api, Kind::Node, ("", name)).await {
            Ok(Some(node)) => drop(Arc::make_mut(&mut world).node(&node)),
            Ok(None) => {}
            // The watch was allowed to tell of them.
            Err(error) if matches!(error.code, Some(401 | 403)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(world)
}

/// Reads a pod by its name, unless it is known already.
async fn add<A: Api>(api: &A, pods: &mut Vec<Value>, place: &str, name: &str) -> Result<(), ApiError> {
    if !pods.iter().any(|pod| word(pod, "/metadata/name") == name) {
        pods.extend(get(api, Kind::Pod, (place, name)).await?);
    }
    Ok(())
}

/// Reads an object; none where there is none.
pub(crate) async fn get<A: Api>(api: &A, kind: Kind, (place, name): (&str, &str)) -> Result<Option<Value>, ApiError> {
    match api.send(&Request::get(kind, place, name)).await {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.code == Some(404) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads all objects with labels, in the order of their names.
pub(crate) async fn list<A: Api>(api: &A, kind: Kind, place: &str, labels: &str) -> Result<Vec<Value>, ApiError> {
    let mut all = crate::api::list(api, kind, place, labels).await?;
    all.sort_by_key(|object| text(object, "/metadata/name"));
    Ok(all)
}
