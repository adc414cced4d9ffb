//! Removing the finalizers of performers and executors before the operator is uninstalled; otherwise these objects could never be deleted.
//! The operator is ended first, since a running one adds its finalizers again. Deletes no object.

use std::time::Duration;

use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::core::{ObjectList, ObjectMeta, PartialObjectMeta};
use orlop_core::error::{Class, Problem};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::MANAGER;
use crate::api::{ApiError, Kind, dynamic};

/// Objects of one answer.
const PAGE: u32 = 200;
/// Lists of all that is held before it counts as not to be had: others write these objects too.
const ROUNDS: usize = 5;
/// How often it is looked whether the operator has ended.
const LOOK: Duration = Duration::from_secs(1);

/// The server refused, or did not answer. None of its own sentences are passed on: they may quote what was asked for.
fn refused(doing: &str, error: &kube::Error) -> Problem {
    let error = ApiError::from_client(error);
    Problem::new(error.class(), format!("{doing}: {}", error.unquoted()))
}

/// A kind and the finalizer that Orlop puts on its objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finalizer {
    kind: Kind,
    finalizer: &'static str,
}

impl Finalizer {
    /// Performers.
    pub const PERFORMERS: Self = Self { kind: Kind::Performer, finalizer: crate::performer::FINALIZER };
    /// Executors.
    pub const EXECUTORS: Self = Self { kind: Kind::Executor, finalizer: crate::executor::FINALIZER };
}

/// Ends an operator: its Deployment is scaled to nothing, and its pods are waited for. One that is not there has ended.
///
/// # Errors
/// What the server refuses, and pods that are still there after that time.
pub async fn end_operator(
    client: &kube::Client,
    namespace: &str,
    deployment: &str,
    patience: Duration,
) -> Result<(), Problem> {
    let doing = || format!("scaling Deployment `{namespace}/{deployment}` to zero");
    let patch = json!({"spec": {"replicas": 0}});
    let deployments = dynamic(client.clone(), Kind::Deployment, Some(namespace));
    let scaled = match deployments.patch(deployment, &by_us(), &Patch::Merge(&patch)).await {
        Ok(scaled) => scaled,
        Err(error) if code(&error) == Some(404) => return Ok(()),
        Err(error) => return Err(refused(&doing(), &error)),
    };
    let labels = scaled.data.pointer("/spec/selector/matchLabels").and_then(serde_json::Value::as_object);
    let labels = labels.into_iter().flatten().filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)));
    let labels = labels.collect::<Vec<_>>().join(",");
    if labels.is_empty() {
        // All pods of the namespace would be waited for.
        return Err(Problem::new(Class::Conflict, format!("{}: it selects its pods by no label", doing())));
    }
    // Pods that have ended may stay for ever, and do nothing.
    let pods = dynamic(client.clone(), Kind::Pod, Some(namespace));
    let wanted = ListParams::default().labels(&labels).fields("status.phase!=Succeeded,status.phase!=Failed");
    let until = Instant::now() + patience;
    loop {
        let listed = pods.list_metadata(&wanted).await;
        let listed = listed.map_err(|error| refused(&format!("listing pods of `{namespace}`"), &error))?;
        if listed.items.is_empty() {
            return Ok(());
        }
        if Instant::now() >= until {
            let names: Vec<String> = listed.items.into_iter().filter_map(|pod| pod.metadata.name).take(3).collect();
            let names = names.join(", ");
            let message = format!(
                "pods of the operator do not terminate: {names}; they would add finalizers again, so delete them and \
                 try again"
            );
            return Err(Problem::new(Class::Conflict, message));
        }
        sleep(LOOK).await;
    }
}

/// Takes away the finalizers of Orlop, and no others, from objects of these kinds in these namespaces, or in all where none
/// is named. A kind that is not defined has no objects. Gives how many were let go; done again it finds none.
///
/// # Errors
/// What the server refuses, and objects whose finalizers come back all the time.
pub async fn release(client: &kube::Client, kinds: &[Finalizer], namespaces: &[String]) -> Result<usize, Problem> {
    let scopes: Vec<Option<&str>> = match namespaces {
        [] => vec![None],
        some => some.iter().map(|namespace| Some(namespace.as_str())).collect(),
    };
    let mut released = 0;
    for target in kinds {
        for scope in &scopes {
            released += release_in(client, *target, *scope).await?;
        }
    }
    Ok(released)
}

async fn release_in(client: &kube::Client, target: Finalizer, scope: Option<&str>) -> Result<usize, Problem> {
    let mut released = 0;
    let mut left = 0;
    for _ in 0..ROUNDS {
        let (gone, missed) = round(client, target, scope).await?;
        released += gone;
        left = missed;
        // Nothing was held: also not by what came behind the pages.
        if gone + missed == 0 {
            return Ok(released);
        }
    }
    if left > 0 {
        let message = format!(
            "{left} objects keep getting finalizers; make sure that no other operator works on them, and try again"
        );
        return Err(Problem::new(Class::Conflict, message));
    }
    Ok(released)
}

/// Lets go of all that a list shows, page by page: how many were let go, and how many were changed meanwhile.
async fn round(client: &kube::Client, target: Finalizer, scope: Option<&str>) -> Result<(usize, usize), Problem> {
    let objects = dynamic(client.clone(), target.kind, scope);
    let (mut gone, mut missed) = (0, 0);
    let mut page = ListParams::default().limit(PAGE);
    loop {
        // Without specs: those of executors hold keys.
        let listed: ObjectList<PartialObjectMeta<DynamicObject>> = match objects.list_metadata(&page).await {
            Ok(listed) => listed,
            Err(error) if code(&error) == Some(404) => return Ok((gone, missed)),
            // The list has become too old to go on with; the next round begins it anew.
            Err(error) if code(&error) == Some(410) => return Ok((gone, missed + 1)),
            Err(error) => return Err(refused(&format!("listing {}", target.kind.plural()), &error)),
        };
        for object in &listed.items {
            match drop_finalizer(client, target, &object.metadata).await? {
                Some(true) => gone += 1,
                Some(false) => missed += 1,
                None => {}
            }
        }
        match listed.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok((gone, missed)),
        }
    }
}

/// Lets go of an object: none where it is not held, false where it was changed since it was listed.
async fn drop_finalizer(client: &kube::Client, target: Finalizer, meta: &ObjectMeta) -> Result<Option<bool>, Problem> {
    let finalizers = meta.finalizers.as_deref().unwrap_or_default();
    let (Some(name), true) = (&meta.name, finalizers.iter().any(|name| name == target.finalizer)) else {
        return Ok(None);
    };
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let left: Vec<&String> = finalizers.iter().filter(|name| *name != target.finalizer).collect();
    // With version and uid: a list is replaced as a whole, and a name may be that of another object by now.
    let patch = json!({"metadata": {
        "resourceVersion": meta.resource_version, "uid": meta.uid, "finalizers": left}});
    let objects = dynamic(client.clone(), target.kind, Some(namespace));
    match objects.patch_metadata(name, &by_us(), &Patch::Merge(&patch)).await {
        Ok(_) => Ok(Some(true)),
        Err(error) => match code(&error) {
            Some(404) => Ok(None),
            Some(409) => Ok(Some(false)),
            _ => {
                let doing = format!("letting go of {} `{namespace}/{name}`", target.kind.name());
                Err(refused(&doing, &error))
            }
        },
    }
}

fn by_us() -> PatchParams {
    PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() }
}

fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}
