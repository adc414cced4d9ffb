//! What is known of a flow between two passes: its plan, its state, what is still to be carried out, and what is stored.
//! Owns how effects are sorted into what is done now, later and after the status was written; carries nothing out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use orlop_core::attempt::Address;
use orlop_core::effect::FlowEffect;
use orlop_core::event::FlowEvent;
use orlop_core::ports::substrate::FlowOwner;
use orlop_core::spec::status::FlowStatus;
use orlop_core::time::Time;
use orlop_dag::engine::{State, apply};
use orlop_dag::gate::Claim;
use orlop_dag::plan::Plan;
use serde_json::Value;

use super::notices::Notices;
use super::removal::Removal;
use super::start::Start;
use super::{ControllerEvent, Key, Monitor, text};
use crate::convert::spec_hash;
use crate::render::helper::SharedArtifacts;
use crate::status::Level;

/// An attempt: its step or instance, and its number.
pub(super) type AttemptKey = (Address, u32);

/// What is known of a flow.
pub(super) struct Memory {
    pub(super) owner: FlowOwner,
    pub(super) plan: Arc<Plan>,
    pub(super) state: State,
    /// Hash of the spec the plan was made from.
    hash: String,
    /// Generation of the object that was compared with it last, and whether it was another spec.
    compared: Option<(i64, bool)>,
    /// The claim of its concurrency key; none when it has none.
    pub(super) claim: Option<Claim>,
    /// Effects to be carried out now, in order.
    pub(super) queue: VecDeque<FlowEffect>,
    /// Starts that have not been made yet, and until when the engine was told to wait for them.
    pub(super) waiting: BTreeMap<AttemptKey, (Start, Option<Time>)>,
    /// Effects that are tried again later.
    pub(super) later: Vec<(Time, FlowEffect)>,
    /// Attempts that the stored status does not name yet as accepted.
    pub(super) unnamed: BTreeSet<AttemptKey>,
    /// Effects that wait for the status to be stored.
    pub(super) unstored: Vec<FlowEffect>,
    /// Starts that quota refused, with what the server said of it.
    pub(super) over_quota: BTreeMap<AttemptKey, String>,
    /// Whether quota refused resources.
    pub(super) resources_over_quota: bool,
    /// Attempts whose Job was deleted.
    pub(super) removals: BTreeMap<AttemptKey, Removal>,
    /// When pods of attempts are read.
    pub(super) pods: BTreeMap<AttemptKey, Time>,
    /// How many pods had failed of which it was told how they did, of attempts that go on.
    pub(super) failed_pods: BTreeMap<AttemptKey, u64>,
    /// What is left of attempts and may go once the status says how they ended.
    pub(super) forget: Vec<(AttemptKey, Duration)>,
    /// When that may be tried again, and how often it had no success.
    pub(super) forget_at: Option<Time>,
    pub(super) forget_failures: u32,
    /// Events to be published once the status is stored.
    pub(super) notices: Notices,
    /// How often an effect was put off.
    pub(super) delays: BTreeMap<String, u32>,
    /// The stored status, as far as is known.
    pub(super) stored: Stored,
    /// Whether the state has changed since the status was written, and whether that is to be seen at once.
    pub(super) dirty: bool,
    pub(super) urgent: bool,
    /// Whether a Job was adopted that has ended: it is read without waiting for a watch.
    pub(super) adopted_an_end: bool,
    /// Whether a newer object was read after this pass began: its orders are to be taken without waiting for a watch, which tells
    /// only of what is newer still.
    pub(super) read_newer: bool,
    /// Whether the flow begins in this pass: nothing is created before its first status.
    pub(super) is_new: bool,
    /// Whether something this pass needed had no success.
    pub(super) failed: bool,
    /// Artifacts that stay where they are, once computed.
    shared: OnceLock<SharedArtifacts>,
    monitor: Arc<dyn Monitor>,
}

/// What is stored of a flow, as far as is known.
#[derive(Default)]
pub(super) struct Stored {
    /// The status as it is on the server.
    pub(super) status: Value,
    /// Version of an object that was seen with it.
    pub(super) version: String,
    /// A status that was sent and not answered.
    pub(super) unanswered: Option<Value>,
    /// The lowest level the next one may have.
    pub(super) least: Level,
    /// ConfigMaps it lists.
    pub(super) refs: Vec<String>,
    /// When it was written last.
    pub(super) at: Option<Time>,
    /// When it may be tried again.
    pub(super) not_before: Option<Time>,
    /// Tries that failed in a row.
    pub(super) failures: u32,
}

impl Stored {
    /// What a server shows.
    pub(super) fn of(object: &Value, status: Option<&FlowStatus>) -> Self {
        let packed = status.and_then(|status| status.steps_packed.as_ref());
        Self {
            status: object.get("status").cloned().unwrap_or(Value::Null),
            version: text(object, "/metadata/resourceVersion"),
            least: status.map(Level::of).unwrap_or_default(),
            refs: packed.map(|packed| packed.refs.clone()).unwrap_or_default(),
            ..Self::default()
        }
    }
}

