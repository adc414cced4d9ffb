//! Reconciles one object for both controllers: observe, plan, carry out, again. Keeps the state between passes; retries are in
//! `failures`, the rules of a kind in its plan.

mod failures;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt as _;
use orlop_core::hardware::table::LabelFamily;
use orlop_core::time::Time;
use serde_json::Value;

use super::Config;
use super::cache::{Cache, FreshReads, Reader};
use super::children::{Meta, owner_key, trigger_metadata};
use super::cluster::{self, Cluster};
use super::effect::EffectWriter;
use super::last_applied::LastApplied;
pub use super::monitor::{ControllerEvent, Monitor};
use super::plan::{Effect, Failure, Notice, ObjectKey, Plan, Requeue};
use crate::api::{Api, ApiError, Kind};
use crate::shell::{Clock, Key, Next};
use crate::value::word;
use failures::Streak;

/// Effects of one pass that may follow from one another before others get their turn.
const ROUNDS: usize = 16;

/// What a reconciler may read for one observation.
pub struct Context<'a, A> {
    /// Reads the object and what is around it.
    pub reader: Reader<'a, A>,
    /// Which object.
    pub key: &'a Key,
    /// The cluster.
    pub cluster: Arc<Cluster>,
    /// Why the last plan could not be carried out.
    pub last_failure: Option<Failure>,
    /// What the server made of its children.
    pub last_applied: Arc<LastApplied>,
    /// The time.
    pub now: Time,
}

/// The rules of one kind.
#[async_trait]
pub trait Reconciler: Send + Sync {
    /// The kind.
    const KIND: Kind;
    /// Name of the controller, as flags and labels have it.
    const NAME: &'static str;
    /// The finalizer that keeps an object until its children are gone.
    const FINALIZER: &'static str;
    /// The label that names the owner of children and of their children.
    const OWNER_LABEL: &'static str;
    /// The label selector of all its children.
    const CHILD_SELECTOR: &'static str;
    /// Kinds of its children that are watched.
    const CHILD_KINDS: &'static [Kind];
    /// Other kinds that are watched because plans depend on them.
    const WATCHED_KINDS: &'static [Kind];
    /// Everything a plan is made of.
    type Observation: fmt::Debug + Send + Sync;

    /// Reads everything; none where the object is gone.
    async fn observe<A: Api>(context: Context<'_, A>) -> Result<Option<Self::Observation>, ApiError>;

    /// Metadata of the object that was observed.
    fn meta(observation: &Self::Observation) -> &Meta;

    /// Its status, as it is stored.
    fn stored_status(observation: &Self::Observation) -> &Value;

    /// Secret texts of the object: messages of the server are shown without them.
    fn secrets(_observation: &Self::Observation) -> Vec<String> {
        Vec::new()
    }

    /// The same observation in another cluster.
    fn with_cluster(observation: &Self::Observation, cluster: Arc<Cluster>) -> Self::Observation;

    /// What is to be done: pure.
    fn plan(observation: &Self::Observation, config: &Config, now: Time) -> Plan;

    /// The plan that reports a failure in the status, where no other plan can be made or carried out: pure.
    fn failure_plan(object: &Value, failure: &Failure, now: Time) -> Plan;
}

/// A controller of objects of one kind. An object has one pass at a time; passes of different ones may run side by side.
pub struct Controller<A, R: Reconciler> {
    api: A,
    clock: Arc<dyn Clock>,
    config: Arc<Config>,
    resync: Duration,
    pub(super) monitor: Arc<dyn Monitor>,
    state: Mutex<ControllerState>,
    cache: Mutex<Cache>,
    settled: Mutex<BTreeMap<Key, Settled<R>>>,
}

/// The last observation of an object that needed nothing, without the cluster, and when it is reconciled again.
struct Settled<R: Reconciler> {
    observation: R::Observation,
    requeue: Requeue,
}

/// What a controller keeps between passes.
#[derive(Default)]
struct ControllerState {
    cluster: Arc<Cluster>,
    /// What was seen of the objects themselves: a change of their status alone starts no pass.
    objects: BTreeMap<Key, Value>,
    streaks: BTreeMap<Key, Streak>,
    /// Objects with a failed request: their cached state may be old, so all of it is read anew.
    stale: BTreeSet<Key>,
    last_applied: BTreeMap<Key, Arc<LastApplied>>,
    /// Families of labels that describe the GPUs of the nodes.
    families: Vec<LabelFamily>,
}

/// A version of a spec: uid and generation of its object.
type SpecVersion = (String, i64);

impl<A: Api, R: Reconciler> Controller<A, R> {
    /// A controller that knows nothing yet. Show it what exists before the first pass.
    pub fn new(api: A, clock: Arc<dyn Clock>, config: Arc<Config>, resync: Duration) -> Self {
        let (state, settled) = (Mutex::default(), Mutex::default());
        let cache = Mutex::new(Cache::of::<R>());
        Self { api, clock, config, resync, monitor: Arc::new(()), state, cache, settled }
    }

