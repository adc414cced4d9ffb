//! The loop of one object that both controllers share: observe, plan, carry out, again. Owns what is known
//! between passes; what a failure leads to is in `failures`, a kind's own rules are in its plan.

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
use super::admitted::Admitted;
use super::cache::{Cache, Live, Sight};
use super::children::{Meta, parent, shown};
use super::effect::Hand;
pub use super::monitor::{Monitor, Told};
use super::plan::{Effect, Notice, Plan, Requeue, Trouble};
use super::world::{self, World};
use crate::api::{Api, ApiError, Kind};
use crate::shell::{Clock, Key, Next};
use crate::value::word;

/// Effects of one pass that may follow from one another before others get their turn.
const ROUNDS: usize = 16;

/// What a pass may look at.
pub struct Look<'a, A> {
    /// The way to the object and everything around it.
    pub sight: Sight<'a, A>,
    /// Which object.
    pub key: &'a Key,
    /// The cluster.
    pub world: Arc<World>,
    /// What went wrong last.
    pub trouble: Option<Trouble>,
    /// What the server made of its children.
    pub admitted: Arc<Admitted>,
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
    /// What holds an object until its children are gone.
    const FINALIZER: &'static str;
    /// The label by which children tell the object, also those of its children.
    const LABEL: &'static str;
    /// Labels all its children have, as a selector.
    const LABELS: &'static str;
    /// Kinds of its children that are watched.
    const CHILDREN: &'static [Kind];
    /// Other kinds whose objects matter to objects of this one.
    const OTHERS: &'static [Kind];
    /// Everything a plan is made of.
    type Observation: fmt::Debug + Send + Sync;

    /// Reads everything; none where the object is gone.
    async fn observe<A: Api>(look: Look<'_, A>) -> Result<Option<Self::Observation>, ApiError>;

    /// Metadata of the object that was observed.
    fn meta(observation: &Self::Observation) -> &Meta;

    /// Its status, as it is stored.
    fn stored(observation: &Self::Observation) -> &Value;

    /// Texts of the object that nobody else may read: what a server says is told without them.
    fn hidden(_observation: &Self::Observation) -> Vec<String> {
        Vec::new()
    }

    /// The same observation in another cluster.
    fn under(observation: &Self::Observation, world: Arc<World>) -> Self::Observation;

    /// What is to be done: pure.
    fn plan(observation: &Self::Observation, config: &Config, now: Time) -> Plan;

    /// What its status is to say where no plan can be made or carried out, from the object alone: pure.
    fn report(object: &Value, trouble: &Trouble, now: Time) -> Plan;
}

/// A controller of objects of one kind. An object has one pass at a time; passes of different ones may run side by side.
pub struct Controller<A, R: Reconciler> {
    api: A,
    clock: Arc<dyn Clock>,
    config: Arc<Config>,
    resync: Duration,
    pub(super) monitor: Arc<dyn Monitor>,
    known: Mutex<Known>,
    cache: Mutex<Cache>,
    rested: Mutex<BTreeMap<Key, Rested<R>>>,
}

/// What was last seen of an object of which nothing was to be done, but for the cluster, and when it is looked at again.
struct Rested<R: Reconciler> {
    observation: R::Observation,
    requeue: Requeue,
}

/// What a controller knows between passes; a new one begins without.
#[derive(Default)]
struct Known {
    world: Arc<World>,
    /// What was seen of the objects themselves: a change of their status alone starts no pass.
    objects: BTreeMap<Key, Value>,
    streaks: BTreeMap<Key, Streak>,
    /// Objects of which something had no success: what is known of them may be old.
    unsure: BTreeSet<Key>,
    admitted: BTreeMap<Key, Arc<Admitted>>,
    /// Whose labels tell of GPUs on the nodes there are.
    families: Vec<LabelFamily>,
}

/// Which spec: uid of the object, for another may come under its name, and how often its spec has changed.
type Asked = (String, i64);

/// Failures of an object one after another.
#[derive(Clone, Debug, Default)]
struct Streak {
    failures: u32,
    conflicts: u32,
    trouble: Option<(Asked, Trouble)>,
    /// The spec for which nothing is done until there is another: an invariant is broken, or the server refuses it for good.
    stopped: Option<Asked>,
    /// Until when nothing is asked: it is not allowed, or the server has asked for patience.
    closed: Option<Time>,
}

