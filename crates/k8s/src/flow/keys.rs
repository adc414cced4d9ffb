//! Concurrency keys that outlive their flows: the key of a flow that is over or gone is held until no Job or pod of it is live.
//! Lists the flows to be checked for that, and makes sure that a new leader finds what an earlier one has left.

use std::time::Duration;

use orlop_core::name::short63;
use orlop_core::spec::flow::GROUP;
use orlop_core::spec::policy::ConcurrencyPolicy;
use orlop_core::time::Time;
use orlop_dag::attempt::patience;
use orlop_dag::gate::Claim;
use serde_json::Value;

use super::memory::Memory;
use super::removal::interval;
use super::{Controller, ControllerState, Key, Next, concurrency, text};
use crate::api::{self, Api, ApiError, Kind};
use crate::observe;
use crate::render::{HOLDS_KEY, MANAGED_BY};

/// A flow that is over or gone and still holds its key.
#[derive(Clone)]
pub(super) struct HeldKey {
    uid: String,
    look_at: Time,
    looks: u32,
}

impl ControllerState {
    /// A flow is over or gone. A key that it holds stays held until nothing of it runs; otherwise gives the flows that may go on.
    pub(super) fn leave(&mut self, key: &Key, uid: &str) -> Vec<Key> {
        self.lookups.remove(uid);
        if !self.limiter.is_holder(uid) {
            return concurrency::release(self, uid);
        }
        self.orders.remove(uid);
        self.keep_key(key, uid);
        Vec::new()
    }

    fn keep_key(&mut self, key: &Key, uid: &str) {
        let all = self.held_keys.entry(key.clone()).or_default();
        if all.iter().all(|known| known.uid != uid) {
            all.push(HeldKey { uid: uid.to_owned(), look_at: Time::EPOCH, looks: 0 });
        }
    }

    fn record_held_key(&mut self, key: &Key, flow: HeldKey) {
        let known = self.held_keys.get_mut(key).and_then(|all| all.iter_mut().find(|known| known.uid == flow.uid));
        if let Some(known) = known {
            *known = flow;
        }
    }

    fn release_held_key(&mut self, key: &Key, uid: &str) {
        if let Some(all) = self.held_keys.get_mut(key) {
            all.retain(|flow| flow.uid != uid);
            if all.is_empty() {
                self.held_keys.remove(key);
            }
        }
    }

    /// What people call the flow with a uid.
    pub(super) fn name_of(&self, uid: &str) -> String {
        let held_keys = || {
            let mut all = self.held_keys.iter();
            all.find(|(_, flows)| flows.iter().any(|flow| flow.uid == uid)).map(|(key, _)| key.clone())
        };
        self.cache.key(uid).or_else(held_keys).map_or_else(|| uid.to_owned(), |key| key.name)
    }

    /// Whether a Job of a flow is under way, as far as the watches show.
    fn has_live_job(&self, uid: &str, flow: Option<&Value>) -> bool {
        self.cache.jobs(uid).iter().any(|job| observe::conclusion(job).is_none() && !is_confirmed_gone(job, flow))
    }
}

impl<A: Api> Controller<A> {
    /// Lets go of the keys that flows of this name hold which are over or gone, where nothing of them runs any more.
    pub(super) async fn release_keys(&self, key: &Key) -> Next {
        let mut next = Next::default();
        // They stay in their place meanwhile: who waits for one is told its name, and none is noted twice.
        let Some(all) = self.known().held_keys.get(key).cloned() else { return next };
        for mut flow in all {
            let now = self.now();
            if flow.look_at <= now {
                flow.looks = flow.looks.saturating_add(1);
                flow.look_at = now.plus(match self.is_live(key, &flow.uid).await {
                    Ok(false) => {
                        let mut known = self.known();
                        known.release_held_key(key, &flow.uid);
                        next.wake.extend(concurrency::release(&mut known, &flow.uid));
                        continue;
                    }
                    Ok(true) => interval(flow.looks),
                    Err(error) => {
                        tracing::warn!(flow = %key, %error, "what is left of the flow cannot be read now; its key stays held");
                        self.failed(error.class());
                        next.failed = true;
                        patience(&error.port_error("listing the pods of a flow"), flow.looks).max(Duration::from_secs(1))
                    }
                });
            }
            next.again_at = Some(next.again_at.map_or(flow.look_at, |at| at.min(flow.look_at)));
            self.known().record_held_key(key, flow);
        }
        next
    }