    /// The same, measured.
    #[must_use]
    pub fn measured(self, monitor: Arc<dyn Monitor>) -> Self {
        Self { monitor, ..self }
    }

    fn state(&self) -> MutexGuard<'_, ControllerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> Time {
        self.clock.now()
    }

    /// A watch reports an object that is new or has changed. Gives the objects to be reconciled.
    pub fn object_applied(&self, kind: Kind, object: &Value) -> Vec<Key> {
        self.allow_retry(self.changed_by(kind, object))
    }

    fn changed_by(&self, kind: Kind, object: &Value) -> Vec<Key> {
        let mut state = self.state();
        if kind == R::KIND {
            let (key, trigger_metadata) = (Key::of(object), trigger_metadata(object));
            let before = state.objects.insert(key.clone(), trigger_metadata.clone());
            let mut cache = self.cache();
            let news = cache.update(kind, object);
            if before.as_ref().and_then(spec_version) != spec_version(&trigger_metadata) {
                cache.forget(&key);
            }
            return if news && before != Some(trigger_metadata) { vec![key] } else { Vec::new() };
        }
        if R::CHILD_KINDS.contains(&kind) {
            // The cache has what the server has answered to a write.
            let news = self.cache().update(kind, object);
            return if news { Self::owners(&state, object) } else { Vec::new() };
        }
        if kind == Kind::Executor {
            let before = self.cache().watched(kind, &Key::of(object)).cloned();
            self.cache().update(kind, object);
            let same = before.is_some_and(|before| before.get("spec") == object.get("spec"));
            return if same { Vec::new() } else { self.referencing(&state, object) };
        }
        if !Arc::make_mut(&mut state.cluster).apply(kind, object, &self.config.tables.catalogue) {
            return Vec::new();
        }
        self.cluster_changed(state)
    }

    /// The objects a child belongs to. The label by which a child of a child names one holds no more than 63 characters: its
    /// value is compared with what it would be for the longer names that are known.
    fn owners(state: &ControllerState, child: &Value) -> Vec<Key> {
        let Some(key) = owner_key(R::KIND, R::OWNER_LABEL, child) else { return Vec::new() };
        if state.objects.contains_key(&key) {
            return vec![key];
        }
        let is_long = |long: &&Key| long.name.len() > key.name.len() && Cache::label_key(long) == key;
        let long: Vec<Key> = state.objects.keys().filter(is_long).cloned().collect();
        if long.is_empty() { vec![key] } else { long }
    }

    /// The cluster state has changed. Gives the objects that need something now, or earlier than before; the others are not read.
    fn cluster_changed(&self, mut state: MutexGuard<'_, ControllerState>) -> Vec<Key> {
        self.log_label_families(&mut state);
        let (cluster, keys) = (Arc::clone(&state.cluster), state.objects.keys().cloned().collect::<Vec<_>>());
        drop(state);
        let (settled, now) = (self.settled(), self.now());
        let matters = |key: &Key| {
            let Some(Settled { observation, requeue }) = settled.get(key) else { return true };
            let plan = || R::plan(&R::with_cluster(observation, Arc::clone(&cluster)), &self.config, now);
            // What no plan can be made for is seen to by a pass.
            std::panic::catch_unwind(AssertUnwindSafe(plan))
                .map_or(true, |plan| plan.invariant_broken || !plan.effects.is_empty() || plan.requeue != *requeue)
        };
        keys.into_iter().filter(matters).collect()
    }

