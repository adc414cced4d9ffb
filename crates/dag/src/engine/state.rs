//! The state of a flow: a plain value that can be written down and read back. Owns the records; what is derived from
//! them for speed lives in `index`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use orlop_core::attempt::Address;
use orlop_core::machine::flow::FlowPhase;
use orlop_core::machine::step::{StepOutcome, StepState};
use orlop_core::spec::flow::SuspendMode;
use orlop_core::spec::meta::ObjectReference;
use orlop_core::spec::status::{ApprovalRecord, ConditionStatus, StepOutputs};
use orlop_core::time::Time;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::index::Index;
use super::waits::Waits;
use crate::plan::Plan;

/// A word or sentence, mostly one of ours.
pub(crate) type Text = Cow<'static, str>;

/// The data of a flow beside its plan, fixed at its submission. The default has no name and no limits, which is enough for tests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FlowMeta {
    /// Unique id.
    pub uid: String,
    /// Name.
    pub name: String,
    /// Namespace.
    pub namespace: String,
    /// Labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Values of flow parameters that are not secret.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
    /// The most attempts that may run at once; the flow's own `parallelism` may lower it. None: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_live: Option<u32>,
    /// SHA-256 of the canonical spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec_hash: Option<String>,
    /// Generation of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
}

/// The state of a flow. Read it through [`view`](super::view), [`step_status`](super::step_status) and the methods here.
///
/// [`init`](super::init) makes it, [`apply`](super::apply) changes it, [`snapshot`](super::snapshot) and
/// [`restore`](super::restore) keep it.
///
/// ```
/// use orlop_core::attempt::Address;
/// use orlop_dag::prelude::*;
/// let plan = Plan::build(FlowSpec::new([Step::new("a")]).into())?;
/// let (mut effects, now, at) = (Vec::new(), Time::from_millis(0), Address::step(0));
/// let mut state = init(&plan, &FlowMeta::default(), now, &mut effects);
/// apply(&plan, &mut state, &FlowEvent::Admit, now, &mut effects);
/// assert_eq!(state.live().collect::<Vec<_>>(), [(at, 1)], "the first attempt is to be started");
/// let accepted = FlowEvent::AttemptAccepted { at, attempt: 1, reference: Default::default() };
/// apply(&plan, &mut state, &accepted, now, &mut effects);
/// assert_eq!(state.phase().to_string(), "Running");
/// # Ok::<(), PlanErrors>(())
/// ```
#[derive(Clone, Debug)]
pub struct State {
    pub(super) flow: Flow,
    pub(super) nodes: Vec<Node>,
    pub(super) groups: BTreeMap<u32, Group>,
    pub(super) index: Index,
}

/// What is recorded of the flow as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Flow {
    pub(super) meta: Arc<FlowMeta>,
    pub(super) now: Time,
    pub(super) revision: u64,
    pub(super) started: Option<Time>,
    pub(super) completed: Option<Time>,
    pub(super) stage: Stage,
    pub(super) phase: FlowPhase,
    pub(super) resources: Resources,
    pub(super) blocked: Option<(Text, String)>,
    pub(super) suspended: bool,
    pub(super) mode: SuspendMode,
    pub(super) held: bool,
    pub(super) paused_at: Option<Time>,
    pub(super) paused_millis: u64,
    pub(super) suspensions: u32,
    /// Why steps that have not started will not: the first halt.
    pub(super) halt: Option<Text>,
    /// Why live attempts of the steps are cancelled: the first halt that cancels.
    pub(super) cancel: Option<Text>,
    /// The same two for `finally`, which only a hard stop halts.
    pub(super) final_halt: Option<Text>,
    /// Everything that makes the flow fail, in order of time, each reason once.
    pub(super) causes: Vec<Cause>,
    /// Orders of people that cut something off; others do not make the flow fail.
    pub(super) cut: Vec<Text>,
    pub(super) outcome: Option<Outcome>,
    pub(super) left_pending: bool,
    pub(super) deadline: Option<Time>,
    pub(super) ttl_due: Option<Time>,
    pub(super) final_written: bool,
    pub(super) deleted: bool,
    pub(super) retries: u32,
    pub(super) output_bytes: u64,
    pub(super) attempt_millis: u64,
    pub(super) attempts_ended: u64,
    pub(super) fenced: u64,
    pub(super) conditions: BTreeMap<Text, (ConditionStatus, Time)>,
    /// What instances hand over whose fan-out has not begun, by step and index.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) imports: BTreeMap<u32, BTreeMap<u32, StepOutputs>>,
}

/// Which part of the flow is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Stage {
    /// The steps.
    #[default]
    Main,
    /// The `finally` steps.
    Finally,
    /// Neither: the flow is terminal.
    Over,
}

/// Whether the resource templates exist.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) enum Resources {
    /// Nobody has asked for them.
    #[default]
    Unasked,
    /// They were asked for.
    Asked,
    /// They exist.
    Ready(Vec<ObjectReference>),
}

/// Why a flow ends, and what to tell people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Cause {
    pub(super) reason: Text,
    pub(super) message: String,
}