    /// Whether a Job or a pod of a flow is live.
    pub(super) async fn is_live(&self, key: &Key, uid: &str) -> Result<bool, ApiError> {
        let flow = self.known().cache.flow(key).filter(|flow| concurrency::uid(flow) == uid);
        if self.known().has_live_job(uid, flow.as_deref()) {
            return Ok(true);
        }
        let labels = format!("{GROUP}/flow-uid={uid}");
        for pod in api::list(&self.api, Kind::Pod, &key.namespace, &labels).await? {
            if !is_confirmed_gone(&pod, flow.as_deref()) && self.runs(&pod).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Before a flow asks for a key: who holds one by Jobs and pods that an earlier leader has left, once a namespace. Gives
    /// flows to be reconciled.
    pub(super) async fn find_holders(&self, memory: &Memory) -> Result<Vec<Key>, ApiError> {
        let namespace = &memory.owner.namespace;
        if memory.claim.is_none() || memory.has_begun() || self.known().searched.contains(namespace) {
            return Ok(Vec::new());
        }
        let labels = format!("{}={}", MANAGED_BY.0, MANAGED_BY.1);
        let pods = api::list(&self.api, Kind::Pod, namespace, &labels).await?;
        let pods = pods.iter().filter(|pod| !matches!(text(pod, "/status/phase").as_str(), "Succeeded" | "Failed"));
        let mut known = self.known();
        let jobs = known.cache.all_jobs().filter(|job| text(job, "/metadata/namespace") == *namespace);
        let jobs = jobs.filter(|job| observe::conclusion(job).is_none()).map(AsRef::as_ref);
        let held: Vec<(Key, String, Vec<String>)> =
            jobs.chain(pods).filter_map(|object| holds(object, namespace)).collect();
        known.searched.insert(namespace.clone());
        let mut wake = Vec::new();
        for (flow, uid, keys) in held {
            // A flow that goes on holds its key by its status.
            if known.limiter.is_holder(&uid) {
                continue;
            }
            // A flow holds one; more are what a later version or a person has written.
            for key in keys.into_iter().take(1) {
                let (uid, namespace) = (uid.clone(), namespace.clone());
                let policy = ConcurrencyPolicy::Forbid;
                known.limiter.hold(&Claim { uid, namespace, key, policy, created_at: Time::EPOCH });
            }
            known.keep_key(&flow, &uid);
            wake.push(flow);
        }
        Ok(wake)
    }
}

/// Whether a person has confirmed that the attempt of a Job or pod is gone, by an annotation of the flow.
fn is_confirmed_gone(object: &Value, flow: Option<&Value>) -> bool {
    let Some((step, attempt)) = observe::step_and_attempt(object) else { return false };
    let annotations = flow.and_then(|flow| flow.pointer("/metadata/annotations"));
    let gone = annotations.and_then(|all| all.get(format!("gone.{GROUP}/{}", short63(step))));
    gone.and_then(Value::as_str).and_then(|gone| gone.parse().ok()) == Some(attempt)
}

/// The flow that an object belongs to, its uid, and the keys that the object says are held.
fn holds(object: &Value, namespace: &str) -> Option<(Key, String, Vec<String>)> {
    let annotation = |name: &str| object.pointer("/metadata/annotations")?.get(name)?.as_str();
    let keys: Vec<String> = serde_json::from_str(annotation(HOLDS_KEY)?).ok()?;
    let name = annotation(&format!("{GROUP}/flow-name"))?.to_owned();
    let uid = object.pointer("/metadata/labels")?.get(format!("{GROUP}/flow-uid"))?.as_str()?.to_owned();
    Some((Key { namespace: namespace.to_owned(), name }, uid, keys))
}