    /// Logs the families of labels that describe GPUs, where nodes have come with others.
    fn log_label_families(&self, state: &mut ControllerState) {
        let families: Vec<LabelFamily> = self.config.words.on(state.cluster.machines()).families().collect();
        if R::KIND == Kind::Performer && state.families != families {
            let names: Vec<String> = families.iter().map(ToString::to_string).collect();
            tracing::info!(families = names.join(" "), "labels of these families describe GPUs");
            state.families = families;
        }
    }

    /// Objects that name an executor that has changed: it is read anew for them.
    fn referencing(&self, state: &ControllerState, executor: &Value) -> Vec<Key> {
        let (mut cache, Key { namespace, name }) = (self.cache(), Key::of(executor));
        let names =
            |key: &&Key| cache.watched(R::KIND, key).is_some_and(|object| word(object, "/spec/executorRef") == name);
        let here = state.objects.keys().filter(|key| key.namespace == namespace);
        let keys: Vec<Key> = here.filter(names).cloned().collect();
        keys.iter().for_each(|key| cache.invalidate(key, Kind::Executor, &name));
        keys
    }

    fn settled(&self) -> MutexGuard<'_, BTreeMap<Key, Settled<R>>> {
        self.settled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A watch reports that an object is gone. Gives the objects to be reconciled.
    pub fn object_deleted(&self, kind: Kind, object: &Value) -> Vec<Key> {
        self.allow_retry(self.changed_without(kind, object))
    }

    fn changed_without(&self, kind: Kind, object: &Value) -> Vec<Key> {
        let mut state = self.state();
        if kind == R::KIND {
            let key = Key::of(object);
            state.objects.remove(&key);
            self.cache().delete(kind, object);
            return vec![key];
        }
        if R::CHILD_KINDS.contains(&kind) {
            self.cache().delete(kind, object);
            return Self::owners(&state, object);
        }
        if kind == Kind::Executor {
            self.cache().delete(kind, object);
            return self.referencing(&state, object);
        }
        if !Arc::make_mut(&mut state.cluster).delete(kind, object) {
            return Vec::new();
        }
        self.cluster_changed(state)
    }

    /// A watch has listed all objects of a kind, by uid, in a namespace or in all. Gives the objects to be reconciled.
    pub fn objects_listed(&self, kind: Kind, uids: &BTreeSet<String>, namespace: Option<&str>) -> Vec<Key> {
        let mut state = self.state();
        if !cluster::KINDS.contains(&kind) {
            self.cache().retain_listed(kind, uids, namespace);
        }
        if kind != R::KIND {
            if R::CHILD_KINDS.contains(&kind) || !Arc::make_mut(&mut state.cluster).retain_listed(kind, uids) {
                return Vec::new();
            }
            return self.cluster_changed(state);
        }
        let here = |key: &Key| namespace.is_none_or(|namespace| key.namespace == namespace);
        let gone = |(key, object): &(&Key, &Value)| here(key) && !uids.contains(word(object, "/uid"));
        let gone: Vec<Key> = state.objects.iter().filter(gone).map(|(key, _)| key.clone()).collect();
        state.objects.retain(|key, _| !gone.contains(key));
        gone
    }

    /// The server does not serve a kind. Gives the objects to be reconciled.
    pub fn kind_missing(&self, kind: Kind) -> Vec<Key> {
        let mut state = self.state();
        if !Arc::make_mut(&mut state.cluster).set_missing(kind) {
            return Vec::new();
        }
        self.cluster_changed(state)
    }

    /// All objects that were seen.
    #[must_use]
    pub fn keys(&self) -> Vec<Key> {
        self.state().objects.keys().cloned().collect()
    }

