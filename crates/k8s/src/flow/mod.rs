//! The controller of flows: a host of the flow engine that keeps the state of a flow in the status of its object and in the Jobs that
//! exist. Owns the reconciliation of one flow (a *pass*) and what is known between passes. It never decides what may run, and never
//! watches or waits: its caller shows it objects and calls it when it asks to be called (`Controller::run`, feature `client`, does
//! both).
//!
//! Nothing is lost when a controller ends. The next one reads the flow from the API server, not from a cache that may be old, and goes
//! on with the Jobs that exist: their names follow from flow, step and attempt, so none is created twice.

mod cache;
mod concurrency;
mod control;
mod defaults;
mod effect;
mod forget;
mod jobs;
mod keys;
mod lookup;
mod memory;
mod monitor;
mod notices;
mod open;
mod outbox;
mod over_quota;
mod parent;
mod pass;
mod removal;
#[cfg(feature = "client")]
mod run;
mod secrets;
mod slots;
mod start;
mod store;
#[cfg(test)]
mod tests;
mod throttle;
mod unplanned;
mod values;
mod wait_reason;
mod waiting;
#[cfg(feature = "client")]
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use orlop_core::event::FlowEvent;
use orlop_core::time::Time;
use orlop_dag::gate::ConcurrencyLimiter;
use orlop_dag::manifest::Limits;
use serde_json::Value;

use crate::api::Api;
use crate::render::helper::HelperOptions;
pub use crate::shell::{Clock, Key, Next};
use crate::status::SizeLimits;
use crate::value::text;
use cache::Cache;
pub use defaults::Defaults;
use keys::HeldKey;
use lookup::Lookups;
use memory::Memory;
pub use monitor::{ControllerEvent, Monitor};
use outbox::Outbox;
use over_quota::QuotaWaiters;
#[cfg(feature = "client")]
pub use run::RunOptions;
pub use secrets::SecretMode;
use slots::Slots;

/// Options of a [`Controller`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Limits and rules of flows.
    pub limits: Limits,
    /// Limits of the size of a status.
    pub sizes: SizeLimits,
    /// The most live Jobs of all flows together.
    pub max_live_jobs: usize,
    /// The most live Jobs of one flow.
    pub max_live_jobs_per_flow: u32,
    /// Kinds of objects, beside CronJob, whose uid is the concurrency key of the flows that they own.
    pub schedule_kinds: Vec<String>,
    /// Defaults for what specs leave out.
    pub defaults: Defaults,
    /// How secrets get into pods.
    pub secrets: SecretMode,
    /// Whether the admission webhook authenticates who approved a step.
    pub identities_verified: bool,
    /// Name of this process in events.
    pub instance: String,
    /// The helper that moves files of attempts in their pods; none: steps that need it are refused.
    pub helper: Option<HelperOptions>,
}

impl Options {
    /// Limits with what else is set: how secrets come to pods, and whether a helper moves files. The same for
    /// admission and for the controller.
    #[must_use]
    pub fn settled(mut self) -> Self {
        self.limits.secrets_as_text = self.secrets == SecretMode::Read;
        self.limits.artifacts = self.helper.is_some();
        self
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            limits: Limits::kubernetes(),
            sizes: SizeLimits::default(),
            max_live_jobs: 2000,
            max_live_jobs_per_flow: 500,
            schedule_kinds: Vec::new(),
            defaults: Defaults::default(),
            secrets: SecretMode::default(),
            identities_verified: false,
            instance: "orlop-operator".to_owned(),
            helper: None,
        }
    }
}

/// The controller of flows. A flow has one pass at a time; passes of different flows may run side by side.
pub struct Controller<A> {
    api: A,
    clock: Arc<dyn Clock>,
    options: Options,
    monitor: Arc<dyn Monitor>,
    known: Mutex<ControllerState>,
    /// What events and lookups go through, where that is not what passes do.
    beside: Option<A>,
    outbox: Outbox,
    lookups: Lookups,
}

/// What a controller knows between passes.
#[derive(Default)]
struct ControllerState {
    cache: Cache,
    memories: BTreeMap<Key, Memory>,
    limiter: ConcurrencyLimiter,
    slots: Slots,
    over_quota: QuotaWaiters,
    /// Flows that are over or gone and still hold their concurrency keys, by their keys among all flows.
    held_keys: BTreeMap<Key, Vec<HeldKey>>,
    /// Namespaces where holders that an earlier leader left were looked for.
    searched: BTreeSet<String>,
    /// What is to be told to flows by uid: orders of flows that take their place.
    orders: BTreeMap<String, Vec<FlowEvent>>,
    /// How often in a row passes over a flow had no success with a request.
    failures: BTreeMap<Key, u32>,
    /// What was asked and found of pods of attempts, by uid of their flow.
    lookups: BTreeMap<String, lookup::FlowLookups>,
}

impl ControllerState {
    /// Notes one more failure in a row; gives how many there were.
    fn failed_again(&mut self, key: &Key) -> u32 {
        let failures = self.failures.entry(key.clone()).or_default();
        *failures = failures.saturating_add(1);
        *failures
    }

    fn flow_deleted(&mut self, object: &Value) -> Vec<Key> {
        let (key, uid) = (Key::of(object), concurrency::uid(object));
        self.failures.remove(&key);
        self.cache.flow_deleted(object);
        if self.memories.get(&key).is_some_and(|memory| memory.owner.uid == uid) {
            self.memories.remove(&key);
        }
        self.over_quota.leave(&key);
        let mut wake = self.leave(&key, &uid);
        // Another flow of its name may wait to be read, and its own key to be let go.
        wake.push(key);
        wake
    }
}