/// How the steps, or the whole flow, came out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Outcome {
    pub(super) good: bool,
    pub(super) cause: Option<Cause>,
}

/// What is recorded of a step or instance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Node {
    #[serde(rename = "s")]
    pub(super) state: StepState,
    /// Settled: its reason. Cancelling: the cause. Backoff: the last reason. Starting: why it is delayed.
    #[serde(rename = "r", default, skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<Text>,
    #[serde(rename = "m", default, skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<Box<str>>,
    #[serde(rename = "n", default, skip_serializing_if = "is_zero")]
    pub(super) retries: u32,
    #[serde(rename = "l", default, skip_serializing_if = "is_zero")]
    pub(super) lost: u32,
    #[serde(rename = "c", default, skip_serializing_if = "is_zero")]
    pub(super) counted: u32,
    /// Whether any attempt was ever asked for; of a fan-out, of any instance.
    #[serde(rename = "q", default, skip_serializing_if = "is_zero")]
    pub(super) asked: bool,
    /// Whether the current attempt exists or existed.
    #[serde(rename = "x", default, skip_serializing_if = "is_zero")]
    pub(super) ran: bool,
    #[serde(rename = "b", default, skip_serializing_if = "Option::is_none")]
    pub(super) started: Option<Time>,
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    pub(super) ended: Option<Time>,
    /// When the timer of the current state fires.
    #[serde(rename = "d", default, skip_serializing_if = "Option::is_none")]
    pub(super) due: Option<Time>,
    /// Since when the attempt is suspended.
    #[serde(rename = "p", default, skip_serializing_if = "Option::is_none")]
    pub(super) frozen: Option<Time>,
    /// How long the attempt was suspended before, in milliseconds.
    #[serde(rename = "w", default, skip_serializing_if = "is_zero")]
    pub(super) stood: u64,
    /// What an accepted attempt waits for.
    #[serde(rename = "wt", default, skip_serializing_if = "Option::is_none")]
    pub(super) waits: Option<Box<Waits>>,
    /// What is left of a cancelled attempt that should be gone.
    #[serde(rename = "lf", default, skip_serializing_if = "Option::is_none")]
    pub(super) left: Option<Box<str>>,
    #[serde(rename = "j", default, skip_serializing_if = "Option::is_none")]
    pub(super) job: Option<Box<ObjectReference>>,
    #[serde(rename = "o", default, skip_serializing_if = "Option::is_none")]
    pub(super) outputs: Option<Box<StepOutputs>>,
    #[serde(rename = "a", default, skip_serializing_if = "Option::is_none")]
    pub(super) approval: Option<Box<ApprovalRecord>>,
}

fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Node {
    /// Number of the current attempt: 1 + retries + losses.
    pub(super) fn attempt(&self) -> u32 {
        1_u32.saturating_add(self.retries).saturating_add(self.lost)
    }

    pub(super) fn failed(&self) -> bool {
        self.state == StepState::Done(StepOutcome::Failed)
    }

    /// Whether its start was put off for want of room or of an answer.
    pub(super) fn is_short(&self) -> bool {
        self.state == StepState::Starting && self.reason.as_deref().is_some_and(super::reason::is_short)
    }

    /// Whether a halt has ended its attempt.
    pub(super) fn was_cancelled(&self) -> bool {
        self.failed()
            && self.reason.as_deref().is_some_and(super::reason::is_halt)
            && self.message.as_deref() == Some(super::phrase::CANCELLED)
    }

    /// Forgets what belonged to the last attempt.
    pub(super) fn clear_attempt(&mut self) {
        *self = Self {
            state: self.state,
            retries: self.retries,
            lost: self.lost,
            counted: self.counted,
            asked: self.asked,
            approval: self.approval.take(),
            ..Self::default()
        };
    }
}

/// The instances of a fan-out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Group {
    /// The items, where the spec does not list them; absent while a restored flow reads them again.
    pub(super) items: Option<Arc<Vec<Value>>>,
    pub(super) nodes: Vec<Node>,
}

impl State {
    pub(super) fn node(&self, at: Address) -> Option<&Node> {
        match at.item {
            None => self.nodes.get(at.step.0 as usize),
            Some(item) => self.groups.get(&at.step.0)?.nodes.get(item as usize),
        }
    }

    pub(super) fn node_mut(&mut self, at: Address) -> Option<&mut Node> {
        match at.item {
            None => self.nodes.get_mut(at.step.0 as usize),
            Some(item) => self.groups.get_mut(&at.step.0)?.nodes.get_mut(item as usize),
        }
    }

    /// Why steps of this part that have not started will not: the first halt.
    pub(super) fn halted(&self, finally: bool) -> Option<&Text> {
        if finally { self.flow.final_halt.as_ref() } else { self.flow.halt.as_ref() }
    }

    /// Why live attempts of this part are cancelled.
    pub(super) fn cancels(&self, finally: bool) -> Option<&Text> {
        if finally { self.flow.final_halt.as_ref() } else { self.flow.cancel.as_ref() }
    }

    /// Notes that a unit has left Pending.
    pub(super) fn note_left(&mut self, at: Address) {
        self.flow.left_pending = true;
        if let (Some(_), Some(group)) = (at.item, self.index.groups.get_mut(&at.step.0)) {
            group.begun = true;
        }
    }