    /// One pass over an object.
    pub async fn reconcile(&self, key: &Key) -> Next {
        let mut failed = false;
        for _ in 0..ROUNDS {
            if self.is_stopped(key) {
                return Next { failed, ..Next::default() };
            }
            // What is broken for one object is not to end the work on all others.
            let round = AssertUnwindSafe(self.round(key)).catch_unwind().await;
            match round.unwrap_or(Round::Broken) {
                Round::Again => {}
                Round::Failed => failed = true,
                Round::Over(next) => return Next { failed: failed || next.failed, ..next },
                Round::Broken => return self.stop(key).await,
            }
        }
        Next { again_at: Some(self.now()), failed, ..Next::default() }
    }

    async fn round(&self, key: &Key) -> Round {
        let now = self.now();
        self.settled().remove(key);
        let (cluster, last_failure, last_applied) = {
            let mut state = self.state();
            if let Some(at) = state.streaks.get(key).and_then(|streak| streak.closed).filter(|at| *at > now) {
                return Round::Over(Next { again_at: Some(at), ..Next::default() });
            }
            let last_failure = state.streaks.get_mut(key).and_then(|streak| {
                let due = |(_, failure): &mut (SpecVersion, Failure)| failure.until.is_some_and(|until| until <= now);
                streak.last_failure.take_if(due);
                streak.last_failure.clone()
            });
            (Arc::clone(&state.cluster), last_failure, state.last_applied.get(key).cloned().unwrap_or_default())
        };
        let about = last_failure.as_ref().map(|(spec_version, _)| spec_version.clone());
        let last_failure = last_failure.map(|(_, failure)| failure);
        let mut fresh = if self.state().stale.remove(key) { FreshReads::All } else { FreshReads::None };
        let (observation, plan) = loop {
            let reader = Reader { api: &self.api, fresh, key, own: R::KIND, cache: &self.cache, now };
            reader.expire(self.resync);
            let (cluster, last_failure, last_applied) =
                (Arc::clone(&cluster), last_failure.clone(), Arc::clone(&last_applied));
            let observation = match R::observe(Context { reader, key, cluster, last_failure, last_applied, now }).await
            {
                Ok(Some(observation)) => observation,
                Ok(None) => {
                    self.forget(key);
                    return Round::Over(Next::default());
                }
                Err(error) => {
                    self.state().stale.insert(key.clone());
                    return self.observe_failed(key, &error).await;
                }
            };
            let meta = R::meta(&observation);
            if about.as_ref().is_some_and(|about| *about != (meta.uid.clone(), meta.generation)) {
                // The spec that was in trouble is another now.
                self.state().streaks.remove(key);
                return Round::Again;
            }
            let plan = R::plan(&observation, &self.config, now);
            if plan.required_reads() <= fresh {
                break (observation, plan);
            }
            fresh = plan.required_reads();
        };
        let meta = R::meta(&observation);
        self.monitor.record(ControllerEvent::Observed {
            key,
            created_at: meta.created_at,
            status: R::stored_status(&observation),
        });
        if plan.invariant_broken {
            return Round::Broken;
        }
        let round = self.carry_out(key, &observation, &plan).await;
        let in_trouble = || self.state().streaks.contains_key(key);
        let looks_around = !R::WATCHED_KINDS.is_empty();
        if looks_around && plan.effects.is_empty() && matches!(round, Round::Over(_)) && !in_trouble() {
            let observation = R::with_cluster(&observation, Arc::default());
            self.settled().insert(key.clone(), Settled { observation, requeue: plan.requeue });
        }
        round
    }

    fn effect_writer<'a>(&'a self, meta: &'a Meta) -> EffectWriter<'a, A> {
        let (api, config, now) = (&self.api, &*self.config, self.now());
        EffectWriter { api, kind: R::KIND, finalizer: R::FINALIZER, meta, config, now }
    }