impl<A: Api> Controller<A> {
    /// A controller that knows nothing yet. Show it what exists, then call [`Controller::prime`], before the first pass.
    pub fn new(api: A, clock: Arc<dyn Clock>, options: Options) -> Self {
        let options = options.settled();
        let (known, outbox, lookups) = Default::default();
        Self { api, clock, options, monitor: Arc::new(()), known, beside: None, outbox, lookups }
    }

    /// The same, with a client of its own for background work: publishing
    /// events, and reading what keeps pods from running. That takes nothing from what must be done.
    #[must_use]
    pub fn with_background_api(self, api: A) -> Self {
        Self { beside: Some(api), ..self }
    }

    /// Does the background work that waits. Gives the flows to be reconciled. A controller that runs does this by itself.
    pub async fn finish_background(&self) -> Vec<Key> {
        self.publish_waiting().await;
        self.look_up_waiting().await
    }

    /// The same, measured.
    #[must_use]
    pub fn measured(self, monitor: Arc<dyn Monitor>) -> Self {
        Self { monitor, ..self }
    }

    /// Whether a flow has begun and is not over: its passes come before those over flows that begin nothing yet.
    #[cfg(feature = "client")]
    pub(super) fn is_under_way(&self, key: &Key) -> bool {
        let started = |flow: &Value| {
            let member = |name: &str| flow.pointer("/status")?.get(name).filter(|member| !member.is_null());
            member("startTime").is_some() && member("completionTime").is_none()
        };
        self.known().cache.flow(key).is_some_and(|flow| started(&flow))
    }

    fn known(&self) -> MutexGuard<'_, ControllerState> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Time {
        self.clock.now()
    }

    /// A watch reports a flow that is new or has changed. Gives the flows to be reconciled; none where the cache has it already.
    pub fn flow_applied(&self, object: &Value) -> Vec<Key> {
        let mut known = self.known();
        let before = known.cache.flow(&Key::of(object));
        let other = before.filter(|before| concurrency::uid(before) != concurrency::uid(object));
        let mut keys = other.map(|gone| known.flow_deleted(&gone)).unwrap_or_default();
        keys.extend(known.cache.flow_applied(object));
        keys
    }

    /// A watch reports that a flow no longer exists. Gives the flows to be reconciled.
    pub fn flow_deleted(&self, object: &Value) -> Vec<Key> {
        self.known().flow_deleted(object)
    }

    /// A watch reports a Job that is new or has changed. Gives the flows to be reconciled.
    pub fn job_applied(&self, object: &Value) -> Vec<Key> {
        let mut known = self.known();
        let live = known.cache.live_jobs();
        let flow = known.cache.job_applied(object);
        let ended = known.cache.live_jobs() < live;
        self.and_waiting(&mut known, flow, ended.then_some(object))
    }

    /// A watch reports that a Job is gone. Gives the flows to be reconciled.
    pub fn job_deleted(&self, object: &Value) -> Vec<Key> {
        let mut known = self.known();
        let flow = known.cache.job_deleted(object);
        self.and_waiting(&mut known, flow, Some(object))
    }

    /// A flow, and those that may start something now because a Job has ended or is gone.
    fn and_waiting(&self, known: &mut ControllerState, flow: Option<Key>, ended: Option<&Value>) -> Vec<Key> {
        let mut keys = known.slots.next(self.room(known));
        keys.extend(ended.into_iter().flat_map(|job| known.over_quota.wake(&text(job, "/metadata/namespace"))));
        keys.extend(flow);
        keys
    }

    /// How many more Jobs there may be.
    fn room(&self, known: &ControllerState) -> usize {
        self.options.max_live_jobs.saturating_sub(known.cache.live_jobs())
    }

    /// A watch has listed all flows, by uid, in a namespace or in all. Gives the flows to be reconciled.
    #[must_use]
    pub fn flows_listed(&self, uids: &BTreeSet<String>, namespace: Option<&str>) -> Vec<Key> {
        let mut known = self.known();
        let gone = |object: &&Arc<Value>| is_in(object, namespace) && !uids.contains(&concurrency::uid(object));
        let gone: Vec<Arc<Value>> = known.cache.flows().filter(gone).cloned().collect();
        gone.iter().flat_map(|object| known.flow_deleted(object)).collect()
    }

    /// A watch has listed all Jobs, by uid, in a namespace or in all. Gives the flows to be reconciled.
    #[must_use]
    pub fn jobs_listed(&self, uids: &BTreeSet<String>, namespace: Option<&str>) -> Vec<Key> {
        let mut known = self.known();
        let gone = known.cache.jobs_but(uids);
        let gone = gone.iter().filter(|object| is_in(object, namespace));
        let mut keys: Vec<Key> = Vec::new();
        for object in gone {
            keys.extend(known.cache.job_deleted(object));
            keys.extend(known.over_quota.wake(&text(object, "/metadata/namespace")));
        }
        keys.extend(known.slots.next(self.room(&known)));
        keys
    }

    /// Claims the concurrency keys that flows of the cache hold. Gives all of them, to be reconciled.
    #[must_use]
    pub fn prime(&self) -> Vec<Key> {
        let mut known = self.known();
        let ControllerState { cache, limiter, .. } = &mut *known;
        for object in cache.flows() {
            concurrency::hold_key_of(limiter, object, &self.options);
        }
        cache.keys()
    }
}

/// Whether an object is in a namespace; where none is given, in any.
fn is_in(object: &Value, namespace: Option<&str>) -> bool {
    namespace.is_none_or(|namespace| text(object, "/metadata/namespace") == namespace)
}