impl<A: Api, R: Reconciler> Controller<A, R> {
    /// A controller that knows nothing yet. Show it what exists before the first pass.
    pub fn new(api: A, clock: Arc<dyn Clock>, config: Arc<Config>, resync: Duration) -> Self {
        let (known, rested) = (Mutex::default(), Mutex::default());
        let cache = Mutex::new(Cache::of::<R>());
        Self { api, clock, config, resync, monitor: Arc::new(()), known, cache, rested }
    }

    /// The same, measured.
    #[must_use]
    pub fn measured(self, monitor: Arc<dyn Monitor>) -> Self {
        Self { monitor, ..self }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> Time {
        self.clock.now()
    }

    /// An object was seen, new or changed. Gives which are to be looked at.
    pub fn seen(&self, kind: Kind, object: &Value) -> Vec<Key> {
        self.freed(self.concerned(kind, object))
    }

    fn concerned(&self, kind: Kind, object: &Value) -> Vec<Key> {
        let mut known = self.known();
        if kind == R::KIND {
            let (key, shown) = (Key::of(object), shown(object));
            let before = known.objects.insert(key.clone(), shown.clone());
            let mut cache = self.cache();
            let news = cache.seen(kind, object);
            if before.as_ref().and_then(asked) != asked(&shown) {
                cache.forget(&key);
            }
            return if news && before != Some(shown) { vec![key] } else { Vec::new() };
        }
        if R::CHILDREN.contains(&kind) {
            // What the server has answered to a write was looked at already.
            let news = self.cache().seen(kind, object);
            return if news { Self::owners(&known, object) } else { Vec::new() };
        }
        if kind == Kind::Executor {
            let before = self.cache().shown(kind, &Key::of(object)).cloned();
            self.cache().seen(kind, object);
            let same = before.is_some_and(|before| before.get("spec") == object.get("spec"));
            return if same { Vec::new() } else { self.naming(&known, object) };
        }
        if !Arc::make_mut(&mut known.world).seen(kind, object, &self.config.tables.catalogue) {
            return Vec::new();
        }
        self.moved(known)
    }

    /// The objects a child belongs to. The label by which a child of a child names one holds no more than 63 characters: its
    /// value is compared with what it would be for the longer names that are known.
    fn owners(known: &Known, child: &Value) -> Vec<Key> {
        let Some(key) = parent((R::KIND, R::LABEL), child) else { return Vec::new() };
        if known.objects.contains_key(&key) {
            return vec![key];
        }
        let is_long = |long: &&Key| long.name.len() > key.name.len() && Cache::family_of(long) == key;
        let long: Vec<Key> = known.objects.keys().filter(is_long).cloned().collect();
        if long.is_empty() { vec![key] } else { long }
    }

    /// The cluster is another. Gives the objects of which something is to be done now, or earlier than before; of the others
    /// nothing is read.
    fn moved(&self, mut known: MutexGuard<'_, Known>) -> Vec<Key> {
        self.look_at_labels(&mut known);
        let (world, keys) = (Arc::clone(&known.world), known.objects.keys().cloned().collect::<Vec<_>>());
        drop(known);
        let (rested, now) = (self.rested(), self.now());
        let matters = |key: &Key| {
            let Some(Rested { observation, requeue }) = rested.get(key) else { return true };
            let plan = || R::plan(&R::under(observation, Arc::clone(&world)), &self.config, now);
            // What no plan can be made for is seen to by a pass.
            std::panic::catch_unwind(AssertUnwindSafe(plan))
                .map_or(true, |plan| plan.broken || !plan.effects.is_empty() || plan.requeue != *requeue)
        };
        keys.into_iter().filter(matters).collect()
    }

    /// Says whose labels tell of GPUs, where nodes have come with others.
    fn look_at_labels(&self, known: &mut Known) {
        let families: Vec<LabelFamily> = self.config.words.on(known.world.machines()).families().collect();
        if R::KIND == Kind::Performer && known.families != families {
            let names: Vec<String> = families.iter().map(ToString::to_string).collect();
            tracing::info!(families = names.join(" "), "labels of these families tell of GPUs");
            known.families = families;
        }
    }

    /// Objects that name an executor, of which something is news: it is read anew for them.
    fn naming(&self, known: &Known, executor: &Value) -> Vec<Key> {
        let (mut cache, Key { namespace, name }) = (self.cache(), Key::of(executor));
        let names =
            |key: &&Key| cache.shown(R::KIND, key).is_some_and(|object| word(object, "/spec/executorRef") == name);
        let here = known.objects.keys().filter(|key| key.namespace == namespace);
        let keys: Vec<Key> = here.filter(names).cloned().collect();
        keys.iter().for_each(|key| cache.unread(key, Kind::Executor, &name));
        keys
    }

    fn rested(&self) -> MutexGuard<'_, BTreeMap<Key, Rested<R>>> {
        self.rested.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An object is gone. Gives which are to be looked at.
    pub fn gone(&self, kind: Kind, object: &Value) -> Vec<Key> {
        self.freed(self.bereaved(kind, object))
    }

    fn bereaved(&self, kind: Kind, object: &Value) -> Vec<Key> {
        let mut known = self.known();
        if kind == R::KIND {
            let key = Key::of(object);
            known.objects.remove(&key);
            self.cache().gone(kind, object);
            return vec![key];
        }
        if R::CHILDREN.contains(&kind) {
            self.cache().gone(kind, object);
            return Self::owners(&known, object);
        }
        if kind == Kind::Executor {
            self.cache().gone(kind, object);
            return self.naming(&known, object);
        }
        if !Arc::make_mut(&mut known.world).gone(kind, object) {
            return Vec::new();
        }
        self.moved(known)
    }

    /// All objects of a kind that exist were shown, in a namespace or in all; by uid. Others are gone. Gives which are to be
    /// looked at.
    pub fn listed(&self, kind: Kind, uids: &BTreeSet<String>, namespace: Option<&str>) -> Vec<Key> {
        let mut known = self.known();
        if !world::KINDS.contains(&kind) {
            self.cache().listed(kind, uids, namespace);
        }
        if kind != R::KIND {
            if R::CHILDREN.contains(&kind) || !Arc::make_mut(&mut known.world).listed(kind, uids) {
                return Vec::new();
            }
            return self.moved(known);
        }
        let here = |key: &Key| namespace.is_none_or(|namespace| key.namespace == namespace);
        let gone = |(key, object): &(&Key, &Value)| here(key) && !uids.contains(word(object, "/uid"));
        let gone: Vec<Key> = known.objects.iter().filter(gone).map(|(key, _)| key.clone()).collect();
        known.objects.retain(|key, _| !gone.contains(key));
        gone
    }

    /// The server does not know objects of a kind, though it would show them. Gives which are to be looked at.
    pub fn absent(&self, kind: Kind) -> Vec<Key> {
        let mut known = self.known();
        if !Arc::make_mut(&mut known.world).absent(kind) {
            return Vec::new();
        }
        self.moved(known)
    }

    /// All objects that were seen.
    #[must_use]
    pub fn keys(&self) -> Vec<Key> {
        self.known().objects.keys().cloned().collect()
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
        self.rested().remove(key);
        let (world, trouble, admitted) = {
            let mut known = self.known();
            if let Some(at) = known.streaks.get(key).and_then(|streak| streak.closed).filter(|at| *at > now) {
                return Round::Over(Next { again_at: Some(at), ..Next::default() });
            }
            let trouble = known.streaks.get_mut(key).and_then(|streak| {
                let due = |(_, trouble): &mut (Asked, Trouble)| trouble.until.is_some_and(|until| until <= now);
                streak.trouble.take_if(due);
                streak.trouble.clone()
            });
            (Arc::clone(&known.world), trouble, known.admitted.get(key).cloned().unwrap_or_default())
        };
        let about = trouble.as_ref().map(|(asked, _)| asked.clone());
        let trouble = trouble.map(|(_, trouble)| trouble);
        let mut live = if self.known().unsure.remove(key) { Live::Everything } else { Live::Nothing };
        let (observation, plan) = loop {
            let sight = Sight::new((&self.api, &self.cache), (R::KIND, key), live, (now, self.resync));
            let (world, trouble, admitted) = (Arc::clone(&world), trouble.clone(), Arc::clone(&admitted));
            let observation = match R::observe(Look { sight, key, world, trouble, admitted, now }).await {
                Ok(Some(observation)) => observation,
                Ok(None) => {
                    self.forget(key);
                    return Round::Over(Next::default());
                }
                Err(error) => {
                    self.known().unsure.insert(key.clone());
                    return self.unread(key, &error).await;
                }
            };
            let meta = R::meta(&observation);
            if about.as_ref().is_some_and(|about| *about != (meta.uid.clone(), meta.generation)) {
                // The spec that was in trouble is another now.
                self.known().streaks.remove(key);
                return Round::Again;
            }
            let plan = R::plan(&observation, &self.config, now);
            if plan.needs() <= live {
                break (observation, plan);
            }
            live = plan.needs();
        };
        let meta = R::meta(&observation);
        self.monitor.told(Told::Observed { key, created_at: meta.created_at, status: R::stored(&observation) });
        if plan.broken {
            return Round::Broken;
        }
        let round = self.carry_out(key, &observation, &plan).await;
        let in_trouble = || self.known().streaks.contains_key(key);
        let looks_around = !R::OTHERS.is_empty();
        if looks_around && plan.effects.is_empty() && matches!(round, Round::Over(_)) && !in_trouble() {
            let observation = R::under(&observation, Arc::default());
            self.rested().insert(key.clone(), Rested { observation, requeue: plan.requeue });
        }
        round
    }

    fn hand<'a>(&'a self, meta: &'a Meta) -> Hand<'a, A> {
        let (api, config, now) = (&self.api, &*self.config, self.now());
        Hand { api, kind: R::KIND, finalizer: R::FINALIZER, meta, config, now }
    }

    async fn carry_out(&self, key: &Key, observation: &R::Observation, plan: &Plan) -> Round {
        let meta = R::meta(observation);
        let hand = self.hand(meta);
        for effect in &plan.effects {
            match hand.carry(effect).await {
                Ok(answer) => {
                    self.took(key, effect, answer.as_ref());
                    self.done(key, plan, effect);
                }
                Err(failure) if matches!(effect, Effect::RecordEvent(_)) => {
                    // What people are told may get lost; what is done may not wait for it.
                    tracing::debug!(object = %key, ?failure, "an event is not recorded");
                }
                Err(failure) => {
                    self.known().unsure.insert(key.clone());
                    let failure = failure.without(&R::hidden(observation));
                    return self.failed(key, (meta, effect), failure).await;
                }
            }
        }
        if plan.changes() {
            // What was written is seen by the next round, which ends with nothing to write.
            let mut known = self.known();
            let streak = known.streaks.entry(key.clone()).or_default();
            streak.conflicts = 0;
            if plan.eased {
                streak.trouble = None;
            }
            drop(known);
            return if plan.requeue == Requeue::Never { Round::Over(Next::default()) } else { Round::Again };
        }
        let waits = {
            let mut known = self.known();
            let waits = known.streaks.get(key).and_then(|streak| streak.trouble.as_ref()?.1.until);
            if known.streaks.get(key).is_some_and(|streak| streak.trouble.is_none()) {
                known.streaks.remove(key);
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

    /// Remembers what the server made of an object.
    fn took(&self, key: &Key, effect: &Effect, answer: Option<&Value>) {
        let (kind, name) = match effect {
            Effect::Create(kind, object) | Effect::Apply(kind, object) => (*kind, word(object, "/metadata/name")),
            Effect::PatchMeta { key, .. } | Effect::Delete { key, .. } => (key.kind, key.name.as_str()),
            Effect::AddFinalizer | Effect::RemoveFinalizer | Effect::WriteStatus(_) => (R::KIND, key.name.as_str()),
            Effect::RecordEvent(_) => return,
        };
        self.cache().found(key, self.now(), kind, name, answer);
        let (Effect::Apply(kind, wanted), Some(answer)) = (effect, answer) else { return };
        let (mut known, now) = (self.known(), self.now());
        let admitted = Arc::make_mut(known.admitted.entry(key.clone()).or_default());
        if admitted.take(wanted, answer, now) {
            let (kind, name) = (kind.name(), word(answer, "/metadata/name"));
            tracing::warn!(object = %key, kind, name, "admission changes what is applied; it is taken as the server has it");
        }
    }

    /// Tells whoever measures and reads logs what is written down now.
    fn done(&self, key: &Key, plan: &Plan, effect: &Effect) {
        // What is gone has no status that could say so.
        if !matches!(effect, Effect::WriteStatus(_) | Effect::RemoveFinalizer) {
            return;
        }
        plan.path.iter().for_each(|step| self.monitor.told(Told::Stepped { key, step }));
        for effect in &plan.effects {
            if let Effect::RecordEvent(Notice { warning: true, reason, message, .. }) = effect {
                tracing::warn!(object = %key, controller = R::NAME, reason, message);
            }
        }
    }

    fn forget(&self, key: &Key) {
        let mut known = self.known();
        known.streaks.remove(key);
        known.admitted.remove(key);
        known.objects.remove(key);
        drop(known);
        self.cache().drop_object(key);
        self.monitor.told(Told::Forgotten { key });
    }
}

enum Round {
    /// The object is looked at again at once.
    Again,
    /// The same, after something had no success.
    Failed,
    /// The pass is over.
    Over(Next),
    /// An invariant does not hold.
    Broken,
}

/// Which spec an object had when it was seen.
fn asked(shown: &Value) -> Option<Asked> {
    Some((word(shown, "/uid").to_owned(), shown.get("generation")?.as_i64()?))
}
