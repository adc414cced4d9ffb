//! Pods and events about them are not watched. Owns reading them for attempts that run no pod yet or of which pods failed:
//! beside the passes and at a pace of its own, so that no pass waits for it. What was found lies ready for the next pass over the
//! flow.

use std::collections::BTreeMap;
use std::sync::Arc;

#[cfg(feature = "client")]
use futures::StreamExt as _;
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures::lock::Mutex;
use serde_json::Value;

use super::memory::{AttemptKey, Memory};
use super::wait_reason::{Progress, WaitReason, has_run, last_failure, of_events, of_pods, progress};
use super::{Controller, Key, text};
use crate::api::{self, Api, ApiError, Kind, Request};

/// Attempts whose pods are read at once.
#[cfg(feature = "client")]
const AT_ONCE: usize = 2;

/// An attempt whose pods are to be read.
pub(super) struct Lookup {
    flow: Key,
    /// Uid of the flow.
    owner: String,
    unit: AttemptKey,
    job: Arc<Value>,
}

/// What a lookup has read of the pods of an attempt.
pub(super) struct PodLookup {
    /// Uid of the Job they are of.
    pub(super) job: String,
    /// What their containers do.
    pub(super) progress: Progress,
    /// What keeps them from running, as far as the cluster says so.
    pub(super) wait_reason: Option<WaitReason>,
    /// How the one ended that failed last.
    pub(super) last_failure: Option<String>,
}

/// Lookups of a flow: none where it is under way.
pub(super) type FlowLookups = BTreeMap<AttemptKey, Option<Result<PodLookup, ApiError>>>;

/// Lookups that wait, and flows with a finished one. An attempt is in the queue at most once.
#[derive(Default)]
pub(super) struct Lookups {
    waiting: Channel<Lookup>,
    /// Where a controller runs.
    #[cfg(feature = "client")]
    finished: Channel<Key>,
}

/// Both ends of a channel: it is never closed.
struct Channel<T> {
    into: UnboundedSender<T>,
    from: Mutex<UnboundedReceiver<T>>,
}

impl<T> Default for Channel<T> {
    fn default() -> Self {
        let (into, from) = unbounded();
        Self { into, from: Mutex::new(from) }
    }
}

impl<A: Api> Controller<A> {
    /// Queues a lookup, unless the attempt has one already.
    pub(super) fn look_up_later(&self, memory: &Memory, unit: AttemptKey, job: Arc<Value>) {
        let owner = memory.owner.uid.clone();
        let mut known = self.known();
        let of_flow = known.lookups.entry(owner.clone()).or_default();
        if of_flow.contains_key(&unit) {
            return;
        }
        if self.lookups.waiting.into.unbounded_send(Lookup { flow: memory.key(), owner, unit, job }).is_ok() {
            of_flow.insert(unit, None);
        }
    }

    /// What was found since the last pass over a flow.
    pub(super) fn take_lookups(&self, memory: &Memory) -> Vec<(AttemptKey, Result<PodLookup, ApiError>)> {
        let mut known = self.known();
        let Some(of_flow) = known.lookups.get_mut(&memory.owner.uid) else { return Vec::new() };
        let (found, rest) = std::mem::take(of_flow).into_iter().partition(|(_, found)| found.is_some());
        *of_flow = rest;
        let found: FlowLookups = found;
        found.into_iter().filter_map(|(unit, found)| Some((unit, found?))).collect()
    }

    /// Does lookups as they come, for ever.
    #[cfg(feature = "client")]
    pub(super) async fn look_up_pods(&self) {
        let mut from = self.lookups.waiting.from.lock().await;
        let each = from.by_ref().for_each_concurrent(AT_ONCE, async |lookup| {
            if let Some(key) = self.look_up(lookup).await {
                drop(self.lookups.finished.into.unbounded_send(key));
            }
        });
        each.await;
    }

    /// The next flow of which something was found.
    #[cfg(feature = "client")]
    pub(super) async fn next_looked_up(&self) -> Key {
        self.lookups.finished.from.lock().await.select_next_some().await
    }

    /// Does the lookups that wait now. Gives the flows to be reconciled.
    pub(super) async fn look_up_waiting(&self) -> Vec<Key> {
        let mut from = self.lookups.waiting.from.lock().await;
        let mut keys = Vec::new();
        while let Ok(lookup) = from.try_recv() {
            keys.extend(self.look_up(lookup).await);
        }
        keys
    }

    /// Reads what one is about. Gives its flow, unless nobody wants to know any more.
    async fn look_up(&self, lookup: Lookup) -> Option<Key> {
        let Lookup { flow, owner, unit, job } = lookup;
        let wanted =
            |known: &super::ControllerState| known.lookups.get(&owner).is_some_and(|all| all.contains_key(&unit));
        if !wanted(&self.known()) {
            return None;
        }
        let found = self.find(&flow.namespace, &job).await;
        let mut known = self.known();
        let slot = known.lookups.get_mut(&owner)?.get_mut(&unit)?;
        *slot = Some(found);
        Some(flow)
    }

    async fn find(&self, namespace: &str, job: &Value) -> Result<PodLookup, ApiError> {
        let api = self.beside.as_ref().unwrap_or(&self.api);
        let labels = format!("batch.kubernetes.io/job-name={}", text(job, "/metadata/name"));
        let pods = api::list(api, Kind::Pod, namespace, &labels).await?;
        let wait_reason = match of_pods(&pods) {
            Some(wait_reason) => Some(wait_reason),
            None if has_run(job) => None,
            None => self.reason_from_events(namespace, pods.first().unwrap_or(job)).await?,
        };
        let (progress, last_failure) = (progress(&pods, self.now()), last_failure(&pods));
        Ok(PodLookup { job: text(job, "/metadata/uid"), progress, wait_reason, last_failure })
    }

    /// Why a pod or Job does not run, from warning events about it.
    async fn reason_from_events(&self, namespace: &str, about: &Value) -> Result<Option<WaitReason>, ApiError> {
        let api = self.beside.as_ref().unwrap_or(&self.api);
        let fields = format!("regarding.uid={},type=Warning", text(about, "/metadata/uid"));
        match api::list_all(api, &Request::list(Kind::Event, namespace, String::new()).fields(fields)).await {
            Ok(events) => Ok(of_events(&events)),
            // Nobody has to be allowed to read events.
            Err(error) if matches!(error.code, Some(403 | 404)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