impl Stored {
    /// Whether an object has the status that is known, or the one that was sent and not answered, which is known to have
    /// arrived then.
    pub(super) fn is_still(&mut self, object: &Value) -> bool {
        let version = text(object, "/metadata/resourceVersion");
        if version == self.version {
            return true;
        }
        let nothing = Value::Null;
        let status = object.get("status").unwrap_or(&nothing);
        let arrived = self.unanswered.as_ref().is_some_and(|sent| same(status, sent));
        if arrived {
            let refs = status.pointer("/stepsPacked/refs").and_then(Value::as_array);
            let names = refs.into_iter().flatten().filter_map(Value::as_str);
            self.refs = names.map(str::to_owned).collect();
            self.status = status.clone();
            self.unanswered = None;
        }
        let still = arrived || same(status, &self.status);
        if still {
            self.version = version;
        }
        still
    }
}

/// Whether two statuses say the same. When a flow is expected to end is no reason to write.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    let members = |value: &Value| {
        let mut members = value.as_object().cloned().unwrap_or_default();
        members.remove("estimatedCompletionTime");
        members
    };
    members(a) == members(b)
}

impl Memory {
    pub(super) fn new(
        owner: FlowOwner,
        plan: Arc<Plan>,
        hash: String,
        state: State,
        stored: Stored,
        monitor: Arc<dyn Monitor>,
    ) -> Self {
        let is_new = stored.status.as_object().is_none_or(serde_json::Map::is_empty);
        Self {
            owner,
            plan,
            state,
            hash,
            compared: None,
            claim: None,
            queue: VecDeque::new(),
            waiting: BTreeMap::new(),
            later: Vec::new(),
            unnamed: BTreeSet::new(),
            unstored: Vec::new(),
            over_quota: BTreeMap::new(),
            resources_over_quota: false,
            removals: BTreeMap::new(),
            pods: BTreeMap::new(),
            failed_pods: BTreeMap::new(),
            forget: Vec::new(),
            forget_at: None,
            forget_failures: 0,
            notices: Notices::default(),
            delays: BTreeMap::new(),
            stored,
            dirty: is_new,
            urgent: is_new,
            adopted_an_end: false,
            read_newer: false,
            is_new,
            failed: false,
            shared: OnceLock::new(),
            monitor,
        }
    }

    /// Artifacts that stay where they are.
    pub(super) fn shared(&self) -> &SharedArtifacts {
        self.shared.get_or_init(|| SharedArtifacts::of(self.plan.spec()))
    }

    /// Its key among all flows.
    pub(super) fn key(&self) -> Key {
        Key { namespace: self.owner.namespace.clone(), name: self.owner.name.clone() }
    }

    /// Whether the spec of an object is another than that of the plan.
    pub(super) fn is_changed(&mut self, object: &Value) -> bool {
        let generation = object.pointer("/metadata/generation").and_then(Value::as_i64);
        if let (Some(generation), Some((known, changed))) = (generation, self.compared)
            && generation == known
        {
            return changed;
        }
        let changed = spec_hash(object) != self.hash;
        self.compared = generation.map(|generation| (generation, changed));
        changed
    }

    /// Applies an event to the state.
    pub(super) fn apply_event(&mut self, event: &FlowEvent, now: Time) {
        let mut effects = Vec::new();
        let (began, fenced) = (self.monitor.now(), self.state.fenced());
        apply(&self.plan, &mut self.state, event, now, &mut effects);
        let (took, fenced) = (self.monitor.now().saturating_sub(began), self.state.fenced() > fenced);
        self.monitor.record(ControllerEvent::EventApplied { event, took, fenced });
        self.take(effects, now);
    }

    /// Takes in what the engine wants done.
    pub(super) fn take(&mut self, effects: Vec<FlowEffect>, now: Time) {
        for effect in effects {
            let key = effect.key();
            match effect {
                FlowEffect::RecordEvent(notice) => self.notices.add(notice, key, now),
                FlowEffect::StatusChanged { urgent, .. } => {
                    self.dirty = true;
                    self.urgent |= urgent;
                }
                FlowEffect::ForgetAttempt { at, attempt, after } => self.forget.push(((at, attempt), after)),
                // A flow that is over is reconciled without a memory.
                FlowEffect::DeleteFlow => {}
                effect => self.queue.push_back(effect),
            }
        }
    }

    /// Moves what is due from later to now.
    pub(super) fn wake_later(&mut self, now: Time) {
        let (due, later) = std::mem::take(&mut self.later).into_iter().partition(|(at, _)| *at <= now);
        self.later = later;
        let due: Vec<(Time, FlowEffect)> = due;
        self.queue.extend(due.into_iter().map(|(_, effect)| effect));
    }

    /// Whether an effect has to wait until the status is stored: a Job that no stored status names would be made again by a
    /// controller which takes over and does not find it.
    pub(super) fn waits_for_status(&mut self, effect: &FlowEffect) -> bool {
        let waits =
            matches!(effect, FlowEffect::CancelAttempt { at, attempt, .. } if self.unnamed.contains(&(*at, *attempt)));
        self.dirty |= waits;
        self.urgent |= waits;
        waits
    }

    /// The status is stored as it is now.
    pub(super) fn record_stored(&mut self) {
        (self.dirty, self.urgent, self.is_new) = (false, false, false);
        self.unnamed.clear();
        self.queue.extend(self.unstored.drain(..));
    }

    /// How often something was put off before; counts once more.
    pub(super) fn put_off(&mut self, key: &str) -> u32 {
        self.failed = true;
        let count = self.delays.entry(key.to_owned()).or_default();
        *count = count.saturating_add(1);
        *count - 1
    }

    /// Something was done that may have been put off before.
    pub(super) fn done(&mut self, key: &str) {
        self.delays.remove(key);
    }
}