    async fn carry_out(&self, key: &Key, observation: &R::Observation, plan: &Plan) -> Round {
        let meta = R::meta(observation);
        let effect_writer = self.effect_writer(meta);
        for effect in &plan.effects {
            match effect_writer.write(effect).await {
                Ok(answer) => {
                    self.record_answer(key, effect, answer.as_ref());
                    self.record_done(key, plan, effect);
                }
                Err(failure) if matches!(effect, Effect::RecordEvent(_)) => {
                    // What people are told may get lost; what is done may not wait for it.
                    tracing::debug!(object = %key, ?failure, "an event is not recorded");
                }
                Err(failure) => {
                    self.state().stale.insert(key.clone());
                    let failure = failure.without(&R::secrets(observation));
                    return self.failed(key, meta, effect, failure).await;
                }
            }
        }
        if plan.changes() {
            // What was written is seen by the next round, which ends with nothing to write.
            let mut state = self.state();
            let streak = state.streaks.entry(key.clone()).or_default();
            streak.conflicts = 0;
            if plan.unblocked {
                streak.last_failure = None;
            }
            drop(state);
            return if plan.requeue == Requeue::Never { Round::Over(Next::default()) } else { Round::Again };
        }
        let waits = {
            let mut state = self.state();
            let waits = state.streaks.get(key).and_then(|streak| streak.last_failure.as_ref()?.1.until);
            if state.streaks.get(key).is_some_and(|streak| streak.last_failure.is_none()) {
                state.streaks.remove(key);
            }
            waits
        };
        let resync = self.now().plus(self.resync);
        let again_at = match plan.requeue.or_at(waits) {
            Requeue::At(at) => Some(at.min(resync)),
            Requeue::Resync => Some(resync),
            Requeue::Never => None,
        };
        Round::Over(Next { again_at, ..Next::default() })
    }

    /// Takes the answer to an effect into the cache.
    fn record_answer(&self, key: &Key, effect: &Effect, answer: Option<&Value>) {
        if matches!(effect, Effect::RecordEvent(_)) {
            return;
        }
        let own = || ObjectKey { kind: R::KIND, name: key.name.clone() };
        let ObjectKey { kind, name } = effect.child().unwrap_or_else(own);
        self.cache().record(key, self.now(), kind, &name, answer);
        let (Effect::Apply(kind, wanted), Some(answer)) = (effect, answer) else { return };
        let (mut state, now) = (self.state(), self.now());
        let last_applied = Arc::make_mut(state.last_applied.entry(key.clone()).or_default());
        if last_applied.record(wanted, answer, now) {
            let (kind, name) = (kind.name(), word(answer, "/metadata/name"));
            tracing::warn!(object = %key, kind, name, "admission changes what is applied; it is taken as the server has it");
        }
    }

    /// Reports transitions and warnings once they are in the status.
    fn record_done(&self, key: &Key, plan: &Plan, effect: &Effect) {
        // What is gone has no status that could say so.
        if !matches!(effect, Effect::WriteStatus(_) | Effect::RemoveFinalizer) {
            return;
        }
        plan.path.iter().for_each(|step| self.monitor.record(ControllerEvent::Transitioned { key, step }));
        for effect in &plan.effects {
            if let Effect::RecordEvent(Notice { warning: true, reason, message, .. }) = effect {
                tracing::warn!(object = %key, controller = R::NAME, reason, message);
            }
        }
    }

    fn forget(&self, key: &Key) {
        let mut state = self.state();
        state.streaks.remove(key);
        state.last_applied.remove(key);
        state.objects.remove(key);
        drop(state);
        self.cache().drop_object(key);
        self.monitor.record(ControllerEvent::Forgotten { key });
    }
}

enum Round {
    /// The object is reconciled again at once.
    Again,
    /// The same, after a failure.
    Failed,
    /// The pass is over.
    Over(Next),
    /// An invariant does not hold.
    Broken,
}

/// Which spec an object had when it was seen.
fn spec_version(trigger_metadata: &Value) -> Option<SpecVersion> {
    Some((word(trigger_metadata, "/uid").to_owned(), trigger_metadata.get("generation")?.as_i64()?))
}