    /// Notes a failure that is tolerated.
    pub(super) fn note_failure(&mut self, plan: &Plan, at: Address) {
        let node = match at.item {
            None => self.nodes.get(at.step.0 as usize),
            Some(item) => self.groups.get(&at.step.0).and_then(|group| group.nodes.get(item as usize)),
        };
        if let Some(node) = node {
            self.index.note_failure(plan, at, node);
        }
    }

    /// Whether the flow was admitted and a step has left Pending.
    pub(super) fn has_begun(&self) -> bool {
        self.flow.left_pending && self.flow.started.is_some()
    }

    /// The first Manual step that waits for a decision, in a part that is not halted.
    pub(super) fn first_awaiting(&self, plan: &Plan) -> Option<u32> {
        let main = u32::try_from(plan.main_len()).unwrap_or(u32::MAX);
        let from = |finally: bool| if finally { main..u32::MAX } else { 0..main };
        let first = |finally: bool| self.index.awaiting.range(from(finally)).next().copied();
        [false, true].into_iter().find_map(|finally| first(finally).filter(|_| self.halted(finally).is_none()))
    }

    /// What the flow as a whole waits for (condition `Blocked`): its key or its resources; later on, while no attempt runs,
    /// what the first start waits for that was put off.
    pub(super) fn blocked(&self) -> Option<(&str, &str)> {
        if let Some((why, message)) = &self.flow.blocked {
            return Some((why, message));
        }
        let runs = self.index.parts.iter().any(|part| part.running > 0);
        let first = self.index.short.first().filter(|_| !runs && !self.is_paused())?;
        let node = self.node(*first)?;
        Some((node.reason.as_deref()?, node.message.as_deref().unwrap_or_default()))
    }

    /// Whether nothing may start for now.
    pub(super) fn is_paused(&self) -> bool {
        self.flow.suspended || self.flow.held
    }

    /// The item of a fan-out instance, while it is known.
    #[must_use]
    pub fn item<'a>(&'a self, plan: &'a Plan, at: Address) -> Option<&'a Value> {
        let item = at.item? as usize;
        match plan.step(at.step).and_then(|step| step.with_items.as_ref()) {
            Some(items) => items.get(item),
            None => self.groups.get(&at.step.0)?.items.as_ref()?.get(item),
        }
    }

    /// Whether a settled step lets its dependents proceed.
    pub(super) fn is_satisfied(&self, plan: &Plan, at: Address) -> bool {
        let strict = plan.policy().skip == orlop_core::spec::policy::SkipPolicy::Strict;
        let Some(node) = self.node(at) else { return false };
        match node.state {
            // A fan-out is satisfied when all its instances are.
            StepState::Done(StepOutcome::Succeeded) => {
                !strict || self.index.groups.get(&at.step.0).is_none_or(|group| group.skipped == 0)
            }
            StepState::Done(StepOutcome::Failed) => plan.failure(at.step).satisfies,
            StepState::Done(StepOutcome::Skipped) => {
                !strict && node.reason.as_deref() == Some(super::reason::CONDITION_FALSE)
            }
            _ => false,
        }
    }

    /// The flow's phase when the engine was last called.
    #[must_use]
    pub fn phase(&self) -> FlowPhase {
        self.flow.phase
    }

    /// What live attempts do while the flow is suspended; meaningless while it is not.
    #[must_use]
    pub fn suspend_mode(&self) -> SuspendMode {
        self.flow.mode
    }

    /// Number of the last change; grows with every change and never otherwise.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.flow.revision
    }

    /// Number of events that changed nothing because their attempt was not the current one.
    #[must_use]
    pub fn fenced(&self) -> u64 {
        self.flow.fenced
    }

    /// The data that were fixed at submission.
    #[must_use]
    pub fn meta(&self) -> &FlowMeta {
        &self.flow.meta
    }

    /// The latest time that the engine was given.
    #[must_use]
    pub const fn now(&self) -> Time {
        self.flow.now
    }

    /// Attempts that are started and not known to have ended, in order.
    pub fn live(&self) -> impl Iterator<Item = (Address, u32)> {
        self.index.live.iter().filter_map(|at| Some((*at, self.node(*at)?.attempt())))
    }

    /// Whether the items of a fan-out step are known. Those of `withItems` always are; those of `withParam` once the host has read them.
    #[must_use]
    pub fn knows_items(&self, at: Address) -> bool {
        self.index.groups.get(&at.step.0).is_some_and(|group| !group.unread)
    }

    /// The current attempt of a step or instance: its state and number as recorded. What a halt has skipped without
    /// touching it shows in [`super::step_status`] only.
    #[must_use]
    pub fn attempt(&self, at: Address) -> Option<(StepState, u32)> {
        self.node(at).map(|node| (node.state, node.attempt()))
    }

    /// Whether the time limit of a live attempt stands still: the flow is suspended with mode `Suspend`.
    #[must_use]
    pub fn is_frozen(&self, at: Address) -> bool {
        self.node(at).is_some_and(|node| node.frozen.is_some())
    }
}
